"""A line that does not read back takes with it what rests on it; attempts have verdicts of their own."""

import incident
import pytest

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.verify import Verifier
from firstfault.model.words import ActionKind, Category, Strength
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.verdict import verdict_of

INLINE = DiagnoseOptions(engine="inline")
LINES = {1: "gpu.oom", 2: "code.crash", 3: "host.disk"}


class Files:
    """A source in which some lines are not what they were."""

    def __init__(self, gone):
        self.gone = gone

    def read(self, source_id, offset, length):
        text = bytearray(b"." * 400)
        for line, name in LINES.items():
            at = line * 100
            text[at - 1 : at] = b"\n"
            text[at : at + 10] = (b"X" * 10 if line in self.gone else name.encode())[:10].ljust(10)
        return bytes(text[offset : offset + length])


def event(line):
    return incident.event(LINES[line], line)


def answer(**changes):
    spec = {
        "question": "first_fault",
        "failed": True,
        "category": Category.GPU_CUDA,
        "strength": Strength.ESTABLISHED,
        "summary": "It broke.",
        "trigger": event(1),
        "proof": (event(1), event(2)),
        "culprits": Named(hosts=("cn-07",), strength=Strength.ESTABLISHED),
        "action": ActionKind.RESTART_WITHOUT,
        "exclude_hosts": ("cn-07",),
        "steps": ("Drain it.",),
    } | changes
    return Answer(**spec)


def judged(gone, **changes):
    verifier = Verifier(Files(gone), decode=lambda raw: raw.decode(), count=lambda raw: raw.count(b"\n") and 0)
    verifier._line_number = lambda span: None
    return verdict_of(answer(**changes), Citer(verifier, {0: "a.log"}))


def test_with_all_lines_there_nothing_is_weakened():
    verdict = judged(set())
    assert (verdict.strength, verdict.culprits.strength) == (Strength.ESTABLISHED, Strength.ESTABLISHED)
    assert (verdict.action.kind, verdict.action.exclude_hostlist) == (ActionKind.RESTART_WITHOUT, "cn-07")
    assert verdict.summary == "It broke."


def test_without_the_trigger_nobody_is_drained_and_nothing_is_more_than_possible():
    verdict = judged({1})
    assert verdict.trigger is None
    assert (verdict.strength, verdict.culprits.strength) == (Strength.POSSIBLE, Strength.POSSIBLE)
    assert (verdict.action.kind, verdict.action.exclude_hosts) == (ActionKind.COLLECT_MORE, [])
    assert "could not be read again" in verdict.summary


def test_without_one_of_several_lines_it_is_at_most_supported():
    verdict = judged({2})
    assert (verdict.strength, verdict.culprits.strength) == (Strength.SUPPORTED, Strength.SUPPORTED)
    assert verdict.action.kind is ActionKind.RESTART_WITHOUT


def test_without_any_line_of_the_proof_it_is_at_most_possible():
    assert judged({2, 3}, trigger=None, proof=(event(2), event(3))).strength is Strength.POSSIBLE


def test_what_was_unknown_stays_unknown():
    assert judged({1}, category=Category.UNKNOWN, strength=Strength.UNKNOWN).strength is Strength.UNKNOWN


ROUND = (
    "W0302 14:0{n}:00.000000 4711 torch/distributed/run.py:793] Setting OMP_NUM_THREADS\n"
    "2026-03-02 14:0{n}:01 [rank1] iteration 1/ 50 | loss: 2.0\n"
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/app/train.py", line 31, in <module>\n[rank1]:     main()\n'
    "[rank1]: {error}\n"
)


@pytest.fixture
def three_jobs(tmp_path):
    """The same script started three times by a scheduler: the first and the last ended for one reason."""
    for number, error in ((50001, "KeyError: 'a'"), (50002, "ValueError: x"), (50003, "KeyError: 'b'")):
        (tmp_path / f"slurm-{number}.out").write_text(ROUND.format(n=number % 10, error=error), encoding="utf-8")
    return tmp_path


def test_all_attempts_have_verdicts_of_their_own_where_they_are_asked_for(three_jobs):
    last = diagnose([three_jobs], INLINE)
    assert [a.number for a in last.attempts] == [1, 2, 3]
    assert [a.diagnosed for a in last.attempts] == [False, False, True]
    assert all(a.verdict is None and not a.chain for a in last.attempts)
    every = diagnose([three_jobs], DiagnoseOptions(engine="inline", attempt="all"))
    assert every.verdict == last.verdict
    assert all(a.diagnosed for a in every.attempts)
    assert ["'a'" in a.verdict.summary for a in every.attempts] == [True, False, False]
    assert [a.verdict.trigger.file[6:11] for a in every.attempts] == ["50001", "50002", "50003"]
    assert all(a.chain[0].evidence[0].line == 6 for a in every.attempts)


def test_attempts_that_failed_alike_are_said_to(three_jobs):
    (again,) = diagnose([three_jobs], INLINE).recurrence
    assert (again.attempts, again.ranks) == ([1, 3], [1])
    assert again.what == "Python exception KeyError"
