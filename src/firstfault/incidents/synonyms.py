"""Other names of the commonest faults, in both languages: who searches for one means them all.

Only names of one and the same fault stand together; a likeness is none. Must not search.
"""

from __future__ import annotations

import re

NAMES: tuple[tuple[str, ...], ...] = (
    (
        "out of memory",
        "oom",
        "outofmemoryerror",
        "显存溢出",
        "显存不足",
        "爆显存",
        "内存溢出",
        "内存不足",
        "显存",
        "内存",
    ),
    ("nan", "not finite", "非有限", "数值异常"),
    ("timed out", "timeout", "超时"),
    ("hang", "hung", "stuck", "挂起", "卡住", "卡死"),
    ("no space left", "disk full", "enospc", "磁盘满", "磁盘已满", "空间不足"),
    ("stale file handle", "estale", "文件句柄失效"),
    ("connection reset", "econnreset", "连接重置", "连接被重置"),
    ("connection refused", "econnrefused", "连接被拒绝"),
    ("permission denied", "eacces", "权限不足", "没有权限"),
    ("xid", "fallen off the bus", "掉卡"),
)
MOST = 9
"""Other texts at most: each is a search of its own."""


def other_names(text: str) -> list[str]:
    """The same question with another name of the fault that it names; none where it names none that has others."""
    low = " ".join(text.lower().split())
    for names in NAMES:
        # The longest name first: `out of memory` is no memory that is out.
        for name in sorted(names, key=len, reverse=True):
            found = re.search(_whole(name), low)
            if found is not None:
                changed = (low[: found.start()] + other + low[found.end() :] for other in names if other != name)
                return list(dict.fromkeys(changed))[:MOST]
    return []


def _whole(name: str) -> str:
    return rf"(?<![a-z0-9_]){re.escape(name)}(?![a-z0-9_])" if name.isascii() else re.escape(name)
