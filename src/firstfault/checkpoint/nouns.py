"""What a checkpoint is made of: tensors in pieces, plain values, and what is wrong; no I/O."""

from __future__ import annotations

from msgspec import Struct, field

from firstfault.model.checkpoint import Part, ProblemKind, Weight


class Record(Struct, frozen=True):
    """A stretch of bytes of a file that is read as one."""

    file: str
    """Path below the folder of the checkpoint."""
    offset: int
    length: int
    crc: int | None = None
    """Checksum that the file states for it; None where it states none."""


class Piece(Struct, frozen=True):
    """A rectangle of a tensor, where its bytes lie."""

    record: Record
    start: int
    """Bytes from the begin of the record to the first element."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """In elements."""
    at: tuple[int, ...]
    """Where the piece begins inside the whole tensor."""

    @property
    def numel(self) -> int:
        """Elements of the piece."""
        return product(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether its elements follow one another in the order of a C array."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size != 1 and stride != step:
                return self.numel == 0
            step *= size
        return True


class Held(Struct):
    """A tensor that the checkpoint holds."""

    part: Part
    name: str
    """Below its part, such as `layers.0.weight`; of files that each rank writes, with the rank's file before a `/`."""
    dtype: str
    shape: tuple[int, ...]
    pieces: list[Piece] = field(default_factory=list)


class Problem(Struct, frozen=True):
    """One thing that is wrong, or not as it should be."""

    kind: ProblemKind
    weight: Weight
    file: str
    """Path below the folder; empty where it is about the folder."""
    what: str
    fix: str = ""


Key = tuple[Part, str]


class Content(Struct):
    """All that one checkpoint, or one file of it, holds."""

    tensors: dict[Key, Held] = field(default_factory=dict)
    values: dict[Key, str] = field(default_factory=dict)
    """Plain value -> its canonical text, or a digest where it is long."""
    records: list[Record] = field(default_factory=list)
    """Stretches with a checksum that hold no tensor."""
    problems: list[Problem] = field(default_factory=list)
    files: dict[str, Part] = field(default_factory=dict)
    """Files that hold some of it, and of what."""
    steps: dict[str, int] = field(default_factory=dict)
    """File -> step that it states."""
    unopened: set[str] = field(default_factory=set)
    """Files whose content could not be had."""
    passed_over: set[str] = field(default_factory=set)
    """Files that may hold something else, by their names and first bytes."""
    stated: dict[str, int] = field(default_factory=dict)
    """What the checkpoint says of its world: `world_size`, `data_parallel`, `tensor_parallel`, `pipeline_parallel`."""

    def add(self, other: Content) -> None:
        """Takes in what another file holds; a tensor of a name that is there already gets its file behind it."""
        for key, held in other.tensors.items():
            name = key
            if key in self.tensors and held.pieces:
                name = (key[0], f"{key[1]}@{held.pieces[0].record.file}")
            self.tensors.setdefault(name, held)
        for key, text in other.values.items():
            self.values.setdefault(key, text)
        self.records += other.records
        self.problems += other.problems
        self.files.update(other.files)
        self.steps.update(other.steps)
        self.unopened |= other.unopened
        self.passed_over |= other.passed_over
        self.stated = {**other.stated, **self.stated}


def product(sizes: tuple[int, ...]) -> int:
    """Elements of a shape."""
    total = 1
    for size in sizes:
        total *= size
    return total


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a C array of a shape."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def placeholder(name: str, head: bytes) -> Problem | None:
    """A file that stands for another that was never fetched; None where it does not.

    Args:
        name: of the file.
        head: its first bytes.
    """
    start = head.lstrip()[:64].lower()
    if start.startswith(b"version https://git-lfs.github.com/"):
        what = "is a pointer of Git LFS: the file itself was not fetched"
        return Problem("unreadable", "damage", name, what, "Fetch it: `git lfs pull` in the folder of the repository.")
    if start.startswith((b"<!doctype html", b"<html")):
        what = "is a page of HTML: a server refused the download, and its answer was kept in place of the file"
        return Problem("unreadable", "damage", name, what, "Download it again, and look whether that asks for a login.")
    return None


def runs_code(name: str, called: tuple[str, ...]) -> list[Problem]:
    """What is wrong with a file whose pickle acts on the machine when it is loaded; empty where it does not.

    Args:
        name: of the file.
        called: functions and classes that loading it would call and that act, in their order.
    """
    if not called:
        return []
    more = f" and {len(called) - 1} more" if len(called) > 1 else ""
    what = f"would run {called[0][:100]}{more} when it is loaded: a checkpoint has no need of that, and nothing of it was run here"
    fix = "Do not load it: find out who wrote it. `torch.load(..., weights_only=True)` refuses such a file."
    return [Problem("runs_code", "damage", name, what, fix)]
