"""accelerate's file and FSDP settings held against what accelerate demands.

Facts by the sources named in `known/accelerate.toml` and accelerate/utils/{launch,dataclasses,constants}.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.config.facts import meant
from firstfault.config.known_keys import nearest, version_of, words
from firstfault.config.nouns import AUTO, HIGHEST_PORT, Document, Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts
    from firstfault.config.nouns import Node
    from firstfault.model.checks import CheckState

_TYPES = frozenset({"NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "XLA", "TPU", "MEGATRON_LM", "TP"})  # fmt: skip
_PRECISIONS = frozenset({"no", "fp16", "bf16", "fp8"})
_CHOICES: dict[str, tuple[frozenset[str], str]] = {
    "fsdp_sharding_strategy": (
        frozenset({"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"}),
        "KeyError",
    ),
    "fsdp_auto_wrap_policy": (
        frozenset({"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"}),
        "ValueError: Invalid auto wrap policy",
    ),
    "fsdp_backward_prefetch": (frozenset({"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"}), "KeyError"),
    "fsdp_state_dict_type": (frozenset({"FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"}), "KeyError"),
}
_SECOND_ONLY = ("fsdp_use_orig_params", "fsdp_sync_module_states", "fsdp_backward_prefetch", "fsdp_sharding_strategy")
_IN_FILE = ("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device", "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision")  # fmt: skip


def check_accelerate(document: Document, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with one file."""
    tree = document.tree
    if tree is None:
        return
    yield from _top(document, tree)
    yield from _machines(document, tree, facts)
    if tree.text("distributed_type") == "FSDP":
        yield from check_fsdp(document, "fsdp_config")
    yield from _deepspeed(document, tree, facts)
    yield from _parallelism(document, tree, facts)
    yield from _beside(document, tree)


def _problem(document: Document, check: str, state: CheckState, path: str, what: str, **more: str) -> Problem:
    assert document.tree is not None
    line = document.tree.line_of(path) if path else 1
    return problem(check, state, document.name, line, what, **more)


def _top(document: Document, tree: Node) -> Iterator[Problem]:
    known = words("accelerate", "top")
    for key in tree.fields:
        if key not in known:
            near = nearest(key, known, cutoff=0.7)
            yield _problem(document, "accelerate.key", "fail", key, f"{key} is not known to accelerate ({version_of('accelerate')})", why="accelerate refuses a file with unknown keys", message=f"ValueError: The config file at {document.name} had unknown keys (['{key}']), please try upgrading your `accelerate` version or fix (and potentially remove) these keys from your config file.", fix=f"Did you mean {near}?" if near else "Remove it, or upgrade accelerate.")  # fmt: skip
    kind = tree.text("distributed_type")
    if kind is None:
        yield _problem(document, "accelerate.type", "fail", "", "names no distributed_type", why="accelerate refuses the file", message="ValueError: A `distributed_type` must be specified in the config file.", fix="Set distributed_type: MULTI_GPU, FSDP or DEEPSPEED.")  # fmt: skip
    elif kind not in _TYPES and tree.text("compute_environment") != "AMAZON_SAGEMAKER":
        near = nearest(kind.upper(), _TYPES, cutoff=0.6)
        # YAML reads an unquoted NO as a truth value.
        fix = "Write 'NO' in quotes." if kind == "False" else f"Did you mean {near}?" if near else f"Choose one of {', '.join(sorted(_TYPES))}."  # fmt: skip
        yield _problem(document, "accelerate.type", "fail", "distributed_type", f"{kind!r} is no distributed_type", why="accelerate refuses the file", message=f"ValueError: '{kind}' is not a valid DistributedType", fix=fix)  # fmt: skip
    node = tree.at("mixed_precision")
    if node is not None and isinstance(node.value, bool):
        yield _problem(document, "accelerate.precision", "fail", "mixed_precision", f"mixed_precision is the truth value {str(node.value).lower()}: YAML reads an unquoted no as that", why="accelerate takes it for text when it starts the ranks", message="AttributeError: 'bool' object has no attribute 'lower'", fix="Write 'no' in quotes.")  # fmt: skip
    elif node is not None and isinstance(node.value, str) and node.value.lower() not in _PRECISIONS:
        near = nearest(node.value.lower(), _PRECISIONS, cutoff=0.5)
        yield _problem(document, "accelerate.precision", "fail", "mixed_precision", f"{node.value!r} is no mixed precision", why="accelerate stops at its start", message=f"ValueError: Unknown mixed_precision mode: {node.value}. Choose between ['no', 'fp8', 'fp16', 'bf16'].", fix=f"Did you mean {near}?" if near else "Write no, fp16, bf16 or fp8.")  # fmt: skip


def _machines(document: Document, tree: Node, facts: Facts) -> Iterator[Problem]:
    machines, processes = tree.whole("num_machines"), tree.whole("num_processes")
    given = [s.launch.options for s in facts.started if s.launch.tool == "accelerate"]
    port = tree.whole("main_process_port")
    if port is not None and not 0 <= port <= HIGHEST_PORT and not any(o.has("main_process_port") for o in given):
        yield _problem(document, "accelerate.machines", "warn", "main_process_port", f"{port} is no port", why="ports end at 65535: newer versions of PyTorch refuse it, older ones take what is left of it by 65536", fix="Choose a port between 1024 and 65535.")  # fmt: skip
    said = [s for s in facts.started if s.launch.tool == "accelerate" and s.launch.options.has("num_processes")]
    if len(given) == 1 and said:
        options = said[0].launch.options
        number, count = options.whole_number("num_processes"), options.whole_number("num_machines")
        count = machines if not options.has("num_machines") else count
        if number is not None and count is not None and count > 0 and number % count:
            yield problem("accelerate.processes", "fail", said[0].file, options.line("num_processes"), f"{number} processes on {count} machines", why="num_processes counts all machines together and is divided among them; the rest is lost, and whoever waits for all of them hangs", fix="Make it a multiple of num_machines.")  # fmt: skip
    elif machines is not None and processes is not None and machines > 0 and processes % machines:
        yield _problem(document, "accelerate.processes", "fail", "num_processes", f"{processes} processes on {machines} machines", why="num_processes counts all machines together and is divided among them; the rest is lost, and whoever waits for all of them hangs", fix="Make it a multiple of num_machines.")  # fmt: skip
    rank = tree.whole("machine_rank")
    if machines is not None and rank is not None and rank >= machines and not any(o.has("machine_rank", "num_machines") for o in given):  # fmt: skip
        yield _problem(document, "accelerate.machines", "fail", "machine_rank", f"machine_rank is {rank}, and there are {machines} machines, counted from 0", why="the start waits for machines that do not come", fix=f"Give each machine its own rank from 0 to {machines - 1}.")  # fmt: skip
    if machines is not None and machines > 1 and tree.text("main_process_ip") is None and not any(o.has("main_process_ip") for o in given):  # fmt: skip
        yield _problem(document, "accelerate.machines", "warn", "num_machines", f"{machines} machines, and no main_process_ip", why="each machine looks for the others at an address that is not there, unless the command gives one", fix="Set main_process_ip to an address of the machine of rank 0.")  # fmt: skip
    elif machines is not None and machines > 1 and (tree.text("main_process_ip") or "").isdigit() and not any(o.has("main_process_ip") for o in given):  # fmt: skip
        yield _problem(document, "accelerate.machines", "warn", "main_process_ip", f"main_process_ip is {tree.text('main_process_ip')}, which is no address", why="the machines look for rank 0 there, unless the command gives another; a port belongs into main_process_port", fix="Set main_process_ip to an address of the machine of rank 0, and main_process_port to the port.")  # fmt: skip
    elif (
        machines is not None
        and machines > 1
        and tree.at("mpirun_config") is None
        and tree.text("main_process_ip") in {"localhost", "127.0.0.1"}
    ):
        yield _problem(document, "accelerate.machines", "fail", "main_process_ip", f"{machines} machines, and main_process_ip is each one's own", why="every machine waits for the others at itself until the time-out", fix="Set it to an address of the machine of rank 0 that the others reach.")  # fmt: skip
    if facts.world_from == "--world-size" and processes is not None and facts.world is not None and processes != facts.world and not given:  # fmt: skip
        yield _problem(document, "accelerate.processes", "warn", "num_processes", f"num_processes is {processes}, and {facts.world} ranks were given", why="the command starts what this file says, unless it has a number of its own", fix="Make both the same.")  # fmt: skip


def check_fsdp(document: Document, section: str) -> Iterator[Problem]:
    """FSDP settings, of accelerate's file (`section` then names where) or of the Trainer's own file.

    Args:
        document: the file.
        section: the map that holds them; empty where it is the file.
    """
    tree = document.tree
    assert tree is not None
    node = tree.at(section) if section else tree
    if node is None or node.kind != "map":
        return
    stem = f"{section}." if section else ""
    at = {key if key.startswith("fsdp_") else f"fsdp_{key}": f"{stem}{key}" for key in node.fields}
    second = str(tree.text(at.get("fsdp_version", "?")) or "1") == "2"
    known = words("accelerate", "fsdp_config") | {"fsdp_xla", "fsdp_xla_fsdp_settings", "fsdp_xla_fsdp_grad_ckpt", "fsdp_config"}  # fmt: skip
    for name, path in at.items():
        if name not in known:
            near = nearest(name, known, cutoff=0.75)
            yield _problem(document, "fsdp.key", "warn", path, f"{path.rpartition('.')[2]} is no setting of FSDP that accelerate knows", why="it is passed over without a word, and the default counts", fix=f"Did you mean {near}?" if near else "Remove it.")  # fmt: skip
    yield from _fsdp_choices(document, tree, at, second=second)
    yield from _fsdp_pairs(document, tree, at, second=second)


def _fsdp_choices(document: Document, tree: Node, at: dict[str, str], *, second: bool) -> Iterator[Problem]:
    for name, (choices, died) in _CHOICES.items():
        said = tree.text(at[name]) if name in at else None
        if said is None or said.isdigit() or said == AUTO or "$" in said:
            if said is not None and said.isdigit() and not 1 <= int(said) <= len(choices):
                yield _problem(document, "fsdp.choice", "fail", at[name], f"there is no {name} {said}", why=f"numbers go from 1 to {len(choices)}", fix=f"Write one of {', '.join(sorted(choices))}.")  # fmt: skip
            continue
        if said.upper() not in choices and said != "None":
            near = nearest(said.upper(), choices, cutoff=0.6)
            yield _problem(document, "fsdp.choice", "fail", at[name], f"{said!r} is no {name.removeprefix('fsdp_')}", why="the start fails when FSDP is set up", message=f"{died}: {said!r}" if died == "KeyError" else f"{died}: {said}.", fix=f"Did you mean {near}?" if near else f"Write one of {', '.join(sorted(choices))}.")  # fmt: skip
    reshard = tree.at(at["fsdp_reshard_after_forward"]) if "fsdp_reshard_after_forward" in at else None
    if second and reshard is not None and not isinstance(reshard.value, bool) and str(reshard.value).lower() not in {"true", "false"}:  # fmt: skip
        yield _problem(document, "fsdp.choice", "fail", at["fsdp_reshard_after_forward"], f"reshard_after_forward is {reshard.value!r} with version 2", why="version 2 takes a truth value", message=f"ValueError: reshard_after_forward set to {reshard.value}. This is not supported with FSDP2, please set to a `bool`", fix="Write true (as FULL_SHARD) or false (as SHARD_GRAD_OP).")  # fmt: skip
    if second and tree.text(at.get("fsdp_state_dict_type", "?")) == "LOCAL_STATE_DICT":
        yield _problem(document, "fsdp.choice", "fail", at["fsdp_state_dict_type"], "LOCAL_STATE_DICT with version 2", why="version 2 has full and sharded states only", fix="Write SHARDED_STATE_DICT or FULL_STATE_DICT.")  # fmt: skip


def _fsdp_pairs(document: Document, tree: Node, at: dict[str, str], *, second: bool) -> Iterator[Problem]:
    def truth(name: str) -> bool | None:
        return tree.truth(at[name]) if name in at else None

    wrap = tree.text(at["fsdp_auto_wrap_policy"]) if "fsdp_auto_wrap_policy" in at else None
    if truth("fsdp_activation_checkpointing") and wrap is not None and wrap.upper() == "NO_WRAP":
        yield _problem(document, "fsdp.checkpointing", "fail", at["fsdp_activation_checkpointing"], "activation checkpointing without a policy of wrapping", why="the policy says which modules are recomputed; without one the start fails when the model is prepared", message="TypeError: 'NoneType' object is not callable", fix="Set fsdp_auto_wrap_policy to TRANSFORMER_BASED_WRAP, or turn checkpointing off.")  # fmt: skip
    if truth("fsdp_cpu_ram_efficient_loading") and truth("fsdp_sync_module_states") is False and not second:
        yield _problem(document, "fsdp.loading", "fail", at["fsdp_cpu_ram_efficient_loading"], "only one rank loads the weights, and they are not sent to the others", why="the others would train on random weights: accelerate refuses it", message="ValueError: When using `--fsdp_cpu_ram_efficient_loading` set `--fsdp_sync_module_states` to `True`", fix="Set fsdp_sync_module_states to true.")  # fmt: skip
    if second and truth("fsdp_forward_prefetch"):
        yield _problem(document, "fsdp.version", "fail", at["fsdp_forward_prefetch"], "forward_prefetch with version 2", why="version 2 does not have it", message="ValueError: forward_prefetch is not yet implemented in FSDP2, set to None or use `fsdp_version=1`", fix="Remove it, or set fsdp_version to 1.")  # fmt: skip
    for name in _SECOND_ONLY if second else ():
        if name in at and tree.at(at[name]) is not None:
            yield _problem(document, "fsdp.version", "warn", at[name], f"{name} with version 2", why="version 2 does not heed it", fix="Remove it.")  # fmt: skip
    if wrap is not None and wrap.upper() == "SIZE_BASED_WRAP" and not (tree.number(at.get("fsdp_min_num_params", "?")) or 0):  # fmt: skip
        yield _problem(document, "fsdp.wrapping", "warn", at["fsdp_auto_wrap_policy"], "wraps by size, and fsdp_min_num_params is not set", why="every module, however small, becomes a unit of its own, and communication takes over", fix="Set fsdp_min_num_params, such as 100000000.")  # fmt: skip


def _deepspeed(document: Document, tree: Node, facts: Facts) -> Iterator[Problem]:
    section = tree.at("deepspeed_config")
    if section is None or section.kind != "map" or tree.text("distributed_type") != "DEEPSPEED":
        return
    known = words("accelerate", "deepspeed_config")
    for key in section.fields:
        if key not in known:
            near = nearest(key, known, cutoff=0.75)
            yield _problem(document, "accelerate.deepspeed_key", "warn", f"deepspeed_config.{key}", f"{key} is no setting that accelerate passes to DeepSpeed", why="it is passed over without a word", fix=f"Did you mean {near}?" if near else "Set it in a ds_config.json, and name that with deepspeed_config_file.")  # fmt: skip
    name = tree.text("deepspeed_config.deepspeed_config_file")
    if name is None:
        return
    beside = [key for key in _IN_FILE if key in section.fields]
    if beside:
        yield _problem(document, "accelerate.deepspeed_file", "fail", f"deepspeed_config.{beside[0]}", f"{beside[0]} stands beside deepspeed_config_file", why="with a file of DeepSpeed such settings belong there: accelerate refuses both", message="ValueError: When using `deepspeed_config_file`, the following accelerate config variables will be ignored", fix=f"Remove it here, and set it in {name}.")  # fmt: skip
    files = meant(facts.of_kind("deepspeed"), name)
    if not files:
        yield _problem(document, "accelerate.deepspeed_file", "not_checkable", "deepspeed_config.deepspeed_config_file", f"{name} was not given: give it too")  # fmt: skip
    precision = tree.text("mixed_precision")
    for other in files:
        assert other.tree is not None
        yield from micro_batch(other)
        if other.tree.at("zero_optimization") is None:
            yield _problem(other, "trainer.zero", "fail", "", "has no zero_optimization", why="accelerate takes a configuration of DeepSpeed with ZeRO only, be it stage 0", message="ValueError: Please specify the ZeRO optimization config in the DeepSpeed config.", fix='Add "zero_optimization": {"stage": 0}, or the stage that is meant.')  # fmt: skip
        opposite = {"fp16": "bf16", "bf16": "fp16"}.get(precision or "")
        if opposite is not None and other.tree.truth(f"{opposite}.enabled"):
            yield _problem(document, "accelerate.precision", "fail", "mixed_precision", f"mixed_precision is {precision}, and {other.name} turns {opposite} on", why="accelerate refuses both", message=f"ValueError: `--mixed_precision` arg cannot be set to `{precision}` when `{opposite}` is set in the DeepSpeed config file.", fix="Make both the same.")  # fmt: skip


def micro_batch(other: Document) -> Iterator[Problem]:
    """A batch size in the file of DeepSpeed without the micro batch that accelerate multiplies."""
    assert other.tree is not None
    if other.tree.at("train_batch_size") is not None and other.tree.at("train_micro_batch_size_per_gpu") is None:
        yield _problem(other, "accelerate.micro_batch", "warn", "train_batch_size", "train_batch_size without train_micro_batch_size_per_gpu", why="DeepSpeed works it out, but accelerate (since 0.20, also inside the Trainer) multiplies it before, and it is not there where no data loader was handed over", message="TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'", fix='Add "train_micro_batch_size_per_gpu": "auto".')  # fmt: skip


def _parallelism(document: Document, tree: Node, facts: Facts) -> Iterator[Problem]:
    section = tree.at("parallelism_config")
    if section is None or section.kind != "map":
        return
    sizes: dict[str, int] = {}
    for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp"):
        path = f"parallelism_config.parallelism_config_{name}_size"
        if tree.at(path) is not None:
            size = tree.whole(path)
            if size is None or size < 1:
                return
            sizes[name] = size
    product = 1
    for size in sizes.values():
        product *= size
    world = facts.world if facts.world is not None else tree.whole("num_processes")
    whole_model = sizes.get("dp_shard", 1) == 1 and sizes.get("cp", 1) == 1 and sizes.get("sp", 1) == 1
    if tree.text("distributed_type") == "FSDP" and product > 1 and whole_model:
        said = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
        yield _problem(document, "accelerate.parallelism", "fail", "parallelism_config", f"FSDP is on, and the sizes ({said}) leave it no ranks to shard over", why="FSDP shards over dp_shard and cp, and both are 1: the start fails when the model is prepared", message="KeyError: \"Invalid mesh_dim_names ('dp_shard_cp',) specified.", fix="Raise parallelism_config_dp_shard_size, or turn FSDP off.")  # fmt: skip
    if sizes and world is not None and product not in {1, world} and sizes.get("sp", 1) == 1:
        said = " x ".join(f"{name} {size}" for name, size in sizes.items())
        yield _problem(document, "accelerate.parallelism", "fail", "parallelism_config", f"{said} is {product}, and there are {world} ranks", why="the sizes must cover all ranks: accelerate refuses others", message=f"ValueError: ParallelismConfig total_size ({product}) does not match num_processes ({world}).", fix="Change one of the sizes, or the number of ranks.")  # fmt: skip


def _beside(document: Document, tree: Node) -> Iterator[Problem]:
    kind = tree.text("distributed_type")
    for section, needed in (
        ("deepspeed_config", "DEEPSPEED"),
        ("fsdp_config", "FSDP"),
        ("megatron_lm_config", "MEGATRON_LM"),
    ):
        node = tree.at(section)
        if node is not None and node.kind == "map" and node.fields and kind in _TYPES and kind != needed:
            yield _problem(document, "accelerate.unused", "warn", section, f"{section} is set, and distributed_type is {kind}", why="the section has no effect: the job runs without what it asks for", fix=f"Set distributed_type to {needed}, or remove the section.")  # fmt: skip
