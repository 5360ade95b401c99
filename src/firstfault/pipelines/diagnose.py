"""The diagnosis of one incident: open, scan, read, fold, infer, verify.

Result objects only: prints nothing and redacts nothing (see `firstfault.redact`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import Conclusion, conclude
from firstfault.analysis.verify import Verifier
from firstfault.model.evidence import Coverage, ProgressSample
from firstfault.model.words import CoverageState
from firstfault.pipelines.build import Builder
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.banners import read_failures
from firstfault.readers.clock import SourceClock, settle_clocks
from firstfault.readers.events import build_events
from firstfault.readers.identity import profile_source
from firstfault.readers.numbering import missing_names
from firstfault.readers.open import Opened, open_inputs
from firstfault.readers.progress import progress_samples
from firstfault.scan.run import scan, scanned
from firstfault.scan.stretch import SAMPLE
from firstfault.signatures.library import Library, load_library

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import IO

    from firstfault.model.diagnosis import Diagnosis
    from firstfault.model.evidence import Event, Failure
    from firstfault.scan.results import ScanResult


def diagnose(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions | None = None,
    *,
    stdin: IO[bytes] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Says what the first fault was in what a job left behind.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: see `DiagnoseOptions`; the defaults where None.
        stdin: where `-` reads from; the process's own standard input where None.
        progress: called with numbers of bytes that were scanned.

    Returns:
        The diagnosis, not yet redacted.

    Raises:
        SignatureError: a site signature is wrong.
        ValueError: the attempt asked for is not there.
    """
    options = options or DiagnoseOptions()
    library = load_library(options.signatures)
    with open_inputs(paths, stdin=stdin) as opened:
        result = scan(opened, library, executor=options.engine, progress=progress)
        seen = observe(opened, result, library, options)
        conclusion = conclude(seen, library, _attempt(options))
        verifier = Verifier(opened.store, decode=_decode)
        return Builder(conclusion, verifier).build()


def _attempt(options: DiagnoseOptions) -> int | Literal["last"]:
    return "last" if options.attempt == "all" else options.attempt


def observe(opened: Opened, result: ScanResult, library: Library, options: DiagnoseOptions) -> Observations:
    """Everything that the readers make of a scan."""
    events: list[Event] = []
    failures: list[Failure] = []
    samples: list[ProgressSample] = []
    store = opened.store
    read = [s for s in opened.sources if scanned(s) and result.of(s.id) is not None]
    profiles = {s.id: profile_source(store.head(s.id, SAMPLE), s.path) for s in read}
    clocks = {s.id: SourceClock(store, s, profiles[s.id]) for s in read}
    settle_clocks([clocks[s.id] for s in read])
    for source in read:
        found = result.of(source.id)
        assert found is not None
        profile, clock = profiles[source.id], clocks[source.id]
        own = build_events(found.hits, store, source.id, profile, library.by_id, clock=clock)
        events.extend(own)
        failures.extend(read_failures(store, source.id, profile, own, clock=clock))
        samples.extend(progress_samples(store, source.id, profile, [e.span.offset for e in own], clock=clock))
    return Observations(
        sources=opened.sources,
        events=tuple(events),
        failures=tuple(failures),
        progress=tuple(samples),
        coverage=_coverage(opened, result),
        place={i: p.who for i, p in profiles.items()},
        missing_files=missing_names(s.path for s in opened.sources),
        job_state=options.job_state,
        exit_code=options.exit_code,
    )


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _coverage(opened: Opened, result: ScanResult) -> tuple[Coverage, ...]:
    """Coverage of opening, with what the scan found damaged and what the numbering misses."""
    rows = {c.file: c for c in opened.coverage}
    for source in opened.sources:
        found = result.of(source.id)
        if found is not None and found.damage:
            rows[source.path] = Coverage(
                file=source.path, state=CoverageState.DAMAGED, reason=found.damage, bytes=found.bytes
            )
    for name in missing_names(s.path for s in opened.sources):
        rows.setdefault(
            name, Coverage(file=name, state=CoverageState.MISSING, reason="its neighbours in the numbering are here")
        )
    return tuple(rows[name] for name in sorted(rows))


__all__ = ["Conclusion", "DiagnoseOptions", "diagnose", "observe"]
