"""What stands behind a traceback: a logger's word that something else is done instead, more of its program, or nothing.

For the first it looks at the next line of the same speaker only (plain text there may be more of the message, and says
nothing), and never behind a traceback that ended its program by its form. Judges no kind of error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.readers.frames import HEAD, QUIET_LEVELS, clean, read_last, uncaught
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_back, lines_from
from firstfault.readers.steplines import read_progress

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore
    from firstfault.readers.raised import Block

MOST_LINES = 80
"""Lines looked at behind the last one of a traceback: its message may go on, and other speakers stand between."""
MOST_BYTES = 16 * 1024
LOOK_BACK = 12
"""Lines before a traceback that tell whether its label is that of all lines of its program."""
_INSTEAD = lazy(
    r"(?i)\bfall(?:s|ing)?[ -]?back|\bre-?try(?:ing)?\b|\bre-?(?:build|creat|generat|comput|calculat|index|download|load|connect|tokeniz)\w*"
    r"|\bskip(?:s|ped|ping)\b|\bignor(?:ed|ing)\b|\bcontinu(?:e|es|ing)\b(?! from)|\binstead\b|\bnot cached\b|\bcache miss\b|\bfrom scratch\b"
    r"|\b(?:build|creat|generat|comput|download|prepar)(?:ing|es)\b|\bwill (?:be )?(?:build|built|create|created|use|used|retry|skip|skipped|download|fall)\b|\busing (?:the )?default"
)
"""Words for what is done in place of what failed."""


_TOP_OF_HYDRA = lazy(r"^Error executing job with overrides: \[")
"""How Hydra heads the traceback with which it ends the program; it takes the outermost frames out of it."""


def _of_hydra(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether Hydra printed a traceback at the top of its program: nothing that follows is of the same process."""
    before = next(iter(lines_back(store, source, block.first_offset, block.first_line, 1, max_bytes=MOST_BYTES)), None)
    if before is None:
        return False
    return _TOP_OF_HYDRA.match(clean(before.text[locate(before.text, 0, profile).body :][:400])) is not None


def survived(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether the next words of a traceback's speaker say what is done instead, so that the program went on.

    A traceback that reaches the top of its program was caught by nobody, whatever follows it: others go on speaking.
    """
    raised = block.raised
    if uncaught(raised.exception.frames) or not raised.exception.kind or _of_hydra(store, source, block, profile):
        return False
    start = raised.span.offset - (raised.span.column - 1)
    behind = max(block.lines)
    for line in lines_from(store, source, start, raised.span.line, MOST_BYTES):
        if line.number > raised.span.line + MOST_LINES:
            return False
        if line.number <= behind or not line.text.strip():
            continue
        found = locate(line.text, 0, profile)
        if found.key and block.key and found.key != block.key:
            continue
        text = clean(line.text[found.body : found.body + 400])
        return found.level in QUIET_LEVELS and _INSTEAD.search(text) is not None
    return False


MOST_ON = 256 * 1024
"""Bytes behind a traceback in which its speaker must go on, where others speak between."""
_PARTING = lazy(
    r"(?i)^\s*(?:srun|slurmstepd|mpirun|mpiexec|prterun|hydra\w*|wandb|make|[\w./-]*sh)(?:\[\d+\])?: |torch[./]distributed[./](?:elastic|launcher|run)\b"
    r"|torchelastic|\blaunch(?:er)?\.py\b|\bMPI_Abort|\(raylet|^\s*(?:[=*-]{5,}|\S+ FAILED\s*$|Root Cause|(?:Other )?Failures:|\[\d+\]:\s*$|<NO_OTHER)"
    r"|Exception ignored|resource_tracker|leaked|warnings\.warn|terminate called|what\(\):|Fatal Python error|^\s*frame #\d|Exception raised from"
    r"|\bprocess group has NOT been destroyed|\bdestroy_process_group|\b(?:exit(?:s|ed|ing)?|return)\b[ -]?(?:code|status|with)?"
    r"|\b(?:abort|terminat|kill)(?:s|ed|ing)?\b|\bcore dumped\b|\bSegmentation fault|\bshut(?:ting)?[ -]?down\b|\bclean(?:ing|ed)?[ -]?up\b"
    r"|\b(?:tear(?:ing)?[ -]?down|giving up|closing|flushing|good-?bye)\b|\b(?:fatal|crash(?:ed)?|panic)\b"
)
"""What launchers, runtimes and programs say where a process ends: none of it shows that the program went on."""
_ALIVE = lazy(r"\[E(?:\d{3,4} [\d:.]+)? ?\w+\.cpp:\d+\]")
"""An error of torch's own threads: its process waits, or works, all the same."""
_LOUD = frozenset({"ERROR", "CRITICAL", "FATAL", "SEVERE", "EXCEPTION"})


def spoke_on(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether the speaker of a traceback went on behind it: with anything but parting words, further errors and its message."""
    raised = block.raised
    start = raised.span.offset - (raised.span.column - 1)
    for line in lines_from(store, source, start, raised.span.line, MOST_ON):
        if line.number <= raised.span.line or not line.text.strip():
            continue
        found = locate(line.text, 0, profile)
        if block.key and found.key != block.key:
            continue
        text = clean(line.text[found.body : found.body + 600])
        if line.number in block.lines and found.level is None and read_progress(line.text) is None:
            continue
        if _ALIVE.search(clean(line.text[:200])) is not None and _PARTING.search(text) is None:
            return True
        if found.level in _LOUD or HEAD in line.text or text[:1].isspace() or read_last(text, near=False) is not None:
            continue
        if _PARTING.search(clean(line.text[:600])) is None:
            return True
    return False


def lived_on(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether the next stamped line behind a traceback is a logger's of the same speaker, where nothing is wrong and nobody leaves.

    A logger hands on each of its lines at once. What is merely printed may have waited in a buffer until its process ended, and
    then stands behind the traceback with an older stamp: a stamp without a level proves nothing, and nothing behind it does.
    """
    raised = block.raised
    if uncaught(raised.exception.frames) or not raised.exception.kind or not raised.exception.frames:
        return False
    start = raised.span.offset - (raised.span.column - 1)
    for line in lines_from(store, source, start, raised.span.line, MOST_BYTES):
        if line.number <= raised.span.line or not line.text.strip():
            continue
        found = locate(line.text, 0, profile)
        if found.stamp is None:
            continue
        if found.level is None:
            return False
        if found.key == block.key:
            return found.level in QUIET_LEVELS and _PARTING.search(clean(line.text[:600])) is None
    return False


_HOOK = lazy(rb"\[rank\d{1,6}\]: Traceback \(most recent call last\)")
"""How torch's exception hook begins; what a launcher labels, or a logger heads, has no blank there, or its head between."""
_OWN_TALK = lazy(rb"\[rank\d{1,6}\]: \S")
"""A line of plain text behind the same label: a program that heads all its lines so; the runtime's own have no blank there."""
_THREADS = ("threading.py", "asyncio/events.py", "asyncio/base_events.py")
"""Files of outermost frames whose exception ends a thread or a task, and not the process."""


def ended(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> tuple[bool, bool]:
    """Whether a traceback is of a form, or at a place, that shows that nothing came after it.

    Returns:
        Whether torch's hook for uncaught exceptions printed it, and whether it is the last that its speaker says.
    """
    exception = block.raised.exception
    if not exception.kind or not exception.frames or exception.frames[0].file.endswith(_THREADS):
        return False, False
    start = block.raised.span.offset - (block.raised.span.column - 1)
    head = next(iter(lines_from(store, source, block.first_offset, block.first_line, MOST_BYTES)), None)
    hooked = head is not None and _HOOK.search(head.text) is not None
    labelled, end, talks = _labels_all(store, source, block, profile), start, False
    # Behind a label that all lines have, what looks like more of the message may be the next thing that is said.
    behind = block.raised.span.line if labelled else max(block.lines)
    for line in lines_from(store, source, start, block.raised.span.line, MOST_BYTES):
        end = line.offset + len(line.text) + 1
        if line.number <= behind or not line.text.strip():
            continue
        found = locate(line.text, 0, profile)
        if block.key and found.key != block.key:
            continue
        talks = True
        labelled = labelled or _OWN_TALK.search(line.text) is not None
        if labelled or not hooked:
            return False, False  # no further line can change that
    whole = end < start + MOST_BYTES
    return hooked and not labelled, whole and not talks


def _labels_all(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether the speaker of a traceback headed plain lines before it with the label of torch's hook."""
    for line in lines_back(store, source, block.first_offset, block.first_line, LOOK_BACK, max_bytes=8192):
        head, talk = HEAD in line.text, _OWN_TALK.search(line.text) is not None
        if (head or talk) and locate(line.text, 0, profile).key == block.key:
            return not head
    return False
