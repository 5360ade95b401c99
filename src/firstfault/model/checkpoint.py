"""What is true of a checkpoint and of two of them side by side; the published JSON; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import Published

CHECKPOINT = "firstfault.checkpoint/1"
CHECKPOINT_COMPARISON = "firstfault.checkpoint-comparison/1"

Part = Literal["weights", "optimizer", "scheduler", "trainer", "rng", "data", "scaler", "settings"]
"""What of the training a file, a tensor or a value belongs to."""
Weight = Literal["damage", "warning"]
"""Whether the checkpoint cannot be used as it is, or only should be looked at."""
State = Literal["complete", "damaged", "unknown"]
Sameness = Literal["exact", "functional", "different"]
ProblemKind = Literal[
    "missing_shard",
    "empty_file",
    "zeroed_file",
    "truncated",
    "unreadable",
    "checksum",
    "missing_metadata",
    "unfinished_save",
    "marker_dangling",
    "marker_behind",
    "marker_missing",
    "marker_unreadable",
    "missing_tensor",
    "misplaced_tensor",
    "extra_shard",
    "wrong_size",
    "layout",
    "uncovered",
    "mixed_steps",
    "world_size",
    "missing_part",
    "nan",
    "infinite",
    "runs_code",
]
"""Kinds of damage, each told by one word in every format."""


class CheckpointProblem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a checkpoint."""

    kind: ProblemKind
    weight: Weight
    file: str = ""
    """Path below the folder; empty where the folder as a whole is meant."""
    what: str
    """What was seen, in words."""
    fix: str = ""
    """What to do; empty where the advice is that of the checkpoint as a whole."""


class PartRow(Struct, frozen=True, kw_only=True):
    """What of one part the checkpoint holds."""

    part: Part
    files: int = 0
    tensors: int = 0
    bytes: int = 0
    """Of its tensors."""
    values: int = 0
    """Plain values."""


class Shard(Struct, frozen=True, kw_only=True):
    """One file that holds tensors."""

    file: str
    rank: int | None = None
    """Rank that the file's name states; None where it states none."""
    bytes: int
    """Size of the file."""
    tensors: int = 0
    digest: str | None = None
    """SHA-256 over names, types, shapes and bytes of its tensors in the order of their names; None where they were not read."""


class Checkpoint(Published, frozen=True, kw_only=True):
    """Whether a checkpoint is whole."""

    schema: str = CHECKPOINT
    folder: str
    """As it was given."""
    verified: str = ""
    """The folder or file below it that was looked at, as a marker names it or as the newest; empty where it is the folder itself."""
    layouts: list[str] = field(default_factory=list)
    """Whose layout it has, such as `dcp`, `deepspeed`, `megatron`, `huggingface`, `safetensors`, `torch`."""
    state: State
    summary: str
    step: int | None = None
    world_size: int | None = None
    """Ranks that wrote it, where it states that or shows it."""
    read: bool = True
    """Whether the values of tensors were read."""
    parts: list[PartRow] = field(default_factory=list)
    problems: list[CheckpointProblem] = field(default_factory=list)
    """Damage first."""
    not_checked: list[str] = field(default_factory=list)
    """What could not be looked at, each with the reason."""
    shards: list[Shard] = field(default_factory=list)
    """In the order of ranks, else of names."""
    digest: str | None = None
    """SHA-256 over the digests of the shards in their order; None where they were not all read."""
    others: list[str] = field(default_factory=list)
    """Other checkpoints in the folder, which were not looked at."""
    steps: list[str] = field(default_factory=list)
    """What to do next."""


class PartComparison(Struct, frozen=True, kw_only=True):
    """One part in both checkpoints."""

    part: Part
    result: Literal["equal", "differs", "only_first", "only_second", "absent"]
    compared: int = 0
    """Tensors and values that both hold."""
    differing: int = 0
    missing: int = 0
    """Tensors and values that the second lacks."""
    added: int = 0
    """Tensors and values that the first lacks."""


class CheckpointDifference(Struct, frozen=True, kw_only=True):
    """One tensor or value that is not the same."""

    part: Part
    name: str
    what: str
    """In words: the shapes, types or values of both."""
    index: list[int] = field(default_factory=list)
    """Where in a tensor they first part; empty where it is no tensor or they part in shape or type."""
    elements: int = 0
    """Elements that differ."""


class CheckpointComparison(Published, frozen=True, kw_only=True):
    """Two checkpoints side by side."""

    schema: str = CHECKPOINT_COMPARISON
    first: str
    second: str
    verdict: Sameness
    summary: str
    digests: list[str | None] = field(default_factory=list)
    """Of the first and the second, as `checkpoint verify` gives them; they depend on how the tensors are cut into shards."""
    parts: list[PartComparison] = field(default_factory=list)
    first_difference: CheckpointDifference | None = None
    differences: list[CheckpointDifference] = field(default_factory=list)
    """The first of them, in the order of parts and names."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with either of them."""
