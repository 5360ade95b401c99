"""Records as one Markdown page or one HTML page. Must not judge them, and lets no text of theirs become markup of the page.

A record's own Markdown is a team's reviewed text: it stands in the Markdown page as it is, and in the HTML page as text.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from firstfault.incidents.fences import with_code
from firstfault.incidents.lint import is_verified
from firstfault.incidents.words import HEADINGS, Section, State
from firstfault.report.markdown import cell, code, escape
from firstfault.report.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.incidents.record import Record

_HEADING = re.compile(r"^(#{1,4})(?=[ \t])")
_LINKS = {"fix_links": "Where the fix was made", "verifications": "Re-runs and checks"}
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;width:100%}td,th{border:1px solid #ccc;padding:.3rem .5rem;text-align:left;vertical-align:top}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem}article{border-top:2px solid #888;margin-top:2rem}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#222}td,th{border-color:#444}a{color:#8ab4f8}}"""


def render_page(records: Sequence[Record]) -> str:
    """All records on one Markdown page: a table, then each with its headings one level deeper."""
    lines = ["# Incidents", "", "| id | state | date | title |", "|---|---|---|---|"]
    lines += [
        f"| {cell(r.id)} | {_stated(r)} | {cell(r.one('date') or '-')} | {escape(r.title).replace('|', '&#124;')} |"
        for r in records
    ]
    parts = ["\n".join(lines)]
    for record in records:
        said = [f"## {escape(record.id)}: {escape(record.title)}", f"State: {_stated(record)}."]
        said += [f"{label}:\n\n" + "\n".join(f"- {code(item)}" for item in items) for label, items in _links(record)]
        for section in Section:
            text = record.sections.get(section, "")
            if text:
                said.append(f"### {HEADINGS[_language(record)][section]}\n\n{_deeper(text)}")
        said += [_deeper(record.own, by=1)] if record.own else []
        parts.append("\n\n".join(said))
    return neutral("\n\n".join(parts), keep="\n") + "\n"


def render_html(records: Sequence[Record]) -> str:
    """All records on one HTML page that loads nothing: a table with links, then each record as text."""
    rows = "".join(
        f"<tr><td><a href='#{_e(r.id)}'>{_e(r.id)}</a></td><td>{_e(_stated(r))}</td><td>{_e(r.one('date'))}</td>"
        f"<td>{_e(r.title)}</td><td>{_e(', '.join(r.all('signatures')[:2]))}</td></tr>\n"
        for r in records
    )
    articles = "".join(_article(record) for record in records)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>Incidents</title>\n"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<meta name='viewport' content='width=device-width,initial-scale=1'><style>{_STYLE}</style></head>\n"
        f"<body><h1>Incidents</h1><p>{len(records)} records.</p>\n"
        "<table><thead><tr><th>id</th><th>state</th><th>date</th><th>title</th><th>signatures</th></tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>\n{articles}</body></html>\n"
    )


def _article(record: Record) -> str:
    parts = [
        f"<article id='{_e(record.id)}' lang='{_language(record)}'><h2>{_e(record.id)}: {_e(record.title)}</h2><p>{_e(_stated(record))}</p>"
    ]
    for label, items in _links(record):
        parts.append(f"<p>{label}:</p><ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>")
    for section in Section:
        text = record.sections.get(section, "")
        if text:
            parts.append(f"<h3>{_e(HEADINGS[_language(record)][section])}</h3><pre>{_e(text)}</pre>")
    parts += [f"<pre>{_e(record.own)}</pre>"] if record.own else []
    return "\n".join(parts) + "</article>\n"


def _links(record: Record) -> list[tuple[str, tuple[str, ...]]]:
    """What its head links for its fix and for what shows that it holds."""
    return [(label, items) for key, label in _LINKS.items() if (items := record.all(key))]


def _stated(record: Record) -> str:
    """Its state; of one that says verified and does not show it, that too."""
    unshown = record.state is State.VERIFIED and not is_verified(record)
    return f"{record.state} (not shown)" if unshown else str(record.state)


def _language(record: Record) -> str:
    told = record.one("language")
    return told if told in HEADINGS else "en"


def _deeper(text: str, by: int = 2) -> str:
    """The text with its headings some levels deeper; what looks like one inside code is none."""
    lines = with_code(text.split("\n"))
    return "\n".join(
        line if inside else _HEADING.sub(lambda m: m[1] + "#" * by, line, count=1) for line, inside in lines
    )


def _e(text: str) -> str:
    return html.escape(neutral(text, keep="\n"), quote=True)
