"""`firstfault collect`: one archive of what a job left. Parses and prints; what goes in is not decided here."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from firstfault.cli.messages import said
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.incidents import owner_key

BEFORE_S = 600.0
"""Seconds before the job from which on the kernel's words are taken."""
DAY_S = 86400.0
"""The same before now, where nobody knows when the job began."""
_JOB = re.compile(r"\d{1,12}(?:_\d{1,7})?(?:\.\w{1,12})?")


@click.command(
    name="collect", short_help="Pack what a job's recorder left, and what this node tells, into one archive."
)
@click.option("--recorder", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Folder that `firstfault record --dir` was given, or one run in it.")  # fmt: skip
@click.option(
    "--node", is_flag=True, help="Ask this node too: cards, containers, disks, code, images, processes, kernel."
)
@click.option("--slurm", "job", metavar="JOB", help="Ask this node and, of this job, the scheduler.")
@click.option("--pid", "pids", multiple=True, type=click.IntRange(1), metavar="N", help="A process to describe; all Python processes of yours unless given. May be given more than once.")  # fmt: skip
@click.option("--code", default=Path(), type=click.Path(path_type=Path), metavar="DIR", help="Where the source of the program lies; the working directory unless given.")  # fmt: skip
@click.option("-o", "--output", "target", default=Path("firstfault-evidence.tar.gz"), type=click.Path(path_type=Path), metavar="FILE", help="The archive; firstfault-evidence.tar.gz unless given. It never overwrites a file.")  # fmt: skip
@click.option("--key", "key_file", type=click.Path(path_type=Path), metavar="FILE", help="Key of the pseudonyms, 16 random characters or more: with the same one those of several nodes agree.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Leave names of hosts, users, paths and addresses as they are.")
def command(
    folder: Path | None,
    *,
    node: bool,
    job: str | None,
    pids: tuple[int, ...],
    code: Path,
    target: Path,
    key_file: Path | None,
    raw: bool,
) -> int:
    """Pack what a job's recorder left, and what this node tells, into one archive, which `firstfault diagnose` opens.

    No root is needed, no program may take longer than ten seconds, and what could not be had is listed with the reason. Keys,
    proxies and serial numbers of cards are taken out; names of hosts, users, paths and addresses become pseudonyms.
    """
    from firstfault.collect.boxes import begun, pack
    from firstfault.collect.node import look

    asks = node or job is not None or bool(pids)
    if folder is None and not asks:
        raise click.UsageError("Nothing to collect: give --recorder DIR, --node, or both.")
    if job is not None and not _JOB.fullmatch(job):
        raise click.UsageError(f"{job!r} is no number of a Slurm job: 4711, 4711_3 or 4711.0.")
    try:
        if target.exists():
            raise FileExistsError(f"{target} is there already")
        key = None if key_file is None else owner_key(key_file)
        start = None if folder is None else begun(folder)
        since = time.time() - DAY_S if start is None else start - BEFORE_S
        found = look(str(code), job=job, pids=pids, since=since) if asks else None
        packed = pack(folder, target, raw=raw, node=found, key=key)
    except OSError as error:
        raise PipelineError(
            f"no archive could be made: {error}",
            where=str(folder or target),
            fix="Give the folder of a recorder with --recorder, and a name that is free with --output.",
        ) from error
    click.echo(f"{target}: {packed.files} files, {packed.bytes / 1e6:.1f} MB before compression")
    for name, why in zip(packed.left_out, packed.reasons, strict=True):
        click.echo(said(f"left out: {name}: {why}"), err=True)
    return 0
