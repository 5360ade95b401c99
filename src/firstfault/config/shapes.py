"""Parallel sizes, batch and model held against one another, whoever spells them: Megatron's arguments or NeMo's YAML.

Facts by validate_args of megatron/training/arguments.py and initialize_model_parallel of megatron/core/parallel_state.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import Struct

from firstfault.config.facts import Said
from firstfault.config.nouns import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.checks import CheckState


class Shape(Struct, kw_only=True):
    """Sizes of one run, each where it is set; None where it is not."""

    prefix: str
    """Before the names of checks."""
    file: str
    line: int
    world: int | None
    tensor: Said | None = None
    pipeline: Said | None = None
    context: Said | None = None
    expert: Said | None = None
    expert_tensor: Said | None = None
    virtual: Said | None = None
    """Layers of each virtual stage."""
    grouped: bool = False
    """Whether it is said how many micro batches a virtual stage takes in a row."""
    layers: Said | None = None
    hidden: Said | None = None
    heads: Said | None = None
    groups: Said | None = None
    experts: Said | None = None
    channels: Said | None = None
    sequence: Said | None = None
    positions: Said | None = None
    micro: Said | None = None
    whole: Said | None = None
    uneven: bool = False
    """Whether layers may be shared out unevenly, as something else says."""
    rotary: bool = False
    """Whether positions have no table of a fixed length."""
    complete: bool = True
    """Whether what is not set has its default."""
    elsewhere: bool = False
    """Whether the sizes of the model come from a checkpoint or another file."""


def check_shape(shape: Shape) -> Iterator[Problem]:
    """All sizes that do not go together."""
    sizes = _sizes(shape)
    if sizes is None:
        return
    yield from _ranks(shape, sizes)
    yield from _experts(shape, sizes)
    yield from _model(shape, sizes)
    yield from _layers(shape, sizes)
    yield from _sequence(shape, sizes)
    yield from _batch(shape, sizes)


def _problem(shape: Shape, check: str, said: Said | None, what: str, **more: str) -> Problem:
    file, line = (said.file, said.line) if said is not None else (shape.file, shape.line)
    state = cast("CheckState", more.pop("state", "fail"))
    return problem(f"{shape.prefix}.{check}", state, file, line, what, **more)


def _sizes(shape: Shape) -> dict[str, int] | None:
    """The parallel sizes; None where one of them is not known."""
    sizes = {}
    for name in ("tensor", "pipeline", "context", "expert"):
        said: Said | None = getattr(shape, name)
        if said is None:
            if not shape.complete:
                return None
            sizes[name] = 1
            continue
        if said.whole is None or said.whole < 1:
            return None
        sizes[name] = said.whole
    return sizes


def _ranks(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    model = sizes["tensor"] * sizes["pipeline"] * sizes["context"]
    said = shape.pipeline if sizes["pipeline"] > 1 else shape.tensor or shape.context
    parts = _product(shape, ("tensor", "pipeline", "context"), sizes)
    if shape.world is None:
        if model > 1:
            yield _problem(shape, "ranks", said, f"whether {model} divides the ranks is not known: give --world-size", state="not_checkable")  # fmt: skip
        return
    if shape.world % model:
        less = shape.world < model
        fix = (
            f"Start a multiple of {model} ranks"
            + (f", at least {model}" if less else "")
            + ", or make the sizes smaller."
        )
        yield _problem(shape, "ranks", said, f"{shape.world} ranks do not divide by {parts} = {model}", why="each copy of the model takes that many ranks, and all must be used", message=f"AssertionError: world size ({shape.world}) is not divisible by total_model_size (total_model_size={model})", fix=fix)  # fmt: skip
    else:
        yield _problem(shape, "ranks", said, f"{shape.world} ranks = {parts or '1'} x {shape.world // model} copies", state="ok")  # fmt: skip


def _product(shape: Shape, names: tuple[str, ...], sizes: dict[str, int]) -> str:
    return " x ".join(f"{name} {sizes[name]}" for name in names if sizes[name] > 1 or getattr(shape, name) is not None)


def _experts(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    expert = sizes["expert"]
    if expert == 1:
        return
    experts = None if shape.experts is None else shape.experts.whole
    if shape.experts is None and shape.complete and not shape.elsewhere:
        yield _problem(shape, "experts", shape.expert, f"expert parallel size {expert}, and no number of experts", why="there is nothing to share out", message="AssertionError: num_experts must be non None to use expert model parallelism", fix="Set the number of experts, or leave the size at 1.")  # fmt: skip
    elif experts is not None and experts % expert:
        yield _problem(shape, "experts", shape.experts, f"{experts} experts do not divide by expert parallel size {expert}", why="each rank holds the same number of experts", message="AssertionError: Number of experts should be a multiple of expert model parallel_size.", fix="Choose a size that divides the number of experts.")  # fmt: skip
    tensor = sizes["tensor"] if shape.expert_tensor is None else shape.expert_tensor.whole
    if shape.world is None or tensor is None:
        return
    size = tensor * expert * sizes["pipeline"]
    if shape.world % size:
        yield _problem(shape, "experts", shape.expert, f"{shape.world} ranks do not divide by expert tensor {tensor} x expert {expert} x pipeline {sizes['pipeline']} = {size}", why="the experts are laid out over the ranks on their own", message=f"RuntimeError: world_size ({shape.world}) is not divisible by expert_tensor_model_pipeline_parallel size ({size})", fix=f"Start a multiple of {size} ranks, or make the sizes smaller.")  # fmt: skip


def _model(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    heads = None if shape.heads is None else shape.heads.whole
    hidden = None if shape.hidden is None else shape.hidden.whole
    groups = None if shape.groups is None else shape.groups.whole
    if not heads:
        return
    if hidden and hidden % heads and (shape.channels is None or shape.channels.value is None):
        yield _problem(shape, "heads", shape.hidden, f"hidden size {hidden} does not divide by {heads} attention heads", why="each head has the same width", message="AssertionError: assert args.hidden_size % args.num_attention_heads == 0", fix="Correct one of them, or set the width of a head (kv-channels).")  # fmt: skip
    if heads % sizes["tensor"]:
        yield _problem(shape, "heads", shape.heads, f"{heads} attention heads do not divide by tensor parallel size {sizes['tensor']}", why="each rank of a tensor group computes the same number of heads", message=f"ValueError: num_attention_heads ({heads}) must be a multiple of tensor_model_parallel_size ({sizes['tensor']}).", fix="Choose a tensor parallel size that divides the heads.")  # fmt: skip
    if groups and heads % groups:
        yield _problem(shape, "heads", shape.groups, f"{heads} attention heads do not divide by {groups} query groups", why="each group has the same number of heads", fix="Choose a number of groups that divides the heads.")  # fmt: skip
    elif groups and groups % sizes["tensor"] and sizes["tensor"] % groups:
        yield _problem(shape, "heads", shape.groups, f"{groups} query groups and tensor parallel size {sizes['tensor']} do not divide one another", why="groups are shared out over the ranks of a tensor group", message=f"num_query_groups ({groups}) must be a multiple or divisor of tensor_model_parallel_size ({sizes['tensor']}).", fix="Choose a tensor parallel size that divides the groups.")  # fmt: skip


def _layers(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    layers = None if shape.layers is None else shape.layers.whole
    virtual = None if shape.virtual is None else shape.virtual.whole
    pipeline = sizes["pipeline"]
    if layers and layers % pipeline and not shape.uneven:
        yield _problem(shape, "layers", shape.layers, f"{layers} layers do not divide by pipeline parallel size {pipeline}", why="each stage has the same number of layers, unless told otherwise", message="AssertionError: Number of layers should be divisible by the pipeline-model-parallel size", fix="Choose a pipeline size that divides the layers, or say how many the first and last stage have.")  # fmt: skip
    if virtual is None or shape.virtual is None or shape.virtual.value is None:
        return
    if pipeline == 1:
        yield _problem(shape, "layers", shape.virtual, "virtual stages without a pipeline", why="stages are interleaved over the ranks of a pipeline, and there is one", message="AssertionError: When interleaved schedule is used, pipeline-model-parallel size should be greater than 1", fix="Set the pipeline parallel size, or leave virtual stages out.")  # fmt: skip
    elif layers and not shape.uneven and layers % pipeline == 0 and virtual and (layers // pipeline) % virtual:
        yield _problem(shape, "layers", shape.virtual, f"{layers // pipeline} layers of a stage do not divide by {virtual} of a virtual stage", why="each virtual stage has the same number of layers", message="AssertionError: number of layers per pipeline stage must be divisible number of layers per virtual pipeline stage", fix="Choose a number that divides the layers of a stage.")  # fmt: skip


def _sequence(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    sequence = None if shape.sequence is None else shape.sequence.whole
    positions = None if shape.positions is None else shape.positions.whole
    if not sequence:
        return
    context = sizes["context"]
    if context > 1 and sequence % (2 * context):
        yield _problem(shape, "sequence", shape.sequence, f"sequence length {sequence} does not divide by 2 x context parallel size {context}", why="each rank takes two pieces of the sequence", message="AssertionError: seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > 1.", fix=f"Choose a multiple of {2 * context}.")  # fmt: skip
    if positions and positions < sequence:
        yield _problem(shape, "sequence", shape.positions, f"{positions} positions for a sequence length of {sequence}", why="there must be a position for every token" + (", which is asked for even where positions are rotary" if shape.rotary else ""), message=f"AssertionError: max_position_embeddings ({positions}) must be greater than or equal to seq_length ({sequence}).", fix="Raise the positions to the sequence length.")  # fmt: skip


def _batch(shape: Shape, sizes: dict[str, int]) -> Iterator[Problem]:
    micro = None if shape.micro is None else shape.micro.whole
    whole = None if shape.whole is None else shape.whole.whole
    for said, number in ((shape.micro, micro), (shape.whole, whole)):
        if said is not None and number is not None and number < 1:
            yield _problem(shape, "batch", said, f"{said.name} is {number}", why="it must be 1 or more", fix="Set 1 or more.")  # fmt: skip
            return
    model = sizes["tensor"] * sizes["pipeline"] * sizes["context"]
    if micro is None or whole is None:
        return
    if shape.world is None or shape.world % model:
        if whole % micro:
            yield _problem(shape, "batch", shape.whole, f"global batch size {whole} does not divide by micro batch size {micro}", why="a batch is made of whole micro batches", message=f"AssertionError: global batch size ({whole}) is not divisible by micro batch size ({micro})", fix="Choose a multiple.")  # fmt: skip
        return
    copies = shape.world // model
    if whole % (micro * copies):
        yield _problem(shape, "batch", shape.whole, f"global batch size {whole} does not divide by micro batch size {micro} x {copies} copies of the model", why="each copy takes the same number of micro batches in a step", message=f"AssertionError: global batch size ({whole}) is not divisible by micro batch size ({micro}) times data parallel size ({copies})", fix=f"Choose a multiple of {micro * copies}.")  # fmt: skip
    elif (
        shape.virtual is not None
        and shape.virtual.value is not None
        and not shape.grouped
        and sizes["pipeline"] > 1
        and (number := whole // (micro * copies)) % sizes["pipeline"]
    ):
        yield _problem(shape, "batch", shape.whole, f"{number} micro batches in a step do not divide by pipeline parallel size {sizes['pipeline']}, and stages are interleaved", why="interleaved stages take as many micro batches in a row as the pipeline has stages", message=f"RuntimeError: number of microbatches ({number}) is not divisible by pipeline-model-parallel-size ({sizes['pipeline']}) when using interleaved schedule", fix=f"Choose a global batch size that is a multiple of {micro * copies * sizes['pipeline']}, or leave virtual stages out.")  # fmt: skip
    else:
        yield _problem(shape, "batch", shape.whole, f"global batch size {whole} = {micro} x {copies} copies x {whole // (micro * copies)} micro batches", state="ok")  # fmt: skip
