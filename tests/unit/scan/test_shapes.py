"""What was found in one line of a shape is found in the next, with its own numbers; no other line is touched by it."""

from __future__ import annotations

import random

from firstfault.model.evidence import SourceId
from firstfault.readers.open import open_inputs
from firstfault.scan.engines import make_engine
from firstfault.scan.results import joined
from firstfault.scan.shapes import Shapes
from firstfault.scan.stretch import Stretch, scan_stretch
from firstfault.signatures.library import load_library

PLAN = load_library().plan
LINES = sorted(
    {e.line for s in load_library().signatures for e in s.spec.match if "\n" not in e.line and "\r" not in e.line}
)


class Forgetful(Shapes):
    """Remembers nothing."""

    def recall(self, *_asked):
        return None


def varied(line: str, chance: random.Random) -> str:
    return "".join(chance.choice("0123456789") if c in "0123456789" else c for c in line)


def found(folder, shapes):
    with open_inputs([folder]) as opened:
        engine = make_engine("auto", PLAN)
        scans = []
        for source in opened.sources:
            whole = Stretch(source.id, source.path, 0, opened.store.size(source.id))
            scans.append(joined(SourceId(source.id), [scan_stretch(opened.store, whole, PLAN, engine, shapes=shapes)]))
        return scans


def test_the_answer_is_that_of_a_scan_without_memory(tmp_path):
    chance = random.Random(7)
    for number in range(3):
        lines = [varied(line, chance) if number else line for line in LINES]
        chance.shuffle(lines)
        (tmp_path / f"rank{number}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = found(tmp_path, Shapes())
    assert known == found(tmp_path, Forgetful())
    assert sum(len(s.hits) for s in known) > len(LINES)


def test_a_line_of_a_known_shape_has_its_own_fields(tmp_path):
    line = "[rank%d]:[E513 13:25:57.714781669 ProcessGroupNCCL.cpp:607] [Rank %d] Watchdog caught collective operation timeout: "
    line += (
        "WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds"
    )
    text = "\n".join(line % (r, r, 4000 + r) for r in (3, 5, 7))
    (tmp_path / "a.log").write_text(text, encoding="utf-8")
    [scan] = found(tmp_path, Shapes())
    hits = [h for h in scan.hits if h.signature == "nccl.collective_timeout"]
    assert [(h.fields["seq"], h.key, h.place.who.rank) for h in hits] == [
        ("4003", b"r3", 3),
        ("4005", b"r5", 5),
        ("4007", b"r7", 7),
    ]


def test_a_full_memory_is_emptied(monkeypatch):
    monkeypatch.setattr("firstfault.scan.shapes._MOST", 2)
    shapes = Shapes()
    for shape in (b"a", b"b", b"c"):
        shapes.keep(shape, frozenset({1}), None, [], lasting=True)
    assert shapes.recall(b"a", b"a", frozenset({1}), None) is None
    assert shapes.recall(b"c", b"c", frozenset({1}), None) == []


def test_other_questions_about_a_shape_are_asked_again():
    shapes = Shapes()
    shapes.keep(b"a", frozenset({1}), (0,), [], lasting=True)
    assert shapes.recall(b"a", b"a", frozenset({1}), (0,)) == []
    assert shapes.recall(b"a", b"a", frozenset({1}), (0, 4)) is None
    assert shapes.recall(b"a", b"a", frozenset({1, 2}), (0,)) is None
    shapes.keep(b"a", frozenset({1}), (0,), [], lasting=False)
    assert shapes.recall(b"a", b"a", frozenset({1}), (0,)) is None
