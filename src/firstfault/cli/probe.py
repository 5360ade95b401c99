"""`firstfault probe`: the profile of an environment, printed, read back, compared.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import deliver, format_option, lang_option, output_option, page

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_CODES = """\b
Exit codes: 0 printed, read, or comparable; 1 a required capability does
not work, or the two are not comparable; 2 wrong use or no whole profile
there; 3 not known on one side whether they are comparable."""
_VERDICTS = {"comparable": 0, "not_comparable": 1, "unknown": 3}


@click.command(name="probe", short_help="Print what an environment is, read it back, or compare two.", epilog=_CODES)
@click.option("--read", "source", metavar="FILE", help="Print the JSON of the profiles in the output of a job; `-` is standard input.")  # fmt: skip
@click.option("--compare", "pair", nargs=2, metavar="A B", help="Say whether results of two environments may be compared; A and B hold one profile each.")  # fmt: skip
@click.option("--require", multiple=True, metavar="NAME", help="A capability that the run needs, such as transformer_engine; may be given more than once.")  # fmt: skip
@click.option("--no-imports", is_flag=True, help="Go by metadata alone: import nothing, in no process.")
@format_option("text", "json", more=": of a profile `text` is the framed line")
@output_option
@lang_option
def command(
    form: StackFormat,
    output: str | None,
    *,
    lang: str,
    source: str | None,
    pair: tuple[str, str] | None,
    require: tuple[str, ...],
    no_imports: bool,
) -> int:
    """Print what an environment is as one framed line, which a banner cannot break: FIRSTFAULT_ENVIRONMENT_JSON={…}.

    It holds versions, GPUs, settings, and what a run asks for against what it would get: CUDA, NCCL, nvcc, Transformer
    Engine, Apex, flash-attn, DeepSpeed. No secrets, names of machines or serial numbers. Packages are imported in a process
    of its own, with a limit of time.
    """
    from firstfault.pipelines.probe import compare_profiles, probe, read_profiles
    from firstfault.pipelines.publish import publish_environment, publish_environments

    if (source is not None) + (pair is not None) + bool(require or no_imports) > 1:
        raise click.UsageError("Give one of --read and --compare, or look at this environment without either.")
    if pair is not None:
        found = compare_profiles(*pair)
        deliver(publish_environments(found, form, width=page(output)["width"], language=lang), output)
        return _VERDICTS[found.verdict]
    if source is not None:
        from firstfault.cli.messages import tell

        read = read_profiles(source)
        deliver("".join(publish_environment(one, framed=False) for one in read.found), output)
        for line, why in read.damaged:
            tell(f"{source}, line {line}: a profile that is not whole was left out: {why}")
        if len(read.found) > 1:
            tell(f"{len(read.found)} different profiles stand there, one after the other")
        return 0
    profile = probe(require=require, imports=not no_imports)
    text = publish_environment(profile, framed=form == "text")
    # Whoever wrote last may not have ended his line.
    deliver(text if output is not None or form == "json" else f"\n{text}", output)
    return 1 if profile.missing else 0
