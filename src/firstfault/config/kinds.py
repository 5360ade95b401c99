"""Whose settings a file holds, found by its content, and the file read by the reader of its format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.config.json_text import UnreadableError, read_json
from firstfault.config.known_keys import every, words
from firstfault.config.launch import Job, read_job
from firstfault.config.nouns import Document, Node, Problem
from firstfault.config.script_form import script_problems
from firstfault.config.toml_text import read_toml
from firstfault.config.yaml_text import read_yaml

if TYPE_CHECKING:
    from firstfault.model.config import ConfigKind

_SCRIPT = re.compile(
    r"^#!|^#SBATCH\b|^\s*(?:export \w+=|srun |torchrun |deepspeed |accelerate launch |python3? )", re.MULTILINE
)
_ARGUMENTS = re.compile(r"\s*(?:--?[A-Za-z][\w.-]*(?:[ =][^\n]*)?\s*|#[^\n]*|[^\s-][^\n]*|)\Z")
_TABLE = re.compile(r"^\[[\w.\"-]+\]\s*(?:#.*)?$", re.MULTILINE)
_KEY = re.compile(r"^[\w\"'./-]+\s*:(?:\s|$)", re.MULTILINE)
_DEEPSPEED = frozenset(
    {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "zero_allow_untested_optimizer"}
)
_TRAINER = frozenset(
    {"output_dir", "per_device_train_batch_size", "num_train_epochs", "learning_rate", "gradient_accumulation_steps"}
)
_OF_OTHERS = frozenset({"base_model", "micro_batch_size", "sequence_len", "base_model_config"})
"""Keys of trainers that share names with the Hugging Face Trainer and read them in their own way (axolotl)."""
_OF_OTHER_TRAINERS = frozenset({"n_gpus_per_node", "total_epochs", "nnodes", "save_freq", "test_freq"})
"""Keys below `trainer` of programs that are not Lightning (verl)."""
_FSDP = frozenset({"transformer_layer_cls_to_wrap", "backward_prefetch", "limit_all_gathers", "sync_module_states", "use_orig_params", "min_num_params", "cpu_ram_efficient_loading", "forward_prefetch"})  # fmt: skip
_SCRIPTS = (".sh", ".slurm", ".sbatch", ".bash", ".job", ".cmd")


def read_document(name: str, text: str) -> list[Document]:
    """Reads a file; a script may hold further ones that it writes.

    Args:
        name: as it is shown.
        text: of the file, or a command line.

    Returns:
        The file first. What cannot be read is a problem of the document.
    """
    lower = name.lower()
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        # Programs that read YAML take such a file by YAML's rules (gpt-neox): comments, and True as a word.
        return [_tree(name, text, "yaml" if lower.endswith((".yaml", ".yml")) else "json")]
    # A launch of a trainer may stand in a YAML of a cluster, too, but a key at the begin of a line is no shell.
    if lower.endswith(".toml") or (_TABLE.search(text) and not _SCRIPT.search(text)):
        return [_tree(name, text, "toml")]
    if lower.endswith((".yaml", ".yml")) or (
        not lower.endswith(_SCRIPTS) and not _SCRIPT.search(text) and _KEY.search(text)
    ):
        return [_tree(name, text, "yaml")]
    return _script(name, text)


def _tree(name: str, text: str, form: str) -> Document:
    read = {"json": read_json, "toml": read_toml, "yaml": read_yaml}[form]
    try:
        node, problems = read(text)
    except UnreadableError as error:
        # Values that something else fills in, and rows of values, are no settings to be held against anything yet.
        loose = (form == "json" and "$" in text) or "fill in" in error.what or (_guess(text) == "unknown" and "goes on" in error.what)  # fmt: skip
        problem = Problem(
            check="file.form",
            state="not_checkable" if "not installed" in error.what or loose else "fail",
            file=name,
            line=error.line,
            what=error.what,
            why="whoever reads this file stops at this place"
            if not loose
            else "it may hold variables that something else fills in",
            fix="Install PyYAML: `pip install pyyaml`." if "not installed" in error.what else "Correct the line.",
        )
        return Document(name, _guess(text), problems=[problem])
    kind = kind_of(node)
    if kind == "unknown":
        problems = []
    elif kind not in {"deepspeed", "nemo"}:
        # Only DeepSpeed and hydra refuse a key that is set twice; others take the later value.
        problems = [_as_warning(p) for p in problems]
    return Document(name, kind, node, problems=[_named(p, name) for p in problems])


def _named(problem: Problem, name: str) -> Problem:
    return Problem(**{f: getattr(problem, f) for f in problem.__struct_fields__ if f != "file"}, file=name)


def _as_warning(problem: Problem) -> Problem:
    fields = {f: getattr(problem, f) for f in problem.__struct_fields__ if f != "state"}
    return Problem(**fields, state="warn")


def _guess(text: str) -> ConfigKind:
    """The kind of a file that cannot be read."""
    if any(f'"{key}"' in text for key in _DEEPSPEED):
        return "deepspeed"
    return "accelerate" if "distributed_type" in text else "unknown"


def kind_of(node: Node) -> ConfigKind:
    """Whose settings a map holds."""
    if node.kind != "map":
        return "unknown"
    keys = set(node.fields)
    if "distributed_type" in keys or "compute_environment" in keys:
        return "accelerate"
    if keys & _DEEPSPEED or any(node.fields[k].kind == "map" for k in keys & {"fp16", "bf16"}):
        return "deepspeed"
    trainer = node.fields.get("trainer")
    if trainer is not None and trainer.kind == "map" and set(trainer.fields) & (words("lightning", "trainer") | words("lightning", "removed_in_2")):  # fmt: skip
        return "unknown" if set(trainer.fields) & _OF_OTHER_TRAINERS else "nemo"
    if "parallelism" in keys and keys & every_section() and "training" in keys:
        return "torchtitan"
    if keys & every_section() >= {"job", "model"} or keys & every_section() >= {"training", "model", "optimizer"}:
        return "torchtitan"
    if {"num_machines", "num_processes"} <= keys or {"num_processes", "mixed_precision"} <= keys:
        return "accelerate"
    if len(keys & _OF_OTHERS) > 1:
        return "unknown"
    if keys & _TRAINER and len(keys & every("training_arguments")) > 1:
        return "training_arguments"
    if keys & _FSDP or any(k.startswith("fsdp_") for k in keys):
        return "fsdp"
    return "unknown"


def every_section() -> frozenset[str]:
    """Sections of a TOML file of torchtitan."""
    from firstfault.config.known_keys import table

    return frozenset(name for name in table("torchtitan")["sections"] if "." not in name)


def _script(name: str, text: str, *, embedded: bool = False) -> list[Document]:
    lines = text.split("\n")
    bare = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    arguments = bool(bare) and all(line.lstrip().startswith("-") for line in bare[:1]) and not _SCRIPT.search(text)
    job = read_job("train.py \\\n" + _joined(text) if arguments else text)
    if arguments:
        _lift(job)
    kind: ConfigKind = "slurm" if job.directives or job.late else "arguments" if arguments else "script"
    problems = [_named(p, name) for p in job.script.problems]
    if not embedded and (kind == "slurm" or text.startswith("#!") or name.lower().endswith(_SCRIPTS)):
        problems += script_problems(name, text, batch=kind == "slurm")
    found = [Document(name, kind if job.launches or kind == "slurm" else "unknown", script=job, problems=problems)]
    for part in job.script.embedded:
        if "#SBATCH" in part.text:
            # Its lines are counted where they stand in this script.
            inner = _script(part.name or "(here-document)", "\n" * (part.line - 1) + part.text, embedded=True)[0]
            inner.embedded = name
            found.append(inner)
            continue
        if not part.text.lstrip().startswith("{"):
            continue
        inner = _tree(part.name or "(here-document)", part.text, "json")
        if inner.tree is None:
            inner = _tree(part.name, _quoted_variables(part.text), "json")
        inner.embedded = name
        _shift(inner, name, part.line - 1)
        found.append(inner)
    return found


def _quoted_variables(text: str) -> str:
    """Puts quotes around variables that stand alone, so that what is around them can be read."""
    return re.sub(r"(?<=[:\[,])(\s*)(\$\{?\w+\}?)(?=\s*[,}\]\n])", r'\1"\2"', text)


def _joined(text: str) -> str:
    """Lines of an arguments file as one command."""
    return "".join(f"{line.rstrip().rstrip(chr(92))} \\\n" if not line.lstrip().startswith("#") else "\\\n" for line in text.split("\n"))  # fmt: skip


def _lift(job: Job) -> None:
    """Takes back the line that was put before an arguments file."""
    for launch in job.launches:
        for option in launch.arguments.options:
            option.line = max(option.line - 1, 1)
        launch.line = 1


def _shift(document: Document, name: str, by: int) -> None:
    """Counts lines of a file inside a script as those of the script."""

    def move(node: Node) -> None:
        node.line += by
        node.lines = {key: line + by for key, line in node.lines.items()}
        for below in (*node.fields.values(), *node.items):
            move(below)

    if document.tree is not None:
        move(document.tree)
    moved = []
    for problem in document.problems:
        fields = {f: getattr(problem, f) for f in problem.__struct_fields__ if f not in {"line", "file"}}
        moved.append(Problem(**fields, line=(problem.line or 1) + by, file=name))
    document.problems = moved
