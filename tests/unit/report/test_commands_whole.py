"""Commands that a report tells to run reach a shell as they were meant: whole in every format, folded only where a shell takes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from markupsafe import escape
from msgspec.structs import replace

from firstfault.model.words import ActionKind
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.page import page
from firstfault.pipelines.publish import publish, publish_page
from firstfault.report.markdown import prose
from firstfault.report.spans import cut, folded, parts

LONG = (
    "mkdir -p store_logs; for p in $(printf 'pod/a-0\\npod/b  1\\n' | grep -E 'a-|b  1'); do n=${p#pod/}; "
    'echo "<$n>" *.no_such > store_logs/$n.log; echo "kept  blanks: $n"; cat store_logs/*; done'
)
HOSTS = "scontrol update NodeName='" + ",".join(f"gpu-r{n:02}-[001-032]" for n in range(20)) + "' State=DRAIN"


def shell(command: str, place) -> tuple[int, str]:
    place.mkdir()
    done = subprocess.run(["/bin/sh", "-c", command], cwd=place, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("width", [24, 40, 63, 83, 200])
def test_a_folded_command_does_what_the_whole_one_does(width, tmp_path):
    lines = folded(LONG, width)
    assert all(line.endswith(" \\") for line in lines[:-1])
    pasted = "\n".join(" " * 20 + line for line in lines)
    assert shell(pasted, tmp_path / "folded") == shell(LONG, tmp_path / "whole")


def test_a_word_longer_than_the_line_stays_whole():
    lines = folded(HOSTS, 60)
    assert HOSTS.split(" ")[2] in "\n".join(lines)
    assert " ".join(line.removesuffix(" \\").strip() for line in lines) == HOSTS


def test_code_in_a_sentence_is_kept_or_left_out_whole():
    told = f"Free some room on the machine that is full, as root: `{LONG}`; then look at `df -h /scratch` again and at the rest."
    for limit in range(3, 160):
        shown = cut(told, limit)
        for part in parts(shown):
            assert not part.code or part.text in {LONG, "df -h /scratch"}
        assert shown.count("`") % 2 == 0


def test_only_what_stands_behind_a_colon_is_to_be_run():
    found = [(p.text, p.to_run) for p in parts("Read `hosts.txt`, then: `ls -l` and `pwd`.") if p.code]
    assert found == [("hosts.txt", False), ("ls -l", True), ("pwd", False)]


def test_a_lone_backtick_is_text():
    assert [p.code for p in parts("a ` b")] == [False]


def test_markdown_escapes_nothing_inside_code():
    assert (
        prose("Clean *now*: `du -sh /tmp/* | sort -h` (x_ y)") == "Clean \\*now\\*: `du -sh /tmp/* | sort -h` (x\\_ y)"
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
