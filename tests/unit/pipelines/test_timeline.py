"""The timeline, held against files whose order is known."""

import csv
import io

import hung_job
import pytest

from firstfault.cli.main import run
from firstfault.model.words import Role
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.publish import publish_timeline
from firstfault.pipelines.timeline import EventFilters, Instant, timeline

INLINE = DiagnoseOptions(engine="inline")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return hung_job.write(tmp_path_factory.mktemp("hung") / "logs")


def titles(view, role=None):
    return [e.what for e in view.events if role is None or e.role is role]


def test_the_window_of_the_hang_stands_between_the_last_step_and_the_time_outs(job):
    view = timeline([job], INLINE)
    assert len(view.clocks) == 1
    assert view.clocks[0].files == ["error-77-0.out", "error-77-1.out"]
    order = [e.signature for e in view.events if e.clock == 1]
    assert order.index("collective.began") > max(i for i, s in enumerate(order) if s == "progress")
    assert order.index("collective.began") < order.index("nccl.collective_timeout")
    began = next(e for e in view.events if e.signature == "collective.began")
    assert began.time.earliest.startswith("2026-03-02T14:25:00.9")  # 14:35:01.0 less 600.031 s


def test_equal_events_of_one_burst_share_an_entry_unless_each_is_asked_for(job):
    folded = next(e for e in timeline([job], INLINE).events if e.signature == "nccl.collective_timeout")
    assert (folded.count, folded.ranks) == (3, [0, 1, 3])
    assert folded.files == ["error-77-0.out", "error-77-1.out"]
    assert (folded.evidence.line, folded.last.file) == (9, "error-77-1.out")
    each = [e for e in timeline([job], INLINE, folded=False).events if e.signature == "nccl.collective_timeout"]
    assert [(e.count, e.ranks, e.last) for e in each] == [(1, [0], None), (1, [1], None), (1, [3], None)]


def test_a_flood_of_which_some_lines_were_kept_is_one_entry_that_counts_all(tmp_path):
    lines = [f"2026-03-02 14:{m:02d}:00 [rank0] OSError: [Errno 28] No space left on device" for m in range(60)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (found,) = [e for e in timeline([tmp_path], INLINE).events if e.role is Role.CAUSE]
    assert (found.count, found.evidence.line, found.last.line) == (60, 1, 60)


def test_events_far_apart_are_not_one_burst(tmp_path):
    lines = [f"2026-03-02 14:{m:02d}:00 [rank0] OSError: [Errno 28] No space left on device" for m in (1, 2, 40)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = [e for e in timeline([tmp_path], INLINE).events if e.role is Role.CAUSE]
    assert [e.time.earliest[11:16] for e in found] == ["14:01", "14:02", "14:40"]


def test_clocks_that_no_line_ties_together_are_not_ordered_against_each_other(tmp_path):
    error = "RuntimeError: CUDA error: an illegal memory access was encountered"
    (tmp_path / "dated.log").write_text(f"2026-03-02T14:00:00+08:00 [rank0]: {error}\n", encoding="utf-8")
    (tmp_path / "local.log").write_text(f"2026-03-02 13:00:00 [rank1]: {error}\n", encoding="utf-8")
    (tmp_path / "bare.log").write_text(f"[rank2]: {error}\n", encoding="utf-8")
    view = timeline([tmp_path], INLINE)
    of = {e.evidence.file: e.clock for e in view.events}
    assert of["bare.log"] is None
    assert of["dated.log"] != of["local.log"]
    assert {c.zone for c in view.clocks} == {"UTC", None}
    text = publish_timeline(view, "text", "secrets")
    assert "not ordered against each other" in text
    assert "Without a time" in text


def test_zones_that_are_stated_make_one_clock(tmp_path):
    error = "RuntimeError: CUDA error: an illegal memory access was encountered"
    (tmp_path / "a.log").write_text(f"2026-03-02T14:00:00+08:00 [rank0]: {error}\n", encoding="utf-8")
    (tmp_path / "b.log").write_text(f"2026-03-02T07:00:00Z [rank1]: {error}\n", encoding="utf-8")
    view = timeline([tmp_path], INLINE)
    assert [(e.evidence.file, e.clock) for e in view.events if e.role is Role.CAUSE] == [("a.log", 1), ("b.log", 1)]


def test_what_is_not_stamped_has_a_range_and_is_not_called_exact(tmp_path):
    (tmp_path / "a.log").write_text(
        "2026-03-02 14:00:00 iteration 1/ 50 | loss: 2.0\n[rank0]: RuntimeError: CUDA error: an illegal memory access was "
        "encountered\n2026-03-02 14:07:00 end of log\n",
        encoding="utf-8",
    )
    (found,) = [e for e in timeline([tmp_path], INLINE).events if e.role is Role.CAUSE]
    assert not found.exact
    assert (found.time.earliest[11:16], found.time.latest[11:16]) == ("14:00", "14:07")
    assert "14:00:00 .. 14:07:" in publish_timeline(timeline([tmp_path], INLINE), "text", "secrets")


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (EventFilters(roles=(Role.CONTEXT,)), {Role.CONTEXT}),
        (EventFilters(since=Instant(14 * 3600 + 35 * 60, dated=False)), {Role.EFFECT}),
        (EventFilters(until=Instant(14 * 3600 + 30 * 60, dated=False)), {Role.CONTEXT}),
        (EventFilters(since=Instant(1772462100.0, dated=True)), {Role.EFFECT}),  # 2026-03-02 14:35:00
        (EventFilters(since=Instant(1772548500.0, dated=True)), set()),  # a day later
        (EventFilters(hosts=("nobody",)), set()),
    ],
)
def test_filters(job, filters, wanted):
    view = timeline([job], INLINE, filters)
    assert {e.role for e in view.events} == wanted
    assert view.left_out > 0


def test_a_rank_is_followed_by_its_number(job):
    view = timeline([job], INLINE, EventFilters(ranks=((2, 2),)))
    assert {r for e in view.events for r in e.ranks} == {2}
    assert all(e.ranks for e in view.events)


def test_csv_and_the_door(job):
    view = timeline([job], INLINE)
    rows = list(csv.DictReader(io.StringIO(publish_timeline(view, "csv", "identities"))))
    assert len(rows) == len(view.events)
    assert all("cn-0" not in value for row in rows for value in row.values())
    assert [r["ranks"] for r in rows if r["signature"] == "nccl.collective_timeout"] == ["0 1 3"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_page(job, width):
    text = publish_timeline(timeline([job], INLINE), "text", "secrets", width=width)
    assert max(map(len, text.splitlines())) <= width


def test_the_command_takes_times_and_refuses_what_is_none(job, capsys):
    assert run(["timeline", str(job), "--since", "14:35", "--format", "csv"]) == 1
    assert "nccl.collective_timeout" in capsys.readouterr().out
    assert run(["timeline", str(job), "--since", "tomorrow"]) == 2
    assert "is no time" in capsys.readouterr().err
    assert run(["timeline", str(job), "--since", "25:00"]) == 2
