"""The HTML format: one file that opens from disk, without any network; five fixed sections, then checks and rivals.

Must not infer anything. Every text is made neutral and escaped by the template's environment, the data of the pictures stand
as JSON in a block that no browser runs, and a content-security policy lets nothing run but the one packaged script.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.analysis.wording import size_text
from firstfault.i18n import messages
from firstfault.model.lazy import lazy
from firstfault.report import page_data, phrases, storage
from firstfault.report.localise import localised
from firstfault.report.markdown import SIDES
from firstfault.report.neutral import neutral, shorten
from firstfault.report.text import columns
from firstfault.report.told import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jinja2 import Environment

    from firstfault.model.diagnosis import Diagnosis, Evidence, TimelineEntry
    from firstfault.model.page import Page
    from firstfault.model.plots import Plot
    from firstfault.redact import Redacted

_BOTH_ENDS = lazy(r"^(\S+)T(\d\d:\d\d:\d\d)\S* \.\. \1T(\d\d:\d\d:\d\d)(?:\.\d+)?")
_STAMP = lazy(r"(?<=\d)T(?=\d\d:)")
_END = lazy(r"(?<=[a-z0-9)\]][.!?])\s+(?=[A-Z])|(?<=。)(?=.)")
_BREAKS_OUT = lazy("[<>&\u2028\u2029]")
HEADLINE = 170
"""Columns up to which a summary is one headline; a Chinese character takes two."""
LINE = 400
"""Characters of a line around the evidence that are shown."""
MOST = {
    "steps": 4,
    "readings": 6,
    "groups": 60,
    "places": 40,
    "devices": 8,
    "drawn": page_data.SNAPSHOTS,
    "courses": 64,
    "unread": 200,
    "inputs": 3000,
    "files": 6,
    "ranks": 16,
}
"""Rows of each list that are shown; of what is cut the page says how many, and which command shows all."""
MOST_STACKS = 300
"""Frames of the tree of stacks that are shown."""

MOST_EVENTS = 12
"""Events of storage daemons that are shown at once; the rest is folded."""


def render_html(safe: Redacted[Page], *, language: str = "en") -> str:
    """The whole page.

    Args:
        safe: what went through the door.
        language: of the fixed words.

    Returns:
        One HTML document with its style, script and data inside, ending in a newline.
    """
    say = messages(language)
    page = localised(safe, language).content
    style, script = asset("report.css"), asset("report.js")
    d = page.diagnosis
    files, further = page_data.files_of(page)
    return _environment().get_template("report.html.j2").render(
        page=page,
        d=d,
        say=say,
        language=language,
        redaction=page.redaction,
        version=metadata.version("firstfault"),
        policy=_policy(style, script),
        style=_trusted(style),
        script=_trusted(script),
        data=_trusted(embedded(page_data.data_of(page, say))),
        words=_Words(d, say),
        files=files,
        further=further,
        clocks=phrases.by_clock(d.timeline),
        sides=SIDES,
        line_limit=LINE,
        stack_limit=MOST_STACKS,
        store_limit=MOST_EVENTS,
        limit=MOST,
    )  # fmt: skip


def asset(name: str) -> str:
    """A file of the packaged script and style, as `web/` built it."""
    return resources.files("firstfault.report").joinpath("assets").joinpath(name).read_text(encoding="utf-8")


def embedded(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or a line."""
    text = msgspec.json.encode(value, order="deterministic").decode("utf-8")
    return _BREAKS_OUT.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def _policy(style: str, script: str) -> str:
    """What the browser may do: run this script, use this style, and nothing else; it may fetch nothing."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _trusted(text: str) -> Any:
    """Text of our own (or JSON that was made harmless), which goes into the page as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - packaged files, and JSON that cannot leave its element


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("firstfault.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_spelt,
    )
    made.filters["short"] = lambda text, limit: shorten(neutral(text), limit)
    made.filters["spaced"] = lambda text: _STAMP.sub(" ", text)
    made.filters["told"] = _told
    made.filters["opening"] = phrases.opening
    return made


def _told(sentence: str) -> Any:
    """A sentence of advice, its commands as code."""
    from markupsafe import Markup

    code, plain = Markup("<code>{}</code>"), Markup("{}")
    return Markup("").join((code if p.command else plain).format(neutral(p.text)) for p in parts_of(sentence))


def _spelt(value: object) -> object:
    """Every text without control and invisible characters; markup of our own stays as it is."""
    return neutral(value) if type(value) is str else value


class _Words:
    """The phrases of one diagnosis, for the template."""

    def __init__(self, diagnosis: Diagnosis, say: Mapping[str, str]) -> None:
        self._d = diagnosis
        self._say = say
        self.claim, self.rest = _sentences(diagnosis.verdict.summary)
        self.headline = phrases.headline(diagnosis, say)
        self.sure = phrases.how_sure(diagnosis, say)
        self.culprits = phrases.culprits(diagnosis, say)
        self.first_failed = phrases.who(diagnosis.verdict.first_failed.ranks, diagnosis.verdict.first_failed.hosts, say)
        self.moments = phrases.moments(diagnosis, say)
        self.missing = phrases.missing(diagnosis, say)
        self.recurrence = phrases.recurrence(diagnosis, say)
        self.seen_before = [phrases.seen(one, say) for one in diagnosis.seen_before]
        self.exit_code = phrases.exit_code(diagnosis)
        self.drain = phrases.drain(diagnosis.verdict)
        self.kind = _kind(diagnosis)
        self.no_chain = phrases.no_chain(diagnosis)
        self.apart = phrases.clocks_apart(diagnosis.timeline)

    def when(self, time: Any) -> str:
        """A time as text, its day and its time of day apart; of an interval the day once, and both ends in whole seconds."""
        return _STAMP.sub(" ", _BOTH_ENDS.sub(r"\1T\2 .. \3", phrases.when(time, self._say)))

    def at(self, line: Evidence) -> str:
        """The time of a line; where its own clock is another one than the job's, the time there too."""
        own, there = self.when(line.time), phrases.job_time(self._d, line)
        if there is None or there == line.time:
            return own
        return f"{own} {self._say['time.on_job'].format(time=self.when(there))}"

    def who(self, ranks: list[int], hosts: list[str]) -> str:
        """Ranks and hosts in words."""
        return phrases.who(ranks, hosts, self._say)

    def clock(self, number: int | None, entries: Sequence[TimelineEntry]) -> str:
        """What the rows of one clock are called."""
        return phrases.clock_title(number, entries, self._say, alone=not self.apart)

    def happened(self, entry: TimelineEntry) -> str:
        """A row of the timeline without its time and place."""
        return phrases.happened(entry, self._say)

    def anchor(self, line: Evidence) -> str:
        """Name of the place of a line on the page."""
        return page_data.anchor(line.file, line.line)

    def place(self, line: Evidence) -> str:
        """`file:line`."""
        return phrases.place(line)

    def store(self, name: str, row: Any) -> Any:
        """The storage side in words; name: a function of `firstfault.report.storage`."""
        return _STAMP.sub(" ", getattr(storage, name)(row, self._say))

    def runs(self, numbers: Iterable[int]) -> str:
        """Numbers as runs."""
        return phrases.runs(numbers, self._say)

    def no_advice(self, side: str) -> str:
        """What it means that a side has no advice."""
        return phrases.no_advice(self._d, side, self._say)

    def fact(self, name: str) -> str:
        """What a fact of the job is called."""
        return phrases.fact(name, self._say)

    def range(self, plot: Plot) -> str:
        """Lowest and highest value of a plot, and of how many ranks or GPUs."""
        if plot.low is None or plot.high is None:
            return self._say["page.plot_no_number"]
        unit = f" {plot.unit}" if plot.unit else ""
        text = self._say["page.plot_range"].format(low=f"{plot.low:.5g}", high=f"{plot.high:.5g}{unit}")
        if plot.courses < 2:
            return text
        of = "page.plot_gpus" if plot.column.startswith("gpu_") else "page.plot_courses"
        return f"{text}{self._say['mark.comma']}{self._say[of].format(n=plot.courses)}"

    def plot(self, plot: Plot, name: str) -> str:
        """A plot in one sentence, for those who do not see it."""
        bad = [mark for mark in plot.marks if not mark.planned]
        text = self._say["page.plot_label"].format(name=name, range=self.range(plot))
        return text + " " + (bad[0].text if bad else self._say["page.plot_calm"])

    def size(self, count: int) -> str:
        """Bytes for people."""
        return size_text(count).replace(" bytes", self._say["page.bytes"])

    def counts(self, by: Mapping[str, int], most: int) -> str:
        """Counts by rank or file; of those beyond `most` only how many there are."""
        return phrases.counts(by, self._say, most=most)

    def names(self, items: Sequence[str], most: int) -> str:
        """Names with commas; of those beyond `most` only how many there are."""
        return phrases.names(items, self._say, most=most)

    def counted_short(self, most: Mapping[str, int]) -> bool:
        """Whether the table of counts leaves out some rank or file."""
        return any(len(c.files) > most["files"] or len(c.ranks) > most["ranks"] for c in self._d.counts)

    def lines(self, n: int) -> str:
        """A number of lines."""
        return self._say["page.line" if n == 1 else "page.lines"].format(n=n)

    def files(self, n: int) -> str:
        """A number of files."""
        return self._say["page.file" if n == 1 else "page.files"].format(n=n)

    def more(self, n: int, command: str) -> str:
        """How much of a list is not shown, and the command that shows all of it."""
        return self._say["value.more_in"].format(n=n, where=f"firstfault {command} PATH")


def _sentences(summary: str) -> tuple[str, str]:
    """The first sentence, which is the headline, and the rest; all of a short summary is the headline."""
    end = _END.search(summary) if columns(summary) > HEADLINE else None
    return (summary, "") if end is None else (summary[: end.start()], summary[end.end() :])


def _kind(diagnosis: Diagnosis) -> str:
    failed = diagnosis.verdict.failed
    return "fine" if failed is False else "open" if failed is None or diagnosis.verdict.category == "unknown" else "bad"
