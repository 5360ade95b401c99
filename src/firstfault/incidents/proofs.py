"""Whether what a person wrote down as the output of a check may show anything: a failure, or no answer, is no proof.

Must not ask what the check was for: that is for a person to read.
"""

from __future__ import annotations

import re

from firstfault.model.lazy import lazy

_GONE = lazy(
    r"\b(?:no|0|zero|without(?: any)?|free of|never|not a single) (?:more )?(?:\w+ ){0,2}?(?:fail\w*|errors?|crash\w*|exceptions?|tracebacks?|timeouts?|hangs?)\b"
    r"|\b(?:does|do|did|is|are|has) ?(?:not|n't)(?: \w+)? (?:fail|crash|hang|raise|recur|come back|appear|happen|stall)\w*"
    r"|\b(?:fail\w*|errors?)\s*[:=]\s*0\b|\b(?:raises?|gives?|shows?|a clear|the expected|expected) (?:\w+ )?error\b|\berror comes up\b"
    r"|(?:没有|无|未|不再|0 ?个)(?:再)?(?:出现|发生|任何)?(?:报错|失败|错误|异常|崩溃|超时|挂起|复现)",
    re.IGNORECASE,
)
"""What failed no more, or fails as it should."""
_BAD = lazy(
    r"\bfail(?:s|ed|ing|ure|ures)?\b|\berrors?\b|\btraceback\b|\bcrash(?:es|ed)?\b|\bhangs?\b|\bhung\b|\bkilled\b|\baborted\b"
    r"|\b(?:does|do|did|could|can|would|will) ?(?:not|n['’]t)\b|\bcannot\b|\bnot ok\b|\bunable\b"
    r"|(?:is|are|was|were) ?(?:not|n['’]t) (?:ok|working|fixed|there|equal|reachable|running|started|solved|resolved|found|available)\b"
    r"|\b(?:exit(?:ed)?(?: with)?(?: code| status)?|rc|returncode|return code)\s*[:=]?\s*-?[1-9]\d*\b|\bstill (?:there|broken|wrong|slow|the same)\b"
    r"|\bsegmentation fault\b|\bout of memory\b|失败|报错|出错|错误|崩溃|不行|不能|无法|没有成功|未通过|不通过|没通过|仍然|依旧|还是不",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"\W*(?:n\W?a|none|null|nil|unknown|tb[ad]|to ?do|pending|untested|not (?:yet )?(?:run|tested|done|checked|known)|later|\?+|x|-+|no|nothing|"
    r"empty|待定|待填|未知|未测|未验证|暂无|无|没有)?\W*",
    re.IGNORECASE,
)


def lack_of(output: str) -> str:
    """Why an output shows nothing, in words; empty where it may."""
    if _NOTHING.fullmatch(output):
        return "it tells no result"
    return "it tells of a failure" if _BAD.search(_GONE.sub(" ", output)) is not None else ""
