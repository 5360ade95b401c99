"""What is wrong with the data of a job, as text.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.dataset import DataCheck, DataFinding
    from firstfault.redact import Redacted

SHOWN = 5
"""Names and frames of one finding, slow items and files that are shown."""


def render_data_check(safe: Redacted[DataCheck], *, width: int = 100, language: str = "en") -> str:
    """A trial of data for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'config.{found.state}']}  {found.summary}"), width)
    if found.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    told = ", ".join(f"{name} {text}" for name, text in found.loader.items())
    lines += wrap(neutral(f"{found.target} ({found.kind})" + (f": {told}" if told else "")), width)
    for state in ("fail", "warn"):
        listed = [f for f in found.findings if f.state == state]
        if listed:
            lines += ["", say[f"config.{state}s"]]
            lines += [line for finding in listed for line in _finding(finding, say, width)]
    lines += [*_ranks(found, say, width), *_slowest(found, say, width), *_files(found, say, width)]
    if found.not_checked:
        lines += ["", say["config.not_checkables"]]
        lines += [f"  {line}" for text in found.not_checked for line in wrap(neutral(text), width - 2)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _finding(finding: DataFinding, say: Mapping[str, str], width: int) -> list[str]:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    ranks = say["data.ranks"].format(ranks=", ".join(map(str, finding.ranks[:8]))) if finding.ranks else ""
    head = "  ".join(filter(None, (place, ranks, finding.what)))
    first, *rest = wrap(neutral(f"{head}  [{finding.check}]"), width - 4)
    lines = [f"  {first}", *(f"    {line}" for line in rest)]
    if finding.names:
        names = ", ".join(finding.names[:SHOWN]) + (", …" if finding.count > SHOWN else "")
        lines += [f"      {line}" for line in wrap(neutral(say["data.names"].format(names=names)), width - 6)]
    lines += [f"      | {line}" for text in finding.lines[:SHOWN] for line in wrap(neutral(text), width - 8)]
    for name in ("why", "fix"):
        text = getattr(finding, name)
        if text:
            lines += [f"      {line}" for line in wrap(neutral(say[f"config.{name}"].format(text=text)), width - 6)]
    return lines


def _ranks(found: DataCheck, say: Mapping[str, str], width: int) -> list[str]:
    if not found.ranks:
        return []
    names = (
        "rank",
        "end",
        "batches",
        "items",
        "failed",
        "first",
        "median",
        "p99",
        "longest",
        "memory",
        "shm",
        "workers",
    )
    rows = [
        [
            str(r.rank), r.end, str(r.batches), str(r.items), str(r.failed), _seconds(r.first_s), _seconds(r.median_s), _seconds(r.p99_s), _seconds(r.longest_s),
            "-" if r.memory_mb is None else f"{r.memory_mb} MB", "-" if r.shm_mb is None else f"{r.shm_mb} MB", " ".join(f"{w.number}:{w.items}" for w in r.workers[:8]),
        ]
        for r in found.ranks
    ]  # fmt: skip
    lines = ["", say["data.trial"], *aligned([say[f"data.{n}"] for n in names], rows, width)]
    known = [c for c in found.per_rank if c is not None]
    if known:
        text = say["data.per_rank"].format(least=min(known), most=max(known), known=len(known), world=found.world_size)
        lines += wrap(text, width)
    return lines


def _slowest(found: DataCheck, say: Mapping[str, str], width: int) -> list[str]:
    if not found.slowest:
        return []
    rows = [
        [_seconds(s.seconds), s.name, str(s.rank), "-" if s.worker is None else str(s.worker)]
        for s in found.slowest[:SHOWN]
    ]
    head = [say["data.longest"], say["data.item"], say["data.rank"], say["data.worker"]]
    return ["", say["data.slowest"], *aligned(head, rows, width)]


def _files(found: DataCheck, say: Mapping[str, str], width: int) -> list[str]:
    if not found.files:
        return []
    rows = [
        [
            f.file,
            f.kind,
            "-" if f.items is None else str(f.items),
            "-" if f.bytes is None else str(f.bytes),
            "-" if f.hours is None else str(f.hours),
        ]
        for f in found.files[: 4 * SHOWN]
    ]
    head = [say["column.file"], say["data.kind"], say["data.items"], say["data.bytes"], say["data.hours"]]
    lines = ["", say["data.files"], *aligned(head, rows, width)]
    if len(found.files) > len(rows):
        lines.append(say["data.more"].format(n=len(found.files) - len(rows)))
    known = [c for c in found.per_rank if c is not None]
    if known:
        text = say["data.per_rank"].format(least=min(known), most=max(known), known=len(known), world=found.world_size)
        lines += wrap(text, width)
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"
