"""A C++ exception as libstdc++ and PyTorch print it: its class, its message, and the innermost frame of the user's own code.

    terminate called after throwing an instance of 'c10::Error'
      what():  expected 3 index tensors, got 2
    Exception raised from gather_rows at /build/rowops/csrc/gather.cpp:88 (most recent call first):
    frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f3b in /opt/venv/…/torch/lib/libc10.so)

Looks at the lines around one `what():` only, and judges nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import Frame, PythonException
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

WHAT = "torch.cpp_exception"
"""Signature of the line with `what():`."""
BEFORE = 600
BEHIND = 32 << 10
"""Bytes looked at before and behind the line."""
MOST_LINES = 200
_KIND = lazy(r"terminate called after throwing an instance of '([^'\n]{1,200})'")
_RAISED = lazy(r"Exception raised from (\S{1,300}) at (\S{1,500}):(\d{1,7}) \(most recent call first\):")
_FRAME = lazy(
    r"frame #\d{1,4}: (\S.{0,2000}?)(?: \+ 0x[0-9a-f]{1,16})? \((?:0x[0-9a-f]{1,16} in )?([^()\s]{1,1000})\)\s*$"
)
_THEIRS = lazy(
    r"(?:^|/)(?:torch|aten|c10|caffe2|ATen)/|/libtorch|/libc10|/libstdc\+\+|/libc\.so|/libc-|/libm\.so|/libpthread|/ld-linux|/libpython"
    r"|/python[\d.]*$|/libcuda|/libcudart|/libnccl|/libcublas|/libcudnn|/libgomp|/libucp|/libuc[tsm]|/libibverbs|^\.\./"
)
"""Libraries and sources of PyTorch, of the system and of vendors."""


def exception_at(store: TextStore, source: SourceId, offset: int, line: int, profile: SourceProfile) -> PythonException:
    """The exception whose `what():` stands in the line that begins at an offset."""
    kind, message, raised, own = "", "", None, None
    for text in _before(store, source, offset, profile):
        found = _KIND.search(text)
        kind = kind if found is None else found[1]
    key: bytes | None = None
    for number, each in enumerate(lines_from(store, source, offset, line, BEHIND)):
        if number > MOST_LINES:
            break
        place = locate(each.text, 0, profile)
        key = place.key if key is None else key
        if place.key != key:
            continue
        text = each.text[place.body :][:4096].decode("utf-8", "replace").strip()
        if number == 0:
            message = text.partition("what():")[2].strip()
        elif (found := _RAISED.search(text)) is not None and raised is None:
            raised = Frame(found[2], int(found[3]), found[1])
        elif (found := _FRAME.match(text)) is not None:
            own = own or (None if _THEIRS.search(found[2]) else Frame(found[2], 0, found[1]))
        elif raised is not None and not text.startswith("<omitting"):
            break
    inside = raised is not None and not _THEIRS.search(raised.file)
    return PythonException(kind=kind or "C++ exception", message=message, user_frame=raised if inside else own)


def _before(store: TextStore, source: SourceId, offset: int, profile: SourceProfile) -> Iterator[str]:
    """The few lines before a line, without what other programs put before them."""
    start = max(0, offset - BEFORE)
    for raw in store.read(source, start, offset - start).split(b"\n")[-4:-1]:
        yield raw[locate(raw, 0, profile).body :].decode("utf-8", "replace")
