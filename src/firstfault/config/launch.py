"""What a script starts: launcher, ranks, nodes, the program and its arguments; and what its `#SBATCH` lines ask for.

Reads numbers only; whether they fit is `slurm` and `ranks`' to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from firstfault.config.known_keys import every, table, words
from firstfault.config.nouns import Option, Options, Word, options_of, plain
from firstfault.config.shell import Script, read_script
from firstfault.config.shell_words import Cutter

if TYPE_CHECKING:
    from firstfault.config.shell import Command

Tool = Literal["torchrun", "deepspeed", "accelerate", "mpirun", "python"]
_DIRECTIVE = re.compile(r"^#SBATCH(?=[\s-]|$)(.*)$")
_PARTS = frozenset({"hetjob", "packjob"})
"""What stands between the parts of a heterogeneous job (SLURM's documentation; `packjob` until 19.05)."""
FILLED_IN = r"\{\{.*?\}\}|\{%.*?%\}|\$\{\{.*?\}\}|<[^<>]*>|\{[A-Za-z_][\w.]*\}|@[A-Za-z_]\w*@|%\([A-Za-z_]\w*\)[sd]"
"""Places of a template that something else fills in: Jinja, `str.format`, CMake, `%`, and those for a person."""
_SHELLS = frozenset({"bash", "sh", "zsh"})
_AROUND = frozenset(
    {"nohup", "time", "exec", "eval", "env", "numactl", "taskset", "nice", "stdbuf", "setsid", "sudo", "uv", "poetry", "run", "pipenv", "timeout", "command"}
)  # fmt: skip
_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torchrun": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_ENTRIES = frozenset(
    {"llamafactory-cli", "swift", "megatron", "nemo", "xtuner", "axolotl", "trl", "tune", "fairseq-train"}
)
"""Programs of their own that take a trainer's options."""
_LAUNCHER_FLAGS = frozenset(
    {"standalone", "no_python", "module", "m", "run_path", "multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "debug", "cpu", "no_local_rank", "no_ssh", "force_multi", "enable_each_rank_log", "bind_cores_to_rank", "use_env", "same_network", "quiet", "tpu", "u", "oversubscribe", "allow_run_as_root"}
)  # fmt: skip
_WRAPPERS = frozenset({"singularity", "apptainer", "enroot", "conda", "nsys", "ncu", "shifter", "podman-hpc"})
"""Programs with options and names of their own before the program that they run."""
_REMOTE = frozenset({"ssh", "pdsh", "parallel", "clush", "kubectl", "docker", "ray"})


class Directive(Struct, frozen=True):
    """One option of an `#SBATCH` line."""

    name: str
    """Its long name, where it is known."""
    written: str
    value: str | None
    line: int


class Launch(Struct):
    """One start of a training program."""

    tool: Tool
    line: int
    options: Options
    """Of the launcher."""
    program: str
    """Script or module; empty where it was not found."""
    arguments: Options
    """Of the program."""
    words: list[Word] = field(default_factory=list)
    """All words behind the program."""
    srun: Options | None = None
    """Options of srun, where it is started by it."""
    remote: bool = False
    """Whether another program carries it to other machines."""
    sure: bool = True
    environment: dict[str, Word] = field(default_factory=dict)


class Job(Struct):
    """A script and what it asks the scheduler for."""

    script: Script
    launches: list[Launch] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    late: list[Directive] = field(default_factory=list)
    """Directives behind the first command, which are not read."""
    first_command: int = 0
    odd: list[Word] = field(default_factory=list)
    """Words in directives that are no options."""
    several: bool = False
    """Whether it is a heterogeneous job, whose parts each ask for their own."""

    def asked(self, *names: str) -> Directive | None:
        """The last directive of one of these names; None in a heterogeneous job, where it holds for one part alone."""
        found = [] if self.several else [d for d in self.directives if d.name in names]
        return found[-1] if found else None

    def number(self, *names: str) -> int | None:
        """The number that a directive asks for."""
        found = self.asked(*names)
        return None if found is None or found.value is None or not found.value.isdigit() else int(found.value)


def long_name(option: Option) -> str:
    """The long name of an option of sbatch."""
    name = option.name
    if option.dashes == 1 and name[:1] in table("sbatch")["short"]:
        return str(table("sbatch")["short"][name[:1]])
    return name.replace("_", "-")


def read_job(text: str) -> Job:
    """A script with its directives and launches."""
    directives, late, odd, first = _directives(text, _inside(text))
    several = any(word.text in _PARTS for word in odd)
    odd = [word for word in odd if word.text not in _PARTS]
    asked = {} if several else {d.name: d.value for d in directives if d.value is not None}
    known = {}
    for variable, names in (
        ("SLURM_NNODES", ("nodes",)),
        ("SLURM_JOB_NUM_NODES", ("nodes",)),
        ("SLURM_NTASKS", ("ntasks",)),
        ("SLURM_NPROCS", ("ntasks",)),
        ("SLURM_NTASKS_PER_NODE", ("ntasks-per-node",)),
        ("SLURM_GPUS_PER_NODE", ("gpus-per-node",)),
        ("SLURM_CPUS_PER_TASK", ("cpus-per-task",)),
    ):
        value = next((asked[n] for n in names if n in asked), None)
        if value is not None and value.isdigit():
            known[variable] = value
    script = read_script(text, known)
    job = Job(script, directives=directives, late=late, odd=odd, first_command=first, several=several)
    for command in script.commands:
        launch = _launch(command.words, command)
        if launch is not None:
            job.launches.append(launch)
    return job


def _inside(text: str) -> frozenset[int]:
    """Lines of here-documents, which are no lines of this script."""
    if "<<" not in text:
        return frozenset()
    heres = [raw for raw in Cutter(text).pieces() if raw.kind == "here"]
    return frozenset(n for raw in heres for n in range(raw.line, raw.line + raw.text.count("\n") + 1))


def _directives(text: str, skip: frozenset[int]) -> tuple[list[Directive], list[Directive], list[Word], int]:
    before: list[Directive] = []
    after: list[Directive] = []
    odd: list[Word] = []
    first = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.match(line)
        if number in skip:
            continue
        if match is None:
            if line.strip() and not line.lstrip().startswith("#") and not first:
                first = number
            continue
        said = _split(match[1], number)
        flags = frozenset(plain(w) for w in words("sbatch", "flag") | words("sbatch", "optional"))
        options = options_of(said, flags | _short_flags())
        for option in options.options:
            name, value = long_name(option), option.values[0].text if option.values else None
            if option.dashes == 1 and len(option.name) > 1:
                value = option.name[1:]
            (after if first else before).append(Directive(name, option.name, value, number))
            odd += [] if first else option.values[1:]
        odd += [] if first else options.rest
    return before, after, odd, first


def _short_flags() -> frozenset[str]:
    flags = words("sbatch", "flag") | words("sbatch", "optional")
    return frozenset(short for short, name in table("sbatch")["short"].items() if name in flags)


def _split(text: str, line: int) -> list[Word]:
    """Words of a directive: quotes hold them together, `#` ends them."""
    found = []
    for match in re.finditer(rf"""(?:{FILLED_IN}|[^\s"']|"[^"]*"|'[^']*')+""", text):
        word = match.group()
        if word.startswith("#"):
            break
        found.append(Word(word.replace('"', "").replace("'", ""), line))
    return found


def _launch(said: list[Word], command: Command) -> Launch | None:
    srun: Options | None = None
    remote = False
    rest = list(said)
    ranks: Options | None = None
    while rest:
        name = rest[0].text.rpartition("/")[2]
        if re.match(r"[A-Za-z_]\w*=", rest[0].text) or name in _AROUND:
            rest = _past(rest)
        elif name in _WRAPPERS:
            rest = rest[_program(rest, 1, around=False) :]
        elif name == "srun":
            cut = _program(rest, 1)
            srun = options_of(rest[1:cut], _srun_flags())
            rest = rest[cut:]
        elif name in {"mpirun", "mpiexec", "orterun"}:
            cut = _program(rest, 1)
            ranks = options_of(rest[1:cut], _LAUNCHER_FLAGS)
            rest = rest[cut:]
        elif name in _REMOTE:
            remote = True
            rest = rest[_program(rest, 1) :]
        elif name in _SHELLS:
            inner = next((w for w, flag in zip(rest[1:], rest, strict=False) if flag.text in {"-c", "-lc", "-cl", "-xc", "-ec"}), None)  # fmt: skip
            if inner is None:
                return None
            nested = read_script(inner.text, {})
            starts = [c for c in nested.commands if _launch(c.words, c) is not None]
            if not starts:
                return None
            rest = [Word(w.text, w.line + inner.line - 1) for w in starts[-1].words]
        else:
            break
    found = _tool(rest)
    if found is None:
        return None
    tool, start = found
    if tool == "python" and ranks is not None:
        tool = "mpirun"
    launch = _arguments(rest, tool, start)
    launch.line = rest[0].line or command.line
    launch.srun, launch.remote, launch.sure, launch.environment = srun, remote, command.sure, command.environment
    if ranks is not None and tool == "mpirun":
        launch.options = ranks
    return launch


def _past(rest: list[Word]) -> list[Word]:
    """Leaves a wrapper and its own options behind."""
    rest = rest[1:]
    while rest and (rest[0].text.startswith("-") or not rest[0].known or _number_like(rest[0].text)):
        rest = rest[1:]
    return rest


def _number_like(text: str) -> bool:
    return bool(re.fullmatch(r"[\d.,:-]+[smhd]?", text))


def _srun_flags() -> frozenset[str]:
    flags = {"kill-on-bad-exit", "unbuffered", "label", "exact", "overlap", "no-kill", "pty", "mpi", "K", "u", "l"} | words("sbatch", "flag")  # fmt: skip
    return frozenset(plain(f) for f in flags - {"mpi", "kill-on-bad-exit"})


def _program(said: list[Word], at: int, *, around: bool = True) -> int:
    """Where the words of the next program begin.

    Args:
        said: words of a command.
        at: the first that is looked at.
        around: whether words that only stand in front of a program count as one.
    """
    for count in range(at, len(said)):
        name = said[count].text.rpartition("/")[2]
        known = name in _SHELLS or name in _ENTRIES or name in {"torchrun", "deepspeed", "accelerate", "srun"}
        known = known or (around and (name in _AROUND or name in _WRAPPERS))
        if known or _PYTHON.fullmatch(said[count].text) or name.endswith((".py", ".sh")):
            return count
    return len(said)


def _tool(rest: list[Word]) -> tuple[Tool, int] | None:
    """The launcher and where its options begin."""
    if not rest:
        return None
    name = rest[0].text.rpartition("/")[2]
    if name in {"torchrun", "deepspeed"}:
        return ("torchrun" if name == "torchrun" else "deepspeed"), 1
    if name == "accelerate" and len(rest) > 1 and rest[1].text == "launch":
        return "accelerate", 2
    if name in _ENTRIES:
        return "python", 0
    if not _PYTHON.fullmatch(rest[0].text):
        return ("python", 0) if name.endswith(".py") else None
    for count, word in enumerate(rest[1:], 1):
        if word.text == "-m" and count + 1 < len(rest) and rest[count + 1].text in _MODULES:
            return _MODULES[rest[count + 1].text], count + 2  # type: ignore[return-value]
        if word.text == "-m" or word.text.endswith(".py") or not word.text.startswith("-"):
            return "python", count
    return None


def _arguments(rest: list[Word], tool: Tool, start: int) -> Launch:
    cut = start
    while cut < len(rest):
        text = rest[cut].text
        name = text.rpartition("/")[2]
        if text.endswith(".py") or name in _ENTRIES or (text in {"-m", "--module"} and tool != "accelerate"):
            break
        if tool == "python" and not text.startswith("-"):
            break
        cut += 1
    options = options_of(rest[start:cut], _LAUNCHER_FLAGS)
    if tool == "torchrun" and cut == len(rest):
        # The program is in a variable: what follows the last value of an option of the launcher.
        options, cut = _cut_by_options(rest, start)
    program = rest[cut].text if cut < len(rest) else ""
    behind = cut + 1
    if program in {"-m", "--module"} and cut + 1 < len(rest):
        program, behind = rest[cut + 1].text, cut + 2
    arguments = rest[behind:]
    return Launch(tool, rest[0].line, options, program, program_options(arguments), arguments)


def _cut_by_options(rest: list[Word], start: int) -> tuple[Options, int]:
    at = start
    while at < len(rest) and rest[at].text.startswith("-"):
        name = rest[at].text
        at += 1 if "=" in name or plain(name) in _LAUNCHER_FLAGS else 2
    return options_of(rest[start:at], _LAUNCHER_FLAGS), min(at, len(rest))


def program_options(arguments: list[Word]) -> Options:
    """The options of a training program, whichever it is."""
    flags = frozenset(plain(f) for f in every("megatron") & words("megatron", "flag"))
    # Truth values behind the Trainer's switches are taken as their values.
    return options_of(arguments, flags - {plain(b) for b in words("training_arguments", "bool")})


def whole_of(text: str | None) -> int | None:
    """A whole number that is written alone."""
    return int(text) if text is not None and text.isdigit() else None
