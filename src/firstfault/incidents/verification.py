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

from msgspec import Struct

from firstfault.incidents.fingerprint import fingerprint, same
from firstfault.incidents.frontmatter import append_item, set_value
from firstfault.incidents.words import State
from firstfault.model.words import Category

if TYPE_CHECKING:
    from firstfault.incidents.fingerprint import Traits
    from firstfault.incidents.record import Record
    from firstfault.model.diagnosis import Diagnosis

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


def compare(record: Record, diagnosis: Diagnosis, traits: Traits) -> Comparison:
    """Holds a re-run against an incident.

    Args:
        record: the incident.
        diagnosis: of the re-run.
        traits: the parts of the re-run's fingerprint.
    """
    equal, differs = _fields(record, diagnosis)
    result, reason = _result(record, diagnosis, traits, equal, differs)
    return Comparison(result, reason, tuple(equal), tuple(differs))


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
    if not any(e.startswith(("world_size:", "framework:")) for e in equal) and _least(record) < MANY:
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
    return "held", "the re-run completed" + ("" if now is None else f" at step {now}")


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


def written(record: Record, comparison: Comparison, date: str) -> str:
    """The text of the record with the re-run linked, and its state moved where that is shown.

    A re-run that held makes a fixed record verified; one that recurred takes a fixed or verified one back to supported.
    """
    item = f"rerun {date} {comparison.result}: {comparison.reason}"
    text = append_item(record.text, "verifications", item, record.where)
    state = record.state
    if comparison.result == "held" and state is State.FIXED:
        state = State.VERIFIED
    elif comparison.result == "recurred" and state in {State.FIXED, State.VERIFIED}:
        state = State.SUPPORTED
    return text if state is record.state else set_value(text, "state", str(state), record.where)
