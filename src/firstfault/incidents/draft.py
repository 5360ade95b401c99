"""What a new record is made from: a diagnosis with the parts of its fingerprint and the facts that a person gave.

It goes through the one door whole, so that one name has one pseudonym in all of it. Must not write text (see
`firstfault.report.incident`).
"""

from __future__ import annotations

import hashlib
import re
from datetime import date
from typing import TYPE_CHECKING

from msgspec import field

from firstfault.incidents.fingerprint import Traits, hosts_of
from firstfault.model.diagnosis import Diagnosis, Published
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.diagnosis import Evidence

LINES = 8
"""Lines that a record quotes at most."""
HOSTS = 64
"""Hosts beside those at fault that a record names at most: the head is a page that people read."""
_DEVICE = lazy(r"\bdevice-[0-9a-f]{10}\b")
_SHARD = lazy(
    r"(?<![\w.-])[\w.-]*\w\.(?:tar|bin|idx|parquet|arrow|npy|npz|jsonl|ndjson|csv|h5|hdf5|tfrecord|mds|wds|lmdb|rec|lance|msgpack|zip)(?:\.(?:gz|zst|xz))?\b"
)
_DATA = frozenset({Category.DATA, Category.STORAGE_IO, Category.DATA_LOADING_STALL})
_VERSIONS = (("torch_version", "torch"), ("nccl_version", "nccl"), ("driver_version", "driver"))


class Draft(Published, frozen=True, kw_only=True):
    """Everything of which a record is made."""

    schema: str = "firstfault.incident-draft/1"
    diagnosis: Diagnosis
    traits: Traits
    command: str = ""
    revision: str = ""
    image: str = ""
    devices: list[str] = field(default_factory=list)
    """Serial numbers or ids of devices that a person gave."""
    versions: list[str] = field(default_factory=list)
    """Versions that a person gave: `torch 2.4.1`."""


def lines_of(diagnosis: Diagnosis) -> list[Evidence]:
    """The lines that a record quotes, most telling first, each once."""
    wanted = [] if diagnosis.verdict.trigger is None else [diagnosis.verdict.trigger]
    wanted += [line for link in diagnosis.chain[:2] for line in link.evidence]
    wanted += diagnosis.key_lines
    kept: dict[tuple[str, int], Evidence] = {}
    for line in wanted:
        kept.setdefault((line.file, line.line), line)
    return list(kept.values())[:LINES]


def day_of(diagnosis: Diagnosis) -> date | None:
    """The day on which the first fault shows, by its own clock; None where no line of it is dated."""
    for time in _times(diagnosis):
        try:
            return date.fromisoformat(time[:10])
        except ValueError:
            continue
    return None


def failed_at(diagnosis: Diagnosis) -> str:
    """When the first fault shows, as its own clock told it; empty where no line of it is dated."""
    return next(_times(diagnosis), "")


def _times(diagnosis: Diagnosis) -> Iterator[str]:
    """Dated times of a diagnosis, those of its first fault first."""
    lines = [] if diagnosis.verdict.trigger is None else [diagnosis.verdict.trigger]
    lines += [line for link in diagnosis.chain for line in link.evidence]
    for time in [line.time for line in lines] + [entry.time for entry in diagnosis.timeline]:
        if time is not None and time.dated and time.earliest is not None:
            yield time.earliest


def digest_of(draft: Draft) -> str:
    """Tells whether two records were made of the same lines; the names in them are pseudonyms of one key by then.

    Where and when a line stands counts: the same exception a week later, or out of another file, is another incident.
    """
    named = draft.diagnosis.verdict.culprits
    parts = []
    for line in lines_of(draft.diagnosis):
        at = "" if line.time is None else line.time.earliest or ""
        parts += [line.file.rpartition("/")[2], str(line.line), at, line.text]
    parts += [",".join(map(str, named.ranks)), ",".join([*named.hosts, *named.storage_nodes])]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def facts_of(draft: Draft) -> dict[str, list[str]]:
    """The lists of a record's head: whose fault it was, who else was there, devices and shards of the first lines, versions."""
    diagnosis = draft.diagnosis
    named = diagnosis.verdict.culprits
    hosts = [*named.hosts, *named.storage_nodes]
    first = lines_of(diagnosis)[:3]
    texts = [line.text for line in first]
    where = f"@{hosts[0]}" if len(hosts) == 1 else ""
    devices = [d if _DEVICE.fullmatch(d) else d + where for d in named.devices]
    devices += [found for text in texts for found in _DEVICE.findall(text)]
    told = [f"{name} {fact.value}" for key, name in _VERSIONS if (fact := diagnosis.job.get(key)) is not None]
    return {
        "signatures": list(dict.fromkeys(_signatures(draft))),
        "ranks": [str(rank) for rank in named.ranks],
        "hosts": list(dict.fromkeys(hosts)),
        "hosts_seen": [h for h in hosts_of(diagnosis) if h not in hosts][:HOSTS],
        "devices": list(dict.fromkeys([*draft.devices, *devices])),
        "shards": list(dict.fromkeys(_shards(diagnosis, texts))),
        "versions": list(dict.fromkeys([*draft.versions, *told])),
    }


def _signatures(draft: Draft) -> Iterator[str]:
    if draft.traits.signature:
        yield draft.traits.signature
    # The chain's own lines: what the first fault led to is searched for as often as the fault itself.
    titles = {count.title: count.signature for count in draft.diagnosis.counts}
    lines = {(e.file, e.line) for link in draft.diagnosis.chain for e in link.evidence}
    for entry in draft.diagnosis.timeline:
        if (entry.evidence.file, entry.evidence.line) in lines and entry.what in titles:
            yield titles[entry.what]


def _shards(diagnosis: Diagnosis, texts: list[str]) -> Iterator[str]:
    verdict = diagnosis.verdict
    if verdict.category in _DATA or verdict.classes.layer is Layer.STORAGE:
        for text in texts:
            yield from (found.lstrip(".-") for found in _SHARD.findall(text) if not re.fullmatch(r"\W*", found))
