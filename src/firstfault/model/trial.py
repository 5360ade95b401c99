"""One trial of a measurement and a matrix of them, as the guard writes them; no I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

TRIAL = "firstfault.trial/1"
MATRIX = "firstfault.matrix/1"

TrialState = Literal["valid", "invalid", "failed", "unproven"]
"""The command ended well and nothing spoke against it; somebody else was there; the command failed; what was needed to
know was not to be had."""


class Stranger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program of somebody else on a card."""

    pid: int
    name: str = ""
    card: str = ""
    mb: int | None = None
    when: Literal["before", "during", "after"] = "before"
    seen: bool = True
    """Whether it is to be seen from here; False for one of another container or namespace."""


class CardUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card over a trial; absent is None."""

    index: str
    used_mb_before: int | None = None
    used_mb_after: int | None = None
    clock_mhz_least: int | None = None
    clock_mhz_most: int | None = None
    temperature_most: int | None = None
    busy_mean: float | None = None
    throttled: dict[str, int] = field(default_factory=dict)
    """Reason -> looks at which it held."""


class HostUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The machine over a trial; absent is None."""

    cpus: int
    load_before: float | None = None
    load_after: float | None = None
    memory_free_mb_before: int | None = None
    memory_free_mb_after: int | None = None
    others_cpu: float | None = None
    """Part of all processors that others than the trial used, 0 to 1."""


class Provenance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Under what a trial ran; empty is not known."""

    revision: str = ""
    dirty: bool | None = None
    """Whether the source differs from the revision; None where that is not known."""
    changes: str = ""
    """SHA-256 of what differs."""
    image: str = ""
    """Digest of the container's image."""
    container: str = ""
    """What kind of container; empty for none."""
    profile: str = ""
    """Digest of the profile that lies beside, in `profile.json`."""
    missing: list[str] = field(default_factory=list)
    """What should be known and is not."""


class Trial(Struct, frozen=True, kw_only=True):
    """One trial; lies as `trial.json` in its folder."""

    schema: str = TRIAL
    name: str
    state: TrialState
    reasons: list[str] = field(default_factory=list)
    """Why it is not valid; empty where it is."""
    exit_code: int | None = None
    begun: str = ""
    """ISO 8601, UTC."""
    seconds: float | None = None
    command: list[str] = field(default_factory=list)
    host: str = ""
    looks: int = 0
    """Times that the cards were looked at while it ran."""
    strangers: list[Stranger] = field(default_factory=list)
    cards: list[CardUse] = field(default_factory=list)
    machine: HostUse | None = None
    provenance: Provenance = field(default_factory=Provenance)
    left_behind: int = 0
    """Processes of the trial that still ran when its command had ended."""


class Matrix(Struct, frozen=True, kw_only=True):
    """A set of trials that is published as one; lies as `matrix.json` in the folder of the results."""

    schema: str = MATRIX
    trials: list[str] = field(default_factory=list)
    """Names, where they are known ahead."""
    of: int
    """How many there are."""
    published: str = ""
    """When it was, ISO 8601, UTC; empty while it is staged."""
    provenance: Provenance = field(default_factory=Provenance)
    """Of all its trials."""
