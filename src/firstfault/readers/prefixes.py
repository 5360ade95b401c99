"""The prefix families of launchers, schedulers, collectors and loggers, read one token after the other.

Takes only what the text states; which label style a whole source has is told by its profile. Knows nothing of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.readers.chain import Chain
from firstfault.readers.json_prefix import json_record

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.wrapping import Wrapping

MOST_TOKENS = 16
LEVELS = rb"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS|ALWAYS)"

_SKIP = lazy(rb"(?:[ \t\x00]|\x1b\[[0-9;?]*[A-Za-z])+")
_OF_ALL = rb"(?: ?/ ?\d{1,6}| of \d{1,6})?"
"""How many ranks there are, as programs write it behind the number of one: `rank 3/8`, `rank 3 of 8`."""
_BESIDE_RANK = rb"(?: ?/ ?\d{1,6}| of \d{1,6}| ?[,|] ?(?![\d\s])[^\[\]\n]{1,60})?"
"""The same inside brackets, or anything else that no number begins: `[rank 3 | step 10]`, but no list of ranks."""
_BRACKET = lazy(
    rb"\[(?:"
    rb"rank(?P<stream>\d{1,6})\]: ?"
    rb"|(?P<role>[A-Za-z_]{3,20})(?P<local>\d{1,4})\]:"
    rb"|\d{1,6},(?:mpirank:)?(?P<mpi>\d{1,6})(?:,(?P<mpihost>[\w.\-]{1,100}))?\]<std\w{2,4}>: ?"
    rb"|PG (?:ID \d+ PG GUID )?(?P<guid>[^\s(\]]{1,64}) ?(?:\((?P<desc>[^)\n]{0,80})\))? ?Rank (?P<group_rank>\d{1,6})\] ?"
    rb"|(?P<word>[Rr]ank|RANK|global[_ ]rank)(?P<mark>[:=]?) ?(?P<named>-?\d{1,6})" + _BESIDE_RANK + rb"\]:? ?"
    rb"|(?P<sev>[IWEFV])(?P<c10>\d{3,4})? {1,2}(?:[\d:.]{15,18} )?(?P<cfile>[^\s\]]{1,300}?):\d{1,6}\] ?"
    rb"|(?:NeMo )?(?P<nemo>[DIWEC]) (?=\d{4}-\d\d-\d\d )"
    rb"|(?P<nano>"
    + LEVELS
    + rb")\|(?P<axes>[A-Z]{1,6}=\d{1,6}(?:\|[A-Z]{1,6}=\d{1,6})*)\|(?P<nhost>[\w.\-]{1,100})\]: ?"
    rb"|(?P<hf>" + LEVELS + rb")(?:\||:)[\w.\-]{1,80}(?::\d{1,6})?\] ?"
    rb"|pod/(?P<pod>[\w.\-]{1,253})/[\w.\-]{1,63}\] ?"
    rb"|(?P<level>" + LEVELS + rb") ?\] ?"
    rb"|workload:(?P<wl>\d{1,6})\((?P<wl_local>\d{1,4})\)[^\]\n]{0,60}\] ?"
    rb"|<?[\w<>]{0,40}?(?P<nvpid>\d{2,8})@(?P<nvhost>[\w.\-]{1,100})(?::(?P<nvrank>\d{1,6}))?\] ?"
    rb"|(?P<file>[\w.\-/]{1,200}\.(?:py|cc|cpp|cu|h|go):\d{1,6}(?::[\w<>.]{1,80})?)\] ?"
    rb"|[Pp]rocess (?P<index>\d{1,6})\]:? ?"
    rb"|(?P<name>[A-Za-z_][\w.\-]{0,60})\](?::? |(?=\[)| - )"
    rb")",
)
_PROCESS = lazy(rb"p\d{1,6}")
_BARE_RANK = lazy(rb"rank(?P<rank>\d{1,6})")
"""As programs write it behind a logger's head: `main.py:61] [rank37] step 4`."""
_CLOSE = lazy(rb"[^\]\n]{0,80}?\]:? ?")
_NEMO_REST = lazy(rb" [\w\-.<>]{1,80}:\d{1,6}(?: rank:(?P<rank>\d{1,6}))?\] ?")
_GLOG_REST = lazy(rb" {1,7}\d{1,20} \S{1,300}?:\d{1,6}\] ?")
_HOST_PROCESS = lazy(rb" (?P<host>[A-Za-z0-9][\w.\-]{0,100}) (?:kernel|[\w.\-/()]{1,60}\[(?P<pid>\d{1,8})\]): ?")
_BEFORE_RANK = lazy(rb" (?=[A-Za-z0-9]*[\d.\-])[A-Za-z0-9][\w.\-]{0,100} (?=\[[Rr]ank ?\d{1,6}\])")
"""A machine's or a logger's name between a stamp and the label of a rank, as in `2026-05-04 09:01:00 gn0002 [rank3] step 1`."""
_CRI = lazy(rb" (?:stdout|stderr) [FP] ")
_NCCL = lazy(
    rb"(?!\d{4}-\d\d-\d\dT)(?P<host>[A-Za-z0-9][\w.\-]{0,100}):(?P<pid>\d{1,8}):\d{1,8} \[(?P<device>-?\d{1,3})\] "
)
_NODE_KMSG = lazy(
    rb"(?:(?P<host>[A-Za-z0-9][\w.\-]{0,100}): {1,3})?(?:kern|user|daemon|syslog|auth): {1,8}"
    rb"(?:emerg|alert|crit|err|warning|notice|info|debug): (?=\[\d{4}-\d\d-\d\dT)"
)
"""The kernel log of a node of Talos Linux: `10.1.2.3: kern: warning: [2026-04-22T21:25:20.458998481Z]: NVRM: ...`."""
_RAY = lazy(
    rb"\((?:(?P<actor>[A-Za-z_][^()\n=]{0,80}?),? )?(?:rank=(?P<rank>\d{1,6}), ?)?pid=(?P<pid>\d{1,8})(?:, ip=(?P<ip>[\w.:]{3,45}))?\)(?:\x1b\[[0-9;]*m)* ?"
)
_PAREN_RANK = lazy(rb"\((?:RANK|[Rr]ank)[:=]? ?(?P<rank>\d{1,6})" + _OF_ALL + rb"\):? ?")
_PAREN_FILE = lazy(rb"\([\w.\-]{1,80}\.py:? ?\d{1,6}\):? ?")
_LEVEL = lazy(
    rb"(?P<level>"
    + LEVELS
    + rb")(?::[\w.\-]{1,120}:|\s{0,6}[:|] ?|\s{1,6}-\s|\s{1,2}(?=[\[(]|\d\d-\d\d \d\d:\d\d:\d\d))"
)
_LEVEL_BARE = lazy(rb"(?P<level>" + LEVELS + rb")\s{1,6}")
_COMPOSER = lazy(rb"rank(?P<rank>\d{1,6})\[(?P<pid>\d{1,8})\]\[[\w\- ]{1,60}\]: ")
_RANK_WORD = lazy(rb"(?:[Rr]ank|RANK)[:=]? ?(?P<rank>\d{1,6})" + _OF_ALL + rb" ?(?:: |\| |- |\] )")
_NAME = lazy(rb"[A-Za-z_][\w.\-]{0,100}(?:: (?=\[" + LEVELS + rb"\])| - | \| |:(?=[\w./]{1,80}:\d{1,6}[: ]))")
_CALL_SITE = lazy(rb"[\w.<>/\-]{1,120}:(?:[\w<>.]{1,80}:)?\d{1,6}(?: - | \| |: |\] | )")
_SEPARATOR = lazy(rb"(?:-{1,2}|\||>>|:|=>|,|\])(?: |$)")
_KMSG = lazy(rb"<\d{1,3}>")
_LABEL = lazy(rb"(?P<label>[A-Za-z0-9][\w.\-]{0,100}): ?")
_TASK = lazy(rb"(?:P\d+ +)?(?P<task>\d{1,6}): ?")
_COMPOSE = lazy(rb"(?P<label>[A-Za-z0-9][\w.\-]{0,100}) +\| ?")
_STERN = lazy(rb"(?P<label>[a-z0-9][a-z0-9.\-]{2,252}) [a-z0-9][a-z0-9.\-]{0,62} ")
_LEVEL_LETTERS = {
    b"D": "DEBUG", b"V": "DEBUG", b"I": "INFO", b"W": "WARNING", b"E": "ERROR", b"C": "CRITICAL", b"F": "FATAL",
}  # fmt: skip
_GROUP_TEXT = (
    b"Watchdog caught",
    b"Some NCCL",
    b"NCCL watchdog",
    b"To avoid",
    b"Process group",
    b"Found key",
    b"Ranks ",
    b"Rank ",
    b"nccl",
)


def first_prefix(line: bytes, profile: SourceProfile) -> tuple[int, int | None]:
    """Where the first prefix of an unwrapped line ends, with a blank behind it (0 where it has none), and the process it names."""
    chain = Chain(0)
    end = _token(line, 0, chain, profile)
    if end is None:
        return 0, None
    return end + (line[end : end + 1] == b" "), chain.pid


_BLANK = frozenset((b" ", b"\t", b"\x00", b"\x1b"))


def parse_chain(segment: bytes, position: int, profile: SourceProfile) -> Chain:
    """Reads the prefixes that begin at a position, until the message begins."""
    chain = Chain(position)
    if profile.wrapping is not None and position == 0:
        _unwrap(segment, chain, profile.wrapping)
    for _ in range(MOST_TOKENS):
        here = chain.position
        skipped = _SKIP.match(segment, here) if segment[here : here + 1] in _BLANK else None
        at = here if skipped is None else skipped.end()
        end = _token(segment, at, chain, profile)
        if end is None or end <= here:
            if skipped is not None and (chain.tokens or b"\x1b" in skipped.group()):
                chain.starts.append(at)
            break
        chain.tokens += 1
        chain.position = end
        chain.starts.append(end)
    return chain


def _unwrap(segment: bytes, chain: Chain, wrapping: Wrapping) -> None:
    end = wrapping.end(segment)
    if end:
        chain.position = end
        chain.starts.append(end)
        chain.label = wrapping.file(segment)
        chain.alike = chain.label is None


def _token(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    byte = segment[at : at + 1]
    if not byte:
        return None
    style = profile.style if chain.tokens == 0 else profile.inner if chain.tokens == 1 else "none"
    if style in _STYLED:
        end = _STYLED[style](segment, at, chain, profile)
        if end is not None:
            return end
    reader = _BY_BYTE.get(byte)
    if reader is not None:
        return reader(segment, at, chain, profile)
    if byte.isdigit():
        return _digits(segment, at, chain, profile)
    if byte.isalpha():
        return _letters(segment, at, chain, profile)
    return _separator(segment, at, chain, profile)


def _bracket(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    found = _BRACKET.match(segment, at)
    if found is None:
        return _bracketed_stamp(segment, at, chain)
    last = found.lastgroup
    if last == "stream":
        _stream_rank(segment, found, chain, profile)
    elif last == "local":
        role = found["role"].decode()
        if role != "default" and role not in profile.roles:
            return None
        chain.take("local_rank", found, "local", number=True)
    elif last in {"mpi", "mpihost"}:
        chain.take("rank", found, "mpi", number=True)
        if last == "mpihost":
            chain.take("host", found, "mpihost")
    elif last == "group_rank":
        chain.take("group", found, "guid")
        chain.take("group_rank", found, "group_rank", number=True)
        chain.desc = None
        chain.take("desc", found, "desc")
    elif last == "named":
        _named_rank(segment, found, chain)
    elif last == "cfile":
        chain.level, chain.c10 = _LEVEL_LETTERS[found["sev"]], True
        if found["c10"] is not None:
            stamp = chain.stamp_at(segment, at + 1)
            if stamp is not None:
                chain.stamps.append(stamp)
    elif last == "nemo":
        return _nemo(segment, found, chain)
    elif last == "nhost":
        chain.level = found["nano"].decode()
        chain.take("host", found, "nhost")
        chain.take("label", found, "axes")
    elif last in {"hf", "level"}:
        chain.level = found[last].decode()
    elif last == "name" and _PROCESS.fullmatch(found["name"]) is not None:
        start, end = found.span("name")
        chain.take_span("label", segment, start + 1, end, before="process ")
    elif last == "index":
        chain.take("label", found, "index", before="process ")
    elif last == "name" and chain.rank is None and _BARE_RANK.fullmatch(found["name"]) is not None:
        start, end = found.span("name")
        chain.take_span("rank", segment, start + len("rank"), end, number=True)
    elif last == "pod":
        chain.take("label", found, "pod")
    elif last == "wl_local":
        chain.take("rank", found, "wl", number=True)
        chain.take("local_rank", found, "wl_local", number=True)
    elif last in {"nvhost", "nvrank"}:
        chain.take("pid", found, "nvpid", number=True)
        chain.take("host", found, "nvhost")
        chain.take("rank", found, "nvrank", number=True)
    return found.end()


def _stream_rank(segment: bytes, found: re.Match[bytes], chain: Chain, profile: SourceProfile) -> None:
    """`[rank3]:` is the global rank, except where a launcher's role is called "rank": then it counts within the node."""
    local = (
        profile.tee_rank
        and segment[found.end() - 1 : found.end()] == b":"
        and segment[found.end() : found.end() + 2] not in _C10_OPEN
    )
    chain.take("local_rank" if local else "rank", found, "stream", number=True)


_C10_OPEN = (b"[E", b"[W", b"[I", b"[F")


def _named_rank(segment: bytes, found: re.Match[bytes], chain: Chain) -> None:
    """`[Rank 3]` is a rank of a process group in torch's and NCCL's own lines, else the global rank."""
    if found["named"].startswith(b"-"):
        return
    if chain.c10 or chain.device is not None or segment.startswith(_GROUP_TEXT, found.end()):
        if chain.group_rank is None:
            chain.take("group_rank", found, "named", number=True)
    elif chain.rank is None:
        chain.take("rank", found, "named", number=True)


def _nemo(segment: bytes, found: re.Match[bytes], chain: Chain) -> int | None:
    stamp = chain.stamp_at(segment, found.end())
    if stamp is None:
        return None
    rest = _NEMO_REST.match(segment, stamp[1].end())
    if rest is None:
        return None
    chain.stamps.append(stamp)
    chain.level = _LEVEL_LETTERS[found["nemo"]]
    chain.take("rank", rest, "rank", number=True)
    return rest.end()


def _bracketed_stamp(segment: bytes, at: int, chain: Chain) -> int | None:
    stamp = chain.stamp_at(segment, at)
    if stamp is not None:
        chain.stamps.append(stamp)
        end = stamp[1].end()
        return end + (segment[end : end + 1] == b" ")
    stamp = chain.stamp_at(segment, at + 1)
    if stamp is None:
        return None
    close = _CLOSE.match(segment, stamp[1].end())
    if close is None or (stamp[0] == "time" and segment[close.start() : close.start() + 1] != b"]"):
        return None
    chain.stamps.append(stamp)
    return close.end()


def _digits(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    stamp = chain.stamp_at(segment, at)
    if stamp is not None:
        return _after_stamp(segment, stamp, chain, profile)
    return _node_kmsg(segment, at, chain) or _nccl(segment, at, chain)


def _after_stamp(
    segment: bytes, stamp: tuple[str, re.Match[bytes]], chain: Chain, profile: SourceProfile
) -> int | None:
    end = stamp[1].end()
    after = segment[end : end + 1]
    if stamp[0] == "time" and after not in {b" ", b"|", b":", b""}:
        return None
    chain.stamps.append(stamp)
    for pattern in (_CRI, _HOST_PROCESS):
        found = pattern.match(segment, end)
        if found is not None:
            if pattern is _HOST_PROCESS:
                chain.take("host", found, "host")
                if profile.unit is not None:
                    chain.alike = False  # of which process the line speaks hangs on the value of its number
                if found["pid"] is not None and int(found["pid"]) != profile.unit:
                    chain.take("pid", found, "pid", number=True)
            return found.end()
    found = _BEFORE_RANK.match(segment, end)
    if found is not None:
        return found.end()  # which of the two the name is, is not said
    if profile.dated_host and after == b" ":
        found = _LABEL.match(segment, end + 1)
        if found is not None and _is_host(found, chain, profile):
            return found.end()
    return end + (after in {b" ", b"|", b":"})


def _node_kmsg(segment: bytes, at: int, chain: Chain) -> int | None:
    found = None if chain.tokens > 1 else _NODE_KMSG.match(segment, at)
    if found is None:
        return None
    if found["host"] is not None:
        chain.take("host", found, "host")
    return found.end()


def _letters(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    stamp = chain.stamp_at(segment, at)
    if stamp is not None:
        if stamp[0] in {"c10", "lettered"}:
            chain.level = _LEVEL_LETTERS[stamp[1]["sev"]]
            chain.stamps.append(stamp)
            rest = _GLOG_REST.match(segment, stamp[1].end())
            return stamp[1].end() if rest is None else rest.end()
        return _after_stamp(segment, stamp, chain, profile)
    if segment[at : at + 2].isupper():
        found = _LEVEL.match(segment, at) or (_LEVEL_BARE.match(segment, at) if chain.stamps else None)
        if found is not None:
            chain.level = found["level"].decode()
            return found.end()
    if segment.startswith(_BATCH, at):
        _batch(segment, at, chain)
        return None
    if segment[at : at + 4] in _RANK_WORDS:
        return _rank_word(segment, at, chain)
    end = _node_kmsg(segment, at, chain) or _nccl(segment, at, chain)
    if end is not None:
        return end
    if not chain.tokens:
        return None
    found = _NAME.match(segment, at) or (_CALL_SITE.match(segment, at) if chain.level is not None else None)
    return None if found is None else found.end()


_RANK_WORDS = frozenset((b"rank", b"Rank", b"RANK"))
_BATCH = (b"slurmstepd: ", b"srun: ")
_BATCH_TIME = lazy(rb"CANCELLED AT (?=\d{4}-)")


def _batch(segment: bytes, at: int, chain: Chain) -> None:
    """The batch system's lines are messages from their first word on; some state their time inside."""
    if segment.find(b": error: ", at, at + 20) >= 0:
        chain.level = "ERROR"
    found = _BATCH_TIME.search(segment, at)
    stamp = None if found is None else chain.stamp_at(segment, found.end())
    if stamp is not None:
        chain.stamps.append(stamp)


def _rank_word(segment: bytes, at: int, chain: Chain) -> int | None:
    found = _COMPOSER.match(segment, at)
    if found is not None:
        chain.take("rank", found, "rank", number=True)
        chain.take("pid", found, "pid", number=True)
        return found.end()
    found = _RANK_WORD.match(segment, at)
    if found is None or chain.c10:
        return None
    if chain.rank is None:
        chain.take("rank", found, "rank", number=True)
    return found.end()


def _nccl(segment: bytes, at: int, chain: Chain) -> int | None:
    found = _NCCL.match(segment, at)
    if found is None:
        return None
    chain.take("host", found, "host")
    chain.take("pid", found, "pid", number=True)
    chain.device = None
    if not found["device"].startswith(b"-"):
        chain.take("device", found, "device", number=True)
    return found.end()


def _parenthesis(segment: bytes, at: int, chain: Chain, _profile: SourceProfile) -> int | None:
    found = _RAY.match(segment, at)
    if found is not None:
        chain.take("pid", found, "pid", number=True)
        chain.take("rank", found, "rank", number=True)
        actor = found["actor"] or b""
        chain.alike = chain.alike and not any(c in b"0123456789" for c in actor)
        before = f"{actor.decode('utf-8', 'replace')} pid=".lstrip()
        chain.take("label", found, "pid", number=True, before=before)
        chain.take("host", found, "ip")
        return found.end()
    found = _PAREN_RANK.match(segment, at)
    if found is not None:
        chain.take("rank", found, "rank", number=True)
        return found.end()
    found = _PAREN_FILE.match(segment, at) if chain.tokens else None
    return None if found is None else found.end()


def _kmsg(segment: bytes, at: int, _chain: Chain, _profile: SourceProfile) -> int | None:
    found = _KMSG.match(segment, at)
    return None if found is None else found.end()


def _separator(segment: bytes, at: int, chain: Chain, _profile: SourceProfile) -> int | None:
    if not (chain.stamps or chain.level is not None):
        return None
    found = _SEPARATOR.match(segment, at)
    return None if found is None else found.end()


def _styled_task(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    found = _TASK.match(segment, at)
    if found is None:
        return None
    chain.take("label", found, "task", number=True, before="task ")
    if profile.tasks_are_ranks:
        chain.take("rank", found, "task", number=True)
    return found.end()


def _styled_host(segment: bytes, at: int, chain: Chain, profile: SourceProfile) -> int | None:
    found = _LABEL.match(segment, at)
    return found.end() if found is not None and _is_host(found, chain, profile) else None


def _is_host(found: re.Match[bytes], chain: Chain, profile: SourceProfile) -> bool:
    """Whether a label is one of the hosts of the source, which the chain then takes; its digits decide."""
    listed = chain.is_among(profile.hosts, found, "label")
    if listed:
        chain.take("host", found, "label")
    return listed


def _styled_compose(segment: bytes, at: int, chain: Chain, _profile: SourceProfile) -> int | None:
    found = _COMPOSE.match(segment, at)
    if found is None:
        return None
    chain.take("label", found, "label")
    return found.end()


def _styled_stern(segment: bytes, at: int, chain: Chain, _profile: SourceProfile) -> int | None:
    found = _STERN.match(segment, at)
    if found is None:
        return None
    chain.take("label", found, "label")
    return found.end()


_STYLED: dict[str, Callable[[bytes, int, Chain, SourceProfile], int | None]] = {
    "srun_label": _styled_task,
    "host_label": _styled_host,
    "compose": _styled_compose,
    "stern": _styled_stern,
}
_BY_BYTE: dict[bytes, Callable[[bytes, int, Chain, SourceProfile], int | None]] = {
    b"[": _bracket,
    b"(": _parenthesis,
    b"{": json_record,
    b"<": _kmsg,
}
