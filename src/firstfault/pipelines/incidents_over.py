"""Jobs over many records: search, likeness, trends, replay of kept evidence, import of notes, export.

Prints nothing.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.ids import RANDOM_BYTES, new_id
from firstfault.incidents.importing import digest_of_note, lines_left, noted_hosts, read_notes, record_text
from firstfault.incidents.people import without_people
from firstfault.incidents.places import index_at
from firstfault.incidents.record import parse, read_text
from firstfault.incidents.search import Found, Query, merged, search
from firstfault.incidents.similar import Likeness, similar
from firstfault.incidents.trends import Trend, trends
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.incidents import owner_key, pseudonym, understood
from firstfault.privacy.identities import Identities
from firstfault.privacy.secrets import SecretFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import date
    from pathlib import Path

    from firstfault.incidents.places import Records
    from firstfault.incidents.record import Record
    from firstfault.pipelines.options import DiagnoseOptions

_ENDS = ("", ".tar.gz", ".tgz", ".tar", ".tar.zst", ".zip", ".log", ".log.gz", ".log.zst", ".txt", ".json")
_DATED_ID = re.compile(r"20\d{6}-")
_HASHED = {"host": "host", "gpu": "device"}
"""Field of a search -> the kind of pseudonym under which its values stand in records."""


def find(folder: Path | str, query: Query, *, key_file: Path | None = None, full: bool = False) -> Found:
    """Records that fit. Hosts and devices are looked for under their pseudonyms and as they are written, shards by their last part.

    Args:
        folder: of the records, or the address of a database; only the shipped ones are there where it does not exist.
        query: what is looked for.
        key_file: the key of the pseudonyms; the user's own where None.
        full: whether every file is looked at for changes, however many there are.
    """
    query = replace(query, facts=tuple(map(_last_part, query.facts)))
    with closing(index_at(folder)) as index:
        index.refresh(full=full)
        if not any(kind in _HASHED for kind, _ in query.facts):
            return search(index, query)
        key = owner_key(key_file)
        # Under its pseudonym; as a piece of the name of a log; as it is written, as in older records; and in small letters, as
        # most programs print a host.
        ways = (tuple(way(kind, value, key) for kind, value in query.facts) for way in _WAYS)
        return merged([search(index, replace(query, facts=facts)) for facts in dict.fromkeys(ways)], query.limit)


def _last_part(fact: tuple[str, str]) -> tuple[str, str]:
    """Of a shard's path or address its name: records hold no folders."""
    kind, value = fact
    return (kind, value.rstrip("/").rpartition("/")[2]) if kind == "shard" else fact


def _hidden(kind: str, value: str, key: bytes) -> tuple[str, str]:
    if kind not in _HASHED or value.endswith("*"):
        return kind, value
    return kind, pseudonym(_HASHED[kind], value, key)


def _small(kind: str, value: str, key: bytes) -> tuple[str, str]:
    return _hidden(kind, value.lower() if kind == "host" else value, key)


def _plain(kind: str, value: str, _: bytes) -> tuple[str, str]:
    return kind, value.partition(".")[0] if kind == "host" and not value.replace(".", "").isdigit() else value


def _filed(kind: str, value: str, key: bytes) -> tuple[str, str]:
    kind, value = _plain(kind, value, key)
    return (kind, pseudonym("file", value, key)) if kind == "host" and not value.endswith("*") else (kind, value)


def _filed_small(kind: str, value: str, key: bytes) -> tuple[str, str]:
    return _filed(kind, value.lower(), key)


_WAYS = (_hidden, _plain, _small, _filed, _filed_small)
"""How what is asked for may stand in a record."""


def kinds_of_lines(word: str) -> int:
    """How many signatures of the program's own have a word in their id, title or meaning."""
    from firstfault.signatures.library import load_library

    low = word.lower()
    specs = load_library().by_id.items()
    return sum(any(low in text.lower() for text in (name, spec.title, spec.meaning)) for name, spec in specs)


def near(folder: Path | str, paths: Sequence[str], options: DiagnoseOptions, *, limit: int) -> list[Likeness]:
    """The nearest past incidents of what lies at PATHs, or of a stored diagnosis."""
    _, traits = understood(paths, options)
    with closing(index_at(folder)) as index:
        index.refresh()
        return similar(index, traits, limit=limit)


def returning(store: Records, *, kinds: Iterable[str], least: int) -> list[Trend]:
    """What returns over the records of a folder."""
    records, _ = store.records()
    return trends(records, kinds=kinds, least=least)


class Replayed(Struct, frozen=True):
    """One record whose kept evidence was diagnosed again."""

    id: str
    state: str
    """same, changed, no evidence, or `not read: ` and the reason."""
    changed: tuple[str, ...] = ()
    """What changed, as `name: then -> now`."""

    @property
    def read(self) -> bool:
        """Whether there was evidence and it could be read."""
        return self.state in {"same", "changed"}


def replay(
    store: Records, evidence: Path, names: Sequence[str], options: DiagnoseOptions, key: Callable[[], bytes]
) -> list[Replayed]:
    """Diagnoses the kept evidence of records with this version.

    Args:
        store: the records.
        evidence: folder that holds a file, folder or archive for each, named after the id.
        names: ids; all where empty.
        options: of the diagnosis.
        key: gives the key of the pseudonyms, where hosts have to be compared.
    """
    wanted = [r for r in store.records()[0] if not names or r.id in names]
    missing = set(names) - {r.id for r in wanted}
    if missing:
        raise PipelineError(f"there is no record {', '.join(sorted(missing))}", where=store.where)
    return [_replayed(record, evidence, options, key) for record in wanted]


def _replayed(record: Record, evidence: Path, options: DiagnoseOptions, key: Callable[[], bytes]) -> Replayed:
    place = next((p for end in _ENDS if (p := evidence / f"{record.id}{end}").exists()), None)
    if place is None:
        return Replayed(record.id, "no evidence")
    from firstfault.incidents.fingerprint import Traits, fingerprint

    try:
        diagnosis, traits = understood([str(place)], options)
    except PipelineError as error:
        # One that cannot be read must not hide what became of the others.
        return Replayed(record.id, f"not read: {error.why or error.what}")
    verdict = diagnosis.verdict
    now = {name: getattr(traits, name) for name in Traits.__struct_fields__}
    now |= {"strength": str(verdict.strength), "fingerprint": fingerprint(traits)}
    changed = [
        f"{n}: {record.one(n) or 'none'} -> {value or 'none'}"
        for n, value in now.items()
        if n in record.values and record.one(n) != value
    ]
    ranks = tuple(str(rank) for rank in verdict.culprits.ranks)
    if "ranks" in record.values and record.all("ranks") != ranks:
        changed.append(f"ranks: {', '.join(record.all('ranks')) or 'none'} -> {', '.join(ranks) or 'none'}")
    hosts = tuple(pseudonym("host", host, key()) for host in (*verdict.culprits.hosts, *verdict.culprits.storage_nodes))
    if "hosts" in record.values and set(record.all("hosts")) != set(hosts):
        changed.append(f"hosts: {', '.join(record.all('hosts')) or 'none'} -> {', '.join(hosts) or 'none'}")
    return Replayed(record.id, "changed" if changed else "same", tuple(changed))


def import_notes(
    file: Path, store: Records, day: date, key: bytes | None = None
) -> tuple[list[Path | str], list[Path | str]]:
    """Writes a record for each incident of a page of notes, without the secrets in them.

    Of a note of which there is a record already none is made: a page that grows may be imported again.

    Returns:
        The new files, in the order of the notes, and where the records of the others are.

    Args:
        file: the page.
        store: where the records go.
        day: of records whose notes tell none.
        key: makes pseudonyms of hosts, users, paths and addresses, as in every other record; None keeps them.

    Raises:
        PipelineError: the page holds no incident.
        IncidentError: it is not UTF-8, or too large.
    """
    page = read_text(file.read_bytes(), str(file))
    secrets = SecretFilter()
    secrets.learn(page)
    lines = list(map(secrets.clean, page.split("\n")))
    if key is not None:
        identities = Identities(key=key)
        identities.learn_hosts(noted_hosts(page))
        identities.learn(page)
        lines = without_people("\n".join(map(identities.clean, lines))).split("\n")
    notes = read_notes("\n".join(lines))
    if not notes:
        raise PipelineError(
            "no incident was found in these notes",
            where=str(file),
            why="an incident is a heading with at least two known parts below it, or a row of a table with such columns",
            fix="Name the parts: Symptom, Cause, Fix, Verification, or 现象、原因、修复、验证.",
        )
    made: list[Path | str] = []
    known: list[Path | str] = []
    there = {r.one("notes_digest"): r.where for r in store.records()[0]} if store.exists() else {}
    for note in notes:
        digest = digest_of_note(note)
        if digest in there:
            known.append(there[digest])
            continue
        name = new_id(day, os.urandom(RANDOM_BYTES))
        text = record_text(note, name)
        parse(text)
        made.append(store.create(name, text, f"{day:%Y}"))
        there[digest] = str(made[-1])
    return made, known


def lines_not_taken(file: Path) -> list[int]:
    """Numbers of the lines of a page of notes that no record takes.

    Raises:
        IncidentError: it is not UTF-8, or too large.
    """
    return lines_left(read_text(file.read_bytes(), str(file)))


def copy_records(source: Records, store: Records) -> tuple[list[Path | str], list[str]]:
    """Copies every record of one store into another, byte for byte; where they are now, and what was left out and why.

    One that is there already with the same text is passed over, so that a copy can be brought up to date.
    """
    records, wrong = source.records()
    left = [f"{error.where}: {error.what}" for error in wrong]
    made: list[Path | str] = []
    # A folder keeps one id in any of its folders, so a free name of a file is not enough.
    taken = {record.id: record.text for record in store.records()[0]} if store.exists() else {}
    for record in records:
        if taken.get(record.id) == record.text:
            continue
        if record.id in taken:
            left.append(f"{record.where}: there is a record of that name with another text")
            continue
        try:
            made.append(store.create(record.id, record.text, year_of(record)))
        except IncidentError as error:
            left.append(f"{record.where}: {error.what}")
    return made, left


def year_of(record: Record) -> str:
    """The folder below the top one in which a record lies: the year of its date, or else that of its id."""
    return record.one("date")[:4] or (record.id[:4] if _DATED_ID.match(record.id) else "")


def plain(record: Record) -> dict[str, Any]:
    """A record as one JSON object: its head, its sections, and where it lies below the folder."""
    return {
        **{key: list(value) if isinstance(value, tuple) else value for key, value in record.values.items()},
        "id": record.id,
        "state": str(record.state),
        "title": record.title,
        "sections": {str(section): text for section, text in record.sections.items()}
        | ({"own": record.own} if record.own else {}),
    }
