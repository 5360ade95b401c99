"""What a check of settings found; the published JSON; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from firstfault.model.checks import CheckState
from firstfault.model.diagnosis import Published

CONFIG_CHECK = "firstfault.config-check/1"

ConfigKind = Literal[
    "deepspeed",
    "accelerate",
    "fsdp",
    "training_arguments",
    "nemo",
    "torchtitan",
    "slurm",
    "script",
    "arguments",
    "unknown",
]
"""Whose settings a file holds, found by its content."""


class ConfigFile(Struct, frozen=True, kw_only=True):
    """One file that was given."""

    file: str
    kind: ConfigKind
    written_by: str = ""
    """The script whose text holds it; empty where it is a file of its own."""


class ConfigFinding(Struct, frozen=True, kw_only=True):
    """What one check found in one place."""

    check: str
    """Program and name, such as `deepspeed.batch`."""
    state: CheckState
    file: str = ""
    line: int | None = None
    """From 1; None where it is about the job as a whole."""
    what: str
    """What was seen, with the numbers."""
    why: str = ""
    """Why that is wrong, and when it shows."""
    message: str = ""
    """What the program says when it dies of it; empty where it says nothing, or where its words are not known."""
    signature: str = ""
    """The signature that such a line has in a log; `firstfault explain` tells of it. Empty where there is none."""
    fix: str = ""
    """What to do; empty where there is nothing to do."""


class ConfigCheck(Published, frozen=True, kw_only=True):
    """What is wrong with the settings of one job."""

    schema: str = CONFIG_CHECK
    state: Literal["ok", "warn", "fail", "unknown"]
    """The worst that was found; unknown where nothing could be checked."""
    summary: str
    world_size: int | None = None
    """Ranks of the job; None where nothing states them."""
    world_size_from: str = ""
    """What states them."""
    files: list[ConfigFile] = field(default_factory=list)
    findings: list[ConfigFinding] = field(default_factory=list)
    """The worst first, then in the order of files and lines; what is right and what could not be checked last."""
