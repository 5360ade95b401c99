"""The one view of a machine that checks have: variables, files of the kernel, sockets, programs, folders, packages.

Everything has a limit of time and none of it needs rights. Whatever may stand in the kernel (a folder on a file system that does
not answer) is asked in a process of its own, which is left behind. Must not judge anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import socket
import sys
import threading
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from firstfault.collect.commands import Answer, run
from firstfault.preflight import interfaces as network
from firstfault.preflight.who import Who, who_is

if TYPE_CHECKING:
    from collections.abc import Mapping


COMMAND_S, FOLDER_S, NAME_S, CONNECT_S = 10.0, 10.0, 5.0, 3.0
"""Seconds for a program, a folder, the resolving of a name, a connection."""
_MORE = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_FOLDER = Path(__file__).with_name("folder_child.py")
_NAMES = {
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "core": resource.RLIMIT_CORE,
    "stack": resource.RLIMIT_STACK,
    "address space": resource.RLIMIT_AS,
}


class Folder(NamedTuple):
    """What is true of a path, as a process of its own found."""

    path: str
    trouble: str = ""
    """Why nothing else is known; empty where it was looked at."""
    exists: bool = False
    is_folder: bool = False
    readable: bool = False
    writable: bool = False
    refused: str = ""
    """Why no file could be written there."""
    free_mb: int | None = None
    total_mb: int | None = None
    free_inodes: int | None = None
    kind: str = ""
    """Kind of its file system, such as `ext4`, `nfs4`, `lustre`."""
    source: str = ""
    """What is mounted there."""
    write_ms: float | None = None
    """Milliseconds for a small file to be written, synced and read back."""


class Asked(NamedTuple):
    """What the caller wants looked at beyond what variables say."""

    read: tuple[str, ...] = ()
    """Paths that the job reads."""
    write: tuple[str, ...] = ()
    """Folders that the job writes into."""
    recorder: str | None = None
    """Folder of the recorder."""
    job: bool = False
    """Whether the answers of a job are joined."""


class Machine:
    """This machine, or a made one in tests: below another root, with other variables."""

    def __init__(self, env: Mapping[str, str] | None = None, *, root: str = "/", asked: Asked | None = None) -> None:
        self.env: Mapping[str, str] = dict(os.environ) if env is None else env
        self.root = Path(root)
        self.asked = asked or Asked()
        self.held: dict[int, str] = {}
        """Ports on which this program tried to listen itself -> what was wrong, empty where it does."""
        self.stuck: dict[str, Answer] = {}
        """Programs of the machine that did not end in their time -> what is said of them from then on."""

    @cached_property
    def who(self) -> Who:
        """Who this process is in its job."""
        return who_is(self.env)

    # files of the kernel

    def text(self, path: str, most: int = 1 << 20) -> str | None:
        """The start of a file of `/proc`, `/sys`, `/etc` or `/run`; None where it cannot be read."""
        try:
            with self._at(path).open("rb") as file:
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return None

    def word(self, path: str) -> str:
        """A file of one line, without blanks around it; empty where it cannot be read."""
        return (self.text(path, 4096) or "").strip()

    def names(self, path: str) -> list[str]:
        """What lies in such a folder, in order."""
        try:
            return sorted(p.name for p in self._at(path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether such a file is there."""
        try:
            return self._at(path).exists()
        except OSError:
            return False

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    # limits of the process

    def limit(self, name: str) -> int | None:
        """A soft limit of this process; None where there is none.

        Args:
            name: `open files`, `processes`, `locked memory` (bytes), `core` (bytes), `stack` (bytes), `address space` (bytes).
        """
        soft = resource.getrlimit(_NAMES[name])[0]
        return None if soft == resource.RLIM_INFINITY else soft

    def hard_limit(self, name: str) -> int | None:
        """The limit up to which a user may raise the soft one; None where there is none."""
        hard = resource.getrlimit(_NAMES[name])[1]
        return None if hard == resource.RLIM_INFINITY else hard

    @property
    def cpus(self) -> int:
        """Processors that this process may use."""
        return len(os.sched_getaffinity(0))

    @property
    def uid(self) -> int:
        """Number of the user."""
        return os.geteuid()

    @cached_property
    def host(self) -> str:
        """Name of this machine."""
        return socket.gethostname()

    # programs

    def which(self, name: str) -> str | None:
        """Where a program lies, on the path or where only administrators look; None where it is not there."""
        return shutil.which(name, path=os.pathsep.join((self.env.get("PATH", os.defpath), *_MORE)))

    @lru_cache(maxsize=64)  # noqa: B019 - one machine lives as long as the program
    def answer(self, *words: str, seconds: float = COMMAND_S) -> Answer:
        """What a program of the machine says; asked once."""
        path = self.which(words[0])
        if path is None:
            return Answer(b"", f"{words[0]} is not on this machine")
        if path in self.stuck:
            return self.stuck[path]
        answer = run((path, *words[1:]), seconds)
        # Who stood once stands again (a driver that hangs): asked four times it would outlast the patience of the rank that joins.
        if answer.stuck and os.sep not in words[0]:
            self.stuck[path] = answer
        return answer

    # network

    @cached_property
    def interfaces(self) -> list[network.Interface]:
        """Network interfaces."""
        return network.interfaces()

    @cached_property
    def addresses(self) -> frozenset[str]:
        """All addresses of this machine."""
        return frozenset(a for i in self.interfaces for a in i.addresses)

    @lru_cache(maxsize=64)  # noqa: B019 - as above
    def resolve(self, name: str) -> tuple[tuple[str, ...], str]:
        """Addresses of a name, and what was wrong."""
        found: list[str] = []
        trouble = [f"no answer in {NAME_S:g} s"]

        def look() -> None:
            try:
                rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                found.extend(dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows))
                trouble[0] = ""
            except (OSError, UnicodeError) as error:
                trouble[0] = getattr(error, "strerror", None) or str(error)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(NAME_S)
        return tuple(found), trouble[0]

    def connect(self, host: str, port: int) -> tuple[Literal["listens", "refused", "unreachable"], str]:
        """Whether somebody answers at an address, with the reason where nobody does."""
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except ConnectionRefusedError:
            return "refused", ""
        except (OSError, OverflowError, UnicodeError) as error:
            return "unreachable", getattr(error, "strerror", None) or str(error) or type(error).__name__
        return "listens", ""

    def taken(self, port: int) -> str:
        """Why nobody could listen on a port here; empty where somebody could."""
        if port in self.held:
            return self.held[port]
        try:
            listen(port).close()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    # folders

    @lru_cache(maxsize=64)  # noqa: B019 - as above
    def folder(self, path: str, *, write: bool) -> Folder:
        """What is true of a path, found by a process of its own.

        Args:
            path: any.
            write: whether to write a small file there, which is removed again.
        """
        words = (sys.executable, "-I", "-S", str(_FOLDER), path, "write" if write else "read")
        answer = run(words, FOLDER_S)
        if not answer.text.strip():
            trouble = answer.trouble.replace(sys.executable, "it") or "it said nothing"
            if "no answer" in trouble:
                trouble = f"no answer in {FOLDER_S:g} s: the file system does not answer"
            return Folder(path, trouble=trouble)
        try:
            told = json.loads(answer.text)
        except ValueError:
            return Folder(path, trouble=answer.trouble or "it said nothing that can be read")
        kind, source = self._mount(told.pop("device", ""), told.pop("real", path))
        return Folder(**{"path": path, "kind": kind, "source": source, **told})

    def _mount(self, device: str, real: str) -> tuple[str, str]:
        """Kind and source of the file system of a path, by the kernel's own table."""
        best: tuple[int, str, str] = (-1, "", "")
        for line in (self.text("/proc/self/mountinfo", 4 << 20) or "").splitlines():
            before, _, after = line.partition(" - ")
            fields, rest = before.split(" "), after.split(" ")
            if len(fields) < 5 or len(rest) < 2:
                continue
            point = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if (
                inside
                and (fields[2] == device or not device or rest[0] in {"btrfs", "overlay"})
                and len(point) >= best[0]
            ):
                best = (len(point), rest[0], rest[1])
        return best[1], best[2]

    # packages

    @lru_cache(maxsize=128)  # noqa: B019 - as above
    def version(self, package: str) -> str | None:
        """Version of an installed package by its metadata, without importing it; None where it is not installed."""
        with contextlib.suppress(Exception):  # metadata of others may be broken in any way
            return metadata.version(package)
        return None

    @cached_property
    def torch(self) -> Mapping[str, str]:
        """What `torch/version.py` says: `version`, `cuda`, `hip`; read as text, never run. Empty where there is no torch."""
        place = package_folder("torch")
        text = ""
        if place is not None:
            with contextlib.suppress(OSError):
                text = (place / "version.py").read_text("utf-8", "replace")
        found = {
            m[1].strip("_"): m[2]
            for m in re.finditer(r"(?m)^(__version__|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"\n]+)['\"]", text)
        }
        version = self.version("torch")
        return {**({"version": version} if version else {}), **found}


def package_folder(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    for folder in sys.path:
        place = Path(folder or ".") / name
        with contextlib.suppress(OSError):
            if (place / "__init__.py").is_file():
                return place
    return None


def listen(port: int, *, backlog: int = 128) -> socket.socket:
    """A socket that listens on a port of all interfaces, as the store of torch does.

    Raises:
        OSError: somebody listens there already, or it is not allowed.
    """
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        except OSError as error:
            if error.errno in {98, 13}:  # taken, or not allowed: the other family would not help
                raise
    return socket.create_server(("", port), backlog=backlog)
