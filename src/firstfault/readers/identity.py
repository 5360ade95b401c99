"""Who says a line: stream prefixes of launchers, schedulers, collectors and loggers. Draws no conclusions.

A fact that the text does not state stays None: a wrong rank is worse than none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import GlobalRank, GroupRank, LocalRank, Who
from firstfault.model.lazy import lazy
from firstfault.model.place import Located, Stamp
from firstfault.model.recorder import DEFAULT_DESC, DEFAULT_NAME
from firstfault.readers.inner import BAR_END, MOST_SEARCHED, is_native_frame
from firstfault.readers.prefixes import first_prefix
from firstfault.readers.recall import keep_starts, read_chain, read_parts, usual_starts
from firstfault.readers.sourcename import read_name
from firstfault.readers.stamps import better, build_stamp
from firstfault.readers.wrapping import Wrapping, find_wrapping

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from firstfault.readers.chain import Chain

MOST_STARTS = 24
FIRST_LINES = 120
SPREAD_LINES = 240
MOST_EVIDENCE = 4000
PREFIXED_LINES = 60
"""Lines by which it is told what stands behind the first prefix of all."""

_ANSI = lazy(rb"\x1b\[[0-9;?]*[A-Za-z]")
_TASK = lazy(rb"\s{0,6}(?:P\d+ +)?(\d{1,6}): ")
_LABEL = lazy(rb"(?!\d{4}-\d\d-\d\d)([A-Za-z0-9][\w.\-]{0,100}):(?!\d{1,8}:\d{1,8} \[) ?")
_COMPOSE = lazy(rb"([A-Za-z0-9][\w.\-]{0,100}) +\| ")
_STERN = lazy(rb"([a-z0-9][a-z0-9.]*-[a-z0-9.\-]{2,250}) [a-z0-9][a-z0-9.\-]{0,62} ")
_DATED_LABEL = lazy(rb"\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]? ([A-Za-z0-9][\w.\-]{0,100}): ")
_NOT_HOSTS = lazy(
    rb"(?i)(?:debug|info|notice|warning|warn|error|critical|fatal|traceback|epoch|step|iter\w*|loss|rank\d*|train\w*|valid\w*|"
    rb"eval\w*|test\w*|loading|saving|srun|slurmstepd|note|hint|file|frame|\d+|.*(?:error|exception))$",
)
_SCHEDULER = (b"srun: ", b"slurmstepd: ", b"sbatch: ")
_LEVEL_WORDS = lazy(rb"(?i)(?:debug|info|notice|warning|warn|error|critical|fatal|epoch|step|iter\w*)$")
_LIKE_HOST = lazy(rb"[\d.\-]")
_ADDRESS = lazy(rb"(?:\d{1,3}\.){3}\d{1,3}$")
_ROLE = lazy(rb"\[([A-Za-z_]{3,20})\d{1,4}\]:")
_STREAM = lazy(rb"\[rank\d{1,6}\]:(?![ \n]|\[[EWIF][ \d]|[EWIFV]\d{4} |$)")
_AGREES = lazy(
    rb"\s{0,6}(\d{1,6}): .{0,80}?(?:\[rank(\d{1,6})\]:|\brank ?[=:] ?(\d{1,6})\b|GLOBAL_RANK: (\d{1,6})|\brank (\d{1,6})(?: ?/ ?| of )\d)"
)
_AGENT = lazy(
    rb"torch[./]distributed[./](?:run|elastic|launcher)|torchrun|\[default\d+\]:|deepspeed\.launcher|launch\.py:\d+:main"
)
_WORLD = lazy(rb"(?i)(?:world[ _]size\s?[=:]\s?|Starting with |MEMBER: \d+/)(\d{1,6})\b")
RANK_VALUE = lazy(rb"(?:^|(?<=[\s,(\[|]))(?:global_)?rank ?[=:] ?(\d{1,6})[,|\s)\]].{0,200}?\b(?:epoch|step|iter|loss)")


class SourceProfile(Struct, frozen=True):
    """What is true of all lines of one source: its label style and what its name and path tell."""

    style: str = "none"
    """Name of the prefix that nearly all lines carry: srun_label, host_label, dated_host, compose, stern; `none`."""
    inner: str = "none"
    """The same for what follows the first prefix of all lines, as where a collector wraps the output of `srun --label`."""
    who: Who = Who()
    """What the place of the file tells (`attempt_0/3/stderr.log` is local rank 3)."""
    attempt: int | None = None
    """Attempt that the path states, 0-based as launchers count."""
    number: int | None = None
    """Last number of the file name (a task or a node, which is not said)."""
    tasks_are_ranks: bool = False
    """Whether the task numbers of `srun --label` were seen to be global ranks."""
    tee_rank: bool = False
    """Whether `[rankN]:` is a launcher's label (role "rank", so N is the local rank) and not torch's own prefix."""
    hosts: frozenset[str] = frozenset()
    """Labels that are host names, where the style has such."""
    roles: frozenset[str] = frozenset({"default"})
    """Names of launcher roles that label lines, as in `[trainer3]:`."""
    unit: int | None = None
    """The one process that the system's journal names on all lines: a unit's, not that of the rank that speaks."""
    wrapping: Wrapping | None = None
    """What stands before every line because the log was quoted, numbered or pasted."""

    @property
    def dated_host(self) -> bool:
        """Whether a host label follows the collector's time stamp."""
        return self.style == "dated_host"


def profile_source(sample: bytes, path: str) -> SourceProfile:
    """Profile of a source from its first bytes (up to 256 KiB) and its shown path."""
    facts = read_name(path)
    lines, wrapping = _sample_lines(sample)
    style, hosts = _style(lines)
    plain = SourceProfile(style=style, hosts=frozenset(hosts), wrapping=wrapping)
    few = lines[:PREFIXED_LINES]
    firsts = [first_prefix(x, plain) for x in few]
    inner, more = ("none", set[str]())
    if style not in {"srun_label", "host_label"} and 10 * sum(end > 0 for end, _ in firsts) >= 9 * len(few):
        inner, more = _inner_style([x[end:] for x, (end, _) in zip(few, firsts, strict=True)])
    hosts |= more
    ranks = False
    if "srun_label" in {style, inner}:
        first = [_ANSI.sub(b"", x) for x in sample.split(b"\n")[:MOST_EVIDENCE]]
        first = [x if wrapping is None else x[wrapping.end(x) :] for x in first]
        ranks = _tasks_are_ranks(first if style == "srun_label" else [_behind_first(x, plain) for x in first])
    return SourceProfile(
        style=style,
        inner=inner,
        unit=_unit(firsts),
        who=facts.who,
        attempt=facts.attempt,
        number=facts.number,
        tasks_are_ranks=ranks,
        tee_rank=_is_tee(lines),
        hosts=frozenset(hosts),
        roles=frozenset({"default", *_roles(lines)}),
        wrapping=wrapping,
    )


def _sample_lines(sample: bytes) -> tuple[list[bytes], Wrapping | None]:
    """The first lines and some from all over the sample, and what is wrapped around them all.

    Without the wrapping, colours and empty lines; the scheduler's own are left out.
    """
    whole = sample.split(b"\n")
    picked = whole[:FIRST_LINES]
    rest = whole[FIRST_LINES:-1]
    picked += rest[:: max(1, len(rest) // SPREAD_LINES)]
    cut = [x[:400] for x in picked]
    if b"\x1b" in sample:
        cut = [_ANSI.sub(b"", x) for x in cut]
    plain = [x for x in cut if x.strip(b"\r \t")]
    wrapping = find_wrapping(plain)
    if wrapping is not None:
        plain = [x for x in (y[wrapping.end(y) :] for y in plain) if x.strip(b"\r \t")]
    return [x for x in plain if not x.startswith(_SCHEDULER)], wrapping


def _style(lines: list[bytes]) -> tuple[str, set[str]]:
    """The label that nearly all lines carry, with its values where they are hosts."""
    if len(lines) < 4:
        return "none", set()
    for style, pattern in (
        ("srun_label", _TASK),
        ("dated_host", _DATED_LABEL),
        ("host_label", _LABEL),
        ("compose", _COMPOSE),
        ("stern", _STERN),
    ):
        bad = _LEVEL_WORDS if style in {"compose", "stern"} else _NOT_HOSTS
        start, labels = _labels(lines, pattern, bad if style == "host_label" else None)
        if labels.total() < 0.9 * (len(lines) - start) or labels.total() < 4:
            continue
        if style == "srun_label":
            return (style, set()) if _small_numbers(labels) else ("none", set())
        hosts = style in {"host_label", "dated_host"}
        good = {x for x in labels if not bad.match(x) and (not hosts or _LIKE_HOST.search(x))}
        good |= {x for x in labels if _ADDRESS.match(x)}
        if sum(labels[x] for x in good) >= 0.9 * (len(lines) - start) and len(good) <= max(2, len(lines) // 4):
            return style, {x.decode("ascii", "replace") for x in good}
    return "none", set()


def _labels(
    lines: list[bytes], pattern: re.Pattern[bytes], never: re.Pattern[bytes] | None
) -> tuple[int, Counter[bytes]]:
    """The first line that carries a label, and how often each stands; none where a tenth of the rest has no label.

    What `never` matches is no label to begin with: a warning of the start, before a collector puts hosts in front.
    """
    half = len(lines) // 2
    without = 0
    for line in lines[: half - 1 : -1]:
        # Where lines have no label, the last few tell: the second half alone must hold no more of them than all may.
        without += pattern.match(line) is None
        if without > 0.1 * len(lines) + 1:
            return 0, Counter()
    begins = ((i, pattern.match(x)) for i, x in enumerate(lines[: half + 1]))
    start = next((i for i, x in begins if x is not None and (never is None or not never.match(x[1]))), None)
    if start is None:
        return 0, Counter()
    allowed = 0.1 * (len(lines) - start) + 1
    found: list[bytes] = []
    for i in range(start, len(lines)):
        label = pattern.match(lines[i])
        if label is not None:
            found.append(label[1])
        elif i - start + 1 - len(found) > allowed:
            return start, Counter()
    return start, Counter(found)


def _inner_style(behind: list[bytes]) -> tuple[str, set[str]]:
    """The label behind the first prefix of nearly all lines, where a collector put that prefix there."""
    style, hosts = _style([x for x in behind if x.strip() and not x.startswith(_SCHEDULER)])
    return (style, hosts) if style in {"srun_label", "host_label"} else ("none", set())


def _behind_first(line: bytes, profile: SourceProfile) -> bytes:
    """A line without its first prefix; the same object where it has none."""
    end, _ = first_prefix(line, profile)
    return line[end:] if end else line


def _unit(firsts: list[tuple[int, int | None]]) -> int | None:
    """The process before every line, where it is always the same one."""
    pids = {pid for _, pid in firsts}
    return next(iter(pids)) if len(pids) == 1 else None


def _small_numbers(labels: Counter[bytes]) -> bool:
    """Task numbers repeat; the numbers of a listing or a counter do not."""
    values = {int(x) for x in labels}
    return len(values) <= max(2, sum(labels.values()) // 2) or max(values) == len(values) - 1


def _tasks_are_ranks(lines: list[bytes]) -> bool:
    """Whether the lines show that task numbers are global ranks: they agree with a stated rank, or fill a stated world size."""
    if any(_AGENT.search(x) for x in lines):
        return False
    agree = 0
    for line in lines:
        found = _AGREES.match(line)
        if found is None:
            continue
        stated = next(int(x) for x in found.groups()[1:] if x is not None)
        if int(found[1]) != stated:
            return False
        agree += stated != 0
    if agree:
        return True
    tasks = {int(m[1]) for m in map(_TASK.match, lines) if m is not None}
    worlds = {int(m[1]) for m in (_WORLD.search(x) for x in lines) if m is not None}
    return len(tasks) > 1 and len(worlds) == 1 and tasks == set(range(next(iter(worlds))))


def _is_tee(lines: list[bytes]) -> bool:
    """Whether `[rankN]:` labels whole streams, so that torch's own prefix would stand behind it."""
    labelled = [x for x in lines if x.startswith(b"[rank")]
    teed = sum(1 for x in labelled if _STREAM.match(x))
    return teed >= 2 and teed * 5 >= len(labelled) and 2 * len(labelled) >= len(lines)


def _roles(lines: list[bytes]) -> set[str]:
    roles = Counter(m[1] for m in map(_ROLE.match, lines) if m is not None)
    return {r.decode() for r, n in roles.items() if n * 2 >= len(lines) and r != b"rank"}


_NO_PROFILE = SourceProfile()


def body_starts(segment: bytes, profile: SourceProfile | None = None) -> tuple[int, ...]:
    """Positions in a segment at which a message may begin, ascending: 0, and after each prefix or bar."""
    profile = profile or _NO_PROFILE
    if profile.style == "none" and profile.wrapping is None and is_native_frame(segment):
        return (0,)
    line = read_chain(segment, 0, profile)
    parts = read_parts(segment, line, profile)
    known = usual_starts()
    if known is not None:
        return known
    starts = {0, *line.starts}
    for part in parts:
        starts.update(part.starts)
    barred = segment.find(b"/s") >= 0 or segment.find(b"s/") >= 0 or segment.find(b"it [") >= 0
    if barred:
        for found in BAR_END.finditer(segment, 0, MOST_SEARCHED):
            starts.add(found.end())
            starts.update(read_chain(segment, found.end(), profile).starts)
    starts.update([s + 1 for s in starts if s > 0 and segment[s : s + 1] == b" "])
    ordered = tuple(sorted(starts))[:MOST_STARTS]
    if not barred:
        keep_starts(ordered)
    return ordered


def chains_at(segment: bytes, position: int, profile: SourceProfile) -> tuple[Chain, Chain]:
    """The prefixes of the line and of the part of it that holds a position (the same object where there is one part)."""
    line = read_chain(segment, 0, profile)
    if position <= line.position:
        return line, line
    part = line
    for chain in read_parts(segment, line, profile):
        if chain.starts[0] > position:
            break
        part = chain
    return line, part


def stream_key(segment: bytes, position: int, profile: SourceProfile) -> bytes:
    """Short key of who speaks at a position of a segment; equal keys are the same speaker of one source."""
    line, part = chains_at(segment, position, profile)
    return speaker_in(segment, line, part)[1]


class _Last:
    """The speaker that was read last: a line is asked first for its key, then for all that it tells."""

    segment: bytes | None = None
    part: Chain | None = None
    told: tuple[Who, bytes] = (Who(), b"")


def speaker_in(segment: bytes, line: Chain, part: Chain) -> tuple[Who, bytes]:
    """Who speaks in a part of a line, as `chains_at` gives it, and the key of that."""
    if segment is not _Last.segment or part is not _Last.part:
        who = _who(segment, line, part)
        _Last.segment, _Last.part, _Last.told = segment, part, (who, who_key(who))
    return _Last.told


def who_key(who: Who) -> bytes:
    """Short key of a speaker."""
    facts = []
    if who.rank is not None:
        facts.append(f"r{who.rank}")
    if who.local_rank is not None:
        facts.append(f"l{who.local_rank}")
    if who.rank is None and who.group_rank is not None:
        facts.append(f"g{who.group_rank}")
    if who.host is not None:
        facts.append(f"h{who.host}")
    if who.rank is None and who.pid is not None:
        facts.append(f"p{who.pid}")
    if who.label is not None:
        facts.append(f"t{who.label}")
    return ",".join(facts).encode()


def locate(segment: bytes, position: int, profile: SourceProfile) -> Located:
    r"""Who speaks at a position of a segment, where the message begins, and the time stamp before it.

    Args:
        segment: a line without its end, or one `\r` part of it.
        position: where the matter of interest begins.
        profile: of the source.
    """
    line, part = chains_at(segment, position, profile)
    stamp = _stamp(line, part)
    body = part.position
    for bar in BAR_END.finditer(segment, body, min(len(segment), MOST_SEARCHED)):
        if bar.end() > position:
            break
        body = bar.end()
    level = part.level if part.level is not None else line.level
    who, key = speaker_in(segment, line, part)
    return Located(with_name(who, profile), body, stamp, level, key)


def _stamp(line: Chain, part: Chain) -> Stamp | None:
    return best_stamp([line.stamps] if part is line else [line.stamps, part.stamps])


def best_stamp(stamps: Iterable[Iterable[tuple[str, re.Match[bytes]]]]) -> Stamp | None:
    """The stamp of some that tells most, the last of equals; None where none tells a time."""
    best = None
    for held in stamps:
        for style, found in held:
            built = build_stamp(style, found)
            if built is not None and better(built, best):
                best = built
    return best


def _who(segment: bytes, line: Chain, part: Chain) -> Who:
    """Facts of the part, completed by those of the line's own label where the part does not name another rank."""
    rank, local = part.rank, part.local_rank
    if part is not line and rank is None and local is None and part.device is None:
        rank, local = line.rank, line.local_rank
    if (
        rank is None
        and part.group_rank is not None
        and (part.desc == DEFAULT_DESC or (part.group == DEFAULT_NAME and part.desc is None))
    ):
        rank = part.group_rank
    if rank is None and part.stamps and not part.c10:
        found = RANK_VALUE.search(segment, part.position, part.position + 600)
        if found is not None and found.start() < part.position + 80:
            rank = int(found[1])
    same = part.rank is None or part.rank == line.rank
    return Who(
        rank=None if rank is None else GlobalRank(rank),
        local_rank=None if local is None else LocalRank(local),
        group_rank=None if part.group_rank is None else GroupRank(part.group_rank),
        group=part.group,
        host=part.host if part.host is not None else line.host,
        pid=part.pid if part.pid is not None else (line.pid if same and part.device is None else None),
        device=part.device,
        label=part.label if part.label is not None else line.label,
    )


def with_name(who: Who, profile: SourceProfile) -> Who:
    """A speaker with what the name of the file tells where the line itself does not speak; the line wins."""
    name = profile.who
    if name == _NOBODY:
        return who
    own = who.rank is not None or who.local_rank is not None
    return Who(
        rank=who.rank if own else name.rank,
        local_rank=who.local_rank
        if own and name.local_rank is None
        else (who.local_rank if who.local_rank is not None else name.local_rank),
        node_rank=who.node_rank if who.node_rank is not None else name.node_rank,
        group_rank=who.group_rank,
        group=who.group,
        host=who.host if who.host is not None else name.host,
        pid=who.pid,
        device=who.device,
        worker=who.worker,
        label=who.label if who.label is not None else name.label,
    )


_NOBODY = Who()
