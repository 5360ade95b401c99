"""The diagnosis of one incident: open, scan, read, fold, infer, verify.

Result objects only: prints nothing and redacts nothing (see `firstfault.redact`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import Conclusion, conclude
from firstfault.analysis.verify import Verifier
from firstfault.model.evidence import Coverage, ProgressSample, SourceId, Who
from firstfault.model.words import CoverageState
from firstfault.pipelines.build import Builder
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.banners import read_failures
from firstfault.readers.events import build_events, decode
from firstfault.readers.identity import SourceProfile, profile_source
from firstfault.readers.numbering import missing_names
from firstfault.readers.open import Opened, open_inputs
from firstfault.readers.progress import progress_samples
from firstfault.scan.run import SAMPLE, scan, scanned
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
        verifier = Verifier(opened.store, decode=decode)
        return Builder(conclusion, verifier).build()


def _attempt(options: DiagnoseOptions) -> int | Literal["last"]:
    return "last" if options.attempt == "all" else options.attempt


def observe(opened: Opened, result: ScanResult, library: Library, options: DiagnoseOptions) -> Observations:
    """Everything that the readers make of a scan."""
    events: list[Event] = []
    failures: list[Failure] = []
    samples: list[ProgressSample] = []
    place: dict[SourceId, Who] = {}
    for source in opened.sources:
        if not scanned(source):
            continue
        profile: SourceProfile = profile_source(opened.store.head(source.id, SAMPLE), source.path)
        place[source.id] = profile.who
        found = result.of(source.id)
        if found is None:
            continue
        events.extend(build_events(found, opened.store, source, profile, library))
        failures.extend(read_failures(found, opened.store, source, profile))
        samples.extend(progress_samples(opened.store, source, profile, [h.offset for h in found.hits]))
    return Observations(
        sources=opened.sources,
        events=tuple(events),
        failures=tuple(failures),
        progress=tuple(samples),
        coverage=_coverage(opened, result),
        place=place,
        missing_files=missing_names(s.path for s in opened.sources),
        job_state=options.job_state,
        exit_code=options.exit_code,
    )


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
