"""`python -m firstfault.pipelines.batch_child [UID:GID]`: diagnoses one job after another for `firstfault batch`, in a process that may be ended.

Reads one request a line on standard input and writes one answer a line on standard output. An interrupt ends the job at
hand with what is known of it; between two jobs it does nothing. With a user and a group it becomes these for good before it
reads anything that a request names.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time

import msgspec
from msgspec import Struct

from firstfault.model.batch import JobAnswer
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions

_WARM = (
    b"[rank1]: Traceback (most recent call last):\n"
    b'[rank1]:   File "/w/train.py", line 3, in <module>\n'
    b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    b"[rank0]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    b"WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
)
"""A log by which what is loaded late is loaded at once."""


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
    if len(sys.argv) > 1:
        user, _, group = sys.argv[1].partition(":")
        become(int(user), int(group))
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        answers.write(msgspec.json.encode(answer(request)) + b"\n")
        answers.flush()
    return 0


def become(user: int, group: int) -> None:
    """Gives up root's rights for good.

    What a diagnosis loads is loaded first: programs of root's often lie where others cannot read.
    """
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.report.phrases import exit_code

    exit_code(diagnose(["-"], DiagnoseOptions(engine="inline"), stdin=io.BytesIO(_WARM)))
    os.chdir("/")
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    if 0 in {os.getuid(), os.geteuid(), *os.getresuid()}:
        raise PermissionError("this process is still root's")


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
