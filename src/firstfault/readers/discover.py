"""From the PATHs of a command to the files behind them, with the names under which they are shown.

It looks at names and kinds of files only and opens none. Links are followed within the PATH that was given, never out
of it, and a linked folder is not walked: it is read under its own name.
"""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy
from firstfault.model.words import CoverageState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
_ADDRESS = lazy(r"[A-Za-z][A-Za-z0-9+.\-]*(?:::[A-Za-z][A-Za-z0-9+.\-]*)*://[^\s]")
_USERINFO = lazy(r"://[^/\s]*@")
_QUERY = lazy(r"(?P<address>\bhttps?://[^\s?#,;'\"]{1,4096})[?#][^\s,;'\"]*")
LEFT_OUT = {".git": "version control", "__pycache__": "compiled Python", "node_modules": "JavaScript packages"}


class Found(Struct, frozen=True):
    """A regular file to read."""

    shown: str
    real: str
    """Where it lies: a path of this machine, or an address."""
    size: int
    """Bytes; -1 where only reading it tells."""
    modified: float | None


class Refused(Struct, frozen=True):
    """A name that is not read, with the reason."""

    shown: str
    state: CoverageState
    reason: str


def is_address(path: str) -> bool:
    """Whether a PATH names something of another machine, or of a store, and no file of this one."""
    return _ADDRESS.match(path) is not None and not os.path.lexists(path)


def expand(paths: Sequence[str]) -> list[str]:
    """PATHs with globs expanded where no file of that very name is there; doubles are dropped, order is kept."""
    seen: dict[str, str] = {}
    for path in paths:
        if is_address(path):
            for one in _addresses(path):
                seen.setdefault(one, one)
            continue
        several = [path]
        if path != STDIN and not os.path.lexists(path) and glob.has_magic(path):
            several = sorted(glob.glob(path, recursive=True)) or [path]  # noqa: PTH207 - absolute ones too
        for one in several:
            seen.setdefault(one if one == STDIN else os.path.abspath(one), one)  # noqa: PTH100 - must not follow links
    return list(seen.values())


def _addresses(address: str) -> list[str]:
    if not glob.has_magic(address.partition("://")[2]):
        return [address]
    from firstfault.readers.far import expanded

    try:
        return expanded(address)
    except OSError:
        return [address]  # whoever opens it says why


def named(address: str) -> tuple[str, ...]:
    """Names on the way to what lies at an address, without what only opens the way: user, password, signature."""
    rest = unsigned(address).partition("://")[2]
    inside, sign, store = rest.partition("::")
    if sign and ("://" in store or store.startswith("/")):  # of an archive in a store: what is in it, else the archive
        rest = inside.strip("/") or store.rpartition("://")[2]
    return tuple(part for part in rest.split("/") if part)


def unsigned(text: str) -> str:
    """Words with addresses in them as they may be shown: without what only opens the way."""
    if "://" not in text:
        return text
    return _QUERY.sub(r"\g<address>", _USERINFO.sub("://", text))


def _parts(path: str) -> tuple[str, ...]:
    """Names on the way to a PATH, the last of which is its own."""
    if is_address(path):
        return named(path)
    return PurePath(os.path.abspath(path)).parts  # noqa: PTH100 - must not follow links


def prefixes(paths: Sequence[str]) -> list[str]:
    """What stands before the shown names of each PATH: nothing for a single one, else its shortest distinct tail."""
    if len(paths) <= 1:
        return [""] * len(paths)
    parts = [_parts(p) for p in paths]
    tails = []
    for index, mine in enumerate(parts):
        others = [p for i, p in enumerate(parts) if i != index]
        length = next(
            (n for n in range(1, len(mine) + 1) if all(other[-n:] != mine[-n:] for other in others)),
            len(mine),
        )
        tails.append("/".join(mine[-length:]).removeprefix("//").removeprefix("/") or "/")
    return tails


def discover(path: str, prefix: str, limit: int) -> Iterator[Found | Refused]:
    """Files behind one PATH, in the order of their names.

    Args:
        path: a file or a folder, of this machine or at an address.
        prefix: as `prefixes` gives it.
        limit: greatest number of files; beyond it the rest is refused in one entry.
    """
    if is_address(path):
        from firstfault.readers.far import listed

        yield from listed(path, prefix, limit)
        return
    shown = prefix or PurePath(os.path.abspath(path)).name or path  # noqa: PTH100 - must not follow links
    try:
        status = os.stat(path)  # noqa: PTH116 - names may be no text
    except FileNotFoundError:
        yield Refused(shown, CoverageState.MISSING, "no such file or folder")
        return
    except OSError as error:
        yield Refused(shown, CoverageState.SKIPPED, _why(error))
        return
    if not stat.S_ISDIR(status.st_mode):
        yield _entry(shown, path, status)
        return
    root = os.path.realpath(path)
    for number, one in enumerate(_walk(path, prefix, root)):
        if number >= limit:
            yield Refused(shown, CoverageState.SKIPPED, f"more than {limit:,} files: the rest was not read")
            return
        yield one


def _walk(folder: str, shown: str, root: str) -> Iterator[Found | Refused]:
    # A stack and not recursion: the depth of a tree is not ours to choose.
    stack: list[tuple[str, str]] = [(folder, shown)]
    while stack:
        place, name = stack.pop()
        try:
            with os.scandir(place) as listing:
                entries = sorted(listing, key=lambda e: os.fsencode(e.name))
        except OSError as error:
            yield Refused(name or ".", CoverageState.SKIPPED, _why(error))
            continue
        deeper = []
        for entry in entries:
            label = f"{name}/{_text(entry.name)}" if name else _text(entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name in LEFT_OUT:
                    yield Refused(label + "/", CoverageState.SKIPPED, LEFT_OUT[entry.name])
                else:
                    deeper.append((entry.path, label))
            elif entry.is_symlink():
                yield _link(label, entry.path, root)
            else:
                try:
                    yield _entry(label, entry.path, entry.stat(follow_symlinks=False))
                except OSError as error:
                    yield Refused(label, CoverageState.SKIPPED, _why(error))
        stack.extend(reversed(deeper))


def _link(shown: str, path: str, root: str) -> Found | Refused:
    try:
        status = os.stat(path)  # noqa: PTH116 - names may be no text
        target = os.path.realpath(path)
    except OSError as error:
        return Refused(shown, CoverageState.SKIPPED, f"a link that leads nowhere ({error.strerror})")
    if target != root and not target.startswith(root.rstrip("/") + "/"):
        return Refused(shown, CoverageState.SKIPPED, "a link out of the folder")
    if stat.S_ISDIR(status.st_mode):
        return Refused(shown, CoverageState.SKIPPED, "a link to a folder that is read under its own name")
    return _entry(shown, target, status)


def _entry(shown: str, path: str, status: os.stat_result) -> Found | Refused:
    if stat.S_ISREG(status.st_mode):
        return Found(shown, str(Path(path)), status.st_size, status.st_mtime)
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(status.st_mode), "not a regular file")
    return Refused(shown, CoverageState.SKIPPED, kind)


def _why(error: OSError) -> str:
    return "no permission to read" if isinstance(error, PermissionError) else f"unreadable: {error.strerror}"


def _text(name: str) -> str:
    r"""A file name as text; bytes that are not UTF-8 as `\xNN`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
