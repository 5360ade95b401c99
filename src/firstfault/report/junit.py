"""The JUnit format: one case a check, so that a build server shows a diagnosis as it shows tests.

Must not infer anything. The verdict is one check; every attempt, input and what is verified is one more. A build server
follows a case by its name, so that names hold no count, no outcome and are English in every language.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

from firstfault.i18n import messages
from firstfault.model.lazy import lazy
from firstfault.model.words import CoverageState
from firstfault.report import phrases
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.diagnosis import Diagnosis
    from firstfault.redact import Redacted

_NO_XML = lazy("[\ufffe\uffff]")
HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
INPUTS = 2000
"""Inputs that have a case of their own; those that were not wholly read come first."""
_NAMES = messages("en")
VERDICT = _NAMES["head.none"].capitalize()
READ_BACK = "Every cited line was read again"
COMPLETE = _NAMES["check.ranks"]
REST = "Further inputs"


def render_junit(safe: Redacted[Diagnosis], *, language: str = "en") -> str:
    """The diagnosis as one JUnit suite.

    Args:
        safe: what went through the door.
        language: of the fixed words.

    Returns:
        XML of UTF-8, ending in a newline. A failure of the job is a failed case, what is not decidable an error, an
        input that was not read a skipped case.
    """
    suite = _Suite(localised(safe, language).content, messages(language))
    return suite.text()


class _Fault(NamedTuple):
    """Why a case did not pass."""

    result: Literal["failure", "error", "skipped"]
    kind: str
    message: str
    lines: Sequence[str] = ()


class _Suite:
    """The cases of one diagnosis, with their counts."""

    def __init__(self, diagnosis: Diagnosis, say: Mapping[str, str]) -> None:
        self.d = diagnosis
        self.say = say
        self.cases: list[str] = []
        self.counts = {"failure": 0, "error": 0, "skipped": 0}

    def text(self) -> str:
        self._verdict()
        self._checks()
        self._attempts()
        rows = self.d.coverage
        shown = rows if len(rows) <= INPUTS else sorted(rows, key=lambda r: r.state is CoverageState.READ)[:INPUTS]
        for row in shown:
            self._input(row.file, row.state, row.reason)
        self._rest(len(rows) - len(shown))
        tests = (
            f'tests="{len(self.cases)}" failures="{self.counts["failure"]}" errors="{self.counts["error"]}" '
            f'skipped="{self.counts["skipped"]}"'
        )
        return "\n".join(
            [
                HEAD,
                f'<testsuites name="firstfault" {tests}>',
                f'<testsuite name="firstfault" {tests}>',
                f'<properties><property name="redaction" value="{xml_text(self.d.redaction)}"/></properties>',
                *self.cases,
                "</testsuite>",
                "</testsuites>",
                "",
            ]
        )

    def _case(self, group: str, name: str, fault: _Fault | None = None) -> None:
        start = f'<testcase classname="firstfault.{group}" name="{xml_text(name)}"'
        if fault is None:
            self.cases.append(f"{start}/>")
            return
        self.counts[fault.result] += 1
        typed = f' type="{xml_text(fault.kind)}"' if fault.kind else ""
        body = "\n".join(map(neutral, fault.lines))
        told = f'<{fault.result}{typed} message="{xml_text(fault.message)}">{xml_text(body, keep=chr(10))}</{fault.result}>'
        self.cases.append(f"{start}>{told}</testcase>")

    def _verdict(self) -> None:
        d, say = self.d, self.say
        verdict = d.verdict
        if verdict.failed is False:
            self._case("verdict", VERDICT)
            return
        lines = [f"{phrases.headline(d, say)}: {phrases.how_sure(d, say)}", verdict.summary]
        lines.append(f"{say['label.culprit']}: {phrases.culprits(d, say)}")
        lines += [f"{phrases.place(line)}: {line.text}" for line in phrases.best_lines(d, 3)]
        lines += [f"{say['label.todo']}: {step}" for step in verdict.action.steps]
        result: Literal["failure", "error"] = "error" if verdict.failed is None else "failure"
        self._case("verdict", VERDICT, _Fault(result, str(verdict.category), verdict.summary, lines))

    def _checks(self) -> None:
        d, say = self.d, self.say
        check = d.verification
        gone = [f"{w.file}:{w.line}: {w.why}" for w in check.withdrawn]
        lost = _Fault("failure", "withdrawn", say["foot.withdrawn"].format(n=len(gone)), gone)
        self._case("verification", READ_BACK, lost if gone else None)
        ranks = d.ranks
        short = bool(ranks.silent or ranks.missing_files) or (ranks.expected or 0) > ranks.seen
        gaps = phrases.missing(d, say)
        message = "; ".join(gaps) or say["value.nothing_missing"]
        self._case("completeness", COMPLETE, _Fault("failure", "missing", message) if short else None)

    def _attempts(self) -> None:
        for attempt in self.d.attempts if len(self.d.attempts) > 1 else []:
            bad = attempt.ended == "failed"
            fault = _Fault("failure", str(attempt.category), attempt.summary) if bad else None
            self._case("attempts", f"Attempt {attempt.number}", fault)

    def _rest(self, left: int) -> None:
        """Says how many inputs have no case; the case's name holds no count, so that it is the same in every run."""
        if left:
            more = self.say["value.more_in"].format(n=left, where="firstfault PATH --format json")
            self.cases.append(
                f'<testcase classname="firstfault.inputs" name="{xml_text(REST)}">'
                f"<system-out>{xml_text(more)}</system-out></testcase>"
            )

    def _input(self, file: str, state: CoverageState, reason: str) -> None:
        if state is CoverageState.READ:
            self._case("inputs", file)
        elif state is CoverageState.SKIPPED:
            self._case("inputs", file, _Fault("skipped", "", reason))
        else:
            self._case("inputs", file, _Fault("failure", str(state), reason))


class Check(NamedTuple):
    """One check of a list: what it is called in every run, how it ended, and what is told of it."""

    group: str
    name: str
    state: str
    """`ok`, `warn`, `fail` or `not_checkable`."""
    kind: str
    """What a failure is of."""
    seen: str
    body: str


def suite_of(name: str, checks: Iterable[Check], redaction: str) -> str:
    """Checks as one JUnit suite: a warning passes and says so, what cannot be checked is skipped; ends in a newline."""
    counts = {"fail": 0, "not_checkable": 0}
    cases = []
    for one in checks:
        start = f'<testcase classname="{xml_text(f"{name}.{one.group}")}" name="{xml_text(one.name)}"'
        told = f'message="{xml_text(one.seen)}"'
        body = xml_text(one.body if one.state in {"fail", "warn"} else neutral(one.seen), keep=chr(10))
        if one.state == "fail":
            inner = f'<failure type="{xml_text(one.kind)}" {told}>{body}</failure>'
        else:
            inner = f"<skipped {told}/>" if one.state == "not_checkable" else f"<system-out>{body}</system-out>"
        counts[one.state] = counts.get(one.state, 0) + 1
        cases.append(f"{start}>{inner}</testcase>")
    tests = f'tests="{len(cases)}" failures="{counts["fail"]}" errors="0" skipped="{counts["not_checkable"]}"'
    return "\n".join(
        [
            HEAD,
            f'<testsuites name="firstfault" {tests}>',
            f'<testsuite name="{xml_text(name)}" {tests}>',
            f'<properties><property name="redaction" value="{xml_text(redaction)}"/></properties>',
            *cases,
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def xml_text(text: str, *, keep: str = "") -> str:
    r"""Text in which nothing is markup and that XML can hold; what it cannot hold is spelt out."""
    spelt = _NO_XML.sub(lambda m: f"\\u{ord(m.group()):04x}", neutral(text, keep=keep))
    return escape(spelt, quote=True)
