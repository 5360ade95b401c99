"""Phrases that several formats share: who, when, what is missing.

Says what the diagnosis holds; must not infer, escape for a format, or shorten log text.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal

from firstfault.analysis.wording import ranges
from firstfault.model.evidence import EMPTY
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, CoverageState, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from firstfault.model.diagnosis import (
        AttemptSummary,
        CoverageRow,
        Diagnosis,
        Evidence,
        Ranks,
        SeenBefore,
        Time,
        TimelineEntry,
        Verdict,
    )
    from firstfault.model.views import Entry, RankTable, View

_HOSTLIST = lazy(r"[A-Za-z0-9][\w.,\[\]-]*")
_STAMP = lazy(r"(?:(\d\d)T|^)(\d\d):(\d\d):(\d\d)")
_DIGITS = lazy(r"\d+")
EXACT = 2
"""Seconds between both ends of an interval up to which it is a line's own stamp."""
REASONS = 5
"""Inputs whose reason is told where nothing could be read."""
LISTED = 100_000
"""Ranks up to which the missing ones are listed."""


def runs(numbers: Iterable[int], say: Mapping[str, str], *, most: int = 12) -> str:
    """Numbers as runs: `0-6, 8`, written as the sentences of the analysis write them."""
    return ranges(numbers, most=most, more=say["value.more_runs"])


def names(items: Sequence[str], say: Mapping[str, str], *, most: int = 4) -> str:
    """Names with commas; beyond `most` the rest as a count."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} {say['value.more'].format(n=len(items) - most)}"


def counts(by: Mapping[str, int], say: Mapping[str, str], *, most: int = 16, write: Callable[[str], str] = str) -> str:
    """Counts by rank or file, numbers in their order before names; beyond `most` the rest as a count."""
    ordered = sorted(by.items(), key=lambda i: (not i[0].isdecimal(), int(i[0]) if i[0].isdecimal() else 0, i[0]))
    return names([f"{write(name)}{': ' if name.isdecimal() else ' '}{n}" for name, n in ordered], say, most=most)


def who(ranks: Sequence[int], hosts: Sequence[str], say: Mapping[str, str]) -> str:
    """Ranks and hosts in words; empty where there is neither."""
    what = say["value.rank" if len(ranks) == 1 else "value.ranks"].format(list=runs(ranks, say)) if ranks else ""
    if not hosts:
        return what
    if what:
        return say["value.on"].format(who=what, where=names(hosts, say))
    return say["value.host" if len(hosts) == 1 else "value.hosts"].format(list=names(hosts, say))


def culprits(diagnosis: Diagnosis, say: Mapping[str, str], *, explained: bool = True) -> str:
    """The culprits in words with their own strength, or why nobody is named: all share the fault, or it is not known.

    explained: whether what the strength means is said too.
    """
    found = diagnosis.verdict.culprits
    parts = [who(found.ranks, found.hosts, say)]
    if found.devices:
        parts.append(say["value.devices"].format(list=names(found.devices, say)))
    if found.storage_nodes:
        parts.append(say["value.storage"].format(list=names(found.storage_nodes, say)))
    text = ", ".join(p for p in parts if p)
    if not text and diagnosis.verdict.failed is False:
        return say["value.nobody_fine"]
    if not text:
        if not found.shared:
            return say["value.nobody_known"]
        weak = diagnosis.verdict.strength is Strength.POSSIBLE
        return say["value.nobody_perhaps" if weak else "value.nobody_shared"]
    return (
        f"{text} ({found.strength}{say['mark.colon']}{say[f'strength.{found.strength}']})"
        if explained
        else f"{text} ({found.strength})"
    )


def no_chain(diagnosis: Diagnosis) -> str:
    """The key of what stands where there is no chain: nothing failed, or it is not shown how one thing led to another."""
    return "none.chain_fine" if diagnosis.verdict.failed is False else "none.chain"


def headline(diagnosis: Diagnosis | View, say: Mapping[str, str]) -> str:
    """The verdict in capitals."""
    verdict = diagnosis.verdict
    if verdict.failed is False:
        return say["head.none"]
    if verdict.failed is None:
        return say["head.undecided"]
    return say["head.failed_unknown" if verdict.category is Category.UNKNOWN else "head.failed"]


def how_sure(diagnosis: Diagnosis | View, say: Mapping[str, str]) -> str:
    """Category and strength in words."""
    verdict = diagnosis.verdict
    if verdict.category is Category.UNKNOWN:
        return say["strength.unknown"]
    sure = f"{verdict.strength}{say['mark.colon']}{say[f'strength.{verdict.strength}']}"
    if verdict.category is Category.NONE:
        return sure
    return f"{say[f'category.{verdict.category}']}{say['mark.comma']}{sure}"


def fact(name: str, say: Mapping[str, str]) -> str:
    """What a fact of the job is called."""
    return say.get(f"fact.{name}", name.replace("_", " "))


def seen(one: SeenBefore, say: Mapping[str, str]) -> str:
    """A past incident in one sentence: which, how its fix stands, and what was done."""
    state = say["seen.unshown" if one.state == "verified" and not one.verified else f"seen.{one.state}"]
    told = say["seen.line"].format(id=one.id, title=one.title.rstrip("."), state=state)
    told += f" [{one.where}]" if one.where else ""
    return f"{told} {say['seen.fix'].format(fix=one.fix)}" if one.fix else told


def exit_code(diagnosis: Diagnosis | View) -> Literal[0, 1, 2, 3]:
    """The exit code of a diagnosis or of a view: 0 no failure, 1 a failure with a category, 2 nothing read, 3 not decidable."""
    if not any(row.state in {CoverageState.READ, CoverageState.DAMAGED} for row in diagnosis.coverage):
        return 2
    verdict = diagnosis.verdict
    if verdict.failed is False:
        return 0
    known = verdict.category not in {Category.UNKNOWN, Category.NONE} and verdict.strength is not Strength.UNKNOWN
    return 1 if verdict.failed is True and known else 3


def no_advice(diagnosis: Diagnosis, side: str, say: Mapping[str, str]) -> str:
    """What it means that a side has no advice: that the verdict does not point there, or what is missing to say more."""
    if side != "storage" or diagnosis.verdict.category is not Category.STORAGE_IO:
        return say["none.recommendations"]
    return say["none.store_logs" if diagnosis.storage is None else "none.store_named"]


def why_unread(coverage: Iterable[CoverageRow]) -> str:
    """The reasons why inputs could not be read, the first few."""
    reasons = [f"{row.file}: {row.state}" + (f", {row.reason}" if row.reason else "") for row in coverage]
    rest = len(reasons) - REASONS
    return "; ".join([*reasons[:REASONS], *([f"and {rest} more"] if rest > 0 else [])]) or "no file was found"


def when(time: Time | None, say: Mapping[str, str]) -> str:
    """A time as text: one stamp, both ends of an interval, or the end of it that is known."""
    if time is None or (time.earliest is None and time.latest is None):
        return say["time.unknown"]
    if time.latest is None:
        text = say["time.after"].format(time=time.earliest)
    elif time.earliest is None:
        text = say["time.before"].format(time=time.latest)
    else:
        # A stamp of the line itself is as wide as its last digit: that is no interval worth showing.
        stamped = time.earliest == time.latest or clock(time)
        text = time.earliest if stamped else f"{time.earliest} .. {time.latest}"
    return text if time.dated else f"{text} {say['time.undated']}"


def clock(time: Time | None) -> str:
    """The time of day of a line's own stamp in whole seconds; empty where the line has none."""
    moment = None if time is None or time.earliest is None else _seconds(time.earliest)
    if time is None or time.earliest is None or time.latest is None or moment is None:
        return ""
    until = _seconds(time.latest)
    if until is None or abs(until - moment) > EXACT:
        return ""
    return time.earliest.rpartition("T")[2][:8]


def job_time(diagnosis: Diagnosis, line: Evidence | None) -> Time | None:
    """The time of a line on the job's clock: a storage daemon's line has it only where the two clocks are joined."""
    if line is None or diagnosis.storage is None:
        return None if line is None else line.time
    theirs = [e for e in diagnosis.storage.events if e.evidence.file == line.file]
    return next((e.job_time for e in theirs if e.evidence.line == line.line), None if theirs else line.time)


def _seconds(iso: str) -> float | None:
    """Seconds of the day with its day's number of the month, only to compare two ends of one stamp."""
    found = _STAMP.search(iso)
    if found is None:
        return None
    return 86400 * int(found[1] or 0) + 3600 * int(found[2]) + 60 * int(found[3]) + int(found[4])


def day_and_time(time: Time | None) -> str:
    """Day and time of a line's own stamp in whole seconds; empty where it has none."""
    at = clock(time)
    if not at or time is None or time.earliest is None:
        return at
    day = time.earliest.rpartition("T")[0].lstrip("-")
    return f"{day} {at}" if day and time.dated else at


def _between(time: Time | None, say: Mapping[str, str]) -> str:
    """Both ends of an interval, each with its day where they lie on different ones; empty where one is open."""
    if time is None or time.earliest is None or time.latest is None:
        return ""
    start, end = (t.partition(".")[0].lstrip("-").replace("T", " ")[:19] for t in (time.earliest, time.latest))
    if start.rpartition(" ")[0] == end.rpartition(" ")[0]:
        end = end.rpartition(" ")[2]
    return say["when.between"].format(start=start, end=end)


def _without(day: str, time: str) -> str:
    """A time without its day where that has been told already."""
    return time.rpartition(" ")[2] if day and time.rpartition(" ")[0] == day else time


def moments(diagnosis: Diagnosis, say: Mapping[str, str]) -> list[str]:
    """When it began and ended: since when ranks wait or one stands still, the first sign, the last step, the last checkpoint, the last word; only what lines tell."""
    trigger = job_time(diagnosis, diagnosis.verdict.trigger)
    began = next((n for n in ("wait_since", "still_since") if n in diagnosis.job), "wait_since")
    since, at = diagnosis.job.get(began), ""
    if since is not None and isinstance(since.value, str):
        at = since.value.partition(".")[0].lstrip("-").replace("T", " ")[:19]
    stamp = day_and_time(trigger)
    first = stamp or _between(trigger, say)
    told = [(f"when.{began}", at, at), ("when.first", first, stamp)]
    if stamp and at and stamp < at:
        told.reverse()  # as a rule the sign of a wait comes when the time-out is over
    parts = []
    day = ""
    for key, time, stamped in told:
        if time:
            parts.append(say[key].format(time=_without(day, time)))
            day = day or stamped.rpartition(" ")[0]
    for name in ("last_step", "last_checkpoint", "last_word"):
        fact = diagnosis.job.get(name)
        if fact is None or not fact.evidence:
            continue
        at = day_and_time(fact.evidence[0].time)
        if name == "last_word" and at and at < day_and_time(trigger):
            continue  # an order of another clock, or to another step: no failure begins after its end
        shown = _without(day, at)
        day = day or at.rpartition(" ")[0]
        number = fact.value if isinstance(fact.value, int) else None
        if number is not None and shown:
            parts.append(say[f"when.{name}_at"].format(n=number, time=shown))
        elif number is not None:
            parts.append(say[f"when.{name}"].format(n=number))
        elif shown:
            parts.append(say[f"when.{name}_timed"].format(time=shown))
    return parts


def present(ranks: Ranks | RankTable, say: Mapping[str, str]) -> list[str]:
    """Which ranks were seen, and which are known to be missing; one phrase each, none where no rank is known of."""
    parts = []
    if ranks.expected is not None:
        key = "seen.of" if ranks.seen else "seen.none_of"
        parts.append(say[key].format(n=ranks.seen, all=ranks.expected))
    elif ranks.seen:
        names_seen = who(_expanded(ranks.seen_ranks), [], say)
        least = ranks.at_least or 0
        if least > ranks.seen:
            gone = sorted(set(range(least)) - set(_expanded(ranks.seen_ranks))) if least <= LISTED else []
            parts.append(say["seen.at_least"].format(who=names_seen, n=least))
            if gone:
                parts.append(say["missing.silent"].format(list=who(gone, [], say)))
        else:
            parts.append(say["seen.unbounded"].format(who=names_seen))
    return parts


def _expanded(text: str) -> list[int]:
    """The numbers of runs such as `0-6, 8`."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.isdecimal():
            found += range(int(low), int(high if high.isdecimal() else low) + 1)
    return found


def missing(diagnosis: Diagnosis, say: Mapping[str, str]) -> list[str]:
    """Which ranks were seen and what is not there: ranks, nodes, files, inputs that could not be read; one phrase each."""
    ranks = diagnosis.ranks
    parts = present(ranks, say)
    if not parts and diagnosis.verdict.failed is not False:
        parts += [say["seen.nobody"]] if any(r.state is CoverageState.READ for r in diagnosis.coverage) else []
    if ranks.expected_nodes is not None and ranks.expected_nodes != ranks.seen_nodes:
        parts.append(say["missing.nodes"].format(seen=ranks.seen_nodes, expected=ranks.expected_nodes))
    if ranks.silent:
        parts.append(say["missing.silent"].format(list=who(ranks.silent, [], say)))
    if ranks.missing_files:
        parts.append(say["missing.files"].format(list=names(ranks.missing_files, say)))
    return [*parts, *unread(diagnosis.coverage, say)]


def unread(coverage: Sequence[CoverageRow], say: Mapping[str, str]) -> list[str]:
    """Inputs that were not read, or only in part, with the reason; one phrase for each of the two."""
    parts = []
    for key, states in (
        ("missing.unread", {CoverageState.SKIPPED, CoverageState.MISSING}),
        ("missing.damaged", {CoverageState.DAMAGED}),
    ):
        there = [r for r in coverage if r.state in states]
        empty = [r for r in there if r.reason == EMPTY]
        # Of empty files, as launchers leave many, the number is enough.
        few = len(empty) < 2
        said = [(r.file, say["missing.empty_one"] if r.reason == EMPTY else r.reason) for r in there]
        rows = [f"{file} ({why})" if why else file for file, why in said if few or why != say["missing.empty_one"]]
        if not few:
            rows.append(say["missing.empty"].format(n=len(empty)))
        if rows:
            parts.append(say[key].format(list=names(rows, say, most=3)))
    return parts


def happened(entry: Entry | TimelineEntry, say: Mapping[str, str]) -> str:
    """A row of the timeline without its time and place: what happened, how often, and to whom."""
    many = say["timeline.times"].format(n=entry.count) if entry.count > 1 else ""
    whom = who(entry.ranks, entry.hosts, say)
    return f"{entry.what}{many}" + (f"{say['mark.colon']}{whom}" if whom else "")


def by_clock(entries: Iterable[TimelineEntry]) -> list[tuple[int | None, list[TimelineEntry]]]:
    """Rows of the timeline with the number of their clock; None for those without a time."""
    return [(clock, list(rows)) for clock, rows in groupby(entries, key=lambda e: e.clock)]


def clocks_apart(entries: Iterable[TimelineEntry]) -> bool:
    """Whether there are times of more clocks than one, which no line ties together."""
    return len({entry.clock for entry in entries} - {None}) > 1


def clock_title(number: int | None, entries: Sequence[TimelineEntry], say: Mapping[str, str], *, alone: bool) -> str:
    """What the rows of one clock are called: by what is known of it; of the only one it is enough that they have a time."""
    if number is None:
        return say["timeline.untimed"]
    if alone:
        return say["timeline.timed"]
    stamps = [entry.time for entry in entries if entry.time is not None and (entry.time.earliest or entry.time.latest)]
    dated = all(time.dated for time in stamps)
    zoned = any(time.zone is not None for time in stamps)
    which = say["timeline.utc" if zoned else "timeline.local"] if dated else say["timeline.undated"]
    return say["timeline.of_clock"].format(n=number, which=which)


def opening(text: str) -> str:
    """Text as a sentence or a heading begins; words in capitals stay so."""
    return text[:1].upper() + text[1:]


def attempt(one: AttemptSummary, say: Mapping[str, str]) -> str:
    """One attempt with its own verdict: how it ended, what kind of fault, whose, and the line that shows it."""
    text = f"{one.number} {say[f'attempt.{one.ended}']}"
    if one.verdict is None:
        return text
    verdict = one.verdict
    if verdict.category not in {Category.UNKNOWN, Category.NONE}:
        text += f"{say['mark.comma']}{say[f'category.{verdict.category}']} ({verdict.strength})"
    text += f"{say['mark.colon']}{verdict.summary}"
    return text if verdict.trigger is None else f"{text} [{place(verdict.trigger)}]"


def recurrence(diagnosis: Diagnosis, say: Mapping[str, str]) -> list[str]:
    """Which attempts failed in the same way, and whom all of them name."""
    said = []
    for one in diagnosis.recurrence:
        text = say["recurrence.alike"].format(list=runs(one.attempts, say), what=one.what)
        whom = who(one.ranks, one.hosts, say)
        said.append(f"{text}; {say['recurrence.same'].format(who=whom)}" if whom else text)
    return said


def drain(verdict: Verdict) -> list[str]:
    """The command that takes the named hosts out of service under SLURM; none where no host is to be left out.

    Nor where the verdict is only possible: such a host is to be looked at first.

    A host list that a shell could take for more than a name is not put into a command.
    """
    action = verdict.action
    if verdict.strength.level <= Strength.POSSIBLE.level:
        return []
    if action.kind is not ActionKind.RESTART_WITHOUT or not _HOSTLIST.fullmatch(action.exclude_hostlist):
        return []
    return [f"scontrol update NodeName='{action.exclude_hostlist}' State=DRAIN Reason='firstfault'"]


def place(evidence: Evidence) -> str:
    """`file:line` of a line of evidence."""
    return f"{evidence.file}:{evidence.line}"


def best_lines(diagnosis: Diagnosis, most: int) -> list[Evidence]:
    """The most telling lines: the trigger, then the key lines, then those of the chain, each place once.

    Of lines that say the same but for numbers the first stands for all, until others are used up.
    """
    verdict = diagnosis.verdict
    wanted = [] if verdict.trigger is None else [verdict.trigger]
    wanted += diagnosis.key_lines
    for link in diagnosis.chain:
        wanted += link.evidence
    kept: dict[tuple[str, int], Evidence] = {}
    for line in wanted:
        kept.setdefault((line.file, line.line), line)
    said: set[str] = set()
    fresh: list[Evidence] = []
    again: list[Evidence] = []
    for line in kept.values():
        shape = _DIGITS.sub("#", line.text)
        (again if shape in said else fresh).append(line)
        said.add(shape)
    return [*fresh, *again][:most]
