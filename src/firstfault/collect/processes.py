"""Describes processes of this machine: parent, state, age, arguments, what their threads are in. Signals nobody and asks for no rights.

The kernel's files of a process that stands may stop who reads them, so they are read in a process of its own, which is left behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.collect.commands import run
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.files import read_file
from firstfault.recorder.processes import threads

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 10.0
"""Seconds until a process counts as one that does not answer."""
MOST_PROCESSES = 128
MOST_STUCK = 3
"""Processes that do not answer after which no other is asked."""
_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from firstfault.collect.processes import describe; describe([int(w) for w in sys.argv[2:]])"


def processes(pids: Sequence[int]) -> tuple[bytes, str]:
    """Parent, state, age and arguments of processes, and what their threads are in, with what could not be had.

    Args:
        pids: of which; those of this user that run Python where none is given.
    """
    wanted = list(pids or _own())
    missing = [str(pid) for pid in pids if not Path(f"/proc/{pid}").is_dir()]
    troubles = [f"no process {', '.join(missing)}"] if missing else []
    text = b""
    for _ in range(MOST_STUCK):
        answer = run((sys.executable, "-c", _PROGRAM, _ROOT, *map(str, wanted)), LIMIT_S)
        text += answer.text
        begun = re.findall(rb"(?m)^pid (\d+) ", answer.text)
        left = wanted[wanted.index(int(begun[-1])) + 1 :] if begun and int(begun[-1]) in wanted else wanted
        if not answer.stuck or not left:
            if answer.trouble:
                troubles.append(answer.trouble.replace(sys.executable, "the look at processes"))
            return text, "; ".join(troubles)
        # Who stands in the kernel with its memory locked stops everybody who asks for its arguments.
        troubles.append(f"process {left[0]} or one beside it gave no answer in {LIMIT_S:g} s")
        wanted = left[1:]
        if not wanted:
            break
    else:
        troubles.append("the others were not asked")
    return text, "; ".join(troubles)


def describe(pids: Sequence[int]) -> None:
    """Prints what is true of each, in the order of the numbers given: runs in a process of its own."""
    cleaner = Cleaner()
    for pid in pids:
        told = _described(pid, cleaner)
        if told:
            sys.stdout.write(f"{told}\n")
            sys.stdout.flush()


def _own() -> list[int]:
    """Processes of this user that run Python, without this one."""
    found = []
    for folder in Path("/proc").iterdir():
        name = folder.name
        if not name.isdigit() or int(name) == os.getpid():
            continue
        if read_file(f"/proc/{name}/comm", 64).startswith((b"python", b"pt_")):
            with contextlib.suppress(OSError):  # it has just ended
                if folder.stat().st_uid == os.getuid():
                    found.append(int(name))
    return sorted(found)[:MOST_PROCESSES]


def _described(pid: int, cleaner: Cleaner) -> str:
    fields = read_file(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    if len(fields) < 22:
        return ""
    ticks = os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / ticks
    words = read_file(f"/proc/{pid}/cmdline", 65536).decode("utf-8", "replace").split("\0")
    used = (int(fields[11]) + int(fields[12])) / ticks
    memory = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") >> 20
    state = fields[0].decode()
    head = f"pid {pid} parent {fields[1].decode()} state {state} age {age:.0f} s cpu {used:.0f} s memory {memory} MB"
    lines = [f"{head}: {' '.join(cleaner.words([w for w in words if w]))}"]
    for thread in threads(pid):
        place = " ".join(str(thread[k]) for k in ("state", "wchan", "syscall", "on") if thread.get(k) is not None)
        lines.append(f"  thread {thread['thread']} {thread.get('name', '')}: {cleaner.text(place)}")
    return "\n".join(lines)
