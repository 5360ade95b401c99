"""What a file as a whole tells of its lines: the one rank that it states, the host after which it is named. Guesses nothing."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.state.joins import listed_process
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, Failure, SourceId, Who

_STEM = lazy(r"([A-Za-z][\w-]*?\d[\w-]*?)(?:\.(?:log|out|err|txt|o|e))+$")
_PROCESS_FOLDER = lazy(r"^(.*(?:^|/)attempt[_-]\d{1,4}/\d{1,4})/(?:stdout|stderr|error)[^/]*$")
_DIGITS = lazy(r"\d+")
_TELLING = lazy(r"[\d-]")
"""A name of one plain word may be any word of a file's name, unless that says beside it what of the machine it holds."""
_OF_A_MACHINE = frozenset(
    [
        "dmesg",
        "kern",
        "kernel",
        "syslog",
        "messages",
        "journal",
        "journalctl",
        "ibstat",
        "mcelog",
        "ipmi",
        "sel",
        "nvidia",
        "smi",
        "dcgm",
        "dcgmi",
        "dmon",
        "gpu",
        "gpus",
        "xid",
        "xids",
        "rocm",
        "query",
        "health",
        "log",
        "logs",
        "txt",
        "csv",
        "out",
        "tsv",
        "gz",
        "zst",
        "old",
        "boot",
    ]
)
"""Words of which the names of a machine's own logs and tables consist, beside its name."""
_BETWEEN = lazy(r"[^A-Za-z0-9]+")
_NAME = lazy(r"[A-Za-z][\w-]{1,62}")
"""A host's name without its domain; an address is none."""
MOST_DIGITS = 6
"""Digits of a number in a file's name that may be a rank; longer ones are jobs, dates and processes."""
PROOF = 2
"""Files whose lines agree with the number in their names, from which on the names are believed."""
_OWN = ("framework.", "paddle.", "jax.", "tensorflow.")
"""Rooms of signatures in whose identity lines a program speaks of itself."""
_AGENTS = ("launcher.", "framework.deepspeed_")
"""Rooms of lines of launchers, which write what all processes of a machine say into one file."""


def ranks_of_files(
    case: Case, events: Iterable[Event], stated: Mapping[SourceId, set[GlobalRank]], world: int | None
) -> dict[SourceId, GlobalRank]:
    """The rank of every file whose lines state one rank only, where several files do so, each another one.

    The first rank of each machine may be the only one that prints, into the file of all: ranks that are as far apart as
    machines would be are not believed, unless a line names a local rank other than 0.

    Where lines state none, the tasks that JAX's service misses may tell that the numbers of the files are those of the tasks.

    Args:
        case: the evidence.
        events: of the attempt.
        stated: ranks that lines of each source state.
        world: number of ranks, where known.
    """
    kept = tuple(events)
    return _by_statement(case, kept, stated, world) or (
        {} if any(stated.values()) else _by_lost_tasks(case, kept, world)
    )


def task_numbers(case: Case) -> dict[SourceId, int]:
    """Numbers at the end of names of logs, where they may be a task's: not those with which a machine's name ends.

    A machine's own log (`dmesg-gpu-06.txt`) is no task's, whatever its number.
    """
    return {
        source: number
        for source, number in case.seen.task_files.items()
        if case.kind_of.get(source) is SourceKind.LOG and not _ends_in(case.seen.place.get(source), number)
    }


def _ends_in(who: Who | None, number: int) -> bool:
    """Whether the name of a machine that a file's name tells ends in a number."""
    digits = _END.search(who.host) if who is not None and who.host is not None else None
    return digits is not None and int(digits[1]) == number


_END = lazy(r"(\d{1,9})$")


def _by_lost_tasks(case: Case, events: Iterable[Event], world: int | None) -> dict[SourceId, GlobalRank]:
    """The process index of every file of a numbering from 0, where all files but those of the missed tasks tell that these are missed.

    Which files tell of the loss and which do not then fits the numbers, and would not if they meant something else.
    """
    logs = {s: n for s, n in case.seen.task_files.items() if case.kind_of.get(s) is SourceKind.LOG}
    numbers = set(logs.values())
    if len(numbers) != len(logs) or numbers != set(range(len(logs))) or world not in {None, len(logs)}:
        return {}
    lost: set[int] = set()
    telling: set[int] = set()
    for event in events:
        tasks = event.fields.get("lost_ranks", "")
        if event.signature.startswith("jax.") and tasks and event.span.source in logs:
            lost |= {int(t) for t in tasks.split(",")}
            telling.add(logs[event.span.source])
    if not lost or 2 * len(lost) >= len(numbers) or telling != numbers - lost or not lost <= numbers:
        return {}
    return {s: GlobalRank(n) for s, n in logs.items()}


def _by_statement(
    case: Case, events: Iterable[Event], stated: Mapping[SourceId, set[GlobalRank]], world: int | None
) -> dict[SourceId, GlobalRank]:
    found: dict[SourceId, GlobalRank] = {}
    inside: set[SourceId] = set()
    shared: set[SourceId] = set()
    agents = {s for s in case.signatures if s.startswith(_AGENTS)}
    own = {s for s in case.signatures_with(Mark.IDENTITY) if s.startswith(_OWN)}
    for event in events:
        source = event.span.source
        if event.signature in agents:
            shared.add(source)
        if event.signature not in own:
            continue
        text = event.fields.get("rank", "")
        if text.isdecimal() and stated.get(source) == {GlobalRank(int(text))}:
            found[source] = GlobalRank(int(text))
            if event.fields.get("local_rank", "0") != "0":
                inside.add(source)
    found = {s: r for s, r in found.items() if s not in shared}
    ranks = sorted(set(found.values()))
    if len(ranks) < len(found) or len(ranks) < 2:
        return {}
    step = min(b - a for a, b in pairwise(ranks))
    if step > 1 and all(r % step == 0 for r in ranks) and (world is None or world % step == 0) and not inside:
        return {}
    return found


def lone_speakers(stated: Mapping[SourceId, set[GlobalRank]], world: int | None) -> dict[SourceId, GlobalRank]:
    """The one rank that the lines of each source state, where as many sources as there are ranks state one each; else nothing.

    A launcher with one process may write into such a file too.
    """
    told = {s: next(iter(ranks)) for s, ranks in stated.items() if len(ranks) == 1}
    if world is None or not len(stated) == len(told) == world or set(told.values()) != set(range(world)):
        return {}
    return told


def ranks_of_names(case: Case, stated: Mapping[SourceId, set[GlobalRank]], world: int | None) -> dict[str, GlobalRank]:
    """The rank of every file that is named like others whose lines state the number in their names as their only rank.

    Seven such files prove what the number means: then the eighth is that of the eighth rank, though it says nothing, or is
    empty. No file of the kind may be of another rank than its number, and behind the highest proven number no number may
    be left out, nor follow more files than are proven: an older, larger job may have left some.

    Args:
        case: the evidence.
        stated: ranks that lines of each source state.
        world: number of ranks, where known.

    Returns:
        Rank by shown path, of files whose lines state none.
    """
    files = {s.path: stated.get(s.id, set()) for s in case.seen.sources if s.kind is SourceKind.LOG}
    for path in case.seen.empty:
        files.setdefault(path, set())
    families: dict[tuple[str, str], dict[int, str]] = {}
    for path in files:
        for number in _DIGITS.finditer(path):
            if len(number[0]) <= MOST_DIGITS:
                families.setdefault((path[: number.start()], path[number.end() :]), {})[int(number[0])] = path
    found: dict[str, set[GlobalRank]] = {}
    for family in families.values():
        for rank, path in _unsaid(family, files):
            if world is None or rank < world:
                found.setdefault(path, set()).add(GlobalRank(rank))
    return {path: next(iter(ranks)) for path, ranks in found.items() if len(ranks) == 1}


def _unsaid(family: Mapping[int, str], stated: Mapping[str, set[GlobalRank]]) -> list[tuple[int, str]]:
    """Of files that differ in one number, those without a rank of their own whose number the others prove to be it."""
    proven = {n for n, path in family.items() if stated[path] == {n}}
    if len(proven) < PROOF or any(stated[path] and n not in stated[path] for n, path in family.items()):
        return []
    top = max(proven)
    bare = [(n, path) for n, path in sorted(family.items()) if not stated[path]]
    beyond = [n for n, _ in bare if n > top]
    if beyond and (len(beyond) > len(proven) or beyond[-1] - top != len(beyond)):
        return [(n, path) for n, path in bare if n < top]
    return bare


def ranks_of_folders(
    case: Case,
    events: Iterable[Event],
    failures: tuple[Failure, ...],
    by_offset: Callable[[str], GlobalRank | None],
) -> dict[SourceId, GlobalRank]:
    """The rank of each file in a launcher's folder for one process, as lines of that folder or of the launcher state it.

    Args:
        case: the evidence.
        events: of the attempt.
        failures: entries of all launchers.
        by_offset: the rank of a folder (its path up to the local rank) by the ranks of others of its machine.
    """
    folders = {s.id: found[1] for s in case.seen.sources if (found := _PROCESS_FOLDER.search(s.path)) is not None}
    stated: dict[str, set[GlobalRank]] = {}
    speakers = [*((e.span.source, e.who.rank) for e in events), *((p.source, p.rank) for p in case.seen.progress)]
    for source, rank in speakers if folders else ():
        if source in folders and rank is not None:
            stated.setdefault(folders[source], set()).add(rank)
    only = {f: next(iter(rs)) for f, rs in stated.items() if len(rs) == 1}
    for folder in set(folders.values()) - set(only):
        told = listed_process(folder, failures)
        told = by_offset(folder) if told is None else told
        if told is not None:
            only[folder] = told
    return {s: only[f] for s, f in folders.items() if f in only}


def hosts_of_files(paths: Mapping[SourceId, str], known: Mapping[SourceId, set[str]]) -> dict[SourceId, str]:
    """The host of every file that is named like one whose own lines say that it is named after its host.

    `rig-03.log` with lines of the host `rig-03` shows what the names mean: then `rig-04.log` is of the host `rig-04`.

    Args:
        paths: shown path of each source.
        known: hosts that lines of each source state.
    """
    stems = {s: found[1] for s, path in paths.items() if (found := _STEM.match(path.rsplit("/", 1)[-1])) is not None}
    families = {
        _DIGITS.sub("#", stem)
        for source, stem in stems.items()
        if {short_host(h) for h in known.get(source, ())} == {stem}
    }
    return {s: stem for s, stem in stems.items() if not known.get(s) and _DIGITS.sub("#", stem) in families}


def hosts_of_tables(
    paths: Mapping[SourceId, str], known: Mapping[SourceId, set[str]], spoken: Mapping[SourceId, set[GlobalRank]]
) -> dict[SourceId, str]:
    """The host of every file in which nobody speaks and whose name holds a host of the job, or one that is named like these.

    A monitor's table names no host in its rows: `smi-rig-04.csv` is of `rig-04`, where lines of the job state `rig-03`.
    Nor do the lines of `dmesg -T`: `dmesg-pluto-a.txt` is of `pluto-a`, and `dmesg-pluto.txt` of `pluto`, where lines of the job
    state that.

    Args:
        paths: shown path of each source.
        known: hosts that lines of each source state.
        spoken: ranks that lines of each source state.
    """
    stated = {short_host(h) for hosts in known.values() for h in hosts}
    shapes = {_DIGITS.sub("#", h) for h in stated if _NAME.fullmatch(h) and _TELLING.search(h)}
    plain = {h.lower(): h for h in stated if _NAME.fullmatch(h) and not _TELLING.search(h)}
    found: dict[SourceId, str] = {}
    for source, path in paths.items() if shapes or plain else ():
        if not known.get(source) and not spoken.get(source):
            name = path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
            named = {m for shape in shapes for m in _like(shape, name)} or _plain_host(name, plain)
            if len(named) == 1:
                found[source] = named.pop()
    return found


def _like(shape: str, name: str) -> list[str]:
    """Words of a file's name that differ from a host's in numbers alone."""
    digits = r"\d{1,6}".join(re.escape(part) for part in shape.split("#"))
    return [str(m) for m in re.findall(rf"(?<![A-Za-z0-9]){digits}(?![A-Za-z0-9])", name)]


def _plain_host(name: str, hosts: Mapping[str, str]) -> set[str]:
    """The host of one plain word after which a machine's own log or table is named: all other words say what it holds."""
    words = [w for w in _BETWEEN.split(name.lower()) if w and not w.isdecimal()]
    others = [w for w in words if w not in _OF_A_MACHINE]
    return {hosts[others[0]]} if len(words) > 1 and len(others) == 1 and others[0] in hosts else set()
