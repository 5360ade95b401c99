"""`firstfault explain`: what a signature, class, number or word means.

Parses, asks the pipeline and prints; it knows no word itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import format_option, lang_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from firstfault.pipelines.explain import Explained


@click.command(
    name="explain",
    short_help="Explain a signature, class, number or word.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, required=True, metavar="WORD...", type=click.UNPROCESSED)
@format_option("text", "json")
@lang_option
@click.option(
    "--signatures",
    "site",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of your own signatures; may be given more than once.",
)
def command(words: tuple[str, ...], form: str, lang: str, site: tuple[Path, ...]) -> int:
    """Explain a signature id, class word, Xid, exit code, signal, CUDA or NCCL error, or word.

    \b
    firstfault explain gpu.out_of_memory
    firstfault explain xid 79
    firstfault explain exit 137
    firstfault explain established
    """  # noqa: D301 - click reads the backspace
    from firstfault.cli.evidence import write
    from firstfault.i18n import messages, translator
    from firstfault.pipelines.errors import PipelineError
    from firstfault.pipelines.explain import explain

    asked = " ".join(words)
    answer = explain(asked, site=site)
    if not answer.found:
        near = ", ".join(f"`{n}`" for n in answer.near)
        raise PipelineError(
            f"no signature, table or glossary holds {asked!r}",
            fix=f"Did you mean {near}?"
            if near
            else "See `firstfault signatures list` and the glossary in the documentation.",
        )
    told = [_said(found, translator(lang)) for found in answer.found]
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        write(neutral_json(msgspec.json.encode(told, order="deterministic")) + "\n")
        return 0
    write("\n".join(_text(found, messages(lang), translator(lang)) for found in told))
    return 0


def _said(found: Explained, say: Callable[[str], str]) -> Explained:
    """The answer with its sentences in a language; words, facts and lines stay."""
    from msgspec.structs import replace

    return replace(
        found,
        title=say(found.title),
        meaning=say(found.meaning),
        not_proof=say(found.not_proof),
        advice=[say(step) for step in found.advice],
    )


def _text(found: Explained, say: Mapping[str, str], sentence: Callable[[str], str]) -> str:
    from firstfault.cli.terminal import columns
    from firstfault.report.neutral import neutral
    from firstfault.report.text import wrap

    width = columns()
    kind = say.get(f"explain.kind.{found.kind}") or sentence(found.kind)
    lines = [found.title, f"  {kind}: {found.word}"]
    if found.facts:
        lines += [f"  {line}" for line in wrap(", ".join(f"{k} {v}" for k, v in found.facts.items()), width - 2)]
    paragraphs = [("", found.meaning), (say["explain.not_proof"], found.not_proof)]
    for head, text in paragraphs:
        if text:
            lines += ["", *wrap(neutral(head + text), width)]
    for head, items in (
        (say["label.todo"], found.advice),
        (say["explain.lines"], found.examples),
        (say["explain.from"], found.sources),
    ):
        if items:
            lines += ["", head]
            for item in items:
                lines += ["  " + line for line in wrap(neutral(item), width - 2)]
    return "\n".join(lines) + "\n"
