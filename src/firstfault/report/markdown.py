"""The Markdown format: five fixed sections, then checks and rivals.

Must not infer anything. Quoted log text stands in code spans, everything else is escaped, so that no line of a log can
become markup.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.i18n import messages
from firstfault.model.lazy import lazy
from firstfault.report import phrases, storage
from firstfault.report.box_words import in_words
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral, shorten
from firstfault.report.told import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.diagnosis import AttemptSummary, Diagnosis, Evidence
    from firstfault.redact import Redacted

_MARKUP = lazy(r"[\\`*\[\]<>|~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|(?<=\w)@(?=\w)|!(?=\[)")
_AT_START = lazy(r"^(\s*)(?:([#+=-])|(\d+)([.)]))")
_REFERENCE = lazy(
    r"(?<![\w@.])@[A-Za-z0-9](?:[\w-]*[\w])?(?:/[\w-]+)?|(?<![\w/.-])(?:[\w.-]+/[\w.-]+|[\w-]+)?#\d+\b|\bGH-\d+\b|(?<![\w!&])!\d+\b"
)
"""What forges turn into links or notify people of, wherever it stands: `@name`, `#12`, `owner/name#12`, `GH-12`, `!12`.

A backslash does not help: they look for it in what the text has become.
"""
SIDES = ("storage", "client", "training")
FILES, RANKS, NAIVE, LINES = 8, 16, 2, 40
"""Files and ranks of one count, lines of one hasty reading, and key lines that are shown; of more it is said how many."""


def escape(text: str) -> str:
    """Text in which nothing is markup, on one line; what a forge would make a mention or a reference of is a code span."""
    parts = []
    at = 0
    shown = neutral(text)
    for match in _REFERENCE.finditer(shown):
        parts += [_plain(shown[at : match.start()]), code(match.group())]
        at = match.end()
    escaped = "".join([*parts, _plain(shown[at:])])
    return _AT_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[2] else f"{m[1]}{m[3]}\\{m[4]}", escaped)


def _plain(text: str) -> str:
    return _MARKUP.sub(lambda m: "\\" + m.group(), text)


def code(text: str) -> str:
    """Text as a code span, whatever backticks it holds."""
    shown = neutral(text)
    if not shown.strip():
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def told(sentence: str) -> str:
    """A sentence of advice: its commands are code spans, the rest is escaped."""
    text = ""
    for part in parts_of(sentence):
        piece = code(part.text) if part.command else escape(part.text)
        # Two spans that touch would be one.
        text += f" {piece}" if text.endswith("`") and piece.startswith("`") else piece
    return text


def cell(text: str) -> str:
    """A code span that may stand in a table."""
    return code(text).replace("|", "\\|")


def render_markdown(safe: Redacted[Diagnosis], *, language: str = "en") -> str:
    """The whole diagnosis as Markdown.

    Args:
        safe: what went through the door.
        language: of the fixed words.

    Returns:
        Text with a title, five numbered sections in fixed order, the checks and the rivals, ending in a newline.
    """
    page = _Report(localised(safe, language).content, messages(language))
    return page.text()


class _Report:
    """One report that is being written."""

    def __init__(self, diagnosis: Diagnosis, say: Mapping[str, str]) -> None:
        self.d = diagnosis
        self.say = say
        self.colon = say["mark.colon"]
        self.parts: list[str] = []

    def text(self) -> str:
        self._verdict()
        for number, (name, write) in enumerate(
            (
                ("job", self._job),
                ("timeline", self._timeline),
                ("chain", self._chain),
                ("files", self._files),
                ("recommendations", self._recommendations),
            ),
            1,
        ):
            self.parts.append(f"## {number}. {self.say[f'section.{name}']}")
            write()
        self._store()
        self.parts.append(f"## {self.say['section.checks']}")
        self._checks()
        self.parts.append(f"## {self.say['section.rivals']}")
        self._rivals()
        return "\n\n".join(p for p in self.parts if p) + "\n"

    def bullets(self, items: Iterable[str], none: str = "") -> None:
        shown = [f"- {item}" for item in items]
        self.parts.append("\n".join(shown) or none)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.parts.append("\n".join(lines))

    def quote(self, line: Evidence) -> str:
        """A line of evidence: place, time where known, raw text."""
        stamp = "" if line.time is None else f" {phrases.when(line.time, self.say)}"
        words = in_words(line.text, self.say)
        told = f"{escape(neutral(words))}{self.colon}" if words else ""
        return f"{code(phrases.place(line))}{escape(stamp)}: {told}{code(line.text)}"

    def more(self, n: int) -> str:
        """How much of a list is not shown, and where all of it is."""
        return self.say["value.more_in"].format(n=n, where="firstfault diagnose --format json PATH")

    def _verdict(self) -> None:
        verdict, say = self.d.verdict, self.say
        self.parts.append(f"# {phrases.headline(self.d, say)}{self.colon}{escape(phrases.how_sure(self.d, say))}")
        self.parts.append(f"**{escape(verdict.summary)}**")
        classes = verdict.classes
        told: dict[str, object] = {name: getattr(classes, name) for name in classes.__struct_fields__}
        exit_code = phrases.exit_code(self.d)
        items = [
            f"{say['verdict.category']}{self.colon}{code(verdict.category)}",
            f"{say['verdict.strength']}{self.colon}{code(verdict.strength)}{say['mark.comma']}{say[f'strength.{verdict.strength}']}",
        ]
        if verdict.failed is not False:
            items.append(f"{say['label.culprit']}{self.colon}{escape(phrases.culprits(self.d, say))}")
        first = phrases.who(verdict.first_failed.ranks, verdict.first_failed.hosts, say)
        if first:
            items.append(f"{say['label.first_failed']}{self.colon}{escape(first)}")
        moments = phrases.moments(self.d, say)
        if moments:
            items.append(f"{say['label.when']}{self.colon}{escape(say['mark.and'].join(moments))}")
        if verdict.trigger is not None:
            items.append(f"{say['label.trigger']}{self.colon}{self.quote(verdict.trigger)}")
        classified = ", ".join(f"{k} {v}" for k, v in told.items() if v is not None)
        items.append(f"{say['verdict.classes']}{self.colon}{classified}")
        items.append(f"{say['verdict.action']}{self.colon}{say[f'action.{verdict.action.kind}']}")
        items.append(say["foot.exit"].format(code=exit_code, meaning=say[f"exit.{exit_code}"]).capitalize())
        items.append(say[f"redaction.{self.d.redaction}"].capitalize())
        self.bullets(items)

    def _job(self) -> None:
        items = []
        for name, fact in sorted(self.d.job.items()):
            if fact.value is None:
                continue
            proof = f" ({code(phrases.place(fact.evidence[0]))})" if fact.evidence else ""
            items.append(f"{escape(phrases.fact(name, self.say))}{self.colon}{code(str(fact.value))}{proof}")
        for attempt in self.d.attempts:
            mark = f"{self.say['mark.comma']}{self.say['attempt.this']}" if attempt.diagnosed else ""
            said = f"{self.colon}{escape(attempt.summary)}" if attempt.summary else ""
            where = "" if attempt.first_line is None else f" ({code(phrases.place(attempt.first_line))})"
            own = "".join(f"\n  - {text}" for text in self._own(attempt))
            items.append(
                f"{self.say['job.attempt'].format(n=attempt.number)}{self.colon}{self.say[f'attempt.{attempt.ended}']}{mark}{said}{where}{own}"
            )
        items += [escape(text) for text in phrases.recurrence(self.d, self.say)]
        self.bullets(items, self.say["none.job"])

    def _own(self, attempt: AttemptSummary) -> list[str]:
        """Verdict, first line and chain of an attempt, where every one was asked for."""
        verdict = attempt.verdict
        if verdict is None:
            return []
        say = self.say
        kind = f"{say['verdict.category']}{self.colon}{code(verdict.category)}"
        told = [f"{kind}{say['mark.comma']}{say['verdict.strength']}{self.colon}{code(verdict.strength)}"]
        whom = phrases.who(verdict.culprits.ranks, verdict.culprits.hosts, say)
        if whom:
            told.append(f"{say['label.culprit']}{self.colon}{escape(whom)} ({verdict.culprits.strength})")
        if verdict.trigger is not None:
            told.append(f"{say['label.trigger']}{self.colon}{self.quote(verdict.trigger)}")
        links = [escape(link.what) + f" ({code(phrases.place(link.evidence[0]))})" for link in attempt.chain]
        return [*told, f"{say['label.chain']}{self.colon}" + "; ".join(links)] if links else told

    def _timeline(self) -> None:
        clocks, apart = phrases.by_clock(self.d.timeline), phrases.clocks_apart(self.d.timeline)
        for clock, entries in clocks:
            if len(clocks) > 1:
                self.parts.append(phrases.clock_title(clock, entries, self.say, alone=not apart))
            items = []
            for entry in entries:
                if entry.left_out:
                    items.append(self.say["timeline.rows_cut"].format(n=entry.left_out))
                where = code(phrases.place(entry.evidence))
                told = escape(phrases.happened(entry, self.say))
                items.append(f"{escape(phrases.when(entry.time, self.say))} {where} {told}")
            self.bullets(items)
        if apart:
            self.parts.append(self.say["timeline.apart"])
        if not clocks:
            self.parts.append(self.say["none.timeline"])

    def _chain(self) -> None:
        items = []
        for number, link in enumerate(self.d.chain, 1):
            why = f" — {escape(link.why)}" if link.why else ""
            proof = "".join(f"\n   - {self.quote(line)}" for line in link.evidence)
            items.append(f"{number}. **{escape(link.what)}**{why}{proof}")
        self.parts.append("\n".join(items) or self.say[phrases.no_chain(self.d)])

    def _files(self) -> None:
        by_file: dict[str, dict[int, Evidence]] = {}
        best = phrases.best_lines(self.d, len(self.d.key_lines) + sum(len(link.evidence) for link in self.d.chain) + 1)
        for line in best[:LINES]:
            by_file.setdefault(line.file, {})[line.line] = line
        items = []
        for file, lines in by_file.items():
            shown = "".join(
                f"\n  - {code(f'{file}:{n}')}: {code(shorten(neutral(line.text), 200))}"
                for n, line in sorted(lines.items())
            )
            items.append(f"{code(file)}{shown}")
        if len(best) > LINES:
            items.append(told(self.more(len(best) - LINES)))
        self.bullets(items, self.say["none.files"])

    def _recommendations(self) -> None:
        action, say = self.d.verdict.action, self.say
        self.bullets([say[f"action.{action.kind}"].capitalize() + ".", *map(told, action.steps)])
        if action.exclude_hostlist:
            self.parts.append(f"{say['label.exclude']}{self.colon}{code(action.exclude_hostlist)}")
            self.parts += [code(command) for command in phrases.drain(self.d.verdict)]
        for side in SIDES:
            self.parts.append(f"### {say[f'section.{side}']}")
            self.bullets(map(told, self.d.recommendations.get(side, [])), phrases.no_advice(self.d, side, say))
        if self.d.seen_before:
            self.parts.append(f"### {say['label.seen']}")
            self.bullets(escape(phrases.seen(one, say)) for one in self.d.seen_before)
        if self.d.collect_next:
            self.parts.append(f"### {say['label.collect']}")
            self.bullets(map(told, self.d.collect_next))

    def _store(self) -> None:
        held, say = self.d.storage, self.say
        if held is None:
            return
        self.parts.append(f"## {say['section.store']}")
        proof = "".join(f"\n- {self.quote(line)}" for line in held.clock.evidence)
        self.parts.append(escape(storage.clock(held, say)) + (f"\n{proof}" if proof else ""))
        self.table(
            [say[f"table.{k}"] for k in ("daemon", "kind", "covers", "notes")],
            (
                [cell(d.name), escape(f"{d.role} {d.version}".strip()), escape(storage.coverage(d, say)),
                 escape(storage.state(d, say))]
                for d in held.daemons
            ),
        )  # fmt: skip
        self.bullets(f"{escape(storage.event(e, say))} {code(phrases.place(e.evidence))}" for e in held.events)
        if held.counters:
            head = [say[f"table.{k}"] for k in ("daemon", "counter", "before", "after", "delta", "per_second", "lines")]
            self.table(head, ([escape(c) for c in storage.counter(row, say)] for row in held.counters))

    def _checks(self) -> None:
        say, check = self.say, self.d.verification
        self.parts.append(f"### {say['check.verification']}")
        items = [say["foot.verified"].format(reread=check.reread, claims=check.claims)]
        items += [f"{code(f'{w.file}:{w.line}')}: {escape(w.why)}" for w in check.withdrawn]
        self.bullets(items)
        self.parts.append(f"### {say['check.ranks']}")
        witnesses = [f"{code(str(w.value))}: {self.quote(w.evidence[0])}" for w in self.d.ranks.witnesses if w.evidence]
        gaps = [escape(m) for m in phrases.missing(self.d, say)] or [say["value.nothing_missing"]]
        self.bullets([*gaps, *witnesses])
        self.parts.append(f"### {say['check.coverage']}")
        if self.d.coverage:
            self.table(
                [say[f"table.{k}"] for k in ("file", "state", "bytes", "reason")],
                ([cell(r.file), say[f"coverage.{r.state}"], str(r.bytes), escape(r.reason)] for r in self.d.coverage),
            )
        else:
            self.parts.append(say["none.coverage"])
        self._counts()
        self._naive()

    def _counts(self) -> None:
        if not self.d.counts:
            return
        self.parts.append(f"### {self.say['check.counts']}")
        rows = []
        for count in self.d.counts:
            files = phrases.counts(count.files, self.say, most=FILES, write=cell)
            ranks = phrases.counts(count.ranks, self.say, most=RANKS, write=escape)
            rows.append([escape(count.title), str(count.total), files, ranks])
        self.table([self.say[f"table.{k}"] for k in ("kind", "total", "files", "ranks")], rows)
        if any(len(count.files) > FILES or len(count.ranks) > RANKS for count in self.d.counts):
            self.parts.append(told(self.say["value.rest_in_json"]))

    def _naive(self) -> None:
        if not self.d.naive:
            return
        self.parts.append(f"### {self.say['check.naive']}")
        items = []
        for reading in self.d.naive:
            name = self.say.get(f"naive.{reading.reading}", reading.reading.replace("_", " "))
            lines = [self.quote(line) for line in reading.evidence[:NAIVE]]
            if len(reading.evidence) > NAIVE:
                lines.append(told(self.more(len(reading.evidence) - NAIVE)))
            proof = "".join(f"\n  - {line}" for line in lines)
            items.append(f"{escape(name)}{self.colon}{escape(reading.says)} — {escape(reading.dropped_because)}{proof}")
        self.bullets(items)

    def _rivals(self) -> None:
        for rival in self.d.rivals:
            self.parts.append(f"### {self.say[f'category.{rival.category}'].capitalize()} ({rival.strength})")
            items = []
            for key, sentences in (("for", rival.supports), ("against", rival.against), ("settled", rival.settled_by)):
                items += [f"{self.say[f'rival.{key}']}{self.colon}{told(s)}" for s in sentences]
            self.bullets(items)
        if not self.d.rivals:
            self.parts.append(self.say["none.rivals"])
