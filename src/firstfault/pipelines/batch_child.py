"""`python -m firstfault.pipelines.batch_child [UID:GID]`: diagnoses one job after another for `firstfault batch`, in a process that may be ended.

Reads one request a line on standard input and writes one answer a line on standard output. An interrupt ends the job at
hand with what is known of it; between two jobs it does nothing. With a user and a group it becomes these for good before it
reads anything that a request names; where it cannot, it ends with `NO_START`.
"""

from __future__ import annotations

import contextlib
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
from firstfault.readers.jobs import there
from firstfault.redact import printable, walk

_WARM = (
    b"[rank1]: Traceback (most recent call last):\n"
    b'[rank1]:   File "/w/train.py", line 3, in <module>\n'
    b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    b"[rank0]:[E101 10:00:00.000000001 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    b"WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
)
"""A log by which what is loaded late is loaded at once."""


NO_START = 70
"""Exit code of a child that cannot read anything for anybody."""


NO_LOGS = "no file or folder there carries its number"


class Request(Struct, frozen=True):
    """One job to diagnose."""

    job: str
    paths: list[bytes]
    """As the system names them: the name of a file need not be text."""
    options: DiagnoseOptions
    patterns: list[bytes] = []
    """Further ones, which are looked for as whoever the job belongs to; see `firstfault.readers.jobs.there`."""


def encoded(request: Request) -> bytes:
    """A request as one line."""
    return msgspec.json.encode(request, enc_hook=str) + b"\n"


def decoded(line: bytes) -> Request:
    """What `encoded` made a line of."""
    return msgspec.json.decode(line, type=Request, dec_hook=lambda kind, value: kind(value))


def main() -> int:
    """Serves until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not come between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if len(sys.argv) > 1:
        user, _, group = sys.argv[1].partition(":")
        try:
            become(int(user), int(group) if group else None)
        except OSError:
            return NO_START
    _die_with(os.getppid())
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(answer(decoded(line))) + b"\n")
        answers.flush()
    return 0


def _die_with(parent: int) -> None:
    """Ends this process, on Linux, as soon as whoever asks is gone: nobody else looks after its time and memory."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(0)


def groups_of(user: int, group: int | None) -> tuple[int, list[int]]:
    """Group of a user, and all that he is a member of: folders of a project are often open to its group alone.

    Args:
        user: his number.
        group: his group where it is known; None to look it up.
    """
    import pwd

    try:
        known = pwd.getpwuid(user)
    except KeyError:
        nobody = 65534
        return (nobody, []) if group is None else (group, [group])
    main_group = known.pw_gid if group is None else group
    return main_group, os.getgrouplist(known.pw_name, main_group)


def become(user: int, group: int | None) -> None:
    """Gives up root's rights for good.

    What a diagnosis loads is loaded first: programs of root's often lie where others cannot read.
    """
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.report.phrases import exit_code

    exit_code(diagnose(["-"], DiagnoseOptions(engine="inline"), stdin=io.BytesIO(_WARM)))
    os.chdir("/")
    group, groups = groups_of(user, group)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    if 0 in {os.getuid(), os.geteuid(), *os.getresuid()}:
        raise PermissionError("this process is still root's")


def answer(request: Request) -> JobAnswer:
    """Diagnoses one job; whatever goes wrong is told in the answer."""
    began = time.monotonic()
    bare = JobAnswer(job=request.job, paths=[])
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            paths = [*map(os.fsdecode, request.paths), *there(map(os.fsdecode, request.patterns))]
            found = _diagnosed(request, paths)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        found = msgspec.structs.replace(bare, state="too_long", note="it was ended before anything was known")
    except (PipelineError, OSError) as error:
        found = msgspec.structs.replace(bare, state="unread", note=str(error), exit_code=2)
    except Exception as error:  # noqa: BLE001 - the others are still to be diagnosed
        note = f"firstfault failed: {type(error).__name__}: {error}"
        found = msgspec.structs.replace(bare, state="broken", note=note, exit_code=2)
    return walk(msgspec.structs.replace(found, seconds=round(time.monotonic() - began, 3)), printable)


def _diagnosed(request: Request, paths: list[str]) -> JobAnswer:
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.report.phrases import exit_code, why_unread

    if not paths:
        return JobAnswer(job=request.job, paths=[], state="no_logs", note=NO_LOGS, exit_code=2)
    found = diagnose(paths, request.options)
    code, verdict = exit_code(found), found.verdict
    if code == 2:
        return JobAnswer(job=request.job, paths=paths, state="unread", note=why_unread(found.coverage), exit_code=2)
    return JobAnswer(
        job=request.job,
        paths=paths,
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
