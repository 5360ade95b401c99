"""What the samples of one GPU's counters tell, as a monitor wrote them to a table; no I/O."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Span, When


class GpuSample(Struct, frozen=True):
    """One row about one GPU; None where the row does not say."""

    span: Span
    text: str
    """The row, capped at 400 characters."""
    when: When = When()
    utilization: float | None = None
    """Per cent of the time in which a kernel ran."""
    memory: float | None = None
    """Memory in use, in MiB."""
    temperature: float | None = None
    """Degrees Celsius."""
    clock: float | None = None
    """Clock of its cores, in MHz."""
    uncorrected: int | None = None
    """Uncorrected memory errors, as the counter stands."""
    slowed: str = ""
    """Why the driver slows the GPU for its own protection (heat, power brake); empty where it does not."""
    lost: bool = False
    """Whether the row says that the GPU cannot be reached."""


class GpuCourse(Struct, frozen=True, kw_only=True):
    """The course of one GPU's samples; long tables are folded, so that only telling rows are kept."""

    gpu: int | None
    """Index of the GPU on its machine, as the driver's tools count; it is no rank."""
    bus: str | None
    """Address on the PCI bus, as printed."""
    host: str | None
    """Machine, where the file or its name tells it."""
    count: int
    """Samples read."""
    first: GpuSample
    last: GpuSample
    lost: GpuSample | None = None
    """First row in which the GPU cannot be reached."""
    errors: GpuSample | None = None
    """First row in which the counter of uncorrected errors is higher than in the first row that has it."""
    slowed: GpuSample | None = None
    """First row in which the driver slows the GPU for its own protection."""
    slowed_count: int = 0
    idle: GpuSample | None = None
    """First row from which on to the end no kernel ran, although one had run before and memory stays in use."""
    busy: GpuSample | None = None
    """First row from which on to the end kernels ran without a pause."""
