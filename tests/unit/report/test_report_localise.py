"""Every text field of every published type is either said in the reader's language or known to be raw."""

import typing

import msgspec
import pytest

from firstfault.i18n import translator
from firstfault.model import batch, checkpoint, checks, comparison, config, dataset, diagnosis, metrics, page, views
from firstfault.redact import redact
from firstfault.report.localise import SENTENCES, localised
from firstfault.report.text import render_text

RAW = {
    "Action": ("exclude_hosts", "exclude_hostlist"),
    "Batch": ("schema",),
    "JobAnswer": ("schema", "job", "paths", "scheduler_state"),
    "Quote": ("schema",),
    "Shared": ("name", "jobs"),
    "Checkpoint": ("schema", "folder", "verified", "layouts", "digest", "others"),
    "CheckpointComparison": ("schema", "first", "second", "digests"),
    "CheckpointDifference": ("name",),
    "CheckpointProblem": ("file",),
    "CheckResult": ("id", "prevents", "hosts"),
    "Clock": ("zone", "files"),
    "Comparison": ("schema",),
    "ConfigCheck": ("schema", "world_size_from"),
    "ConfigFile": ("file", "written_by"),
    "ConfigFinding": ("check", "file", "message", "signature"),
    "Context": ("file", "lines"),
    "Count": ("signature", "files", "ranks"),
    "Course": ("bus", "host"),
    "CoverageRow": ("file",),
    "Culprits": ("hosts", "devices", "storage_nodes"),
    "Curve": ("file", "column"),
    "DataCheck": ("schema", "target", "limits", "loader"),
    "DataFile": ("file",),
    "DataFinding": ("check", "file", "names", "lines"),
    "Diagnosis": ("schema", "job"),
    "Difference": ("group",),
    "Entry": ("signature", "hosts", "files"),
    "Evidence": ("file", "text"),
    "Fact": ("value",),
    "FirstFailed": ("hosts",),
    "GroupCell": ("group", "op"),
    "GroupColumns": ("name", "ops"),
    "GroupRow": ("name", "description"),
    "InputChange": ("file",),
    "MemoryPlace": ("place", "through", "line"),
    "MemoryRow": ("file", "host", "failed_at"),
    "MemoryTable": ("schema",),
    "MetricPoint": ("column",),
    "MetricTable": ("file", "columns"),
    "MetricsView": ("schema",),
    "NaiveReading": ("reading",),
    "NodeRow": ("host", "zone"),
    "Page": ("schema",),
    "Plot": ("column", "unit"),
    "Preflight": ("schema",),
    "PlotLine": ("file", "device", "host"),
    "Proof": ("states",),
    "Published": ("schema",),
    "RankColumns": ("hosts", "states", "parts", "phases", "files"),
    "RankLine": ("host",),
    "RankRow": ("host", "state"),
    "RankTable": ("schema", "seen_ranks"),
    "Ranks": ("seen_ranks", "missing_files"),
    "RecorderView": ("schema", "earlier"),
    "Recurrence": ("hosts",),
    "RunComparison": ("schema",),
    "RunDifference": ("first", "second"),
    "SeenBefore": ("id", "title", "state", "fix", "equal", "differs", "date", "where"),
    "Shard": ("file", "digest"),
    "Side": ("what", "place"),
    "SlowItem": ("name",),
    "WorkerRow": ("state",),
    "StackNode": ("frame", "others"),
    "StackPlace": ("call", "called_from", "others", "hosts", "also"),
    "StackTable": ("schema",),
    "StackThreads": ("name", "call", "others"),
    "StorageCounter": ("daemon", "counter"),
    "StorageDaemon": ("name", "node", "role", "version"),
    "StorageEvent": ("daemon",),
    "StuckWork": ("op",),
    "Time": ("earliest", "latest", "zone"),
    "Timeline": ("schema",),
    "TimelineEntry": ("hosts",),
    "View": ("schema",),
    "Withdrawn": ("file",),
}
"""Published type -> its fields that hold names, words of the contract, quoted lines or places."""


def _published():
    found = {}

    def look(kind):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind.__name__ in found:
                return
            found[kind.__name__] = set()
            for field in msgspec.structs.fields(kind):
                if _is_text(field.type):
                    found[kind.__name__].add(field.name)
                look(field.type)
        for inner in typing.get_args(kind):
            look(inner)

    for room in (batch, checkpoint, checks, config, dataset, page, diagnosis, metrics, comparison, views):
        for one in vars(room).values():
            if isinstance(one, type) and issubclass(one, diagnosis.Published):
                look(one)
    return found


def _is_text(kind):
    return kind is str or any(map(_is_text, typing.get_args(kind)))


PUBLISHED = _published()


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_text_field_is_classified(name):
    spoken, raw = set(SENTENCES.get(name, ())), set(RAW.get(name, ()))
    assert not spoken & raw
    assert PUBLISHED[name] <= spoken | raw, "say in report/localise.py or here what the field holds"


def test_no_type_is_named_that_is_not_published():
    assert set(SENTENCES) | set(RAW) <= set(PUBLISHED)


def test_quoted_lines_and_words_of_the_contract_stay(build_diagnosis):
    before = redact(build_diagnosis(), "secrets")
    after = localised(before, "zh")
    was, now = before.content, after.content
    assert now.verdict.category == was.verdict.category
    assert now.verdict.trigger == was.verdict.trigger
    assert [link.evidence for link in now.chain] == [link.evidence for link in was.chain]
    assert localised(before, "en") is before


@pytest.mark.parametrize("width", [40, 80])
def test_a_chinese_report_fits_its_columns(build_diagnosis, width):
    from firstfault.report.text import columns

    said = render_text(redact(build_diagnosis(), "secrets"), width=width, language="zh")
    assert all(columns(line) <= width for line in said.splitlines())
    assert translator("zh")("Why is not in these logs.") == "为什么，这些日志里没有。"
