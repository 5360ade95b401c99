"""Which line is shown as the first sign: the first of the lines that led up to a fault without a break."""

import incident
import pytest
from incident import LIBRARY, event, sample, scene_of, signature

from firstfault.analysis.questions.first_fault import trigger_of
from firstfault.model.words import Category, Role, Strength
from firstfault.signatures.library import Library


@pytest.fixture(autouse=True)
def _floor(monkeypatch):
    own = [
        *LIBRARY.signatures,
        signature("scale.floor", category=Category.NUMERICAL, strength=Strength.ESTABLISHED, precursors=["scale.skip"]),
        signature("scale.skip", Role.CONTEXT, fatal=False),
    ]
    monkeypatch.setattr(incident, "LIBRARY", Library(own, {}))


def first_sign(*events, progress):
    scene = scene_of(*events, progress=progress)
    (root,) = [s for s in scene.suspects if s.first.signature == "scale.floor"]
    return trigger_of(scene, root).span.line


def test_signs_in_a_row_are_of_the_fault():
    skips = [event("scale.skip", 20 + n, count=5, ordinal=n) for n in range(5)]
    steps = tuple(sample(0, n, n * 10) for n in range(1, 19))
    assert first_sign(*skips, event("scale.floor", 40), progress=steps) == 20


@pytest.mark.parametrize("early", [1, 2])
def test_signs_before_steps_that_went_well_are_not(early):
    before = [event("scale.skip", 2 + n, count=early + 3, ordinal=n) for n in range(early)]
    after = [event("scale.skip", 30 + n, count=early + 3, ordinal=early + n) for n in range(3)]
    steps = tuple(sample(0, n, n * 10) for n in range(5, 25))
    assert first_sign(*before, *after, event("scale.floor", 40), progress=steps) == 30


def test_a_step_for_each_sign_breaks_nothing():
    skips = [event("scale.skip", 10 + 2 * n, count=8, ordinal=n) for n in range(8)]
    steps = tuple(sample(0, 11 + 2 * n, 100 + n) for n in range(8))
    assert first_sign(*skips, event("scale.floor", 40), progress=steps) == 10
