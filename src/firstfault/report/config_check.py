"""What is wrong with the settings of a job, as text and as JUnit.

Must not judge anything or order rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.report.junit import Check, suite_of
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral
from firstfault.report.text import wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.config import ConfigCheck, ConfigFinding
    from firstfault.redact import Redacted


def render_config_check(
    safe: Redacted[ConfigCheck], *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """A check of settings for a terminal or a pipe.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        every: whether also what is right and what could not be checked is shown.
        language: of the sentences and fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    found, say, width = localised(safe, language).content, messages(language), max(width, 40)
    lines = wrap(neutral(f"{say[f'config.{found.state}']}  {found.summary}"), width)
    if found.redaction == "none":
        lines += wrap(say["redaction.none"], width)
    kinds = ", ".join(f"{f.file or f.written_by} ({f.kind})" for f in found.files)
    lines += wrap(neutral(f"{say['config.files']}: {kinds}"), width)
    if found.world_size is not None:
        ranks = say["config.world_from"].format(n=found.world_size, source=found.world_size_from)
        lines += wrap(neutral(f"{say['config.world']}: {ranks}"), width)
    shown = ("fail", "warn", "not_checkable", "ok") if every else ("fail", "warn")
    for state in shown:
        listed = [f for f in found.findings if f.state == state]
        if listed:
            lines += ["", say[f"config.{state}s"]]
            lines += [line for finding in listed for line in _finding(finding, say, width)]
    rest = sum(f.state not in shown for f in found.findings)
    if rest:
        lines += ["", *wrap(neutral(say["config.more"].format(n=rest, option="`--all`")), width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_config_check_junit(safe: Redacted[ConfigCheck], *, language: str = "en") -> str:
    """The checks of settings as one JUnit suite: one case a finding, named by its check and file in every language.

    Args:
        safe: what went through the door.
        language: of the sentences.

    Returns:
        XML of UTF-8, ending in a newline.
    """
    found = localised(safe, language).content
    checks = []
    for one in found.findings:
        group, _, name = one.check.partition(".")
        body = "\n".join(neutral(t) for t in (one.what, one.why, one.message, one.fix) if t)
        checks.append(Check(group, f"{name or group} ({one.file})", one.state, one.check, one.what, body))
    return suite_of("firstfault.check-config", checks, found.redaction)


def _finding(finding: ConfigFinding, say: Mapping[str, str], width: int) -> list[str]:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    first, *rest = wrap(neutral(f"{place}  {finding.what}  [{finding.check}]"), width - 4)
    lines = [f"  {first}", *(f"    {line}" for line in rest)]
    for name in ("why", "message", "signature", "fix"):
        text = " / ".join(part.strip() for part in getattr(finding, name).split("\n") if part.strip())
        if text:
            lines += [f"      {line}" for line in wrap(neutral(say[f"config.{name}"].format(text=text)), width - 6)]
    return lines
