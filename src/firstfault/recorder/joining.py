"""Which run a process belongs to: the processes of one job meet in one folder, and those of two jobs never do.

A port or a job's name is used again by the next job, and by another one on the next host: a name alone makes two jobs one. So
the first process of a job claims a folder of its own, and the launch of each node signs in there. Reads the environment and
/proc, and writes into the shared folder only; whatever fails there gives a name that is of this launch alone.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.files import make_folder, read_file
from firstfault.recorder.identity import is_launcher, start_ticks
from firstfault.recorder.settings import PREFIX, step_of_scheduler

if TYPE_CHECKING:
    from firstfault.recorder.identity import Identity
    from firstfault.recorder.settings import Settings

JOINED = f"{PREFIX}_JOINED"
"""Set by a process that records, for those that it starts: its process id, its run and its shared folder."""
NEAR_S = 900.0
"""Seconds within which the nodes of one job start."""
_MOST = 30
"""Runs of one name that are looked at, from the newest one."""
_ANCESTORS = 12
_STARTERS = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prted", "hydra_pmi_proxy"})
"""Programs that start the ranks of a node, beside those of Python."""
_HERE = frozenset({"", "localhost", "127.0.0.1", "::1"})


class Launch(NamedTuple):
    """What a process knows of its job and of what has started it."""

    key: str
    """Equal for all processes of a job."""
    slot: str
    """Which part of the job was started here: a node, or one rank where nothing is known to start several."""
    name: str
    """Equal for all processes of one launch on one node, and for no others."""
    alone: bool
    """Whether this launch is the whole job."""


def join(settings: Settings, who: Identity) -> Settings:
    """The settings with the run of this process's own job, which is made where it is the first of it."""
    joined = _inherited(who)
    if joined is not None:
        return settings._replace(run=joined[0], folder=joined[1])
    unique = settings.run.startswith("group-") or settings.run == os.environ.get(f"{PREFIX}_COMMAND")
    if os.environ.get(f"{PREFIX}_RUN") or step_of_scheduler() or unique:
        return settings  # the name is of one job already
    launch = launch_of(settings, who)
    try:
        return settings._replace(run=_found(settings, launch, who))
    except OSError:
        return settings._replace(run=f"{settings.run}-{_plain(launch.name)}")


def tell(settings: Settings, pid: int) -> None:
    """Tells processes that this one starts which run it is of."""
    os.environ[JOINED] = f"{pid}\n{settings.run}\n{settings.folder}"


def inherited() -> tuple[str, str] | None:
    """Run and folder of the process that started this one, or of one above it; None where none records."""
    words = os.environ.get(JOINED, "").split("\n", 2)
    return (words[1], words[2]) if len(words) == 3 and words[1] and words[2] else None


def _inherited(who: Identity) -> tuple[str, str] | None:
    """The same where it counts: for a process without a rank of its own, and for ranks below a task of a scheduler."""
    above = os.environ.get(JOINED, "").split("\n", 1)[0]
    if not above.isdecimal():
        return None
    starter = who.rank is None and int(above) == os.getppid()
    task = bool(os.environ.get(f"{PREFIX}_OWNER")) and "SLURM_PROCID" in os.environ
    return inherited() if starter or task else None


def launch_of(settings: Settings, who: Identity) -> Launch:
    """What this process knows of its job and of its launch."""
    starter = _starter()
    command = os.environ.get(f"{PREFIX}_COMMAND")
    group = os.getpgid(0)
    at = f"{starter}.{start_ticks(starter)}" if starter else command or f"group-{group}.{start_ticks(group)}"
    node = os.environ.get("GROUP_RANK", "")
    if node.isdecimal():
        slot = f"node-{node}"
    elif starter or command or who.rank is None:
        slot = f"host-{settings.host}"
    else:
        slot = f"rank-{who.rank}"
    address = os.environ.get("MASTER_ADDR", "")
    boot = read_file("/proc/sys/kernel/random/boot_id", 8).decode("ascii", "replace")
    # No other machine can mean this one by such an address.
    meeting = f"here-{boot}" if address in _HERE else address
    world = "" if who.world is None else str(who.world)
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    return Launch(
        key="|".join((settings.run, meeting, os.environ.get("MASTER_PORT", ""), world)),
        slot=slot,
        name=f"{settings.host}.{boot}.{at}",
        alone=world == "1" or (bool(world) and local == world and slot != f"rank-{who.rank}"),
    )


def _starter() -> int:
    """The process id of the launcher that is nearest above this process; 0 where there is none."""
    pid = os.getppid()
    for _ in range(_ANCESTORS):
        if pid <= 1:
            break
        words = read_file(f"/proc/{pid}/cmdline", 65536).decode("utf-8", "replace").split("\0")
        names = {word.rsplit("/", 1)[-1] for word in words[:4]}
        if (is_launcher(words) and "firstfault" not in names) or words[0].rsplit("/", 1)[-1] in _STARTERS:
            return pid
        try:
            pid = int(read_file(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()[1])
        except (IndexError, ValueError):
            break
    return 0


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:100]


def _found(settings: Settings, launch: Launch, who: Identity) -> str:
    """The name of the run: one that this launch may join, else a new one. Raises OSError where the folder cannot be written."""
    for _ in range(_MOST):
        taken = _taken(settings)
        for number in sorted(taken, reverse=True)[:_MOST]:
            if _joins(os.path.join(settings.folder, _name(settings, number)), launch, who):
                return _name(settings, number)
        name = _name(settings, max(taken, default=0) + 1)
        if _made(settings, name, launch):
            return name
    raise OSError(errno.EBUSY, "no run could be made", settings.folder)


def _name(settings: Settings, number: int) -> str:
    return settings.run if number <= 1 else f"{settings.run}.{number}"


def _taken(settings: Settings) -> set[int]:
    """Numbers of the runs of this name."""
    if not make_folder(settings.folder):
        raise OSError(errno.EACCES, "the shared folder cannot be written", settings.folder)
    found = set()
    for name in os.listdir(settings.folder):
        rest = name.removeprefix(settings.run)
        if name == settings.run:
            found.add(1)
        elif rest != name and rest.startswith(".") and rest[1:].isdecimal() and len(rest) < 8:
            found.add(int(rest[1:]))
    return found


def _joins(run: str, launch: Launch, who: Identity) -> bool:
    """Whether a run is of this launch, or may be joined by it; then it has signed in."""
    job = _read(os.path.join(run, layout.LAUNCHES, "job.json"))
    if job is None or job.get("job") != launch.key:
        return False
    mine = os.path.join(run, layout.LAUNCHES, f"{launch.slot}.json")
    there = _read(mine)
    if there is not None:
        return there.get("launch") == launch.name
    if launch.alone or _is_over(run, job) or _rank_is_there(run, who):
        return False
    if not _put(mine, {"job": launch.key, "launch": launch.name}):
        there = _read(mine)
        return there is not None and there.get("launch") == launch.name
    return True


def _is_over(run: str, job: dict[str, object]) -> bool:
    """Whether a job is no more one that nodes come to: one of its nodes has ended, or it began too long ago."""
    if glob.glob(os.path.join(glob.escape(run), layout.LAUNCHES, "ended.*.json")):
        return True
    begun = job.get("begun")
    return not isinstance(begun, (int, float)) or abs(time.time() - begun) > NEAR_S


def _rank_is_there(run: str, who: Identity) -> bool:
    """Whether another launch of the run has this rank: then it is another job."""
    if who.rank is None:
        return False
    stem = f"rank-{who.rank:05d}.{who.attempt}.*{layout.LINES}"
    return bool(glob.glob(os.path.join(glob.escape(run), "*", stem)))


def _made(settings: Settings, name: str, launch: Launch) -> bool:
    """Makes the folder of a run with everything in it at once; whether it did, and nobody else was first."""
    new = os.path.join(settings.folder, f".{name}.{settings.host}.{os.getpid()}.new")
    if not make_folder(os.path.join(new, layout.LAUNCHES)):
        raise OSError(errno.EACCES, "the shared folder cannot be written", settings.folder)
    try:
        begun = {"job": launch.key, "begun": round(time.time(), 3)}
        _put(os.path.join(new, layout.LAUNCHES, "job.json"), begun)
        _put(os.path.join(new, layout.LAUNCHES, f"{launch.slot}.json"), {"job": launch.key, "launch": launch.name})
        # A folder that is not empty is never replaced.
        os.rename(new, os.path.join(settings.folder, name))
    except OSError as problem:
        shutil.rmtree(new, ignore_errors=True)
        if problem.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            return False
        raise
    return True


def sign_off(settings: Settings) -> None:
    """Notes that this node has ended: a later launch is another job's."""
    folder = os.path.join(settings.folder, settings.run, layout.LAUNCHES)
    if os.path.isdir(folder):
        with contextlib.suppress(OSError):
            _put(os.path.join(folder, f"ended.{settings.host}.{os.getpid()}.json"), {"host": settings.host})


def _read(path: str) -> dict[str, object] | None:
    try:
        found = json.loads(read_file(path, 4096))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _put(path: str, fields: dict[str, object]) -> bool:
    """Puts a whole file at a place where none is; whether it did. Raises OSError for anything but that one is there."""
    raw = layout.line(layout.NOTE, {"time": layout.stamp(time.time()), **fields})
    other = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, raw)
        finally:
            os.close(descriptor)
        os.link(other, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(other)
    return True
