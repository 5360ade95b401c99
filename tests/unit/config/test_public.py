"""Settings of public reports and examples: what must be named, and that nothing else is said of good ones."""

import importlib.util
from pathlib import Path

import pytest

from firstfault.i18n.glossary import WORDS

_AT = Path(__file__).parents[2] / "configs" / "score.py"
_SPEC = importlib.util.spec_from_file_location("config_score", _AT)
score = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(score)


@pytest.mark.parametrize("folder", score.cases("broken"), ids=lambda f: f.name)
def test_what_broke_a_public_run_is_named(folder):
    report = score.check(folder)
    assert {f.check for f in report.findings} <= set(WORDS["settings check"])
    known = score.read(folder)
    if "missed" in known:
        assert score.missed(known, report), "it is found now: take `missed` out"
        return
    assert score.missed(known, report) == []
    least = {e["least"] for e in known["expected"]}
    assert report.state == "fail" or "fail" not in least


@pytest.mark.parametrize("folder", score.cases("good"), ids=lambda f: f.name)
def test_a_public_example_raises_no_alarm(folder):
    report = score.check(folder)
    assert [f"{f.check} {f.file}:{f.line} {f.what}" for f in score.alarms(report)] == []
    assert all(f.kind != "unknown" for f in report.files)


def test_there_are_twenty_of_each():
    assert len(score.cases("broken")) >= 20
    assert len(score.cases("good")) >= 20


def test_every_case_says_where_it_is_from_and_how_it_ended():
    for kind in ("broken", "good"):
        for folder in score.cases(kind):
            known = score.read(folder)
            assert known["source"]
            assert (kind == "good") or (known["outcome"] and known["expected"])
