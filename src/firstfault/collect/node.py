"""The smallest evidence of this node, the cheapest first: cards, containers, disks, code, images, processes, kernel, scheduler.

Works without root, asks each program with a time-out, and says of each part that could not be had why. No answer holds keys,
proxies or the serial numbers of cards: those are taken out here, whatever the archive does with names.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firstfault.collect.commands import run
from firstfault.privacy.secrets import SecretFilter
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.files import read_file
from firstfault.recorder.processes import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT_S = 10.0
"""Seconds for one program."""
MOST_PROCESSES = 128
_UUID = re.compile(r"\b(?:[A-Z]{3,4}-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_PROXY = re.compile(
    r"(?i)((?:^|[\s,;\"'{])-{0,2}(?:\w+[_-])?(?:https?|ftp|all|no|socks5?)[_-]?proxy[\"']?\s*[=:\s]\s*)(\S+)"
)
_STAMP = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{6})?[+-]\d\d:?\d\d|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
)
"""`2026-11-30T07:00:00,123456+00:00` of `dmesg --time-format iso` and of the journal, `[Mon Nov 30 07:00:00 2026]` of `dmesg -T`."""
_CARDS = (
    "index,name,pci.bus_id,driver_version,pstate,temperature.gpu,utilization.gpu,memory.used,memory.total,"
    "ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active"
)
_JOB = "JobID,JobName,State,ExitCode,DerivedExitCode,Elapsed,Timelimit,Start,End,NodeList,MaxRSS"


class Part(NamedTuple):
    """One question to the node; of its programs the first that answers counts."""

    file: str
    programs: tuple[tuple[str, ...], ...]


class Found(NamedTuple):
    """What a node told."""

    files: dict[str, bytes]
    """Name -> text, in the order in which it was asked for."""
    left_out: dict[str, str]
    """Name -> why it is not there, or not whole."""


def parts(code: str, job: str | None) -> list[Part]:
    """The questions, in their order.

    Args:
        code: folder of the program's source.
        job: number of a Slurm job; None for none.
    """
    git = ("git", "--no-optional-locks", "-C", code)  # it must not write an index that others use
    found = [
        Part("cards.txt", (("nvidia-smi", f"--query-gpu={_CARDS}", "--format=csv"), ("nvidia-smi",), ("rocm-smi",))),
        Part("card-processes.txt", (
            ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory,gpu_bus_id", "--format=csv"), ("rocm-smi", "--showpids"))),
        Part("containers.txt", tuple((tool, "ps", "--format", "{{.ID}} {{.Image}} {{.Status}} {{.Names}}") for tool in ("docker", "podman"))),
        Part("disks.txt", (("df", "-PTk"),)),
        Part("inodes.txt", (("df", "-Pi"),)),
        Part("code-revision.txt", ((*git, "log", "-1", "--format=%H %cI"),)),
        Part("code-changes.txt", ((*git, "status", "--porcelain", "--untracked-files=no"),)),
        Part("image-labels.txt", tuple((tool, "ps", "--format", "{{.Image}} {{.Labels}}") for tool in ("docker", "podman"))),
        Part("kernel.txt", (("dmesg", "--time-format", "iso"), ("journalctl", "-k", "--no-pager", "-o", "short-iso", "-n", "20000"), ("dmesg", "-T"))),
    ]  # fmt: skip
    if job is not None:
        found += [
            Part("slurm-accounting.txt", (("sacct", "-j", job, "--parsable2", f"--format={_JOB}"),)),
            Part("slurm-job.txt", (("scontrol", "show", "job", job),)),
        ]
    return found


def look(
    code: str,
    *,
    job: str | None = None,
    pids: Sequence[int] = (),
    since: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Found:
    """Asks this node.

    Args:
        code: folder of the program's source.
        job: number of a Slurm job, of which the scheduler is asked too.
        pids: processes to describe; those of this user that run Python where none is given.
        since: seconds since the epoch before which the kernel's words are of no interest; None: all that it has.
        say: is told the name of each part before it is asked for.
    """
    secrets = SecretFilter()
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    asked: list[Part | None] = [*parts(code, job)]
    asked.insert(next(i for i, part in enumerate(asked) if part is not None and part.file == "kernel.txt"), None)
    for part in asked:
        name = "processes.txt" if part is None else part.file
        if say is not None:
            say(name)
        text, trouble = _processes(pids) if part is None else _asked(part)
        if name == "kernel.txt" and since is not None:
            text, before = recent(text, since)
            if before:
                trouble = "; ".join(filter(None, (trouble, f"{before} lines are older than the job")))
        if text.strip():
            files[name] = cleaned(text, secrets)
        elif not trouble:
            trouble = "there was nothing to tell"
        if trouble:
            left_out[name] = cleaned(trouble.encode(), secrets).decode()
    return Found(files, left_out)


def _asked(part: Part) -> tuple[bytes, str]:
    """The answer of the first program that gave a whole one, else the longest; with what was wrong."""
    troubles: list[str] = []
    best = b""
    for words in part.programs:
        answer = run(words, LIMIT_S)
        if not answer.trouble:
            return answer.text, ""
        best = max(best, answer.text, key=len)
        if answer.trouble not in troubles:
            troubles.append(answer.trouble)
    return best, "; ".join(troubles)


def recent(text: bytes, since: float) -> tuple[bytes, int]:
    """The lines of a kernel log from a time on, and how many were before it; a line without a time goes with the one above."""
    kept: list[bytes] = []
    lines = text.split(b"\n")
    new = True
    for line in lines:
        at = _time_of(line)
        new = new if at is None else at >= since
        if new:
            kept.append(line)
    return b"\n".join(kept), len(lines) - len(kept)


def _time_of(line: bytes) -> float | None:
    found = _STAMP.match(line)
    if found is None:
        return None
    text = found.group().decode("ascii").strip("[]")
    try:
        if text[0].isdigit():
            iso = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text.replace(",", "."))
            return datetime.fromisoformat(iso).timestamp()
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").astimezone().timestamp()
    except ValueError:
        return None


def cleaned(text: bytes, secrets: SecretFilter) -> bytes:
    """A text without secrets, proxies and serial numbers, line by line."""
    lines = []
    for line in text.decode("utf-8", "replace").split("\n"):
        plain = _PROXY.sub(r"\1[removed:proxy]", _UUID.sub("[removed:uuid]", line))
        lines.append(secrets.clean(plain))
    return "\n".join(lines).encode("utf-8", "backslashreplace")


def _processes(pids: Sequence[int]) -> tuple[bytes, str]:
    """Parent, state, age and arguments of processes, and what their threads are in."""
    cleaner = Cleaner()
    found = [text for pid in (pids or _own()) if (text := _described(pid, cleaner))]
    missing = [str(pid) for pid in pids if not Path(f"/proc/{pid}").is_dir()]
    return "\n".join(found).encode(), f"no process {', '.join(missing)}" if missing else ""


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
