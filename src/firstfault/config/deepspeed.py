"""`ds_config.json` held against what DeepSpeed demands: batch arithmetic, stages, offload, precision, keys and types.

Facts by the sources named in `known/deepspeed.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.config.known_keys import every, nearest, version_of, words
from firstfault.config.nouns import AUTO, Document, Node, Problem, as_number, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.config.facts import Facts
    from firstfault.model.checks import CheckState

_BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_STRICT = (
    "zero_optimization",
    "zero_optimization.offload_param",
    "zero_optimization.offload_optimizer",
    "fp16",
    "bf16",
)
"""Sections in which an unknown key ends the program."""
_OLD = {
    "cpu_offload": "offload_optimizer",
    "cpu_offload_params": "offload_param",
    "cpu_offload_param": "offload_param",
    "stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
}
_ELSEWHERE = {
    "aio",
    "activation_checkpointing",
    "gradient_clipping",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
}
_ONE_BIT = {"onebitadam": "1bit-Adam is not compatible with ZeRO", "zerooneadam": "0/1 Adam is not compatible with ZeRO", "onebitlamb": "1bit-Lamb is not compatible with ZeRO"}  # fmt: skip
_DTYPES = frozenset({"fp16", "fp32", "bf16", "float16", "float32", "bfloat16", "half", "float"})


def check_deepspeed(document: Document, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with one file."""
    tree = document.tree
    if tree is None:
        return
    look = _Look(document.name, tree, facts)
    yield from look.batch()
    yield from look.stage()
    yield from look.offload()
    yield from look.precision()
    yield from look.optimizer()
    yield from look.keys()
    yield from look.types()


def data_parallel(facts: Facts) -> int | None:
    """Ranks over which DeepSpeed divides the batch: all, or those that Megatron leaves."""
    from firstfault.config.megatron import is_megatron

    if facts.world is None:
        return None
    for started in facts.started:
        options = started.launch.arguments
        if is_megatron(options):
            size = 1
            for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "ds-sequence-parallel-size"):
                given = options.whole_number(name)
                if options.has(name) and given is None:
                    return None
                size *= given or 1
            return facts.world // size if facts.world % size == 0 else None
    return facts.world


class _Look:
    def __init__(self, file: str, tree: Node, facts: Facts) -> None:
        self.file = file
        self.tree = tree
        self.facts = facts
        self.stage_of = tree.whole("zero_optimization.stage") or 0

    def problem(self, check: str, state: CheckState, path: str, what: str, **more: str) -> Problem:
        return problem(f"deepspeed.{check}", state, self.file, self.tree.line_of(path), what, **more)

    def is_auto(self, path: str) -> bool:
        return self.tree.text(path) == AUTO

    # --- batch

    def batch(self) -> Iterator[Problem]:
        values = {key: self.tree.whole(key) for key in _BATCH_KEYS}
        given = [key for key in _BATCH_KEYS if self.tree.at(key) is not None and self.tree.at(key).value is not None]  # type: ignore[union-attr]
        for key in given:
            number = self.tree.number(key)
            if number is not None and number < 1:
                yield self.problem("batch", "fail", key, f"{key} is {number}", why="it must be 1 or more", message=f"{key.replace('_', ' ').capitalize()}: {number} has to be greater than 0", fix="Set a size above 0.")  # fmt: skip
                return
        if self.tree.truth("elasticity.enabled"):
            yield from self.elastic(given)
            return
        if not given or given == ["gradient_accumulation_steps"]:
            if not self.facts.trainers and not self.facts.of_kind("accelerate"):
                yield self.problem("batch", "not_checkable", "", "names no batch size: the program must pass one", why="without train_batch_size or train_micro_batch_size_per_gpu the start fails, unless the program passes them itself", message="Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided", fix="Set train_micro_batch_size_per_gpu and gradient_accumulation_steps.")  # fmt: skip
            return
        if any(values[key] is None for key in given):
            return
        yield from self.arithmetic(values)

    def arithmetic(self, values: dict[str, int | None]) -> Iterator[Problem]:
        whole, micro, steps = (values[key] for key in _BATCH_KEYS)
        if whole is None:
            return
        world = data_parallel(self.facts)
        if world is None:
            if micro is not None and steps is not None and whole % (micro * steps):
                yield self.uneven(whole, f"{micro} (train_micro_batch_size_per_gpu) x {steps} (gradient_accumulation_steps)", "", f"{whole} != {micro} * {steps} * world size")  # fmt: skip
                return
            yield Problem(check="deepspeed.batch", state="not_checkable", file=self.file, line=self.tree.line_of("train_batch_size"), what="the number of ranks is not known: give --world-size")  # fmt: skip
            return
        # As DeepSpeed fills in what is not given: whole divisions, then one comparison.
        if micro is not None and steps is None:
            steps = whole // micro // world
        elif micro is None and steps is not None:
            micro = whole // world // steps
        elif micro is None and steps is None:
            micro, steps = whole // world, 1
        assert micro is not None
        assert steps is not None
        said = f"{whole} != {micro} * {steps} * {world}"
        if whole != micro * steps * world:
            parts = " x ".join(f"{number} ({name})" for number, name in ((micro, "micro batch"), (steps, "accumulation"), (world, "ranks")))  # fmt: skip
            yield self.uneven(whole, parts, f", which is {micro * steps * world}", said)
        else:
            yield self.problem("batch", "ok", "train_batch_size", f"train_batch_size {whole} = {micro} x {steps} x {world} ranks")  # fmt: skip

    def uneven(self, whole: int, parts: str, product: str, said: str) -> Problem:
        if "* 0" in said or "= 0 *" in said:
            fix = f"train_batch_size {whole} is too small for that many ranks: raise it, or start fewer."
        else:
            fix = "Leave train_batch_size out and set the other two, or make it a multiple of micro batch times ranks."
        return self.problem("batch", "fail", "train_batch_size", f"train_batch_size {whole} is not {parts}{product}", why="DeepSpeed stops before the first step", message=f"AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size {said}", fix=fix)  # fmt: skip

    def elastic(self, given: list[str]) -> Iterator[Problem]:
        if given and not self.tree.truth("elasticity.ignore_non_elastic_batch_info"):
            yield self.problem("elastic", "fail", given[0], f"{given[0]} stands beside elasticity", why="elastic training sets the batch sizes itself and refuses others", message="ElasticityConfigError: One or more batch related parameters were found in your ds_config", fix="Remove the batch sizes, or set elasticity.ignore_non_elastic_batch_info to true.")  # fmt: skip

    # --- stage and offload

    def stage(self) -> Iterator[Problem]:
        node = self.tree.at("zero_optimization")
        if node is None:
            return
        if node.kind == "scalar" and isinstance(node.value, bool):
            yield self.problem("stage", "warn", "zero_optimization", "zero_optimization is a truth value", why="that form means stage 1 and is deprecated", fix='Write {"stage": 1}.')  # fmt: skip
        stage = self.tree.number("zero_optimization.stage")
        if stage is not None and stage not in {0, 1, 2, 3}:
            yield self.problem("stage", "fail", "zero_optimization.stage", f"there is no ZeRO stage {stage}", why="stages are 0 to 3", message="1 validation error for DeepSpeedZeroConfig stage", fix="Choose 0, 1, 2 or 3.")  # fmt: skip
        if self.tree.text("gradient_allreduce_op") == "sum" and stage == 3:
            yield self.problem("stage", "fail", "gradient_allreduce_op", "gradients are summed under stage 3", why="stage 3 knows the mean only", message="ValueError: gradient_allreduce_op='sum' is not supported with ZeRO stage 3", fix="Use the mean, or another stage.")  # fmt: skip
        for key, value in (("elastic_checkpoint", True),):
            if stage == 3 and self.tree.truth(f"zero_optimization.{key}") is value:
                yield self.problem("stage", "warn", f"zero_optimization.{key}", f"{key} under stage 3", why="it is no longer supported: such a checkpoint loads with the same number of ranks only", fix="Use universal checkpoints.")  # fmt: skip

    def offload(self) -> Iterator[Problem]:
        for name in ("offload_param", "offload_optimizer"):
            node = self.tree.at(f"zero_optimization.{name}")
            path = f"zero_optimization.{name}"
            if node is not None and node.kind != "map" and not _open(node):
                yield self.problem("type", "fail", path, f"{name} holds no device and no other keys", why="DeepSpeed wants a map there and stops at its start", message=f"1 validation error for DeepSpeedZeroConfig\n{name}\n  Input should be a valid dictionary", fix='Write {"device": "cpu"}.')  # fmt: skip
            if node is None or node.kind != "map":
                continue
            device = self.tree.text(f"{path}.device") or "none"
            if device == AUTO or "$" in device or device == "none":
                continue
            if device not in {"cpu", "nvme"}:
                near = nearest(device, frozenset({"cpu", "nvme", "none"}), cutoff=0.6)
                yield self.problem("offload", "fail", f"{path}.device", f"{device!r} is no device to offload to", why="devices are cpu, nvme and none", message="1 validation error for DeepSpeedZeroConfig", fix=f"Write {near}." if near else "Write cpu, nvme or none.")  # fmt: skip
                continue
            yield from self.device(name, path, device)
        ratio = self.tree.number("zero_optimization.offload_optimizer.ratio")
        if ratio is not None and 0 <= ratio < 1 and self.stage_of == 3 and self.tree.text("zero_optimization.offload_optimizer.device") == "nvme":  # fmt: skip
            yield self.problem("offload", "warn", "zero_optimization.offload_optimizer.ratio", f"a part ({ratio}) of the optimizer is offloaded, and to nvme", why="a part of it goes to the CPU's memory only: with nvme the step has been seen to fail", message="RuntimeError: expected input to be on cuda", fix="Set ratio to 1, or device to cpu.")  # fmt: skip
        if ratio is not None and ratio < 1 and self.stage_of != 3:
            yield self.problem("offload", "fail", "zero_optimization.offload_optimizer.ratio", f"a part ({ratio}) of the optimizer is offloaded under stage {self.stage_of}", why="parts are offloaded under stage 3 only", message="AssertionError: Partial offloading only supported for ZeRO Stage 3.", fix="Set ratio to 1, or stage to 3.")  # fmt: skip

    def device(self, name: str, path: str, device: str) -> Iterator[Problem]:
        if name == "offload_param" and self.stage_of < 3:
            yield self.problem("offload", "warn", path, f"offload_param under stage {self.stage_of}", why="parameters are offloaded under stage 3 only: below, this does nothing, and the memory that it should spare is needed", fix="Set stage to 3, or remove offload_param.")  # fmt: skip
        if name == "offload_optimizer" and self.stage_of == 0:
            yield self.problem("offload", "warn", path, "offload_optimizer under stage 0", why="without ZeRO nothing is offloaded", fix="Set stage to 1, 2 or 3.")  # fmt: skip
        if device == "nvme" and self.stage_of in {1, 2}:
            yield self.problem("offload", "warn", f"{path}.device", f"{name} to nvme under stage {self.stage_of}", why="only stage 3 writes to NVMe: below, the CPU's memory is used", fix="Set stage to 3, or device to cpu.")  # fmt: skip
        if device == "nvme" and self.tree.text(f"{path}.nvme_path") is None:
            yield self.problem("offload", "fail" if self.stage_of == 3 else "warn", f"{path}.device", f"{name} goes to nvme, and nvme_path is not set", why="the start fails when the folder for it is made", message="TypeError: expected str, bytes or os.PathLike object, not NoneType", fix="Set nvme_path to a folder on a local disk.")  # fmt: skip

    # --- precision and optimizer

    def precision(self) -> Iterator[Problem]:
        half, brain = self.tree.truth("fp16.enabled"), self.tree.truth("bf16.enabled") or self.tree.truth("bfloat16.enabled")  # fmt: skip
        if half and brain:
            yield self.problem("precision", "fail", "bf16.enabled", "fp16 and bf16 are both on", why="one of them at most", message="AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled", fix="Turn one of them off.")  # fmt: skip
        if (
            brain
            and self.stage_of == 0
            and self.tree.text("data_types.grad_accum_dtype") in {"fp32", "float32", "float"}
        ):
            yield self.problem("precision", "warn", "data_types.grad_accum_dtype", "gradients are added up in fp32 beside bf16, under ZeRO stage 0", why="since January 2026 no optimizer of DeepSpeed does that without ZeRO; earlier versions ran it as stage 1", message="NotImplementedError", fix="Set stage to 1, or leave grad_accum_dtype out.")  # fmt: skip
        if self.tree.truth("amp.enabled") and self.stage_of > 0:
            yield self.problem("precision", "fail", "amp.enabled", f"amp under ZeRO stage {self.stage_of}", why="they exclude one another", message="AssertionError: Amp and ZeRO are not currently compatible, please use (legacy) fp16 mode which performs similar to amp opt_mode=O2", fix="Use fp16 or bf16 instead of amp.")  # fmt: skip
        for key in ("communication_data_type", "seq_parallel_communication_data_type"):
            said = self.tree.text(key)
            if said is not None and said != AUTO and "$" not in said and said not in _DTYPES:
                near = nearest(said, _DTYPES, cutoff=0.5)
                yield self.problem("precision", "fail", key, f"{said!r} is no type of numbers", why="the start fails", message="Invalid communication_data_type", fix=f"Write {near}." if near else "Write fp16, bf16 or fp32.")  # fmt: skip
        window = self.tree.number("fp16.loss_scale_window")
        if half and self.tree.number("fp16.loss_scale") in {0, None} and window is not None and window < 1:
            yield self.problem("precision", "fail", "fp16.loss_scale_window", f"loss_scale_window is {window}", why="the dynamic loss scale divides by it", message="fp16.loss_scale_window must be > 0 when dynamic loss scaling is enabled (loss_scale=0)", fix="Leave it out: 1000 is the default.")  # fmt: skip

    def optimizer(self) -> Iterator[Problem]:
        said = self.tree.text("optimizer.type")
        if said is not None and "$" not in said and said != AUTO:
            known = words("deepspeed", "optimizers")
            torch = words("deepspeed", "torch_optimizers")
            if said.lower() in _ONE_BIT and self.stage_of > 0:
                yield self.problem("optimizer", "fail", "optimizer.type", f"{said} under ZeRO stage {self.stage_of}", why="they exclude one another", message=f"AssertionError: {_ONE_BIT[said.lower()]}", fix="Set stage to 0, or choose Adam or AdamW.")  # fmt: skip
            elif said.lower() not in known and said not in torch:
                near = nearest(said.lower(), known, cutoff=0.6)
                yield self.problem("optimizer", "warn", "optimizer.type", f"{said!r} is no optimizer of DeepSpeed or torch", why="it is looked for in torch.optim, and the start fails where that has none", message=f"AttributeError: module 'torch.optim' has no attribute '{said}'", fix=f"Did you mean {near}?" if near else "Choose Adam or AdamW.")  # fmt: skip
        scheduler = self.tree.text("scheduler.type")
        kinds = words("deepspeed", "schedulers")
        if scheduler is not None and "$" not in scheduler and scheduler != AUTO and scheduler not in kinds:
            near = nearest(scheduler, kinds, cutoff=0.5)
            yield self.problem("scheduler", "warn", "scheduler.type", f"{scheduler!r} is no scheduler of DeepSpeed", why="it is looked for in torch.optim.lr_scheduler", fix=f"Did you mean {near}?" if near else f"Choose one of {', '.join(sorted(kinds))}.")  # fmt: skip
        if scheduler is not None and scheduler in kinds:
            yield from self.scheduler(scheduler)

    def scheduler(self, kind: str) -> Iterator[Problem]:
        node = self.tree.at("scheduler.params")
        given = set(node.fields) if node is not None and node.kind == "map" else set()
        if node is not None and node.kind != "map":
            return
        known = words("deepspeed", "scheduler_params", kind)
        for key in sorted(given - known):
            near = nearest(key, known)
            yield self.problem("scheduler", "fail", f"scheduler.params.{key}", f"{kind} takes no {key}", why="DeepSpeed passes all parameters on, and the start fails", message=f"TypeError: __init__() got an unexpected keyword argument '{key}'", fix=f"Did you mean {near}?" if near else f"Remove it; {kind} takes {', '.join(sorted(known))}.")  # fmt: skip
        for key in sorted(words("deepspeed", "scheduler_params", "needed", kind) - given):
            yield self.problem("scheduler", "warn", "scheduler.type", f"{kind} needs {key}, which is not set", why="unless the program sets it itself, the start fails", message=f"TypeError: __init__() missing 1 required positional argument: '{key}'", fix=f"Set scheduler.params.{key}.")  # fmt: skip

    # --- keys and types

    def keys(self) -> Iterator[Problem]:
        top = words("deepspeed", "top")
        for key in self.tree.fields:
            if key in top or key.startswith(("_", "$", "//")):
                continue
            near = nearest(key, top)
            inner = next((s for s in _STRICT if key in every("deepspeed", "sections", s)), None)
            if near is not None:
                yield self.problem("key", "warn", key, f"{key} is not known to {version_of('deepspeed')}", why="DeepSpeed passes unknown keys at the top over without a word: the setting has no effect", fix=f"Did you mean {near}?")  # fmt: skip
            elif inner is not None and "." not in inner:
                yield self.problem("key", "warn", key, f"{key} stands at the top, and DeepSpeed looks for it in {inner}", why="here it has no effect", fix=f"Move it into {inner}.")  # fmt: skip
        for section in _STRICT:
            node = self.tree.at(section)
            if node is None or node.kind != "map":
                continue
            known = every("deepspeed", "sections", section)
            for key in node.fields:
                if key not in known or key in _OLD:
                    yield from self.strange(section, key, known, set(node.fields))

    def strange(self, section: str, key: str, known: frozenset[str], beside: set[str]) -> Iterator[Problem]:
        path = f"{section}.{key}"
        name = section.rpartition(".")[2]
        if key in _OLD and section == "zero_optimization":
            both = _OLD[key] in beside
            if both:
                yield self.problem("key", "fail", path, f"{key} stands beside {_OLD[key]}, which replaces it", why="DeepSpeed refuses both at once", message=f"AssertionError: Cannot provide deprecated parameter '{key}' and replacing parameter '{_OLD[key]}' together", fix=f"Remove {key}.")  # fmt: skip
            elif key == "cpu_offload_params":
                yield self.problem("key", "fail", path, f"{key} is not known to {version_of('deepspeed')}", why="an unknown key in this section ends the program at its start", message="1 validation error for DeepSpeedZeroConfig\ncpu_offload_params\n  Extra inputs are not permitted", fix='Write "offload_param": {"device": "cpu"}.')  # fmt: skip
            return
        if section in {"fp16", "bf16"} and key == "opt_level":
            fix = "Remove it: it is a setting of amp."
        elif key in _ELSEWHERE or key in words("deepspeed", "top"):
            fix = f"Move it out of {name}, to the top of the file."
        else:
            near = nearest(key, known, cutoff=0.7)
            fix = f"Did you mean {near}?" if near else f"Remove it, or use a version of DeepSpeed that has it (checked against {version_of('deepspeed')})."  # fmt: skip
        model = {"fp16": "DeepSpeedFP16Config", "bf16": "DeepSpeedBF16Config"}.get(section, "DeepSpeedZeroConfig")
        # Sections of precision are held to their keys only since 0.17.
        state: CheckState = "fail" if section.startswith("zero") else "warn"
        yield self.problem("key", state, path, f"`{key}` is not known in {name}", why=f"an unknown key in this section ends the program at its start{'' if state == 'fail' else ' (since 0.17)'}", message=f"1 validation error for {model}\n{key}\n  Extra inputs are not permitted", fix=fix)  # fmt: skip

    def types(self) -> Iterator[Problem]:
        for key in _BATCH_KEYS:
            node = self.tree.at(key)
            if node is not None and node.quoted and as_number(node.value) is not None:
                yield self.problem("type", "fail", key, f"{key} is the text {str(node.value)!r} and no number", why="it is compared with a number and is never equal to one", message=f"- ds {key}={node.value} vs hf {_trainer_name(key)}={node.value}" if self.facts.trainers else "TypeError: '>' not supported between instances of 'str' and 'int'", fix="Take the quotes away.")  # fmt: skip
        tests: dict[str, Callable[[Node], str | None]] = {"int": _not_whole, "float": _not_number, "bool": _not_truth}
        for section in _STRICT:
            for kind, test in tests.items():
                for key in sorted(words("deepspeed", "sections", section, kind)):
                    node = self.tree.at(f"{section}.{key}")
                    if node is None or node.kind != "scalar" or _open(node):
                        continue
                    wrong = test(node)
                    if wrong is not None:
                        yield self.problem("type", "fail", f"{section}.{key}", f"{key} is {node.value!r}, {wrong}", why="DeepSpeed checks the type and stops at its start", message=f"1 validation error for DeepSpeedZeroConfig\n{key}\n  Input should be a valid {'integer' if kind == 'int' else 'boolean' if kind == 'bool' else 'number'}", fix="Write a whole number." if kind == "int" else "Write true or false." if kind == "bool" else "Write a number.")  # fmt: skip
        for section in ("fp16", "bf16"):
            node = self.tree.at(f"{section}.enabled")
            if (
                node is not None
                and node.quoted
                and str(node.value).lower() in {"true", "false"}
                and self.facts.trainers
            ):
                yield self.problem("type", "fail", f"{section}.enabled", f"{section}.enabled is the text {str(node.value)!r} and no truth value", why="the Trainer compares it with True or False, and text is equal to neither", message=f"- ds {section}.enabled={node.value} vs hf {section}={str(node.value).capitalize()}", fix="Take the quotes away.")  # fmt: skip


def _open(node: Node) -> bool:
    """Whether something else fills the value in."""
    return node.value is None or (isinstance(node.value, str) and (node.value == AUTO or "$" in node.value))


def _not_whole(node: Node) -> str | None:
    if isinstance(node.value, bool):
        return None  # taken for 0 or 1
    number = as_number(node.value)
    if number is None:
        return "no whole number"
    return None if number == float("inf") or number == int(number) else "a number with a fraction"


def _not_number(node: Node) -> str | None:
    return None if as_number(node.value) is not None or isinstance(node.value, bool) else "no number"


def _not_truth(node: Node) -> str | None:
    if isinstance(node.value, bool) or str(node.value).lower() in {"true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n", "1.0", "0.0"}:  # fmt: skip
        return None
    return "no truth value"


def _trainer_name(key: str) -> str:
    return {"train_micro_batch_size_per_gpu": "per_device_train_batch_size"}.get(key, key)
