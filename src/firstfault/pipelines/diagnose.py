"""The diagnosis of one incident: open, scan, read, fold, infer, verify.

Result objects only: redacts nothing (see `firstfault.redact`) and prints nothing but a progress bar, where one is asked for.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from firstfault.analysis.conclude import NoAttemptError, conclude, reconsidered, with_storage
from firstfault.analysis.in_part import said_in_part
from firstfault.analysis.verify import Verifier
from firstfault.model.until import stages
from firstfault.model.words import SourceKind
from firstfault.pipelines.beforehand import Beforehand
from firstfault.pipelines.build import Builder
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.heeding import heeding
from firstfault.pipelines.looks import looks
from firstfault.pipelines.observe import observe
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.seen_before import with_seen_before
from firstfault.readers.open import open_inputs
from firstfault.scan.newlines import count_newlines
from firstfault.scan.progress import progress_bar
from firstfault.scan.run import scanned
from firstfault.signatures.library import load_library

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

    from firstfault.analysis.case import Observations
    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.storage import StorageState
    from firstfault.analysis.verify import Cited
    from firstfault.model.diagnosis import Diagnosis
    from firstfault.model.until import Until
    from firstfault.pipelines.kept import Kept
    from firstfault.readers.open import Opened
    from firstfault.readers.store import Store
    from firstfault.signatures.library import Library


_ONE_AT_A_TIME = threading.RLock()
"""Held while an input is read: readers remember the last line and the shapes of others for the whole process, so that two
threads that read at once would take each other's ranks."""


def diagnose(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions | None = None,
    *,
    stdin: IO[bytes] | None = None,
    progress: Callable[[int], None] | None = None,
    kept: Kept | None = None,
) -> Diagnosis:
    """Says what the first fault was in what a job left behind.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: see `DiagnoseOptions`; the defaults where None.
        stdin: where `-` reads from; the process's own standard input where None.
        progress: called with numbers of bytes that were scanned.
        kept: what was made of the sources before, where the same input is read again and again; the answer is the same.

    Returns:
        The diagnosis, not yet redacted.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt or the folder of records asked for is not there.
    """
    options = options or DiagnoseOptions()
    ahead = Beforehand(alone=options.engine == "inline")
    try:
        with concluded(paths, options, stdin=stdin, progress=progress, begun=ahead.begin, kept=kept) as ready:
            every = options.attempt == "all"
            found = Builder(ready.conclusion, ready.verifier, every=every, ahead=ahead).build()
            return with_seen_before(found, ready, paths, options.incidents)
    finally:
        ahead.close()


class Concluded(NamedTuple):
    """What the analysis says, and what holds its lines against the raw bytes while the input is open."""

    conclusion: Conclusion
    verifier: Verifier
    store: Store
    """The bytes of all sources."""


@contextmanager
def concluded(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions,
    *,
    stdin: IO[bytes] | None = None,
    progress: Callable[[int], None] | None = None,
    begun: Callable[[Scene], None] | None = None,
    kept: Kept | None = None,
) -> Iterator[Concluded]:
    """The conclusion about an input, which stays open meanwhile; every view of the evidence begins with it.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: see `DiagnoseOptions`.
        stdin: where `-` reads from; the process's own standard input where None.
        progress: called with numbers of bytes that were scanned.
        begun: told of the attempt before anything is asked of it, where there is only one.
        kept: what was made of the sources before.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    library = load_library(options.signatures)
    if options.storage:
        from firstfault.pipelines.storage import with_storage_paths

        paths = with_storage_paths(paths, options.storage)
    until = stages(options.deadline)
    ahead = None if options.engine == "inline" else partial(looks, until=until.opening)
    with _ONE_AT_A_TIME, open_inputs(paths, stdin=stdin, looks=ahead, until=until.opening) as opened:
        with _told(opened, options, progress) as tell:
            observed = observe(opened, library, options, tell, until, kept=kept)
        seen = observed.seen
        if options.storage:
            from firstfault.pipelines.storage import without_daemons

            seen = replace(seen, coverage=(*seen.coverage, *without_daemons(opened, options.storage)))

        heeded = heeding(observed, opened.store)
        try:
            conclusion = conclude(seen, library, _attempt(options), heeded, begun)
        except NoAttemptError as error:
            raise PipelineError(
                str(error), where="--attempt", fix="Give a number that is there, or leave it out."
            ) from error
        if options.attempt == "all":
            conclusion = replace(conclusion, attempts=tuple((s, heeded(s, a)) for s, a in conclusion.attempts))
        daemons = _storage(opened, conclusion.scene, library, options, until.beside)
        late = daemons is not None and until.beside.over()
        conclusion = _so_far(with_storage(conclusion, daemons), seen, storage=late)
        same: frozenset[Cited] = frozenset()
        if observed.seen.dumps:
            from firstfault.pipelines.dumps import cited_again

            conclusion, same = cited_again(conclusion, opened.store, opened.sources)
        yield Concluded(
            conclusion, Verifier(opened.store, decode=_decode, count=_newlines, read_again=same), opened.store
        )


def _so_far(conclusion: Conclusion, seen: Observations, *, storage: bool) -> Conclusion:
    """The conclusion, with what is said where a part of the evidence was left unread."""
    return reconsidered(conclusion, said_in_part(seen, conclusion.answer, storage=storage))


def _storage(
    opened: Opened, scene: Scene, library: Library, options: DiagnoseOptions, until: Until
) -> StorageState | None:
    """What the storage daemons' logs tell; None where there are none."""
    if not any(s.kind is SourceKind.AISTORE for s in opened.sources):
        return None
    from firstfault.pipelines.storage import read_storage

    return read_storage(opened, scene, library, options, until)


@contextmanager
def _told(
    opened: Opened, options: DiagnoseOptions, progress: Callable[[int], None] | None
) -> Iterator[Callable[[int], None] | None]:
    """Who is told of progress: the caller, else a bar on a terminal where one may be drawn, else nobody."""
    if progress is not None or not options.progress:
        yield progress
        return
    total = sum(opened.store.size(source.id) for source in opened.sources if scanned(source))
    with progress_bar(total) as bar:
        yield bar


def _attempt(options: DiagnoseOptions) -> int | Literal["last"]:
    return "last" if options.attempt == "all" else options.attempt


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _newlines(raw: bytes) -> int:
    return count_newlines(raw, 0, len(raw))
