"""Chinese messages of the reports about checks before a run and about environments; text only, the keys as in `firstfault.i18n.en_preflight`."""

from __future__ import annotations

PREFLIGHT: dict[str, str] = {
    "preflight.ok": "可以运行",
    "preflight.warn": "可以运行，有警告",
    "preflight.fail": "不能运行",
    "preflight.fails": "会让任务起不来",
    "preflight.warns": "需要留意",
    "preflight.unchecked": "此处无法检查",
    "preflight.fine": "正常",
    "preflight.on": "位于 {where}",
    "preflight.ranks": "rank {ranks}",
    "preflight.todo": "怎么办：{fix}",
    "preflight.why": "原因：{why}",
    "preflight.prevents": "可避免：{names}",
    "preflight.more": "`--all` 会说明每一项看到了什么，以及为什么要检查。",
    "preflight.nodes": "机器",
    "column.ranks": "rank",
    "column.clock": "时钟",
    "column.zone": "时区",
    "environment.comparable": "可比",
    "environment.not_comparable": "不可比",
    "environment.unknown": "无法判断",
    "environment.decides": "起决定作用的差异",
    "environment.minor": "不起决定作用的差异",
    "environment.open": "有一方未知",
    "environment.same": "相同：{names}",
    "column.what": "内容",
    "column.first": "第一个",
    "column.second": "第二个",
}
