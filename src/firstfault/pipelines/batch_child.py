"""`python -m firstfault.pipelines.batch_child`: diagnoses one job after another for `firstfault batch`, in a process that may be ended.

Reads one request a line on standard input and writes one answer a line on standard output. An interrupt ends the job at
hand with what is known of it; between two jobs it does nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import msgspec
from msgspec import Struct

from firstfault.model.batch import JobAnswer
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions


class Request(Struct, frozen=True):
    """One job to diagnose."""

    job: str
    paths: list[str]
    options: DiagnoseOptions


def main() -> int:
    """Serves until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not come between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        answers.write(msgspec.json.encode(answer(request)) + b"\n")
        answers.flush()
    return 0


def answer(request: Request) -> JobAnswer:
    """Diagnoses one job; whatever goes wrong is told in the answer."""
    began = time.monotonic()
    bare = JobAnswer(job=request.job, paths=request.paths)
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            found = _diagnosed(request)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        found = msgspec.structs.replace(bare, state="too_long", note="it was ended before anything was known")
    except (PipelineError, OSError) as error:
        found = msgspec.structs.replace(bare, state="unread", note=str(error), exit_code=2)
    except Exception as error:  # noqa: BLE001 - the others are still to be diagnosed
        note = f"firstfault failed: {type(error).__name__}: {error}"
        found = msgspec.structs.replace(bare, state="broken", note=note, exit_code=2)
    return msgspec.structs.replace(found, seconds=round(time.monotonic() - began, 3))


def _diagnosed(request: Request) -> JobAnswer:
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.report.phrases import exit_code, why_unread

    found = diagnose(request.paths, request.options)
    code, verdict = exit_code(found), found.verdict
    if code == 2:
        return JobAnswer(
            job=request.job, paths=request.paths, state="unread", note=why_unread(found.coverage), exit_code=2
        )
    return JobAnswer(
        job=request.job,
        paths=request.paths,
        scheduler_state=request.options.job_state,
        failed=verdict.failed,
        category=verdict.category,
        strength=verdict.strength,
        summary=verdict.summary,
        culprits=verdict.culprits,
        first_line=verdict.trigger,
        action=verdict.action.kind,
        exit_code=code,
    )


if __name__ == "__main__":
    sys.exit(main())
