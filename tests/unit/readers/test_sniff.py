"""What a file holds is told by its content; its name helps only where content cannot tell."""

import json
import random
import re
from pathlib import Path

import pytest

from firstfault.cli.main import main
from firstfault.model.words import SourceKind
from firstfault.pipelines.publish import FORMATS
from firstfault.readers.open import open_inputs
from firstfault.readers.sniff import _holds_record_time, sniff

INCIDENT = Path(__file__).parents[3] / "examples" / "incident" / "logs"
CLASSES = "\n".join(
    f'class Command{n}:\n    """A part."""\n\n    def run(self):\n        if not self.ready:\n            raise ValueError("x")\n        return {n}'
    for n in range(40)
)


def kind(text: str, name: str) -> SourceKind:
    data = text.encode()
    return sniff(data, data, name).kind


def test_deeply_indented_source_code_is_no_dump_of_stacks():
    assert kind(CLASSES, "index.py") is SourceKind.CONFIG


def test_indented_lines_without_the_head_of_a_stack_are_a_log():
    assert kind("        indented output of some program\n" * 20, "console") is SourceKind.LOG


def test_stacks_are_known_under_any_name():
    dump = "Thread 0x00007f1a2b3c4d5e (most recent call first):\n" + '  File "/a/train.py", line 10 in step\n' * 5
    assert kind(dump, "hang.txt") is SourceKind.STACKS


def test_the_description_of_a_package_is_no_log():
    text = "Metadata-Version: 2.1\nName: trainer\nVersion: 0.3\n\nRuntimeError: CUDA error is explained here.\n"
    assert kind(text, "trainer.egg-info/PKG-INFO") is SourceKind.CONFIG


@pytest.mark.parametrize("command", [[], ["ranks"], ["timeline"], *(["--format", form] for form in FORMATS)])
@pytest.mark.parametrize("columns", ["40", "100"])
def test_our_own_reports_are_no_evidence(command, columns, capfdbinary, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        main([*command, str(INCIDENT)])
    report = capfdbinary.readouterr().out
    assert kind(report.decode(), "report.txt") is SourceKind.CONFIG


@pytest.mark.parametrize("key", ["log", "message", "line", "MESSAGE", "body", "_raw", "@message", "textPayload"])
def test_exports_of_log_stores_are_logs_though_they_are_named_json(key):
    record = json.dumps({"timestamp": "1762942200000157000", key: "step 3 loss 1.0", "fields": {"pod": "p-0"}}) + "\n"
    assert kind(record * 3, "export.json") is SourceKind.LOG


def test_a_number_under_the_key_line_makes_no_log():
    assert kind('{"line": 12, "file": "a.py"}\n' * 3, "coverage.json") is SourceKind.CONFIG


LINES = "[2025-03-02 10:00:01] 开始训练，共三百步\n[2025-03-02 10:00:05] 第一步 损失 2.31\nOSError: [Errno 28] 设备上没有空间\n"


@pytest.mark.parametrize("ascii_lines", [0, 400])
def test_chinese_text_of_a_chinese_locale_is_turned_into_utf8(tmp_path, ascii_lines):
    text = "plain line of a program\n" * ascii_lines + LINES
    (tmp_path / "train.log").write_bytes(text.encode("gb18030"))
    opened = open_inputs([str(tmp_path)])
    (source,) = opened.sources
    assert source.kind is SourceKind.LOG
    assert opened.store.read(source.id, 0, source.size).decode() == text


@pytest.mark.parametrize(
    "data",
    [
        LINES.encode(),
        LINES.encode()[:-1][:-2],
        LINES.encode() + b"\xff\xfe broken bytes \xd6\xd0",
        "Température élevée: 92 °C, arrêt demandé à la fin de l'étape\n".encode("latin-1") * 5,
        bytes(range(256)) * 8,
    ],
    ids=["utf-8", "utf-8 cut in a letter", "utf-8 with broken bytes", "latin-1", "binary"],
)
def test_other_bytes_are_not_taken_for_chinese(data):
    assert sniff(data, data, "train.log").encoding == ""


def test_the_time_of_a_daemons_record_is_found_as_its_pattern_finds_it():
    rng = random.Random(7)
    parts = [
        b"I 12:34:56.7",
        b"W12:34:56.7",
        b"12:34:56.7",
        b"I 112:34:56.7",
        b"E 1:22:33.4",
        b":",
        b" ",
        b"E",
        b"12",
        b"\n",
    ]
    found = 0
    for _ in range(2000):
        head = b"".join(rng.choice(parts) for _ in range(rng.randrange(1, 9)))
        wanted = re.search(rb"[IWE] ?\d\d:\d\d:\d\d\.\d", head) is not None
        assert _holds_record_time(head) is wanted, head
        found += wanted
    assert 200 < found < 1800


OBJECTS = "".join(f'{{"step": {n}, "loss": 2.{n}, "rank": 0}}\n' for n in range(40))
ROWS = "step,loss,lr\n" + "".join(f"{n},2.{n},0.001\n" for n in range(40))
ENDS = (
    'Traceback (most recent call last):\n  File "t.py", line 4, in <module>\n    main()\ntorch.OutOfMemoryError: CUDA out of memory.\n',
    "[rank3]:[E0504 09:29:00.065477000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout\n",
    "slurmstepd: error: *** JOB 77 ON gn01 CANCELLED AT 2026-05-04T09:29:00 DUE TO TIME LIMIT ***\n",
    "RuntimeError: CUDA error: an illegal memory access was encountered\n",
)


@pytest.mark.parametrize("steps", [OBJECTS, ROWS])
@pytest.mark.parametrize("end", ENDS)
def test_a_log_whose_steps_are_objects_or_rows_is_no_file_of_metrics_alone(steps, end):
    assert kind(steps + end, "train.log") is SourceKind.LOG
    assert sniff(steps.encode(), (steps[-60:] + end).encode(), "train.log").kind is SourceKind.LOG


@pytest.mark.parametrize(
    "text",
    [
        OBJECTS,
        ROWS,
        OBJECTS + '{"step": 41, "lo',
        '{"step": 1, "loss":\n  2.0}\n{"step": 2, "loss":\nNaN}\n',
        "time,step,loss\n" + "".join(f"2026-05-04 09:00:{n:02d},{n},2.{n}\n" for n in range(40)),
    ],
)
def test_a_file_of_metrics_alone_is_one(text):
    assert kind(text, "metrics.jsonl") is SourceKind.METRICS
