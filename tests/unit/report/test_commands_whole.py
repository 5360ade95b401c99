"""Commands that a report tells to run can be copied as they were meant: in one piece in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import escape
from msgspec.structs import replace

from firstfault.model.words import ActionKind
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.page import page
from firstfault.pipelines.publish import publish, publish_page
from firstfault.report.markdown import told
from firstfault.report.told import parts_of, shortened

LONG = (
    "mkdir -p store_logs; for p in $(printf 'pod/a-0\\npod/b  1\\n' | grep -E 'a-|b  1'); do n=${p#pod/}; "
    'echo "<$n>" *.no_such > store_logs/$n.log; echo "kept  blanks: $n"; cat store_logs/*; done'
)


def test_a_sentence_with_a_command_is_never_cut():
    sentence = f"Free some room on the machine that is full, as root: `{LONG}`; then look at `df -h /scratch` again."
    assert all(shortened(sentence, limit) == sentence for limit in range(3, 160))


def test_a_lone_backtick_is_text():
    assert [p.command for p in parts_of("a ` b")] == [False]


def test_markdown_escapes_nothing_inside_code():
    assert (
        told("Clean *now*: `du -sh /tmp/* | sort -h` (x_ y)") == "Clean \\*now\\*: `du -sh /tmp/* | sort -h` (x\\_ y)"
    )


CASE = Path(__file__).parents[2] / "cases" / "aistore-get-batch-incomplete" / "logs"


def asked(diagnosis):
    """The diagnosis with a command to run in a step, in what to collect, and in a recommendation."""
    step = f"Then, by hand: `{LONG}`. It takes a while."
    action = replace(diagnosis.verdict.action, kind=ActionKind.COLLECT_MORE, steps=["Look.", step, "Last: `true`"])
    verdict = replace(diagnosis.verdict, action=action)
    return replace(diagnosis, verdict=verdict, collect_next=[f"more: `{LONG}`"], recommendations={"client": [step]})


@pytest.mark.parametrize("width", [50, 80, 100])
@pytest.mark.parametrize("height", [None, 60])
def test_the_screen_shows_a_command_whole(width, height):
    text = publish(asked(diagnose([CASE])), "text", "secrets", width=width, height=height)
    shown = " ".join(row.strip().removesuffix(" \\") for row in text.splitlines())
    assert shown.count(LONG) == 2
    assert "It takes a while." in shown


def test_markdown_and_the_page_hold_a_command_as_it_is():
    assert publish(asked(diagnose([CASE])), "markdown", "secrets").count(f"`{LONG}`") == 3
    found = page([CASE])
    html = publish_page(replace(found, diagnosis=asked(found.diagnosis)), "secrets")
    assert html.count(f"<code>{escape(LONG)}</code>") == 4
