"""One checkpoint as a whole: which files of a folder belong to it, read by the layout that each of them has.

It judges what the layout promises; whether what is there is enough is `verify`'s.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.checkpoint import deepspeed, huggingface, megatron
from firstfault.checkpoint.contents import read_file
from firstfault.checkpoint.dcp import METADATA, SHARD, is_dcp, read_dcp
from firstfault.checkpoint.nouns import Content, Problem
from firstfault.checkpoint.parts import part_of_file
from firstfault.checkpoint.torch_tar import is_tar
from firstfault.checkpoint.zarr import ARRAY, is_zarr, read_zarr

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.model.checkpoint import Part

_HOLDS = re.compile(r"\.(?:pt|pth|bin|ckpt|safetensors|pkl|tar)$", re.IGNORECASE)
_OURS = re.compile(
    r"\.(?:pt|pth|ckpt|safetensors|pth\.tar|pt\.tar)$|^(?:pytorch_model|adapter_model|model|optimizer|scheduler|random_states"
    r"|sampler|custom_checkpoint|rng_state).*\.(?:bin|pkl)$",
    re.IGNORECASE,
)
"""Names that only files of tensors have; others (`vocab.bin`, `shard-0.tar`) are looked at where their first bytes say so."""
_STATE = re.compile(r"^(?:trainer_state|training_state|dataloader_state.*)\.json$")
_RANKED = re.compile(r"(?:^|[._-])(?:rank|rng_state|random_states|dl_state|r)[._-]?(\d+)(?:[._-]|$)")
_TEMPORARY = re.compile(
    r"(?:\.tmp|\.temp|\.incomplete|\.partial|\.part|\.swp|~|\.tmp\.[\w-]+)$|^\.?tmp[-_]", re.IGNORECASE
)
_RNG = re.compile(r"(?:^|/)(?P<stem>(?:rng_state|random_states)_)(?P<n>\d+)(?P<end>\.\w+)$")
_RANK = re.compile(
    r"(?:^|/)(?P<stem>[^/]*?(?:world_size_(?P<all>\d+)_)?rank[-_]?)(?P<n>\d+)(?P<end>[^/\d]*\.(?:pt|pth|bin|pkl|ckpt|safetensors))$"
)
"""A file that a rank wrote, such as `model_world_size_8_rank_3.pt`."""
MARKERS = ("latest", megatron.TRACKER, "latest_iteration.txt")


class Unit(Struct):
    """One checkpoint."""

    below: str
    """Its folder below the root; empty where it is the root."""
    content: Content = field(default_factory=Content)
    layouts: list[str] = field(default_factory=list)

    def layout(self, name: str) -> None:
        """Notes that it has a layout."""
        if name not in self.layouts:
            self.layouts.append(name)


def holds_tensors(name: str) -> bool:
    """Whether a file's name is that of one which may hold tensors."""
    return (
        _HOLDS.search(name) is not None
        or SHARD.search(name) is not None
        or name.rpartition("/")[2]
        in {
            METADATA,
            ARRAY,
        }
    )


def save_of(name: str) -> str:
    """What files of one save have in common: the folder of shards and of ranks' files; a file alone is a save of its own."""
    place, _, base = name.rpartition("/")
    if megatron.RANK.search(place):
        return place.rpartition("/")[0] + "/"
    several = (SHARD.search(base), huggingface.NUMBERED.match(base), _RANKED.search(base), base == METADATA)
    if any(several) or any(p.fullmatch(base) for p in deepspeed.RANKED):
        return place + "/"
    return name


def read_unit(folder: Folder, below: str, leave: tuple[str, ...] = ()) -> Unit:
    """Reads all files of a checkpoint but for the bytes of tensors.

    Args:
        folder: the folder that was given.
        below: the checkpoint's folder in it.
        leave: folders below that are checkpoints of their own.
    """
    unit = Unit(below)
    # The checkpoint's own folder is one of the folders below the root, and is read once.
    places = [
        p
        for p in dict.fromkeys((below, *folder.folders))
        if _inside(p, below) and not any(_inside(p, other) for other in leave)
    ]
    for place in places:
        _read_folder(folder, place, unit)
    if "zarr" in unit.layouts and megatron.is_dist(folder.under(below)):
        unit.layout("megatron")
        megatron.check_dist(folder, below, folder.under(below), unit.content)
    if any(megatron.RANK.search(p) for p in places):
        unit.layout("megatron")
        megatron.check_megatron(folder, below, unit.content)
    if "megatron" in unit.layouts:
        megatron.check_iterations(below, unit.content)
    for place in places:
        for name in huggingface.index_files(folder, place):
            huggingface.check_index(folder, name, unit.content)
    _check_rng(folder, places, unit.content)
    _check_ranks(folder, places, unit.content)
    if folder.left_out:
        problems = [
            Problem("unreadable", "damage", t.partition(":")[0], f"cannot be listed:{t.partition(':')[2]}")
            for t in folder.left_out
        ]
        unit.content.problems += [p for p in problems if _inside(p.file, below)]
    return unit


def _inside(place: str, below: str) -> bool:
    return not below or place == below or place.startswith(f"{below}/")


def _read_folder(folder: Folder, place: str, unit: Unit) -> None:
    files = folder.under(place)
    content = unit.content
    if is_zarr(folder, place):
        unit.layout("zarr")
        content.add(read_zarr(folder, place))
        return
    rest = list(files)
    if is_dcp(files):
        unit.layout("dcp")
        content.add(read_dcp(folder, place))
        rest = [f for f in rest if not SHARD.search(f) and f.rpartition("/")[2] != METADATA]
        if megatron.is_dist(rest):
            unit.layout("megatron")
            megatron.check_dist(folder, place, rest, content)
    numbered = huggingface.missing_numbers(folder, place)
    content.problems += numbered
    if numbered or huggingface.index_files(folder, place):
        unit.layout("huggingface")
    ranks = deepspeed.is_deepspeed(files)
    known = {p.file for p in content.problems if p.kind == "unfinished_save"}
    bases = [f.rpartition("/")[2] for f in files]
    alike = Counter(part_of_file(b) for b in bases if _HOLDS.search(b) and not huggingface.NUMBERED.match(b))
    for name in rest:
        base = name.rpartition("/")[2]
        if _TEMPORARY.search(base) and name not in known:
            what = "was left by a save that did not end"
            content.problems.append(Problem("unfinished_save", "warning", name, what))
        elif _HOLDS.search(base) and not _OURS.search(base) and not _is_torch(folder, name):
            content.passed_over.add(name)
        elif _HOLDS.search(base) or _STATE.search(base):
            content.add(read_file(folder, name, prefix=_prefix(place, name, alike), part=_part(name)))
            unit.layout("safetensors" if name.endswith(".safetensors") else "torch")
    if ranks:
        unit.layout("deepspeed")
        deepspeed.check_deepspeed(folder, place, content)
    _layouts_by_name(files, unit)


def _is_torch(folder: Folder, name: str) -> bool:
    """Whether the first bytes of a file are those of a zip, a pickle, or the tar of torch.save."""
    try:
        if name.endswith((".pt", ".pth")) and is_tar(folder.read(name, 0, 512)):
            return True
        return folder.read(name, 0, 4)[:2] in {b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}
    except OSError:
        return True


def _layouts_by_name(files: list[str], unit: Unit) -> None:
    bases = {f.rpartition("/")[2] for f in files}
    if "trainer_state.json" in bases:
        unit.layout("huggingface-trainer")
    if any(b.startswith("random_states_") for b in bases):
        unit.layout("accelerate")
    if any("pytorch-lightning_version" in path for _, path in unit.content.values):
        unit.layout("lightning")


def _part(name: str) -> Part | None:
    base = name.rpartition("/")[2]
    if any(p.fullmatch(base) for p in (deepspeed.OPTIM, deepspeed.EXPERT_OPTIM)) or base == "distrib_optim.pt":
        return "optimizer"
    if base in {megatron.MODEL, "common.pt"} or any(p.fullmatch(base) for p in deepspeed.RANKED):
        return None
    return part_of_file(base)


def _prefix(place: str, name: str, alike: Counter[Part | None]) -> str:
    """Before the names of what a file holds, where several files hold things of the same names.

    Args:
        place: the folder of the file.
        name: of the file.
        alike: part -> files of the folder whose names tell it.
    """
    base = name.rpartition("/")[2]
    if any(p.fullmatch(base) for p in deepspeed.RANKED):
        return deepspeed.prefix_of(name)
    if megatron.RANK.search(place):
        return f"{place.rpartition('/')[2]}/"
    if huggingface.NUMBERED.match(base):
        return ""
    if _RANKED.search(base):
        return f"{base.partition('.')[0]}/"
    return f"{base.rpartition('.')[0]}/" if alike[part_of_file(base)] > 1 else ""


def _check_rng(folder: Folder, places: list[str], content: Content) -> None:
    """Each rank writes its random state: numbers that those of others leave out, and fewer than ranks."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for place in places:
        for name in folder.under(place):
            match = _RNG.search(name)
            if match is not None:
                found.setdefault((place, match["stem"], match["end"]), set()).add(int(match["n"]))
    for (place, stem, end), numbers in found.items():
        at_least = max(max(numbers) + 1, content.stated.get("world_size_at_least", 0))
        world = content.stated.get("world_size", at_least)
        above = f"{place}/" if place else ""
        for n in range(world):
            if n not in numbers and world <= 100_000:
                what = (
                    f"is missing: {len(numbers)} ranks left their random state, and {world} ranks wrote the checkpoint"
                )
                content.problems.append(Problem("missing_part", "damage", f"{above}{stem}{n}{end}", what))
        for n in sorted(numbers):
            if n >= world:
                what = f"is of a rank beyond the {world} that the checkpoint states: a job of another size left it"
                content.problems.append(Problem("world_size", "damage", f"{above}{stem}{n}{end}", what))
        content.stated.setdefault("world_size", at_least)


def _check_ranks(folder: Folder, places: list[str], content: Content) -> None:
    """Files that every rank writes: numbers that those of others, or the world size in the name, show to be missing."""
    found: dict[tuple[str, str, str], dict[int, int | None]] = {}
    for place in places:
        for name in folder.under(place):
            match = _RANK.search(name)
            if match is None or any(p.fullmatch(name.rpartition("/")[2]) for p in deepspeed.RANKED):
                continue
            total = None if match["all"] is None else int(match["all"][:6])
            found.setdefault((place, match["stem"], match["end"]), {})[int(match["n"][:6])] = total
    for (place, stem, end), ranks in found.items():
        above = f"{place}/" if place else ""
        named = next((total for total in ranks.values() if total is not None), None)
        world = named or max(ranks) + 1
        if named is not None:
            content.stated.setdefault("world_size", named)
        # One number alone, without the size of the world beside it, may be part of a name.
        for n in range(world) if named is not None or len(ranks) > 1 else ():
            if n not in ranks:
                what = f"is missing: {len(ranks)} ranks left such a file, and {world} ranks wrote the checkpoint"
                content.problems.append(Problem("missing_shard", "damage", f"{above}{stem}{n}{end}", what))
