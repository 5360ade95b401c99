"""Answers to many jobs: a row each, then what several of them share; as CSV; and as a line of JSON each.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.analysis.wording import ranges
from firstfault.i18n import messages
from firstfault.model.words import Category
from firstfault.report import phrases
from firstfault.report.json import escaped
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned, separated
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.model.batch import Batch, JobAnswer, Shared
    from firstfault.redact import Redacted

SHOWN = 12
"""Jobs or hosts that a line of the summary names."""
CSV_HEAD = (
    "job", "state", "scheduler_state", "failed", "category", "strength", "ranks", "hosts", "since", "summary", "file", "line", "action",
    "exit_code", "seconds", "note",
)  # fmt: skip


def render_line(safe: Redacted[JobAnswer], *, language: str = "en") -> str:
    """One answer as one line of JSON, with its newline.

    Args:
        safe: what went through the door.
        language: of the sentences.
    """
    content = localised(safe, language).content
    return escaped(msgspec.json.encode(content, order="deterministic").decode("utf-8")) + "\n"


def render_batch(safe: Redacted[Batch], *, width: int = 100, language: str = "en") -> str:
    """The table for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    head = [say[f"batch.{name}"] for name in ("job", "ended", "fault", "strength", "who", "since", "told")]
    lines = aligned(head, [_row(answer, say) for answer in found.jobs], width)
    failed = sum(1 for answer in found.jobs if answer.failed)
    lines += ["", *wrap(say["batch.sum"].format(n=len(found.jobs), failed=failed), width)]
    lines += _shared(say["batch.by_category"], found.categories, say, width, category=True)
    lines += _shared(say["batch.by_host"], [s for s in found.hosts if len(s.jobs) > 1], say, width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_batch_csv(safe: Redacted[Batch], *, language: str = "en") -> str:
    """The same as CSV, a row for each job.

    Args:
        safe: what went through the door.
        language: of the sentences.
    """
    found = localised(safe, language).content
    return separated(CSV_HEAD, [_cells(answer) for answer in found.jobs])


def _row(answer: JobAnswer, say: Mapping[str, str]) -> list[str]:
    """What the table shows of a job; empty cells where it was not looked at."""
    if answer.state not in {"diagnosed", "cut_short"}:
        return [answer.job, _ended(answer, say), "", "", "", "", answer.note]
    found = answer.culprits
    where = [*found.hosts, *(say["value.storage"].format(list=node) for node in found.storage_nodes)]
    first = answer.first_line
    told = f"{answer.summary} ({answer.note})" if answer.note else answer.summary
    return [
        answer.job,
        _ended(answer, say),
        say[f"category.{answer.category}"],
        str(answer.strength),
        phrases.who(found.ranks, where, say),
        "" if first is None else phrases.day_and_time(first.time),
        told,
    ]


def _ended(answer: JobAnswer, say: Mapping[str, str]) -> str:
    """How the job ended, or why it was not looked at."""
    if answer.state not in {"diagnosed", "cut_short"}:
        return say[f"batch.{answer.state}"]
    key = "batch.undecided" if answer.failed is None else "batch.failed" if answer.failed else "batch.fine"
    return say[key] if answer.scheduler_state is None else f"{say[key]} ({answer.scheduler_state})"


def _shared(
    title: str, found: Sequence[Shared], say: Mapping[str, str], width: int, *, category: bool = False
) -> list[str]:
    """What several jobs have in common, with their names."""
    lines: list[str] = []
    for one in found:
        name = say[f"category.{Category(one.name)}"] if category else one.name
        jobs = phrases.names(one.jobs, say, most=SHOWN)
        lines += ["  " + line for line in wrap(neutral(f"{len(one.jobs)}  {name}{say['mark.colon']}{jobs}"), width - 2)]
    return [title, *lines] if lines else []


def _cells(answer: JobAnswer) -> list[str | int | bool | None]:
    """A row of the CSV."""
    first, found = answer.first_line, answer.culprits
    return [
        answer.job, answer.state, answer.scheduler_state, answer.failed, str(answer.category), str(answer.strength),
        ranges(found.ranks, most=10_000), " ".join([*found.hosts, *found.storage_nodes]),
        None if first is None or first.time is None else first.time.earliest, answer.summary,
        None if first is None else first.file, None if first is None else first.line,
        None if answer.action is None else str(answer.action), answer.exit_code, f"{answer.seconds:.3f}", answer.note,
    ]  # fmt: skip
