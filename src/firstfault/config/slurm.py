"""`#SBATCH` lines, and what a script starts against what it asks for: tasks, nodes, GPUs, addresses, time.

Facts by slurm_opt.c and sbatch/opt.c of SLURM and torch/distributed/run.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.config.facts import Started, count, gpus_per_node, nodes_of, tasks_per_node
from firstfault.config.known_keys import nearest, table, version_of, words
from firstfault.config.launch import FILLED_IN, Directive, Job
from firstfault.config.nouns import HIGHEST_PORT, Document, Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.config.facts import Facts
    from firstfault.model.checks import CheckState

_MEMORY = re.compile(r"\d+(?:\.\d+)?[KMGT]?B?", re.IGNORECASE)
_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE)
_MEMORY_OPTIONS = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})
_FILLED_IN = re.compile(FILLED_IN)
_OF_GPUS = frozenset({"gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"})
_WHOLE = frozenset({"ntasks", "ntasks-per-node", "cpus-per-task", "ntasks-per-socket", "ntasks-per-gpu"})
_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - what a script says, not what is opened


def check_slurm(document: Document) -> Iterator[Problem]:
    """All that is wrong with the directives of one script."""
    job = document.script
    if not isinstance(job, Job):
        return
    yield from _late(document, job)
    known = words("sbatch", "value") | words("sbatch", "optional") | words("sbatch", "flag")
    for directive in job.directives:
        if directive.value is not None and _FILLED_IN.search(directive.value):
            yield _problem(document, "word", "not_checkable", directive.line, f"{directive.value!r} is to be filled in")
        else:
            yield from _option(document, directive, known)
    for word in job.odd:
        if _FILLED_IN.search(word.text):
            yield _problem(document, "word", "not_checkable", word.line, f"{word.text!r} is to be filled in")
            continue
        yield _problem(document, "word", "fail", word.line, f"{word.text!r} is no option", why="a directive holds options alone; a remark needs a # in front. Older versions of sbatch pass over what follows, newer ones refuse the script", message=f"sbatch: error: Invalid directive found in batch script: {word.text}", fix="Put a # in front of the remark, or quotes around a value with blanks.")  # fmt: skip
        break
    yield from _sizes(document, job)
    memory = [d for d in job.directives if d.name in _MEMORY_OPTIONS]
    if len({d.name for d in memory}) > 1 and not job.several:
        names = " and ".join(f"--{name}" for name in dict.fromkeys(d.name for d in memory))
        yield _problem(document, "option", "fail", memory[-1].line, f"{names} are both given", why="each says in its own way how much memory the job has, and sbatch takes one of them", message="sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.", fix="Leave one of them out.")  # fmt: skip


def _problem(document: Document, check: str, state: CheckState, line: int | None, what: str, **more: str) -> Problem:
    return problem(f"slurm.{check}", state, document.name, line, what, **more)


def _late(document: Document, job: Job) -> Iterator[Problem]:
    if job.late:
        first = job.late[0]
        yield _problem(document, "ignored", "fail", first.line, f"{len(job.late)} directives stand behind the first command (line {job.first_command}), and sbatch does not read them", why="sbatch stops reading directives at the first line that is a command: nodes, GPUs, time and account are then the defaults of the cluster, and nothing says so", fix=f"Move line {job.first_command} behind the last #SBATCH line.")  # fmt: skip


def _option(document: Document, directive: Directive, known: frozenset[str]) -> Iterator[Problem]:
    name, written, value, line = directive.name, directive.written, directive.value, directive.line
    begins = [k for k in known if k.startswith(name)]
    if name not in known and len(written) > 1 and len(begins) > 1:
        yield _problem(document, "option", "fail", line, f"--{written} is the begin of several options", why="sbatch takes the begin of a name only where one option alone begins so", message=f"sbatch: option '--{written}' is ambiguous", fix=f"Write it out: --{' or --'.join(sorted(begins)[:3])}.")  # fmt: skip
        return
    if "_" in written and name in known and written not in known:
        yield _problem(document, "option", "fail", line, f"--{written} is no option of {version_of('sbatch')}", why="sbatch refuses options that it does not know", message=f"sbatch: unrecognized option '--{written}{f'={value}' if value else ''}'", fix=f"Did you mean --{name}?")  # fmt: skip
        return
    if name not in known and len(written) > 1 and not begins:
        now = table("sbatch")["renamed"].get(name)
        if name in words("sbatch", "srun_only"):
            yield _problem(document, "option", "fail", line, f"--{written} is an option of srun and not of sbatch", why="sbatch refuses options that it does not know", message=f"sbatch: unrecognized option '--{written}'", fix=f"Give it to srun: srun --{written} …")  # fmt: skip
            return
        near = now or nearest(name, known, cutoff=0.7)
        why = "sbatch refuses options that it does not know" + (" (this one was renamed in 17.11)" if now else "")
        yield _problem(document, "option", "fail", line, f"--{written} is no option of {version_of('sbatch')}", why=why, message=f"sbatch: unrecognized option '--{written}{f'={value}' if value else ''}'", fix=f"Use --{near}." if now else f"Did you mean --{near}?" if near else "Remove it.")  # fmt: skip
        return
    if name in words("sbatch", "value") and value is None:
        yield _problem(document, "option", "fail", line, f"--{written} has no value", why="sbatch wants one", message=f"sbatch: option '--{written}' requires an argument", fix="Add the value.")  # fmt: skip
        return
    if value is None:
        return
    if name in _OF_GPUS and not value:
        yield _problem(document, "option", "warn", line, f"--{written} has an empty value", why="sbatch refuses it from 21.08 on; before, the job had no GPU", message="sbatch: error: Batch job submission failed: Invalid Trackable RESource (TRES) specification", fix="Add the value, as gpu:8, or remove the line.")  # fmt: skip
    elif "$" in value and not name.startswith(("comment", "export", "wrap")):
        yield _problem(document, "variable", "fail", line, f"--{written} holds a variable", why="directives are read before any shell: the name is taken as it stands", fix="Write the value, or give it to sbatch on the command line.")  # fmt: skip
    elif name == "time" and not _TIME.fullmatch(value):
        yield _problem(document, "value", "fail", line, f"{value!r} is no time limit", why="forms are minutes, m:s, h:m:s, d-h, d-h:m and d-h:m:s", message="sbatch: error: Invalid --time specification", fix="Write it as h:m:s or d-h:m:s.")  # fmt: skip
    elif name in _MEMORY_OPTIONS and not _MEMORY.fullmatch(value):
        yield _problem(document, "value", "fail", line, f"{value!r} is no size of memory", why="a number and one of K, M, G, T", message=f"sbatch: error: Invalid --{name} specification", fix="Write it as 64G.")  # fmt: skip
    elif name in _WHOLE and not value.isdigit():
        yield _problem(document, "value", "fail", line, f"{value!r} is no number for --{name}", why="it takes a whole number", message=f'sbatch: error: Invalid numeric value "{value}" for --{name}.', fix="Write a whole number.")  # fmt: skip


def _sizes(document: Document, job: Job) -> Iterator[Problem]:
    nodes, each, total = job.number("nodes"), job.number("ntasks-per-node"), job.number("ntasks")
    if nodes and each and total and nodes * each != total:
        asked = job.asked("ntasks")
        line = asked.line if asked is not None else None
        yield _problem(document, "tasks", "warn", line, f"{nodes} nodes x {each} tasks a node is {nodes * each}, and --ntasks is {total}", why="--ntasks counts; the tasks a node then are only the most that one takes", fix="Leave one of them out.")  # fmt: skip
    if nodes and total and total < nodes:
        asked = job.asked("ntasks")
        yield _problem(document, "tasks", "warn", asked.line if asked is not None else None, f"{total} tasks on {nodes} nodes", why="nodes without a task start nothing: sbatch gives fewer", message=f"sbatch: warning: can't run {total} processes on {nodes} nodes, setting nnodes to {total}", fix="Start at least one task a node.")  # fmt: skip


# --- what it starts


def check_launch(started: Started, facts: Facts) -> Iterator[Problem]:
    """A launch against what the script asks for."""
    launch = started.launch
    if launch.tool == "torchrun":
        yield from _torchrun(started)
    if launch.tool in {"torchrun", "accelerate", "deepspeed"}:
        yield from _port(started)
    if launch.tool in {"torchrun", "accelerate"}:
        yield from _one_task(started)
    if launch.tool == "accelerate":
        yield from _gpus(started, _accelerate_each(started))
    if launch.tool == "python":
        yield from _tasks_of_gpus(started)
        yield from _first_node_alone(started)
    yield from _time(started, facts)


def _say(started: Started, check: str, state: CheckState, line: int, what: str, **more: str) -> Problem:
    return problem(f"launch.{check}", state, started.file, line or started.launch.line, what, **more)


def _one_task(started: Started) -> Iterator[Problem]:
    """Torchrun and accelerate start the ranks of a node themselves: one of them a node."""
    launch = started.launch
    if launch.srun is None:
        return
    tasks = tasks_per_node(started)
    each = count(launch.options, "nproc_per_node") if launch.tool == "torchrun" else _accelerate_each(started)
    if tasks is not None and tasks > 1 and each != 1:
        asked = started.job.asked("ntasks-per-node", "tasks-per-node", "ntasks")
        own = launch.srun.has("ntasks-per-node", "ntasks", "n")
        line = launch.line if own or asked is None else asked.line
        many = f", each with {each} ranks" if each else ""
        yield _say(started, "tasks", "fail", line, f"srun starts {tasks} of {launch.tool} on each node{many}", why="each of them starts all ranks of its node: they take one another's port and GPUs, or wait for ranks that never come", message="RuntimeError: The server socket has failed to listen on any local network address … EADDRINUSE", fix="Set --ntasks-per-node=1, and give each task all GPUs of the node.")  # fmt: skip


def _first_node_alone(started: Started) -> Iterator[Problem]:
    """A program that is to run as several tasks on several nodes, and that nothing carries there."""
    launch = started.launch
    nodes, tasks = nodes_of(started) if started.job.directives else None, tasks_per_node(started)
    if launch.srun is not None or launch.remote or not launch.sure or nodes is None or nodes < 2 or tasks is None or tasks < 2:  # fmt: skip
        return
    yield _say(started, "srun", "warn", launch.line, f"a program for {tasks} tasks on each of {nodes} nodes is started without srun", why="the script runs on the first node alone: unless the program starts the other nodes itself, its ranks wait for theirs until a time-out", fix="Write srun in front of it.")  # fmt: skip


def _tasks_of_gpus(started: Started) -> Iterator[Problem]:
    """A task that is a rank itself needs a GPU of its own."""
    if started.launch.srun is None:
        return
    asked = started.job.asked("ntasks-per-node", "tasks-per-node", "ntasks")
    tasks, gpus = tasks_per_node(started), gpus_per_node(started)
    if asked is not None and tasks is not None and gpus and tasks > gpus:
        own = started.launch.srun.has("ntasks-per-node", "ntasks", "n")
        yield _say(started, "tasks", "warn", started.launch.line if own else asked.line, f"{tasks} tasks on each node, and {gpus} GPUs", why="a task that is a rank takes the GPU of its number: some find none, or share one and stop NCCL", message="ncclInvalidUsage: Duplicate GPU detected", fix="Start as many tasks a node as it has GPUs.")  # fmt: skip


def _accelerate_each(started: Started) -> int | None:
    options = started.launch.options
    processes, machines = options.whole_number("num_processes"), options.whole_number("num_machines")
    return processes // machines if processes and machines else None


def _torchrun(started: Started) -> Iterator[Problem]:
    launch, options = started.launch, started.launch.options
    nodes, each = count(options, "nnodes"), count(options, "nproc_per_node")
    machines = nodes_of(started) if started.job.directives else None
    line = options.line("nnodes") or launch.line
    standalone = options.flag("standalone") is True
    if standalone and nodes is not None and nodes > 1:
        yield _say(started, "nodes", "fail", options.line("standalone"), f"--standalone beside --nnodes={nodes}", why="each node then makes a rendezvous of its own at localhost, whatever else is given, and waits there for the others until its time-out", message="torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", fix="Remove --standalone, and give --rdzv-backend=c10d with --rdzv-endpoint on the first node.")  # fmt: skip
        return
    if standalone and machines is not None and machines > 1 and launch.srun is not None:
        yield _say(started, "nodes", "warn", options.line("standalone"), f"--standalone on each of {machines} nodes", why="each node then trains alone, and none knows of the others", fix="Unless that is meant, remove --standalone, and give --nnodes, --rdzv-backend=c10d and --rdzv-endpoint.")  # fmt: skip
    elif machines is not None and nodes is not None and launch.srun is not None and options.has("nnodes") and nodes != machines:  # fmt: skip
        yield _say(started, "nodes", "fail", line, f"--nnodes is {nodes}, and the step runs on {machines} nodes", why="the rendezvous waits for as many nodes as it is told; more are turned away, and fewer never complete it", fix=f"Set --nnodes={machines}, or ask for {nodes} nodes.")  # fmt: skip
    several = nodes is not None and nodes > 1
    if several and machines is not None and machines > 1 and launch.srun is None and not launch.remote and launch.sure:
        yield _say(started, "srun", "fail", launch.line, f"torchrun for {nodes} nodes is started without srun", why="the script runs on the first node alone: the rendezvous waits for the other nodes until its time-out", fix="Write srun in front of it, with one task a node.")  # fmt: skip
    yield from _address(started, several=several)
    yield from _gpus(started, each)


def _port(started: Started) -> Iterator[Problem]:
    for name in ("master_port", "main_process_port"):
        number = started.launch.options.whole_number(name)
        if number is not None and not 0 <= number <= HIGHEST_PORT:
            yield _say(started, "address", "warn", started.launch.options.line(name), f"{number} is no port", why="ports end at 65535: newer versions of PyTorch refuse it, older ones take what is left of it by 65536", fix="Choose a port between 1024 and 65535.")  # fmt: skip


def _address(started: Started, *, several: bool) -> Iterator[Problem]:
    options = started.launch.options
    if not several:
        return
    endpoint, address = options.text("rdzv_endpoint"), options.text("master_addr")
    for name, said in (("rdzv_endpoint", endpoint), ("master_addr", address)):
        host = None if said is None else said.rpartition(":")[0] if name == "rdzv_endpoint" and ":" in said else said
        if host in _HERE:
            yield _say(started, "address", "fail", options.line(name), f"--{name.replace('_', '-')} is {said} for several nodes", why="on each node that is the node itself: every node waits for the others at itself until the time-out", fix="Give the name of the first node, as `scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1` prints it.")  # fmt: skip
    rank = options.get("node_rank")
    if started.launch.srun is not None and rank is not None and rank.text is not None and rank.text.isdigit():
        yield _say(started, "node_rank", "fail", rank.line, f"--node-rank is {rank.text} on every node", why="srun starts the same words on all nodes: several nodes claim one rank, and the others never come", message="RuntimeError: Address already in use", fix="Use --rdzv-backend=c10d with --rdzv-endpoint, or a rank of each node: srun bash -c '… --node-rank $SLURM_NODEID …'.")  # fmt: skip
    static = (options.text("rdzv_backend") or "static") == "static"
    if not options.has("node_rank") and not options.has("rdzv_endpoint") and static and options.whole and not options.has("standalone"):  # fmt: skip
        yield _say(started, "node_rank", "warn", options.line("nnodes"), "several nodes, and no --node-rank", why="without a rendezvous the rank of a node is 0 unless it is given: all nodes claim it", fix="Add --node-rank, or --rdzv-backend=c10d with --rdzv-endpoint.")  # fmt: skip


def _visible(started: Started) -> int | None:
    """GPUs that the launch lets the program see; None where nothing says so."""
    word = started.launch.environment.get("CUDA_VISIBLE_DEVICES")
    text = word.text if word is not None else None
    return len(text.split(",")) if text and re.fullmatch(r"\d+(,\d+)*", text) else None


def _gpus(started: Started, each: int | None) -> Iterator[Problem]:
    gpus, seen = gpus_per_node(started), _visible(started)
    if each is not None and seen is not None and each > seen:
        line = started.launch.options.line("nproc_per_node", "num_processes") or started.launch.line
        yield _say(started, "gpus", "fail", line, f"{each} ranks on each node, and CUDA_VISIBLE_DEVICES shows {seen} GPUs", why="some ranks find no GPU of their own", message="RuntimeError: CUDA error: invalid device ordinal", fix=f"Start {seen} ranks a node, or let {each} GPUs be seen.")  # fmt: skip
        return
    if each is None or gpus is None or each == gpus:
        return
    line = started.launch.options.line("nproc_per_node", "num_processes") or started.launch.line
    if each > gpus:
        yield _say(started, "gpus", "fail", line, f"{each} ranks on each node, and {gpus} GPUs are asked for", why="some ranks find no GPU of their own", message="RuntimeError: CUDA error: invalid device ordinal", fix=f"Start {gpus} ranks a node, or ask for {each} GPUs.")  # fmt: skip
    else:
        yield _say(started, "gpus", "warn", line, f"{each} ranks on each node, and {gpus} GPUs are asked for", why="the others stay idle", fix=f"Start {gpus} ranks a node, or ask for {each} GPUs.")  # fmt: skip


def _time(started: Started, facts: Facts) -> Iterator[Problem]:
    limit = facts.time_limit_s
    options = started.launch.arguments
    if limit is None:
        return
    minutes = options.number("exit-duration-in-mins")
    if minutes is not None and minutes * 60 >= limit:
        yield _say(started, "time", "warn", options.line("exit-duration-in-mins"), f"the program stops itself after {minutes:g} minutes, and the job's time limit is {limit / 60:g}", why="the scheduler ends the job first, and the last checkpoint is not written", fix="Set it some minutes below the time limit.")  # fmt: skip
    for name, seconds in (("distributed-timeout-minutes", 60), ("ddp_timeout", 1)):
        said = options.number(name)
        if said is not None and said * seconds >= limit:
            yield _say(started, "timeout", "warn", options.line(name), f"collectives may wait {said * seconds / 60:g} minutes, and the job's time limit is {limit / 60:g}", why="in a hang the scheduler ends the job before the watchdog says which rank is missing", fix="Set it well below the time limit.")  # fmt: skip
    yield from _interval(started, facts, limit)


def _interval(started: Started, facts: Facts, limit: int) -> Iterator[Problem]:
    """How often is saved, against the time limit, where the time of a step is known."""
    options = started.launch.arguments
    for name in ("save-interval", "save-steps", "save_steps"):
        steps = options.number(name)
        if steps is None or steps < 1:
            continue
        line = options.line(name)
        if facts.step_s is None:
            yield _say(started, "interval", "not_checkable", line, f"whether {steps:g} steps between two checkpoints take less than the time limit is not known: give --step-seconds")  # fmt: skip
        elif steps * facts.step_s >= limit:
            yield _say(started, "interval", "fail", line, f"{steps:g} steps of {facts.step_s:g} s between two checkpoints take {steps * facts.step_s / 60:.0f} minutes, and the job's time limit is {limit / 60:g}", why="the job ends before its first checkpoint: each start begins at the same place", fix="Save more often.")  # fmt: skip
        elif steps * facts.step_s * 2 > limit:
            yield _say(started, "interval", "warn", line, f"one checkpoint in the time of the job: {steps:g} steps of {facts.step_s:g} s take {steps * facts.step_s / 60:.0f} of {limit / 60:g} minutes", why="up to half of the job's time is lost at its end", fix="Save more often.")  # fmt: skip
        return
