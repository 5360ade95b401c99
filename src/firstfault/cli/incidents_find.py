"""The commands that look into records: `search`, `similar`, `show`, `trends`, `timeline`.

Parses, calls the pipeline and prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import format_option, told_lang_option
from firstfault.cli.incidents_options import DAY, folder_option, key_option, note, opened, store_of, there
from firstfault.cli.messages import words

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from firstfault.incidents.record import Record
    from firstfault.incidents.similar import Likeness

IN = ("title", "symptom", "diagnosis", "cause", "fix", "rest")
STATES = ("open", "supported", "fixed", "verified", "rejected")
NAMED = 8
"""Incidents that are named of what returns; of more it is said how many, and `--format json` has all."""
RETURNING = ("fingerprint", "signature", "host", "gpu", "shard", "version")


@click.command(name="search", short_help="Find records by text or by what stands in their head.")
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@folder_option
@click.option(
    "--in", "fields", type=click.Choice(IN), multiple=True, help="Only words of this part of the record; repeatable."
)
@click.option(
    "--signature",
    multiple=True,
    metavar="ID",
    help="Only records of this signature; a `*` at the end stands for anything.",
)
@click.option(
    "--host", multiple=True, metavar="NAME", help="Only records that name this host, by its name or its pseudonym."
)
@click.option(
    "--gpu", multiple=True, metavar="SERIAL", help="Only records of this device, by its serial number or its pseudonym."
)
@click.option("--shard", multiple=True, metavar="NAME", help="Only records of this shard of the data.")
@click.option("--version", multiple=True, metavar="TEXT", help="Only records of this version: `torch 2.4*`.")
@click.option("--state", type=click.Choice(STATES), multiple=True, help="Only records in this state.")
@click.option("--category", multiple=True, metavar="WORD", help="Only records of this category.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Records shown at most.")
@click.option("--refresh", is_flag=True, help="Look at every file for changes, however many there are.")
@key_option
@format_option("text", "json")
@told_lang_option
def search(
    text: tuple[str, ...],
    *,
    folder: Path | str,
    fields: tuple[str, ...],
    limit: int,
    key_file: Path | None,
    form: str,
    refresh: bool,
    **facts: tuple[str, ...],
) -> int:
    """Find records by TEXT, in English or Chinese, and by what stands in their head.

    The records that ship with firstfault are searched too. Exits with 0 where something was found, else with 3.
    """
    from firstfault.cli.evidence import write
    from firstfault.incidents.search import FIELDS, Query
    from firstfault.pipelines.incidents_over import find, kinds_of_lines, plain
    from firstfault.report.neutral import neutral

    wanted = tuple((kind, value) for kind, values in facts.items() for value in values)
    query = Query(text=" ".join(text), fields=tuple(f for f in FIELDS if f in fields), facts=wanted, limit=limit)
    found = find(there(folder), query, key_file=key_file, full=refresh)
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        rows = [{**plain(h.record), "every_word": h.every} for h in found.hits]
        write(neutral_json(msgspec.json.encode(rows)) + "\n")
        return 0 if found.hits else 3
    lines = [_line(h.record, "" if h.every else words()["search.some"]) for h in found.hits]
    write("".join(neutral(line) + "\n" for line in lines))
    if found.unranked:
        note("so many records hold these words that the newest are shown, not the best")
    elif found.more:
        note(f"there are more than {limit}; give more words or a larger --limit")
    if not found.hits:
        note(f"no record fits; {found.searched} were searched, those that ship with firstfault among them")
        word = query.text.strip()
        kinds = kinds_of_lines(word) if word.isalnum() else 0
        if kinds:
            note(f"firstfault knows {kinds} kinds of line with that word: `firstfault signatures list --text {word}`")
    if found.unreadable:
        note(
            f"{found.unreadable} files could not be read and were not searched; `firstfault incidents lint` names them"
        )
    return 0 if found.hits else 3


def _line(record: Record, more: str = "") -> str:
    from firstfault.incidents.lint import is_verified
    from firstfault.incidents.words import State

    date = record.one("date") or "-"
    if record.state is State.VERIFIED and not is_verified(record):
        more += words()["search.unshown"]
    return f"{record.id:<20} {record.state:<9} {date:<10} {record.title}{more}"


@click.command(name="similar", short_help="Show the nearest past incidents, with what is equal and differs.")
@click.argument("paths", nargs=-1, required=True, metavar="DIAGNOSIS|PATH...")
@folder_option
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True, help="Records shown at most.")
@format_option("text", "json")
@told_lang_option
def similar(paths: tuple[str, ...], folder: Path | str, limit: int, form: str) -> int:
    """Show the nearest past incidents of the logs at PATH, with what is equal and what differs.

    A likeness tells where to look and proves nothing. Exits with 0 where something is near, else with 3.
    """
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents_over import near, plain
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.report.neutral import neutral

    found = near(there(folder), list(paths), DiagnoseOptions(), limit=limit)
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        rows = [
            {"record": plain(o.record), "same_fingerprint": o.same, "equal": o.equal, "differs": o.differs}
            for o in found
        ]
        write(neutral_json(msgspec.json.encode(rows)) + "\n")
        return 0 if found else 3
    write("".join(neutral(line) + "\n" for one in found for line in _likeness(one)))
    if not found:
        note("no past incident is near")
    return 0 if found else 3


def _likeness(one: Likeness) -> list[str]:
    say = words()
    lines = [_line(one.record, say["similar.same"] if one.same else "")]
    lines += [say["similar.equal"].format(text=part) for part in one.equal]
    lines += [say["similar.differs"].format(text=part) for part in one.differs]
    return lines


@click.command(name="show", short_help="Print one record.")
@click.argument("name", metavar="ID")
@folder_option
@format_option("text", "json")
@told_lang_option
def show(name: str, folder: Path | str, form: str) -> int:
    """Print the record ID (the begin of an id will do), also one that ships with firstfault."""
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents import one_record
    from firstfault.pipelines.incidents_over import plain
    from firstfault.report.neutral import neutral

    record = one_record(opened(folder), name)
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode(plain(record))) + "\n")
        return 0
    write(neutral(record.text.replace("\r\n", "\n"), keep="\n"))
    return 0


@click.command(name="trends", short_help="Show what returns over several incidents.")
@folder_option
@click.option(
    "--by", "kinds", type=click.Choice(RETURNING), multiple=True, help="Only what returns by this; repeatable."
)
@click.option("--least", type=click.IntRange(2), default=2, show_default=True, help="Times that it has to have come.")
@format_option("text", "json")
@told_lang_option
def trends(folder: Path | str, kinds: tuple[str, ...], least: int, form: str) -> int:
    """Show what returns over several incidents: fault, signature, host, GPU, shard, version, with dates.

    Exits with 0 where something returns, else with 3.
    """
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents_over import returning
    from firstfault.report.neutral import neutral
    from firstfault.report.phrases import names

    say = words()
    found = returning(store_of(folder), kinds=kinds or RETURNING, least=least)
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode(found)) + "\n")
        return 0 if found else 3
    lines = []
    for t in found:
        told = [say["trends.incidents"].format(n=len(t.incidents))]
        told += [say["trends.recurred"].format(n=t.recurred)] if t.recurred else []
        told += [say["trends.days"].format(first=t.dates[0], last=t.dates[-1])] if len(t.dates) > 1 else t.dates
        colon = say["mark.colon"]
        lines.append(
            f"{say[f'trends.{t.kind}']} {t.value}{colon}{say['mark.comma'].join(told)}{colon}{names(t.incidents, say, most=NAMED)}"
        )
        if t.after_fix:
            lines.append(f"    {say['trends.after_fix']}{colon}{names(t.after_fix, say, most=NAMED)}")
    write("".join(neutral(line) + "\n" for line in lines))
    if not found:
        note("nothing returns")
    return 0 if found else 3


@click.command(name="timeline", short_help="List incidents and their re-runs by day.")
@folder_option
@click.option("--since", type=DAY, metavar="YYYY-MM-DD", help="Only from this day on.")
@click.option("--until", type=DAY, metavar="YYYY-MM-DD", help="Only to this day.")
@format_option("text", "json")
@told_lang_option
def timeline(folder: Path | str, since: datetime | None, until: datetime | None, form: str) -> int:
    """List incidents and the re-runs that were linked in them, oldest first; those without a date come last.

    Exits with 0 where there is one, else with 3.
    """
    from firstfault.cli.evidence import write
    from firstfault.incidents.timeline import timeline as by_day
    from firstfault.report.neutral import neutral

    records, _ = store_of(folder).records()
    found = by_day(
        records,
        since="" if since is None else f"{since:%Y-%m-%d}",
        until="" if until is None else f"{until:%Y-%m-%d}",
    )
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode(found)) + "\n")
        return 0 if found else 3
    lines = [f"{m.date or '-':<10} {m.what:<22} {m.id:<20} {m.state:<9} {m.title}" for m in found]
    write("".join(neutral(line) + "\n" for line in lines))
    if not found:
        note("no incident of those days is there")
    return 0 if found else 3
