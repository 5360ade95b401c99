"""Masks what changes between two runs of one fault: hosts, paths, addresses, numbers. Must not drop a code that names a fault."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.privacy.identities import Identities

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = "2"
"""Of the mask; it moves whenever a message comes out otherwise, so that older records are told and brought up to date."""
LONGEST = 300
"""Characters of a message that are looked at: what follows are details of the moment."""
MASKED = 120
"""Characters of a masked message: of a longer line only a part is at hand, and how much of it is names of the moment."""
_ANSI = lazy(r"(?:\x1b|\\x1b)\[[0-9;]*[A-Za-z]")
_URL = lazy(r"\b[a-z][a-z0-9+.-]*://\S+")
_WINDOWS = lazy(r"\b[A-Za-z]:\\[^\s'\",;]+|\\\\[^\s'\",;]+")
_PATH = lazy(r"(?<![\w<])~?(?:/[^\s/'\"`,;:()\[\]{}<>=]+)+/?")
_INSIDE = lazy(r"(?<![\w/<])[\w.@+-]+(?:/[\w.@+=-]+){2,}|(?<![\w/<])[\w.@+-]+/[\w@+=-]+\.[A-Za-z]\w{0,7}\b")
_METER = lazy(r"[:\s]*\d{1,3}%\|.*", re.DOTALL)
_ADDRESS = lazy(
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?:[:<]\d{1,5}>?)?|\[?(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{0,4}\]?(?::\d+)?"
)
_UUID = lazy(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = lazy(r"\b0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b")
_PCI = lazy(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b(?!:)")
_KEPT = lazy(
    r"(?i)\bxid\b(?: \([^)]*\))?:? \d{1,3}\b|\b(?:errno|http(?:/\d(?:\.\d)?)?|status(?: code)?|error(?: code)?|retcode|code|signal|exit(?:ed)?(?: with)?(?: code)?|exitcode|err|rc)\b[\s:=(\[]{0,3}-?\d{1,5}\b|\(\d{3}\)"
)
_PSEUDONYM = lazy(r"\b(?:path|folder|file|bucket|host|user|addr|mail|uid|device|account|role)-(?:\d+|[0-9a-f]{10})\b")
_NUMBER = lazy(
    r"(?<![A-Za-z0-9])-?\d[\d_]*(?:[.,]\d+)*(?:[eE][+-]?\d+)?(?: ?(?:[KMGTP]i?B|[kKMGT]|ms|s|us|bytes?|%)\b)?|\d+"
)
_RUN = lazy(r"#(?:\s*(?:,|;|and|x|×|-|to|:|\.)\s*#)+")
_BAR = lazy("[█▉▊▋▌▍▎▏━─=>]{2,}|[█▉▊▋▌▍▎▏]")
_CLASS = lazy(r"^((?:[A-Za-z_]\w*\.)+)(?=[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Fault)\b)")
_NCCL = lazy(r"^[\w.-]+:\d+:\d+ (?=\[\d+\] )")
"""Host, process and thread before a line of NCCL: `gpu-n07:812:901 [3] misc/socket.cc:57 NCCL WARN …`."""
_OF_JOB = r"(?:python[\d.]*|pt_\w+|ray::[\w.:]+)"
_PROCESS = lazy(
    r"\bpid=(?:'?<unknown>'?|\d+), name=(?:'?<unknown>'?|[^\s,]+)"
    rf"|(?<=[Pp]rocess )\d+ \({_OF_JOB}\)|\btask {_OF_JOB}:\d+(?= blocked)"
)
"""A process as a kernel names it: `pid=7712, name=pt_main_thread` or, of the same fault, `pid='<unknown>', name=<unknown>`.

Which program ran out of memory is no detail: only the names that one job has under many forms are one.
"""
_SENTENCE = lazy(r"(?<=[A-Za-z\])>'\"#]{2})\. (?=[A-Z])|; |\n")
_STAMP = lazy(
    r"^(?:\s*[\[(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])]?:?|\s*[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\s*\[\s*\d+\.\d+\])\s*"
)


def mask(text: str, hosts: Iterable[str] = ()) -> str:
    """The message of a line without what differs from run to run.

    Args:
        text: a message, from where it begins.
        hosts: names that are known to be hosts.

    Returns:
        At most `MASKED` characters on one line; `#` stands for numbers, `<path>` and the like for names.
    """
    # A NUL is ours below: it stands before the place of what is kept.
    text = _NCCL.sub("", _STAMP.sub("", _ANSI.sub("", text[: 4 * LONGEST].replace("\x00", " "))))
    text = _PROCESS.sub("<process>", text)
    people = Identities()
    people.learn_hosts(sorted(hosts))
    people.learn(text)
    text = _URL.sub("<url>", _METER.sub("", text))
    text = _WINDOWS.sub(_extension, text)
    text = _PATH.sub(_extension, text)
    text = _INSIDE.sub(_extension, text)
    text = _PSEUDONYM.sub(lambda m: f"<{m.group().partition('-')[0]}>", people.clean(text)).replace("<addr>", "<host>")
    text = _UUID.sub("<id>", text)
    text = _ADDRESS.sub("<host>", text)
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group())
        return f"\x00{chr(0xE000 + len(kept) - 1)}"

    text = _KEPT.sub(keep, text)
    for pattern in (_HEX, _PCI, _NUMBER):
        text = pattern.sub("#", text)
    text = _BAR.sub("", text)
    for _ in range(2):
        text = _RUN.sub("#", text)
    text = re.sub("\x00([\ue000-\uf8ff])", lambda m: kept[ord(m[1]) - 0xE000], text)
    text = _CLASS.sub("", " ".join(text.split()))
    return _SENTENCE.split(text, maxsplit=1)[0][:MASKED].strip()


def _extension(match: re.Match[str]) -> str:
    last = match.group().rstrip("/").replace("\\", "/").rpartition("/")[2]
    _, dot, ending = last.rpartition(".")
    return f"<path>.{ending}" if dot and ending.isalpha() and len(ending) <= 8 else "<path>"
