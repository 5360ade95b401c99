"""The commands that bring notes in and records out: `import`, `export`.

Parses, calls the pipeline and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.incidents_options import folder_option, key_option, note, opened, store_of, today

if TYPE_CHECKING:
    from firstfault.incidents.places import Records


@click.command(name="import", short_help="Make records out of a page of notes, or copy those of a folder.")
@click.argument("file", metavar="FILE|FOLDER", type=click.Path(exists=True, path_type=Path))
@folder_option
@key_option
@click.option("--keep-names", is_flag=True, help="Leave hosts, users, paths and addresses of the notes as they are.")
def import_(file: Path, folder: Path | str, key_file: Path | None, *, keep_names: bool) -> int:
    """Make records out of a page of notes: a Markdown FILE with one heading or table row for each error.

    Parts are known by their names in English or Chinese: Symptom, Cause, Fix, Verification, 现象, 原因, 修复, 验证.

    Hosts, users, paths and addresses become pseudonyms, as in every other record, and secrets are taken out. A note that has
    a record already is passed over, so that a page that grows may be imported again.

    Of a FOLDER every record is copied as it is, under its own id; one whose id is taken is left out and named.
    """
    from firstfault.cli.evidence import write
    from firstfault.incidents.places import shown
    from firstfault.pipelines.incidents import owner_key
    from firstfault.pipelines.incidents_over import import_notes, lines_not_taken

    place = shown(str(folder))
    if file.is_dir():
        return _copied(opened(file), opened(folder))
    made, known = import_notes(file, opened(folder), today(), None if keep_names else owner_key(key_file))
    write("".join(f"{path}\n" for path in made))
    if known:
        note(f"{len(known)} of the notes have a record already, and nothing was written for them: {known[0]}")
    left = lines_not_taken(file)
    if left:
        shown_lines = ", ".join(map(str, left[:20])) + (", …" if len(left) > 20 else "")
        note(f"{len(left)} lines of the page went into no record: {shown_lines}")
    note(f"made {len(made)} records; `firstfault incidents lint --dir {place}` says what they lack")
    return 0


def _copied(source: Records, store: Records) -> int:
    """Copies the records of one store into another and says which."""
    from firstfault.cli.evidence import write
    from firstfault.pipelines.incidents_over import copy_records

    copied, left = copy_records(source, store)
    write("".join(f"{path}\n" for path in copied))
    for line in left:
        note(f"left out: {line}")
    note(f"copied {len(copied)} records")
    return 0 if copied or not left else 2


@click.command(name="export", short_help="Write all records as one page, HTML, JSON lines, or files.")
@folder_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "jsonl", "files"]),
    default="markdown",
    show_default=True,
    help="One page of Markdown, one HTML page, one JSON object a line, or a folder with each record as the file that it is.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(),
    metavar="FILE|FOLDER",
    help="Write to FILE instead of stdout; `files` needs a FOLDER, new or with records.",
)
@click.option("--library", is_flag=True, help="Put the records that ship with firstfault in as well.")
def export(folder: Path | str, form: str, output: str | None, *, library: bool) -> int:
    """Write all records out: as one page to read, as an HTML index, as JSON lines for programs, or as files.

    `--format files` copies every record byte for byte into a folder, as out of a database; one that is there with another text is
    left alone and named.
    """
    if form == "files":
        return _to_files(folder, output, library=library)
    if output is not None and Path(output).is_dir():
        raise click.UsageError(f"--output {output} is a folder: give a file, or `--format files`.")
    from firstfault.cli.evidence import deliver
    from firstfault.incidents.shipped import shipped
    from firstfault.pipelines.incidents_over import plain
    from firstfault.report.incident_list import render_html, render_page

    records, wrong = store_of(folder).records()
    for error in wrong:
        note(f"{error.where}: left out: {error.what}")
    chosen = sorted([*records, *(shipped() if library else ())], key=lambda r: r.id)
    if form == "html":
        deliver(render_html(chosen), output)
    elif form == "markdown":
        deliver(render_page(chosen), output)
    else:
        import msgspec

        from firstfault.report.json import escaped

        deliver("".join(escaped(msgspec.json.encode(plain(r)).decode("utf-8")) + "\n" for r in chosen), output)
    return 0


def _to_files(folder: Path | str, output: str | None, *, library: bool) -> int:
    if output is None or Path(output).is_file():
        raise click.UsageError(
            "--format files needs `--output FOLDER`: a folder for the records, new or with some in it."
        )
    if library:
        raise click.UsageError("--library is for pages: records that ship with firstfault are in every installation.")
    return _copied(store_of(folder), opened(Path(output)))
