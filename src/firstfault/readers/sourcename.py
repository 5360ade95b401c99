"""What the place and name of a file tell about who wrote it. A number whose meaning the name does not state stays a number."""

from __future__ import annotations

import re

from msgspec import Struct

from firstfault.model.evidence import GlobalRank, LocalRank, NodeRank, Who
from firstfault.model.lazy import lazy

_ATTEMPT = lazy(r"(?:^|/)attempt[_-](\d{1,4})/(\d{1,4})/(?:stdout|stderr|error)[^/]*$")
_ATTEMPT_FOLDER = lazy(r"(?:^|/)attempt[_-](\d{1,4})(?:/|$)")
_WORKER_LOG = lazy(r"^workerlog\.(\d{1,4})$")
"""Paddle's launcher writes one such file for each process of a machine."""
_RESTART = lazy(r"(?<![a-z])(?:attempt|restart)[_-]?(\d{1,2})(?!\d)")
_RANK = lazy(r"(?:^|(?<=[^a-z]))(?:([a-z]+)([_\-]?))?rank[_\-=.]?(\d{1,6})(?!\d)")
_AXES = frozenset(
    [
        "tp",
        "pp",
        "dp",
        "cp",
        "ep",
        "mp",
        "sp",
        "vp",
        "tensor",
        "pipeline",
        "data",
        "expert",
        "model",
        "context",
        "sequence",
        "group",
        "pg",
        "axis",
    ]
)
_HOST = lazy(
    r"(?<![A-Za-z0-9])(?!(?:kern|kernel|dmesg|syslog|messages|error|err|log|out|journal|slurm|slurmd|slurmctld|slurmstepd|munged|sshd|dockerd?|containerd|kubelet|describe|pod|stack|dump|smi|stderr|stdout|(?:r|rank|lr|local[_-]?rank|worker|proc|task)[_-]?\d{1,6})-)"
    r"((?:[a-z][a-z0-9]*[-.])*?"
    r"(?:node|nid|gpu|dgx|hgx|host|compute|gpunode|cn|gn|srv|server)"
    r"(?:-[a-z]{1,3}-?\d{1,6}|[a-z]{1,2}\d{1,4}|-?0\d{1,5}|-?\d{3,6}|(?<=nid)\d+|-\d{1,2}(?=$|[._]))"
    r"|ip-\d+-\d+-\d+-\d+)(?![A-Za-z0-9])",
)
_PLAIN_HOST = lazy(r"(?<![A-Za-z0-9])((?:node|gpu|dgx|hgx|host|server)-[a-z])(?![A-Za-z0-9])")
_HOST_OF_SYSTEM_LOG = lazy(
    r"(?:^|/)(?:(?:dmesg|kern(?:el)?(?:[._-]log)?|syslog|messages|journal(?:ctl)?|slurmd|munged|kubelet|containerd|dockerd?|sshd|systemctl|ibstat)[._-](?P<after>[a-z][a-z0-9-]*\d[a-z0-9-]*)"
    r"|(?P<before>[a-z][a-z0-9-]*\d[a-z0-9-]*)[._-](?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?|slurmd|munged|kubelet|containerd|dockerd?|sshd|systemctl|ibstat))(?:$|[._-])"
)
"""A machine's own log named after it: here any name with a number is a host."""
_SYSTEM_LOG = lazy(
    r"^(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?|slurmd|munged|kubelet|containerd|dockerd?|sshd|ibstat|nvidia-bug-report)$"
)
_FOLDER_OF_HOST = lazy(
    r"^(?!(?:attempt|restart|run|job|try|logs?|out|day|boot|rank|version|v|exp|epoch|step|dump|case|test|incident|archive|part|batch|task|round|"
    r"backup|old|new|var)[-_.]?\d)[a-z](?=[a-z-]*\d)[a-z0-9-]*$"
)
"""A folder in which a machine's own log lies without a name of its own."""
_POD = lazy(r"(?<![A-Za-z0-9])((?:[a-z0-9]+-)*(?:worker|master|launcher|chief|replica|trainer)-\d{1,5})(?![A-Za-z0-9])")
_LAST_NUMBER = lazy(r"[_\-.](?:n|t|task|node)?(\d{1,6})$")
_ENDINGS = lazy(r"\.(?:log|txt|out|err|error|stdout|stderr|json|\d{1,2}|gz|zst|xz|bz2)+$")


class NameFacts(Struct, frozen=True):
    """What a name states."""

    who: Who = Who()
    attempt: int | None = None
    """Number in the path, 0-based as launchers count."""
    number: int | None = None
    """Last number of the file name: a task or a node of the job, which is not said."""


def read_name(path: str) -> NameFacts:
    """Reads a shown path such as `logs/none_x/attempt_0/3/stderr.log`; `a.tar!b` is read as a path too."""
    path = path.replace("!", "/").replace("\\", "/")
    folder_number = _ATTEMPT.search(path)
    attempt = _first(_ATTEMPT_FOLDER, path)
    name = path.rsplit("/", 1)[-1]
    stem = _ENDINGS.sub("", name)
    if attempt is None:
        attempt = _first(_RESTART, stem.lower())
    lower = stem.lower()
    ranks = _ranks(lower)
    if folder_number is not None:
        ranks.setdefault("local", int(folder_number[2]))
    worker_log = _first(_WORKER_LOG, name)
    if worker_log is not None:
        ranks.setdefault("local", worker_log)
    if not ranks and path.count("/"):
        parent = path.lower().rsplit("/", 2)[-2]
        ranks = {k: v for k, v in _ranks(parent).items() if re.fullmatch(r"(?:[a-z]+[_-]?)?rank[_\-=.]?\d+", parent)}
    rank, local, node = ranks.get("global"), ranks.get("local"), ranks.get("node")
    pod = _POD.search(lower)
    system = _HOST_OF_SYSTEM_LOG.search(lower)
    host = _HOST.search(lower) or _PLAIN_HOST.search(lower)
    named = (system["after"] or system["before"]) if system is not None else (None if host is None else host[1])
    if named is None and path.count("/") and _SYSTEM_LOG.match(lower):
        parent = path.lower().rsplit("/", 2)[-2]
        named = parent if _FOLDER_OF_HOST.match(parent) else None
    who = Who(
        rank=None if rank is None else GlobalRank(rank),
        local_rank=None if local is None else LocalRank(local),
        node_rank=None if node is None else NodeRank(node),
        host=named if pod is None and node is None else None,
        label=None if pod is None else pod[1],
    )
    return NameFacts(who, attempt, _first(_LAST_NUMBER, stem))


def _ranks(name: str) -> dict[str, int]:
    """Ranks that a name states, by kind; those along an axis of the parallel layout are none of them."""
    found: dict[str, int] = {}
    for word, separator, number in _RANK.findall(name):
        if word in {"local", "lr"}:
            kind = "local"
        elif word in {"node", "machine"}:
            kind = "node"
        elif word in _AXES or (word not in {"", "global", "world"} and not separator):
            continue
        else:
            kind = "global"
        found.setdefault(kind, int(number))
    return found


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(found[1])
