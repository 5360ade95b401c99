"""torchtitan's TOML held against what torchtitan demands: parallel sizes, batch, sequence, keys.

Facts by torchtitan/distributed/parallel_dims.py, models/llama3/infra/parallelize.py and the sources named in `known/torchtitan.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.config.known_keys import every, nearest, table, version_of
from firstfault.config.nouns import Document, Problem, as_number, plain, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts
    from firstfault.config.nouns import Node
    from firstfault.model.checks import CheckState

_SIZES = {
    "dp_replicate": "data_parallel_replicate_degree",
    "dp_shard": "data_parallel_shard_degree",
    "cp": "context_parallel_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
}


class _Settings:
    """The TOML with what a command line sets over it (`--training.steps=10`)."""

    def __init__(self, document: Document, facts: Facts) -> None:
        assert document.tree is not None
        self.file = document.name
        self.tree = document.tree
        self.over: dict[str, tuple[object, str, int]] = {}
        for started in facts.started:
            for option in started.launch.arguments.options:
                section, dot, key = option.name.partition(".")
                if dot:
                    self.over[f"{plain(section)}.{plain(key)}"] = (option.text if option.text is not None else "$" if option.values else True, started.file, option.line)  # fmt: skip

    def number(self, path: str, default: float | None = None) -> int | float | None:
        if path in self.over:
            return as_number(self.over[path][0])
        node = self.tree.at(path)
        return default if node is None else as_number(node.value)

    def place(self, *paths: str) -> tuple[str, int]:
        for path in paths:
            if path in self.over:
                return self.over[path][1], self.over[path][2]
            if self.tree.at(path) is not None:
                return self.file, self.tree.line_of(path)
        return self.file, self.tree.line_of(paths[-1])


def check_torchtitan(document: Document, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with one file."""
    if document.tree is None:
        return
    settings = _Settings(document, facts)
    yield from _keys(document, document.tree)
    sizes = {name: settings.number(f"parallelism.{key}", -1 if name == "dp_shard" else 1) for name, key in _SIZES.items()}  # fmt: skip
    if any(size is None or int(size) != size for size in sizes.values()):
        return
    whole = {name: int(size) for name, size in sizes.items() if size is not None}
    yield from _ranks(settings, whole, facts)
    if any(size < 1 for name, size in whole.items() if name != "dp_shard"):
        return
    yield from _sequence(settings, whole)
    yield from _batch(settings, whole, facts)
    yield from _saving(settings)


def _problem(
    settings: _Settings, check: str, state: CheckState, paths: tuple[str, ...], what: str, **more: str
) -> Problem:
    file, line = settings.place(*paths)
    return problem(f"torchtitan.{check}", state, file, line, what, **more)


def _paths(*names: str) -> tuple[str, ...]:
    return tuple(f"parallelism.{_SIZES[name]}" for name in names)


def _ranks(settings: _Settings, sizes: dict[str, int], facts: Facts) -> Iterator[Problem]:
    for name, size in sizes.items():
        if size < 1 and not (name == "dp_shard" and size == -1):
            yield _problem(settings, "ranks", "fail", _paths(name), f"{_SIZES[name]} is {size}", why="it must be 1 or more; only data_parallel_shard_degree may be -1 for what is left", message="AssertionError: Parallelism degree should be >= 1, except for dp_shard", fix="Write 1 to leave it out.")  # fmt: skip
            return
    others = 1
    for name, size in sizes.items():
        others *= size if name != "dp_shard" else 1
    said = " * ".join(f"{name}({sizes[name]})" for name in ("dp_replicate", "dp_shard", "cp", "tp", "pp"))
    biggest = max((n for n in sizes if n != "dp_shard"), key=lambda n: sizes[n])
    if facts.world is None:
        return
    shard = sizes["dp_shard"]
    if shard == -1:
        if facts.world % others:
            yield _problem(settings, "ranks", "fail", _paths(biggest), f"{facts.world} ranks do not divide by {others}, the product of the other sizes", why="what is left is the size of a shard group, and must be whole", message=f"AssertionError: Invalid parallel dims: {said.replace('(-1)', f'({facts.world // others})')} != WORLD_SIZE({facts.world})", fix=f"Start a multiple of {others} ranks, or make the sizes smaller.")  # fmt: skip
        else:
            yield _problem(settings, "ranks", "ok", _paths("dp_shard"), f"{facts.world} ranks = {others} x {facts.world // others} shards")  # fmt: skip
    elif others * shard != facts.world:
        yield _problem(settings, "ranks", "fail", _paths("dp_shard"), f"{said} is {others * shard}, and there are {facts.world} ranks", why="the sizes must cover all ranks; contexts are no part of the shards", message=f"AssertionError: Invalid parallel dims: {said} != WORLD_SIZE({facts.world})", fix="Set data_parallel_shard_degree to -1: it then takes what is left.")  # fmt: skip
    else:
        yield _problem(settings, "ranks", "ok", _paths("dp_shard"), f"{facts.world} ranks = {said}")


def _sequence(settings: _Settings, sizes: dict[str, int]) -> Iterator[Problem]:
    length = settings.number("training.seq_len")
    divisor = sizes["tp"] * (2 * sizes["cp"] if sizes["cp"] > 1 else 1)
    if length is not None and length % divisor:
        yield _problem(settings, "sequence", "fail", ("training.seq_len",), f"seq_len {length:g} does not divide by {divisor} (tensor parallel size times twice the context parallel size)", why="each rank takes an equal part of the sequence", message=f"AssertionError: Sequence length {length:g} must be divisible by the product of TP degree ({sizes['tp']}) and 2 * CP degree ({sizes['cp']}).", fix=f"Choose a multiple of {divisor}.")  # fmt: skip


def _batch(settings: _Settings, sizes: dict[str, int], facts: Facts) -> Iterator[Problem]:
    local, whole = settings.number("training.local_batch_size"), settings.number("training.global_batch_size", -1)
    micro = settings.number("parallelism.pipeline_parallel_microbatch_size", 1)
    if sizes["pp"] > 1 and local is not None and micro and local % micro:
        yield _problem(settings, "batch", "fail", ("training.local_batch_size",), f"local_batch_size {local:g} does not divide by the pipeline's micro batch of {micro:g}", why="a batch is made of whole micro batches", message=f"ValueError: Batch size {local:g} must be divisible by microbatch_size {micro:g}", fix="Choose a multiple.")  # fmt: skip
    if local is None or whole is None or whole < 0 or facts.world is None:
        return
    copies = facts.world // (sizes["cp"] * sizes["tp"] * sizes["pp"])
    if copies and whole % (local * copies):
        yield _problem(settings, "batch", "fail", ("training.global_batch_size",), f"global_batch_size {whole:g} does not divide by local_batch_size {local:g} x {copies} ranks of data parallelism", why="each rank takes the same number of batches in a step", message=f"AssertionError: global batch size must be multiple of local batch size times data-parallel degree ({whole:g} % ({local:g} * {copies}) != 0)", fix=f"Choose a multiple of {local * copies:g}.")  # fmt: skip


def _saving(settings: _Settings) -> Iterator[Problem]:
    node = settings.tree.at("checkpoint.enable") or settings.tree.at("checkpoint.enable_checkpoint")
    steps, interval = settings.number("training.steps"), settings.number("checkpoint.interval", 500)
    if node is not None and node.value is True and steps and interval and interval > steps:
        yield _problem(settings, "saving", "warn", ("checkpoint.interval", "checkpoint"), f"saves every {interval:g} steps, and the run has {steps:g}", why="nothing is saved before the end: whatever stops the run loses all of it", fix="Save more often.")  # fmt: skip


def _keys(document: Document, tree: Node) -> Iterator[Problem]:
    sections = frozenset(table("torchtitan")["sections"])
    for section, node in tree.fields.items():
        if section not in sections:
            near = nearest(section, sections, cutoff=0.75)
            if near is not None:
                yield Problem(check="torchtitan.key", state="warn", file=document.name, line=tree.lines[section], what=f"[{section}] is no section of {version_of('torchtitan')}", why="torchtitan refuses sections that it does not know, unless an extension brings them", fix=f"Did you mean [{near}]?")  # fmt: skip
            continue
        known = every("torchtitan", "sections", section)
        for key in node.fields if node.kind == "map" else ():
            if key in known or node.fields[key].kind == "map":
                continue
            near = nearest(key, known, cutoff=0.75)
            if near is not None and near not in node.fields:
                yield Problem(check="torchtitan.key", state="warn", file=document.name, line=node.lines[key], what=f"{section}.{key} is not known to {version_of('torchtitan')}", why="torchtitan refuses keys that it does not know, unless an extension brings them", fix=f"Did you mean {near}?")  # fmt: skip
