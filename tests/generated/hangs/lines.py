"""Records become lines: the text that each PyTorch, launcher and framework prints, and the facts that a reader may take.

A line carries the facts that stand in it and whether its text itself names the global rank. Where a line ends up is decided
by `layouts`; what the facts prove by `oracle`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import applications
from .versions import elastic_head, group_prefix, head, work_rank, work_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .engine import Record, Work
    from .programs import Job
    from .topology import Group
    from .versions import Clock, Version

CORRUPT = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU "
    "operations might run on corrupted/incomplete data."
)
ADVICE = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of "
    "collectives is not same for all ranks or the scheduled collective, for some reason, didn't run. Additionally, this "
    "can be caused by GIL deadlock or other reasons such as network errors or bugs in the communications library (e.g. "
    "NCCL), etc. "
)
STUCK = (
    "ProcessGroupNCCL's watchdog got stuck for {seconds} seconds without making progress in monitoring enqueued "
    "collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could "
    "be triggered by another thread holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other "
    "deadlock-prone behaviors.If you suspect the watchdog is not actually stuck and a longer timeout would help, you can "
    "either increase the timeout (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC) to a larger value or disable the heartbeat monitor "
    "(TORCH_NCCL_ENABLE_MONITORING=0).If either of aforementioned helps, feel free to file an issue to PyTorch about the "
    "short timeout or false positive abort; otherwise, please attempt to debug the hang. "
)
NO_STACK = (
    "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable it by "
    "setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
)
FRAMES = (
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f{at:x} in {lib}/libc10.so)",
    "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x282 (0x7f{at:x} in {lib}/libtorch_cuda.so)",
    "frame #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f{at:x} in {lib}/libtorch_cuda.so)",
    "frame #3: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x14d (0x7f{at:x} in {lib}/libtorch_cuda.so)",
    "frame #4: <unknown function> + 0xdbbf4 (0x7f{at:x} in /opt/venv/bin/../lib/libstdc++.so.6)",
    "frame #5: <unknown function> + 0x94ac3 (0x7f{at:x} in /usr/lib/x86_64-linux-gnu/libc.so.6)",
    "frame #6: clone + 0x44 (0x7f{at:x} in /usr/lib/x86_64-linux-gnu/libc.so.6)",
)
LIBRARIES = "/opt/venv/lib/python3.11/site-packages/torch/lib"
UNNAMED = "?"
"""The group of a work whose group no line names."""
RULE = "=" * 60
THIN = "-" * 60


@dataclass(frozen=True)
class Fact:
    """Something that a line says about a rank (or, without one, about the job)."""

    what: str
    rank: int | None = None
    value: Any = None


@dataclass
class Line:
    """One line: when, from whom (no node: the scheduler), on which stream, its text and its facts."""

    time: float
    rank: int | None
    node: int | None
    stream: str
    text: str
    facts: tuple[Fact, ...] = ()
    named: bool = False
    """Whether the text itself gives the global rank of its facts."""
    doubtful: tuple[Fact, ...] = ()
    """Facts of a line that is broken in two: a reader may or may not find them."""


@dataclass
class Voice:
    """Everything that decides how the records of one job read."""

    job: Job
    version: Version
    clocks: list[Clock]
    agents: bool
    recorder: bool
    stacks: bool
    """Whether the flight recorder's stack follows a time-out (2.6 and later)."""
    shapes: bool
    frames: int
    nccl_info: bool = False
    script: str = "pretrain.py"

    def pid(self, rank: int) -> int:
        node, local = divmod(rank, self.job.shape.per_node)
        return 20_000 + 977 * (node % 31) + 3 * local

    def agent_pid(self, node: int) -> int:
        return 19_000 + 977 * (node % 31)


def render(voice: Voice, records: list[Record]) -> list[Line]:
    """All lines, in the order of true time."""
    found: list[Line] = []
    for record in records:
        say = TEXTS.get(record.what)
        if say is not None:
            found += say(voice, record)
        elif record.what in applications.TEXTS:
            assert record.rank is not None
            for stream, text, facts, named in applications.TEXTS[record.what](voice, record):
                found.append(
                    Line(
                        record.time, record.rank, record.node, stream, text, tuple(Fact(*fact) for fact in facts), named
                    )
                )
    found.sort(key=lambda line: line.time)
    return found


TEXTS: dict[str, Callable[[Voice, Record], Iterator[Line]]] = {}


def text(what: str) -> Callable[[Callable[[Voice, Record], Iterator[Line]]], Callable[[Voice, Record], Iterator[Line]]]:
    """Register what turns a kind of record into lines."""

    def register(function: Callable[[Voice, Record], Iterator[Line]]) -> Callable[[Voice, Record], Iterator[Line]]:
        TEXTS[what] = function
        return function

    return register


class Writer:
    """Lines of one rank at one record."""

    def __init__(self, voice: Voice, record: Record) -> None:
        assert record.rank is not None
        assert record.node is not None
        self.voice, self.record, self.rank, self.node = voice, record, record.rank, record.node
        self.clock = voice.clocks[record.node]
        self.time = record.time

    def watchdog(self, line: int, words: str, *facts: Fact, level: str = "E", default: bool = True) -> Line:
        """One line of the watchdog; `default`: whether its `[Rank n]` is of the default group."""
        self.time += 0.000004
        version = self.voice.version
        start = head(version, self.clock, self.time, self.rank, line, level)
        return Line(self.time, self.rank, self.node, "err", start + words, facts, version.rank_prefix or default)

    def plain(self, words: str, *facts: Fact, named: bool = False) -> Line:
        return Line(self.time, self.rank, self.node, "err", words, facts, named)

    def prefix(self, group: Group | None = None) -> str:
        shape = self.voice.job.shape
        return group_prefix(self.voice.version, shape, self.rank, group or shape.by_kind["default"][0])


def _caught(writer: Writer, work: Work) -> tuple[str, Fact, bool]:
    """The sentence about a time-out, its fact, and whether its rank is global."""
    voice, fields = writer.voice, writer.record.fields
    shape = voice.job.shape
    place = work_rank(voice.version, shape, writer.rank, work.group)
    words = work_words(voice.version, work, fields["timeout"], voice.shapes)
    signature = (work.op, *work.sizes)
    if voice.version.number < (2, 1):
        signature = (work.op, work.sizes[1]) if voice.shapes else (work.op,)
    # Before 2.3 no line names the group, so with several of them nobody can tell which one a work belongs to.
    guid = UNNAMED if shape.split and voice.version.number < (2, 3) else work.group.guid
    fact = Fact("work", writer.rank, (guid, work.seq, signature, len(work.key) != 2))
    sentence = f"[Rank {place}] Watchdog caught collective operation timeout: {words} ran for {fields['ran']} milliseconds before timing out."
    return sentence, fact, not shape.split


@text("timeout")
def _timeout(voice: Voice, record: Record) -> Iterator[Line]:
    writer, work, version = Writer(voice, record), record.fields["work"], voice.version
    sentence, fact, default = _caught(writer, work)
    yield writer.watchdog(version.caught, sentence, fact, default=default)
    numbers = record.fields["enqueued"], record.fields["completed"]
    state = Fact("state", writer.rank, (work.group.guid, *numbers))
    if version.number >= (2, 6):
        words = f" failure detected by watchdog at work sequence id: {work.seq} PG status: last enqueued work: {numbers[0]}, last completed work: {numbers[1]}"
        yield writer.watchdog(version.state, writer.prefix(work.group) + words, state)
        yield from _stack(writer, work)
    elif version.number >= (2, 4):
        words = f"Exception (either an error or timeout) detected by watchdog at work: {work.seq}, last enqueued NCCL work: {numbers[0]}, last completed NCCL work: {numbers[1]}."
        yield writer.watchdog(version.state, writer.prefix(work.group) + words, state)


def _stack(writer: Writer, work: Work) -> Iterator[Line]:
    version = writer.voice.version
    if not writer.voice.stacks:
        yield writer.watchdog(version.no_stack, NO_STACK)
        return
    yield writer.watchdog(version.stack, "Stack trace of the failed collective: ")
    function = {"ALLREDUCE": "all_reduce", "BROADCAST": "broadcast", "SEND": "send", "RECV": "recv"}.get(
        work.op, "all_gather"
    )
    where = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
    yield writer.plain(f"#0 {function} from {where}/distributed_c10d.py:2730")
    yield writer.plain(f"#1 wrapper from {where}/c10d_logger.py:81")
    yield writer.plain("#2 train_step from /workspace/train/loop.py:214")
    yield writer.plain("")


@text("abort")
def _abort(voice: Voice, record: Record) -> Iterator[Line]:
    writer, work, version = Writer(voice, record), record.fields["work"], voice.version
    sentence, fact, default = _caught(writer, work)
    numbers = record.fields["enqueued"], record.fields["completed"]
    if version.name == "2.3" or version.again:
        words = f"Timeout at NCCL work: {work.seq}, last enqueued NCCL work: {numbers[0]}, last completed NCCL work: {numbers[1]}."
        state = Fact("state", writer.rank, (work.group.guid, *numbers))
        yield writer.watchdog(version.again or version.state, writer.prefix(work.group) + words, state)
    who = f"[Rank {work_rank(version, voice.job.shape, writer.rank, work.group)}] " if version.number >= (2, 3) else ""
    ending = "we are taking the entire process down."
    if version.number < (2, 0):
        yield writer.watchdog(version.some, f"{CORRUPT} To avoid this inconsistency, {ending}")
        yield from _terminate(writer, "std::runtime_error", sentence, fact, default)
        return
    yield writer.watchdog(version.some, who + CORRUPT)
    yield writer.watchdog(version.avoid, f"{who}To avoid data inconsistency, {ending}")
    thread = "Process group watchdog thread" if version.number >= (2, 3) else "NCCL watchdog thread"
    said = f"{writer.prefix(work.group)}{thread} terminated with exception: {sentence}"
    yield writer.watchdog(version.terminated, said, fact, default=default)
    yield from _raised(writer)
    yield writer.plain("")
    yield from _terminate(writer, "c10::DistBackendError", said, fact, default)
    yield from _raised(writer)
    yield writer.plain("")


def _terminate(writer: Writer, error: str, said: str, fact: Fact, default: bool) -> Iterator[Line]:
    yield writer.plain(f"terminate called after throwing an instance of '{error}'")
    yield writer.plain(f"  what():  {said}", fact, named=default)


def _raised(writer: Writer) -> Iterator[Line]:
    place = f"../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{writer.voice.version.raised}"
    yield writer.plain(f"Exception raised from checkTimeout at {place} (most recent call first):")
    at = random.Random(writer.rank).randrange(16**10)
    for number, frame in enumerate(FRAMES[: writer.voice.frames]):
        yield writer.plain(frame.format(at=at + 4096 * number, lib=LIBRARIES))


@text("signal")
def _signal(voice: Voice, record: Record) -> Iterator[Line]:
    writer, version = Writer(voice, record), voice.version
    if version.number >= (2, 6):
        words = "First PG on this rank to signal dumping."
    else:
        words = "Broadcasting flight-recorder dump signal to other processes via TCPStore."
    yield writer.watchdog(version.signal, writer.prefix(record.fields["group"]) + words)


@text("dump_own")
def _dump_own(voice: Voice, record: Record) -> Iterator[Line]:
    yield from _dump(voice, record, "this local rank")


@text("dump_heard")
def _dump_heard(voice: Voice, record: Record) -> Iterator[Line]:
    writer = Writer(voice, record)
    words = "Observed flight recorder dump signal from another rank via TCPStore."
    yield writer.watchdog(voice.version.dumping - 40, writer.prefix() + words)
    yield from _dump(voice, record, f" rank {record.fields['source']}")


def _dump(voice: Voice, record: Record, source: str) -> Iterator[Line]:
    writer = Writer(voice, record)
    numbers = record.fields["enqueued"], record.fields["completed"]
    words = (
        f"Received a dump signal due to a collective timeout from {source} and we will try our best to dump the debug info. "
        f"Last enqueued NCCL work: {numbers[0]}, last completed NCCL work: {numbers[1]}.{ADVICE}"
    )
    guid = voice.job.shape.by_kind["default"][0].guid
    fact = Fact("state", writer.rank, (guid, *numbers))
    yield writer.watchdog(voice.version.dumping, writer.prefix() + words, fact)
    extra = " Include stack trace: 1" if voice.version.number >= (2, 6) else ""
    words = f"ProcessGroupNCCL preparing to dump debug info.{extra}"
    yield writer.watchdog(voice.version.dumping - 151, writer.prefix() + words)


@text("terminating")
def _terminating(voice: Voice, record: Record) -> Iterator[Line]:
    writer = Writer(voice, record)
    if voice.version.number >= (2, 5):
        words = "Terminating the process after attempting to dump debug info, due to collective timeout or exception."
        yield writer.watchdog(voice.version.dumping - 126, writer.prefix() + words, level="F")


@text("store_gone")
def _store_gone(voice: Voice, record: Record) -> Iterator[Line]:
    """The monitor asks the store once a second whether it should dump (2.4 and later)."""
    writer, version = Writer(voice, record), voice.version
    if version.number < (2, 4):
        return
    error = "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
    if version.number < (2, 6):
        error = "Connection reset by peer"
    words = (
        'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: '
        f"{error}"
    )
    yield writer.watchdog(version.dumping + 37, writer.prefix() + words, level="W")


@text("gil")
def _gil(voice: Voice, record: Record) -> Iterator[Line]:
    words = "Could not acquire GIL within 300 ms on exit, possible GIL induced hang"
    writer = Writer(voice, record)
    yield writer.watchdog(voice.version.dumping + 88, writer.prefix() + words, Fact("doing", writer.rank))


@text("heartbeat")
def _heartbeat(voice: Voice, record: Record) -> Iterator[Line]:
    writer, version = Writer(voice, record), voice.version
    fact = Fact("why", writer.rank, "heartbeat")
    if version.number >= (2, 5):
        yield writer.watchdog(version.dumping + 27, writer.prefix() + STUCK.format(**record.fields), fact)
    else:
        words = (
            "Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()="
        )
        yield writer.watchdog(1174, f"{writer.prefix()}{words}{record.fields['works']}", fact)


@text("heartbeat_fatal")
def _heartbeat_fatal(voice: Voice, record: Record) -> Iterator[Line]:
    writer, version = Writer(voice, record), voice.version
    if version.number >= (2, 5):
        words = "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang."
        yield writer.watchdog(version.dumping - 126, writer.prefix() + words, level="F")
    else:
        fact = Fact("why", writer.rank, "heartbeat")
        words = f"{writer.prefix()}{writer.prefix()}{STUCK.format(**record.fields)}"
        yield writer.watchdog(1169, words, fact, level="F")


# Launchers and the scheduler


@text("agent_signal")
def _agent_signal(voice: Voice, record: Record) -> Iterator[Line]:
    yield _agent(
        voice, record, f"Sending process {voice.pid(record.fields['of'])} closing signal SIGTERM", warning=True
    )


@text("agent_failed")
def _agent_failed(voice: Voice, record: Record) -> Iterator[Line]:
    rank, code = record.fields["of"], record.fields["code"]
    words = (
        f"failed (exitcode: {code}) local_rank: {voice.job.shape.local(rank)} (pid: {voice.pid(rank)}) of binary: "
        "/opt/venv/bin/python"
    )
    yield _agent(voice, record, words, warning=False)


def _agent(voice: Voice, record: Record, words: str, *, warning: bool) -> Line:
    assert record.node is not None
    start = elastic_head(voice.version, voice.clocks[record.node], record.time, voice.agent_pid(record.node), warning)
    return Line(record.time, None, record.node, "agent", start + words)


@text("banner")
def _banner(voice: Voice, record: Record) -> Iterator[Line]:
    node, failures = record.node, record.fields["failures"]
    assert node is not None

    def entry(number: int, rank: int, code: int, ended: float) -> Iterator[tuple[str, tuple[Fact, ...]]]:
        signal = {-6: "  (SIGABRT)", -9: "  (SIGKILL)", -11: "  (SIGSEGV)"}.get(code, " ")
        words = {-6: "Signal 6 (SIGABRT)", -9: "Signal 9 (SIGKILL)", -11: "Signal 11 (SIGSEGV)"}.get(code)
        yield f"[{number}]:", ()
        yield f"  time      : {voice.clocks[node].iso(ended, '%Y-%m-%d_%H:%M:%S')}", ()
        yield f"  host      : {voice.job.shape.hosts[node]}", (Fact("host", rank),)
        yield f"  rank      : {rank} (local_rank: {voice.job.shape.local(rank)})", (Fact("exit", rank, code),)
        yield f"  exitcode  : {code} (pid: {voice.pid(rank)}){signal}", (Fact("code", rank, code),)
        yield "  error_file: <N/A>", ()
        see = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        yield f"  traceback : {see if words is None else f'{words} received by PID {voice.pid(rank)}'}", ()

    rows: list[tuple[str, tuple[Fact, ...]]] = [
        ("Traceback (most recent call last):", ()),
        ('  File "/opt/venv/bin/torchrun", line 8, in <module>', ()),
        ("    sys.exit(main())", ()),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", ()),
        (RULE, ()),
        (f"{voice.script} FAILED", ()),
        (THIN, ()),
        ("Failures:", ()),
    ]
    for number, failure in enumerate(failures[1:], 1):
        rows += entry(number, *failure)
    if len(failures) == 1:
        rows.append(("  <NO_OTHER_FAILURES>", ()))
    rows += [(THIN, ()), ("Root Cause (first observed failure):", ()), *entry(0, *failures[0]), (RULE, ())]
    for words, facts in rows:
        yield Line(record.time, None, node, "agent", words, facts, named=True)


@text("cancelled")
def _cancelled(voice: Voice, record: Record) -> Iterator[Line]:
    assert record.node is not None
    moment = voice.clocks[record.node].iso(record.time, "%Y-%m-%dT%H:%M:%S")
    host = voice.job.shape.hosts[record.node]
    words = f"slurmstepd: error: *** STEP {4_000_000 + voice.job.seed % 999_983}.0 ON {host} CANCELLED AT {moment} ***"
    yield Line(record.time, None, None, "sched", words)


@text("task_exit")
def _task_exit(voice: Voice, record: Record) -> Iterator[Line]:
    assert record.node is not None
    words = f"srun: error: {voice.job.shape.hosts[record.node]}: task {record.node}: Exited with exit code 1"
    yield Line(record.time, None, None, "sched", words)


@text("end")
def _end(voice: Voice, record: Record) -> Iterator[Line]:
    """What srun says about a task that is a rank; with agents, the tasks are the agents."""
    code, rank = record.fields["code"], record.rank
    if voice.agents or code == 0:
        return
    words = {-6: "Aborted (core dumped)", -9: "Killed", -15: "Terminated"}.get(code, f"Exited with exit code {code}")
    assert rank is not None
    host = voice.job.shape.host(rank)
    facts = (Fact("task", rank, code),)
    yield Line(record.time + 0.3, None, None, "sched", f"srun: error: {host}: task {rank}: {words}", facts, named=True)
