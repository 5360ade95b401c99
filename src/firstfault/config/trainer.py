"""Arguments of the Hugging Face Trainer: against one another, against `ds_config.json`, and against accelerate's file.

Facts by transformers/training_args.py and transformers/integrations/deepspeed.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.config.accelerate import micro_batch
from firstfault.config.facts import Arguments, meant
from firstfault.config.known_keys import every, nearest, version_of, words
from firstfault.config.nouns import AUTO, Document, Problem, as_number, as_truth, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts, Said
    from firstfault.model.checks import CheckState

SHORT = 100
"""Steps up to which a run is a trial, of which little is lost."""
_DEFAULTS = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "max_grad_norm": 1.0,
    "learning_rate": 5e-5,
    "weight_decay": 0.0,
    "adam_epsilon": 1e-8,
}
_PAIRS = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
}
"""Setting of DeepSpeed -> argument of the Trainer that it must equal."""
_INTERVALS = frozenset({"no", "steps", "epoch"})
_STRATEGIES = {
    "eval_strategy": _INTERVALS,
    "evaluation_strategy": _INTERVALS,
    "logging_strategy": _INTERVALS,
    "save_strategy": _INTERVALS | {"best"},
}
"""Words that the Trainer knows (transformers/trainer_utils.py; `best` since 4.47)."""


def check_trainer(arguments: Arguments, facts: Facts) -> Iterator[Problem]:
    """All that is wrong with the arguments themselves."""
    yield from _best_model(arguments)
    yield from _precision(arguments)
    yield from _saving(arguments)
    yield from _sharding(arguments, facts)
    yield from _types(arguments)
    yield from _names(arguments, facts)


def _problem(arguments: Arguments, check: str, state: CheckState, line: int, what: str, **more: str) -> Problem:
    return problem(f"trainer.{check}", state, arguments.file, line, what, **more)


def _best_model(a: Arguments) -> Iterator[Problem]:
    if not a.truth("load_best_model_at_end"):
        return
    line = a.line_of("load_best_model_at_end")
    save = _strategy(a, "save_strategy", default="steps")
    evaluate = _strategy(a, "eval_strategy", "evaluation_strategy", default="no")
    if save is None or evaluate is None or save == "best":
        return
    said = f"- Evaluation strategy: {evaluate}\n- Save strategy: {save}"
    if save != evaluate:
        yield _problem(a, "best_model", "fail", line, f"the best model is to be loaded, but evaluation goes by {evaluate!r} and saving by {save!r}", why="without an evaluation for each save nobody knows which is the best: the arguments are refused at the start", message=f"ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found\n{said}", fix="Set eval_strategy and save_strategy alike (eval_strategy was called evaluation_strategy before 4.41).")  # fmt: skip
        return
    if save != "steps":
        return
    logging = a.number("logging_steps", 500)
    every_eval = a.number("eval_steps")
    every_eval = logging if every_eval is None and "eval_steps" not in a.given else every_eval
    every_save = a.number("save_steps", 500)
    if every_eval and every_save and every_eval >= 1 and every_save >= 1 and every_save % every_eval:
        yield _problem(a, "best_model", "fail", a.line_of("save_steps", "eval_steps", "load_best_model_at_end"), f"the best model is to be loaded, but saving is every {every_save:g} and evaluation every {every_eval:g} steps", why="some saves would have no evaluation", message=f"ValueError: --load_best_model_at_end requires the saving steps to be a round multiple of the evaluation steps, but found {every_save:g}, which is not a round multiple of {every_eval:g}.", fix="Make save_steps a multiple of eval_steps.")  # fmt: skip


def _strategy(a: Arguments, *names: str, default: str) -> str | None:
    """A strategy as the Trainer reads it; None where it is not known."""
    for name in names:
        if name in a.given:
            value = a.given[name].value
            if value is False:
                return "no"
            return str(value) if isinstance(value, str) and "$" not in value else None
    return default if a.whole else None


def _precision(a: Arguments) -> Iterator[Problem]:
    if a.truth("fp16") and a.truth("bf16"):
        yield _problem(a, "precision", "fail", a.line_of("bf16"), "fp16 and bf16 are both on", why="one of them at most", message="ValueError: At most one of fp16 and bf16 can be True, but not both", fix="Turn one of them off.")  # fmt: skip


def _saving(a: Arguments) -> Iterator[Problem]:
    steps, save = a.number("max_steps"), a.number("save_steps", 500)
    if steps is not None and steps > SHORT and save is not None and save > steps and _strategy(a, "save_strategy", default="steps") == "steps":  # fmt: skip
        yield _problem(a, "saving", "warn", a.line_of("save_steps", "max_steps"), f"saves every {save:g} steps, and the run has {steps:g}", why="nothing is saved before the end: whatever stops the run loses all of it", fix="Save more often.")  # fmt: skip
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps"):
        number = a.number(name)
        if number is not None and number < 1:
            yield _problem(a, "batch", "fail", a.line_of(name), f"{name} is {number:g}", why="it must be 1 or more", fix="Set 1 or more.")  # fmt: skip


def _sharding(a: Arguments, facts: Facts) -> Iterator[Problem]:
    if all(a.text(name) not in {None, "", "False", "list"} for name in ("fsdp", "deepspeed")):
        yield _problem(a, "sharding", "fail", a.line_of("fsdp"), "fsdp and deepspeed are both set", why="each of them shards the model; only one can", message="ValueError: Using --fsdp xxx together with --deepspeed is not possible, deactivate one of those flags.", fix="Remove one of them.")  # fmt: skip
    if not a.truth("gradient_checkpointing"):
        return
    for document in facts.of_kind("accelerate", "fsdp"):
        assert document.tree is not None
        prefix = "fsdp_config.fsdp_" if document.kind == "accelerate" else ""
        for path in (
            f"{prefix}activation_checkpointing",
            "fsdp_activation_checkpointing",
            "fsdp_config.activation_checkpointing",
        ):
            if document.tree.truth(path):
                yield Problem(check="trainer.checkpointing", state="fail", file=document.name, line=document.tree.line_of(path), what=f"activation checkpointing of FSDP is on, and gradient_checkpointing of {a.file} too", why="they exclude one another", message="ValueError: The activation_checkpointing in FSDP config and the gradient_checkpointing in training arg can't be set to True simultaneously", fix="Turn gradient_checkpointing off.")  # fmt: skip


def _types(a: Arguments) -> Iterator[Problem]:
    for said in a.given.values():
        name = said.name.lstrip("-").replace("-", "_")
        value = said.value
        if value is None or (isinstance(value, str) and "$" in value) or value in {"map", "list"}:
            continue
        choices = _STRATEGIES.get(name)
        if (
            choices is not None
            and isinstance(value, str)
            and value
            and value not in choices
            and as_truth(value) is not False
        ):
            near = nearest(value, choices, cutoff=0.6)
            yield _problem(a, "type", "fail", said.line, f"{said.name} is {value!r}, no strategy", why="the Trainer refuses words that it does not know", message=f"ValueError: {value!r} is not a valid IntervalStrategy, please select one of ['no', 'steps', 'epoch']", fix=f"Did you mean {near}?" if near else f"Choose one of {', '.join(sorted(choices))}.")  # fmt: skip
        if a.tree and isinstance(value, str) and as_number(value) is not None and name in words("training_arguments", "int") | words("training_arguments", "float"):  # fmt: skip
            yield _problem(a, "text", "warn", said.line, f"{said.name} is {value}, which is text here and no number", why="YAML 1.1, as PyYAML reads it, takes a number with an exponent for text unless it has a point and a sign (1.0e-4), and quotes make text of any: arguments that are read from a file are not converted, unless the program reads it by other means", message="TypeError: '<=' not supported between instances of 'float' and 'str'", fix="Write 1.0e-4 in place of 1e-4, and take quotes away.")  # fmt: skip
        if name in words("training_arguments", "int"):
            number = as_number(value)
            if number is None or (number != int(number)):
                yield _problem(a, "type", "fail", said.line, f"{said.name} is {value!r}, no whole number", why="the parser of the arguments refuses it", message=f"error: argument --{name}: invalid int value: '{value}'" if a.command_line else "", fix="Write a whole number.")  # fmt: skip
        elif name in words("training_arguments", "float") and as_number(value) is None:
            yield _problem(a, "type", "fail", said.line, f"{said.name} is {value!r}, no number", why="the parser of the arguments refuses it", message=f"error: argument --{name}: invalid float value: '{value}'" if a.command_line else "", fix="Write a number.")  # fmt: skip
        elif name in words("training_arguments", "bool") and as_truth(value) is None:
            yield _problem(a, "type", "fail", said.line, f"{said.name} is {value!r}, no truth value", why="the parser of the arguments refuses it", fix="Write true or false.")  # fmt: skip


def _names(a: Arguments, facts: Facts) -> Iterator[Problem]:
    """Names that are nearly those of arguments; others may belong to the program itself."""
    known = every("training_arguments")
    if a.tree:
        document = next(d for d in facts.documents if d.name == a.file and d.tree is not None)
        assert document.tree is not None
        listed = [(key, line) for key, line in document.tree.lines.items() if key not in known]
    else:
        listed = [(o.name.replace("-", "_"), o.line) for s in facts.started if s.file == a.file and s.launch.line == a.line for o in s.launch.arguments.options if o.dashes == 2]  # fmt: skip
        listed = [(key, line) for key, line in listed if key not in known]
    for key, line in listed:
        near = nearest(key, known, cutoff=0.9)
        # A parser takes the begin of a name for the name; a longer difference is a name of the program's own.
        short = a.command_line and near is not None and near.startswith(key)
        if near is not None and near not in a.given and abs(len(near) - len(key)) < 3 and not short:
            yield _problem(a, "key", "warn", line, f"{key} is no argument of {version_of('training_arguments')}", why="the parser refuses names that nobody knows, unless the program has it for its own", message=f"ValueError: Some specified arguments are not used by the HfArgumentParser: ['--{key}']", fix=f"Did you mean {near}?")  # fmt: skip


# --- against DeepSpeed


def check_against_deepspeed(a: Arguments, facts: Facts) -> Iterator[Problem]:
    """What the Trainer compares with `ds_config.json` before it starts, and refuses where it differs."""
    said = a.given.get("deepspeed")
    files = meant(facts.of_kind("deepspeed"), None if said is None or said.value is True else said.value)
    if said is None and not any(d.tree is not None and d.tree.at("deepspeed_config") is not None for d in facts.of_kind("accelerate")):  # fmt: skip
        return
    if said is not None and not files and isinstance(said.value, str) and "$" not in said.value:
        yield _problem(a, "deepspeed", "not_checkable", said.line, f"{said.value} was not given: give it too, so that it is held against these arguments")  # fmt: skip
    for document in files:
        yield from _compare(a, document, facts)


def _compare(a: Arguments, document: Document, facts: Facts) -> Iterator[Problem]:
    tree = document.tree
    assert tree is not None
    if tree.at("zero_optimization") is None:
        yield Problem(check="trainer.zero", state="fail", file=document.name, line=tree.line, what="has no zero_optimization", why="the Trainer takes a configuration of DeepSpeed with ZeRO only, be it stage 0", message="ValueError: Please specify the ZeRO optimization config in the DeepSpeed config.", fix='Add "zero_optimization": {"stage": 0}, or the stage that is meant.')  # fmt: skip
    yield from micro_batch(document)
    for path, name in _PAIRS.items():
        node = tree.at(path)
        if node is None or node.kind != "scalar" or node.value is None or node.quoted:
            continue
        ours, theirs = as_number(node.value), a.number(name, _DEFAULTS[name])
        if ours is not None and theirs is not None and ours != theirs:
            yield _mismatch(document, path, f"ds {path}={node.value} vs hf {name}={theirs:g}", f"{path} is {node.value}, and the Trainer's {name} is {theirs:g}{_where(a, name)}")  # fmt: skip
    yield from _compare_batch(a, document, facts)
    yield from _compare_precision(a, document)
    steps = tree.number("scheduler.params.total_num_steps")
    if steps is not None:
        known = a.number("max_steps")
        if steps <= 0 or (known is not None and known > 0 and known != steps):
            yield _mismatch(document, "scheduler.params.total_num_steps", f"ds scheduler.params.total_num_steps={steps:g} vs hf num_training_steps (calculated)={'…' if not known or known < 0 else f'{known:g}'}", f"total_num_steps is {steps:g}, and the Trainer counts its steps itself")  # fmt: skip


def _where(a: Arguments, name: str) -> str:
    if name in a.given:
        return f" ({a.file}:{a.given[name].line})"
    return f" by default, as {a.file} does not set it"


def _compare_batch(a: Arguments, document: Document, facts: Facts) -> Iterator[Problem]:
    tree = document.tree
    assert tree is not None
    ours = tree.whole("train_batch_size")
    each = a.number("per_device_train_batch_size", 8)
    steps = a.number("gradient_accumulation_steps", 1)
    if ours is None or each is None or steps is None or facts.world is None:
        return
    theirs = int(each * steps * facts.world)
    if ours != theirs:
        yield _mismatch(document, "train_batch_size", f"ds train_batch_size={ours} vs hf train_batch_size (calculated)={theirs}", f"train_batch_size is {ours}, and {each:g} a device x {steps:g} accumulated x {facts.world} ranks is {theirs}")  # fmt: skip


def _compare_precision(a: Arguments, document: Document) -> Iterator[Problem]:
    tree = document.tree
    assert tree is not None
    for section in ("fp16", "bf16"):
        node = tree.at(f"{section}.enabled")
        if node is None or node.quoted or not isinstance(node.value, bool):
            continue
        theirs = a.truth(section)
        full = a.truth(f"{section}_full_eval")
        if theirs is None or full is None:
            continue
        if node.value != (theirs or full):
            name = "fp16|fp16_full_eval+fp16_backend(amp)" if section == "fp16" else "bf16|bf16_full_eval"
            yield _mismatch(document, f"{section}.enabled", f"ds {section}.enabled={node.value} vs hf {name}={theirs or full}", f"{section}.enabled is {str(node.value).lower()}, and {section} is {'on' if theirs else 'off'}{_where(a, section)}")  # fmt: skip


def _mismatch(document: Document, path: str, said: str, what: str) -> Problem:
    assert document.tree is not None
    return Problem(check="trainer.mismatch", state="fail", file=document.name, line=document.tree.line_of(path), what=what, why="the Trainer compares both before the first step and refuses where they differ", message=f"ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n- {said}", fix=f'Write "{AUTO}" here: the Trainer then fills its own value in.')  # fmt: skip


def check_against_accelerate(a: Arguments, document: Document) -> Iterator[Problem]:
    """What accelerate hands to DeepSpeed from its own file, against the Trainer's arguments."""
    tree = document.tree
    assert tree is not None
    if tree.text("distributed_type") != "DEEPSPEED" or tree.text("deepspeed_config.deepspeed_config_file") is not None:
        return
    pairs: dict[str, tuple[str, Said | None]] = {
        "gradient_accumulation_steps": ("gradient_accumulation_steps", a.given.get("gradient_accumulation_steps")),
        "gradient_clipping": ("max_grad_norm", a.given.get("max_grad_norm")),
    }
    for key, (name, given) in pairs.items():
        ours = tree.number(f"deepspeed_config.{key}")
        theirs = a.number(name, _DEFAULTS[name])
        if ours is not None and theirs is not None and ours != theirs:
            path = f"deepspeed_config.{key}"
            del given
            yield _mismatch(document, path, f"ds {key}={ours:g} vs hf {name}={theirs:g}", f"{key} is {ours:g}, and the Trainer's {name} is {theirs:g}{_where(a, name)}")  # fmt: skip
