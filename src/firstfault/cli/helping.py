"""Help in another language: the texts of commands and options are looked up paragraph by paragraph when help is shown.

Must not hold a text of its own, and must not change a command: only what its help looks like.
"""

from __future__ import annotations

import inspect
import os
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.messages import LANGUAGE
from firstfault.cli.values import language_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VARIABLE = "FIRSTFAULT_LANG"
_EXTRA = re.compile(r"  (\[[^\[\]]*\])$")
_GAP = 2


def asked_language(args: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """The language that the words of a command line or the environment ask for; English where neither names one of ours."""
    named = environ.get(VARIABLE, "")
    for word, following in zip_longest(args, args[1:], fillvalue=""):
        if word == "--":
            break
        if word == "--lang" and following:
            named = following
        elif word.startswith("--lang="):
            named = word.removeprefix("--lang=")
    return language_of(named) or "en"


def speak(language: str) -> None:
    """Shows help and errors from now on in a language."""
    LANGUAGE.set(language)
    click.Context.formatter_class = click.HelpFormatter if language == "en" else Helping


def paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """The paragraphs of a help text, each with whether its lines stand as they are written."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        as_written = lines[0].strip() == "\b"
        yield "\n".join(lines[1:] if as_written else lines), as_written


def joined(text: str) -> str:
    """A paragraph on one line, as it is looked up."""
    return " ".join(text.split())


class Helping(click.HelpFormatter):
    """A formatter that says help in Chinese, in which a character takes two columns and lines break between them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        from firstfault.i18n import help_texts

        self._texts = help_texts("zh")

    def _said(self, text: str) -> str:
        return self._texts.get(joined(text), text)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Writes how a command is called."""
        del prefix
        super().write_usage(prog, args, self._texts["Usage:"])

    def write_heading(self, heading: str) -> None:
        """Writes the heading of a list."""
        self.write(f"{'':>{self.current_indent}}{self._texts.get(heading, heading)}：\n")

    def write_text(self, text: str) -> None:
        """Writes the paragraphs of a text."""
        from firstfault.report.text import wrap

        for number, (paragraph, as_written) in enumerate(paragraphs(text)):
            said = self._said(paragraph)
            if as_written and said == paragraph:
                first, *rest = paragraph.split("\n")
                lines = [self._said(first), *rest]
            else:
                lines = wrap(joined(said), self.width - self.current_indent)
            self.write("\n" if number else "")
            for line in lines:
                self.write(f"{'':>{self.current_indent}}{line}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = _GAP) -> None:
        """Writes names and what they mean in two columns."""
        from firstfault.report.text import columns, wrap

        rows = list(rows)
        wide = min(max((columns(name) for name, _ in rows), default=0), col_max) + col_spacing
        for name, told in rows:
            extra = _EXTRA.search(told)
            said = self._said(told[: extra.start()] if extra else told) + (
                f" {extra[1]}".replace("[default: ", self._texts["[default: "]) if extra else ""
            )
            lines = wrap(said, max(self.width - wide - self.current_indent, 10)) if said else [""]
            head = f"{'':>{self.current_indent}}{name}"
            if columns(name) > wide - col_spacing:
                self.write(f"{head}\n")
                head = ""
            for line in lines:
                gap = self.current_indent + wide - columns(head)
                self.write(f"{head}{'':>{gap}}{line}".rstrip() + "\n")
                head = ""
