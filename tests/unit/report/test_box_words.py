"""Lines of the black box in words, beside the raw line."""

import pytest

from firstfault.i18n import messages
from firstfault.recorder import format as layout
from firstfault.report.box_words import in_words

SAY = messages("en")


def quoted(kind, room=400, **fields):
    return layout.line(kind, {"time": "2026-03-04T05:06:07+00:00", **fields}).decode().rstrip("\n")[:room]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            quoted(layout.EXCEPTION, rank=3, host="node-a", step=12, phase="data", type="ValueError", message='label 17 is "bad"'),
            'rank 3 raised ValueError: label 17 is "bad" (phase data, after step 12)',
        ),
        (quoted(layout.EXCEPTION, rank=0, type="KeyError", message=""), "rank 0 raised KeyError"),
        (
            quoted(layout.EXCEPTION, rank=1, type="OSError", message="first line\nsecond", chain=[{"type": "X", "message": "y"}]),
            "rank 1 raised OSError: first line",
        ),
        (
            quoted(layout.EXCEPTION, rank=1, type="OSError", original="OSError: [Errno 5] no: '/d/a.tar'", message="Caught OSError in DataLoader worker process 0.\nOriginal Traceback"),
            "rank 1 raised OSError: Caught OSError in DataLoader worker process 0: OSError: [Errno 5] no: '/d/a.tar'",
        ),
        (quoted(layout.EXCEPTION, rank=None, type="OSError", message="no"), "a process raised OSError: no"),
        (quoted(layout.DEATH, rank=0, how="was ended by SIGKILL", step=0), "rank 0 was ended by SIGKILL (after step 0)"),
        (quoted(layout.HANG, rank=5, phase="checkpoint"), "rank 5 was seen to stand still (phase checkpoint)"),
        (quoted(layout.EXCEPTION, 131, rank=3, step=9, type="ValueError", message="label"), "rank 3 raised ValueError: lab (after step 9)"),
        (quoted(layout.EXCEPTION, 60, rank=3, type="ValueError"), ""),
        (quoted(layout.HEADER, rank=3), ""),
        ('{"kind":"exception","rank":3,"type":"ValueError"}', ""),
        ("ValueError: label 17", ""),
    ],
)  # fmt: skip
def test_a_line_is_said_in_words(text, words):
    assert in_words(text, SAY) == words, text
