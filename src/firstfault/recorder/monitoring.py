"""Starts the monitor of this node, where nobody has yet: a process of its own session, which outlives the ranks."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from firstfault.recorder.files import read_file

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
    process = {"directory": os.getcwd(), "paths": [p for p in sys.path if p and os.path.isdir(p)]}
    launch = os.environ.get("FIRSTFAULT_RECORD_LAUNCH")
    _begin(descriptor, {"settings": settings._asdict(), "process": process, "launch": launch})


def begin_again(path: str) -> bool:
    """Starts a monitor in the place of one that was killed, which has left its lock; whether it did.

    Args:
        path: the lock, in a folder of this user's own.
    """
    try:
        told = json.loads(read_file(path))
    except ValueError:
        return False
    if not isinstance(told, dict) or not isinstance(told.get("settings"), dict) or not os.path.exists(path):
        return False
    descriptor = _lock(path)
    if descriptor < 0:
        return False
    _begin(descriptor, {name: told.get(name) for name in ("settings", "process", "launch")})
    return True


def _begin(descriptor: int, told: dict[str, Any]) -> None:
    """Starts a monitor that holds a lock."""
    try:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        # Isolated and without `site`: nothing of the program's environment runs in it, and it starts in 50 ms.
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-I", "-S", "-c", _PROGRAM, root, json.dumps({**told, "lock": descriptor})],
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
