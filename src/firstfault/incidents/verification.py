"""What shows that a fix holds: the items of `verifications`, and the comparison of an incident with a re-run.

    rerun 2026-03-04 held: completed at step 4000 on 16 ranks
    rerun 2026-03-09 recurred: ff1:…
    command: python -c "import x" => ok
    check: start of the pinned image => its label equals the digest
    commit 3f2a91c: pins the image

Careful by design: where it cannot be told whether the re-run came past the point of the incident, it is not comparable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, structs

from firstfault.incidents.fingerprint import fingerprint, same
from firstfault.incidents.frontmatter import append_item, set_value
from firstfault.incidents.proofs import lack_of
from firstfault.incidents.ran import Ran, day_of_run, not_after, ran_of_diagnosis, to_come
from firstfault.incidents.record import is_open
from firstfault.incidents.screen import Screen
from firstfault.incidents.words import WHOLE, State
from firstfault.model.words import Category, Form
from firstfault.privacy.secrets import find_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from firstfault.incidents.fingerprint import Traits
    from firstfault.incidents.record import Record
    from firstfault.model.diagnosis import Diagnosis

QUOTED = 160
"""Characters of a line that a reason quotes at most."""
MOST = 1 << 20
"""Ranks of a job at most whose lines are counted one by one."""
NAMED = 8
"""Ranks without a line that a reason names."""
MANY = 2
"""Ranks from which on the size of a job counts."""
_QUOTED_LINE = re.compile(r": `[^`]*`$")
_RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
Result = Literal["held", "recurred", "not comparable"]
UNDATED = "undated"
_RERUN = re.compile(r"rerun (\d{4}-\d\d-\d\d|undated) (held|recurred|not comparable)\b[:. ]*(.*)", re.DOTALL)
_COMMAND = re.compile(r"(?:command|check):\s*(\S.*?)\s*=>\s*(\S.*)", re.DOTALL)
_COMMIT = re.compile(r"commit:? ([0-9a-f]{7,64}\b|\S+/\S+)(.*)", re.DOTALL)


class Proof(NamedTuple):
    """One item of `verifications`."""

    kind: str
    """rerun, command or commit; empty where it is none of them."""
    result: str
    """held, recurred or not comparable for a re-run; empty else."""
    date: str
    """The day on which a re-run ran; empty where that is not known, and for any other item."""
    lacks: str = ""
    """Why what it says is no proof, in words; empty where it may be one."""

    @property
    def shows(self) -> bool:
        """Whether it shows that a fix holds."""
        return not self.lacks and (self.kind in {"command", "commit"} or self.result == "held")


def read_verification(item: str, since: str = "") -> Proof:
    """What one item is.

    Args:
        item: of `verifications`.
        since: the day of the incident: a re-run of before it shows nothing.
    """
    rerun = _RERUN.fullmatch(item)
    if rerun is not None:
        day = "" if rerun[1] == UNDATED else rerun[1]
        lacks = "" if day else "nobody knows when it ran"
        if day and day < since:
            lacks = f"it ran before the incident of {since}"
        return Proof("rerun", rerun[2], day, lacks if rerun[2] == "held" else "")
    command = _COMMAND.fullmatch(item)
    if command is not None:
        return Proof("command", "", "", lack_of(command[2]))
    commit = _COMMIT.fullmatch(item)
    return Proof("commit" if commit is not None else "", "", "", "" if commit is None else lack_of(commit[1]))


def latest_result(items: tuple[str, ...]) -> str:
    """The result of the last re-run that tells something, by its own day and then by order; empty where there is none.

    A recurrence of which nobody knows the day counts as the last one, and a run that held as none.
    """
    runs = [p for p in map(read_verification, items) if p.result == "recurred" or (p.result == "held" and p.date)]
    return max(enumerate(runs), key=lambda pair: (pair[1].date or "9", pair[0]))[1].result if runs else ""


class Comparison(Struct, frozen=True):
    """What a re-run says of an incident."""

    result: Result
    reason: str
    equal: tuple[str, ...]
    """Stable fields that are equal in both."""
    differs: tuple[str, ...]
    """Stable fields that both know and that differ, as `name: then -> now`."""
    day: str = ""
    """The day on which the re-run was, as 2026-03-04; empty where neither its lines nor a person tell it."""


class Start(NamedTuple):
    """An earlier start of the re-run that failed, by itself."""

    number: int
    diagnosis: Diagnosis
    traits: Traits


def compare(
    record: Record,
    diagnosis: Diagnosis,
    traits: Traits,
    earlier: Sequence[Start] = (),
    *,
    ran: Ran | None = None,
    stated: date | None = None,
    today: date | None = None,
) -> Comparison:
    """Holds a re-run against an incident; `docs/explanation/when-a-fix-held.md` has its rules as a table.

    Args:
        record: the incident.
        diagnosis: of the re-run.
        traits: the parts of the re-run's fingerprint.
        earlier: its starts before the last one that failed: a launcher that begins anew is no fix.
        ran: what its lines tell of when it ran and how far; by the lines that its diagnosis quotes where None.
        stated: the day on which it ran, where a person says so.
        today: lines of later days are those of a wrong clock; None where nobody knows the day.
    """
    told_by = ran_of_diagnosis(diagnosis) if ran is None else ran
    equal, differs = _fields(record, diagnosis, told_by.framework)
    result: Result
    told = record.one("fingerprint") or fingerprint(record.traits)
    again = _again(record, told, earlier)
    if again is not None:
        result, reason = again
    elif diagnosis.verdict.failed:
        result, reason = _failed(record, told, diagnosis, traits)
    else:
        result = "not comparable"
        asked = _by_quoted(record, diagnosis) if ran is None else ran
        reason = (
            _another_run(record, diagnosis, equal, differs)
            or _not_past(record, diagnosis, asked)
            or to_come(asked, today)
            or not_after(record, asked, stated)
            or _met_before(record, diagnosis, earlier)
            or _went_on(asked)
        )
        if not reason:
            result, reason = "held", _held(diagnosis, equal)
    day = day_of_run(told_by, stated, latest=diagnosis.verdict.failed is True or result == "recurred")
    return Comparison(result, reason, tuple(equal), tuple(differs), "" if day is None else day.isoformat())


def _another_run(record: Record, diagnosis: Diagnosis, equal: list[str], differs: list[str]) -> str:
    """Why a run that did not fail may be none of this job, or shows too little of it, in words; empty where it shows it."""
    if diagnosis.verdict.failed is None:
        return "the log of the re-run merely stops: whether it came through is not known"
    return (
        _no_failure(record)
        or _another_job(differs)
        or _fewer(record, diagnosis)
        or _unknown_job(record, diagnosis, equal, differs)
        or _without_lines(diagnosis)
    )


def _met_before(record: Record, diagnosis: Diagnosis, earlier: Sequence[Start]) -> str:
    """Why a run may have met the fault and gone on, in words."""
    return _failed_before(record, earlier) or _other_starts(record, diagnosis) or _met_again(record, diagnosis)


def _by_quoted(record: Record, diagnosis: Diagnosis) -> Ran:
    """What the quoted lines tell: all that there is of a stored diagnosis."""
    lines = [entry.evidence.text for entry in diagnosis.timeline] + [line.text for line in diagnosis.key_lines]
    screen = Screen(record)
    # Quoted lines stand beside each other here alone: their steps show no order.
    screen.source(line.encode("utf-8", "backslashreplace") for line in lines)
    return structs.replace(
        ran_of_diagnosis(diagnosis),
        passed_over=screen.passed_over,
        smaller=screen.smaller,
        anew=screen.anew,
        error=screen.error,
    )


def _went_on(ran: Ran) -> str:
    """Why a run that came through may have met the fault, or come through with fewer ranks, in words."""
    if ran.passed_over:
        return f"the re-run completed, but a fault of this kind was met and passed over: `{_short(ran.passed_over)}`"
    if ran.smaller:
        return f"the re-run completed, but not with all its ranks: `{_short(ran.smaller)}`"
    if ran.anew:
        return f"the re-run completed, but not in one piece, and by what it failed before is not known: `{_short(ran.anew)}`"
    if ran.error:
        return f"the re-run completed, but an error stands amid its steps, and whether it is the incident's is not known: `{_short(ran.error)}`"
    if ran.stood is not None:
        seconds, before, after = ran.stood
        return f"the re-run completed, but it stood still for {seconds // 60} min between its steps {before} and {after}, and the incident made its job wait: whether it came again is not known"
    if ran.back is not None:
        return (
            f"the re-run completed, but its steps go back from {ran.back[0]} to {ran.back[1]}: it began anew, and why is not"
            " known"
        )
    return ""


def _short(line: str) -> str:
    text = " ".join(line.replace("`", "'").split())
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}…{text[secret.end :]}"
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"


def _held(diagnosis: Diagnosis, equal: list[str]) -> str:
    step = _number(_fact(diagnosis, "last_step"))
    reason = "the re-run completed" + ("" if step is None else f" at step {step}")
    if not any(e.startswith("framework:") for e in equal):
        reason += "; that it is the same job, its number of ranks alone shows"
    return f"{reason}; none of its lines tells of the fault in words that are known"


def _no_failure(record: Record) -> str:
    """An incident in which nothing stopped is not undone by a run that comes to its end."""
    form, category = record.one("form"), record.one("category")
    if form == Form.SLOW or (form == Form.WRONG_RESULTS and category != Category.NUMERICAL):
        what = "slow steps" if form == Form.SLOW else "wrong results"
        return f"the re-run completed, but the incident was {what}, and that a run completes shows nothing of them"
    return ""


def _another_job(differs: list[str]) -> str:
    other = [d for d in differs if d.startswith(("world_size:", "framework:"))]
    return f"the re-run completed, but it was another job ({'; '.join(other)})" if other else ""


def _unknown_job(record: Record, diagnosis: Diagnosis, equal: list[str], differs: list[str]) -> str:
    """One process is what any job may be; many are at least a sign, but where one of both tells a framework and the other none."""
    now = _fact(diagnosis, "framework")
    if now and not record.one("framework"):
        return (
            f"the re-run completed, and its framework is {now}; the incident's record tells none, and a number of ranks"
            " alone shows no same job: where it is the same, write `framework` into the record's head"
        )
    then = record.one("framework")
    if then and not any(field.startswith("framework:") for field in (*equal, *differs)):
        return (
            f"the re-run completed, but no line of it tells its framework, and the incident ran on {then}: it may be"
            " another job"
        )
    by_size = _least(record) >= MANY and (
        _number(record.one("world_size")) is not None or any(e.startswith("world_size:") for e in equal)
    )
    if by_size or any(e.startswith("framework:") for e in equal):
        return ""
    return "the re-run completed, but neither its world size nor its framework shows that it is the same job"


def _not_past(record: Record, diagnosis: Diagnosis, ran: Ran) -> str:
    """Whether it went through the step at which the incident came; at the very last one a good end is behind it."""
    then, now = _number(record.one("last_step")), _number(_fact(diagnosis, "last_step"))
    if then is None:
        return ""
    came = f"and the incident came at step {then} or later"
    if now is None:
        return f"the re-run completed, but shows no step, {came}"
    total = _number(record.one("total_steps"))
    last = now == then and total is not None and ran.total == total and now >= total - 1
    if now <= then and not last:
        return f"the re-run completed, but at step {now}, {came}"
    if ran.began_after is not None and ran.began_after > then:
        return f"the re-run completed, but it went on from step {ran.began_after}, {came}: it did not go through it"
    return ""


def _without_lines(diagnosis: Diagnosis) -> str:
    """Which ranks of a world of known size have no line: what went on there is not known.

    Where one rank speaks for all (the first, the last, or the first or last of each node), the others are silent by design.
    """
    size = _number(_fact(diagnosis, "world_size")) or diagnosis.ranks.expected
    seen = _ranks(diagnosis.ranks.seen_ranks)
    if size is None or size > MOST or not seen:
        return ""
    absent = sorted(set(range(size)) - seen)
    if not absent or seen <= {0, size - 1}:
        return ""
    step = size // len(seen) if size % len(seen) == 0 else 0
    if step > 1 and (seen == set(range(0, size, step)) or seen == set(range(step - 1, size, step))):
        return ""
    return f"the re-run completed, but of {len(absent)} of its {size} ranks no line is there ({_runs(absent)})"


def _ranks(runs: str) -> set[int]:
    """The ranks that `0-3, 8` names; none where it is cut short or too long to be looked at."""
    found: set[int] = set()
    for part in runs.split(","):
        match = _RUN.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) >= MOST:
            return set()
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _runs(ranks: list[int]) -> str:
    """Some of the ranks for a sentence."""
    shown = ", ".join(map(str, ranks[:NAMED]))
    return shown if len(ranks) <= NAMED else f"{shown} and {len(ranks) - NAMED} more"


def _other_starts(record: Record, diagnosis: Diagnosis) -> str:
    """An earlier start of which nobody knows the end may have met the fault; so may one of a hung job that was ended."""
    for attempt in diagnosis.attempts:
        hung = attempt.ended == "stopped" and record.one("form") == Form.HUNG
        if not attempt.diagnosed and (attempt.ended == "unknown" or hung):
            return f"the re-run completed, but its attempt {attempt.number} merely stops, and why is not known"
    return ""


def _met_again(record: Record, diagnosis: Diagnosis) -> str:
    """A run in which the fault's own kind of line stands may have met it and gone on."""
    kind = record.one("signature")
    if not kind or not any(count.signature == kind for count in diagnosis.counts):
        return ""
    return f"the re-run completed, but lines of the incident's own kind ({kind}) stand in it"


def _again(record: Record, told: str, starts: Sequence[Start]) -> tuple[Result, str] | None:
    """An earlier start by which the incident came again, whatever became of the later ones."""
    for start in starts:
        result, reason = _failed(record, told, start.diagnosis, start.traits)
        if result == "recurred":
            return (
                result,
                f"{reason.replace('the re-run', f'attempt {start.number} of the re-run')}; a later one went on",
            )
    return None


def _failed_before(record: Record, starts: Sequence[Start]) -> str:
    for start in starts:
        if start.diagnosis.verdict.category in {Category.UNKNOWN, record.one("category")}:
            return (
                f"the re-run completed, but its attempt {start.number} failed, and its lines do not show that it was by"
                " another fault"
            )
    return ""


def _fields(record: Record, diagnosis: Diagnosis, framework: str) -> tuple[list[str], list[str]]:
    now = {name: _fact(diagnosis, name) for name in ("world_size", "framework")}
    now["framework"] = now["framework"] or framework
    told = {v.rpartition(" ")[0]: v.rpartition(" ")[2] for v in record.all("versions") if " " in v}
    then = {"world_size": record.one("world_size"), "framework": record.one("framework")}
    for name, key in (("torch", "torch_version"), ("nccl", "nccl_version"), ("driver", "driver_version")):
        then[name], now[name] = told.get(name, ""), _fact(diagnosis, key)
    equal: list[str] = []
    differs: list[str] = []
    for name, value in then.items():
        if value and now[name]:
            (equal if value == now[name] else differs).append(
                f"{name}: {value}" if value == now[name] else f"{name}: {value} -> {now[name]}"
            )
    return equal, differs


def _fact(diagnosis: Diagnosis, name: str) -> str:
    found = diagnosis.job.get(name)
    return "" if found is None or found.value is None else str(found.value)


def _least(record: Record) -> int:
    """How many ranks an incident had at least, by its record; 0 where that tells nothing."""
    return _number(record.one("world_size")) or max(
        _number(record.one("ranks_at_least")) or 0, _count(record.one("ranks_seen"))
    )


def _count(runs: str) -> int:
    """How many numbers `0-3, 8` names."""
    found = [_RUN.fullmatch(part.strip()) for part in runs.split(",")]
    return sum(int(m[2] or m[1]) - int(m[1]) + 1 for m in found if m is not None)


def _fewer(record: Record, diagnosis: Diagnosis) -> str:
    """Why a re-run may have had fewer ranks than the incident, in words; empty where it had as many, or one was no job of many."""
    then, ranks = _least(record), diagnosis.ranks
    if then < MANY:
        return ""
    exact = _number(_fact(diagnosis, "world_size")) or ranks.expected
    now = exact or max(ranks.at_least or 0, ranks.seen)
    least = "" if record.one("world_size") else "at least "
    if now >= then and (exact or least or now == then):
        return ""
    shows = f" on {now} ranks" if exact else f", and its lines show {now or 'none'} of its ranks"
    return f"the re-run completed{shows}; the incident had {least}{then}"


def _failed(record: Record, told: str, diagnosis: Diagnosis, traits: Traits) -> tuple[Result, str]:
    if diagnosis.verdict.category is Category.UNKNOWN:
        return "not comparable", "the re-run failed too, and its logs do not say why"
    if same(told, fingerprint(traits)):
        return "recurred", "the re-run failed with the same fingerprint"
    if traits.signature and traits.signature == record.one("signature") and traits.category == record.one("category"):
        return "recurred", f"the re-run failed by the same kind of line ({traits.signature}), with another message"
    return (
        "not comparable",
        f"the re-run failed by another fault ({traits.category}, {traits.signature or 'no signature'})",
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None


def waiting(record: Record) -> list[str]:
    """The sections that a verified record needs and that are still open, in order."""
    return [str(section) for section in WHOLE if is_open(record.sections.get(section, ""))]


def written(record: Record, comparison: Comparison, date: str = "") -> str:
    """The text of the record with the re-run linked, and its state moved where that is shown.

    A re-run that held makes a fixed record verified, if nothing that a verified one needs is open; one that recurred takes a
    fixed or verified one back to supported. Of several the one that ran last counts, whichever was linked last.

    Args:
        record: the incident.
        comparison: with its re-run.
        date: the day on which the re-run was; the comparison's own where empty, and undated where that is empty too.
    """
    # A quoted line may name people and machines: it is shown, and not kept.
    reason = _QUOTED_LINE.sub("", comparison.reason)
    item = f"rerun {date or comparison.day or UNDATED} {comparison.result}: {reason}"
    # A re-run that is held against the incident once more shows nothing more.
    there = item in record.all("verifications")
    text = record.text if there else append_item(record.text, "verifications", item, record.where)
    state = record.state
    last = latest_result((*record.all("verifications"), item))
    shows = read_verification(item, record.one("date")).shows
    if comparison.result == "held" and state is State.FIXED and not waiting(record) and last == "held" and shows:
        state = State.VERIFIED
    elif last == "recurred" and (state is State.VERIFIED or (comparison.result == "recurred" and state is State.FIXED)):
        state = State.SUPPORTED
    return text if state is record.state else set_value(text, "state", str(state), record.where)
