"""What is said where nothing names a cause: no more than the bare fact carries."""

import incident
import pytest
from incident import LIBRARY, event, failure, sample, scene_of, signature

from firstfault.analysis.questions import silence
from firstfault.model.words import ActionKind, Category, Form, Mark, Role, Strength
from firstfault.signatures.library import Library


@pytest.fixture
def more(monkeypatch):
    """The library with a lost peer that is only an effect, and a wrapped error that names nothing."""
    own = [
        *LIBRARY.signatures,
        signature("net.lost", Role.EFFECT, marks=[Mark.PEER_LOST], category=Category.NETWORK),
        signature("run.wrapped", Role.EFFECT, collect=["the log of the worker"]),
        signature("process.keyboard_interrupt", Role.TEARDOWN, marks=[Mark.STOP_SIGNAL]),
    ]
    monkeypatch.setattr(incident, "LIBRARY", Library(own, {}))


@pytest.mark.parametrize(
    ("code", "category", "words"),
    [
        ("-9", Category.INFRASTRUCTURE, "killed from outside"),
        ("137", Category.INFRASTRUCTURE, "killed from outside"),
        ("-7", Category.INFRASTRUCTURE, "bus error"),
        ("-11", Category.SOFTWARE, "native code"),
        ("-6", Category.UNKNOWN, "aborted itself"),
        ("1", Category.UNKNOWN, "ended with an error"),
    ],
)
def test_an_exit_without_a_reason_is_worth_what_its_signal_says(code, category, words):
    answer = silence.ask_exits(scene_of(event("launcher.exit", rank=3, fields={"exit_code": code})))
    assert (answer.failed, answer.category) == (True, category)
    assert words in answer.summary
    assert answer.strength is (Strength.UNKNOWN if category is Category.UNKNOWN else Strength.POSSIBLE)
    assert answer.action is ActionKind.COLLECT_MORE
    assert answer.collect


@pytest.mark.parametrize("code", ["-15", "-2", "143"])
def test_a_process_that_was_told_to_stop_is_no_exit_of_its_own(code):
    assert silence.ask_exits(scene_of(event("launcher.exit", rank=3, fields={"exit_code": code}))) is None


def test_an_exit_of_a_launchers_list_counts_without_a_line():
    answer = silence.ask_exits(scene_of(failures=(failure(rank=2, code=-9),)))
    assert answer.first_failed.ranks == (2,)
    assert answer.trigger is None


def test_a_kill_behind_a_crash_in_the_same_list_is_the_launchers():
    crash = event("launcher.exit", 10, rank=0, fields={"signal": "11"})
    kill = event("launcher.exit", 11, rank=4, fields={"signal": "9"})
    answer = silence.ask_exits(scene_of(crash, kill))
    assert (answer.category, answer.first_failed.ranks) == (Category.SOFTWARE, (0,))
    other_way = silence.ask_exits(scene_of(event("launcher.exit", 9, rank=4, fields={"signal": "9"}), crash))
    assert other_way.category is Category.INFRASTRUCTURE


def test_many_exits_at_once_are_nobodys():
    exits = [event("launcher.exit", 1 + r, rank=r, fields={"exit_code": "-9"}) for r in range(8)]
    answer = silence.ask_exits(scene_of(event("run.world", 20, fields={"world": "8"}), *exits))
    assert not answer.culprits.anybody
    assert not answer.first_failed.anybody


def test_a_lost_peer_accuses_nobody(more):
    first = event("net.lost", rank=1)
    answer = silence.ask_peers(scene_of(event("net.lost", 2, rank=4), first))
    assert (answer.category, answer.strength) == (Category.UNKNOWN, Strength.UNKNOWN)
    assert answer.trigger == first
    assert not answer.culprits.anybody
    assert "Ranks 1, 4 lost the connection" in answer.summary
    assert silence.ask_peers(scene_of()) is None


def test_an_order_from_outside_is_possible_at_most_and_by_hand_is_unknown(more):
    outside = silence.ask_stopped(scene_of(event("launcher.stop")))
    assert (outside.category, outside.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)
    by_hand = silence.ask_stopped(scene_of(event("process.keyboard_interrupt")))
    assert (by_hand.category, by_hand.strength) == (Category.UNKNOWN, Strength.UNKNOWN)
    assert silence.ask_stopped(scene_of()) is None


def test_a_mere_consequence_is_called_one(more):
    answer = silence.ask_effects(scene_of(event("run.wrapped", rank=1)))
    assert (answer.failed, answer.category, answer.trigger) == (True, Category.UNKNOWN, None)
    assert "only a consequence (run.wrapped)" in answer.summary
    assert answer.collect[0] == "the log of the worker"
    assert silence.ask_effects(scene_of()) is None


def test_a_log_that_just_stops_is_not_called_a_failure():
    answer = silence.nothing(scene_of())
    assert (answer.failed, answer.category, answer.strength) == (None, Category.UNKNOWN, Strength.UNKNOWN)
    assert "neither progress nor an error" in answer.summary
    moved = silence.nothing(scene_of(progress=(sample(0, 5, 10),)))
    assert "in the middle of training" in moved.summary
    unread = silence.nothing(scene_of(names=()))
    assert "No log of the job was read" in unread.summary


def test_before_the_first_step_it_is_a_failed_start():
    died = event("launcher.exit", 9, rank=0, fields={"exit_code": "1"})
    assert silence.ask_exits(scene_of(died)).classes.form is Form.FAILED_START
    assert silence.ask_exits(scene_of(died, progress=(sample(0, 5, 10),))).classes.form is Form.INTERRUPTED


def test_a_fault_that_a_program_only_logged_is_not_called_a_consequence(tmp_path):
    from firstfault.pipelines.diagnose import diagnose

    (tmp_path / "x.log").write_text("step 1 loss 2\n[storage] write failed: No space left on device\n")
    summary = diagnose([tmp_path]).verdict.summary
    assert "only consequences" not in summary
