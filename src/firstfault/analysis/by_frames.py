"""What the frames of a traceback change of what its last line says: whose bytes were read, and over which connection or pipe.

An exception names what was met; the frames show in whose hands. Judges nothing else and reads no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.gathered import out_of_a_collective
from firstfault.analysis.nature import Nature
from firstfault.analysis.own_files import keeper_of
from firstfault.analysis.storage_clients import client_of
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Layer, Role, Strength

if TYPE_CHECKING:
    from firstfault.model.evidence import Event, PythonException

BROKEN_READ = "storage.client_exception"
"""Kind of a connection that broke under a client of a store."""
PEERS_DEPTH = 25
"""Depth below which an exception that is an effect speaks of a connection; those above are reports about other processes."""
_OUT_OF_STEP = Nature(
    key="collective.object_unreadable",
    title="An object that ranks sent to each other arrived unreadable: they were not in the same call",
    role=Role.CAUSE,
    category=Category.COLLECTIVE_MISMATCH,
    domain=Domain.COMMUNICATION,
    layer=Layer.COLLECTIVE,
    strength=Strength.POSSIBLE,
    depth=44,
    action=ActionKind.FIX_AND_RERUN,
    advice=(
        "Compare what the ranks ran before it: a batch skipped, an epoch that ends earlier or a branch on one rank puts them out of step.",
    ),
    meaning="The bytes that a gather or a broadcast brought are no pickled object; it is no file that is damaged.",
)

_HANDED_OVER = Nature(
    key="process.handed_over",
    title="What one process hands to another did not arrive whole: its partner was gone, or had failed before it",
    role=Role.CAUSE,
    category=Category.SOFTWARE,
    domain=Domain.CONFIG,
    layer=Layer.RUNTIME,
    strength=Strength.POSSIBLE,
    depth=30,
    action=ActionKind.FIX_AND_RERUN,
    advice=(
        "Read what the other process said: the one that started this one, or that was to send to it; it failed first as a rule.",
    ),
    meaning="The stream that ended is a pipe between two processes of one program, and no file.",
)
_PIPE = lazy(r"[/\\]multiprocessing[/\\](?:spawn|forkserver|connection|reduction|resource_sharer|queues|managers)\.py$")
_PIPE_NEAR = 3
"""Frames from the innermost in which the module that reads the pipe stands."""


def _of_a_pipe(exception: PythonException) -> bool:
    """Whether a stream that ended early is the one between two processes of Python's multiprocessing."""
    kind = exception.kind.rsplit(".", 1)[-1]
    return kind == "EOFError" and any(_PIPE.search(f.file) is not None for f in exception.frames[-_PIPE_NEAR:])


def through_a_client(event: Event, nature: Nature) -> Nature:
    """A connection that broke, by what went over it: under a client of a store it is no peer's death but a failed read."""
    if nature.role is not Role.EFFECT or event.exception is None or nature.depth >= PEERS_DEPTH:
        return nature
    client = client_of(event.exception)
    if client is None:
        return nature
    return Nature(
        key=f"{BROKEN_READ}:{client}",
        title=f"A request of {client.replace('/', '.')} to its store failed for good",
        role=Role.CAUSE,
        category=Category.STORAGE_IO,
        domain=Domain.DATA,
        layer=Layer.STORAGE,
        strength=Strength.SUPPORTED,
        depth=64,
        advice=(
            "Check the store, the proxies and the name service on the way to it for that time; see whether all ranks met it.",
        ),
        meaning="The connection of a client of a store broke or timed out, and no attempt more was made.",
    )


def of_its_bytes(event: Event, nature: Nature) -> Nature | None:
    """What unreadable bytes are where the frames show whose they were; None where they show nothing."""
    if event.exception is None:
        return None
    if out_of_a_collective(event.exception):
        return _OUT_OF_STEP
    if nature.role is Role.CAUSE and _of_a_pipe(event.exception):
        return _HANDED_OVER
    keeper = keeper_of(event.exception) if nature.category is Category.DATA else None
    if keeper is None:
        return None
    return Nature(
        key=f"{nature.key}:{keeper}",
        title=f"A file that {keeper} writes for itself could not be read back",
        role=Role.CAUSE,
        category=Category.SOFTWARE,
        domain=Domain.CONFIG,
        layer=Layer.RUNTIME,
        strength=Strength.POSSIBLE,
        depth=nature.depth,
        action=ActionKind.FIX_AND_RERUN,
        advice=(
            "See whether several processes keep this file under one name: give each a folder or an experiment name of its own.",
            "See whether the file system of that folder was full or is shared between machines.",
        ),
        meaning="The unreadable file is no data that was given to the job: a library made it in this run, for itself.",
    )


def by_frames(event: Event, nature: Nature) -> Nature:
    """The nature of an exception of which only the class is known, with what its frames say."""
    return of_its_bytes(event, nature) or through_a_client(event, nature)
