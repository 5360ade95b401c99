"""Arguments of Megatron-LM and Megatron-DeepSpeed held against one another.

Facts by validate_args of megatron/training/arguments.py (2020 to 2026) and the sources named in `known/megatron.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.config.facts import Said, Started, meant, ranks_of
from firstfault.config.known_keys import every, misspelt, version_of, words
from firstfault.config.nouns import Options, Problem, as_number, plain, problem
from firstfault.config.shapes import Shape, check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts
    from firstfault.config.nouns import Option
    from firstfault.model.checks import CheckState

SHORT = 500
"""Iterations up to which a run is a trial, of which little is lost."""
_OWN = ("num-layers", "hidden-size", "num-attention-heads", "micro-batch-size", "seq-length", "tensor-model-parallel-size", "pipeline-model-parallel-size", "max-position-embeddings", "global-batch-size", "expert-model-parallel-size")  # fmt: skip
_GONE = {
    "batch-size": "--batch-size argument is no longer valid, use --micro-batch-size instead",
    "warmup": "--warmup argument is no longer valid, use --lr-warmup-fraction instead",
    "model-parallel-size": "--model-parallel-size is no longer valid, use --tensor-model-parallel-size instead",
}
_NEEDED = ("num-layers", "hidden-size", "num-attention-heads", "max-position-embeddings")
_FROM_ELSEWHERE = ("use-checkpoint-args", "yaml-cfg", "hybrid-layer-pattern", "hybrid-override-pattern", "encoder-num-layers", "load-ds-config", "hf-checkpoint", "heterogeneous-layers-config-path")  # fmt: skip
_UNEVEN = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers", "num-layers-in-first-pipeline-stage", "num-layers-in-last-pipeline-stage", "pipeline-model-parallel-layout", "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "standalone-embedding-stage", "partition-method", "hybrid-layer-pattern", "deepspeed")  # fmt: skip
_ENDS = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
_PROGRAMS = ("pretrain_", "finetune_")
"""How programs of Megatron itself begin; others have arguments and a parser of their own."""
_SAMPLES = ("lr-decay-samples", "lr-warmup-samples")
_ITERATIONS = ("lr-decay-iters", "lr-warmup-iters")


def is_megatron(options: Options) -> bool:
    """Whether a program's options are Megatron's."""
    return sum(options.has(name) for name in _OWN) > 2


_RECOMPUTE = frozenset({"recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules", "recompute-activations"})  # fmt: skip
"""Arguments of Megatron-LM itself for recomputation."""


def check_megatron(started: Started, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with the arguments of one launch."""
    options = started.launch.arguments
    look = _Look(started, facts, options)
    yield from check_shape(look.shape())
    yield from look.gone()
    yield from look.missing()
    yield from look.precision()
    yield from look.lengths()
    yield from look.saving()
    yield from look.overlap()
    yield from look.stages()
    yield from look.experts()
    yield from look.deepspeed()
    yield from look.offload()
    yield from look.ramp()
    yield from look.recompute()
    yield from look.names()
    yield from look.types()


class _Look:
    def __init__(self, started: Started, facts: Facts, options: Options) -> None:
        self.started = started
        self.facts = facts
        self.options = options
        self.program = started.launch.program.rpartition("/")[2]
        own = ranks_of(started, facts)
        self.world = facts.world if facts.world_from == "--world-size" or own is None else own

    def said(self, *names: str) -> Said | None:
        option = self.options.get(*names)
        return None if option is None else Said(f"--{option.name}", option.text if option.text is not None else "$", self.started.file, option.line)  # fmt: skip

    def problem(self, check: str, state: CheckState, at: str | int, what: str, **more: str) -> Problem:
        line = at if isinstance(at, int) else self.options.line(at) or self.started.launch.line
        return problem(f"megatron.{check}", state, self.started.file, line, what, **more)

    def shape(self) -> Shape:
        return Shape(
            prefix="megatron",
            file=self.started.file,
            line=self.started.launch.line,
            world=self.world,
            tensor=self.said("tensor-model-parallel-size"),
            pipeline=self.said("pipeline-model-parallel-size"),
            context=self.said("context-parallel-size"),
            expert=self.said("expert-model-parallel-size"),
            expert_tensor=self.said("expert-tensor-parallel-size"),
            virtual=self.said("num-layers-per-virtual-pipeline-stage"),
            grouped=self.options.has("microbatch-group-size-per-virtual-pipeline-stage"),
            layers=self.said("num-layers", "encoder-num-layers"),
            hidden=self.said("hidden-size"),
            heads=self.said("num-attention-heads"),
            groups=self.said("num-query-groups", "num-key-value-heads"),
            experts=None if self.options.has("deepspeed") else self.said("num-experts"),
            channels=self.said("kv-channels", "multi-latent-attention"),
            sequence=self.said("seq-length", "encoder-seq-length"),
            positions=self.said("max-position-embeddings"),
            micro=self.said("micro-batch-size"),
            whole=None if self.options.has("rampup-batch-size") else self.said("global-batch-size"),
            uneven=any(self.options.has(name) for name in _UNEVEN),
            rotary=self.options.text("position-embedding-type") == "rope",
            complete=self.options.whole,
            elsewhere=any(self.options.has(name) for name in _FROM_ELSEWHERE),
        )

    def gone(self) -> Iterator[Problem]:
        for name, died in _GONE.items():
            if self.options.has(name):
                yield self.problem("gone", "fail", name, f"--{name} is no longer taken", why="since 2020 (v2.0) it ends the program", message=f"AssertionError: {died}", fix=f"Use {died.partition('use ')[2].removesuffix(' instead')}.")  # fmt: skip

    def missing(self) -> Iterator[Problem]:
        if not self.options.whole or any(self.options.has(name) for name in _FROM_ELSEWHERE):
            return
        # Wrappers such as ms-swift fill the model's sizes in from its own files.
        if not self.program.startswith(_PROGRAMS):
            return
        for name in _NEEDED:
            if not self.options.has(name):
                yield self.problem("missing", "fail", 0, f"--{name} is not given", why="it has no default", message=f"AssertionError: {plain(name)} argument is None", fix=f"Add --{name}.")  # fmt: skip
        if not self.options.has("seq-length", "encoder-seq-length"):
            yield self.problem("missing", "fail", 0, "--seq-length is not given", why="it has no default", message="AssertionError: assert args.encoder_seq_length is not None", fix="Add --seq-length.")  # fmt: skip
        if not self.options.has("micro-batch-size", "batch-size"):
            yield self.problem("missing", "fail", 0, "--micro-batch-size is not given", why="it has no default", message="AssertionError: assert args.micro_batch_size is not None", fix="Add --micro-batch-size.")  # fmt: skip

    def ramp(self) -> Iterator[Problem]:
        """The ramp-up of the global batch: start, increment, samples."""
        option, whole = self.options.get("rampup-batch-size"), self.options.whole_number("global-batch-size")
        numbers = [] if option is None else [int(w.text) for w in option.values if w.text.isdigit()]
        if option is None or whole is None or len(numbers) != len(option.values) or len(numbers) != 3:
            return
        start, step, _ = numbers
        if start > whole:
            yield self.problem("batch", "fail", "rampup-batch-size", f"the ramp-up starts at {start}, above the global batch of {whole}", why="it only grows", message=f"AssertionError: expected global batch size to be greater than or equal to start batch size, got {whole} and {start}", fix="Start it lower.")  # fmt: skip
        elif step < 1 or (whole - start) % step:
            yield self.problem("batch", "fail", "rampup-batch-size", f"steps of {step} do not lead from {start} to the global batch of {whole}", why="the batch grows by whole steps to its full size", message=f"AssertionError: expected global batch size interval ({whole - start}) to be divisible by global batch size increment ({step})", fix="Choose a step that divides the difference.")  # fmt: skip

    def recompute(self) -> Iterator[Problem]:
        """Full recomputation wants a method; forks that have arguments of their own for it are left alone."""
        if self.options.text("recompute-granularity") != "full" or not self.options.whole or not self.program.startswith(_PROGRAMS):  # fmt: skip
            return
        given = {o.name.replace("_", "-") for o in self.options.options}
        if any(n.startswith("recompute-") and n not in _RECOMPUTE for n in given) or given & {"recompute-method", *_FROM_ELSEWHERE}:  # fmt: skip
            return
        yield self.problem("missing", "fail", "recompute-granularity", "--recompute-granularity full without --recompute-method", why="it has no default", message='ValueError: Using recompute_granularity: full so recompute_method must be "block" or "uniform"', fix="Add --recompute-method uniform --recompute-num-layers 1.")  # fmt: skip

    def precision(self) -> Iterator[Problem]:
        if self.options.flag("fp16") and self.options.flag("bf16"):
            yield self.problem("precision", "fail", "bf16", "--fp16 and --bf16 are both given", why="one of them at most", message="AssertionError: assert not args.bf16", fix="Remove one of them.")  # fmt: skip
        if self.options.has("fp16-lm-cross-entropy") and self.options.flag("fp16") is False and self.options.whole:
            yield self.problem("precision", "fail", "fp16-lm-cross-entropy", "--fp16-lm-cross-entropy without --fp16", why="it works in fp16 only", message="AssertionError: lm cross entropy in fp16 only support in fp16 mode.", fix="Remove it, or add --fp16.")  # fmt: skip

    def lengths(self) -> Iterator[Problem]:
        both = self.options.has("train-iters") and self.options.has("train-samples")
        if both:
            yield self.problem("length", "fail", "train-samples", "--train-iters and --train-samples are both given", why="the run is counted in one of them", message="AssertionError: expected iteration-based training", fix="Remove one of them.")  # fmt: skip
        elif self.options.has("train-iters"):
            yield from self.mixed(_SAMPLES, "iteration-based", "--train-iters")
        elif self.options.has("train-samples"):
            yield from self.mixed(_ITERATIONS, "sample-based", "--train-samples")
        for unit in ("iters", "samples"):
            if self.options.has("lr-warmup-fraction") and (self.options.number(f"lr-warmup-{unit}") or 0) > 0:
                yield self.problem("length", "fail", f"lr-warmup-{unit}", f"--lr-warmup-fraction and --lr-warmup-{unit} are both given", why="warm-up is counted in one of them", message=f"AssertionError: can only specify one of lr-warmup-fraction and lr-warmup-{unit}", fix="Remove one of them.")  # fmt: skip
        low, high = self.options.number("min-lr"), self.options.number("lr")
        if low is not None and high is not None and low > high:
            yield self.problem("length", "fail", "min-lr", f"--min-lr {low:g} is above --lr {high:g}", why="the rate falls from one to the other", message="AssertionError: assert args.min_lr <= args.lr", fix="Correct one of them.")  # fmt: skip

    def mixed(self, names: tuple[str, ...], kind: str, by: str) -> Iterator[Problem]:
        for name in names:
            if self.options.has(name) and self.options.number(name) != 0:
                word = "decay" if "decay" in name else "warmup"
                yield self.problem("length", "fail", name, f"--{name} with {by}", why="the learning rate is counted in the unit of the run", message=f"AssertionError: expected {kind} learning rate {word}", fix=f"Use --{name.replace('samples', 'iters') if kind[0] == 'i' else name.replace('iters', 'samples')}.")  # fmt: skip

    def saving(self) -> Iterator[Problem]:
        every_n, iterations = self.options.number("save-interval"), self.options.number("train-iters")
        if self.options.has("save") and not self.options.has("save-interval") and self.options.whole:
            yield self.problem("saving", "fail", "save", "--save without --save-interval", why="there is no default of how often", message="AssertionError: assert args.save_interval is not None", fix="Add --save-interval.")  # fmt: skip
        if every_n is not None and iterations is not None and self.options.has("save") and every_n > iterations > SHORT:
            yield self.problem("saving", "warn", "save-interval", f"saves every {every_n:g} iterations, and the run has {iterations:g}", why="nothing is saved before the end: whatever stops the run loses all of it", fix="Save more often.")  # fmt: skip

    def overlap(self) -> Iterator[Problem]:
        if not self.options.whole:
            return
        has = self.options.has
        if has("overlap-param-gather") and not has("overlap-grad-reduce"):
            yield self.problem("overlap", "fail", "overlap-param-gather", "--overlap-param-gather without --overlap-grad-reduce", why="one is built on the other", message="AssertionError: Must use --overlap-param-gather with --overlap-grad-reduce", fix="Add --overlap-grad-reduce.")  # fmt: skip
        if has("overlap-param-gather") and not any(map(has, ("use-distributed-optimizer", "use-megatron-fsdp", "use-custom-fsdp", "optimizer"))):  # fmt: skip
            yield self.problem("overlap", "fail", "overlap-param-gather", "--overlap-param-gather without --use-distributed-optimizer", why="parameters are gathered by that optimizer only", message="AssertionError: --overlap-param-gather only supported with distributed optimizer", fix="Add --use-distributed-optimizer.")  # fmt: skip
        if has("use-torch-fsdp2"):
            for name, size in (("pipeline-model-parallel-size", 1), ("expert-model-parallel-size", 1)):
                if (self.options.number(name) or 1) > size:
                    yield self.problem("overlap", "fail", name, f"--{name} above 1 with --use-torch-fsdp2", why="they exclude one another", message=f"AssertionError: --use-torch-fsdp2 is not supported with {name.split('-')[0]} parallelism", fix="Leave it at 1.")  # fmt: skip

    def experts(self) -> Iterator[Problem]:
        shape = self.shape()
        tensor, expert = (said.whole if said is not None else None for said in (shape.tensor, shape.expert))
        if not tensor or not expert or tensor == 1 or expert == 1 or shape.experts is None or not self.options.whole:
            return
        if not self.options.has("sequence-parallel"):
            yield self.problem("experts", "fail", "expert-model-parallel-size", f"experts under tensor parallel size {tensor} without --sequence-parallel", why="with experts, ranks of a tensor group must share out the sequence too", message="AssertionError: When using MoE and tensor parallelism, sequence parallelism must be used.", fix="Add --sequence-parallel.")  # fmt: skip

    def stages(self) -> Iterator[Problem]:
        """Layers of the first and last stage, which count only where there are several."""
        size, layers = (
            self.options.whole_number("pipeline-model-parallel-size"),
            self.options.whole_number("num-layers"),
        )
        if size not in {None, 1} or (size is None and (self.options.has("pipeline-model-parallel-size") or not self.options.whole)):  # fmt: skip
            return
        for name in _ENDS:
            number = self.options.whole_number(name)
            if number is not None and layers is not None and number != layers:
                yield self.problem("layers", "warn", name, f"--{name} is {number} with one stage, and the model has {layers} layers", why="with one stage the model is built of that many layers, and its size, its FLOPs and its throughput are reported for the other number", fix="Leave it out, or set the pipeline parallel size.")  # fmt: skip

    def offload(self) -> Iterator[Problem]:
        """The optimizer on the CPU wants the one that Megatron-DeepSpeed makes only where it is told to."""
        if not self.options.has("deepspeed") or self.options.has("cpu-optimizer") or not self.options.whole:
            return
        for document in meant(self.facts.of_kind("deepspeed"), self.options.text("deepspeed-config", "deepspeed_config")):  # fmt: skip
            assert document.tree is not None
            path = "zero_optimization.offload_optimizer.device"
            if document.tree.text(path) not in {"cpu", "nvme"} or document.tree.truth("zero_force_ds_cpu_optimizer") is False:  # fmt: skip
                continue
            place = document.embedded or document.name
            yield Problem(check="megatron.offload", state="fail", file=place, line=document.tree.line_of(path), what="the optimizer is offloaded, and --cpu-optimizer is not given", why="Megatron then makes an optimizer for the GPU, and DeepSpeed refuses it beside offloading", message="deepspeed.runtime.zero.utils.ZeRORuntimeException: You are using ZeRO-Offload with a client provided optimizer", fix="Add --cpu-optimizer, or remove offload_optimizer.")  # fmt: skip

    def deepspeed(self) -> Iterator[Problem]:
        """What Megatron-DeepSpeed adds: its pipeline is on unless it is turned off, and stages 2 and 3 exclude it."""
        if not self.options.has("deepspeed") or self.options.has("no-pipeline-parallel") or not self.options.whole:
            return
        stage = self.options.whole_number("zero-stage")
        place: tuple[str, int] | None = None if stage is None else (self.started.file, self.options.line("zero-stage"))
        for document in meant(
            self.facts.of_kind("deepspeed"), self.options.text("deepspeed-config", "deepspeed_config")
        ):
            assert document.tree is not None
            theirs = document.tree.whole("zero_optimization.stage")
            if theirs is not None:
                stage = theirs
                place = place or (document.name, document.tree.line_of("zero_optimization.stage"))
        if stage is not None and stage > 1 and place is not None:
            died = "AssertionError: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"
            yield Problem(check="megatron.pipeline", state="fail", file=place[0], line=place[1], what=f"ZeRO stage {stage} with the pipeline of DeepSpeed, which is on unless --no-pipeline-parallel is given", why="stages 2 and 3 share out what a pipeline must keep over its micro batches; even a pipeline of one stage counts", message=died, fix="Add --no-pipeline-parallel, or use stage 1.")  # fmt: skip

    def names(self) -> Iterator[Problem]:
        known = every("megatron")
        now = known - frozenset(_GONE)
        given = {plain(o.name) for o in self.options.options}
        own = self.program.startswith(_PROGRAMS)
        for option in self.options.options:
            name = option.name.replace("_", "-")
            if option.dashes != 2 or name in known or not name:
                continue
            near = misspelt(name, now)
            # A parser that is not Megatron's own takes the begin of a name for the name.
            if near is not None and plain(near) not in given and (own or not near.startswith(name)):
                yield self.problem("key", "warn", option.line, f"--{option.name} is no argument of {version_of('megatron')}", why="the parser refuses names that nobody knows, unless a fork of Megatron has it", message=f"error: unrecognized arguments: --{option.name}", fix=f"Did you mean --{near}?")  # fmt: skip

    def types(self) -> Iterator[Problem]:
        for option in self.options.options:
            name = option.name.replace("_", "-")
            kind = "int" if name in words("megatron", "int") else "float" if name in words("megatron", "float") else ""
            wrong = _wrong(option, kind)
            if wrong:
                yield self.problem("type", "fail", option.line, f"--{option.name} {wrong}", why="the parser of the arguments refuses it", message=f"error: argument --{option.name}: " + ("expected one argument" if not option.values else f"invalid {kind} value: '{option.values[0].text}'"), fix="Write a whole number." if kind == "int" else "Write a number.")  # fmt: skip


def _wrong(option: Option, kind: str) -> str:
    """What is wrong with the value of an option that takes one number; empty where nothing is."""
    if not kind:
        return ""
    if not option.values:
        return "has no value"
    text = option.text
    if text is None:
        return ""
    number = as_number(text)
    if number is None or (kind == "int" and not isinstance(number, int)):
        return f"is {text!r}, no {'whole ' if kind == 'int' else ''}number"
    return ""
