"""The commands that bring notes in and records out: `import`, `export`.

Parses, calls the pipeline and prints.
"""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.cli.incidents_options import folder_option, note, opened, store_of


@click.command(name="import", short_help="Make records out of a page of notes, or copy those of a folder.")
@click.argument("file", metavar="FILE|FOLDER", type=click.Path(exists=True, path_type=Path))
@folder_option
def import_(file: Path, folder: Path | str) -> int:
    """Make records out of a page of notes: a Markdown FILE with one heading or table row for each error.

    Parts are known by their names in English or Chinese: Symptom, Cause, Fix, Verification, 现象, 原因, 修复, 验证.

    Of a FOLDER every record is copied as it is, under its own id; one whose id is taken is left out and named.
    """
    from firstfault.cli.evidence import write
    from firstfault.cli.incidents_write import today
    from firstfault.incidents.places import shown
    from firstfault.pipelines.incidents_over import copy_records, import_notes

    place = shown(str(folder))
    if file.is_dir():
        copied, left = copy_records(file, opened(folder))
        write("".join(f"{path}\n" for path in copied))
        for line in left:
            note(f"left out: {line}")
        note(f"copied {len(copied)} records")
        return 0 if copied or not left else 2
    made = import_notes(file, opened(folder), today())
    write("".join(f"{path}\n" for path in made))
    note(f"made {len(made)} records; `firstfault incidents lint --dir {place}` says what they lack")
    return 0


@click.command(name="export", short_help="Write all records as one page, HTML or JSON lines.")
@folder_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "jsonl"]),
    default="markdown",
    show_default=True,
    help="One page of Markdown, one HTML page, or one JSON object a line.",
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE instead of stdout."
)
@click.option("--library", is_flag=True, help="Put the records that ship with firstfault in as well.")
def export(folder: Path | str, form: str, output: str | None, *, library: bool) -> int:
    """Write all records out: as one page to read, as an HTML index, or as JSON lines for programs."""
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
