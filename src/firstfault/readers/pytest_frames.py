"""Reads the frames of a traceback as pytest prints it, around a line that begins with `E`. Observes; it does not judge.

    tests/test_ckpt.py:31: in test_save
        dcp.save(state)
    /venv/torch/distributed/checkpoint/filesystem.py:145: in __init__
        self.stream = torch.cuda.current_stream()
    E   torch.OutOfMemoryError: CUDA out of memory.

In its long form the place of a frame stands below its source, and the function is told by the source's own `def`.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from firstfault.model.evidence import Frame, PythonException
from firstfault.model.lazy import lazy
from firstfault.readers.frames import read_last, user_frame
from firstfault.readers.lines import lines_back, lines_from
from firstfault.readers.same_label import behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.evidence import SourceId
    from firstfault.readers.lines import TextStore

SAID = lazy(r"(?:^|(?<=\s))E {3,12}(?=\S)")
"""What pytest writes before the lines of an exception's message."""
SIGN = b"E   "
"""What is in every line of which `SAID` finds anything."""
MOST_BEFORE, MOST_BEHIND, BEHIND = 400, 40, 8 << 10
"""Lines before and behind the line of a message, and bytes behind it, in which its frames are looked for."""
_PLACE = lazy(r"^(\S{1,1000}\.py):(\d{1,9}): ?(?:in (\S.{0,200}?)|(?:[A-Za-z_][\w.]{0,100})?)\s*$")
_DEF = lazy(r"^ {4}(?:async )?def (\w{1,200})\(")
_EDGE = lazy(r"^(?:_{3,} .{1,300} _{3,}|={3,}(?: .{1,300} =+)?)\s*$")


def frames_around(lines: Sequence[str], at: int) -> list[Frame]:
    """The frames of the traceback to which a line belongs, outermost first; none where pytest did not write it.

    Args:
        lines: of the log, with those around it.
        at: index of the line, which holds a part of the exception's message.
    """
    said = SAID.search(lines[at])
    if said is None:
        return []
    text_of = behind(lines[at][: said.start()])
    texts = [text_of(line) for line in lines]
    first = at
    while first and (before := texts[first - 1]) is not None and not _EDGE.match(before):
        first -= 1
    frames: list[Frame] = []
    function = ""
    for number, text in enumerate(texts[first:], first):
        if text is None or (number > at and _EDGE.match(text)):
            break
        place = _PLACE.match(text)
        if place is None:
            named = _DEF.match(text)
            function = function if named is None else named[1]
            continue
        frames.append(Frame(place[1], int(place[2]), place[3] or function))
        function = ""
        if number > at:
            break  # the innermost place stands below the message, where it does at all
    return frames


def exception_in(store: TextStore, source: SourceId, offset: int, number: int) -> PythonException | None:
    """The exception whose class pytest prints in the line that begins at an offset, with its frames; None where it is no such line."""
    before = lines_back(store, source, offset, number, MOST_BEFORE)
    behind = islice(lines_from(store, source, offset, number, BEHIND), MOST_BEHIND)
    lines = [line.text.decode("utf-8", "replace") for line in (*before, *behind)]
    said = SAID.search(lines[len(before)]) if len(before) < len(lines) else None
    raised = None if said is None else read_last(lines[len(before)][said.end() :], near=False)
    frames = frames_around(lines, len(before)) if raised is not None else []
    if said is None or raised is None or not frames:
        return None
    mark = lines[len(before)][: said.end()]
    more = takewhile(lambda line: line.startswith(mark), lines[len(before) + 1 :])
    message = "\n".join([raised[1], *(line[len(mark) :] for line in more)])
    return PythonException(kind=raised[0], message=message, frames=tuple(frames), user_frame=user_frame(frames))
