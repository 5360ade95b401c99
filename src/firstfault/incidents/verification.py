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
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from firstfault.incidents.fingerprint import fingerprint, same
from firstfault.incidents.frontmatter import append_item, set_value
from firstfault.incidents.record import is_open
from firstfault.incidents.words import Section, State
from firstfault.model.words import Category

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.incidents.fingerprint import Traits
    from firstfault.incidents.record import Record
    from firstfault.model.diagnosis import Diagnosis

ZONES = timedelta(hours=14)
"""How far a clock without a zone may lie from one with."""
MANY = 2
"""Ranks from which on the size of a job counts."""
_RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
Result = Literal["held", "recurred", "not comparable"]
_RERUN = re.compile(r"rerun (\d{4}-\d\d-\d\d) (held|recurred|not comparable)\b[:. ]*(.*)", re.DOTALL)
_COMMAND = re.compile(r"(?:command|check):\s*(\S.*?)\s*=>\s*(\S.*)", re.DOTALL)
_COMMIT = re.compile(r"commit:? ([0-9a-f]{7,64}\b|\S+/\S+)(.*)", re.DOTALL)


class Proof(NamedTuple):
    """One item of `verifications`."""

    kind: str
    """rerun, command or commit; empty where it is none of them."""
    result: str
    """held, recurred or not comparable for a re-run; empty else."""
    date: str

    @property
    def shows(self) -> bool:
        """Whether it shows that a fix holds."""
        return self.kind == "command" or (self.kind == "rerun" and self.result == "held") or self.kind == "commit"


def read_verification(item: str) -> Proof:
    """What one item is."""
    rerun = _RERUN.fullmatch(item)
    if rerun is not None:
        return Proof("rerun", rerun[2], rerun[1])
    if _COMMAND.fullmatch(item):
        return Proof("command", "", "")
    return Proof("commit" if _COMMIT.fullmatch(item) else "", "", "")


def latest_result(items: tuple[str, ...]) -> str:
    """The result of the last re-run that tells something, by date and then by order; empty where there is none."""
    runs = [p for p in map(read_verification, items) if p.result in {"held", "recurred"}]
    return max(enumerate(runs), key=lambda pair: (pair[1].date, pair[0]))[1].result if runs else ""


class Comparison(Struct, frozen=True):
    """What a re-run says of an incident."""

    result: Result
    reason: str
    equal: tuple[str, ...]
    """Stable fields that are equal in both."""
    differs: tuple[str, ...]
    """Stable fields that both know and that differ, as `name: then -> now`."""


class Start(NamedTuple):
    """An earlier start of the re-run that failed, by itself."""

    number: int
    diagnosis: Diagnosis
    traits: Traits


def compare(record: Record, diagnosis: Diagnosis, traits: Traits, earlier: Sequence[Start] = ()) -> Comparison:
    """Holds a re-run against an incident.

    Args:
        record: the incident.
        diagnosis: of the re-run.
        traits: the parts of the re-run's fingerprint.
        earlier: its starts before the last one that failed: a launcher that begins anew is no fix.
    """
    equal, differs = _fields(record, diagnosis)
    result, reason = _result(record, diagnosis, traits, equal, differs)
    before = _earlier(record, earlier)
    if before is not None and before[0] == "recurred":
        result, reason = before
    elif result == "held":
        result, reason = _not_before(record, diagnosis) or before or _met_again(record, diagnosis) or (result, reason)
    return Comparison(result, reason, tuple(equal), tuple(differs))


def _not_before(record: Record, diagnosis: Diagnosis) -> tuple[Result, str] | None:
    """A run that began before the incident came is no re-run after its fix."""
    failed_at, times = _moment(record.one("failed_at")), list(_ends(diagnosis))
    if failed_at is None or not times:
        return None
    first = min(times, key=lambda time: time.replace(tzinfo=None))
    # One clock that tells its zone and one that does not may be as far apart as zones are.
    known = (first.tzinfo is None) == (failed_at.tzinfo is None)
    before = first < failed_at if known else first.replace(tzinfo=None) < failed_at.replace(tzinfo=None) + ZONES
    if not before:
        return None
    at = f"the re-run completed, but lines of it are of {first.isoformat()}, and the incident came at {failed_at.isoformat()}"
    return "not comparable", at if known else f"{at}: by these clocks it may have come before"


def _ends(diagnosis: Diagnosis) -> Iterator[datetime]:
    """The dated times of a diagnosis, each by its own clock."""
    times = [entry.time for entry in diagnosis.timeline]
    times += [line.time for link in diagnosis.chain for line in link.evidence]
    for time in times:
        moment = None if time is None or not time.dated else _moment(time.latest or time.earliest or "")
        if moment is not None:
            yield moment


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def _met_again(record: Record, diagnosis: Diagnosis) -> tuple[Result, str] | None:
    """A run in which the fault's own kind of line stands may have met it and gone on."""
    kind = record.one("signature")
    if not kind or not any(count.signature == kind for count in diagnosis.counts):
        return None
    return "not comparable", f"the re-run completed, but lines of the incident's own kind ({kind}) stand in it"


def _earlier(record: Record, starts: Sequence[Start]) -> tuple[Result, str] | None:
    told = record.one("fingerprint") or fingerprint(record.traits)
    results = [(_failed(record, told, start.diagnosis, start.traits), start) for start in starts]
    for (result, reason), start in results:
        if result == "recurred":
            return (
                result,
                f"{reason.replace('the re-run', f'attempt {start.number} of the re-run')}; a later one went on",
            )
    for _, start in results:
        if start.diagnosis.verdict.category in {Category.UNKNOWN, record.one("category")}:
            return (
                "not comparable",
                f"the re-run completed, but its attempt {start.number} failed, and its lines do not show that it was by another fault",
            )
    return None


def _fields(record: Record, diagnosis: Diagnosis) -> tuple[list[str], list[str]]:
    now = {name: _fact(diagnosis, name) for name in ("world_size", "framework")}
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


def _result(
    record: Record, diagnosis: Diagnosis, traits: Traits, equal: list[str], differs: list[str]
) -> tuple[Result, str]:
    verdict = diagnosis.verdict
    told = record.one("fingerprint") or fingerprint(record.traits)
    if verdict.failed is None:
        return "not comparable", "the log of the re-run merely stops: whether it came through is not known"
    if verdict.failed:
        return _failed(record, told, diagnosis, traits)
    other = [d for d in differs if d.startswith(("world_size:", "framework:"))]
    if other:
        return "not comparable", f"the re-run completed, but it was another job ({'; '.join(other)})"
    fewer = _fewer(record, diagnosis)
    if fewer:
        return "not comparable", fewer
    as_many = _number(record.one("world_size")) is not None and _least(record) >= MANY
    if not any(e.startswith(("world_size:", "framework:")) for e in equal) and not as_many:
        return (
            "not comparable",
            "the re-run completed, but neither its world size nor its framework shows that it is the same job",
        )
    then, now = _number(record.one("last_step")), _number(_fact(diagnosis, "last_step"))
    if then is not None and now is not None and now <= then:
        return (
            "not comparable",
            f"the re-run completed, but at step {now}, and the incident came at step {then} or later",
        )
    if then is not None and now is None:
        return (
            "not comparable",
            f"the re-run completed, but shows no step, and the incident came at step {then} or later",
        )
    reason = "the re-run completed" + ("" if now is None else f" at step {now}")
    if not any(e.startswith(("world_size:", "framework:")) for e in equal):
        reason += "; that it is the same job, its number of ranks alone shows"
    return "held", reason


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
    """The sections that a verified record needs and that are still open, but for the verification itself, which is linked; in order."""
    needed = (Section.SYMPTOM, Section.DIAGNOSIS, Section.ROOT_CAUSE, Section.FIX)
    return [str(section) for section in needed if is_open(record.sections.get(section, ""))]


def written(record: Record, comparison: Comparison, date: str) -> str:
    """The text of the record with the re-run linked, and its state moved where that is shown.

    A re-run that held makes a fixed record verified, if nothing that a verified one needs is open; one that recurred takes a
    fixed or verified one back to supported.
    """
    item = f"rerun {date} {comparison.result}: {comparison.reason}"
    text = append_item(record.text, "verifications", item, record.where)
    state = record.state
    last = latest_result((*record.all("verifications"), item))
    if comparison.result == "held" and state is State.FIXED and not waiting(record) and last == "held":
        state = State.VERIFIED
    elif comparison.result == "recurred" and state in {State.FIXED, State.VERIFIED}:
        state = State.SUPPORTED
    return text if state is record.state else set_value(text, "state", str(state), record.where)
