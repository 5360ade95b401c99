"""Observations: where a line stands, who said it and when.

Nothing here blames or advises; see `firstfault.model.findings` for that. What there may be a hundred thousand of is left
alone by the collector of garbage (`gc=False`): it holds facts and other such values, and never itself.
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from firstfault.model.words import CoverageState, SourceKind

GlobalRank = NewType("GlobalRank", int)
"""Rank in the default process group of the job, 0-based."""
LocalRank = NewType("LocalRank", int)
"""Rank among the processes of one node, 0-based."""
NodeRank = NewType("NodeRank", int)
"""Rank of a node among the nodes of the job, 0-based."""
GroupRank = NewType("GroupRank", int)
"""Rank inside one process group; becomes a global rank only by a stated map."""
SourceId = NewType("SourceId", int)
"""Index of a `Source` in the list of sources, which is sorted by shown path."""


class Source(Struct, frozen=True, kw_only=True):
    """One file or archive member that may hold evidence."""

    id: SourceId
    path: str
    """As shown to people: relative to the given PATH, `a.tar.gz!b.log` for a member, `<stdin>`."""
    kind: SourceKind
    size: int | None = None
    """Bytes after decompression; None where only a full read would tell."""
    real_path: str = ""
    """Where the bytes lie on this machine; never printed."""
    origin: str = ""
    """The file of this machine that holds it, an archive where it is a member; empty for standard input; never printed."""
    member: tuple[str, ...] = ()
    """Names of nested archive members, outermost first; empty for a plain file."""
    modified: float | None = None
    """Modification time in seconds since the epoch; the last resort for a year."""


EMPTY = "empty"
"""Reason by which a file without a byte is not read."""


class Coverage(Struct, frozen=True, kw_only=True):
    """What became of one input, with its reason."""

    file: str
    state: CoverageState
    reason: str = ""
    bytes: int = 0
    """Bytes that were read, after decompression."""


class Span(Struct, frozen=True, order=True, gc=False):
    """A stretch of one source; the currency of evidence."""

    source: SourceId
    offset: int
    """Byte offset of the start of the evidence, after decompression."""
    length: int
    """Bytes."""
    line: int
    """1-based, counting newlines only."""
    column: int
    """1-based byte in the line at which the evidence starts."""


class Who(Struct, frozen=True, gc=False):
    """Who said a line, or whom it is about; separate facts, never mixed, None where the line does not say."""

    rank: GlobalRank | None = None
    local_rank: LocalRank | None = None
    node_rank: NodeRank | None = None
    group_rank: GroupRank | None = None
    group: str | None = None
    """GUID or description of the process group in which `group_rank` counts."""
    host: str | None = None
    pid: int | None = None
    device: int | None = None
    """CUDA ordinal as the process sees it."""
    worker: int | None = None
    """DataLoader worker id inside its rank."""
    label: str | None = None
    """Any other constant stream label, such as a Ray actor name; joins lines of one speaker."""


class When(Struct, frozen=True, gc=False):
    """An interval on one clock; two events are ordered only where their intervals do not meet."""

    earliest: float | None = None
    """Seconds since the epoch of the clock's own wall time (naive local time read as UTC), or of UTC where `zone` is known."""
    latest: float | None = None
    zone: str | None = None
    """Offset such as `+08:00` or `Z` where the line states it; None: local time of that machine, zone unknown."""
    dated: bool = True
    """False where only the time of day is known."""
    yeared: bool = True
    """False where the year was not in the line and could not be inferred."""

    @property
    def known(self) -> bool:
        """Whether both ends are known."""
        return self.earliest is not None and self.latest is not None

    def before(self, other: When) -> bool:
        """Whether this ended before the other began; False where it cannot be told."""
        if self.latest is None or other.earliest is None or self.dated != other.dated:
            return False
        return self.latest < other.earliest


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """One observation: a line (or block) of a known meaning; no blame, no advice."""

    signature: str
    """Id of the signature, or `python.exception` for a traceback that no signature knows."""
    span: Span
    text: str
    """The line (or the `\\r` segment of it) without line end, undecodable bytes as `\\xNN`, capped at 4,096 characters."""
    who: Who = Who()
    when: When = When()
    attempt: int = 1
    count: int = 1
    """How many equal lines of this speaker and signature stand behind this kept one."""
    ordinal: int = 0
    """0 for the first kept line of its fold, 1 for the second, …; negative from the end (-1 is the last)."""
    fields: dict[str, str] = {}
    """Named facts of the line, as text, by the field names of the signature dialect."""
    exception: PythonException | None = None
    """Set where the event is the final line of a traceback that was put together."""


CAUGHT = "caught"
"""Field of a line that says, or above whose traceback it is said, that its program caught the error and goes on."""
EARLIER = "earlier_run"
"""Field of an event that is of an earlier run of its container than the present one, by the line's own block."""


class Frame(Struct, frozen=True, gc=False):
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str


class PythonException(Struct, frozen=True, kw_only=True, gc=False):
    """One traceback put together from (maybe interleaved) lines."""

    kind: str
    """Class as printed, with its module where printed: `torch.OutOfMemoryError`."""
    message: str
    frames: tuple[Frame, ...] = ()
    """Outermost first, as printed."""
    user_frame: Frame | None = None
    """Innermost frame outside installed libraries; None where all are."""
    chained_from: tuple[str, ...] = ()
    """`Class: message` of the earlier exceptions of the chain, oldest first."""
    in_worker: bool = False
    """Re-raised from a DataLoader worker."""
    ignored: bool = False
    """Printed as `Exception ignored in`, by a logger at warning level, or inside `__del__`: it ended nothing."""
    complete: bool = True
    """False where the block was cut."""
    in_thread: bool = False
    """It ended a thread other than the main one, whose process goes on."""
    hooked: bool = False
    """Printed by the hook that torch sets for exceptions that nobody caught (`[rankN]: Traceback …`): it ended its process."""
    last_word: bool = False
    """Nothing of its speaker stands behind it, to the end of its source."""
    lived_on: bool = False
    """It did not come to the top of its program, and the next stamped line of its speaker is a logger's, at a level at which
    nothing is wrong: its program lived at that time."""


class RanksNamed(Struct, frozen=True, kw_only=True, gc=False):
    """Ranks that the lines of one kind name, all of them, where of the lines themselves only the first and last are kept."""

    source: SourceId
    who: Who
    """What their prefixes tell, the same for all."""
    ranks: dict[int, tuple[int, int, str]]
    """By rank the byte offsets of the first and the last line that names it, and the host that the last one names."""
    tasks: bool = False
    """The numbers are a scheduler's tasks, whose ends the lines tell."""


class ProgressSample(Struct, frozen=True, gc=False):
    """One line that proves that a step was done."""

    source: SourceId
    line: int
    offset: int
    step: int | None = None
    total: int | None = None
    rank: GlobalRank | None = None
    when: When = When()
    host: str | None = None
    """Host that the prefix of the line names."""
    pid: int | None = None
    """Process that the prefix of the line names."""
    local_rank: LocalRank | None = None
    """Local rank that the prefix of the line names."""


class Failure(Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a launcher's list of failed processes."""

    span: Span
    who: Who
    when: When
    exit_code: int | None = None
    """Positive exit status, or minus the signal number."""
    root: bool = False
    """Whether the launcher called it the first observed failure; true only within its own node."""
    message: str = ""
    error_file: str = ""
    """Path, on the machine of the process, of the file into which it wrote its error; empty where there is none."""
