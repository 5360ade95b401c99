"""NeMo's and other hydra YAML with a Lightning `trainer`: sizes, renamed arguments, overrides on the command line.

Interpolations are not followed: a value that is one counts as not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.config.facts import Said, gpus_per_node, nodes_of, seconds_of, tasks_per_node
from firstfault.config.known_keys import nearest, version_of, words
from firstfault.config.nouns import Document, Problem, as_number
from firstfault.config.shapes import Shape, check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts, Started
    from firstfault.config.nouns import Node

_OVERRIDE = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_NOW = {
    "gpus": "devices",
    "num_processes": "devices",
    "tpu_cores": "devices",
    "replace_sampler_ddp": "use_distributed_sampler",
    "checkpoint_callback": "enable_checkpointing",
    "progress_bar_refresh_rate": "enable_progress_bar",
    "weights_summary": "enable_model_summary",
    "resume_from_checkpoint": "ckpt_path of fit()",
    "amp_backend": "precision or plugins",
    "amp_level": "plugins",
}
_SIZES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "groups": "num_query_groups",
    "channels": "kv_channels",
    "sequence": "encoder_seq_length",
    "positions": "max_position_embeddings",
    "micro": "micro_batch_size",
    "whole": "global_batch_size",
    "virtual": "num_layers_per_virtual_pipeline_stage",
}


class _Settings:
    """The YAML with what a command line sets over it."""

    def __init__(self, document: Document, over: dict[str, Said]) -> None:
        assert document.tree is not None
        self.file = document.name
        self.tree = document.tree
        self.over = over

    def said(self, path: str) -> Said | None:
        if path in self.over:
            return self.over[path]
        node = self.tree.at(path)
        if node is None or node.kind != "scalar" or node.value is None:
            return None
        return Said(path, node.value, self.file, self.tree.line_of(path))

    def whole(self, path: str) -> int | None:
        said = self.said(path)
        return None if said is None else said.whole


def check_nemo(document: Document, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with one file, and with what the launches set over it."""
    tree = document.tree
    if tree is None:
        return
    started = next((s for s in facts.started if overrides(s)), None)
    over = overrides(started) if started is not None else {}
    settings = _Settings(document, over)
    yield from _trainer(document, tree)
    yield from _unknown_overrides(document, tree, over, started)
    yield from check_shape(_shape(settings, facts))
    yield from _time(settings, facts)


def overrides(started: Started) -> dict[str, Said]:
    """What a command line sets in the way of hydra: path -> value; `+` and `++` in front are kept in the name."""
    found = {}
    for word in started.launch.words:
        match = _OVERRIDE.fullmatch(word.text)
        if match is not None and match[1] != "~" and "." in match[2]:
            value: object = match[3] if word.known else "$"
            number = as_number(value)
            found[match[2]] = Said(
                match[1] + match[2], number if number is not None else value, started.file, word.line
            )
    return found


def _trainer(document: Document, tree: Node) -> Iterator[Problem]:
    trainer = tree.at("trainer")
    if trainer is None or trainer.kind != "map":
        return
    known, gone = words("lightning", "trainer"), words("lightning", "removed_in_2")
    for key in trainer.fields:
        if key in known or key.startswith("_"):
            continue
        line = trainer.lines[key]
        died = f"TypeError: Trainer.__init__() got an unexpected keyword argument '{key}'"
        if key in gone:
            now = _NOW.get(key)
            yield Problem(check="lightning.removed", state="warn", file=document.name, line=line, what=f"trainer.{key} was removed in Lightning 2", why="with Lightning 2 the Trainer refuses it when it is made", message=died, fix=f"Use {now}." if now else "Remove it, or stay with Lightning 1.")  # fmt: skip
            continue
        near = nearest(key, known, cutoff=0.8)
        if near is not None and near not in trainer.fields:
            yield Problem(check="lightning.key", state="warn", file=document.name, line=line, what=f"trainer.{key} is no argument of the Trainer of {version_of('lightning')}", why="the Trainer refuses names that it does not know", message=died, fix=f"Did you mean {near}?")  # fmt: skip


def _unknown_overrides(document: Document, tree: Node, over: dict[str, Said], started: Started | None) -> Iterator[Problem]:  # fmt: skip
    """Overrides of keys that the file does not have: hydra refuses them without a `+`."""
    if tree.at("defaults") is not None or started is None:
        return
    name = started.launch.arguments.text("config-name", "cn")
    if name is not None and name.removesuffix(".yaml") != document.name.rpartition("/")[2].removesuffix(
        ".yml"
    ).removesuffix(".yaml"):
        return
    if name is None:
        return
    for path, said in over.items():
        if said.name.startswith("+") or tree.at(path) is not None:
            continue
        parent, _, key = path.rpartition(".")
        node = tree.at(parent) if parent else tree
        if node is None or node.kind != "map":
            continue
        near = nearest(key, frozenset(node.fields), cutoff=0.6)
        yield Problem(check="hydra.override", state="fail", file=said.file, line=said.line, what=f"{path} is set on the command line, and {document.name} has no such key", why="hydra changes keys that are there and adds new ones only with a + in front", message=f"Could not override '{path}'.\nTo append to your config use +{path}={said.value}\nKey '{key}' is not in struct", fix=f"Did you mean {parent}.{near}? Else write +{path}=…" if near else f"Write +{path}=…")  # fmt: skip


def _world(settings: _Settings, facts: Facts) -> int | None:
    """Ranks of the Trainer: devices times nodes; what the launch says where it says it."""
    if facts.world is not None:
        return facts.world
    devices, nodes = settings.whole("trainer.devices"), settings.whole("trainer.num_nodes")
    said = settings.said("trainer.num_nodes")
    if devices is None or devices < 1 or (said is not None and nodes is None):
        return None
    return devices * (nodes or 1)


def _shape(settings: _Settings, facts: Facts) -> Shape:
    given = {name: settings.said(f"model.{key}") for name, key in _SIZES.items()}
    if given["sequence"] is None:
        given["sequence"] = settings.said("model.seq_length")
    shape = Shape(prefix="nemo", file=settings.file, line=settings.tree.line_of("model"), world=_world(settings, facts))
    for name, said in given.items():
        setattr(shape, name, said)
    return shape


def _time(settings: _Settings, facts: Facts) -> Iterator[Problem]:
    for path in ("exp_manager.max_time_per_run", "trainer.max_time"):
        said = settings.said(path)
        if said is None or not isinstance(said.value, str) or facts.time_limit_s is None:
            continue
        parts = said.value.split(":")
        if len(parts) == 4 and all(p.isdigit() for p in parts):
            seconds = seconds_of(f"{int(parts[0])}-{':'.join(parts[1:])}")
            if seconds is not None and seconds >= facts.time_limit_s:
                yield Problem(check="nemo.time", state="warn", file=said.file, line=said.line, what=f"stops itself after {said.value}, and the job's time limit is not longer", why="the scheduler ends the job first, and the last checkpoint is not written", fix="Set it some minutes below the time limit.")  # fmt: skip


def check_lightning(started: Started, facts: Facts) -> Iterator[Problem]:
    """Devices and nodes of the Trainer against the tasks and nodes that SLURM starts."""
    launch = started.launch
    if launch.tool != "python" or launch.srun is None or not started.job.directives:
        return
    settings: list[_Settings] = [_Settings(d, overrides(started)) for d in facts.of_kind("nemo")]
    over = overrides(started)
    devices = settings[0].said("trainer.devices") if settings else over.get("trainer.devices")
    nodes = settings[0].said("trainer.num_nodes") if settings else over.get("trainer.num_nodes")
    trainer = bool(devices or nodes)
    each, machines = tasks_per_node(started), nodes_of(started)
    own = launch.srun.has("ntasks-per-node", "ntasks", "n", "nodes", "N")
    stated = started.job.asked("ntasks-per-node", "tasks-per-node") is not None
    if devices is not None and devices.whole is not None and devices.whole > 0 and stated and not own and each is not None and devices.whole != each:  # fmt: skip
        yield Problem(check="lightning.devices", state="fail", file=devices.file, line=devices.line, what=f"the Trainer has {devices.whole} devices a node, and SLURM starts {each} tasks on each", why="Lightning takes each task for one device and refuses other numbers", message=f"ValueError: You set `devices={devices.whole}` in Lightning, but the number of tasks per node configured in SLURM `--ntasks-per-node={each}` does not match. HINT: Set `devices={each}`.", fix=f"Set --ntasks-per-node={devices.whole}, or trainer.devices={each}.")  # fmt: skip
    if nodes is not None and nodes.whole is not None and machines is not None and not own and nodes.whole != machines:
        yield Problem(check="lightning.nodes", state="fail", file=nodes.file, line=nodes.line, what=f"the Trainer has {nodes.whole} nodes, and SLURM gives {machines}", why="Lightning refuses other numbers", message=f"ValueError: You set `num_nodes={nodes.whole}` in Lightning, but the number of nodes configured in SLURM `--nodes={machines}` does not match. HINT: Set `num_nodes={machines}`.", fix=f"Set trainer.num_nodes={machines}, or --nodes={nodes.whole}.")  # fmt: skip
    total = started.job.asked("ntasks")
    if trainer and total is not None and total.value not in {None, "1"} and not stated and not own:
        yield Problem(check="lightning.tasks", state="fail", file=started.file, line=total.line, what=f"--ntasks={total.value} without --ntasks-per-node", why="Lightning wants the tasks of each node", message=f"RuntimeError: You set `--ntasks={total.value}` in your SLURM bash script, but this variable is not supported. HINT: Use `--ntasks-per-node={total.value}` instead.", fix="Use --ntasks-per-node.")  # fmt: skip
    each_task = started.job.number("gpus-per-task")
    several = devices is not None and devices.whole is not None and each_task is not None and devices.whole > each_task
    asked = started.job.asked("gpus-per-task")
    if trainer and several and asked is not None and devices is not None:
        yield Problem(check="lightning.devices", state="warn", file=started.file, line=asked.line, what=f"each task is given {each_task} GPU alone, and the Trainer has {devices.whole} devices", why="newer versions of SLURM show a task only its own GPUs, and Lightning looks for all of the node", message=f"MisconfigurationException: You requested gpu: {list(range(devices.whole or 0))}\n But your machine only has: [0]", fix="Ask for GPUs by node: --gpus-per-node or --gres in place of --gpus-per-task.")  # fmt: skip
    gpus = gpus_per_node(started)
    if trainer and gpus is not None and devices is not None and devices.whole is not None and devices.whole > gpus:
        yield Problem(check="lightning.devices", state="fail", file=devices.file, line=devices.line, what=f"the Trainer has {devices.whole} devices a node, and the job asks for {gpus} GPUs on each", why="there is no device for some of the ranks", fix="Ask for as many GPUs.")  # fmt: skip
