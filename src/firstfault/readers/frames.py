"""The shapes of Python tracebacks: frames, last lines, boxes, margins, and signs that one was caught. Joins nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.evidence import Frame
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = b"Traceback (most recent call last)"

_ANSI = lazy(rb"\x1b\[[0-9;?]*[A-Za-z]|\x00")
LEADING_COLOUR = lazy(rb"(?:\x1b\[[0-9;?]*[A-Za-z]|\x00)+")
_FRAME = lazy(r'File "([^"\n]{1,1000})", line (\d{1,9})(?:, in (.{1,300}?))?\s*$')
_RICH_FRAME = lazy(r"^[│|]\s(\S{1,1000}):(\d{1,9}) in (\S{1,200})")
_MARGIN = lazy(r"^\s*(?:\| )+(?:  )?|^\s*\|\s?$")
_GROUP_RULE = lazy(r"^\s*(?:\| )*\+[-+]+(?: (?:\d+|\.\.\.) -+)?\s*$")
_LAST = lazy(r"^((?:[A-Za-z_]\w*\.)*(?:<locals>\.)?[A-Za-z_]\w*(?:\(\w+\))?)(?::(?:\s|$)(.*))?$", re.DOTALL)
_EXCEPTION_WORD = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Fault|Failure|Timeout|Iteration|Expired|Empty|Full|Invalid|NotFound|Aborted|"
    r"Cancelled|Refused|Killed|Unavailable|Denied|OutOfMemory|Mismatch|Group|EnforceNotMet|error|timeout)(?:\(\w+\))?$",
)
_NOT_LAST = lazy(
    r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|Epoch|Training|Validation|Testing|Loading|Saving|Note|NOTE|Hint|HINT|"
    r"Map|Filter|Iteration|Step|Loss|Warning|Downloading|Traceback|Files?|Rank|Total|Time|Using)$",
)
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_WORKER = lazy(r"Caught (\S{1,120}) in (?:DataLoader worker process (\d{1,6})|pin memory thread|replica)")
_LIBRARY = lazy(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]python\d\.\d+[/\\](?:lib|encodings|asyncio|multiprocessing)[/\\]"
    r"|^<|[/\\]torch[/\\](?:nn|distributed|utils|autograd|cuda|optim|multiprocessing|_\w+|\w+\.py)"
    r"|[/\\]bin[/\\][\w\-]+$",
)
_CAUGHT_TEXT = lazy(
    r"(?i)error|exception|fail(?! with\b| if\b| when\b| at\b| unless\b)|retr(?:y|ies)|could ?n.t|could not|unable|skipp|timed? ?out|reconnect|suppress",
)
_RAISED_ON = lazy(r"(?i)\bre-?(?:rais|throw)(?:e|es|ing)\b")
"""What a program says that hands on the error which it caught: nobody went on."""
_QUOTATION = lazy(r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"")
"""Words in quotation marks: a notice that quotes an error tells of no exception that somebody caught."""
_SETTING = lazy(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
"""The name of a variable of the environment (`NCCL_TIMEOUT`)."""
_ADVICE = lazy(
    r"(?i)\b(?:(?:may|might|can|could|will|should|would|to|and) (?:help )?(?:to )?(?:avoid|prevent|reduce|lead to|result in|cause|hide|mask|run into)"
    r"|(?:avoid|prevent)s|consider|recommended|in case of|instead of|if|unless|when)\b[^\n]*"
)
"""What a notice says that may happen, or that should be done: no exception was caught."""
_COUNTER = lazy(
    r"(?i)\b(?:\w*_)?(?:skip(?:s|ped)?|errors|failed|failures|retries|timeouts|exceptions)['\"]?(?:=|: ?)\d+\b(?!/)"
)
"""A metric with its value in a line of figures (`skipped=0`, `errors: 2`): it tells of no exception."""
_SWALLOWED = lazy(
    r"^\s*(?:Exception ignored (?:in|on|while)|--- Logging error ---|Error in atexit\._run_exitfuncs|Error in sys\.excepthook)"
)
"""What the interpreter announces a traceback with that ends nothing; what programs say above theirs, signatures know."""
_OF_THREAD = lazy(r"^\s*Exception in thread \S")
"""What the interpreter writes above the traceback of a thread that is not the main one: its process goes on."""
QUIET_LEVELS = frozenset({"DEBUG", "TRACE", "INFO", "NOTICE", "WARNING", "WARN", "SUCCESS"})
_TOP = frozenset({"<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "spawn_main"})
_GONE = frozenset({"BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "EOFError"})


def clean(text: bytes) -> str:
    r"""Text without colours and NUL bytes, undecodable bytes as `\xNN`."""
    return _ANSI.sub(b"", text).decode("utf-8", "backslashreplace")


def read_frame(text: str) -> Frame | None:
    """Frame that a line names, also behind text of another writer; None where it names none."""
    if 'File "' in text:
        found = _FRAME.search(text)
        if found is not None:
            return Frame(found[1], int(found[2]), found[3] or "")
    if text[:1] in {"│", "|"}:
        found = _RICH_FRAME.match(text)
        if found is not None:
            return Frame(found[1], int(found[2]), found[3])
    return None


def strip_margin(text: str) -> tuple[str, bool]:
    """Text without the `| ` margin of an exception group, and whether it was a rule between its members."""
    if text.lstrip()[:1] not in {"|", "+"}:
        return text, False
    if _GROUP_RULE.match(text):
        return "", True
    return _MARGIN.sub("", text, count=1), False


def read_last(text: str, *, near: bool) -> tuple[str, str] | None:
    """Class and message where a line can be the last of a traceback.

    Args:
        text: line after its stream prefix; it must not be indented.
        near: whether the line before it, of the same speaker, was part of the traceback: then any class name will do.
    """
    found = _LAST.match(text.rstrip())
    if found is None or _NOT_LAST.match(found[1]):
        return None
    name = found[1]
    short = name.rsplit(".", 1)[-1]
    if _EXCEPTION_WORD.search(short) or (near and (short[0].isupper() or "." in name)):
        return name, (found[2] or "").strip()
    return None


def is_traceback_part(text: str) -> bool:
    """Whether a line can stand between the frames of a traceback: source text, carets, boxes, repetitions."""
    return not text or text[0] in " \t│|╰╭+^~❱"


def uncaught(frames: Sequence[Frame]) -> bool:
    """Whether a traceback begins at the top of its program (or of a process or thread): nobody caught the exception."""
    return bool(frames) and frames[0].function in _TOP


def worker_of(message: str) -> tuple[bool, int | None]:
    """Whether a message says that the exception comes from a DataLoader worker, and from which one."""
    found = _WORKER.match(message)
    if found is None:
        return False, None
    return found[2] is not None, None if found[2] is None else int(found[2])


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """Innermost frame outside installed libraries; None where all are installed."""
    return next((f for f in reversed(frames) if not _LIBRARY.search(f.file)), None)


_ATTEMPT_OF = lazy(r"\b(\d{1,3})/(\d{1,3})[\])]?\s*$")


def of_thread(before: str) -> bool:
    """Whether the line before a traceback says that a thread other than the main one ended with it."""
    return _OF_THREAD.search(before) is not None


def swallowed(before: str) -> bool:
    """Whether the interpreter's own line before a traceback says that it ends nothing."""
    return _SWALLOWED.match(before) is not None


_CONTINUING = lazy(r"(?i)\bcontinu(?:e|es|ing)\b(?! from)")


def promised(before: str) -> bool:
    """Whether the line before a traceback says in so many words that its program goes on: it continues, or has attempts left."""
    attempt = _ATTEMPT_OF.search(before)
    return _CONTINUING.search(before) is not None if attempt is None else int(attempt[1]) < int(attempt[2])


def was_caught(before: str, level: str | None, frames: Sequence[Frame]) -> bool:
    """Whether the line before a traceback says that somebody caught the exception.

    A traceback that begins at the top of the program was caught by nobody, whatever a warning said just before it. For the
    others the word is a program's, and may be about something else: whether it went on, only what stands behind tells.

    Args:
        before: last line of the same speaker before the traceback.
        level: level of that line, None where it is no logger's.
        frames: of the traceback, outermost first.
    """
    if swallowed(before):
        return True
    if uncaught(frames) or _RAISED_ON.search(before) is not None:
        return False
    attempt = _ATTEMPT_OF.search(before)
    if attempt is not None and attempt[1] == attempt[2]:
        # The last of its attempts: nobody repeats it once more.
        return False
    if level not in QUIET_LEVELS:
        return False
    for aside in (_QUOTATION, _COUNTER, _SETTING, _ADVICE):
        before = aside.sub("", before)
    return _CAUGHT_TEXT.search(before) is not None


def ended_nothing(kind: str, frames: Sequence[Frame]) -> bool:
    """Whether an exception is of a kind that its surroundings swallow: clean-up at exit, feeder and pin threads whose peer went."""
    if any(f.function == "_run_finalizers" and f.file.endswith("util.py") for f in frames):
        return True
    gone = kind.rsplit(".", 1)[-1] in _GONE
    return gone and any(f.function in {"_feed", "_pin_memory_loop", "do_one_step"} for f in frames)
