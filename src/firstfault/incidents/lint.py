"""Finds records that claim more than they show, and records that cannot be read or shared. Must not change one."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from firstfault.incidents.days import is_to_come
from firstfault.incidents.fingerprint import VERSION, fingerprint
from firstfault.incidents.mask import VERSION as MASK
from firstfault.incidents.ran import moment_of
from firstfault.incidents.record import is_open
from firstfault.incidents.verification import latest_result, read_verification
from firstfault.incidents.words import GUESS_MARKS, OPEN_MARKS, OURS, SCHEMA, TEXT_KEYS, WHOLE, Section, State
from firstfault.privacy.identities import Identities
from firstfault.privacy.secrets import find_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from firstfault.incidents.errors import IncidentError
    from firstfault.incidents.record import Record

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_RESULTS = ("", "yes", "no", "unknown")
_NEEDED: dict[State, tuple[Section, ...]] = {
    State.OPEN: (),
    State.SUPPORTED: (Section.SYMPTOM, Section.DIAGNOSIS, Section.ROOT_CAUSE),
    State.FIXED: (Section.SYMPTOM, Section.DIAGNOSIS, Section.ROOT_CAUSE, Section.FIX),
    State.VERIFIED: WHOLE,
    State.REJECTED: (),
}
_SAID_BY_PEOPLE = ("date", "command", "revision", "image", "scope", "formal_results")
"""What no log tells, or not surely, and a record should."""
_PROVED = frozenset({State.SUPPORTED, State.FIXED, State.VERIFIED})
_FIXED = frozenset({State.FIXED, State.VERIFIED})


class Complaint(Struct, frozen=True, order=True):
    """One thing to correct in one record."""

    where: str
    what: str
    fix: str
    level: Literal["error", "note"] = "error"
    """An error is a claim that is not shown or a file that cannot be used; a note is for a person to look at."""


def lint(records: Iterable[Record], wrong: Iterable[IncidentError] = (), today: date | None = None) -> list[Complaint]:
    """Everything to correct, by file.

    Args:
        records: as they were read.
        wrong: what is wrong with files that hold no record.
        today: the day after which no incident and no re-run was yet; None where it is not asked.
    """
    held = list(records)
    found = [Complaint(e.where, e.what, e.fix) for e in wrong]
    by_id: dict[str, list[Record]] = defaultdict(list)
    for record in held:
        by_id[record.id].append(record)
        found += [Complaint(record.where, what, fix) for what, fix in (*_errors(record), *_to_come(record, today))]
        found += [Complaint(record.where, what, fix, "note") for what, fix in _notes(record)]
    for name, same in by_id.items():
        if len(same) > 1:
            others = ", ".join(r.where for r in same[1:])
            found.append(Complaint(same[0].where, f"the id {name!r} is also that of {others}", "Give one a new id."))
    return sorted(found)


def is_verified(record: Record) -> bool:
    """Whether its state says that the fix holds, and the record shows it: a word that anybody may write is no proof."""
    return record.state is State.VERIFIED and not any(True for _ in (*_state(record), *_guesses(record)))


def _errors(record: Record) -> Iterator[tuple[str, str]]:
    yield from _state(record)
    yield from _guesses(record)
    yield from _form(record)
    for secret in find_secrets(record.text):
        yield f"it holds a secret ({secret.kind})", "Take it out, change it where it is valid, and clean the history."


def _state(record: Record) -> Iterator[tuple[str, str]]:
    for section in _NEEDED[record.state]:
        if is_open(record.sections.get(section, "")):
            yield (
                f"its state is `{record.state}`, but the section {section} is open",
                "Fill it, or take the state back.",
            )
    links = [read_verification(item, record.one("date")) for item in record.all("verifications")]
    if record.state in _FIXED and not record.all("fix_links"):
        yield (
            f"its state is `{record.state}`, but no `fix_links` tells where the fix was made",
            "Add a commit, a change request, or the setting with its place.",
        )
    if record.state is State.VERIFIED and not any(link.shows for link in links):
        yield (
            "its state is `verified`, but no re-run that held and no command with its output is linked",
            "Run `firstfault incidents verify ID --rerun PATH --write`, or add `command: … => …` to `verifications`.",
        )
    if record.state is State.VERIFIED and latest_result(record.all("verifications")) == "recurred":
        yield "its state is `verified`, but the last re-run recurred", "Take the state back to `supported`."
    if record.state is State.REJECTED and not record.one("rejected_because"):
        yield "its state is `rejected` without `rejected_because`", "Say why."
    if record.state in _PROVED and not (record.said(Section.EVIDENCE) or record.all("fix_links") or links):
        yield (
            f"its state is `{record.state}`, but it shows no line, no link and no command",
            "Quote the lines under Evidence, or link what shows it.",
        )
    for item, link in zip(record.all("verifications"), links, strict=True):
        if link.lacks and record.state is State.VERIFIED:
            yield (
                f"the verification {item[:60]!r} is no proof: {link.lacks}",
                "Take it out or link one that shows it, or take the state back.",
            )
        if link.kind == "":
            yield (
                f"the verification {item[:60]!r} is of no known kind",
                "Write `rerun DATE held: …`, `command: … => …`, `check: … => …` or `commit HASH`.",
            )


def _guesses(record: Record) -> Iterator[tuple[str, str]]:
    """What is not shown yet has to carry the word; what is shown must not."""
    # A fix that was made stays one where it did not hold: what it needs is its link.
    proposed = record.state in {State.OPEN, State.SUPPORTED} and not record.all("fix_links")
    unproved = {Section.ROOT_CAUSE: record.state is State.OPEN, Section.FIX: proposed}
    for section, guess in unproved.items():
        text = record.sections.get(section, "")
        marked = any(mark in text for mark in GUESS_MARKS)
        if guess and not marked and not is_open(text):
            yield (
                f"the section {section} states as a fact what the state `{record.state}` does not show",
                "Begin it with the word Guess, or raise the state with what it needs.",
            )
        if not guess and marked and record.state in _PROVED and section is Section.ROOT_CAUSE:
            yield (
                f"its state is `{record.state}`, but the root cause is still a guess",
                "Confirm it, or go back to `open`.",
            )
    if record.state is not State.VERIFIED and record.said(Section.VERIFICATION) and not record.all("verifications"):
        yield (
            "the section verification tells of a proof that nothing links",
            "Link it in `verifications`, or mark it `OPEN:`.",
        )


def _form(record: Record) -> Iterator[tuple[str, str]]:
    for key in TEXT_KEYS:
        if isinstance(record.values.get(key, ""), tuple):
            yield f"`{key}` holds a list", "Write one text."
    day = record.one("date")
    if day and not _DATE.fullmatch(day):
        yield f"`date` is {day!r}", "Write it as 2026-03-02."
    if record.one("formal_results") not in _RESULTS:
        yield f"`formal_results` is {record.one('formal_results')!r}", "Write yes, no or unknown."
    if record.path is not None and record.path.stem != record.id:
        yield f"its id is {record.id!r}, and its file is named otherwise", "Name the file after the id."


def _to_come(record: Record, today: date | None) -> Iterator[tuple[str, str]]:
    """Days that are still to come: a wrong clock, or a slip of the pen."""
    said = {"`date`": record.one("date"), "`failed_at`": record.one("failed_at")}
    said |= {f"the verification {item[:60]!r}": read_verification(item).date for item in record.all("verifications")}
    for name, text in said.items():
        moment = moment_of(text)
        if today is not None and moment is not None and is_to_come(moment.date(), today):
            yield (
                f"{name} tells the day {moment.date().isoformat()}, which is still to come",
                "Write the day on which it was.",
            )


def _left_open(record: Record) -> Iterator[tuple[str, str]]:
    """What waits for a person: the state allows it, and it is no record that helps anybody yet."""
    if record.state is State.REJECTED:
        return
    demanded = _NEEDED[record.state]
    waiting = [str(s) for s in WHOLE if s not in demanded and is_open(record.sections.get(s, ""))]
    if waiting:
        yield (
            f"still open: {', '.join(waiting)}",
            f"Fill what begins with `{OPEN_MARKS[record.one('language') == 'zh']}` and take the mark out.",
        )
    # A key that somebody took out is not wanted; one that a new record brought along waits for its word.
    unsaid = [key for key in _SAID_BY_PEOPLE if key in record.values and not record.all(key)]
    if unsaid:
        yield (
            f"not said: {', '.join(unsaid)}",
            "Write what you know into its head; `formal_results` is yes, no or unknown.",
        )


def _notes(record: Record) -> Iterator[tuple[str, str]]:
    yield from _left_open(record)
    if "schema" not in record.values:
        yield "it states no `schema`", "Run `firstfault incidents lint --fix`."
    told = record.one("fingerprint")
    if told and not told.startswith(f"{VERSION}:"):
        yield (
            f"its fingerprint is of another version ({told.partition(':')[0]})",
            "Run `firstfault incidents lint --fix`.",
        )
    elif told and told != fingerprint(record.traits):
        yield "its fingerprint does not fit the parts from which it is made", "Run `firstfault incidents lint --fix`."
    if record.one("message") and record.one("mask") != MASK:
        yield (
            "its message was masked by another version, so that the same fault may not be known again by it",
            "Run `firstfault incidents lint --fix`; what it leaves is made anew from the logs: `firstfault incidents new --again`.",
        )
    unknown = sorted(set(record.values) - OURS)
    if unknown:
        yield (
            f"its head has keys of your own: {', '.join(unknown)}",
            "They are kept; check that none is a typing error.",
        )
    if record.state is State.VERIFIED:
        kinds = [read_verification(item) for item in record.all("verifications")]
        if kinds and all(link.kind == "commit" for link in kinds):
            yield "it is verified by a commit alone", "A commit shows that there is a fix, a re-run that it holds."
    people = Identities()
    body = record.text
    people.learn(body)
    people.clean(body)
    kinds_found = sorted({kind for kind in people.removed if kind in {"host", "user", "mail", "addr", "account"}})
    if kinds_found:
        yield (
            f"it seems to name somebody ({', '.join(kinds_found)})",
            "Use pseudonyms where the record leaves your team.",
        )


def migrated(record: Record, message: str | None = None) -> dict[str, str]:
    """Keys that a record of an earlier form needs, with their values: its schema, its fingerprint out of its parts, its mask.

    Args:
        record: as it was read.
        message: its message as today's mask gives it; None where that is not known.
    """
    changes: dict[str, str] = {}
    if "schema" not in record.values:
        changes["schema"] = SCHEMA
    told = record.one("fingerprint")
    traits = record.traits if message is None else replace(record.traits, message=message)
    if message and record.one("mask") != MASK:
        changes["mask"] = MASK
        if message != record.one("message"):
            changes["message"] = message
    now = fingerprint(traits)
    if told and told != now:
        changes["fingerprint"] = now
    return changes
