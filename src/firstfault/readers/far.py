"""Files that lie at addresses (`s3://bucket/job/`, `gs://`, `hdfs://`, `sftp://`, …), by way of fsspec: listed, and read in ranges.

Nothing is asked of any network unless a PATH is an address. Whatever such a store answers that is no answer is an `OSError`
here, so that who reads need not know where a file lies. Loaded only where somebody gave an address.
"""

from __future__ import annotations

import datetime as dt
import errno
import inspect
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from firstfault.model.words import CoverageState
from firstfault.readers.discover import LEFT_OUT, Found, Refused, named, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

_BLOCK = 1 << 20
"""Bytes that are asked for where somebody wants fewer: who looks at a place looks beside it next."""
_MOST_BLOCKS = 64
_AT_ONCE = 8 << 20
"""Bytes that are asked for at a time where a file is copied."""
_NOT_THERE = (404, 410)
_FORBIDDEN = (401, 403)
"""Answers of web servers."""
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
"""What stores call the time of the last change."""


class FarError(OSError):
    """A store did not give what was asked of it."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EIO, text)


class NoRangesError(FarError):
    """A web server gave a file whole of which a part was asked."""

    def __init__(self) -> None:
        super().__init__("the server gives no parts of files")


def reached(address: str) -> tuple[Any, str]:
    """The store of an address, and the name that the address has in it.

    Raises:
        FarError: nothing here can read such addresses.
    """
    try:
        from fsspec import get_filesystem_class
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise FarError("addresses need fsspec: `pip install firstfault[cluster]`") from error
    try:
        kind = address.partition("://")[0]
        if "::" in address and "::" not in kind and not _holds_another(get_filesystem_class(kind)):
            # The colons are of a name, and fsspec takes them for a chain of stores.
            made: Any = get_filesystem_class(kind)
            return made(**made._get_kwargs_from_urls(address)), str(made._strip_protocol(address))  # noqa: SLF001 - it has no other word for it
        store, name = url_to_fs(address)
    except Exception as error:
        raise FarError(_short(error)) from error
    return store, str(name)


def _holds_another(kind: Any) -> bool:
    """Whether a store of this kind reads what lies in another one, as an archive does."""
    return bool({"fo", "fs", "target_protocol"} & set(inspect.signature(kind.__init__).parameters))


def _address(store: Any, name: str, given: str) -> str:
    """The address that leads to a name in the store of another address.

    Not all stores know it themselves: those with a host leave that out, those in another store the other one.
    """
    itself = str(store.unstrip_protocol(name))
    kind, _, rest = given.partition("://")
    inner = f"{kind}://{name}::{rest.partition('::')[2]}"
    beside = f"{kind}://{rest.partition('/')[0]}/{name.lstrip('/')}"
    for address in (itself, inner if "::" in rest else beside):
        try:
            if reached(address) == (store, name):
                return address
        except FarError:
            continue
    return itself


def _asked(what: Callable[[], T]) -> T:
    """What a store answers.

    Raises:
        FileNotFoundError: it has no such file.
        PermissionError: it does not let us.
        FarError: anything else.
    """
    try:
        return what()
    except PermissionError:
        raise
    except FileNotFoundError as error:
        behind = error.__cause__
        status = getattr(behind, "status", None)
        down = isinstance(behind, OSError) and not isinstance(behind, FileNotFoundError)
        if status in _NOT_THERE or (status is None and not down):
            raise
        if status in _FORBIDDEN:
            raise PermissionError(errno.EACCES, "no permission") from error
        raise FarError(_short(behind)) from error  # servers that are down or broken are called files that are not there
    except Exception as error:
        raise FarError(_short(error)) from error


def expanded(address: str) -> list[str]:
    """An address with its globs expanded; as it stands where nothing fits.

    Raises:
        OSError: nobody answers.
    """
    store, name = reached(address)
    found = _asked(lambda: sorted(map(str, store.glob(name))))
    return [_address(store, one, address) for one in found] or [address]


def listed(address: str, prefix: str, limit: int) -> Iterator[Found | Refused]:
    """Files behind one address, in the order of their names.

    Args:
        address: of a file or a folder.
        prefix: what stands before the shown names.
        limit: greatest number of files; beyond it the rest is refused in one entry.
    """
    label = prefix or next(reversed(named(address)), address)
    try:
        store, root = reached(address)
        told = _asked(lambda: store.info(root))
        if not _is_folder(store, root, told):
            yield _found(_address(store, root, address), label, told)
            return
        files: dict[str, dict[str, Any]] = _asked(lambda: store.find(root, detail=True))
    except FileNotFoundError:
        yield Refused(label, CoverageState.MISSING, "no such file or folder")
        return
    except PermissionError:
        yield Refused(label, CoverageState.SKIPPED, "no permission to read")
        return
    except OSError as error:
        yield Refused(label, CoverageState.SKIPPED, f"unreadable: {error.strerror}")
        return
    base = root.rstrip("/") + "/"
    left_out: set[str] = set()
    for number, name in enumerate(sorted(files)):
        below = name.removeprefix(base).lstrip("/")
        shown = f"{prefix}/{below}" if prefix else below
        folder = next((part for part in below.split("/")[:-1] if part in LEFT_OUT), None)
        if number >= limit:
            yield Refused(label, CoverageState.SKIPPED, f"more than {limit:,} files: the rest was not read")
            return
        if folder is not None:
            place = shown[: shown.index(folder) + len(folder)] + "/"
            if place not in left_out:
                left_out.add(place)
                yield Refused(place, CoverageState.SKIPPED, LEFT_OUT[folder])
        elif below and files[name].get("type") != "directory":
            yield _found(_address(store, name, address), shown, files[name])


def _is_folder(store: Any, name: str, told: dict[str, Any]) -> bool:
    """Whether files lie below a name; a web server tells that only by a page of links."""
    if "http" in store.protocol and name.endswith("/") and told.get("mimetype") == "text/html":
        return bool(_asked(lambda: store.ls(name, detail=False)))
    return bool(told.get("type") == "directory")


def _found(address: str, shown: str, told: dict[str, Any]) -> Found:
    size = told.get("size")
    modified = next((t for key in _TIMES if (t := _time(told.get(key))) is not None), None)
    return Found(shown, address, size if isinstance(size, int) else -1, modified)


def _time(value: object) -> float | None:
    """Seconds since the epoch; None where a store tells none."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        return value.timestamp()
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _part(store: Any, name: str, offset: int, length: int) -> bytes:
    """Bytes of a file of a web server, which may give the whole where a part is asked: then it is a ValueError, and nothing is read."""
    with store.open(name, "rb", block_size=length, size=offset + length, cache_type="none") as file:
        file.seek(offset)
        return bytes(file.read(length))


def _streamed(store: Any, name: str) -> Iterator[bytes]:
    """All of a file of a web server, from the beginning."""
    file = _asked(lambda: store.open(name, "rb", block_size=0))
    try:
        while part := _asked(lambda: bytes(file.read(_BLOCK))):
            yield part
    finally:
        file.close()


class FarFiles:
    """Reads ranges of files at addresses; what was read last is kept, since readers come back to it. Threads may share one."""

    def __init__(self) -> None:
        self._stores: dict[str, tuple[Any, str]] = {}
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, address: str, offset: int, length: int) -> bytes:
        """Bytes from an offset; fewer where the file ends before.

        Raises:
            OSError: it cannot be read.
        """
        if length > _BLOCK:
            return self._range(address, offset, length)
        first, last = offset // _BLOCK, (offset + length - 1) // _BLOCK
        data = b"".join(self._block(address, number) for number in range(first, last + 1))
        start = offset - first * _BLOCK
        return data[start : start + length]

    def blocks(self, address: str) -> Iterator[bytes]:
        """All of a file whose length need not be known.

        Raises:
            OSError: the store gives no more.
        """
        store, name = self._reached(address)
        if "http" in store.protocol:
            yield from _streamed(store, name)
            return
        at = 0
        while part := self._range(address, at, _AT_ONCE):
            yield part
            at += len(part)
            if len(part) < _AT_ONCE:
                return

    def _block(self, address: str, number: int) -> bytes:
        key = (address, number)
        with self._lock:
            known = self._blocks.get(key)
            if known is not None:
                self._blocks.move_to_end(key)
                return known
        block = self._range(address, number * _BLOCK, _BLOCK)
        with self._lock:
            self._blocks[key] = block
            while len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def _reached(self, address: str) -> tuple[Any, str]:
        known = self._stores.get(address)
        if known is None:
            if len(self._stores) > _MOST_BLOCKS:
                self._stores.clear()
            known = self._stores[address] = reached(address)
        return known

    def _range(self, address: str, offset: int, length: int) -> bytes:
        store, name = self._reached(address)
        try:
            if "http" in store.protocol:
                return _asked(lambda: _part(store, name, offset, length))
            return bytes(_asked(lambda: store.cat_file(name, start=offset, end=offset + length)))
        except FarError as error:
            if isinstance(error.__cause__, ValueError) and "http" in store.protocol:
                raise NoRangesError from error
            if "range" in str(error).lower() and "satisf" in str(error).lower():
                return b""  # it begins behind the end
            raise

    def close(self) -> None:
        """Lets go of what was kept."""
        with self._lock:
            self._blocks.clear()
            self._stores.clear()


def _short(error: BaseException | None) -> str:
    text = unsigned(os.fsencode(str(error).strip().split("\n", 1)[0]).decode("utf-8", "backslashreplace"))
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:200]
