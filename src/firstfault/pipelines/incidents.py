"""Wires the knowledge base: evidence or a stored diagnosis in, records, comparisons and lists out.

Prints nothing. What goes into a record goes through the one door first, with identities as pseudonyms.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from firstfault.incidents.draft import Draft, digest_of
from firstfault.incidents.fingerprint import Traits, traits_of
from firstfault.incidents.ids import RANDOM_BYTES, new_id
from firstfault.incidents.lint import Complaint, lint, migrated
from firstfault.incidents.verification import Comparison, Start, compare, written
from firstfault.model.diagnosis import SCHEMA, Diagnosis
from firstfault.model.words import CoverageState
from firstfault.pipelines.build import Builder
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.reruns import ran_in
from firstfault.pipelines.seen_before import origin_of
from firstfault.redact import redact
from firstfault.report.incident import render_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from firstfault.incidents.places import Records
    from firstfault.incidents.ran import Ran
    from firstfault.incidents.record import Record
    from firstfault.pipelines.options import DiagnoseOptions

LARGEST = 256 << 20
"""Bytes of a stored diagnosis at most."""
_HEAD = 4096
MOST_STARTS = 8
"""Failed starts of a re-run that are each held against the incident."""


def examine(paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions) -> tuple[Diagnosis, Traits]:
    """The diagnosis of evidence, not yet redacted, with the parts of its fingerprint.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    return _looked_at(paths, options)[0]


def _looked_at(
    paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions, record: Record | None = None
) -> tuple[tuple[Diagnosis, Traits], Ran]:
    """The same, and what the lines tell of when the run ran."""
    with concluded(paths, options) as (conclusion, verifier, store):
        diagnosis = Builder(conclusion, verifier).build()
        against = None if diagnosis.verdict.failed else record
        return (diagnosis, traits_of(diagnosis, origin_of(conclusion, verifier))), ran_in(conclusion, store, against)


def understood(paths: Sequence[str], options: DiagnoseOptions) -> tuple[Diagnosis, Traits]:
    """A diagnosis with the parts of its fingerprint: read where the one path is a stored diagnosis, made else.

    Raises:
        PipelineError: the stored diagnosis or the evidence cannot be read.
    """
    stored = stored_diagnosis(Path(paths[0])) if len(paths) == 1 else None
    if stored is not None:
        return stored, traits_of(stored)
    found = examine(paths, options)
    _something_read(found[0], paths)
    return found


def _something_read(diagnosis: Diagnosis, paths: Sequence[str]) -> None:
    if not any(row.state in {CoverageState.READ, CoverageState.DAMAGED} for row in diagnosis.coverage):
        raise PipelineError(
            "nothing there could be read",
            where=", ".join(paths),
            why="; ".join(f"{row.file}: {row.reason or row.state}" for row in diagnosis.coverage[:5]),
            fix="Give the job's log files, their folder, an archive of it, or a diagnosis as JSON.",
        )


def stored_diagnosis(path: Path) -> Diagnosis | None:
    """The diagnosis that a file holds as JSON; None where the file is something else.

    Raises:
        PipelineError: it is one, and it cannot be read.
    """
    if not path.is_file() or path.stat().st_size > LARGEST:
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head.lstrip().startswith(b"{") or SCHEMA.encode() not in head:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    except msgspec.MsgspecError as error:
        raise PipelineError(
            "this stored diagnosis cannot be read",
            where=str(path),
            why=str(error),
            fix="Write it anew: `firstfault PATH --format json --output FILE`.",
        ) from error


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of an incident beside its logs."""

    command: str = ""
    revision: str = ""
    image: str = ""
    devices: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


def new_record(
    understood_as: tuple[Diagnosis, Traits],
    given: Given,
    *,
    key: bytes,
    day: date,
    language: str,
    record_id: str = "",
    dated: bool = True,
    timed: bool = True,
) -> tuple[str, str]:
    """The id and the text of a new record.

    Args:
        understood_as: see `understood`.
        given: what a person adds.
        key: makes pseudonyms the same in all records of one owner.
        day: of the incident.
        language: of headings and fixed sentences.
        record_id: its id; a new one where empty.
        dated: whether the day is that of the incident; False where it is that of the record alone, and the incident's stays open.
        timed: whether the times of its lines may be right; False where a wrong clock tells them.

    Raises:
        PipelineError: nothing was read, or there was no failure of which to make a record.
    """
    diagnosis, _ = understood_as
    if diagnosis.verdict.failed is False:
        raise PipelineError(
            "there is no failure of which to make a record",
            why=diagnosis.verdict.summary,
            fix="Give the logs of the run that failed.",
        )
    safe = redact(_draft(understood_as, given, key), "identities", key=key)
    name = record_id or new_id(day, os.urandom(RANDOM_BYTES))
    shown_day = day.isoformat() if dated else ""
    return name, render_record(safe, record_id=name, date=shown_day, language=language, timed=timed)


def _draft(understood_as: tuple[Diagnosis, Traits], given: Given, key: bytes) -> Draft:
    diagnosis, traits = understood_as
    return Draft(
        diagnosis=diagnosis,
        traits=traits,
        command=given.command,
        revision=given.revision,
        image=given.image,
        devices=[pseudonym("device", serial, key) for serial in given.devices],
        versions=list(given.versions),
    )


def already_there(place: Path | str, text: str) -> list[Record]:
    """The records of a store that were made of the same lines as this one."""
    from firstfault.incidents.places import index_at
    from firstfault.incidents.record import parse

    digest = parse(text).one("evidence_digest")
    if not digest:
        return []
    with closing(index_at(place)) as index:
        index.refresh()
        return [record for _, record in index.records_of(index.holding("evidence_digest", digest, 5))]


def pseudonym(kind: str, name: str, key: bytes) -> str:
    """The pseudonym under which a name stands in records; a pseudonym stays what it is."""
    from firstfault.privacy.identities import Identities

    if name.startswith(f"{kind}-") and len(name) == len(kind) + 11:
        return name
    short = name.split(".", maxsplit=1)[0] if kind == "host" and not name.replace(".", "").isdigit() else name
    return Identities(key=key).pseudonym(kind, short)


def config_folder() -> Path:
    """The folder of the user's own settings: `$XDG_CONFIG_HOME/firstfault`, else below `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.config").expanduser()) / "firstfault"


def owner_key(file: Path | None = None) -> bytes:
    """The key of the pseudonyms: that of a file, else the user's own, which is made where there is none yet.

    Raises:
        PipelineError: the file holds no key.
        OSError: it cannot be read or made.
    """
    path = config_folder() / "incidents.key" if file is None else file
    if file is None and not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written beside it and then linked: nobody ever sees a key that is not whole, and of two writers one is believed.
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as made:
            made.write(os.urandom(32).hex() + "\n")
        try:
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink(missing_ok=True)
    key = path.read_bytes().strip()
    if len(key) < 16:
        raise PipelineError("this file holds no key", where=str(path), fix="Put at least 16 random characters there.")
    return key


def check(store: Records, today: date | None = None) -> tuple[int, list[Complaint]]:
    """Number of records, and what is to be corrected in them; days after `today` among it, where that is given."""
    records, wrong = store.records()
    return len(records), lint(records, wrong, today)


def fix(store: Records) -> list[str]:
    """Brings records of an earlier form up to date; the files that were changed."""
    from firstfault.incidents.frontmatter import set_value
    from firstfault.pipelines.remask import masked_anew

    changed = []
    for record in store.records()[0]:
        keys = migrated(record, masked_anew(record))
        if keys:

            def edit(text: str, keys: dict[str, str] = keys) -> str:
                for key, value in keys.items():
                    text = set_value(text, key, value)
                return text

            store.change(record, edit)
            changed.append(record.where)
    return changed


def one_record(store: Records, name: str) -> Record:
    """The record of an id or of the begin of one; those that ship with firstfault included.

    Raises:
        PipelineError: there is none, or more than one.
    """
    from firstfault.incidents.shipped import shipped

    held, wrong = store.records() if store.exists() else ([], [])
    found = [r for r in held if r.id.startswith(name)]
    found += [r for r in shipped() if r.id.lower() == name.lower()]
    exact = [r for r in found if r.id == name] or found
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise PipelineError(
            f"{name!r} is the begin of {len(exact)} ids", fix=f"Give one of {', '.join(r.id for r in exact[:5])}."
        )
    for error in wrong:
        if name in error.where:
            raise PipelineError(f"the record {name!r} cannot be read", where=error.where, why=error.what, fix=error.fix)
    raise PipelineError(
        f"there is no record {name!r}",
        where=store.where,
        fix="`firstfault incidents search` lists those that are there.",
    )


def verify(
    record: Record,
    paths: Sequence[str],
    options: DiagnoseOptions,
    key_file: Path | None = None,
    stated: date | None = None,
    *,
    today: date | None = None,
) -> Comparison:
    """What a re-run says of an incident.

    Args:
        record: the incident.
        paths: logs of the re-run, or its diagnosis.
        options: of its diagnosis.
        key_file: the key with which the record was made; None: the own one.
        stated: the day on which it ran, where a person says so.
        today: lines of later days are those of a wrong clock; None where nobody knows the day.

    Raises:
        PipelineError: the re-run cannot be read, or it is the incident itself.
    """
    # A stored diagnosis holds of its other attempts no more than a line, and of its lines those that it quotes.
    stored = len(paths) == 1 and stored_diagnosis(Path(paths[0])) is not None
    found, ran = (understood(paths, options), None) if stored else _looked_at(paths, options, record)
    if not stored:
        _something_read(found[0], paths)
    failed = [attempt.number for attempt in found[0].attempts if attempt.ended == "failed" and not attempt.diagnosed]
    asked = () if stored else failed[:MOST_STARTS]
    starts = [Start(number, *understood(paths, structs.replace(options, attempt=number))) for number in asked]
    of_the_incident = record.one("evidence_digest")
    if of_the_incident:
        key = owner_key(key_file)
        for made in (found, *((start.diagnosis, start.traits) for start in starts)):
            safe = redact(_draft(made, Given(), key), "identities", key=key)
            if digest_of(safe.content) == of_the_incident:
                raise PipelineError(
                    "these are the lines of the incident itself, not of a re-run",
                    where=", ".join(map(str, paths)),
                    fix="Give the logs of the run that was made after the fix.",
                )
    comparison = compare(record, *found, starts, ran=ran, stated=stated, today=today)
    if comparison.result == "held" and failed and len(starts) < len(failed):
        more = f"{len(failed) - len(starts)} failed starts of the re-run were not held against the incident"
        return structs.replace(comparison, result="not comparable", reason=f"{comparison.reason}, but {more}")
    return comparison


def link(store: Records, record: Record, comparison: Comparison) -> Record:
    """Links a re-run in the record's file, under the day on which it ran.

    Raises:
        IncidentError: the file was changed meanwhile, or ships with firstfault.
    """
    return store.change(record, lambda _: written(record, comparison))
