"""The profile of an environment, and two side by side; the published JSON; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.diagnosis import Published

ENVIRONMENT = "firstfault.environment/1"
ENVIRONMENT_COMPARISON = "firstfault.environment-comparison/1"
FRAME = "FIRSTFAULT_ENVIRONMENT_JSON="
"""What the line begins with that holds a profile."""

DifferenceWeight = Literal["decides", "minor", "open"]
"""Whether a difference makes two results not comparable, does not, or cannot be judged because one side does not know."""


class Capability(Struct, frozen=True, kw_only=True):
    """Something that a run may ask for, and what it would get here."""

    name: str
    """Such as `cuda`, `nccl`, `nvcc`, `transformer_engine`, `apex`, `flash_attn`, `deepspeed`."""
    requested: str = ""
    """What is asked for: by a variable, by what is installed, or by `--require`; empty where nobody asks."""
    resolved: str = ""
    """What is there: a version, or what an import gave; empty for nothing."""
    usable: bool | None = None
    """Whether it works here; None where it was not tried."""
    detail: str = ""
    """Why it does not work, or parts of it that do not."""


class GpuRow(Struct, frozen=True, kw_only=True):
    """GPUs of one kind."""

    name: str
    count: int
    memory_mb: int | None = None
    compute_capability: str = ""


class Environment(Published, frozen=True, kw_only=True):
    """What a run gets here; without secrets, names of machines and serial numbers."""

    schema: str = ENVIRONMENT
    platform: dict[str, str] = field(default_factory=dict)
    """`system`, `machine`, `kernel`, `libc`, `distribution`, `container`, and what an image says of itself."""
    python: dict[str, str] = field(default_factory=dict)
    """`version`, `implementation`, `kind` (`environment` or `system`)."""
    gpus: list[GpuRow] = field(default_factory=list)
    driver: str = ""
    """Version of the NVIDIA driver."""
    packages: dict[str, str] = field(default_factory=dict)
    """Package -> version, by metadata."""
    capabilities: list[Capability] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """Variables that steer training."""
    missing: list[str] = field(default_factory=list)
    """Capabilities that were required and do not work."""
    digest: str = ""
    """SHA-256 over all other fields: a line that was cut or mixed does not fit it."""


class EnvironmentDifference(Struct, frozen=True, kw_only=True):
    """One thing that is not the same on both sides."""

    what: str
    """Such as `gpu`, `capability transformer_engine`, `setting NCCL_ALGO`, `package torch`."""
    first: str
    second: str
    weight: DifferenceWeight


class EnvironmentComparison(Published, frozen=True, kw_only=True):
    """Whether results of two environments may be compared at all."""

    schema: str = ENVIRONMENT_COMPARISON
    first: str
    second: str
    verdict: Literal["comparable", "not_comparable", "unknown"]
    summary: str
    differences: list[EnvironmentDifference] = field(default_factory=list)
    """What decides first."""
    same: list[str] = field(default_factory=list)
    """What of that which decides is the same on both sides."""
