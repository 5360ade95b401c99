"""Chinese messages of the report about settings; text only, the keys as in `firstfault.i18n.en_config`."""

from __future__ import annotations

CONFIG_CHECK: dict[str, str] = {
    "config.ok": "没有发现问题",
    "config.warn": "需要留意",
    "config.fail": "会失败",
    "config.unknown": "无法检查",
    "results.trial": "试验",
    "results.state": "状态",
    "results.note": "说明",
    "config.files": "文件",
    "config.world": "rank 数",
    "config.world_from": "{n} (按 {source})",
    "config.fails": "会让任务停住或改变其行为的",
    "config.warns": "需要留意",
    "config.not_checkables": "没有检查",
    "config.oks": "正确的",
    "config.why": "原因：{text}",
    "config.message": "程序会报：{text}",
    "config.signature": "日志中的样子：{text}",
    "config.fix": "怎么办：{text}",
    "config.more": "另有 {n} 项正确或无法检查 ({option})",
}
