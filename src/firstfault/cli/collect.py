"""`firstfault collect`: one archive of what a job left. Parses and prints; what goes in is not decided here."""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.pipelines.errors import PipelineError


@click.command(name="collect", short_help="Pack what a job's recorder left into one archive.")
@click.option("--recorder", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder that `firstfault record --dir` was given, or one run in it.")  # fmt: skip
@click.option("-o", "--output", "target", default=Path("firstfault-evidence.tar.gz"), type=click.Path(path_type=Path), metavar="FILE", help="The archive; firstfault-evidence.tar.gz unless given. It never overwrites a file.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Leave names of hosts, users, paths and addresses as they are.")
def command(folder: Path, target: Path, *, raw: bool) -> int:
    """Pack what a job's recorder left into one archive, which `firstfault diagnose` opens.

    Secrets were taken out when the files were written; names of hosts, users, paths and addresses become pseudonyms here.
    """
    from firstfault.collect.boxes import pack

    try:
        packed = pack(folder, target, raw=raw)
    except OSError as error:
        raise PipelineError(
            f"no archive could be made: {error}",
            where=str(folder),
            fix="Give the folder of a recorder with --recorder, and a name that is free with --output.",
        ) from error
    click.echo(f"{target}: {packed.files} files, {packed.bytes / 1e6:.1f} MB before compression")
    for name in packed.left_out:
        click.echo(f"left out (names in it cannot be taken out, or it is larger than 1 GiB): {name}", err=True)
    return 0
