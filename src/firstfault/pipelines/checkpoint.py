"""Opens checkpoints and says whether one is whole, or what differs between two.

Result objects only: redacts nothing and prints nothing but a progress bar, where one is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.checkpoint.compare import compare, nothing_to_compare
from firstfault.checkpoint.verify import open_checkpoint, report
from firstfault.pipelines.errors import PipelineError
from firstfault.scan.progress import progress_bar

if TYPE_CHECKING:
    from firstfault.checkpoint.verify import Opened
    from firstfault.model.checkpoint import Checkpoint, CheckpointComparison


def verify_checkpoint(
    path: str | os.PathLike[str], *, read: bool = True, world_size: int | None = None, progress: bool = False
) -> Checkpoint:
    """Whether a checkpoint is whole.

    Args:
        path: its folder, a folder of several, or one file.
        read: whether to read the bytes of tensors too.
        world_size: ranks that wrote it, where the caller knows.
        progress: whether a bar may be drawn on standard error.

    Raises:
        PipelineError: nothing there is a checkpoint.
    """
    opened = _opened(path, read=read, world_size=world_size, progress=progress)
    if nothing_to_compare(opened.unit.content) and not any(p.weight == "damage" for p in opened.problems):
        raise PipelineError(
            "no checkpoint was found there",
            where=os.fspath(path),
            why=f"none of its {len(opened.folder.sizes)} files is of a kind that is read",
            fix="Give the folder that the trainer saved into: torch files, safetensors, torch.distributed.checkpoint, DeepSpeed or Megatron.",
        )
    return report(opened, os.fspath(path))


def compare_checkpoints(
    first: str | os.PathLike[str], second: str | os.PathLike[str], *, progress: bool = False
) -> CheckpointComparison:
    """What differs between two checkpoints, and what first.

    Args:
        first: a folder or file, as for `verify_checkpoint`.
        second: the other.
        progress: whether bars may be drawn on standard error.

    Raises:
        PipelineError: one of them holds nothing that could be compared.
    """
    sides = [_opened(path, read=True, world_size=None, progress=progress) for path in (first, second)]
    for path, side in zip((first, second), sides, strict=True):
        if nothing_to_compare(side.unit.content):
            why = side.problems[0] if side.problems else None
            raise PipelineError(
                "there is nothing to compare",
                where=os.fspath(path),
                why="" if why is None else f"{why.file} {why.what}".strip(),
                fix="`firstfault checkpoint verify` tells what is wrong with it.",
            )
    return compare(sides[0], sides[1], (os.fspath(first), os.fspath(second)))


def _opened(path: str | os.PathLike[str], *, read: bool, world_size: int | None, progress: bool) -> Opened:
    return open_checkpoint(Path(path), read=read, world_size=world_size, progress=progress_bar if progress else None)
