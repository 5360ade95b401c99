"""A folder of DeepSpeed: `mp_rank_XX_model_states.pt`, `(bf16_)zero_pp_rank_D_mp_rank_XX_optim_states.pt`, ZeRO 0 to 3.

What the files state of the world (`dp_world_size`, `mp_world_size`, `partition_count`) is held against which files there
are, and what each rank states against what the others do. Names by `DeepSpeedEngine._get_ckpt_name` and its kin.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.checkpoint.nouns import Problem, product

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.checkpoint.nouns import Content

MODEL = re.compile(r"(?:zero_pp_rank_(?P<dp>\d+)_)?mp_rank_(?P<mp>\d+)_model_states\.pt$")
OPTIM = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(?P<dp>\d+)_mp_rank_(?P<mp>\d+)_optim_states\.pt$")
EXPERT_OPTIM = re.compile(r"expp_rank_(?P<dp>\d+)_mp_rank_(?P<mp>\d+)_optim_states\.pt$")
LAYER = re.compile(r"layer_(?P<layer>\d+)-model_(?P<mp>\d+)-model_states\.pt$")
EXPERT = re.compile(r"layer_(?P<layer>\d+)_expert_(?P<expert>\d+)_mp_rank_(?P<mp>\d+)_model_states\.pt$")
TAG = re.compile(r"global_step(\d+)$")
RANKED = (EXPERT, MODEL, OPTIM, EXPERT_OPTIM, LAYER)


def is_deepspeed(files: list[str]) -> bool:
    """Whether files that lie in one folder are of this kind."""
    return any(p.search(f.rpartition("/")[2]) for f in files for p in RANKED)


def prefix_of(name: str) -> str:
    """What stands before the names of a file's content: the ranks in the file's name."""
    base = name.rpartition("/")[2]
    return f"{re.sub(r'_(?:model|optim)_states[.]pt$', '', base.removeprefix('bf16_').removeprefix('fp16_'))}/"


def check_deepspeed(folder: Folder, below: str, content: Content) -> None:
    """Holds the files of one folder against one another and against what they state."""
    files = folder.under(below)
    stem = f"{below}/" if below else ""
    models = {_ranks(m): f for f in files if (m := MODEL.fullmatch(f.removeprefix(stem))) is not None}
    optims = {_ranks(m): f for f in files if (m := OPTIM.fullmatch(f.removeprefix(stem))) is not None}
    dp, mp = _stated(content, models, "dp_world_size"), _stated(content, models, "mp_world_size")
    partitions = _stated(content, optims, "partition_count")
    if mp is None and models:
        mp = 1 + max(m for _, m in models)
    sharded = any(d is not None for d, _ in models)
    world = partitions or dp
    if world is not None and mp is not None:
        content.stated.setdefault("world_size", (dp or world) * mp)
        content.stated["data_parallel"] = world
        content.stated["tensor_parallel"] = mp
        expected: list[tuple[int | None, int]] = [(d, m) for m in range(mp) for d in range(world)]
        if sharded:
            _missing(stem, models, expected, "zero_pp_rank_{d}_mp_rank_{m:02d}_model_states.pt", content)
        elif models:
            plain: dict[tuple[int | None, int], str] = {(None, m): f for (_, m), f in models.items()}
            first: list[tuple[int | None, int]] = [(None, m) for m in range(mp)]
            _missing(stem, plain, first, "mp_rank_{m:02d}_model_states.pt", content)
        if optims or sharded:
            bf16 = "bf16_" if any("bf16_zero" in f for f in optims.values()) else ""
            _missing(stem, optims, expected, bf16 + "zero_pp_rank_{d}_mp_rank_{m:02d}_optim_states.pt", content)
    else:
        _gaps(stem, optims, content)
    if optims and not models and not any(LAYER.fullmatch(f.removeprefix(stem)) for f in files):
        what = "is missing: the optimizer's files are there, and no file of the model's states"
        content.problems.append(Problem("missing_shard", "damage", f"{stem}mp_rank_00_model_states.pt", what))
    if models and not optims and _zero_stage(content) > 0:
        what = "are missing: the configuration in the model's file says ZeRO, and no rank's optimizer is there"
        content.problems.append(Problem("missing_part", "damage", f"{stem}zero_pp_rank_*_optim_states.pt", what))
    _layers(folder, below, content)
    _steps(below, models, content)
    _partitions(optims, content)


def _ranks(match: re.Match[str]) -> tuple[int | None, int]:
    return (None if match["dp"] is None else int(match["dp"])), int(match["mp"])


def _stated(content: Content, files: dict[tuple[int | None, int], str], key: str) -> int | None:
    """A number that files state; where they disagree that is a problem and the number of most."""
    found: dict[str, int] = {}
    names = {prefix_of(name): name for name in files.values()}
    for (part, path), text in content.values.items():
        if part == "weights" or not path.endswith(key):
            continue
        place, _, rest = path.partition("/")
        name = names.get(f"{place}/")
        number = re.match(r"\[?(\d+)", text)
        if name is not None and number is not None and rest.rpartition(".")[2] == key:
            found[name] = int(number[1])
    numbers = sorted(found.values())
    if not numbers:
        return None
    most = max(set(numbers), key=numbers.count)
    for name, its in found.items():
        if its != most:
            what = f"states {key} {its}, and the others {most}: it is of a job of another size"
            content.problems.append(Problem("world_size", "damage", name, what))
    return most


def _missing(
    stem: str,
    there: dict[tuple[int | None, int], str],
    expected: list[tuple[int | None, int]],
    form: str,
    content: Content,
) -> None:
    lacking = [(d, m) for d, m in expected if (d, m) not in there]
    for d, m in lacking[:64]:
        what = f"is missing: {len(expected)} ranks wrote such a file by what the others state, and {len(expected) - len(lacking)} are there"
        content.problems.append(Problem("missing_shard", "damage", stem + form.format(d=d, m=m), what))
    extra = sorted(set(there.values()) - {there[key] for key in expected if key in there})
    for name in extra[:64]:
        what = f"is of a rank beyond the {len(expected)} that the others state: a job of another size left it"
        content.problems.append(Problem("world_size", "damage", name, what))


def _gaps(stem: str, there: dict[tuple[int | None, int], str], content: Content) -> None:
    """Where no file states the world: numbers that those of others leave out."""
    if not there:
        return
    highest = max(d for d, _ in there if d is not None)
    parallel = max(m for _, m in there)
    for m in range(parallel + 1):
        for d in range(highest + 1):
            if (d, m) not in there:
                name = f"{stem}zero_pp_rank_{d}_mp_rank_{m:02d}_optim_states.pt"
                content.problems.append(
                    Problem("missing_shard", "damage", name, "is missing: ranks above it are there")
                )


def _zero_stage(content: Content) -> int:
    for (_, path), text in content.values.items():
        if path.endswith(("zero_optimization.stage", "zero_stage")) and text.isdigit():
            return int(text)
    return 0


def _layers(folder: Folder, below: str, content: Content) -> None:
    """Layers of pipeline parallelism: each has a file for every tensor-parallel rank."""
    found: dict[int, set[int]] = {}
    stem = f"{below}/" if below else ""
    for name in folder.under(below):
        match = LAYER.fullmatch(name.removeprefix(stem))
        if match is not None:
            found.setdefault(int(match["layer"]), set()).add(int(match["mp"]))
    every = {m for ranks in found.values() for m in ranks}
    for layer, ranks in found.items():
        for m in sorted(every - ranks):
            name = f"{stem}layer_{layer:02d}-model_{m:02d}-model_states.pt"
            content.problems.append(
                Problem("missing_shard", "damage", name, "is missing: other layers have such a file")
            )


def _steps(below: str, models: dict[tuple[int | None, int], str], content: Content) -> None:
    tag = TAG.search(below)
    steps = {name: content.steps[name] for name in models.values() if name in content.steps}
    if not steps:
        return
    values = sorted(steps.values())
    most = max(set(values), key=values.count)
    for name, step in steps.items():
        if step != most:
            what = f"is of step {step}, and the others of {most}"
            content.problems.append(Problem("mixed_steps", "damage", name, what))
    if tag is not None and int(tag[1]) != most:
        what = f"is named after step {tag[1]}, and its files state step {most}"
        content.problems.append(Problem("mixed_steps", "damage", below, what))


def _partitions(optims: dict[tuple[int | None, int], str], content: Content) -> None:
    """Parts of the flat parameters are of one size on every rank, but for the last, whose padding is not saved."""
    sizes: dict[tuple[str, int], dict[int, int]] = {}
    names = {prefix_of(name).rstrip("/"): (key, name) for key, name in optims.items()}
    for (part, path), held in content.tensors.items():
        prefix, _, rest = path.partition("/")
        if part == "optimizer" and "fp32" in rest and len(held.shape) == 1 and prefix in names:
            (dp, mp), _ = names[prefix]
            sizes.setdefault((rest, mp), {})[dp or 0] = product(held.shape)
    for (rest, mp), ranks in sizes.items():
        last = max((dp for dp, size in ranks.items() if size), default=0)
        values = sorted(size for dp, size in ranks.items() if dp < last)
        if not values:
            continue
        most = max(set(values), key=values.count)
        for dp, size in ranks.items():
            if (dp < last and size != most) or size > most:
                what = f"holds {size:,} elements of {rest}, and other ranks {most:,}: it is of a job of another size"
                content.problems.append(Problem("world_size", "damage", optims[dp, mp], what))
