"""Starts the monitor of this node, where nobody has yet: a process of its own session, which outlives the ranks."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.recorder.core import Recorder

LOCK = "monitor.lock"
_TRIES = 5
# It forks once more: the monitor is no child of the program, which may wait for all of its own. The one between ends when
# the monitor watches: no process of ours ends unseen after that.
_PROGRAM = (
    "import os, sys\n"
    "ready, told = os.pipe()\n"
    "if os.fork():\n"
    "    os.close(told)\n"
    "    os.read(ready, 1)\n"
    "    os._exit(0)\n"
    "os.close(ready)\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from firstfault.recorder.monitor import main\n"
    "main(sys.argv[2], told)\n"
)


def ensure(recorder: Recorder) -> None:
    """Starts the monitor, unless one holds the lock of this node."""
    settings = recorder.settings
    if not settings.monitor or recorder.worker is not None or recorder.spool != settings.spool:
        return
    descriptor = _lock(os.path.join(settings.spool, LOCK))
    if descriptor < 0:
        return
    try:
        process = {"directory": os.getcwd(), "paths": [p for p in sys.path if p and os.path.isdir(p)]}
        launch = os.environ.get("FIRSTFAULT_RECORD_LAUNCH")
        told = json.dumps({"settings": settings._asdict(), "process": process, "lock": descriptor, "launch": launch})
        root = str(Path(__file__).resolve().parents[2])
        # Isolated and without `site`: nothing of the program's environment runs in it, and it starts in 50 ms.
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-I", "-S", "-c", _PROGRAM, root, told],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,
            cwd="/",
            env={k: v for k, v in os.environ.items() if k in {"PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH"}},
            check=False,
            timeout=20,
        )
    finally:
        os.close(descriptor)


def _lock(path: str) -> int:
    """A descriptor that holds the lock of this node; -1 where another process does."""
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return -1
        except FileNotFoundError:
            pass
        # The file of a monitor that has just left: a lock on it would keep nobody out.
        os.close(descriptor)
    return -1
