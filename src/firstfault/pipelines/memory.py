"""What held the memory of each device, by the memory snapshots of an input, beside the verdict of all of it.

Must not choose columns or cut lists: that is how a table is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.memory_reading import read_memory
from firstfault.analysis.state.memory import memory_state, place_of
from firstfault.model.views import MemoryPlace, MemoryRow, MemorySize, MemoryTable
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.ranks import coverage_of
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import IO

    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.state.memory import MemoryState, Share
    from firstfault.model.memory import DeviceMemory, MemorySnapshot
    from firstfault.pipelines.options import DiagnoseOptions


def memory_table(
    paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions, *, stdin: IO[bytes] | None = None
) -> MemoryTable:
    """What held the memory in every snapshot of an input.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis; one attempt, not all.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The table, not yet redacted: devices on which a request failed first.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, _):
        return memory_of(conclusion, Citer(verifier, conclusion.scene.case.paths))


def memory_of(conclusion: Conclusion, cite: Citer) -> MemoryTable:
    """The table of a conclusion, its lines cited."""
    scene = conclusion.scene
    snapshots = scene.case.seen.snapshots
    verdict = verdict_in(conclusion.scene, conclusion.answer, cite)
    rows = [_row(s, d) for s in snapshots for d in s.devices]
    return MemoryTable(
        verdict=verdict,
        attempt=scene.number,
        attempts=len(conclusion.attempts),
        coverage=coverage_of(scene),
        verification=cite.verification(),
        snapshots=len(snapshots),
        rows=sorted(rows, key=lambda r: (r.failed is None, r.rank is None, r.rank or 0, r.file, r.device)),
    )


def _row(snapshot: MemorySnapshot, device: DeviceMemory) -> MemoryRow:
    state = memory_state(device)
    reading = read_memory(state)
    oom = device.ooms[-1] if device.ooms else None
    who = snapshot.who
    return MemoryRow(
        file=snapshot.path,
        rank=None if who.rank is None else int(who.rank),
        host=who.host,
        device=device.device,
        use=None if reading.use is None else reading.use.value,
        failed=None if oom is None else oom.asked,
        failed_at="" if oom is None else place_of(oom.frames).text,
        free=None if oom is None else oom.free,
        ooms=device.oom_count,
        at_oom=device.at_oom,
        held=state.held,
        reserved=device.reserved,
        inactive=device.inactive,
        largest_inactive=device.largest_inactive,
        pool_reserved=device.pool_reserved,
        pool_inactive=device.pool_inactive,
        nameless=state.nameless,
        entries=device.entries,
        sentences=list(reading.sentences),
        steps=list(reading.steps),
        places=[_place(share, state) for share in state.shares],
        sizes=[MemorySize(bytes=size, blocks=count) for size, count in device.sizes],
    )


def _place(share: Share, state: MemoryState) -> MemoryPlace:
    grown = next((g for g in state.growth if g.place == share.place), None)
    return MemoryPlace(
        place=share.place.text,
        part=share.place.part,
        through=share.place.through,
        line=share.place.line,
        bytes=share.size,
        blocks=share.count,
        kept=0 if grown is None else grown.size,
        steady=grown is not None and grown.steady and state.several_steps,
    )
