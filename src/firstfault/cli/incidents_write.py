"""The commands that make, check and settle records: `new`, `lint`, `verify`, `replay`.

Parses, calls the pipeline, prints and sets exit codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import format_option, told_lang_option
from firstfault.cli.incidents_options import PastDay, folder_option, key_option, note, opened, store_of, today
from firstfault.cli.messages import said, words

if TYPE_CHECKING:
    from datetime import date

    from firstfault.incidents.verification import Comparison

RESULTS = {"held": 0, "recurred": 1, "not comparable": 3}
"""What a re-run says -> exit code."""


@click.command(name="new", short_help="Make a record from logs or from a diagnosis.")
@click.argument("paths", nargs=-1, required=True, metavar="DIAGNOSIS|PATH...")
@folder_option
@key_option
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the record."
)
@click.option(
    "--date",
    "day",
    type=PastDay(),
    metavar="YYYY-MM-DD",
    help="Day of the incident; that of its first line where it is not given, and left open where no line has a date.",
)
@click.option("--command", "ran", default="", metavar="TEXT", help="The command that was run.")
@click.option("--revision", default="", metavar="TEXT", help="Revision of the source.")
@click.option("--image", default="", metavar="TEXT", help="Digest of the image.")
@click.option(
    "--gpu",
    "devices",
    multiple=True,
    metavar="SERIAL",
    help="Serial number of a GPU at fault; only its keyed hash is kept.",
)
@click.option("--version", "versions", multiple=True, metavar="TEXT", help="A version that ran, such as `torch 2.4.1`.")
@click.option("--again", is_flag=True, help="Make another record of lines of which there is one.")
@click.option("--stdout", "only_show", is_flag=True, help="Print the record instead of writing a file.")
def new(
    paths: tuple[str, ...],
    *,
    folder: Path | str,
    key_file: Path | None,
    lang: str,
    day: date | None,
    ran: str,
    revision: str,
    image: str,
    devices: tuple[str, ...],
    versions: tuple[str, ...],
    again: bool,
    only_show: bool,
) -> int:
    """Make a record from a DIAGNOSIS (`--format json` of `diagnose`) or from the logs at PATH.

    Hosts, users, paths, addresses, buckets and e-mails become pseudonyms. What a person has to fill stays marked `OPEN:`.
    Where there is a record of the same lines, that one is named and nothing is written.
    """
    from firstfault.cli.evidence import write
    from firstfault.incidents.days import is_to_come
    from firstfault.incidents.draft import day_of
    from firstfault.incidents.places import shown
    from firstfault.incidents.words import OPEN_MARKS
    from firstfault.pipelines.incidents import Given, already_there, new_record, owner_key, understood
    from firstfault.pipelines.options import DiagnoseOptions

    given = Given(command=ran, revision=revision, image=image, devices=devices, versions=versions)
    found = understood(list(paths), DiagnoseOptions())
    shows = day_of(found[0])
    timed = shows is None or not is_to_come(shows, today())
    if shows is not None and not timed:
        note(f"its first line is of {shows.isoformat()}, which is still to come: its time is left out")
    told = day or (shows if timed else None)
    when = told or today()
    name, text = new_record(
        found, given, key=owner_key(key_file), day=when, language=lang, dated=told is not None, timed=timed
    )
    if only_show:
        write(text)
        return 0
    there = [] if again else already_there(folder, text)
    if there:
        write(f"{there[0].where}\n")
        note(f"it is there already, and nothing was written: {there[0].where}; --again makes another record of it")
        return 0
    path = opened(folder).create(name, text, f"{when:%Y}")
    write(f"{path}\n")
    mark = OPEN_MARKS[lang == "zh"]
    note(
        f"wrote {path}; fill in what begins with {mark}, then run `firstfault incidents lint --dir {shown(str(folder))}`"
    )
    return 0


@click.command(name="lint", short_help="Find records that claim more than they show.")
@folder_option
@click.option(
    "--fix", "repair", is_flag=True, help="Bring records of an earlier form up to date; nothing else is changed."
)
@format_option("text", "json")
@told_lang_option
def lint(folder: Path | str, form: str, *, repair: bool) -> int:
    """Find records that claim more than they show.

    Exits with 0 where there is no error (notes may be), and with 2 where a record is to be corrected.
    """
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents import check, fix
    from firstfault.report.neutral import neutral

    store = store_of(folder)
    if repair:
        for changed in fix(store):
            note(f"changed {changed}")
    number, found = check(store, today())
    errors = [c for c in found if c.level == "error"]
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode({"records": number, "complaints": found})) + "\n")
        return 2 if errors else 0
    say = words()
    lines = [
        neutral(
            say["lint.line"].format(
                level=say[f"lint.{c.level}"], where=c.where, what=said(_named(c.what)), fix=said(c.fix)
            )
        )
        for c in found
    ]
    lines.append(say["lint.count"].format(n=number, errors=len(errors), notes=len(found) - len(errors)))
    write("".join(line + "\n" for line in lines))
    return 2 if errors else 0


@click.command(name="verify", short_help="Hold a re-run against an incident.")
@click.argument("name", metavar="ID")
@click.option(
    "--rerun",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Logs of the re-run, or its diagnosis as JSON; repeatable.",
)
@folder_option
@click.option(
    "--write", "keep", is_flag=True, help="Link the re-run in the record, and move its state where that is shown."
)
@click.option(
    "--date",
    "day",
    type=PastDay(),
    metavar="YYYY-MM-DD",
    help="Day of the re-run, which counts where its lines tell none; it is linked under the day of its lines, and as undated where neither is known.",
)
@key_option
@told_lang_option
def verify(
    name: str, paths: tuple[str, ...], folder: Path | str, day: date | None, key_file: Path | None, *, keep: bool
) -> int:
    """Hold a re-run against the incident ID: held, recurred, or not comparable.

    Exits with 0 where it held, 1 where it recurred, 3 where the two cannot be compared.
    """
    from firstfault.cli.evidence import write
    from firstfault.incidents.verification import waiting
    from firstfault.incidents.words import State
    from firstfault.pipelines.incidents import link, one_record
    from firstfault.pipelines.incidents import verify as held_against
    from firstfault.pipelines.options import DiagnoseOptions

    store = store_of(folder)
    record = one_record(store, name)
    comparison = held_against(record, list(paths), DiagnoseOptions(), key_file, day, today=today())
    write(_compared(record.id, comparison))
    if keep:
        changed = link(store, record, comparison)
        if changed.text == record.text:
            note(f"a re-run of that day that said the same is linked already in {changed.where}")
        else:
            note(f"linked in {changed.where}; its state is `{changed.state}`")
        if comparison.result == "held" and changed.state is State.FIXED and waiting(changed):
            note(f"it becomes `verified` once these are filled: {', '.join(waiting(changed))}")
    return RESULTS[comparison.result]


def _named(what: str) -> str:
    """A complaint whose list of keys and sections is marked as names, which no language translates."""
    head, colon, names = what.rpartition(": ")
    listed = names.split(", ")
    if not colon or not all(name.isidentifier() for name in listed):
        return what
    return f"{head}: {', '.join(f'`{name}`' for name in listed)}"


def _compared(name: str, comparison: Comparison) -> str:
    from firstfault.report.neutral import neutral

    say = words()
    lines = [f"{name}{say['mark.colon']}{say[f'verify.{comparison.result}']}"]
    lines.append(say["verify.why"].format(text=said(comparison.reason)))
    lines += [say["verify.equal"].format(text=e) for e in comparison.equal]
    lines += [say["verify.differs"].format(text=d) for d in comparison.differs]
    return "".join(neutral(line) + "\n" for line in lines)


@click.command(name="replay", short_help="Diagnose kept evidence again, and list changed verdicts.")
@click.argument("names", nargs=-1, metavar="[ID]...")
@folder_option
@click.option(
    "--evidence",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where the logs of incidents are kept: one file, folder or archive each, named after the id.",
)
@key_option
@format_option("text", "json")
def replay(names: tuple[str, ...], folder: Path | str, evidence: Path, key_file: Path | None, form: str) -> int:
    """Diagnose the kept evidence of records with this version, and list the verdicts that changed.

    Exits with 0 where none changed, 1 where one did, 2 where some evidence cannot be read, 3 where none is there.
    """
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents import owner_key
    from firstfault.pipelines.incidents_over import replay as replayed
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.report.neutral import neutral

    rows = replayed(store_of(folder), evidence, names, DiagnoseOptions(), lambda: owner_key(key_file))
    changed = [r for r in rows if r.changed]
    done = [r for r in rows if r.read]
    unread = len(rows) - len(done) - sum(r.state == "no evidence" for r in rows)
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode(rows)) + "\n")
    else:
        lines = [f"{r.id}: {r.state}" + "".join(f"\n  {c}" for c in r.changed) for r in rows]
        lines.append(f"{len(done)} of {len(rows)} replayed, {len(changed)} changed")
        write("".join(neutral(line, keep="\n") + "\n" for line in lines))
    if unread:
        note(f"the evidence of {unread} records cannot be read")
    return 1 if changed else 2 if unread else 0 if done else 3
