"""The text format: one screen for a terminal or a pipe.

Must not infer anything, look at the terminal, or print. Everything that came from a log is made neutral first.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.wording import clipped
from firstfault.i18n import messages
from firstfault.model.words import ActionKind
from firstfault.report import phrases, storage
from firstfault.report.box_words import in_words
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.told import parts_of, shortened, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.model.diagnosis import ChainLink, Diagnosis, Evidence
    from firstfault.redact import Redacted

LABEL = 17
_WIDE = "\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
_MARKS = "，。；：、！？）》”"
_PIECE = re.compile(f"[{_WIDE}][{_MARKS}]*|[^{_WIDE}]+")
"""A character of a script that is written without blanks, with the marks that may not begin a line; or what lies between."""
WINDOW = 400
"""Characters of a cited line: a longer one is a window of the line."""
PREFIX = 120
"""Characters that stamps and labels before the evidence take at most."""
NARROW = 70
"""Below this width a label stands on a line of its own."""
_COLORS = {"red": "31;1", "green": "32;1", "yellow": "33;1", "bold": "1", "dim": "2"}


class Room(NamedTuple):
    """How much of each part a page has room for."""

    links: int
    """Links of the chain."""
    rows: int
    """Rows of one link, step or rival; the first step is never cut."""
    lines: int
    """Best lines."""
    quoted: int
    """Rows of one quoted line."""
    steps: int
    rivals: int
    """Rivals, and things that would settle it."""
    naive: int
    said: int
    """Rows of one naive reading."""
    summary: int
    """Rows of the summary."""
    gaps: bool = True
    """Whether blank lines stand between the parts."""


ROOMS = (
    Room(links=5, rows=3, lines=3, quoted=3, steps=4, rivals=3, naive=3, said=2, summary=9),
    Room(links=4, rows=2, lines=3, quoted=2, steps=3, rivals=2, naive=2, said=2, summary=5),
    Room(links=3, rows=2, lines=3, quoted=1, steps=2, rivals=1, naive=1, said=2, summary=4),
    Room(links=3, rows=1, lines=2, quoted=1, steps=2, rivals=1, naive=1, said=2, summary=4, gaps=False),
    Room(links=2, rows=1, lines=2, quoted=1, steps=1, rivals=1, naive=1, said=1, summary=3, gaps=False),
    Room(links=2, rows=1, lines=1, quoted=1, steps=1, rivals=0, naive=1, said=1, summary=3, gaps=False),
    Room(links=1, rows=1, lines=1, quoted=1, steps=1, rivals=0, naive=1, said=1, summary=2, gaps=False),
    Room(links=0, rows=1, lines=1, quoted=1, steps=1, rivals=0, naive=0, said=1, summary=2, gaps=False),
)
"""From the widest to the tightest; the first that fits the screen is taken."""


def render_text(
    safe: Redacted[Diagnosis],
    *,
    width: int = 100,
    height: int | None = None,
    color: bool = False,
    language: str = "en",
) -> str:
    """The diagnosis on one screen.

    Args:
        safe: what went through the door.
        width: columns, at least 40.
        height: rows of the screen, into which it is fitted as far as that goes; None for a page of any length.
        color: whether terminal colours may be used.
        language: of the fixed words.

    Returns:
        Lines of at most `width` columns, ending in a newline; a command that is longer stays in one piece all the same, so
        that it can be copied.
    """
    text = ""
    told, say = localised(safe, language).content, messages(language)
    for room in ROOMS:
        text = _Page(told, say, max(width, 40), room, color=color).text()
        if height is None or text.count("\n") < height:
            break
    return text


class _Page:
    """One page that is being written."""

    def __init__(self, diagnosis: Diagnosis, say: Mapping[str, str], width: int, room: Room, *, color: bool) -> None:
        self.d = diagnosis
        self.say = say
        self.width = width
        self.room = room
        self.color = color
        self.lines: list[str] = []

    def text(self) -> str:
        self._head()
        self._who()
        self._chain()
        self._evidence()
        self._store()
        self._doubts()
        self._todo()
        self._foot()
        lines = [line.rstrip() for line in self.lines]
        # Parts that have nothing to say leave their blank line: two of them are one.
        gaps = self.room.gaps
        kept = [line for i, line in enumerate(lines) if line or (gaps and i and lines[i - 1])]
        return "\n".join(kept) + "\n"

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.color and text else text

    def _rows(self, number: int) -> int:
        """Characters that so many rows beside a label hold; the rest of a row is lost where words break."""
        beside = self.width - (2 if self.width < NARROW else LABEL)
        return number * beside - 8 * (number - 1)

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

    def advise(self, label: str, sentences: Iterable[str]) -> None:
        """Writes a label and sentences that hold commands: none of these is broken."""
        narrow = self.width < NARROW
        indent = 2 if narrow else LABEL
        rows = [line for sentence in sentences for line in wrap_told(neutral(sentence), self.width - indent)]
        if not rows:
            return
        head = self.paint(label, "bold")
        # What does not fit beside the label begins at the margin: a terminal shows more of it there.
        beside = [" " * (indent if columns(row) <= self.width - indent else 2) + row for row in rows]
        if narrow or columns(rows[0]) > self.width - indent:
            self.lines += [head, *beside]
        else:
            self.lines += [head + " " * (LABEL - columns(label)) + rows[0], *beside[1:]]

    def _head(self) -> None:
        verdict = self.d.verdict
        color = {True: "red", False: "green", None: "yellow"}[verdict.failed]
        head = phrases.headline(self.d, self.say)
        sure = phrases.how_sure(self.d, self.say)
        lines = wrap(f"{head}  {sure}", self.width)
        self.lines.append(self.paint(head, color) + lines[0][len(head) :])
        self.lines += lines[1:]
        self.lines += [self.paint(line, "bold") for line in self._cut(verdict.summary)]
        if self.d.redaction == "none":
            self.lines += [self.paint(line, "red") for line in wrap(self.say["redaction.none"], self.width)]
        self.lines.append("")

    def _cut(self, summary: str) -> list[str]:
        """The summary in as many rows as there is room for."""
        return fitted(neutral(summary), self.room.summary, self.width)

    def _who(self) -> None:
        verdict = self.d.verdict
        tight = not self.room.gaps
        named = verdict.culprits
        if verdict.failed is True:
            # How sure the word is stands in the first row already, where both are equally sure.
            short = tight and (named.strength is verdict.strength or not self.room.links)
            self.row(self.say["label.culprit"], [phrases.culprits(self.d, self.say, explained=not short)])
        first = phrases.who(verdict.first_failed.ranks, verdict.first_failed.hosts, self.say)
        same = (named.ranks, named.hosts) == (verdict.first_failed.ranks, verdict.first_failed.hosts)
        if first and not (tight and same):
            self.row(self.say["label.first_failed"], [first])
        moments = phrases.moments(self.d, self.say)
        if moments:
            self.row(self.say["label.when"], [self.say["mark.and"].join(moments)])
        if len(self.d.attempts) > 1:
            self.row(self.say["label.attempts"], self._attempts())
            recurring = [clipped(t, 2 * self.width) for t in phrases.recurrence(self.d, self.say)]
            self.row(self.say["label.recurrence"], recurring)

    def _attempts(self) -> list[str]:
        """How each attempt ended: on one line, or with its verdict where every one was asked for."""
        if all(a.verdict is not None for a in self.d.attempts):
            return [clipped(phrases.attempt(a, self.say), 3 * self.width) for a in self.d.attempts]
        parts = []
        for attempt in self.d.attempts:
            ended = self.say[f"attempt.{attempt.ended}"]
            parts.append(f"{attempt.number} {ended}" + (f" ({self.say['attempt.this']})" if attempt.diagnosed else ""))
        return [phrases.names(parts, self.say, most=6)]

    def _chain(self) -> None:
        links = self.d.chain
        if not links or not self.room.links:
            return
        shown = list(enumerate(links, 1))
        hidden = 0
        if len(links) > self.room.links + (1 if self.room.gaps else 0):
            hidden = len(links) - self.room.links
            shown = [*shown[: self.room.links - 1], shown[-1]] if self.room.links > 2 else shown[: self.room.links]
        paragraphs = []
        for number, link in shown:
            if hidden and number == len(links):
                paragraphs.append(
                    f"   … {self.say['value.step_between' if hidden == 1 else 'value.steps_between'].format(n=hidden)}"
                )
            paragraphs.append(shorten_link(self._link(number, link), self._rows(self.room.rows)))
        self.row(self.say["label.chain"], paragraphs)

    def _link(self, number: int, link: ChainLink) -> tuple[str, str, str]:
        """What happened with its time, where it stands, and why it belongs there."""
        line = link.evidence[0] if link.evidence else None
        at = phrases.clock(phrases.job_time(self.d, line))
        what = f"{number}. {at + '  ' if at else ''}{link.what}"
        return what, "" if line is None else f" [{phrases.place(line)}]", f" ({link.why})" if link.why else ""

    def _evidence(self) -> None:
        lines = phrases.best_lines(self.d, self.room.lines)
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
        words = in_words(line.text, self.say)
        if words:
            self.lines += ["    " + part for part in fitted(neutral(words), self.room.quoted, room)]
        self.lines += ["    " + part for part in quoted(line, self.room.quoted, room)]

    def _store(self) -> None:
        held = self.d.storage
        if held is not None and self.d.verdict.failed and self.room.links:
            self.lines.append("")
            self.row(self.say["label.store"], [storage.clock(held, self.say)])

    def _doubts(self) -> None:
        self.lines.append("")
        gaps = phrases.missing(self.d, self.say)
        if gaps:
            self.row(self.say["label.seen_ranks"], [self.say["mark.and"].join(gaps)])
        rivals = [
            f"{self.say[f'category.{r.category}']} ({r.strength})"
            + (f"{self.say['mark.but']}{r.against[0]}" if r.against else "")
            for r in self.d.rivals[: self.room.rivals]
        ]
        if rivals:
            self.row(self.say["label.rivals"], [clipped(r, self._rows(min(2, self.room.rows))) for r in rivals])
        naive = [
            refuted(n.says.rstrip(".。"), n.dropped_because, self._rows(self.room.said), self.say["mark.colon"])
            for n in self.d.naive[: self.room.naive]
        ]
        if naive:
            self.row(self.say["label.naive" if self.d.verdict.failed else "label.harmless"], naive)
        if self.d.seen_before:
            self.row(
                self.say["label.seen"],
                [
                    clipped(phrases.seen(one, self.say), self._rows(max(2, self.room.rows)))
                    for one in self.d.seen_before
                ],
            )

    def _todo(self) -> None:
        action = self.d.verdict.action
        if action.kind is ActionKind.NONE and not action.steps:
            return
        steps = [f"{i}. {s}" for i, s in enumerate(action.steps[: self.room.steps], 1)]
        # The first step is what the reader came for: it is never cut.
        steps = [*steps[:1], *(shortened(s, self._rows(self.room.rows)) for s in steps[1:])]
        head = f"{self.say[f'action.{action.kind}']}{self.say['mark.colon'].rstrip()}"
        if not self.room.gaps and steps:
            steps[0] = f"{head} {steps[0]}"
            head = ""
        self.advise(self.say["label.todo"], [*([head] if head else []), *steps])
        if action.exclude_hostlist:
            self.advise(self.say["label.exclude"], [action.exclude_hostlist])
            self.lines += [f"  {neutral(command)}" for command in phrases.drain(self.d.verdict)]
        if self.d.collect_next and self.room.rivals:
            self.advise(
                self.say["label.collect"],
                [shortened(c, self._rows(min(2, self.room.rows))) for c in self.d.collect_next[: self.room.rivals]],
            )

    def _foot(self) -> None:
        check = self.d.verification
        code = phrases.exit_code(self.d)
        rest = [self.say["foot.verified"].format(reread=check.reread, claims=check.claims)]
        if check.withdrawn:
            rest.append(self.say["foot.withdrawn"].format(n=len(check.withdrawn)))
        rest.append(self.say["foot.more"])
        told = [self.say["foot.exit"].format(code=code, meaning=self.say[f"exit.{code}"]), *rest]
        brief = [self.say["foot.exit_short"].format(code=code), *rest]
        joint = self.say["mark.and"]
        line = joint.join(told)
        self.lines.append("")
        self.lines += [
            self.paint(part, "dim")
            for part in wrap(line if columns(line) <= self.width else joint.join(brief), self.width)
        ]


def refuted(says: str, because: str, limit: int, mark: str = ": ") -> str:
    """A reading with why it is dropped; the reading alone where no more than a piece of the reason would fit."""
    whole = f"{says}{mark}{because}"
    return whole if len(whole) <= limit or len(says) < limit // 2 else clipped(says, limit)


def shorten_link(parts: tuple[str, str, str], limit: int) -> str:
    """A link of the chain in at most so many characters: the reason is left out first, then what happened is cut, its place last."""
    what, place, why = parts
    if len(what) + len(place) + len(why) <= limit:
        return what + place + why
    if len(what) + len(place) <= limit:
        return what + place
    if len(place) > limit // 2:
        # The end of a path tells more than its begin.
        place = f" […{place[len(place) - limit // 2 + 3 :]}"
    return clipped(what, limit - len(place)) + place


def quoted(line: Evidence, rows: int, width: int) -> list[str]:
    """A raw line in at most so many rows; where it does not fit, what stands before the evidence goes first."""
    text = neutral(line.text).strip()
    lines = wrap(text, width)
    if len(lines) <= rows:
        return lines
    # A window of a long line, or the last part of a bar that redraws its line, begins somewhere: then the column, which
    # counts in the whole line, tells nothing about it, and is larger than any prefix as a rule.
    at = len(line.text.encode()[: line.column - 1].decode("utf-8", "ignore")) if len(line.text) < WINDOW else 0
    # A label that was taken off moves it too: it has to stand at the begin of a word.
    if width // 3 < at < min(len(text), PREFIX) and text[at - 1] in " ])>:" and text[at] != " ":
        text = "…" + text[at - 1 :] if at > 1 else text
        lines = wrap(text, width)
        if len(lines) <= rows:
            return lines
    return [*lines[: rows - 1], shorten(" ".join(lines[rows - 1 :]), width)]


def fitted(text: str, rows: int, width: int) -> list[str]:
    """A text in at most so many rows, cut behind a whole word."""
    lines = wrap(text, width)
    if len(lines) <= rows:
        return lines
    return [*lines[: rows - 1], clipped(" ".join(lines[rows - 1 :]), width)]


def columns(text: str) -> int:
    """Columns that a terminal gives a text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )


def wrap(text: str, width: int) -> list[str]:
    """Breaks a text at blanks, and between wide characters, into lines of at most `width` columns.

    Leading blanks of the text stay; a word longer than a line is broken.
    """
    lines, line = [], ""
    for position, (gap, word) in enumerate(_pieces(text)):
        candidate = f"{line}{gap}{word}" if position else word
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


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """What stands before a piece, and the piece, which is not broken: words, and in wide scripts each character."""
    for number, word in enumerate(text.split(" ")):
        gap = " " if number else ""
        if word.isascii():
            yield gap, word
            continue
        for piece in _PIECE.findall(word):
            yield gap, piece
            gap = ""


def wrap_told(sentence: str, width: int) -> list[str]:
    """Breaks a sentence at blanks, but in no command; one that is longer than a line stands on a line of its own, bare."""
    lines: list[str] = []
    line: str | None = None
    for gap, word in _told_pieces(sentence):
        candidate = word if line is None else f"{line}{gap}{word}"
        if columns(candidate) <= width:
            line = candidate
            continue
        lines += [] if line is None else [line]
        line = word
        if columns(word) <= width:
            continue
        # Only its own line can be copied whole, and without the backticks, which a shell would take for its own.
        held = parts_of(word)
        if any(part.command for part in held):
            lines += [part.text for part in held if part.command or part.text.strip(".,;:()")]
        else:
            lines += wrap(word, width)
        line = None
    return lines if line is None else [*lines, line]


def _told_pieces(sentence: str) -> Iterator[tuple[str, str]]:
    """As `_pieces`, but a command is one piece, with the marks behind it."""
    for number, word in enumerate(words_of(sentence)):
        gap = " " if number else ""
        if word.isascii():
            yield gap, word
            continue
        held = ""
        for part in parts_of(word):
            for piece in [f"`{part.text}`"] if part.command else _PIECE.findall(part.text):
                if held and piece[0] not in _MARKS:
                    yield gap, held
                    gap, held = "", ""
                held += piece
        yield gap, held


def _fitting(text: str, width: int) -> int:
    used = 0
    for i, char in enumerate(text):
        used += columns(char)
        if used > width:
            return max(i, 1)
    return len(text)
