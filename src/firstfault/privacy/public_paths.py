"""Paths that tell of nobody: those of every Linux machine, and those that libraries choose by themselves."""

from __future__ import annotations

from firstfault.model.lazy import lazy

_PUBLIC_ROOTS = (
    "/dev/",
    "/proc/",
    "/sys/",
    "/etc/",
    "/usr/",
    "/lib/",
    "/lib64/",
    "/bin/",
    "/sbin/",
    "/var/log/",
    "/var/run/",
    "/run/",
)
_PUBLIC_PATHS = frozenset({"/", "/tmp", "/dev/shm", "/dev", "/proc", "/sys", "/etc", "/usr", "/var", "/root", "/home"})  # noqa: S108
_EVERYBODYS = frozenset(
    {
        "~/.cache",
        "~/.cache/torch_extensions",
        "~/.local/lib",
        "~/.pgpass",
        "~/ascend/log",
        "/tmp/libtpu_lockfile",  # noqa: S108 - a name, and no file of ours
        "/opt/venv",
    }
)
_EVERYBODYS_FILES = lazy(r"(?:/tmp/nccl_trace_rank_|~/\.cache/torch/comm_lib_trace_rank_)[\d*]{0,8}")
"""Paths that libraries choose by themselves, and that advice names: they tell of nobody."""


def everybodys(path: str) -> bool:
    """Whether a library chose the path by itself, wherever it runs."""
    return path.rstrip("/") in _EVERYBODYS or _EVERYBODYS_FILES.fullmatch(path) is not None


def public(path: str) -> bool:
    """Whether the path lies where every machine has the same."""
    return path.rstrip("/") in _PUBLIC_PATHS or path.startswith(_PUBLIC_ROOTS) or path == "/"
