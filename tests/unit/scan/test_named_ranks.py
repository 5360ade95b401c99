"""Of a line that many ranks print alike a few are kept, and every rank that one names is known."""

import random

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.open import open_inputs
from firstfault.scan import tasks
from firstfault.scan.results import FIRST, LAST
from firstfault.scan.run import scan
from firstfault.signatures.library import load_library

MEMBER = "Initializing distributed: GLOBAL_RANK: {0}, MEMBER: {1}/{2}\n"
END = "[rank17]: Traceback (most recent call last):\n[rank17]: KeyError: 'a'\n"


def members(ranks, world):
    return "".join(MEMBER.format(r, r + 1, world) for r in ranks)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_every_rank_is_known_whatever_the_number_and_the_split(tmp_path, monkeypatch, executor):
    monkeypatch.setattr(tasks, "SMALLEST", 1 << 18)
    monkeypatch.setattr(tasks, "LARGEST", 1 << 18)
    ranks = random.Random(3).sample(range(16_384), 16_384)
    (tmp_path / "job.log").write_text(members(ranks, 16_384) + members(ranks[:9], 16_384))
    with open_inputs([tmp_path]) as opened:
        found = scan(opened, load_library(), executor=executor, workers=2).sources[0]
    assert len(found.hits) == FIRST + LAST
    (named,) = found.named.values()
    assert set(named) == set(range(16_384))
    assert named[ranks[0]][:2] == (0, len(members(ranks, 16_384)))


def seen(path):
    return diagnose([path]).ranks


def test_no_rank_that_says_who_it_is_is_called_silent(tmp_path):
    path = tmp_path / "job.log"
    path.write_text(members([r for r in range(64) if r != 30], 64) + END)
    assert (seen(path).seen, tuple(seen(path).silent)) == (63, (30,))
