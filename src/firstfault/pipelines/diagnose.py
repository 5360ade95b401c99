"""The diagnosis of one incident: open, scan, read, fold, infer, verify.

Result objects only: prints nothing and redacts nothing (see `firstfault.redact`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.analysis.conclude import conclude, reconsidered
from firstfault.analysis.last_words import heed, wanted
from firstfault.analysis.verify import Verifier
from firstfault.pipelines.build import Builder
from firstfault.pipelines.last_words import last_words
from firstfault.pipelines.observe import observe
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.open import open_inputs
from firstfault.scan.newlines import count_newlines
from firstfault.scan.run import scan
from firstfault.signatures.library import load_library

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import IO

    from firstfault.model.diagnosis import Diagnosis


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
        observed = observe(opened, result, library, options)
        del result
        conclusion = conclude(observed.seen, library, _attempt(options))
        ranks = wanted(conclusion.answer)
        if ranks:
            said = last_words(conclusion.scene, ranks, opened.store, observed.profiles, observed.clocks)
            conclusion = reconsidered(conclusion, heed(conclusion.answer, said))
        verifier = Verifier(opened.store, decode=_decode, count=_newlines)
        return Builder(conclusion, verifier).build()


def _attempt(options: DiagnoseOptions) -> int | Literal["last"]:
    return "last" if options.attempt == "all" else options.attempt


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _newlines(raw: bytes) -> int:
    return count_newlines(raw, 0, len(raw))
