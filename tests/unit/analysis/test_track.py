import pytest

from firstfault.analysis.state.progress import Track
from firstfault.model.evidence import ProgressSample


def track(*steps, total=None):
    return Track(tuple(ProgressSample(0, i + 1, i * 100, step=s, total=total) for i, s in enumerate(steps)))


@pytest.mark.parametrize(
    ("steps", "after", "expected"),
    [
        ((1, 2, 3, 4, 5), 150, True),
        ((1, 2, 3), 250, False),
        ((10, 20, 20), 150, False),  # a bar that is drawn again when it is closed
        ((10, 20, 30), 50, True),
        ((98, 99, 1, 2, 3, 4), 150, True),  # the next epoch counts from one
        ((None, None, None, None, None), 50, True),
        ((None, None, None), 150, False),
        ((0, 1), 50, False),  # one step may have been in flight
    ],
)
def test_whether_the_job_went_on(steps, after, expected):
    assert track(*steps).went_on_after(after) is expected


def test_complete_only_where_the_plan_was_reached():
    assert track(9, 10, total=10).complete
    assert not track(9, total=10).complete
    assert not track(10).complete


def _sample(offset: int, step: int | None, total: int | None = None) -> ProgressSample:
    return ProgressSample(0, offset, offset, step, total)


@pytest.mark.parametrize(
    ("samples", "complete"),
    [
        ([(1, 2900, 3000), (2, 3000, 3000), (3, 3000, None)], True),  # a line of metrics behind the full bar
        ([(1, 2900, 3000), (2, 2950, None)], False),
        ([(1, 500, 500), (2, 520, None)], False),  # a bar of one epoch, and it went on
        ([(1, 3000, 3000)], True),
        ([(1, 5, None)], False),
    ],
)
def test_the_planned_number_is_that_of_the_last_bar(samples, complete) -> None:
    assert Track(tuple(_sample(*s) for s in samples)).complete is complete


@pytest.mark.parametrize("label", ["rank", "local_rank"])
@pytest.mark.parametrize(
    ("later", "went_on"),
    [
        ([(1, 1), (1, 2), (1, 3)], False),  # what another rank had printed before is copied only now
        ([(0, 1), (0, 2), (0, 3)], True),  # the same rank counts again from one
        ([(1, 4), (1, 5)], True),  # another rank came further
        ([(None, 1), (None, 2), (None, 3)], True),
    ],
)
def test_output_of_another_rank_that_comes_late_is_no_progress(label, later, went_on) -> None:
    told = [(0, 1), (0, 2), (0, 3), *later]
    samples = (ProgressSample(0, i, i * 100, step=step, **{label: rank}) for i, (rank, step) in enumerate(told))
    assert Track(tuple(samples)).went_on_after(250) is went_on
