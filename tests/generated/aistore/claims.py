"""Holds every claim that a report makes about the store against what makes it checkable: daemon, file, line, and both clocks.

It renders the diagnosis as text, Markdown and JSON and reads these as a reader would; what is right is not asked here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from firstfault.pipelines.publish import publish
from firstfault.report.markdown import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.diagnosis import Diagnosis

BOTH = re.compile(
    r"\d\d:\d\d:\d\d(?: (?:UTC|[+-]\d\d:\d\d))? \((?:[\d-]+[ T])?\d\d:\d\d:\d\d(?: (?:UTC|[+-]\d\d:\d\d))? on the job's clock\)"
)
ANY = re.compile(r"\b\d\d:\d\d:\d\d\b")
ABOUT = re.compile(r"^Storage (?:target|proxy) \S")


def bare(diagnosis: Diagnosis) -> str:
    """The first claim that lacks something; empty where none does."""
    if diagnosis.storage is None:
        return ""
    joined = diagnosis.storage.clock.offset_seconds is not None
    document = json.loads(publish(diagnosis, "json", "secrets"))
    shown = {"text": publish(diagnosis, "text", "secrets"), "markdown": publish(diagnosis, "markdown", "secrets")}
    problems = (*_json(document, joined=joined), *_rendered(document, shown))
    return next(iter(problems), "")


def _json(document: dict[str, Any], *, joined: bool) -> Iterator[str]:
    for event in document["storage"].get("events", []):
        yield from _placed(event["what"], event["daemon"], [event["evidence"]])
        if joined and not (event.get("job_time") or {}).get("earliest"):
            yield f"{event['daemon']}, {event['what']}: its time on the job's clock is missing"
    for counter in document["storage"].get("counters", []):
        yield from _placed(counter["counter"], counter["daemon"], counter.get("evidence", []))
        if joined and len(counter.get("job_times", [])) != len(counter["evidence"]):
            yield f"{counter['daemon']}, {counter['counter']}: times on the job's clock are missing"
    for daemon in document["storage"].get("daemons", []):
        for said in (*daemon.get("alerts", []), *daemon.get("holes", [])):
            yield from _told(said, joined=joined)
        for restart in daemon.get("restarts", []):
            yield from _placed("restart", daemon["name"], [restart])
    for link in document["chain"]:
        if ABOUT.match(link["what"]):
            yield from _placed(link["what"], link["what"].split()[2], link["evidence"])
            yield from _told(link["what"], joined=joined)
    if ABOUT.match(document["verdict"]["summary"]):
        yield from _told(document["verdict"]["summary"], joined=joined)
    for rival in document["rivals"]:
        for said in rival["supports"]:
            if ABOUT.match(said):
                yield from _told(said, joined=joined)


def _placed(what: str, daemon: str, lines: list[dict[str, Any]]) -> Iterator[str]:
    if not daemon:
        yield f"{what}: no daemon"
    if not lines:
        yield f"{what}: no line"
    for line in lines:
        if not line["file"] or line["line"] < 1 or not line["text"]:
            yield f"{what}: no file and line"
        if not line.get("time", {}).get("earliest"):
            yield f"{what}: {line['file']}:{line['line']} has no time"


def _told(said: str, *, joined: bool) -> Iterator[str]:
    if not ANY.search(said):
        yield f"no time: {said}"
    if joined and ANY.search(BOTH.sub("", said)):
        yield f"a time on one clock only: {said}"


def _rendered(document: dict[str, Any], shown: dict[str, str]) -> Iterator[str]:
    markdown, text = _joined(shown["markdown"]), _joined(shown["text"])
    for event in document["storage"].get("events", []):
        line = event["evidence"]
        wanted = (event["daemon"], f"{line['file']}:{line['line']}", line["time"]["earliest"])
        job = (event.get("job_time") or {}).get("earliest")
        for part in (*wanted, *([job] if job else [])):
            if _joined(escape(part)) not in markdown and _joined(part) not in markdown:
                yield f"Markdown does not hold {part!r} of {event['what']}"
    links = [link for link in document["chain"] if ABOUT.match(link["what"])]
    for link in links:
        place = f"{link['evidence'][0]['file']}:{link['evidence'][0]['line']}"
        if _joined(place) not in markdown:
            yield f"Markdown does not hold {place} of {link['what']}"
    for link in links[:1]:
        place = f"{link['evidence'][0]['file']}:{link['evidence'][0]['line']}"
        for part in (link["what"], place):
            if _joined(part) not in text:
                yield f"the text does not hold {part!r}"


def _joined(text: str) -> str:
    """Without blanks and line breaks, which wrapping moves."""
    return re.sub(r"\s+", "", text)
