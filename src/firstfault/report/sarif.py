"""The SARIF 2.1.0 format: the verdict as one result with its chain as a code flow, rivals as results to review.

Must not infer anything. Columns are left out: ours count bytes, those of SARIF characters.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from firstfault.i18n import messages
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, CoverageState, Strength
from firstfault.report import phrases
from firstfault.report.json import neutral_json
from firstfault.report.localise import localised
from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.model.diagnosis import CoverageRow, Diagnosis, Evidence, RivalSummary
    from firstfault.redact import Redacted

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
_DIGITS = lazy(r"\d+")
Json = dict[str, Any]


def render_sarif(safe: Redacted[Diagnosis], *, language: str = "en") -> str:
    """The diagnosis as a SARIF log of one run.

    Args:
        safe: what went through the door.
        language: of the fixed words.

    Returns:
        UTF-8 text, ending in a newline. A failure is a result of kind `fail`, a run without one of kind `pass`, and
        what is not decidable of kind `open`.
    """
    d, say = localised(safe, language).content, messages(language)
    rivals = [_rival(r, d, say) for r in d.rivals]
    results = [_verdict(d, say), *rivals]
    rules = list(dict.fromkeys(r["ruleId"] for r in results))
    for result in results:
        result["ruleIndex"] = rules.index(result["ruleId"])
    run = {
        "tool": {
            "driver": {
                "name": "firstfault",
                "version": metadata.version("firstfault"),
                "rules": [_rule(name, say) for name in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": phrases.exit_code(d) != 2,
                "toolExecutionNotifications": [_unread(r) for r in d.coverage if r.state is not CoverageState.READ],
            }
        ],
        "artifacts": [{"location": _file(r.file), "length": r.bytes} for r in d.coverage],
        "results": results,
        "properties": {"redaction": d.redaction, "exitCode": phrases.exit_code(d)},
    }
    log = {"$schema": SCHEMA, "version": VERSION, "runs": [run]}
    return neutral_json(msgspec.json.encode(log)) + "\n"


def _verdict(d: Diagnosis, say: Mapping[str, str]) -> Json:
    verdict = d.verdict
    kind, level = _weight(d)
    lines = [] if verdict.trigger is None else [verdict.trigger]
    named = phrases.culprits(d, say)
    result: Json = {
        "ruleId": f"first-fault/{verdict.category}",
        "kind": kind,
        "level": level,
        "message": {"text": neutral(f"{verdict.summary} {say['label.culprit']}: {named}.")},
        "locations": [_location(line) for line in lines] or _anywhere(d),
        "relatedLocations": [_location(e, number) for number, e in enumerate(phrases.best_lines(d, 20), 1)],
        "properties": {
            "strength": str(verdict.strength),
            "culprits": msgspec.to_builtins(verdict.culprits),
            "firstFailed": msgspec.to_builtins(verdict.first_failed),
            "action": str(verdict.action.kind),
            "steps": [neutral(step) for step in verdict.action.steps],
        },
    }
    flow = [
        _step(line, f"{link.what}: {link.why}" if link.why else link.what) for link in d.chain for line in link.evidence
    ]
    if flow:
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if verdict.trigger is not None:
        print_of = f"{verdict.category}|{_DIGITS.sub('#', verdict.trigger.text)}"
        result["partialFingerprints"] = {"firstFault/v1": hashlib.sha256(print_of.encode("utf-8")).hexdigest()}
    return result


def _weight(d: Diagnosis) -> tuple[str, str]:
    """Kind and level of the result; only a failure has a level."""
    verdict = d.verdict
    if verdict.failed is not True:
        return ("pass" if verdict.failed is False else "open", "none")
    sure = verdict.strength in {Strength.ESTABLISHED, Strength.SUPPORTED} and verdict.category is not Category.UNKNOWN
    return ("fail", "error" if sure else "warning")


def _rival(rival: RivalSummary, d: Diagnosis, say: Mapping[str, str]) -> Json:
    parts = [f"{say[f'category.{rival.category}']} ({rival.strength})"]
    for key, sentences in (("for", rival.supports), ("against", rival.against), ("settled", rival.settled_by)):
        if sentences:
            parts.append(f"{say[f'rival.{key}']}{say['mark.colon']}{say['mark.and'].join(sentences)}")
    return {
        "ruleId": f"rival/{rival.category}",
        "kind": "review",
        "level": "none",
        "message": {"text": neutral(". ".join(parts))},
        "locations": _anywhere(d),
    }


def _rule(name: str, say: Mapping[str, str]) -> Json:
    group, _, category = name.partition("/")
    title = say["section.rivals"] if group == "rival" else say["label.trigger"]
    return {
        "id": name,
        "shortDescription": {"text": f"{title}: {say[f'category.{category}']}"},
        "defaultConfiguration": {"level": "none" if group == "rival" or category == "none" else "error"},
    }


def _unread(row: CoverageRow) -> Json:
    return {
        "level": "warning",
        "message": {"text": neutral(f"{row.file}: {row.state}" + (f", {row.reason}" if row.reason else ""))},
        "locations": [{"physicalLocation": {"artifactLocation": _file(row.file)}}],
    }


def _anywhere(d: Diagnosis) -> list[Json]:
    """A first location for what no line shows: viewers leave a result without one out."""
    lines: Iterable[Evidence] = phrases.best_lines(d, 1)
    found = [_location(line) for line in lines]
    return found or [{"physicalLocation": {"artifactLocation": _file(row.file)}} for row in d.coverage[:1]]


def _step(line: Evidence, what: str) -> Json:
    return {"location": {**_location(line), "message": {"text": neutral(what)}}}


def _location(line: Evidence, number: int | None = None) -> Json:
    place: Json = {
        "physicalLocation": {
            "artifactLocation": _file(line.file),
            "region": {"startLine": line.line, "snippet": {"text": neutral(line.text)}},
        }
    }
    return place if number is None else {"id": number, **place, "message": {"text": neutral(phrases.place(line))}}


def _file(file: str) -> Json:
    """A path as a reference that no part of it can turn into an address."""
    return {"uri": quote(file.encode("utf-8", "backslashreplace"), safe="/"), "uriBaseId": "%SRCROOT%"}
