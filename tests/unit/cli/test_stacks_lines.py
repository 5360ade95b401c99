"""`firstfault stacks`: a row is a place, down to the line; who differs from those who agree is marked, who was caught at work is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from firstfault.cli.stacks import command

if TYPE_CHECKING:
    from pathlib import Path

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed"
CALLS = {
    "code": [],
    "collective": [f"    all_reduce ({TORCH}/distributed_c10d.py:2810)"],
    "device": ["    synchronize (/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:892)"],
}


def dumps(folder: Path, lines: list[int], doing: str = "code") -> Path:
    for rank, line in enumerate(lines):
        text = [
            f"Process {4100 + rank}: python -u train.py --local_rank={rank}",
            "Python v3.11.9 (/venv/bin/python3.11)",
            "",
            f'Thread {4100 + rank} (active): "MainThread"',
            *CALLS[doing],
            f"    train_one_epoch (/home/user/train.py:{line})",
            "    main (/home/user/train.py:251)",
            "    <module> (/home/user/train.py:260)",
        ]
        (folder / f"pyspy-rank{rank}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    return folder


def places(folder: Path) -> dict[tuple[int, ...], tuple[str, bool]]:
    out = CliRunner().invoke(command, [str(folder), "--exit-zero", "--format", "json"], standalone_mode=False).output
    return {tuple(p["ranks"]): (p["called_from"] or p["call"], p["odd"]) for p in json.loads(out)["places"]}


@pytest.mark.parametrize("doing", ["code", "collective", "device"])
def test_one_rank_at_another_line_of_the_function_in_which_all_stand(tmp_path: Path, doing: str) -> None:
    folder = dumps(tmp_path, [118, 118, 118, 118, 118, 301, 118, 118], doing)
    assert places(folder) == {
        (5,): ("train_one_epoch (train.py:301)", True),
        (0, 1, 2, 3, 4, 6, 7): ("train_one_epoch (train.py:118)", False),
    }


def test_the_screen_marks_it_and_the_tree_tells_both_lines(tmp_path: Path) -> None:
    out = CliRunner().invoke(command, [str(dumps(tmp_path, [118] * 5 + [301] + [118] * 2)), "--exit-zero"]).output
    assert next(line for line in out.splitlines() if "train.py:301" in line).startswith("5 !")
    assert "train_one_epoch (train.py:118, 301)  [0-7]" in out


def test_ranks_caught_at_work_at_many_lines_are_one_group_with_its_lines_and_none_is_odd(tmp_path: Path) -> None:
    lines = [118 + n % 13 for n in range(64)]
    assert places(dumps(tmp_path, lines)) == {
        tuple(range(64)): ("train_one_epoch (train.py:118, 119, 120, 121, …)", False)
    }


def test_ranks_that_wait_at_two_lines_are_two_places_and_neither_is_odd(tmp_path: Path) -> None:
    assert places(dumps(tmp_path, [90, 90, 90, 90, 120, 120, 120, 120], "collective")) == {
        (0, 1, 2, 3): ("train_one_epoch (train.py:90)", False),
        (4, 5, 6, 7): ("train_one_epoch (train.py:120)", False),
    }


def test_all_at_one_line_are_one_place(tmp_path: Path) -> None:
    assert places(dumps(tmp_path, [118] * 8)) == {tuple(range(8)): ("train_one_epoch (train.py:118)", False)}


def test_few_at_a_neighbour_s_line_are_told_apart_but_not_odd_where_the_rest_do_not_agree(tmp_path: Path) -> None:
    assert places(dumps(tmp_path, [118, 118, 118, 118, 119, 120, 121, 122])) == {
        (0, 1, 2, 3): ("train_one_epoch (train.py:118)", False),
        **{(n,): (f"train_one_epoch (train.py:{115 + n})", False) for n in (4, 5, 6, 7)},
    }
