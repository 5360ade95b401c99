"""`firstfault check-config`: what is wrong with the settings of a job before it starts.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import deliver, format_option, lang_option, level_of, page, spare_evidence

if TYPE_CHECKING:
    from firstfault.pipelines.publish import CheckFormat

_CODES = """\b
Exit codes: 0 nothing would stop the job (warnings included), 1 something
would, 2 wrong use or nothing readable, 3 nothing in the files is known."""
_STATES = {"ok": 0, "warn": 0, "fail": 1, "unknown": 3}


@click.command(
    name="check-config", short_help="Say what is wrong with the settings of a job before it starts.", epilog=_CODES
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--world-size", type=click.IntRange(1), metavar="N", help="Ranks of the job; else by what the files start.")  # fmt: skip
@click.option("--step-seconds", "step_s", type=click.FloatRange(0, min_open=True), metavar="S", help="Time of one step: checkpoints are then held against the time limit.")  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Show also what is right and what could not be checked.")
@format_option("text", "json", "junit")
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of stdout.")  # fmt: skip
@click.option("--share", is_flag=True, help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Leave secrets in the report. Never share such a report.")
@lang_option
def command(
    files: tuple[str, ...],
    world_size: int | None,
    step_s: float | None,
    form: CheckFormat,
    output: str | None,
    *,
    lang: str,
    every: bool,
    share: bool,
    raw: bool,
) -> int:
    """Say what is wrong with the settings of a job before it starts: sizes that do not go together, keys that nobody knows.

    FILEs are those of one job, in any order: ds_config.json, accelerate's YAML, FSDP settings, arguments of the Hugging Face
    Trainer (JSON, YAML or a command), Megatron's arguments (a script or a file of them), NeMo and hydra YAML, torchtitan
    TOML, SLURM scripts. What a file is shows in its content. A FILE may also be a command line in quotes.
    """
    level = level_of(share=share, raw=raw)
    spare_evidence(output, files)
    from firstfault.pipelines.check_config import check_config
    from firstfault.pipelines.publish import publish_config_check

    found = check_config(files, world_size=world_size, step_s=step_s)
    deliver(publish_config_check(found, form, level, width=page(output)["width"], every=every, language=lang), output)
    return _STATES[found.state]
