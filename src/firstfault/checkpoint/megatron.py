"""A folder of Megatron-LM's `torch` format: `iter_N/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt` and `distrib_optim.pt`.

The `torch_dist` format is torch.distributed.checkpoint and is read as such; `common.pt` and `metadata.json` lie beside it.
Names by `get_checkpoint_name` of Megatron's checkpointing module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.checkpoint.contents import json_of
from firstfault.checkpoint.nouns import Problem

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.checkpoint.nouns import Content

TRACKER = "latest_checkpointed_iteration.txt"
ITERATION = re.compile(r"(?:^|/)iter_(\d{7,})$")
RANK = re.compile(r"(?:^|/)mp_rank_(?P<tensor>\d{2,})(?:_(?P<pipe>\d{3}))?(?:_(?P<expert>\d{3}))?$")
MODEL = "model_optim_rng.pt"
_ARGS = {
    "tensor_parallel": "tensor_model_parallel_size",
    "pipeline_parallel": "pipeline_model_parallel_size",
    "expert_parallel": "expert_model_parallel_size",
    "world_size": "world_size",
}


def rank_folders(folder: Folder, below: str) -> dict[tuple[int, int | None, int | None], str]:
    """(tensor, pipeline, expert) rank -> folder that holds its files."""
    found: dict[tuple[int, int | None, int | None], str] = {}
    for name in folder.folders:
        above, _, _ = name.rpartition("/")
        match = RANK.search(name)
        if above == below and match is not None:
            pipe, expert = (None if match[k] is None else int(match[k]) for k in ("pipe", "expert"))
            found[int(match["tensor"]), pipe, expert] = name
    return found


def check_megatron(folder: Folder, below: str, content: Content) -> None:
    """Holds the ranks' folders of one iteration against one another and against the arguments in them."""
    ranks = rank_folders(folder, below)
    stated = {name: number for name, key in _ARGS.items() if (number := _argument(content, key)) is not None}
    content.stated.update(stated)
    _missing_ranks(below, ranks, stated, content)
    each = [{f.rpartition("/")[2] for f in folder.under(name)} for name in ranks.values()]
    wanted = {base for bases in each for base in bases if base.endswith(".pt")}
    for name, bases in zip(ranks.values(), each, strict=True):
        for base in sorted(wanted - bases):
            # Only the first of the data-parallel ranks writes its optimizer where all experts share it.
            what = "is missing: other ranks have such a file"
            content.problems.append(Problem("missing_shard", "damage", f"{name}/{base}", what))


def is_dist(files: list[str]) -> bool:
    """Whether files beside a torch.distributed.checkpoint are those of the `torch_dist` format."""
    bases = {f.rpartition("/")[2] for f in files}
    return "common.pt" in bases or "metadata.json" in bases


def check_dist(folder: Folder, below: str, files: list[str], content: Content) -> None:
    """Holds the two files that the `torch_dist` format adds against one another: without either nothing is loaded."""
    bases = {f.rpartition("/")[2] for f in files}
    stem = f"{below}/" if below else ""
    if "metadata.json" not in bases:
        what = "is missing beside common.pt: it says that this is a distributed checkpoint, and is written last"
        content.problems.append(Problem("missing_metadata", "damage", f"{stem}metadata.json", what))
    else:
        held = json_of(folder, f"{stem}metadata.json")
        if isinstance(held, Problem):
            content.problems.append(held)
    if "common.pt" not in bases:
        what = "is missing beside metadata.json: arguments, iteration and scheduler are in it"
        content.problems.append(Problem("missing_part", "damage", f"{stem}common.pt", what))


def _argument(content: Content, key: str) -> int | None:
    for (part, path), text in content.values.items():
        if part == "settings" and path.endswith(f".{key}") | (path.rpartition("/")[2] == key) and text.isdigit():
            return int(text)
    return None


def _missing_ranks(
    below: str, ranks: dict[tuple[int, int | None, int | None], str], stated: dict[str, int], content: Content
) -> None:
    if not ranks:
        return
    tensor = stated.get("tensor_parallel", 1 + max(t for t, _, _ in ranks))
    pipes = sorted({p for _, p, _ in ranks if p is not None})
    experts = sorted({e for *_, e in ranks if e is not None})
    pipe = stated.get("pipeline_parallel", 1 + pipes[-1] if pipes else 1)
    for t in range(tensor):
        for p in range(pipe) if pipes else [None]:
            for e in range(1 + experts[-1]) if experts else [None]:
                if (t, p, e) not in ranks:
                    base = f"mp_rank_{t:02d}" + "".join(f"_{n:03d}" for n in (p, e) if n is not None)
                    what = (
                        f"is missing: the checkpoint is of {tensor} tensor-parallel and {pipe} pipeline-parallel ranks"
                    )
                    name = f"{below}/{base}" if below else base
                    content.problems.append(Problem("missing_shard", "damage", name, what))
    for (t, p, _), name in ranks.items():
        if t >= tensor or (p is not None and p >= pipe):
            what = f"is of a rank beyond the {tensor} tensor-parallel and {pipe} pipeline-parallel ones that the arguments state"
            content.problems.append(Problem("world_size", "damage", name, what))
    if not pipes and pipe > 1:
        what = f"has no pipeline rank in its name, and the arguments state {pipe} pipeline-parallel ranks"
        content.problems.append(Problem("world_size", "damage", next(iter(ranks.values())), what))


def check_iterations(below: str, content: Content) -> None:
    """Holds the iterations that files state against one another and against the folder's name."""
    named = ITERATION.search(below)
    stem = f"{below}/" if below else ""
    steps = {
        f: s for f, s in content.steps.items() if f.startswith(stem) and f.endswith((MODEL, "common.pt", ".metadata"))
    }
    if not steps:
        return
    values = sorted(steps.values())
    most = max(set(values), key=values.count)
    for name, step in steps.items():
        if step != most:
            content.problems.append(
                Problem("mixed_steps", "damage", name, f"is of iteration {step}, and the others of {most}")
            )
    if named is not None and int(named[1]) != most:
        what = f"is named after iteration {int(named[1])}, and its files state {most}"
        content.problems.append(Problem("mixed_steps", "damage", below, what))
