"""`firstfault checkpoint`: whether a checkpoint is whole, and whether two hold the same.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import deliver, format_option, lang_option, level_of, page

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_VERIFY_CODES = """\b
Exit codes: 0 complete as far as its layout tells, 1 damaged, 2 wrong
use or no checkpoint there, 3 not decidable from what is there."""
_COMPARE_CODES = """\b
Exit codes: 0 exact (with --functional also functional), 1 not, 2 wrong
use or nothing to compare."""
_STATES = {"complete": 0, "damaged": 1, "unknown": 3}


@click.group(name="checkpoint", short_help="Say whether a checkpoint is whole, and whether two hold the same.")
def command() -> None:
    """Say whether a checkpoint is whole, and whether two hold the same.

    Read are files of torch.save (also those of before 1.6), safetensors, torch.distributed.checkpoint, weights in numbered
    files with an index, DeepSpeed (ZeRO 0 to 3), Megatron (torch and torch_dist), Lightning, accelerate and the Hugging Face
    Trainer. Neither torch nor a GPU is needed, and nothing of a pickle is run.
    """


_output = click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of stdout.")  # fmt: skip
_share = click.option("--share", is_flag=True, help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.")  # fmt: skip
_raw = click.option("--raw", is_flag=True, help="Leave secrets in the report. Never share such a report.")


@command.command(name="verify", short_help="Say whether a checkpoint is whole.", epilog=_VERIFY_CODES)
@click.argument("folder", type=click.Path(exists=True), metavar="DIR")
@click.option("--quick", is_flag=True, help="Leave the bytes of tensors unread: names, sizes and metadata only.")
@click.option("--world-size", type=click.IntRange(1), metavar="N", help="Ranks that should have written it.")
@click.option("--all", "every", is_flag=True, help="Show every problem and every shard.")
@format_option("text", "json")
@_output
@_share
@_raw
@lang_option
def verify(
    folder: str,
    form: StackFormat,
    output: str | None,
    lang: str,
    *,
    quick: bool,
    world_size: int | None,
    every: bool,
    share: bool,
    raw: bool,
) -> int:
    """Say whether a checkpoint is whole: every shard there and readable, sizes, checksums, metadata, markers, steps, NaN.

    DIR is the folder of one checkpoint, a folder of several (then the one that `latest` or
    `latest_checkpointed_iteration.txt` names, else the newest), or one file.
    """
    level = level_of(share=share, raw=raw)
    _spare(output, folder)
    from firstfault.pipelines.checkpoint import verify_checkpoint
    from firstfault.pipelines.publish import publish_checkpoint

    found = verify_checkpoint(folder, read=not quick, world_size=world_size, progress=True)
    deliver(publish_checkpoint(found, form, level, width=page(output)["width"], language=lang, every=every), output)
    return _STATES[found.state]


@command.command(name="compare", short_help="Say whether two checkpoints hold the same.", epilog=_COMPARE_CODES)
@click.argument("first", type=click.Path(exists=True), metavar="A")
@click.argument("second", type=click.Path(exists=True), metavar="B")
@click.option("--functional", is_flag=True, help="Let it suffice that weights and optimizer are the same.")
@format_option("text", "json")
@_output
@_share
@_raw
@lang_option
def compare(
    first: str,
    second: str,
    form: StackFormat,
    output: str | None,
    lang: str,
    *,
    functional: bool,
    share: bool,
    raw: bool,
) -> int:
    """Say whether two checkpoints hold the same to the last bit, also in different formats, and what differs first.

    Exact: all tensors and values of the state. Functional: weights and optimizer, while random states, scheduler or trainer
    differ or are missing. Different: anything else.
    """
    level = level_of(share=share, raw=raw)
    _spare(output, first, second)
    from firstfault.pipelines.checkpoint import compare_checkpoints
    from firstfault.pipelines.publish import publish_checkpoint

    found = compare_checkpoints(first, second, progress=True)
    deliver(publish_checkpoint(found, form, level, width=page(output)["width"], language=lang), output)
    return 0 if found.verdict == "exact" or (functional and found.verdict == "functional") else 1


def _spare(output: str | None, *folders: str) -> None:
    """Refuses to write into a checkpoint.

    Raises:
        click.UsageError: the report would lie inside one of them.
    """
    if output is None:
        return
    from pathlib import Path

    target = Path(output).resolve()
    for folder in map(Path, folders):
        if folder.resolve() == target or (target.exists() and folder.resolve() in target.parents):
            raise click.UsageError(
                f"--output {output} is a file of the checkpoint, and writing there would destroy it. Choose another name."
            )
