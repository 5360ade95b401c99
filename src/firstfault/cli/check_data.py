"""`firstfault check-data`: tries what feeds a job before it starts.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import deliver, format_option, lang_option, level_of, page, spare_evidence
from firstfault.cli.values import RanksValue

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_CODES = """\b
Exit codes: 0 nothing would stop the job (warnings included), 1 something
would, 2 wrong use or nothing readable, 3 nothing could be tried."""
_STATES = {"ok": 0, "warn": 0, "fail": 1, "unknown": 3}
MOST_RANKS = 64


@click.command(name="check-data", short_help="Try the data of a job before it starts: a loader or manifests.", epilog=_CODES)  # fmt: skip
@click.argument("targets", nargs=-1, required=True, metavar="IMPORT:NAME|MANIFEST...")
@click.option("--world-size", "world", type=click.IntRange(1, 1_000_000), default=1, metavar="N", help="Ranks of the job; 1 unless given.")  # fmt: skip
@click.option("--ranks", type=RanksValue(), metavar="LIST", help="Ranks to try, such as `0-3,7`; all of up to four, else the first two and the last.")  # fmt: skip
@click.option("--batches", type=click.IntRange(0), default=100, metavar="N", help="Batches of each rank; 100 unless given, 0 for all.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1), default=120.0, metavar="S", help="Time for all of it, imports aside; 120 unless given.")  # fmt: skip
@click.option("--stall", "stall_s", type=click.FloatRange(0.1), default=30.0, metavar="S", help="Time of one item from which on it counts as standing; 30 unless given.")  # fmt: skip
@click.option("--memory-mb", type=click.IntRange(64), metavar="N", help="Memory that a rank and its workers may take; four fifths of what is free unless given.")  # fmt: skip
@click.option("--python", default=sys.executable, metavar="FILE", help="Interpreter of the job; the one that runs firstfault unless given.")  # fmt: skip
@click.option("--gpu", is_flag=True, help="Let the code see the GPUs, which are hidden else.")
@click.option("--root", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="Folder below which relative paths of a manifest lie; its own unless given.")  # fmt: skip
@click.option("--field", metavar="NAME", help="Column that holds the path of an item; found by its name unless given.")
@click.option("--names-only", is_flag=True, help="Do not look into files, only whether they are there.")
@click.option("--digests", is_flag=True, help="Read the files of a manifest whole: hold them against the digests that it states, and name those of the same content.")  # fmt: skip
@format_option("text", "json")
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of stdout.")  # fmt: skip
@click.option("--share", is_flag=True, help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Leave secrets in the report. Never share such a report.")
@lang_option
def command(
    targets: tuple[str, ...],
    world: int,
    ranks: tuple[tuple[int, int], ...] | None,
    batches: int,
    seconds: float,
    *,
    stall_s: float,
    memory_mb: int | None,
    python: str,
    gpu: bool,
    root: str | None,
    field: str | None,
    names_only: bool,
    digests: bool,
    form: StackFormat,
    output: str | None,
    share: bool,
    raw: bool,
    lang: str,
) -> int:
    """Try the data of a job before it starts: what is slow, stands, fails, is missing, comes twice, or ends early on a rank.

    IMPORT:NAME is a DataLoader, a dataset, anything that can be iterated, or a function that makes one (with `rank` and
    `world_size` where it takes them), such as `my_project.data:train_loader`. It runs in a process of its own, as each rank
    would, with limits. MANIFESTs are read by firstfault itself: shards of WebDataset (`set-{000..127}.tar`), Lhotse's cuts,
    recordings and supervisions (JSONL, packed too), lists of files (CSV, TSV, JSONL or one path a line).
    """
    level = level_of(share=share, raw=raw)
    spare_evidence(output, targets)
    from firstfault.pipelines.check_data import DataOptions, check_data
    from firstfault.pipelines.publish import publish_data_check

    some = sorted({r for low, high in ranks or () for r in range(low, min(high, low + MOST_RANKS) + 1)})
    if len(some) > MOST_RANKS:
        raise click.UsageError(f"--ranks names more than {MOST_RANKS} ranks: try some of them.")
    if digests and names_only:
        raise click.UsageError("--digests reads files, and --names-only does not: give one of them.")
    options = DataOptions(
        world, tuple(some), seconds, batches, stall_s, memory_mb, python, gpu, root, field, not names_only, digests
    )
    found = check_data(targets, options)
    deliver(publish_data_check(found, form, level, width=page(output)["width"], language=lang), output)
    return _STATES[found.state]
