"""What the client's own error says of its request: the bucket, the daemon it asked, whether it reached it; and whose a batch is.

A store serves many jobs. A failed batch of another bucket is another job's, and what befell a daemon to which no connection
came about is told by that daemon alone. It reads words; it names no culprit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.analysis.state.storage_faults import KINDS, ONCE, Kind, name_of, node_at
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.storage import Moment, StorageState
    from firstfault.analysis.state.storage_faults import Trouble
    from firstfault.model.evidence import Event

_NAMED = lazy(
    r"""["']node["']:\s*["'][tp]\[([\w-]+)\]|host=['"]([A-Za-z][\w-]*)|\([tp]\[([\w-]+)\]: \w+\.go:\d|(?:REQ_URL:|with url: )https?://([A-Za-z][\w-]*)"""
)
_ADDRESS = lazy(r"(?:host=['\"]|https?://|Connection to )(\d{1,3}(?:\.\d{1,3}){3})(?![\d.])")
_BUCKETS = lazy(
    r"\b(?:ais|s3|aws|gs|gcp|az|azure|oci|oc|ht)://([\w.-]{1,80})|/v1/(?:ml/moss|objects|buckets)/([\w.-]{1,80})"
)
_OBJECT = lazy(
    r"""(?:\b(?:ais|s3|aws|gs|gcp|az|azure|oci|oc|ht)://|/v1/objects/)[\w.-]{1,80}/([^\s'"?,\]\)}]{1,300})"""
    r"""|\bobject (?:at )?['"]?([^\s'"]{1,300})['"]? from bucket |reading object at '(?:objects/)?[\w.-]{1,80}/([^'\n]{1,300})'"""
)
_BATCH = lazy(r"get-batch\[(\w+)\](?:-\w{2,6}://([\w.-]{1,80}))?")
_UNREACHED = lazy(
    r"\[Errno (?:111|113|101|112|-2|-3|-5)\]|NewConnectionError|NameResolutionError|ConnectTimeout(?:Error)?\b"
    r"|(?i:no route to host|network is unreachable|host is down|connection refused|name or service not known|no such host"
    r"|temporary failure in name resolution)"
)
_NO_WAY = lazy(r"\[Errno (?:113|101|112)\]|(?i:no route to host|network is unreachable|host is down)")
_REPEATED = lazy(r"objects/([\w.-]{1,80})/")
"""How the client's path of an object begins with its bucket."""
DISTINCT = 5
"""Letters from which on the name of an object is one that another job does not read in the same minute by chance."""
_CLIENTS = ("aistore.", "data.worker_storage_exception")
"""Lines of the client that asks for batches; another client's buckets are none of them."""


class Request(NamedTuple):
    """What is known of the request that failed."""

    asked: str | None
    """Node id of the daemon that was asked; None where the error names none of those whose logs are here."""
    buckets: frozenset[str]
    """Buckets that the job's own lines about its store name."""
    batches: frozenset[str]
    """Ids of get-batch jobs that they name."""
    objects: frozenset[str] = frozenset()
    """Objects that the error itself names."""
    unreached: bool = False
    """Whether no connection came about."""
    read: frozenset[str] = frozenset()
    """Buckets of which the job's client repeated a read: it may read others too, of which it says nothing."""
    no_way: bool = False
    """Whether the host of the client had no way to the other at all."""


def request(scene: Scene, answer: Answer, state: StorageState) -> Request:
    """What the job's lines say of the request that failed."""
    texts = [_words(e) for e in answer.proof[:2]]
    buckets, batches = _read_by(scene, texts)
    return Request(
        asked=told(answer, state),
        buckets=buckets,
        batches=batches,
        objects=frozenset(o for text in texts for o in _objects(text)),
        unreached=any(_UNREACHED.search(text) for text in texts),
        no_way=any(_NO_WAY.search(text) for text in texts),
        read=frozenset(found[1] for e in scene.events if (found := _REPEATED.match(e.fields.get("path", "")))),
    )


def by_reads(of: Request) -> Request:
    """The same request with the buckets of repeated reads as its own, where its errors name none: a hint, for want of better."""
    return of if of.buckets else of._replace(buckets=of.read)


def _read_by(scene: Scene, texts: Sequence[str] = ()) -> tuple[frozenset[str], frozenset[str]]:
    """Buckets and get-batch jobs that lines of the store's client name, and other texts beside them."""
    of_clients = [*texts, *(_words(e) for e in scene.events if e.signature.startswith(_CLIENTS))]
    buckets = {n for text in of_clients for found in _BUCKETS.finditer(text) for n in found.groups() if n}
    named = [found for text in of_clients for found in _BATCH.finditer(text)]
    return frozenset(buckets | {m[2] for m in named if m[2]}), frozenset(m[1] for m in named)


def names_batches(scene: Scene) -> bool:
    """Whether the job's own lines name a bucket or a get-batch job of the store."""
    return any(_read_by(scene))


def of_other_jobs(scene: Scene, moments: Sequence[Moment]) -> list[bool]:
    """For each line of a daemon, whether it is of a batch that the job did not ask for, by the bucket or the id in it."""
    of = _read_by(scene)
    if not any(of):
        return [False] * len(moments)
    buckets = _buckets(moments)
    return [_of_batches(m) and _of_another(m, of, buckets) for m in moments]


def _objects(text: str) -> Iterable[str]:
    """Names of objects in a client's error that tell one from thousands: with a number in them."""
    for found in _OBJECT.finditer(text):
        name = next(n for n in found.groups() if n).rstrip(".,;:")
        if len(name) >= DISTINCT and any(c.isdigit() for c in name):
            yield name


def _words(event: Event) -> str:
    return event.text if event.exception is None else f"{event.text}\n{event.exception.message}"


def told(answer: Answer, state: StorageState) -> str | None:
    """The daemon that the client's own error names, by its answer or by the address it asked; None where it names none."""
    names: list[str] = [*answer.culprits.storage_nodes]
    for event in answer.proof[:2]:
        text = _words(event)
        names += [n for found in _NAMED.finditer(text) for n in found.groups() if n]
        names += [node for found in _ADDRESS.finditer(text) if (node := node_at(state, found[1])) is not None]
    known = [d for n in names if (d := state.named(n)) is not None]
    return name_of(known[0]) if known else None


def without_others(state: StorageState, of: Request) -> StorageState:
    """The store without the lines about batches of other jobs.

    Args:
        state: the store.
        of: the request that failed.
    """
    if not of.buckets and not of.batches:
        return state
    buckets = _buckets(m for d in state.daemons for m in d.lines)
    daemons = tuple(
        replace(
            d,
            lines=tuple(
                m for m in d.lines if not _of_batches(m) or not _of_another(m, (of.buckets, of.batches), buckets)
            ),
        )
        for d in state.daemons
    )
    return replace(state, daemons=daemons)


def _of_batches(moment: Moment) -> bool:
    return KINDS.get(moment.event.signature) in {Kind.BATCH, Kind.ECHO}


def of_the_batch(of: Request, moment: Moment) -> bool:
    """Whether a line is of a get-batch job that the job's own lines name by its id."""
    return any(found[1] in of.batches for found in _BATCH.finditer(moment.event.text))


def of_the_object(of: Request, moment: Moment) -> bool:
    """Whether a line tells of an object that the job's error names."""
    text = moment.event.text
    return any(name in text and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) for name in of.objects)


def concerned(listed: Sequence[Trouble], of: Request) -> list[Trouble]:
    """The troubles that can concern a request: without what does not explain that no connection came about.

    Args:
        listed: troubles of all daemons.
        of: the request that failed.
    """
    if not of.unreached:
        return list(listed)
    # A daemon that had lived passed its connections on; batches are told of over connections that were there.
    gone = {t.node for t in listed if t.signature in ONCE} | {of.asked}
    return [t for t in listed if t.kind not in {Kind.FAULT, Kind.LOAD} or t.node in gone]


def _buckets(moments: Iterable[Moment]) -> dict[str, str]:
    """The bucket of each get-batch job, as far as any line tells: newer daemons name it only in some."""
    return {m[1]: m[2] for moment in moments for m in _BATCH.finditer(moment.event.text) if m[2]}


def _of_another(moment: Moment, of: tuple[frozenset[str], frozenset[str]], buckets: Mapping[str, str]) -> bool:
    """Whether a line is of a batch of a bucket, or of a get-batch job, that is not this job's."""
    found = next(_BATCH.finditer(moment.event.text), None)
    if found is None:
        return False
    own, batches = of
    bucket = found[2] or buckets.get(found[1])
    if bucket is not None and own:
        return bucket not in own
    return bucket is None and bool(batches) and found[1] not in batches
