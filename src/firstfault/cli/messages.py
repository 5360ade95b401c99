"""What is said on stderr when a command cannot go on: what, where, why, and what to do; in the language that was asked for.

Must not print a report or decide an exit code.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING

from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click

REPORT_AT = "the project's issue tracker"
LANGUAGE: ContextVar[str] = ContextVar("language", default="en")
"""Of what is told on stderr."""


def said(text: str) -> str:
    """A sentence of ours in the language that was asked for; what no catalogue holds stays in English."""
    from firstfault.i18n import translator

    return translator(LANGUAGE.get())(text)


def words() -> Mapping[str, str]:
    """The fixed words of the language that was asked for."""
    from firstfault.i18n import messages

    return messages(LANGUAGE.get())


def tell(what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
    """Prints one error of up to four lines on stderr."""
    from firstfault.i18n import messages

    words, what = messages(LANGUAGE.get()), said(what)
    lines = [f"firstfault: {where}: {what}" if where else f"firstfault: {what}"]
    if why:
        lines.append(f"  {words['error.why']}{said(why)}")
    if fix:
        lines.append(f"  {words['error.fix']}{said(fix)}")
    sys.stderr.write("\n".join(neutral(line) for line in lines) + "\n")


def show(error: click.ClickException) -> None:
    """Prints what is wrong with the words of a command line, and where its help is."""
    if LANGUAGE.get() == "en":
        error.show(sys.stderr)
        return
    from firstfault.i18n import messages

    words, lines, context = messages(LANGUAGE.get()), [], getattr(error, "ctx", None)
    if context is not None:
        lines.append(context.get_usage())
        if context.command.get_help_option(context) is not None:
            asks = f"{context.command_path} {context.help_option_names[0]}"
            lines.append(words["error.help"].format(command=asks))
        lines.append("")
    lines.append(words["error.usage"].format(what=said(error.format_message())))
    sys.stderr.write("\n".join(neutral(line) for line in lines) + "\n")


def describe(error: BaseException) -> bool:
    """Prints an error that a person can do something about; False where it is not of that kind."""
    from firstfault.incidents.errors import IncidentError
    from firstfault.pipelines.errors import PipelineError
    from firstfault.signatures.errors import SignatureError

    if isinstance(error, PipelineError):
        tell(error.what, where=error.where, why=error.why, fix=error.fix)
        return True
    if isinstance(error, (SignatureError, IncidentError)):
        tell(error.what, where=error.where, fix=error.fix)
        return True
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else str(error.filename)
        tell(error.strerror[:1].lower() + error.strerror[1:], where=where, fix=_fix(error))
        return True
    return False


def _fix(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "Check the path."
    if isinstance(error, PermissionError):
        return "Run it as a user who may read and write there, or copy the files."
    return "Make room or choose another place, then run it again."


def tell_unexpected(error: BaseException) -> None:
    """Prints one line about a fault of our own; the traceback only where `FIRSTFAULT_DEBUG` is set."""
    if os.environ.get("FIRSTFAULT_DEBUG", "") not in {"", "0"}:
        import traceback

        sys.stderr.write(neutral("".join(traceback.format_exception(error)), keep="\n"))
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" in {frame.tb_frame.f_globals.get('__name__', '?')} line {frame.tb_lineno}"
    tell(
        f"a fault of our own: {type(error).__name__}{place}",
        fix=f"Set FIRSTFAULT_DEBUG=1 to see the traceback, and report it at {REPORT_AT} (no log is needed).",
    )
