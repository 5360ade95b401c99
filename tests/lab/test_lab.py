"""Jobs that really fail: each is run once, then the diagnosis of what it left behind is held against its fault.

The jobs start as soon as the first test wants one, two at a time: most of their time goes into importing torch.
"""

from __future__ import annotations

import importlib.util
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import black_box  # noqa: F401 - adds to the list of jobs
import pytest
import register
import scenarios
import two_nodes  # noqa: F401 - likewise
from stage import Stage

import checks
from firstfault.pipelines.diagnose import diagnose
from judge import Judgement, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.diagnosis import Diagnosis

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
AT_ONCE = max(2, min(8, os.cpu_count() or 1))
"""Jobs that run at the same time: half of the time of one goes by in waiting for time-outs, and its processes need the rest at
once when they start; twice as many took no less time on two processors, and brought their own time-outs into it."""
REACHED = checks.read_reached(Path(__file__).parent / "reached.toml")


def _first_failed(judgement: Judgement) -> str:
    return "not exactly the ranks that failed first" if judgement.first_failed is False else ""


CHECKS = {**checks.CHECKS, "first_failed": _first_failed}


class Lab:
    """The performed jobs and their diagnoses, each made once."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE)
        self._folder = folder
        self._logs = {
            wanted.name: self._pool.submit(self._perform, wanted) for wanted in register.ALL if wanted.name in names
        }
        self._diagnoses: dict[str, Diagnosis] = {}

    def diagnosis(self, wanted: register.Scenario) -> Diagnosis:
        """What firstfault says about the job."""
        if wanted.name not in self._diagnoses:
            self._diagnoses[wanted.name] = diagnose([self._performed(self._logs[wanted.name])])
        return self._diagnoses[wanted.name]

    def close(self) -> None:
        """Wait for running jobs, start no more."""
        self._pool.shutdown(cancel_futures=True)

    def _perform(self, wanted: register.Scenario) -> Path:
        with Stage(self._folder / wanted.name) as stage:
            wanted.perform(stage)
            return stage.logs

    def _performed(self, job: Future[Path]) -> Path:
        """The logs of a job; a job that did not do what it should is no failed check of the diagnosis."""
        try:
            return job.result()
        except Exception as error:
            raise RuntimeError("the job itself did not go as planned") from error


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    items: list[Any] = request.session.items
    wanted = {item.callspec.params["wanted"].name for item in items if "lab" in getattr(item, "fixturenames", ())}
    laboratory = Lab(tmp_path_factory.mktemp("lab"), sorted(wanted))
    yield laboratory
    laboratory.close()


def _marks(wanted: register.Scenario, check: str) -> list[pytest.MarkDecorator]:
    marks = []
    if not scenarios.runnable(wanted):
        marks.append(pytest.mark.skip(reason="needs mounts and host names of its own"))
    if check in REACHED.get(wanted.name, {}):
        reason = REACHED[wanted.name][check]
        marks.append(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
    return marks


@pytest.mark.parametrize(
    ("wanted", "check"),
    [
        pytest.param(wanted, check, id=f"{wanted.name}-{check}", marks=_marks(wanted, check))
        for wanted in register.ALL
        for check in wanted.checks(CHECKS)
    ],
)
def test_job(lab: Lab, wanted: register.Scenario, check: str) -> None:
    diagnosis = lab.diagnosis(wanted)
    problem = CHECKS[check](judge(diagnosis, wanted.truth))
    assert not problem, f"{problem}; it says: {diagnosis.verdict.summary}"


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(wanted, id=wanted.name, marks=_marks(wanted, "attempts"))
        for wanted in register.ALL
        if wanted.attempts
    ],
)
def test_starts_of_the_job(lab: Lab, wanted: register.Scenario) -> None:
    assert tuple(attempt.ended for attempt in lab.diagnosis(wanted).attempts) == wanted.attempts


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(wanted, id=wanted.name, marks=_marks(wanted, "says"))
        for wanted in register.ALL
        if wanted.says or wanted.phase
    ],
)
def test_what_the_verdict_names(lab: Lab, wanted: register.Scenario) -> None:
    verdict = lab.diagnosis(wanted).verdict
    said = verdict.summary.casefold()  # a rank may stand at the begin of a sentence
    assert [text for text in wanted.says if text.casefold() not in said] == [], verdict.summary
    assert wanted.phase in {None, str(verdict.classes.phase)}


def test_what_is_not_reached_is_listed_properly() -> None:
    names = {wanted.name: {*wanted.checks(CHECKS), "attempts", "says"} for wanted in register.ALL}
    for name, entries in REACHED.items():
        assert name in names, name
        assert set(entries) <= names[name], name
        assert all(isinstance(reason, str) and reason for reason in entries.values()), name
