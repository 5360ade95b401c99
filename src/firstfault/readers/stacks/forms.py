r"""The lines of each tool that dumps stacks: how a thread begins, what a frame looks like, and what else stands inside a dump.

py-spy (text, --native, --locals), faulthandler, pystack, gdb (`thread apply all bt`, `py-bt`; pstack prints the same),
eu-stack, and the C++ stacks that PyTorch prints on a fatal signal. Puts nothing together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import Frame
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

PY_SPY, FAULTHANDLER, PYSTACK, GDB, EU_STACK, C10 = "py-spy", "faulthandler", "pystack", "gdb", "eu-stack", "c10"

PROCESS = lazy(r"Process (\d{1,9}): (.*)$")
CAUSE = lazy(r"(Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d+)?\)!|Fatal Python error: .*)$")
GDB_PROCESS = lazy(r"Attaching to process (\d{1,9})$|\[Inferior \d+ \(process (\d{1,9})\) detached\]$")
EU_PROCESS = lazy(r"PID (\d{1,9}) - (?:process|core)\b")
ALONE = lazy(r"#0 +0x[0-9a-f]{8,16} in \S.* \(|Traceback \(most recent call first\):\s*$")
"""How gdb's `bt` and `py-bt` of one thread begin, which name no thread."""

_SPY_THREAD = lazy(r'Thread (\d{1,20}|0x[0-9A-Fa-f]{1,16}) \(([a-z]+(?:\+[a-z]+)*)\)(?:: "(.*)")?\s*$')
_SPY_FRAME = lazy(r"(?P<function>\S.{0,2000}?) \((?P<file>[^()\s][^()]{0,1000}?):(?P<line>\d{1,7})\)\s*$")
_SPY_NATIVE = lazy(r"(?P<function>\S.{0,3000}?) \((?P<file>[^():\s]{1,300})\)\s*$")
_FAULT_THREAD = lazy(r"(Current thread|Thread) 0x([0-9a-f]{1,16})(?: \[(.*?)\])? \(most recent call first\):\s*$")
_FAULT_FRAME = lazy(r'\s*File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9}),? in (?P<function>.{1,300}?)\s*$')
_PYSTACK_THREAD = lazy(r"Traceback for thread (\d{1,9}) (?:\((.*?)\) )?\[(.*?)\] \(most recent call last\):\s*$")
_PYSTACK_FRAME = lazy(
    r'\s*\((?P<kind>Python|C)\) File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9}), in (?P<function>.{1,3000}?)(?: \((?P<lib>[^()\s]{1,300})\))?\s*$'
)
_GDB_THREAD = lazy(
    r'Thread (\d{1,6}) \((?:Thread 0x[0-9a-f]{1,16} )?\(?(?:LWP|process) (\d{1,9})\)?(?: "(.*?)")?\)(?: \(\w+\))?:\s*$'
)
_GDB_FRAME = lazy(
    r"#\d{1,5} +(?:0x[0-9a-f]{1,16} in )?(?P<function>\S.{0,3000}?) \(.*?\)(?: from (?P<lib>\S{1,1000})| at (?P<file>\S{1,1000}?):(?P<line>\d{1,7}))?\s*$"
)
_OLD_PY_BT = lazy(
    r"#\d{1,5} +(?:\(unable to read python frame|Frame 0x[0-9a-f]{1,16}, for file (?P<file>.{1,1000}?), line (?P<line>\d{1,7}), in (?P<function>\S{1,300}) \()"
)
_GDB_INSIDE = lazy(
    r"#\d|Traceback \(most recent call first\)|Unable to (?:locate|read)|\(gdb\)|\(frame information|warning:|Python Exception|\["
)
_EU_THREAD = lazy(r"TID (\d{1,9}):\s*$")
_EU_FRAME = lazy(
    r"#\d{1,5} +0x[0-9a-f]{8,16}(?: - 1)?(?: (?P<function>\S.{0,3000}?)??(?: - (?P<lib>/\S{1,1000}))?)?\s*$"
)
_C10_THREAD = lazy(r"(SIG[A-Z]{2,6}\(\d{1,2}\)), PID: (\d{1,9}), Thread (\d{1,9}):\s*$")
_C10_FRAME = lazy(
    r"\s*frame #\d{1,4}: (?P<function>\S.{0,3000}?)(?: \+ 0x[0-9a-f]{1,16})? \((?:0x[0-9a-f]{1,16} in )?(?P<lib>[^()\s]{1,1000})\)\s*$"
)


class Head(NamedTuple):
    """The line that begins a thread."""

    tool: str
    ident: str
    """What tells the thread apart: its number for the system where the tool prints it."""
    name: str | None = None
    state: str | None = None
    main: bool = False
    """Whether the line itself says that it is the main thread."""
    pid: int | None = None
    cause: str | None = None


class Read(NamedTuple):
    """A frame as read."""

    frame: Frame
    native: bool


def head_of(bare: str) -> Head | None:
    """The thread that a line begins; None for any other line."""
    if not bare.startswith(("Thread", "Current", "Traceback", "TID", "SIG")):
        return None
    if (found := _SPY_THREAD.match(bare)) is not None:
        return Head(PY_SPY, found[1], found[3], found[2])
    if (found := _FAULT_THREAD.match(bare)) is not None:
        return Head(FAULTHANDLER, found[2], found[3])
    if (found := _PYSTACK_THREAD.match(bare)) is not None:
        return Head(PYSTACK, found[1], None, found[3] or None)
    if (found := _GDB_THREAD.match(bare)) is not None:
        # gdb counts threads from the one that the process began with.
        first = found[1] == "1"
        return Head(GDB, found[2], found[3], main=first, pid=int(found[2]) if first else None)
    if (found := _EU_THREAD.match(bare)) is not None:
        return Head(EU_STACK, found[1])
    if (found := _C10_THREAD.match(bare)) is not None:
        return Head(C10, found[3], main=found[2] == found[3], pid=int(found[2]), cause=found[1])
    return None


def frame_of(tool: str, text: str) -> Read | None:
    """The frame on a line of a tool's dump; None where it is none."""
    return _FRAMES[tool](text)


def inside(tool: str, text: str) -> bool:
    """Whether a line that is no frame stands among the frames of a thread."""
    if text[:1].isspace():
        return True
    if tool == GDB:
        return _GDB_INSIDE.match(text) is not None
    if tool == EU_STACK:
        return text.startswith("#")
    return tool == C10 and text.startswith(("frame #", "<omitting"))


def is_native(file: str) -> bool:
    """Whether a file is of C or C++, or a library."""
    return file.endswith((".so", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".S")) or ".so." in file


def _spy(text: str) -> Read | None:
    if not text[:1].isspace() or len(text) - len(text.lstrip()) > 6:
        return None  # arguments and locals stand deeper
    bare = text.strip()
    found = _SPY_FRAME.match(bare)
    if found is not None:
        return Read(Frame(found["file"], int(found["line"]), found["function"]), is_native(found["file"]))
    native = _SPY_NATIVE.match(bare)
    return None if native is None else Read(Frame(native["file"], 0, native["function"]), native=True)


def _fault(text: str) -> Read | None:
    found = _FAULT_FRAME.match(text) if text[:1].isspace() else None
    return None if found is None else Read(Frame(found["file"], int(found["line"]), found["function"]), native=False)


def _pystack(text: str) -> Read | None:
    found = _PYSTACK_FRAME.match(text) if text[:1].isspace() else None
    if found is None:
        return None
    native = found["kind"] == "C"
    file = found["lib"] or found["file"] if native else found["file"]
    return Read(Frame(file, int(found["line"]), found["function"]), native)


def _gdb(text: str) -> Read | None:
    if text[:1].isspace():
        return _fault(text)  # a frame of py-bt
    if not text.startswith("#"):
        return None
    python = _OLD_PY_BT.match(text)
    if python is not None:
        if python["file"] is None:
            return None
        return Read(Frame(python["file"], int(python["line"]), python["function"]), native=False)
    found = _GDB_FRAME.match(text)
    if found is None or found["function"] == "??":
        return None
    return Read(Frame(found["lib"] or found["file"] or "", int(found["line"] or 0), found["function"]), native=True)


def _eu(text: str) -> Read | None:
    found = _EU_FRAME.match(text)
    if found is None or not found["function"]:
        return None
    return Read(Frame(found["lib"] or "", 0, found["function"]), native=True)


def _c10(text: str) -> Read | None:
    found = _C10_FRAME.match(text)
    if found is None or found["function"] == "<unknown function>":
        return None
    return Read(Frame(found["lib"], 0, found["function"]), native=True)


_FRAMES: dict[str, Callable[[str], Read | None]] = {
    PY_SPY: _spy,
    FAULTHANDLER: _fault,
    PYSTACK: _pystack,
    GDB: _gdb,
    EU_STACK: _eu,
    C10: _c10,
}
