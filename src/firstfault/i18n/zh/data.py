"""Chinese messages of the reports about data and about trials; text only, the keys as in `firstfault.i18n.en_data`."""

from __future__ import annotations

DATA_CHECK: dict[str, str] = {
    "data.ranks": "rank {ranks}：",
    "data.names": "例如：{names}",
    "data.trial": "试跑",
    "data.per_rank": "每个 rank 的样本数或 batch 数：{least} 到 {most} (已知 {known} 个 rank，共 {world} 个)",
    "data.slowest": "最慢的样本",
    "data.files": "文件",
    "data.more": "另有 {n} 个 (见 `--format json`)",
    "data.rank": "rank",
    "data.end": "结束方式",
    "data.batches": "batch 数",
    "data.items": "样本数",
    "data.failed": "失败",
    "data.first": "首个",
    "data.median": "中位",
    "data.p99": "p99",
    "data.longest": "最长",
    "data.memory": "内存",
    "data.shm": "shm",
    "data.workers": "worker:样本数",
    "data.worker": "worker",
    "data.item": "样本",
    "data.kind": "类型",
    "data.bytes": "字节",
    "data.hours": "小时",
}
