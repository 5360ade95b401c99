"""The text format: one screen for a terminal or a pipe.

Must not infer anything, look at the terminal, or print. Everything that came from a log is made neutral first.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.model.words import ActionKind
from firstfault.report import phrases
from firstfault.report.neutral import neutral, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.model.diagnosis import Diagnosis, Evidence
    from firstfault.redact import Redacted

LINKS, LINES, STEPS, RIVALS = 5, 3, 4, 3
LABEL = 17
NARROW = 70
"""Below this width a label stands on a line of its own."""
_COLORS = {"red": "31;1", "green": "32;1", "yellow": "33;1", "bold": "1", "dim": "2"}


def render_text(safe: Redacted[Diagnosis], *, width: int = 100, color: bool = False, language: str = "en") -> str:
    """The diagnosis on one screen.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        color: whether terminal colours may be used.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline.
    """
    return _Page(safe.content, messages(language), max(width, 40), color=color).text()


class _Page:
    """One page that is being written."""

    def __init__(self, diagnosis: Diagnosis, say: Mapping[str, str], width: int, *, color: bool) -> None:
        self.d = diagnosis
        self.say = say
        self.width = width
        self.color = color
        self.lines: list[str] = []

    def text(self) -> str:
        self._head()
        self._who()
        self._chain()
        self._evidence()
        self._doubts()
        self._todo()
        self._foot()
        lines = [line.rstrip() for line in self.lines]
        # Parts that have nothing to say leave their blank line: two of them are one.
        kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
        return "\n".join(kept) + "\n"

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.color and text else text

    def row(self, label: str, paragraphs: Iterable[str], color: str = "") -> None:
        """Writes a label and its paragraphs, wrapped beside it (or below it on a narrow page)."""
        narrow = self.width < NARROW
        indent = 2 if narrow else LABEL
        first = True
        for paragraph in paragraphs:
            for line in wrap(neutral(paragraph), self.width - indent):
                shown = self.paint(line, color) if color else line
                if first and narrow:
                    self.lines.append(self.paint(label, "bold"))
                    first = False
                head = self.paint(label, "bold") + " " * (LABEL - columns(label)) if first else " " * indent
                self.lines.append(head + shown)
                first = False

    def _head(self) -> None:
        verdict = self.d.verdict
        color = {True: "red", False: "green", None: "yellow"}[verdict.failed]
        head = phrases.headline(self.d, self.say)
        sure = phrases.how_sure(self.d, self.say)
        lines = wrap(f"{head}  {sure}", self.width)
        self.lines.append(self.paint(head, color) + lines[0][len(head) :])
        self.lines += lines[1:]
        self.lines += [self.paint(line, "bold") for line in wrap(neutral(verdict.summary), self.width)]
        if self.d.redaction == "none":
            self.lines += [self.paint(line, "red") for line in wrap(self.say["redaction.none"], self.width)]
        self.lines.append("")

    def _who(self) -> None:
        verdict = self.d.verdict
        if verdict.failed is not False:
            self.row(self.say["label.culprit"], [phrases.culprits(self.d, self.say)])
        first = phrases.who(verdict.first_failed.ranks, verdict.first_failed.hosts, self.say)
        if first:
            self.row(self.say["label.first_failed"], [first])
        if len(self.d.attempts) > 1:
            self.row(self.say["label.attempts"], self._attempts())
            recurring = [shorten(t, 2 * self.width) for t in phrases.recurrence(self.d, self.say)]
            self.row(self.say["label.recurrence"], recurring)

    def _attempts(self) -> list[str]:
        """How each attempt ended: on one line, or with its verdict where every one was asked for."""
        if all(a.verdict is not None for a in self.d.attempts):
            return [shorten(phrases.attempt(a, self.say), 3 * self.width) for a in self.d.attempts]
        parts = []
        for attempt in self.d.attempts:
            ended = self.say[f"attempt.{attempt.ended}"]
            parts.append(f"{attempt.number} {ended}" + (f" ({self.say['attempt.this']})" if attempt.diagnosed else ""))
        return [phrases.names(parts, self.say, most=6)]

    def _chain(self) -> None:
        links = self.d.chain
        if not links:
            return
        shown = list(enumerate(links, 1))
        hidden = 0
        if len(links) > LINKS + 1:
            hidden = len(links) - LINKS
            shown = [*shown[: LINKS - 1], shown[-1]]
        paragraphs = []
        for number, link in shown:
            if hidden and number == len(links):
                paragraphs.append(f"   … {self.say['value.steps_between'].format(n=hidden)}")
            proof = f" [{phrases.place(link.evidence[0])}]" if link.evidence else ""
            paragraphs.append(f"{number}. {link.what}{proof}" + (f" ({link.why})" if link.why else ""))
        self.row(self.say["label.chain"], [shorten(p, 3 * self.width) for p in paragraphs])

    def _evidence(self) -> None:
        lines = phrases.best_lines(self.d, LINES)
        if not lines:
            return
        self.lines.append("")
        self.lines.append(self.paint(self.say["label.lines"], "bold"))
        for line in lines:
            self._quote(line)

    def _quote(self, line: Evidence) -> None:
        where = neutral(phrases.place(line))
        while columns(where) > self.width - 2:
            where = "…" + where[max(2, columns(where) - self.width + 3) :]
        self.lines.append("  " + self.paint(where, "dim"))
        room = self.width - 4
        quoted = wrap(shorten(neutral(line.text).strip(), 2 * room - 2), room)[:3]
        self.lines += ["    " + part for part in quoted]

    def _doubts(self) -> None:
        self.lines.append("")
        gaps = phrases.missing(self.d, self.say)
        self.row(self.say["label.missing"], ["; ".join(gaps) or self.say["value.nothing_missing"]])
        rivals = [
            f"{self.say[f'category.{r.category}']} ({r.strength})" + (f", but: {r.against[0]}" if r.against else "")
            for r in self.d.rivals[:RIVALS]
        ]
        if rivals:
            self.row(self.say["label.rivals"], [shorten(r, 2 * self.width) for r in rivals])
        naive = [shorten(f"{n.says.rstrip('.')}: {n.dropped_because}", 2 * self.width) for n in self.d.naive[:2]]
        if naive:
            self.row(self.say["label.naive"], naive)
        if self.d.seen_before:
            self.row(self.say["label.seen"], [phrases.names(self.d.seen_before, self.say)])

    def _todo(self) -> None:
        action = self.d.verdict.action
        if action.kind is ActionKind.NONE and not action.steps:
            return
        steps = [f"{i}. {shorten(s, 3 * self.width)}" for i, s in enumerate(action.steps[:STEPS], 1)]
        self.row(self.say["label.todo"], [f"{self.say[f'action.{action.kind}']}:", *steps])
        if action.exclude_hostlist:
            self.row(self.say["label.exclude"], [action.exclude_hostlist, *phrases.drain(action)])
        if self.d.collect_next:
            self.row(self.say["label.collect"], [shorten(c, 2 * self.width) for c in self.d.collect_next[:RIVALS]])

    def _foot(self) -> None:
        check = self.d.verification
        code = phrases.exit_code(self.d)
        parts = [self.say["foot.exit"].format(code=code, meaning=self.say[f"exit.{code}"])]
        parts.append(self.say["foot.verified"].format(reread=check.reread, claims=check.claims))
        if check.withdrawn:
            parts.append(self.say["foot.withdrawn"].format(n=len(check.withdrawn)))
        parts.append(self.say["foot.more"])
        self.lines.append("")
        self.lines += [self.paint(line, "dim") for line in wrap("; ".join(parts), self.width)]


def columns(text: str) -> int:
    """Columns that a terminal gives a text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )


def wrap(text: str, width: int) -> list[str]:
    """Breaks a text at blanks into lines of at most `width` columns.

    Leading blanks of the text stay; a word longer than a line is broken.
    """
    words = text.split(" ")
    lines, line = [], ""
    for position, word in enumerate(words):
        candidate = word if position == 0 else f"{line} {word}"
        if columns(candidate) <= width:
            line = candidate
            continue
        if line and position:
            lines.append(line)
        line = word
        while columns(line) > width:
            cut = _fitting(line, width)
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line]


def _fitting(text: str, width: int) -> int:
    used = 0
    for i, char in enumerate(text):
        used += columns(char)
        if used > width:
            return max(i, 1)
    return len(text)
