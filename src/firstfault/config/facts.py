"""What the files of one job say together: ranks, nodes, time limit, and the Trainer's arguments wherever they stand.

Joins and counts; it judges nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.config.known_keys import every
from firstfault.config.launch import Job, Launch
from firstfault.config.nouns import Document, as_number, as_truth, as_whole, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.config.nouns import Options

_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_TRAINER = frozenset(
    {"per_device_train_batch_size", "output_dir", "num_train_epochs", "gradient_accumulation_steps", "save_strategy"}
)


class Said(Struct, frozen=True):
    """One setting where it stands."""

    name: str
    """As it is written there."""
    value: object
    file: str
    line: int

    @property
    def whole(self) -> int | None:
        """Its value as a whole number."""
        return as_whole(as_number(self.value))


class Arguments(Struct):
    """Arguments of the Hugging Face Trainer, from a file or a command line."""

    file: str
    line: int
    given: dict[str, Said]
    whole: bool
    """Whether all arguments are known, so that what is not there has its default."""
    command_line: bool
    tree: bool = False

    def number(self, name: str, default: float | None = None) -> int | float | None:
        """The number of an argument; its default where it is not given and all are known."""
        said = self.given.get(name)
        if said is not None:
            return as_number(said.value)
        return default if self.whole else None

    def truth(self, name: str) -> bool | None:
        """The truth value of an argument; false where it is not given."""
        said = self.given.get(name)
        if said is None:
            return False if self.whole else None
        return as_truth(said.value)

    def text(self, name: str, default: str | None = None) -> str | None:
        """The text of an argument; its default where it is not given and all are known."""
        said = self.given.get(name)
        if said is not None:
            return None if said.value is None else str(said.value)
        return default if self.whole else None

    def line_of(self, *names: str) -> int:
        """The line of the first of these that is given, else where the arguments begin."""
        return next((self.given[n].line for n in names if n in self.given), self.line)


class Started(Struct):
    """One launch with the file that holds it."""

    file: str
    job: Job
    launch: Launch


class Facts(Struct):
    """All that is known of the job."""

    documents: list[Document]
    started: list[Started] = field(default_factory=list)
    trainers: list[Arguments] = field(default_factory=list)
    world: int | None = None
    world_from: str = ""
    time_limit_s: int | None = None
    step_s: float | None = None
    """Seconds of one step, where the caller knows."""

    def of_kind(self, *kinds: str) -> list[Document]:
        """The documents of some kinds that could be read."""
        return [d for d in self.documents if d.kind in kinds and d.tree is not None]


def gather(documents: list[Document], world: int | None, step_s: float | None = None) -> Facts:
    """What the documents of one job say together.

    Args:
        documents: in the order in which they were given.
        world: ranks, where the caller knows.
        step_s: seconds of one step, where the caller knows.
    """
    facts = Facts(documents, step_s=step_s)
    for document in documents:
        if isinstance(document.script, Job):
            facts.started += [Started(document.name, document.script, launch) for launch in document.script.launches]
            limit = document.script.asked("time")
            if limit is not None and limit.value:
                facts.time_limit_s = seconds_of(limit.value)
        if document.kind == "training_arguments" and document.tree is not None:
            given = {k: Said(k, n.value if n.kind == "scalar" else n.kind, document.name, document.tree.lines[k]) for k, n in document.tree.fields.items()}  # fmt: skip
            facts.trainers.append(Arguments(document.name, 1, given, whole=True, command_line=False, tree=True))
    for started in facts.started:
        arguments = trainer_arguments(started)
        if arguments is not None:
            facts.trainers.append(arguments)
    _count(facts, world)
    return facts


def trainer_arguments(started: Started) -> Arguments | None:
    """The Trainer's arguments of a launch; None where it has none."""
    options = started.launch.arguments
    known = every("training_arguments")
    names = {plain(o.name) for o in options.options}
    if not (names & _TRAINER and len(names & known) > 1):
        return None
    given = {}
    for option in options.options:
        name = plain(option.name)
        if name in known:
            value: object = True if not option.values else option.text if option.text is not None else "$"
            given[name] = Said(f"--{option.name}", value, started.file, option.line)
        elif name.startswith("no_") and name[3:] in known:
            given[name[3:]] = Said(f"--{option.name}", False, started.file, option.line)  # noqa: FBT003 - a value
    return Arguments(started.file, started.launch.line, given, whole=options.whole, command_line=True)


def _count(facts: Facts, world: int | None) -> None:
    """The ranks of the job and what states them."""
    if world is not None:
        facts.world, facts.world_from = world, "--world-size"
        return
    counts: dict[int, str] = {}
    for started in facts.started:
        number = ranks_of(started, facts)
        if number is not None:
            counts.setdefault(number, f"{started.file}:{started.launch.line}")
    if len(counts) == 1:
        (facts.world, facts.world_from) = next(iter(counts.items()))
    if not counts and not facts.started:
        for document in facts.of_kind("accelerate"):
            assert document.tree is not None
            facts.world = document.tree.whole("num_processes")
            facts.world_from = f"{document.name}:{document.tree.line_of('num_processes')}" if facts.world is not None else ""  # fmt: skip


def ranks_of(started: Started, facts: Facts) -> int | None:
    """The ranks that one launch starts; None where they are not stated."""
    launch, options = started.launch, started.launch.options
    match launch.tool:
        case "torchrun":
            nodes, each = count(options, "nnodes"), count(options, "nproc_per_node")
            return None if nodes is None or each is None else nodes * each
        case "deepspeed":
            return _deepspeed_ranks(options)
        case "accelerate":
            given = options.get("num_processes")
            if given is not None:
                return options.whole_number("num_processes")
            files = [d for d in facts.of_kind("accelerate") if _is_file(options.text("config_file"), d.name)]
            return files[0].tree.whole("num_processes") if files and files[0].tree is not None else None
        case "mpirun":
            return options.whole_number("np", "n", "c")
        case "python":
            tasks, nodes = tasks_per_node(started), nodes_of(started)
            if launch.srun is None:
                return None
            every_task = _asked(started, "ntasks", "n")
            return every_task if every_task is not None else None if tasks is None or nodes is None else tasks * nodes


def count(options: Options, name: str) -> int | None:
    """A number of torchrun: 1 where it is not given, None where it is not a plain number."""
    option = options.get(name)
    if option is None:
        return 1 if options.whole else None
    return options.whole_number(name)


def _deepspeed_ranks(options: Options) -> int | None:
    include = options.text("include", "i")
    if include is not None:
        hosts = include.split("@")
        slots = [host.partition(":")[2] for host in hosts]
        return sum(len(s.split(",")) for s in slots) if all(slots) else None
    if options.has("hostfile", "H") and not options.has("num_nodes"):
        return None
    gpus = options.whole_number("num_gpus", "num_accelerators")
    nodes = options.whole_number("num_nodes") if options.has("num_nodes") else 1
    return None if gpus is None or nodes is None else gpus * nodes


def _asked(started: Started, name: str, short: str = "") -> int | None:
    srun = started.launch.srun
    if srun is not None and srun.has(name, *([short] if short else [])):
        return srun.whole_number(name, *([short] if short else []))
    return started.job.number(name)


def nodes_of(started: Started) -> int | None:
    """The nodes on which a step runs; 1 where nothing is asked for, None where it is not a plain number."""
    srun, job = started.launch.srun, started.job
    if srun is not None and srun.has("nodes", "N"):
        return srun.whole_number("nodes", "N")
    if job.several:
        return None
    if job.asked("nodes") is None:
        return 1 if job.directives and job.asked("nodelist", "nodefile", "ntasks") is None else None
    return job.number("nodes")


def tasks_per_node(started: Started) -> int | None:
    """The tasks of a step on each node; None where they are not stated."""
    each = _asked(started, "ntasks-per-node")
    if each is None and started.job.asked("tasks-per-node") is not None:
        each = started.job.number("tasks-per-node")
    total, nodes = _asked(started, "ntasks", "n"), nodes_of(started)
    if total is not None and nodes:
        # A number of tasks goes before tasks a node, which then are only the most that one takes.
        return -(-total // nodes)
    if each is not None:
        return each
    unstated = started.job.asked(
        "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu", "ntasks-per-core", "ntasks-per-socket"
    )
    own = started.launch.srun is not None and started.launch.srun.has(
        "ntasks", "n", "ntasks-per-node", "ntasks-per-gpu"
    )
    return 1 if unstated is None and not own and nodes is not None else None


def gpus_per_node(started: Started) -> int | None:
    """The GPUs of each node that are asked for; None where they are not stated."""
    job = started.job
    for name in ("gpus-per-node", "gres"):
        asked = job.asked(name)
        if asked is not None and asked.value is not None:
            return _gpus_in(asked.value, gres=name == "gres")
    each, tasks = job.asked("gpus-per-task"), tasks_per_node(started)
    if each is not None and each.value is not None and tasks is not None:
        number = _gpus_in(each.value, gres=False)
        return None if number is None else number * tasks
    total, nodes = job.asked("gpus"), nodes_of(started)
    if total is not None and total.value is not None and nodes:
        number = _gpus_in(total.value, gres=False)
        return number // nodes if number is not None and number % nodes == 0 else None
    return None


def _gpus_in(text: str, *, gres: bool) -> int | None:
    """The number of GPUs in `gpu:a100:8`, `gpu:8`, `a100:8`, `8`."""
    for part in text.split(","):
        pieces = part.split(":")
        if gres and pieces[0] != "gpu":
            continue
        if gres and len(pieces) == 1:
            return 1
        number = re.match(r"\d+", pieces[-1])
        return int(number.group()) if number else None
    return None


def seconds_of(text: str) -> int | None:
    """A time limit of SLURM in seconds: minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s; None where it is none of these."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = (None if g is None else int(g) for g in match.groups())
    if days is not None:
        return ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60 + (third or 0)
    if third is not None:
        return ((first or 0) * 60 + (second or 0)) * 60 + third
    return (first or 0) * 60 + (second or 0)


def _is_file(path: str | None, name: str) -> bool:
    """Whether a path in a command means a file that was given; without a path any does."""
    if path is None:
        return True
    return path.rpartition("/")[2] == name.rpartition("/")[2]


def same_file(path: object, name: str) -> bool:
    """Whether a path in a setting means a file that was given, by its last part."""
    return isinstance(path, str) and bool(path) and _is_file(path, name)


def meant(files: Iterable[Document], path: object) -> list[Document]:
    """The documents that a path means; all, where only one is there and the path is not known."""
    listed = list(files)
    named = [d for d in listed if same_file(path, d.name)]
    if named:
        return named
    unknown = path is None or not isinstance(path, str) or "$" in path
    return listed if len(listed) == 1 and unknown else []
