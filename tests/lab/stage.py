"""Where a job of the lab runs: its folders, its host names, its processes, and what is done to it from outside.

Nothing is timed by sleeping: a job that is to be hit at a certain point says through a FIFO that it is there. Every wait
has a limit, and whatever is still running at the end is killed with its process group. Nothing here knows firstfault.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import json
import os
import random
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

JOBS = Path(__file__).parent / "jobs"
LIMIT = 300.0
"""Seconds that a whole job may take on a busy machine, where a process needs a minute to import torch; it ends what never would."""
HOST = "lab-node-1"
"""The name of the machine, as the job sees it, where it may have one of its own."""


@functools.cache
def may_unshare() -> bool:
    """Whether this machine lets us give a job its own host name and its own mounts."""
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--uts", "--mount", "sh", "-c", "hostname lab-probe && mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def host_name(host: str = HOST) -> str:
    """The name of the machine as the job sees it."""
    return host if may_unshare() else socket.getfqdn()


def free_port() -> int:
    """A port on which nobody listens, given out once, and none that the system gives to whoever asks for any.

    Jobs that run at the same time open dozens of those while this one still starts.
    """
    with _handing_out:
        while True:
            port = next(_PORTS)
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def _below_ephemeral() -> list[int]:
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        lowest = 32768
    ports = list(range(max(1024, lowest - 8192), max(lowest, 2048)))
    random.shuffle(ports)
    return ports


_PORTS = itertools.cycle(_below_ephemeral())
_handing_out = threading.Lock()


class Stage:
    """One run of one job: `logs` is all that a diagnosis gets, `work` holds data, configuration and checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.work = folder / "work"
        self.logs.mkdir(parents=True)
        for name in ("data", "checkpoints", "cache"):
            (self.work / name).mkdir(parents=True)
        self._running: list[subprocess.Popen[bytes]] = []
        # Sockets of workers lie in there, and the path of one has 108 bytes at most.
        self._short = tempfile.mkdtemp(prefix="lab-", dir="/tmp")
        self._pipe = self.work / "gate"
        os.mkfifo(self._pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self._short, ignore_errors=True)

    # What the job is given

    def config(self, **settings: Any) -> str:
        """The configuration file of the job, with sensible values for what is not given; its path."""
        common = {"data": self.work / "data", "checkpoints": self.work / "checkpoints", "timeout_s": 20}
        model = {"classes": 4, "hidden": 16, "lr": 0.1, "workers": 0}
        file = self.work / "config.json"
        file.write_text(json.dumps({**common, **model, **settings}, default=str, indent=1), encoding="utf-8")
        return str(file)

    def samples(self, count: int, changed: dict[int, dict[str, Any]] | None = None) -> list[Path]:
        """Write `count` samples, some with changed fields; their files."""
        files = []
        for number in range(count):
            record = {"features": [number / 10.0] * 8, "label": number % 4, "text": f"text {number}"}
            record.update((changed or {}).get(number, {}))
            file = self.work / "data" / f"sample-{number:04d}.json.gz"
            file.write_bytes(gzip.compress(json.dumps(record).encode(), mtime=0))
            files.append(file)
        return files

    def shards(self, ranks: int, steps: int) -> None:
        """Write the shards of the streaming job."""
        for rank in range(ranks):
            for step in range(1, steps + 1):
                self.shard(rank, step).write_text('{"value": 1.0}\n{"value": 2.0}\n', encoding="utf-8")

    def shard(self, rank: int, step: int) -> Path:
        """The file of one shard."""
        return self.work / "data" / f"shard-{rank}-{step:03d}.jsonl"

    # Running

    def start(
        self,
        command: Sequence[str],
        log: str = "console.log",
        *,
        host: str = HOST,
        before: str | None = None,
        gate: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command`, both streams into the file `log`; `before` is shell run in its own mounts before it."""
        steps = [step for step in (before, f"exec {shlex.join(command)}") if step is not None]
        line = ["sh", "-c", " && ".join(steps)]
        if may_unshare():
            line = ["unshare", "--uts", "--mount", "sh", "-c", " && ".join([*self._names(host), *steps])]
        with (self.logs / log).open("ab") as output:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.work,
                env=self._environment(gate, environment or {}),
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Start `command` and wait for its end; its exit status."""
        return self.start(command, **options).wait(timeout=LIMIT)

    def at_gate(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until a process of the job stands at the gate; its pid."""
        with self._opened() as pipe, selectors.DefaultSelector() as selector:
            end = os.pidfd_open(process.pid)
            selector.register(pipe, selectors.EVENT_READ)
            selector.register(end, selectors.EVENT_READ)
            ready = [key.fd for key, _ in selector.select(timeout=LIMIT)]
            os.close(end)
            if pipe not in ready:
                raise AssertionError(f"nobody came to the gate; the log says:\n{self.text()}")
            return int(os.read(pipe, 32))

    def kill_tree(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a started command and everything below it at once, as a machine that goes down does."""
        pids = self.tree(process)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def tree(self, process: subprocess.Popen[bytes]) -> list[int]:
        """A started command and everything below it."""
        return _tree(process.pid)

    def text(self) -> str:
        """All logs, for messages."""
        files = sorted(file for file in self.logs.rglob("*") if file.is_file())
        return "\n".join(f"== {file}\n{file.read_text(encoding='utf-8', errors='replace')}" for file in files)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        pipe = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            yield pipe
        finally:
            os.close(pipe)

    def _names(self, host: str) -> list[str]:
        """Shell that gives the job the name `host`, known to its own /etc/hosts so that nobody asks a name server."""
        hosts = self.work / f"hosts-{host}"
        hosts.write_text(f"127.0.0.1 {host} localhost\n", encoding="ascii")
        return [f"hostname {host}", f"mount --bind {shlex.quote(str(hosts))} /etc/hosts"]

    def _environment(self, gate: str | None, more: dict[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
        fixed = {
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": self._short,
            "JOB_GATE_PIPE": str(self._pipe),
        }
        return kept | fixed | ({} if gate is None else {"JOB_GATE": gate}) | more


def _tree(pid: int) -> list[int]:
    """A process and its descendants, parents first."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        pids += [found for child in (task / "children").read_text().split() for found in _tree(int(child))]
    return pids


def python(job: str, *arguments: str) -> list[str]:
    """The command line that runs a job script by itself."""
    return [sys.executable, str(JOBS / job), *arguments]


def torchrun(job: str, config: str, ranks: int, *options: str) -> list[str]:
    """The command line that runs a job script under torchrun, alone on one node unless `options` say otherwise."""
    program = Path(sys.executable).parent / "torchrun"
    launcher = [str(program)] if program.exists() else [sys.executable, "-m", "torch.distributed.run"]
    where = [] if any("nnodes" in option for option in options) else ["--standalone"]
    return [*launcher, *where, f"--nproc-per-node={ranks}", *options, str(JOBS / job), config]


def folders(stage: Stage, *options: str) -> list[str]:
    """Launcher options that leave one folder a rank beside the console."""
    return [*options, f"--log-dir={stage.logs / 'torchrun'}"]
