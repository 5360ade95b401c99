"""Takes away what ended processes have left in the memory of a node; what is worth keeping of it is in the shared folder by then.

Used by the monitor when it leaves. It touches no files but the recorder's own, and none of a process that lives.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time

from firstfault.recorder import format as layout
from firstfault.recorder.files import is_ours, read_file
from firstfault.recorder.identity import start_ticks
from firstfault.recorder.monitoring import LOCK
from firstfault.recorder.processes import lives

YOUNG_S = 60.0
"""Seconds for which a folder is left alone: a process may just be about to put its first file into it."""
KILLED_S = 86_400.0
"""The same where a monitor has left its lock: it was killed, and `firstfault record` may begin another in its place."""
_MOST = 1000


def clear(spool: str, dead: set[str]) -> None:
    """Removes the files of dead processes from the spool of a run; and the spool where nothing is left.

    Args:
        spool: of the run, on this node.
        dead: rings of processes that are known to have ended.
    """
    with contextlib.suppress(OSError):
        for file in os.listdir(spool):
            name = layout.read_name(file)
            if name is None:
                continue
            stem = layout.name_of(name.rank, name.attempt, name.pid, name.worker, name.own)
            if start_ticks(name.own) == 0 or stem + layout.RING in dead:
                os.unlink(os.path.join(spool, file))
        os.rmdir(spool)
        os.rmdir(os.path.dirname(spool))


def sweep(local: str, host: str) -> None:
    """Removes the spools of runs that are over: workers of a loader may end behind their rank and its monitor, or none was there.

    Args:
        local: the folder of all spools of this node.
        host: its name; what another one has there, should the folder be shared, is not known to be over.
    """
    for spool in glob.glob(os.path.join(glob.escape(local), "*", glob.escape(host)))[:_MOST]:
        with contextlib.suppress(OSError):
            lock = os.path.join(spool, LOCK)
            left = os.path.exists(lock)
            rings = {f: os.path.join(spool, f) for f in os.listdir(spool) if f.endswith(layout.RING)}
            if time.time() - os.stat(spool).st_mtime < (KILLED_S if left else YOUNG_S) or not is_ours(spool):
                continue
            if any(map(_of_the_living, rings.values())):
                continue
            if left:
                os.unlink(lock)
            clear(spool, set(rings))


def _of_the_living(path: str) -> bool:
    """Whether the process lives whose ring it is; one that cannot be read is of the process of its name, if there is any of that number."""
    ring = layout.read_ring(read_file(path, layout.SIZE))
    if ring is not None:
        return lives(ring.head.pid, ring.head.started)
    name = layout.read_name(os.path.basename(path))
    return name is not None and start_ticks(name.own) != 0
