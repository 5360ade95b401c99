"""Does what the job itself shows look like a read that failed or stood still? Only then can the object store be the cause."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from firstfault.analysis.by_frames import BROKEN_READ
from firstfault.model.lazy import lazy
from firstfault.model.words import Category

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

CLIENT = frozenset(
    {
        "data.worker_storage_exception",
        "storage.http_failed",
        BROKEN_READ,
    }
)
"""Lines by which a client of the store, or the loader around it, gives up."""
MAYBE = frozenset(
    {
        "data.archive_damaged",
        "data.generator_stop",
        "data.loader_timeout",
        "data.webdataset_pipe",
        "data.worker_exception",
        "storage.s3_unreachable",
        "storage.s3_client_error",
        "storage.s3_throttled",
    }
)
"""Lines that a store can bring about, and much else too."""
S3 = frozenset({"storage.s3_unreachable", "storage.s3_client_error", "storage.s3_throttled"})
"""Words of a client that most people point at another store: daemons speak that protocol too, below `/s3`."""
_STORE = lazy(r"\bais(?:tore\b|://)|\bAIS_|/s3(?:/|\b)|/v1/objects\b")
CONTENT = frozenset({"data.audio_decode"})
"""Lines about what a file holds: a cut answer reads so, and a damaged file too."""
CALLER = frozenset({"aistore.caller_error"})
"""Words of the store's client about what it was asked for."""
_CALLERS = lazy(
    r"Invalid (?:object )?URL\b|Unsupported storage type|\bInvalid(?:BckProvider|ObjectRangeIndex|Parameter\w*)\b|has no attribute '"
    r"|unexpected keyword argument|\b(?:ErrBckNotFound|ErrRemoteBckNotFound|ErrBckAlreadyExists|ErrETL\w+)\b"
)
"""What a client raises over its caller's words, whatever the daemons did."""
_ANSWER = lazy(r"STATUS:[45]\d\d, MESSAGE:|/v1/(?:objects|ml|buckets)/")
REFUSALS = frozenset({"400", "401", "403", "404"})
"""HTTP answers that say that the request was wrong, not that the store was ill."""

CARRIED = 200
"""Lines behind a loader's own words within which it prints the whole traceback of its worker."""


class Symptom(Enum):
    """How the job shows that it depends on the store."""

    READ = "read"
    """A client of the store gave up."""
    READING = "reading"
    """A rank was late while it read, or its loader raised something that a cut answer can bring about."""
    CONTENT = "content"
    """What a rank read could not be decoded."""
    WAIT = "wait"
    """Ranks waited and nothing says for what."""


def symptom(scene: Scene, answer: Answer) -> Symptom | None:
    """How the store could come into it; None where the job's own first fault is another."""
    if answer.failed is not True:
        return None
    if answer.question == "first_fault":
        root = _root(scene, answer)
        if root is None:
            return None
        if root.nature.key in CALLER:
            return None
        if root.nature.key.split("#")[0].split(":")[0] in CLIENT or _of_client(root):
            return None if _refused(root) else Symptom.READ
        if root.nature.key in MAYBE and any(_of_client(s) and not _refused(s) for s in _inside(scene, root)):
            return Symptom.READ
        if root.nature.key in CONTENT:
            return Symptom.CONTENT
        if root.nature.key in MAYBE:
            return Symptom.READING if root.nature.key not in S3 or _of_this_store(scene) else Symptom.WAIT
        inside = root.first.exception is not None and root.first.exception.in_worker
        return Symptom.READING if inside and answer.category in {Category.DATA, Category.STORAGE_IO} else None
    if answer.category is Category.DATA_LOADING_STALL:
        return Symptom.READING
    if answer.question in {"hang", "exits", "peers", "effects"} and answer.category is Category.UNKNOWN:
        return Symptom.WAIT
    return None


def _of_this_store(scene: Scene) -> bool:
    """Whether any line of the job shows that it reads from the daemons' store."""
    return any(e.signature.startswith("aistore.") or _STORE.search(e.text) is not None for e in scene.events)


def _of_client(root: Suspect) -> bool:
    """Whether the error is the word of the store's own client, whatever of its text was recognised."""
    exception = root.first.exception
    if root.nature.key.startswith("aistore.") or _ANSWER.search(root.first.text) is not None:
        return True
    return exception is not None and (exception.kind.startswith(("aistore.", "lhotse.ais.")) or "AIS" in exception.kind)


def _inside(scene: Scene, root: Suspect) -> list[Suspect]:
    """What else the traceback tells of whose last line is the root: a loader hands on the error of its worker in one of its own."""
    last = root.first
    if last.exception is None or not last.exception.in_worker:
        return []
    reach = last.span.line + CARRIED
    return [
        s
        for s in (*scene.suspects, *scene.weak)
        if s is not root
        and any(
            e.exception is not None
            and e.span.source == last.span.source
            and e.who.rank == last.who.rank
            and last.span.line < e.span.line <= reach
            for e in s.events
        )
    ]


def _refused(root: Suspect) -> bool:
    """Whether the error says that the request was wrong: by the daemon's answer, or by the client's own words."""
    exception = root.first.exception
    words = root.first.text if exception is None else f"{exception.kind}: {exception.message}"
    return root.first.fields.get("status") in REFUSALS or _CALLERS.search(words) is not None


def _root(scene: Scene, answer: Answer) -> Suspect | None:
    """The suspect on which an answer rests."""
    proof = {(e.span, e.signature) for e in answer.proof}
    named = [s for s in (*scene.suspects, *scene.weak) if (s.first.span, s.first.signature) in proof]
    trigger = answer.trigger
    if trigger is None:
        return named[0] if named else None
    own = [s for s in named if (s.first.span, s.first.signature) == (trigger.span, trigger.signature)]
    return next(iter(own or named), None)
