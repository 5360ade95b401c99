"""Closed word lists: every word that a diagnosis may use, as enums.

The values are the words of the published contract; programs outside depend on them.
"""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """A word of a closed list; it formats as its value."""

    def __str__(self) -> str:
        return str(self.value)


class Category(Word):
    """What kind of fault the first fault was."""

    STORAGE_IO = "storage_io"
    NETWORK = "network"
    GPU_CUDA = "gpu_cuda"
    DATA = "data"
    SOFTWARE = "software"
    INFRASTRUCTURE = "infrastructure"
    DATA_LOADING_STALL = "data_loading_stall"
    COLLECTIVE_MISMATCH = "collective_mismatch"
    NUMERICAL = "numerical"
    NONE = "none"
    UNKNOWN = "unknown"


class Strength(Word):
    """How sure a claim is; there are no percentages."""

    ESTABLISHED = "established"
    SUPPORTED = "supported"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"

    @property
    def level(self) -> int:
        """3 for established down to 0 for unknown."""
        return _LEVELS[self.value]

    def at_most(self, other: Strength) -> Strength:
        """The weaker of the two."""
        return self if self.level <= other.level else other

    def at_least(self, other: Strength) -> Strength:
        """The stronger of the two."""
        return self if self.level >= other.level else other


_LEVELS = {"established": 3, "supported": 2, "possible": 1, "unknown": 0}


class Domain(Word):
    """Field of knowledge in which the fault lies."""

    CONFIG = "config"
    MEMORY = "memory"
    COMMUNICATION = "communication"
    COMPUTE = "compute"
    DATA = "data"
    HARDWARE = "hardware"


class Form(Word):
    """How the failure showed itself."""

    FAILED_START = "failed_start"
    INTERRUPTED = "interrupted"
    HUNG = "hung"
    SLOW = "slow"
    WRONG_RESULTS = "wrong_results"
    SILENT = "silent"


class Layer(Word):
    """Layer of the stack in which the fault lies."""

    LAUNCHER = "launcher"
    CONTAINER = "container"
    HOST = "host"
    RUNTIME = "runtime"
    COLLECTIVE = "collective"
    NETWORK = "network"
    STORAGE = "storage"
    CHECKPOINT = "checkpoint"
    REPORT = "report"


class Phase(Word):
    """What the job was doing."""

    START_UP = "start_up"
    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    TEARDOWN = "teardown"
    UNKNOWN = "unknown"


class Scope(Word):
    """How much of the job the fault is in."""

    RANK = "rank"
    NODE = "node"
    RAIL = "rail"
    GROUP = "group"
    ALL = "all"
    EXTERNAL = "external"


class ActionKind(Word):
    """What kind of next step fits."""

    RESTART = "restart"
    RESTART_WITHOUT = "restart_without"
    FIX_AND_RERUN = "fix_and_rerun"
    COLLECT_MORE = "collect_more"
    NONE = "none"


class Tier(Word):
    """How near to the death of the process a signature speaks; a property of the signature, never a verdict."""

    KILLER = "killer"
    LOOP = "loop"
    IO = "io"
    CONTEXT = "context"


class Role(Word):
    """What a line of this signature can be in a chain of events."""

    CAUSE = "cause"
    """It can be the first fault."""
    EFFECT = "effect"
    """It follows from a fault elsewhere; on its own it says that something failed, not what."""
    TEARDOWN = "teardown"
    """Somebody is ending the job; it follows from the failure."""
    CONTEXT = "context"
    """A fact or a sign of progress; no failure."""
    NOISE = "noise"
    """It looks like an error and is harmless; nothing may be concluded from it."""


class Blame(Word):
    """Whose fault it is when this signature is the first fault."""

    RANK = "rank"
    """The rank's own data, process or GPU."""
    HOST = "host"
    """The machine."""
    STORE = "store"
    """A storage target."""
    NOBODY = "nobody"
    """A shared setting, store or limit, or code that all ranks run alike."""


class Mark(Word):
    """What a line tells the analysis beyond its being an error; a signature may carry several."""

    START = "start"
    """Training (or the job) starts."""
    ATTEMPT = "attempt"
    """A new attempt of the same job starts here."""
    PROGRESS = "progress"
    """A step was done."""
    END = "end"
    """The run says that it ended as planned."""
    PLANNED_STOP = "planned_stop"
    """The run stops early on purpose (its own time limit, early stopping)."""
    CHECKPOINT_BEGIN = "checkpoint_begin"
    CHECKPOINT_END = "checkpoint_end"
    CHECKPOINT_LOAD = "checkpoint_load"
    EVALUATION = "evaluation"
    EVALUATION_END = "evaluation_end"
    """An evaluation came to its end; that is the end of the run only where nothing is trained."""
    DEATH = "death"
    """A process or task is reported to have ended badly (fields rank, local_rank, pid, exit_code, signal, host)."""
    STOP_SIGNAL = "stop_signal"
    """A process was told to stop by somebody."""
    HANG = "hang"
    """Somebody waited too long for others."""
    PEER_LOST = "peer_lost"
    """A peer went away: the speaker is a victim."""
    RETRY = "retry"
    """An attempt was lost and is tried again (fields retry, retries)."""
    IDENTITY = "identity"
    """It joins rank, host, pid or device."""
    STATE = "state"
    """It states enqueued and completed collectives of a rank."""
    OOM_KILL = "oom_kill"
    """The kernel, a cgroup or the node killed for memory."""
    OUTSIDE = "outside"
    """With `stop_signal`: the speaker itself was told to stop by somebody outside the job's own processes."""
    OWN_LOGIC = "own_logic"
    """A program raises it by its own logic, whatever its machine or its peers do."""
    OWN_LIMIT = "own_limit"
    """A limit of its own group ended a process: what is outside that group had nothing of it."""
    OBEYS = "obeys"
    """A process of the job says that a signal told it to stop: what it meets after that follows from the stop."""
    STALLED = "stalled"
    """A supervisor says that the job made no progress for long."""
    LOOP_LEFT = "loop_left"
    """The training loop was left before the planned number of steps (fields step, planned)."""
    P2P_ORDER = "p2p_order"
    """Sends and receives of this job may be called in orders that do not fit; its `meaning` says why."""
    SECOND_PROCESS = "second_process"
    """A coordinator met another process under the number of one that it knows (field task)."""
    CHILD = "child"
    """A launcher speaks of a process that it started itself, on its own machine (field pid)."""
    PATH = "path"
    """It says no more than that a path is missing or refused: where only one machine meets it, that machine's mount is meant."""
    RUNTIME_WORD = "runtime_word"
    """The text is a runtime's or a driver's own, whoever prints it: no program's logger only mentions it."""
    CAUGHT = "caught"
    """Its program caught the error of which it tells, and goes on: neither the line nor the traceback right below it ended
    anything; what it does not survive it prints once more."""
    STUDY_END = "study_end"
    """A search over trials came to its end with a result; that is the end of the run where nothing is raised behind it."""
    ONLY_WARNS = "only_warns"
    """A report of late ranks after which the reporter waits on: they may have come a moment later."""
    FROZEN = "frozen"
    """The speaker's own process no longer gets on, whoever else waits."""
    OF_ANOTHER = "of_another"
    """Rank and host are those of the process of which it tells, and not of its speaker."""
    NODE_UNNAMED = "node_unnamed"
    """A node failed, and the line does not say which: other lines may show one of the job's as down."""
    OUTAGE = "outage"
    """The kernel's client of a shared file system has no answer from a server, and waits."""
    OUTAGE_OVER = "outage_over"
    """A server of a shared file system answers the kernel's client again."""
    ABORT = "abort"
    """The process aborts itself on account of another error already printed."""


class CoverageState(Word):
    """What became of one input."""

    READ = "read"
    MISSING = "missing"
    DAMAGED = "damaged"
    SKIPPED = "skipped"


class SourceKind(Word):
    """What an input holds, by its content."""

    LOG = "log"
    KERNEL = "kernel"
    AISTORE = "aistore"
    SCHEDULER = "scheduler"
    ERROR_JSON = "error_json"
    FLIGHT_RECORDER = "flight_recorder"
    MEMORY_SNAPSHOT = "memory_snapshot"
    STACKS = "stacks"
    BLACK_BOX = "black_box"
    """Records of firstfault's own recorder."""
    METRICS = "metrics"
    CONFIG = "config"
    BINARY = "binary"
    EMPTY = "empty"
    UNKNOWN = "unknown"
