"""The smallest evidence of this node, the cheapest first: cards, containers, disks, code, images, processes, kernel, scheduler.

Works without root, asks each program with a time-out, and says of each part that could not be had why. No answer holds keys,
proxies or the serial numbers of cards: those are taken out here, whatever the archive does with names.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from firstfault.collect.commands import run
from firstfault.collect.processes import processes
from firstfault.privacy.secrets import SecretFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT_S = 10.0
"""Seconds for one program."""
_UUID = re.compile(r"\b(?:[A-Z]{3,4}-){0,2}[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_PROXY = re.compile(
    r"(?i)((?:^|[\s,;\"'{])-{0,2}(?:\w+[_-])?(?:https?|ftp|all|no|socks5?)[_-]?proxy[\"']?\s*[=:\s]\s*"  # `https_proxy=`, `"httpsProxy": `
    r"|(?:^|[\s,;\"'{])--?[\w.-]*proxy(?:[_-]?(?:server|url|host|addr(?:ess)?|user))?[\"']?(?:\s*[=:]\s*|\s+)(?![-\s])"  # `--proxy x`
    r"|\b(?:[\w.-]*[_.])?proxy(?:[_.]?(?:server|url|host|port|addr(?:ess)?|user|command))?[\"']?\s*=\s*"  # `http.proxy=`, `ProxyCommand=`
    r"|\bcurl\b[^\n]{0,200}?\s-x\s*|::Proxy\s+)(\"[^\"\n]*\"|'[^'\n]*'|\S+)"
)
_PROXY_COMMAND = re.compile(r"(?i)(\bproxycommand[\s=]+)([^\n]+)")
_SERIAL = re.compile(r"(?i)(\bserial[ _-]?(?:number|no)?\b[\"']?\s*[:=]\s*)([\w-]*\d[\w-]*)")
_STAMP = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{6})?[+-]\d\d:?\d\d|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
)
"""`2026-11-30T07:00:00,123456+00:00` of `dmesg --time-format iso` and of the journal, `[Mon Nov 30 07:00:00 2026]` of `dmesg -T`."""
_CARDS = (
    "index,name,pci.bus_id,driver_version,pstate,temperature.gpu,utilization.gpu,memory.used,memory.total,"
    "ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active"
)
_JOB = "JobID,JobName,State,ExitCode,DerivedExitCode,Elapsed,Timelimit,Start,End,NodeList,MaxRSS"


class Part(NamedTuple):
    """One question to the node; of its programs the first that answers counts."""

    file: str
    programs: tuple[tuple[str, ...], ...]


class Found(NamedTuple):
    """What a node told."""

    files: dict[str, bytes]
    """Name -> text, in the order in which it was asked for."""
    left_out: dict[str, str]
    """Name -> why it is not there, or not whole."""


_DRIVER = Part("cards.txt", (("cat", "/proc/driver/nvidia/version"),))
"""Asked where `nvidia-smi` stands: the driver's own file needs no card."""


def parts(code: str, job: str | None) -> list[Part]:
    """The questions, in their order.

    Args:
        code: folder of the program's source.
        job: number of a Slurm job; None for none.
    """
    git = ("git", "--no-optional-locks", "-C", code)  # it must not write an index that others use
    found = [
        Part("cards.txt", (("nvidia-smi", f"--query-gpu={_CARDS}", "--format=csv"), ("nvidia-smi",), ("rocm-smi",))),
        Part("card-processes.txt", (
            ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory,gpu_bus_id", "--format=csv"), ("rocm-smi", "--showpids"))),
        Part("containers.txt", tuple((tool, "ps", "--format", "{{.ID}} {{.Image}} {{.Status}} {{.Names}}") for tool in ("docker", "podman"))),
        Part("disks.txt", (("df", "-PTk"), ("df", "-PTkl"))),
        Part("inodes.txt", (("df", "-Pi"), ("df", "-Pil"))),
        Part("code-revision.txt", ((*git, "log", "-1", "--format=%H %cI"),)),
        Part("code-changes.txt", ((*git, "status", "--porcelain", "--untracked-files=no"),)),
        Part("image-labels.txt", tuple((tool, "ps", "--format", "{{.Image}} {{.Labels}}") for tool in ("docker", "podman"))),
        Part("kernel.txt", (("dmesg", "--time-format", "iso"), ("journalctl", "-k", "--no-pager", "-o", "short-iso", "-n", "20000"), ("dmesg", "-T"))),
    ]  # fmt: skip
    if job is not None:
        found += [
            Part("slurm-accounting.txt", (("sacct", "-j", job, "--parsable2", f"--format={_JOB}"),)),
            Part("slurm-job.txt", (("scontrol", "show", "job", job),)),
        ]
    return found


def look(
    code: str,
    *,
    job: str | None = None,
    pids: Sequence[int] = (),
    since: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Found:
    """Asks this node.

    Args:
        code: folder of the program's source.
        job: number of a Slurm job, of which the scheduler is asked too.
        pids: processes to describe; those of this user that run Python where none is given.
        since: seconds since the epoch before which the kernel's words are of no interest; None: all that it has.
        say: is told the name of each part before it is asked for.
    """
    secrets = SecretFilter()
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    stuck: dict[str, str] = {}
    asked: list[Part | None] = [*parts(code, job)]
    asked.insert(next(i for i, part in enumerate(asked) if part is not None and part.file == "kernel.txt"), None)
    for part in asked:
        name = "processes.txt" if part is None else part.file
        if say is not None:
            say(name)
        text, trouble = processes(pids) if part is None else _asked(part, stuck)
        if name == "cards.txt" and stuck:
            driver, of_driver = _asked(_DRIVER, stuck)
            text, trouble = text + driver, "; ".join(filter(None, (trouble, of_driver)))
        if name == "kernel.txt" and since is not None:
            text, before = recent(text, since)
            if before:
                trouble = "; ".join(filter(None, (trouble, f"{before} lines are older than the job")))
        if text.strip():
            files[name] = cleaned(text, secrets)
        elif not trouble:
            trouble = "there was nothing to tell"
        if trouble:
            left_out[name] = cleaned(trouble.encode(), secrets).decode()
    return Found(files, left_out)


def _asked(part: Part, stuck: dict[str, str]) -> tuple[bytes, str]:
    """The answer of the first program that gave a whole one, else the longest; with what was wrong.

    Args:
        part: the question.
        stuck: programs that gave no answer before, with what is told of each; they are not asked again, for each further one
            would stand beside the first.
    """
    troubles: list[str] = []
    best = b""
    for words in part.programs:
        # With its arguments where those name what is looked at: a `df` of all may stand where one of the local disks does not.
        asks = words[0] if words[0].endswith("-smi") else " ".join(words)
        if asks in stuck:
            trouble = stuck[asks]
        else:
            answer = run(words, LIMIT_S)
            trouble = answer.trouble
            if not trouble:
                return answer.text, "; ".join(t for t in troubles if t in stuck.values())
            if answer.stuck:
                stuck[asks] = trouble
            best = max(best, answer.text, key=len)
        if trouble not in troubles:
            troubles.append(trouble)
    return best, "; ".join(troubles)


def recent(text: bytes, since: float) -> tuple[bytes, int]:
    """The lines of a kernel log from a time on, and how many were before it; a line without a time goes with the one above."""
    kept: list[bytes] = []
    lines = text.split(b"\n")
    new = True
    for line in lines:
        at = _time_of(line)
        new = new if at is None else at >= since
        if new:
            kept.append(line)
    return b"\n".join(kept), len(lines) - len(kept)


def _time_of(line: bytes) -> float | None:
    found = _STAMP.match(line)
    if found is None:
        return None
    text = found.group().decode("ascii").strip("[]")
    try:
        if text[0].isdigit():
            iso = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text.replace(",", "."))
            return datetime.fromisoformat(iso).timestamp()
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").astimezone().timestamp()
    except ValueError:
        return None


def cleaned(text: bytes, secrets: SecretFilter) -> bytes:
    """A text without secrets, proxies and serial numbers, line by line."""
    lines = []
    for line in text.decode("utf-8", "replace").split("\n"):
        plain = _PROXY_COMMAND.sub(r"\1[removed:proxy]", _UUID.sub("[removed:uuid]", line))
        plain = _SERIAL.sub(r"\1[removed:serial number]", _PROXY.sub(r"\1[removed:proxy]", plain))
        lines.append(secrets.clean(plain))
    return "\n".join(lines).encode("utf-8", "backslashreplace")
