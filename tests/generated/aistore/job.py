"""The training job beside the cluster: what its ranks, its launcher and its scheduler leave behind.

Every line has the moment at which it was written; one file a node. It knows nothing of the cluster beyond the words that a
client prints, which it is handed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .clients import SITE, Said, idle_reset

if TYPE_CHECKING:
    import random

    from .journal import Zone

BEFORE_ERROR = (
    '  File "/opt/train/speech_to_text.py", line 96, in main',
    "    trainer.fit(asr_model)",
    f'  File "{SITE}/lightning/pytorch/trainer/trainer.py", line 561, in fit',
    "    call._call_and_handle_interrupt(",
    f'  File "{SITE}/lightning/pytorch/loops/training_epoch_loop.py", line 152, in run',
    "    self.advance(data_fetcher)",
)
IN_LOADER = (
    f'  File "{SITE}/torch/utils/data/dataloader.py", line 1480, in _next_data',
    "    return self._process_data(data)",
    f'  File "{SITE}/torch/utils/data/dataloader.py", line 1505, in _process_data',
    "    data.reraise()",
    f'  File "{SITE}/torch/_utils.py", line 733, in reraise',
    "    raise exception",
)
NOISE = (
    "WARNING:root:[Suppressed AudioLoadingError] Error message: Reading audio from 'shards/audio_{number}.tar' failed. Details:",
    "WARNING:urllib3.connectionpool:Connection pool is full, discarding connection: ais-proxy-1. Connection pool size: 10",
    (
        "/opt/venv/lib/python3.12/site-packages/torch/utils/checkpoint.py:1399: FutureWarning: `torch.cpu.amp.autocast(args...)` is deprecated. "
        "Please use `torch.amp.autocast('cpu', args...)` instead."
    ),
)
"""What is printed in good times as well."""
PLACES = {"2.1": (474, 0, 488, 494, 915), "2.6": (629, 2168, 681, 695, 1895), "2.8": (683, 2241, 744, 758, 2068)}
"""Lines of the watchdog's source: caught, state, some operations, taking down, terminated."""


class Entry(NamedTuple):
    at: float
    text: str
    mark: str = ""
    needles: tuple[str, ...] = ("",)
    """Parts of the lines of a block that are marked: its first line with the first, and so on."""


class Found(NamedTuple):
    file: str
    line: int
    text: str


@dataclass
class Job:
    id: str
    hosts: list[str]
    gpus: int
    zone: Zone
    torch: str
    start: float
    rng: random.Random
    sdk: str
    bucket: str
    by_host: bool = False
    """Whether files are called by host, not by the number of the node."""
    timed: bool = True
    """Whether any line but those of the watchdog tells the time."""
    entries: dict[int, list[Entry]] = field(default_factory=dict)

    @property
    def world(self) -> int:
        return len(self.hosts) * self.gpus

    def node(self, rank: int) -> int:
        return rank // self.gpus

    def host(self, rank: int) -> str:
        return self.hosts[self.node(rank)]

    def clock(self, at: float) -> str:
        return self.zone.local(at).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]

    def put(self, node: int, at: float, text: str, mark: str = "", needles: tuple[str, ...] = ("",)) -> None:
        self.entries.setdefault(node, []).append(Entry(at, text, mark, needles))

    # -- before the fault --------------------------------------------------------------------------------------------

    def run(self, until: float, resets: int) -> None:
        """Start and work until then, with that many connections that were idle for too long."""
        for rank in range(self.world):
            member = f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{self.world}"
            self.put(self.node(rank), self.start + 4 + self.rng.random(), member)
        self.put(0, self.start + 9, "-" * 100)
        self.put(
            0,
            self.start + 9.1,
            f"distributed_backend=nccl\nAll distributed processes registered. Starting with {self.world} processes",
        )
        if self.timed:
            stamp = self.zone.local(self.start + 20).strftime("%Y-%m-%d %H:%M:%S")
            self.put(0, self.start + 20, f"[NeMo I {stamp} exp_manager:442] Experiments will be logged at results/asr")
        step, bar, at = 0, [], self.start + 40
        while at < until:
            step += 10
            done = int(at - self.start)
            bar.append(
                f"Epoch 0: : {step}it [{done // 3600}:{done // 60 % 60:02d}:{done % 60:02d}, v_num=3, train_step_timing in s=4.{self.rng.randint(100, 199)}]"
            )
            at += 42
        self.put(0, until - 0.5, "\r".join(bar))
        for _ in range(self.rng.randint(0, 5)):
            moment = self.rng.uniform(self.start + 60, until - 60)
            self.put(
                self.rng.randrange(len(self.hosts)),
                moment,
                self.rng.choice(NOISE).format(number=self.rng.randint(1000, 4999)),
            )
        for _ in range(resets if self.timed else 0):
            moment = self.rng.uniform(self.start + 60, until - 60)
            path = f"{self.bucket}/shards/audio_{self.rng.randint(1000, 4999)}.tar"
            self.put(
                self.rng.randrange(len(self.hosts)), moment, idle_reset(self.sdk, path).format(time=self.clock(moment))
            )

    # -- the fault ---------------------------------------------------------------------------------------------------

    def raises(self, rank: int, at: float, said: Said, *, loader: bool, mark: str = "client") -> None:
        """One rank meets an error and ends with a traceback."""
        for number, (after, text) in enumerate(said.before):
            line = text.replace("{time}", self.clock(at + after))
            self.put(self.node(rank), at + after, line, f"{mark}{number}")
        head = ["Traceback (most recent call last):", *BEFORE_ERROR]
        name = said.error.split(":", 1)[0]
        short = name.rsplit(".", 1)[-1]
        worker = self.rng.randint(0, 3)
        inner: list[str] = []
        if said.cause:
            inner = [
                "Traceback (most recent call last):",
                *said.cause,
                "",
                "During handling of the above exception, another exception occurred:",
                "",
            ]
        if loader:
            lines = [
                *head,
                *IN_LOADER,
                f"{name}: Caught {short} in DataLoader worker process {worker}.",
                *[
                    line.replace("Traceback", "Original Traceback") if not number else line
                    for number, line in enumerate(inner)
                ],
                "Traceback (most recent call last):" if inner else "Original Traceback (most recent call last):",
                f'  File "{SITE}/torch/utils/data/_utils/worker.py", line 349, in _worker_loop',
                "    data = fetcher.fetch(index)  # type: ignore[possibly-undefined]",
                said.error,
            ]
        else:
            lines = [*inner, *head, said.error]
        prefix = "" if self.torch == "2.1" else f"[rank{rank}]: "
        block = "\n".join(f"{prefix}{line}" if line else "" for line in lines)
        needles = (said.needle, f"Caught {short} in") if loader else (said.needle,)
        self.put(self.node(rank), at, block, mark, needles)

    def exits(self, rank: int, at: float) -> None:
        self.put(self.node(rank), at, f"srun: error: {self.host(rank)}: task {rank}: Exited with exit code 1")

    def hang(self, at: float, absent: set[int], timeout: int = 1800) -> float:
        """All but `absent` wait in one collective from `at` on until their watchdogs end them; when that was."""
        sequence = self.rng.randint(2000, 40000)
        last = at
        for rank in range(self.world):
            if rank not in absent:
                fired = at + timeout + self.rng.uniform(0.0, 0.2)
                last = max(last, self._watchdog(rank, fired, sequence, timeout))
        for node, host in enumerate(self.hosts):
            tasks = [rank for rank in range(self.world) if self.node(rank) == node and rank not in absent]
            self.put(node, last + 2, f"srun: error: {host}: {_tasks(tasks)}: Aborted (core dumped)")
        self.put(0, last + 3, f"srun: Terminating StepId={self.id}.0")
        return last + 3

    def _watchdog(self, rank: int, at: float, sequence: int, timeout: int) -> float:
        caught, state, some, down, ended = PLACES[self.torch]
        work = f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=31457280, NumelOut=31457280, Timeout(ms)={timeout * 1000})"
        fired = f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {timeout * 1000 + self.rng.randint(0, 90)} milliseconds before timing out."
        node, end = self.node(rank), at + (0.4 if self.torch == "2.1" else 60)
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        corrupt = "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
        taken = "To avoid data inconsistency, we are taking the entire process down."
        self.put(node, at, f"{self._prefix(rank, at, caught)} {fired}")
        if self.torch == "2.1":
            self.put(node, end, f"{self._prefix(rank, end, some)} {corrupt}\n{self._prefix(rank, end, down)} {taken}")
            what = f"[Rank {rank}] NCCL watchdog thread terminated with exception: {fired}"
        else:
            status = f"PG status: last enqueued work: {sequence + 2}, last completed work: {sequence - 1}"
            self.put(
                node,
                at + 0.0001,
                f"{self._prefix(rank, at, state)} {group}  failure detected by watchdog at work sequence id: {sequence} {status}",
            )
            self.put(
                node,
                end,
                f"{self._prefix(rank, end, some)} [Rank {rank}] {corrupt}\n{self._prefix(rank, end, down)} [Rank {rank}] {taken}",
            )
            what = f"{group} Process group watchdog thread terminated with exception: {fired}"
        self.put(
            node,
            end + 0.01,
            f"{self._prefix(rank, end, ended)} {what}\nterminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {what}",
        )
        return end

    def _prefix(self, rank: int, at: float, line: int) -> str:
        if self.torch == "2.1":
            return f"[E ProcessGroupNCCL.cpp:{line}]"
        local = self.zone.local(at)
        return f"[rank{rank}]:[E{local.month}{local:%d %H:%M:%S.%f}{self.rng.randint(100, 999)} ProcessGroupNCCL.cpp:{line}]"

    def stopped(self, at: float, failed: int) -> float:
        """The scheduler ends the step since a task failed; when that was."""
        self.put(0, at + 0.5, f"srun: Terminating StepId={self.id}.0")
        stamp = self.zone.local(at + 1).strftime("%Y-%m-%dT%H:%M:%S")
        self.put(0, at + 1, f"slurmstepd: error: *** STEP {self.id}.0 ON {self.hosts[0]} CANCELLED AT {stamp} ***")
        for node, host in enumerate(self.hosts):
            tasks = [rank for rank in range(self.world) if self.node(rank) == node and rank != failed]
            self.put(node, at + 2, f"srun: error: {host}: {_tasks(tasks)}: Terminated")
        return at + 2

    def finishes(self, at: float) -> None:
        self.put(0, at, "`Trainer.fit` stopped: `max_steps=1240` reached.")

    # -- files -------------------------------------------------------------------------------------------------------

    def render(self) -> tuple[dict[str, bytes], dict[str, Found]]:
        """The files and where the marked lines stand."""
        files, marks = {}, {}
        for node in range(len(self.hosts)):
            name, number, texts = f"error-{self.id}-{self.hosts[node] if self.by_host else node}.out", 0, []
            for entry in sorted(self.entries.get(node, ()), key=lambda item: item.at):
                lines = entry.text.split("\n")
                for step, needle in enumerate(entry.needles if entry.mark else ()):
                    at = next(index for index, line in enumerate(lines) if needle in line)
                    marks[f"{entry.mark}.{step}"] = Found(name, number + at + 1, lines[at])
                number += len(lines)
                texts.append(entry.text + "\n")
            files[name] = "".join(texts).encode()
        return files, marks


def _tasks(ranks: list[int]) -> str:
    """Task numbers as srun writes them."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    text = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"task{'s' if len(ranks) > 1 else ''} {text}"
