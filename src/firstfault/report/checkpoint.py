"""A checkpoint, or two of them, as text: whether it is whole, what is wrong, what it holds.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.wording import size_text
from firstfault.i18n import messages
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.tabular import aligned
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.checkpoint import Checkpoint, CheckpointComparison, CheckpointProblem
    from firstfault.redact import Redacted

SHOWN = 10
"""Problems and shards that are shown unless all are asked for."""


def render_checkpoint(
    safe: Redacted[Checkpoint], *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """A checkpoint for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether all problems and shards are shown.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'checkpoint.{found.state}']}  {found.folder}"), width)
    lines += wrap(neutral(found.summary), width)
    if found.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    facts = [
        (say["checkpoint.looked_at"], found.verified),
        (say["checkpoint.layout"], ", ".join(found.layouts)),
        (say["checkpoint.step"], "" if found.step is None else str(found.step)),
        (say["checkpoint.world"], "" if found.world_size is None else str(found.world_size)),
        (say["checkpoint.digest"], found.digest or ""),
    ]
    lines += [line for name, text in facts if text for line in wrap(neutral(f"{name}: {text}"), width)]
    for weight, title in (("damage", "checkpoint.problems"), ("warning", "checkpoint.warnings")):
        lines += _problems([p for p in found.problems if p.weight == weight], say[title], say, width, every=every)
    for step in found.steps:
        lines += wrap(neutral(say["checkpoint.next"].format(step=step)), width)
    if found.parts:
        head = [say[f"column.{name}"] for name in ("part", "files", "tensors", "size", "values")]
        rows = [
            [p.part, _count(p.files), _count(p.tensors), size_text(p.bytes) if p.tensors else "-", _count(p.values)]
            for p in found.parts
        ]
        lines += ["", say["checkpoint.parts"], *aligned(head, rows, width)]
    lines += _shards(found, say, width, every=every)
    if found.not_checked:
        lines += ["", say["checkpoint.not_checked"]]
        lines += [line for text in found.not_checked for line in _hung(text, width)]
    if found.others:
        lines += wrap(neutral(say["checkpoint.others"].format(others=", ".join(found.others))), width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _hung(text: str, width: int) -> list[str]:
    """A text indented, its later lines more."""
    first, *rest = wrap(neutral(text), width - 6)
    return [f"  {first}", *(f"      {line}" for line in rest)]


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _problems(
    problems: list[CheckpointProblem], title: str, say: Mapping[str, str], width: int, *, every: bool
) -> list[str]:
    if not problems:
        return []
    lines = ["", title]
    shown = problems if every else problems[:SHOWN]
    for problem in shown:
        where = f"{problem.file} " if problem.file else ""
        lines += _hung(f"{problem.kind}  {where}{problem.what}", width)
    if len(problems) > len(shown):
        lines.append(say["checkpoint.more"].format(n=len(problems) - len(shown), option="`--all`"))
    return lines


def _shards(found: Checkpoint, say: Mapping[str, str], width: int, *, every: bool) -> list[str]:
    if not found.shards:
        return []
    shown = found.shards if every else found.shards[:SHOWN]
    ranked = any(s.rank is not None for s in shown)
    head = [say["column.file"], say["column.rank"], say["column.size"], say["column.tensors"], say["column.digest"]]
    rows = [
        [
            s.file,
            "" if not ranked else "-" if s.rank is None else str(s.rank),
            size_text(s.bytes),
            _count(s.tensors),
            "-" if s.digest is None else s.digest if every else f"{s.digest[:16]}…",
        ]
        for s in shown
    ]
    lines = ["", say["checkpoint.shards"], *aligned(head, rows, width)]
    if len(found.shards) > len(shown):
        lines.append(say["checkpoint.more"].format(n=len(found.shards) - len(shown), option="`--all`"))
    return lines


def render_checkpoints(safe: Redacted[CheckpointComparison], *, width: int = 100, language: str = "en") -> str:
    """Two checkpoints for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'checkpoint.{found.verdict}']}  {found.first}  {found.second}"), width)
    lines += wrap(neutral(found.summary), width)
    if found.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    head = [say[f"column.{n}"] for n in ("part", "result", "compared", "differing", "only_first", "only_second")]
    rows = [
        [
            p.part,
            say[f"checkpoint.{p.result}"],
            _count(p.compared),
            _count(p.differing),
            _count(p.missing),
            _count(p.added),
        ]
        for p in found.parts
    ]
    lines += ["", say["checkpoint.compared"], *aligned(head, rows, width)]
    if found.differences:
        lines += ["", say["checkpoint.differences"]]
        for d in found.differences:
            lines += _hung(f"{f'{d.part} {d.name}'.strip()}: {d.what}", width)
    if found.problems:
        lines += ["", say["checkpoint.either"]]
        lines += [line for text in found.problems[:SHOWN] for line in _hung(text, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"
