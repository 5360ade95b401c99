"""Exit codes and signals as POSIX, Docker and SLURM define them; lists of tasks as SLURM prints them."""

from __future__ import annotations

import signal

import pytest
from incident import case_of, event, failure

from firstfault.analysis.state.exits import (
    MOST_TASKS,
    SIGNALS,
    SPOKEN,
    Exit,
    exits,
    integer,
    numbers,
    signal_of,
    signal_of_code,
)
from firstfault.analysis.state.ranks import Roster


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_names_of_signals_have_the_numbers_of_the_system(name):
    assert SIGNALS[name] == getattr(signal, name)


@pytest.mark.parametrize("text", sorted(SPOKEN))
def test_spoken_signals_have_the_words_of_the_system(text):
    assert signal.strsignal(SPOKEN[text]).lower() == text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("0", None),
        ("1", None),
        ("127", None),
        ("128", None),
        ("137", 9),
        ("134", 6),
        ("-9", 9),
        ("-11", 11),
        ("0:9", 9),
        ("1:0", None),
        ("0:0", None),
        ("137:0", 9),
        ("255", None),
        ("256", None),
        ("", None),
        ("nine", None),
        ("--9", None),
        ("-", None),
        ("٣", None),
        ("9" * 4000, None),
    ],
)
def test_signal_in_an_exit_code(code, expected):
    assert signal_of_code(code) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"signal": "SIGKILL"}, 9),
        ({"signal": "kill"}, 9),
        ({"signal": "9"}, 9),
        ({"signal": "Killed"}, 9),
        ({"signal": "Segmentation fault (core dumped)"}, 11),
        ({"signal": "User defined signal 2"}, signal.SIGUSR2),
        ({"exit_code": "-15"}, 15),
        ({"exit_code": "1"}, None),
        ({"signal": "SIGTERM", "exit_code": "1"}, 15),
        ({}, None),
    ],
)
def test_signal_of_a_line(fields, expected):
    assert signal_of(event("launcher.exit", fields=fields)) == expected


@pytest.mark.parametrize(
    ("number", "own"), [(None, True), (11, True), (6, True), (9, False), (15, False), (10, False), (12, False)]
)
def test_told_or_killed_is_not_an_error_of_its_own(number, own):
    assert Exit(rank=None, host=None, signal=number).own is own


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3,8-10", [3, 8, 9, 10]), ("0", [0]), ("7-7", [7]), ("9-3", []), ("", []), ("node", [])],
)
def test_lists_of_tasks(text, expected):
    assert numbers(text) == expected


def test_a_hostile_list_of_tasks_stays_small():
    assert len(numbers(",".join(["0-99999"] * 500))) <= MOST_TASKS
    assert numbers("0-99999999999999999999") == []


@pytest.mark.parametrize(
    ("text", "expected"), [("-1", -1), ("0", 0), ("007", 7), ("+1", None), ("1.0", None), ("--1", None), (None, None)]
)
def test_integer(text, expected):
    assert integer(text) == expected


def roster(*events, world=None):
    case = case_of(*events)
    return Roster(case, case.events, (), world)


def test_a_line_about_tasks_is_one_exit_for_each_rank_where_tasks_are_ranks():
    line = event("launcher.exit", fields={"tasks": "2-3", "host": "n1", "exit_code": "1"})
    found = exits(roster(line, world=4), [line], [])
    assert [(e.rank, e.host, e.own) for e in found] == [(2, "n1", True), (3, "n1", True)]


def test_a_line_about_tasks_names_no_rank_where_a_task_is_a_launcher():
    line = event("launcher.exit", fields={"tasks": "1", "host": "n1", "exit_code": "1"})
    found = exits(roster(line, world=16), [line], [])
    assert [(e.rank, e.host) for e in found] == [(None, "n1")]


def test_rank_zero_is_a_rank():
    line = event("launcher.exit", rank=0, fields={"exit_code": "1"})
    assert [e.rank for e in exits(roster(line), [line], [])] == [0]


def test_exits_of_lines_come_in_order_of_time_and_those_of_lists_after_them():
    late, early = event("launcher.exit", 1, rank=1, at=20.0), event("launcher.exit", 2, rank=2, at=10.0)
    found = exits(roster(late, early), [late, early], [failure(rank=3, code=-9), failure(rank=4)])
    assert [(e.rank, e.signal, e.event is None) for e in found] == [
        (2, None, False),
        (1, None, False),
        (3, 9, True),
        (4, None, True),
    ]
