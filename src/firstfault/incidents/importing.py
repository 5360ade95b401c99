"""Turns notes that people kept, one Markdown page with many errors, into records. English or Chinese.

Each heading begins an incident where it is followed by the parts of one; parts are sub-headings, labels (`**Cause**: …`,
`- 原因：…`) or the columns of a table. What is imported claims no more than the notes show: a fix without a verification
that names a command, a commit or a run stays `open` with guesses marked. Must not invent a part that is not there.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from firstfault.incidents.fences import with_code
from firstfault.incidents.frontmatter import Value, write_entry
from firstfault.incidents.words import ALIASES, HEADINGS, SCHEMA, Section, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Key = TypeVar("_Key", bound=str)
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t#]*$")
_LABEL = re.compile(
    r"[ \t]*(?:[-*+][ \t]+|\d+[.)、][ \t]*)?(?:\*\*|__)?[ \t]*([^:：*_|`\n]{1,24}?)[ \t]*(?:\*\*|__)?[ \t]*[:：][ \t]*(?:\*\*|__)?[ \t]*(.*)$"
)
_BOLD = re.compile(r"[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)[ \t]*([^:：*_|`\n]{1,24}?)[ \t]*(?:\*\*|__)[\s\u3000]+(\S.*)$")
"""A label in bold with no colon behind it."""
_BRACKETED = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?(?:\*\*)?(?:【|\[(?=[^\]\n]{0,24}[㐀-鿿]))[ \t]*([^】\]\n]{1,24}?)[ \t]*[】\]](?:\*\*)?[ \t]*[:：]?[ \t]*(.*)$"
)
"""A label in brackets, as Chinese notes have it; `[error]` is a level of a log."""
_ALONE = re.compile(
    r"[ \t]*(?:(\d+[.)、])[ \t]*|[-*+][ \t]+)?(\*\*|__)?[ \t]*([^:：*_|`\n]{1,24}?)[ \t]*(?:\*\*|__)?[ \t]*$"
)
"""A label that has a line to itself: in bold, with a number, or followed by a line that begins with a colon."""
_TOLD = re.compile(r"[ \t]{0,3}[:：][ \t]+(.*)$")
_QUOTE = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
_UNDERLINE = re.compile(r"(?:-{3,}|={3,})[ \t]*")
_ROW = re.compile(r"[ \t]*\|(.*)\|[ \t]*$")
_RULE = re.compile(r"[ \t:|-]+$")
_DATE = re.compile(r"(?<!\d)(20\d\d)[-/.年](\d{1,2})[-/.月](\d{1,2})日?(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED_DAY = re.compile(
    rf"\b(?:(?P<a>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.? (?P<d>[0-3]?\d)(?:st|nd|rd|th)?|(?P<e>[0-3]?\d)(?:st|nd|rd|th)?[ -]"
    rf"(?P<b>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?),?[ -](?P<y>20\d\d)\b",
    re.IGNORECASE,
)
_ID = re.compile(r"^[\[（(]?([A-Z]{1,6}[-_]?\d{1,6})[\]）)]?[ \t]*[:：.、—–-]*[ \t]*")
_NUMBERED = re.compile(r"^(?:\d{1,3}[.)、](?!\d)|[一二三四五六七八九十]{1,3}、)[ \t]*")
"""The number of a heading among others; one with a title behind it."""
_DATED = re.compile(r"^[\[【(（]?20\d\d[-/.年]\d{1,2}[-/.月]\d{1,2}(?!\d)日?[\]】)）]?[ \t]*[:：—–-]*[ \t]*(?=\S)")
"""The date of a heading: it has a key of its own."""
_HAN = re.compile("[㐀-鿿]")
_NOTED_HOST = re.compile(
    r"(?:主机|节点|机器|服务器|\b(?:[Hh]ost(?:name)?|[Nn]ode|[Mm]achine|[Ss]erver)s?)[ \t]*[:：=]?[ \t]*[`*\"“]?"
    r"(?P<name>(?=[\w.-]*[A-Za-z])(?=[\w.-]*\d)[A-Za-z0-9][\w.-]{2,62})(?=\W|$)",
    re.ASCII,
)
"""A name with letters and digits behind the word for a machine: where people write notes no log's own form tells it."""
_MACHINE_NAME = re.compile(
    r"(?<![\w./-])(?P<name>(?:gpu-?[a-z]{1,8}-?\d{1,5}|gpu-?\d{3,5}|(?:node|dgx|hgx|host|compute|cn|srv|server|login)[a-z]{0,4}-?\d{2,5})(?:-[a-z]{0,3}\d{1,4})*(?:\.[a-z][\w-]+)*)(?![\w-])",
    re.ASCII,
)
"""What looks like the name of a machine of a cluster, wherever it stands; `gpu0` and `node 3` are none."""
_ID_COLUMNS = frozenset(["id", "no", "no.", "编号", "序号", "#"])
_TITLES = frozenset(["title", "标题", "错误", "名称", "incident", "事件"])
_DATES = frozenset(["date", "日期", "时间", "发生时间"])


class Note(Struct, frozen=True, kw_only=True):
    """One incident of the notes."""

    title: str
    heading: str = ""
    """The same with its number and its date, as it stands above it; by it a note is known again."""
    name: str = ""
    """The id that the notes gave it: `E004`."""
    date: str = ""
    parts: dict[Section, str] = {}
    loose: str = ""
    """What stands before its first known part, or in columns of no known name: no part of it, and kept all the same."""
    line: int = 0
    """Line of the notes on which it begins, from 1."""


class _Open:
    """An incident that is being read."""

    def __init__(self, title: str, level: int, line: int) -> None:
        self.title, self.level, self.line = title, level, line
        self.parts: dict[Section, list[str]] = {}
        self.loose: list[str] = []
        self.lines: list[int] = []
        self.date = ""
        self.section: Section | None = None

    def add(self, text: str) -> None:
        if self.section is None:
            self.loose.append(text)
        else:
            self.parts.setdefault(self.section, []).append(text)

    def note(self) -> Note | None:
        parts = {s: "\n".join(lines).strip() for s, lines in self.parts.items()}
        kept = {s: text for s, text in parts.items() if text}
        return None if len(kept) < 2 else self._named(kept)

    def _named(self, kept: dict[Section, str]) -> Note:
        note = _named(self.title, kept, self.date, self.line)
        return replace(note, loose="\n".join(self.loose).strip())


def read_notes(text: str) -> list[Note]:
    """The incidents of a page, in its order; a stretch with fewer than two known parts is none."""
    return _page(text)[0]


def lines_left(text: str) -> list[int]:
    """Numbers, from 1, of the lines of a page that tell something and that no incident takes."""
    return _page(text)[1]


def _page(text: str) -> tuple[list[Note], list[int]]:
    lines = text.replace("\r\n", "\n").split("\n")
    rows = list(_table(lines))
    found = list(rows)
    left: list[int] = []
    open_one: _Open | None = None
    ruled = False
    row_lines = {note.line for note in rows}
    of_tables = {n for n in range(1, len(lines) + 1) if n in row_lines or (row_lines and _heads(lines, n, row_lines))}
    for number, (line, inside) in enumerate(with_code(lines), 1):
        if ruled or number in of_tables:
            ruled = False
            continue
        under = "" if inside or number == len(lines) else lines[number]
        heading = None if inside else _heading(line, under)
        ruled = heading is not None and _HEADING.match(line) is None
        known = None if heading is None else ALIASES.get(heading[1].strip(" *:：").lower())
        if known is not None and open_one is not None:
            open_one.section = known
        elif heading is not None:
            _close(open_one, found, left)
            open_one = _Open(heading[1], heading[0], number)
        elif open_one is not None:
            _line(open_one, line, "" if number == len(lines) else lines[number], inside=inside)
            open_one.lines += [number] if line.strip() else []
        elif line.strip():
            left.append(number)
    _close(open_one, found, left)
    return sorted(found, key=lambda n: n.line), sorted(set(left))


def _heading(line: str, under: str) -> tuple[int, str] | None:
    """Level and text of a heading, by its marks or by a rule under it."""
    marked = _HEADING.match(line)
    if marked is not None:
        return len(marked[1]), marked[2]
    if line.strip() and _UNDERLINE.fullmatch(under) and _ROW.match(line) is None and line[:1] not in " \t-*>":
        return 1 if under[0] == "=" else 2, line.strip()
    return None


def _heads(lines: list[str], number: int, taken: set[int]) -> bool:
    """Whether a line is the head of a table whose rows are incidents, or the rule below that head."""
    for at in range(number, min(number + 3, len(lines) + 1)):
        if _ROW.match(lines[at - 1]) is None:
            return False
        if at in taken:
            return True
    return False


def _close(one: _Open | None, found: list[Note], left: list[int]) -> None:
    note = None if one is None else one.note()
    if note is not None:
        found.append(note)
    elif one is not None:
        left += [one.line, *one.lines]


def _line(one: _Open, line: str, under: str, *, inside: bool) -> None:
    label = None if inside else _label(line, under)
    if label is not None:
        section = ALIASES.get(label[0])
        if section is not None:
            one.section = section
            one.add(label[1])
            return
        if label[0] in _DATES and _day(label[1]):
            one.date = _day(label[1])
            return
    told = None if inside or one.section is None or any(one.parts.get(one.section, ())) else _TOLD.match(line)
    one.add(line if told is None else told[1])


def _label(line: str, under: str) -> tuple[str, str] | None:
    """A label of a line in small letters, and what stands behind it; None where it has none."""
    text = _QUOTE.sub("", line, count=1) if line.lstrip().startswith(">") else line
    for form in (_LABEL, _BOLD, _BRACKETED):
        found = form.match(text)
        if found is not None and (word := found[1].strip().lower()) in ALIASES.keys() | _DATES:
            return word, found[2]
    alone = _ALONE.match(text)
    if alone is None or not (alone[1] or alone[2] or _TOLD.match(under)):
        return None
    word = alone[3].strip().lower()
    return (word, "") if word in ALIASES else None


def _day(text: str) -> str:
    found = _DATE.search(text)
    if found is not None:
        return f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}"
    named = _NAMED_DAY.search(text)
    if named is None:
        return ""
    month = _MONTHS.index((named["a"] or named["b"]).lower()) + 1
    return f"{named['y']}-{month:02d}-{int(named['d'] or named['e']):02d}"


def _named(title: str, parts: dict[Section, str], date: str, line: int) -> Note:
    clean = title.strip(" *_")
    found = _ID.match(clean)
    heading = (clean[found.end() :] if found is not None else clean) or clean
    plain = _NUMBERED.sub("", heading)
    plain = _DATED.sub("", plain[match.end() :] if (match := _ID.match(plain)) is not None else plain)
    return Note(
        title=plain or heading,
        heading=heading,
        name="" if found is None else found[1],
        date=date or _day(clean),
        parts=parts,
        line=line,
    )


def _table(lines: list[str]) -> Iterator[Note]:
    """Incidents that are rows of a table whose head names at least two parts."""
    columns: list[Section | str | None] = []
    names: list[str] = []
    for number, (line, inside) in enumerate(with_code(lines), 1):
        row = None if inside else _ROW.match(line)
        if row is None:
            columns = []
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row[1])]
        if not columns:
            names, columns = cells, [_column(cell) for cell in cells]
            if sum(isinstance(c, Section) for c in columns) < 2:
                columns = [None]
            continue
        if columns == [None] or _RULE.fullmatch(line):
            continue
        pairs = list(zip(columns, cells, strict=False))
        parts = _gathered((c, cell) for c, cell in pairs if isinstance(c, Section) and cell != "-")
        told = _gathered((c, cell) for c, cell in pairs if isinstance(c, str) and not isinstance(c, Section))
        if len(parts) >= 2:
            title, *more = (told.get("title") or parts.get(Section.SYMPTOM) or next(iter(parts.values()))).split("\n")
            note = _named(title, parts, _day(told.get("date", "")), number)
            loose = more if "title" in told else []
            loose += [f"{n}: {cell}" for n, (c, cell) in zip(names, pairs, strict=False) if c is None and n and cell]
            # A row may have more cells than its head, as where a bar in it was not escaped.
            loose += [cell for cell in cells[len(columns) :] if cell]
            yield replace(note, name=told.get("id", note.name), loose="\n".join(loose))


def _gathered(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, str]:
    """What the cells of a row tell, by their columns: several columns may tell one part, such as `Error` and `Symptom`."""
    found: dict[_Key, list[str]] = {}
    for key, cell in pairs:
        if cell:
            found.setdefault(key, []).append(cell)
    return {key: "\n".join(cells) for key, cells in found.items()}


def _column(cell: str) -> Section | str | None:
    word = cell.strip(" *").lower()
    if word in _ID_COLUMNS:
        return "id"
    if word in _DATES:
        return "date"
    return "title" if word in _TITLES else ALIASES.get(word)


def noted_hosts(page: str) -> list[str]:
    """The names of machines that notes name as such, and those that look like one, each once and in their order."""
    found = [match for pattern in (_NOTED_HOST, _MACHINE_NAME) for match in pattern.finditer(page)]
    return list(dict.fromkeys(match["name"].rstrip(".-_") for match in sorted(found, key=lambda m: m.start("name"))))


def digest_of_note(note: Note) -> str:
    """Tells whether two records were made of the same note; where it stands on its page does not count."""
    parts = [
        note.heading or note.title,
        note.name,
        note.date,
        *(f"{key}\0{note.parts[key]}" for key in sorted(note.parts)),
    ]
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def record_text(note: Note, record_id: str) -> str:
    """The text of a record in the state `open`, with what the notes say of cause and fix marked as a guess.

    The notes' own id is kept as a word by which the record is found.
    """
    chinese = bool(_HAN.search(note.title + "".join(note.parts.values())))
    language = "zh" if chinese else "en"
    guess, waits = (
        ("猜测（来自旧笔记）：", "待填：旧笔记没有写。")
        if chinese
        else ("Guess, from older notes: ", "OPEN: the notes do not say.")
    )
    title = note.title.strip()[:120]
    head: list[tuple[str, Value]] = [
        ("schema", SCHEMA), ("id", record_id), ("title", title), ("state", str(State.OPEN)), ("date", note.date), ("language", language),
        ("search_words", tuple(filter(None, (note.name,)))), ("command", ""), ("revision", ""), ("image", ""), ("scope", ""),
        ("formal_results", ""), ("notes_digest", digest_of_note(note)), ("fix_links", ()), ("verifications", ()),
    ]  # fmt: skip
    body = [f"# {title}"]
    for section in Section:
        said = note.parts.get(section, "")
        if section is Section.EVIDENCE and not said:
            continue
        if said and section in {Section.ROOT_CAUSE, Section.FIX}:
            said = guess + said
        if said and section is Section.VERIFICATION:
            said = f"{'待填：笔记这样写，尚未链接证据：' if chinese else 'OPEN: the notes say so, and nothing is linked: '}{said}"
        body.append(f"## {HEADINGS[language][section]}\n\n{said or waits}")
    if note.loose:
        body.append(f"## {'旧笔记的其他内容' if chinese else 'More of the notes'}\n\n{note.loose}")
    return "---\n" + "".join(write_entry(key, value) for key, value in head) + "---\n\n" + "\n\n".join(body) + "\n"
