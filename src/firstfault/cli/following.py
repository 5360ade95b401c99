"""`firstfault diagnose --follow`: how the answers about a running job are shown as they change.

Loaded only where it is asked for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from firstfault.cli.evidence import deliver, page, write
from firstfault.cli.messages import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.diagnosis import Diagnosis
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.pipelines.publish import Format
    from firstfault.redact import Level


def follow_job(
    paths: Sequence[str],
    form: Format,
    level: Level,
    options: DiagnoseOptions,
    every: float,
    *,
    output: str | None,
    language: str,
) -> int:
    """Shows each change, and at the end the report; JSON gives a line for each change and no more.

    Returns:
        The exit code of the last answer.
    """
    from firstfault.pipelines.follow import followed
    from firstfault.report.phrases import exit_code

    last: Diagnosis | None = None
    try:
        for look in followed(paths, options, every=every):
            last = look.diagnosis
            if not look.changed:
                continue
            if output is not None:
                deliver(_report(last, form, level, output, language), output)
            elif form == "json":
                write(_one_line(_report(last, form, level, None, language)))
            else:
                _announce(last, level, look.at, language)
    except KeyboardInterrupt:
        if last is None:
            raise
    assert last is not None
    if output is not None:
        deliver(_report(last, form, level, output, language), output)
    elif form != "json":
        write(_report(last, form, level, None, language))
    return exit_code(last)


def _report(diagnosis: Diagnosis, form: Format, level: Level, output: str | None, language: str) -> str:
    from firstfault.pipelines.publish import publish

    return publish(diagnosis, form, level, **page(output), language=language)


def _one_line(report: str) -> str:
    """A report in JSON as one line."""
    import msgspec

    return msgspec.json.format(report.encode(), indent=-1).decode() + "\n"


def _announce(diagnosis: Diagnosis, level: Level, at: float, language: str) -> None:
    """Says on stderr what the answer is now: its first words, with the time."""
    from firstfault.pipelines.publish import publish

    text = publish(diagnosis, "text", level, width=page(None)["width"], language=language)
    first, _, rest = text.partition("\n\n")[0].partition("\n")
    tell(f"{time.strftime('%H:%M:%S', time.localtime(at))}  {' '.join(first.split())}. {' '.join(rest.split())}")
