"""Looks whether the files that a manifest names are there and what their first bytes say; many at once, and only for a time.

A file system that does not answer costs the time that is left and no more: threads that stand are left behind.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from typing import NamedTuple

from firstfault.dataset.content import Sound, fault_of, sound_of

THREADS = 16
MOST_WAITING = 4096
_END = 1 << 16
_BLOCK = 1 << 20
FUNCTIONS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
"""Length of a digest in hexadecimal -> the function that gives such ones."""


class File(NamedTuple):
    """A file that is looked for."""

    path: str
    name: str
    """Of the item that needs it."""
    manifest: str
    line: int
    rate: int | None = None
    """What the manifest says of its sound."""
    samples: int | None = None
    digest: str = ""
    """Of its content, in hexadecimal, as the manifest states it."""
    others: tuple[str, ...] = ()
    """Where it may lie else: what a relative path is relative to is not written down."""


class Looked(NamedTuple):
    """What was found."""

    file: File
    size: int | None
    """None where it is not there."""
    refused: str = ""
    fault: str = ""
    sound: Sound | None = None
    digest: str = ""
    """Of all its bytes, by the same function as the manifest's; empty where they were not read."""


class Looker:
    """Looks at files in the background; what was found comes by `take`."""

    def __init__(self, end: float, *, contents: bool, digests: bool = False) -> None:
        self.end, self.contents, self.digests = end, contents, digests
        self.asked = self.answered = self.left = 0
        self._todo: queue.Queue[File | None] = queue.Queue(MOST_WAITING)
        self._done: queue.SimpleQueue[Looked] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._seen: set[int] = set()

    def ask(self, file: File) -> None:
        """Looks at a file, once however often it is named; nothing where the time is over."""
        mark = hash(file.path)
        if mark in self._seen:
            return
        if time.monotonic() > self.end:
            self.left += 1
            return
        self._seen.add(mark)
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()
        try:
            self._todo.put(file, timeout=max(0.0, self.end - time.monotonic()))
            self.asked += 1
        except queue.Full:
            self.left += 1

    def take(self, *, last: bool = False) -> list[Looked]:
        """What was found since.

        Args:
            last: wait for all that is asked, as long as there is time; nothing can be asked afterwards.
        """
        found: list[Looked] = []
        while True:
            waits = max(0.0, self.end - time.monotonic()) if last and self.answered < self.asked else 0.0
            try:
                found.append(self._done.get(timeout=waits) if waits else self._done.get_nowait())
            except queue.Empty:
                if last:
                    self.left += self.asked - self.answered
                    self._close()
                return found
            self.answered += 1

    def _close(self) -> None:
        """Lets the threads end; one that stands in the file system ends when that answers."""
        while True:
            try:
                self._todo.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._todo.put_nowait(None)
        if self.answered == self.asked:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (file := self._todo.get()) is not None:
            found = look(file, contents=self.contents)
            if self.digests and found.size and not found.refused:
                found = _whole(found)
            self._done.put(found)


def _whole(found: Looked) -> Looked:
    """With the digest of all bytes of the file."""
    held = hashlib.new(FUNCTIONS.get(len(found.file.digest), "sha256"), usedforsecurity=False)
    try:
        with open(found.file.path, "rb", buffering=0) as stream:
            while block := stream.read(_BLOCK):
                held.update(block)
    except OSError as error:
        return found._replace(refused=error.strerror or str(error))
    return found._replace(digest=held.hexdigest())


def look(file: File, *, contents: bool) -> Looked:
    """What is true of a file, at the first of its places where there is one."""
    first = _look(file, contents=contents)
    for place in file.others:
        if first.size is not None or first.refused:
            return first
        other = _look(file._replace(path=place), contents=contents)
        if other.size is not None:
            return other
    return first


def _look(file: File, *, contents: bool) -> Looked:
    try:
        told = os.stat(file.path)
        if not contents or told.st_size == 0:
            return Looked(file, told.st_size)
        with open(file.path, "rb", buffering=0) as stream:
            head = stream.read(_END)
            stream.seek(max(0, told.st_size - _END))
            tail = stream.read(_END)
    except FileNotFoundError:
        return Looked(file, None)
    except (OSError, ValueError) as error:
        return Looked(file, None, refused=getattr(error, "strerror", None) or str(error))
    return Looked(
        file,
        told.st_size,
        fault=fault_of(file.path, told.st_size, lambda _: (head, tail)),
        sound=sound_of(told.st_size, head),
    )
