"""Logs inside documents: each line keeps its number, what is no log is empty, and beside a real log documents stay documents."""

from __future__ import annotations

import json

import pytest

from firstfault.model.words import SourceKind, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.open import open_inputs
from firstfault.readers.unwrap import HTML, JSON, MARKDOWN, ROW, unwrapped

RAISED = [
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/app/train.py", line 20, in <module>',
    "[rank3]:     run(a < b & c)",
    "[rank3]: KeyError: 'caption'",
]


def lines(text, form, block=7):
    data = text.encode()
    parts = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join(unwrapped(parts, form)).decode().split("\n")


def test_a_record_of_json_stands_on_the_line_of_its_text():
    events = [{"logStreamName": "a", "timestamp": 1795183323000 + n, "message": m} for n, m in enumerate(RAISED)]
    text = json.dumps({"events": events, "searchedLogStreams": []}, indent=4)
    given, read = text.split("\n"), lines(text, JSON)
    assert len(read) == len(given)
    told = [n for n, line in enumerate(given) if '"message"' in line]
    assert [n for n, line in enumerate(read) if line] == told
    assert [json.loads(read[n]) for n in told] == events


def test_a_time_behind_the_text_is_of_the_same_record():
    text = '[\n  {\n    "textPayload": "step 1",\n    "resource": {\n      "type": "k8s"\n    },\n    "timestamp": "2026-01-02T03:04:05Z"\n  }\n]\n'
    (record,) = filter(None, lines(text, JSON))
    assert json.loads(record)["timestamp"] == "2026-01-02T03:04:05Z"


def test_a_page_is_read_as_it_is_shown():
    body = "\n".join(line.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#x27;") for line in RAISED)
    text = f'<!DOCTYPE html>\n<html><head><script>\nif (a) {{ throw Error("KeyError: 1") }}\n</script></head>\n<pre class="log"><span>{body}</span></pre>\n'
    assert [line for line in lines(text, HTML) if line] == RAISED
    assert lines(text, HTML).index(RAISED[0]) == text.split("\n").index('<pre class="log"><span>' + RAISED[0])


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "```text", "```python", "   ```"])
def test_a_pasted_log_is_read_and_the_prose_around_it_is_not(fence):
    close = fence.strip().rstrip("texpyhon")
    text = "\n".join(["It dies with a CUDA out of memory:", fence, *RAISED, close, "", "torch 2.7, why?"])
    assert lines(text, MARKDOWN) == ["", "", *RAISED, "", "", ""]


def test_quoted_code_is_no_log():
    text = '```python\nraise KeyError("caption")\n```\n```\n' + "\n".join(RAISED) + "\n```\n"
    assert [line for line in lines(text, MARKDOWN) if line] == RAISED


def test_a_document_without_fences_is_read_as_it_is():
    assert lines("\n".join(RAISED), MARKDOWN) == RAISED


@pytest.mark.parametrize("name", ["issue.md", "console.html"])
def test_documents_are_logs_only_where_nothing_else_is(tmp_path, name):
    quoted = "\n".join(RAISED)
    (tmp_path / name).write_text(
        f"```\n{quoted}\n```\n" if name.endswith("md") else f"<html><pre>{quoted}</pre></html>"
    )
    with open_inputs([tmp_path]) as opened:
        assert [s.kind for s in opened.sources] == [SourceKind.LOG]
        assert "log" in opened.coverage[0].reason
    (tmp_path / "train.log").write_text("2026-01-02 03:04:05 step 1 loss 2.0\n")
    with open_inputs([tmp_path]) as opened:
        assert {s.path: s.kind for s in opened.sources} == {name: SourceKind.CONFIG, "train.log": SourceKind.LOG}


def test_documents_that_quote_no_log_stay_documents(tmp_path):
    (tmp_path / "README.md").write_text("# Training\n\n```\ntorchrun train.py\n```\n")
    with open_inputs([tmp_path]) as opened:
        assert [s.kind for s in opened.sources] == [SourceKind.CONFIG]


@pytest.mark.parametrize("blank", ["\n", " ", "\t\n", "  \r\n"])
def test_a_large_object_without_a_text_is_told_from_records_in_one_look(tmp_path, blank):
    # A pattern that can take a line in several ways tries all of them here, and does not end.
    rows = f"{blank}".join(
        f'    "key{n}": [\n      1,\n      {{\n        "a": {n}\n      }}\n    ],' for n in range(600)
    )
    (tmp_path / "state.json").write_text("{\n" + rows + blank * 2000 + '\n    "end": 1\n}\n')
    with open_inputs([tmp_path]) as opened:
        assert {s.kind for s in opened.sources} <= {SourceKind.CONFIG}


@pytest.mark.parametrize("block", [7, 100, 4096])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_records_on_one_line_are_lines(block, named, separators):
    quoted = 'step},{"timestamp": 3, "message": "no record"}'
    events = [
        {"timestamp": 1795183323000 + n, "message": m, "labels": [{"a": 1}, {"a": 2}]}
        for n, m in enumerate([*RAISED, quoted, *(f"step {n}" for n in range(40))])
    ]
    text = json.dumps({"events": events, "nextToken": "x"} if named else events, separators=separators) + "\n"
    read = lines(text, ROW, block)
    assert read.pop() == ""
    assert [json.loads(line) for line in read[:-1]] == events[:-1]
    assert read[-1].startswith("{") or read[-1].startswith(" {")
    assert "step 39" in read[-1]


def test_a_list_on_one_line_is_a_log_with_the_numbers_of_its_records(tmp_path):
    events = [{"timestamp": 1795183323000 + n, "message": m} for n, m in enumerate(RAISED)]
    (tmp_path / "events.json").write_text(json.dumps(events))
    found = diagnose([tmp_path])
    assert found.verdict.failed
    assert found.verdict.trigger is not None
    assert found.verdict.trigger.line == 4
    assert "run" in found.verdict.summary or "train.py:20" in found.verdict.summary
    assert "record n" in found.coverage[0].reason


def test_a_list_on_one_line_is_whole_without_a_newline_and_cut_without_its_end(tmp_path):
    done = "Training completed. Do not forget to share your model on huggingface.co/models =)"
    events = [{"timestamp": 1795183323000 + n, "message": f"step {n} loss 2.{n}"} for n in range(9)]
    text = json.dumps([*events, {"timestamp": 1795183400000, "message": done}])
    (tmp_path / "events.json").write_text(text)
    assert diagnose([tmp_path]).verdict.strength is Strength.ESTABLISHED
    (tmp_path / "events.json").write_text(text[:-2])
    assert diagnose([tmp_path]).verdict.strength is not Strength.ESTABLISHED
