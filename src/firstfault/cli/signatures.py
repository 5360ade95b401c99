"""`firstfault signatures`: list what is known, check a folder of one's own, start a new signature.

Parses, calls the signatures room and prints; it knows no rule itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import format_option

if TYPE_CHECKING:
    from firstfault.model.patterns import Signature

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_ID = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


@click.group(name="signatures", short_help="List, check or start signatures.")
def command() -> None:
    """List the signatures, check a folder of your own, or start a new one."""


@command.command(name="list")
@click.option("--role", metavar="WORD", help="Only those of a role: cause, effect, teardown, context or noise.")
@click.option("--category", metavar="WORD", help="Only those of a category, such as storage_io.")
@click.option("--domain", metavar="WORD", help="Only those of a domain, such as memory.")
@click.option("--tier", metavar="WORD", help="Only those of a tier: killer, loop, io or context.")
@click.option("--text", metavar="TEXT", help="Only those whose id, title or meaning holds TEXT.")
@click.option(
    "--signatures",
    "site",
    multiple=True,
    type=FOLDER,
    metavar="DIR",
    help="A folder of your own signatures; may be given more than once.",
)
@format_option("text", "json")
def list_(site: tuple[Path, ...], form: str, text: str | None, **asked: str | None) -> int:
    """List the signatures: id, role, category and title."""
    from firstfault.cli.evidence import write
    from firstfault.signatures.library import load_library

    _known(asked)
    chosen = [s for s in load_library(site).signatures if _wanted(s, text, asked)]
    if form == "json":
        import msgspec

        from firstfault.report.json import neutral_json

        rows = [{"id": s.id, **msgspec.to_builtins(s.spec)} for s in chosen]
        write(neutral_json(msgspec.json.encode(rows)) + "\n")
        return 0
    wide = max((len(s.id) for s in chosen), default=0)
    lines = [f"{s.id:<{wide}}  {s.spec.role:<8}  {s.spec.category or '-':<20}  {s.spec.title}" for s in chosen]
    write("".join(line + "\n" for line in [*lines, f"{len(chosen)} signatures"]))
    return 0


def _known(asked: dict[str, str | None]) -> None:
    from firstfault.model.words import Category, Domain, Role, Tier

    for name, closed in (("role", Role), ("category", Category), ("domain", Domain), ("tier", Tier)):
        value = asked[name]
        words = [str(w) for w in closed]
        if value is not None and value not in words:
            raise click.BadParameter(f"{value!r} is none of {', '.join(words)}.", param_hint=f"--{name}")


def _wanted(signature: Signature, text: str | None, asked: dict[str, str | None]) -> bool:
    spec = signature.spec
    if any(value is not None and str(getattr(spec, name)) != value for name, value in asked.items()):
        return False
    return text is None or text.lower() in f"{signature.id}\n{spec.title}\n{spec.meaning}".lower()


@command.command(name="check", short_help="Check a folder of your own.")
@click.argument("folder", type=FOLDER)
def check(folder: Path) -> int:
    """Check a FOLDER of your own: form, examples, dialect, cost, overlap with the rest.

    Exits with 0 where all is well and 2 where a file is to be corrected.
    """
    from firstfault.cli.evidence import write
    from firstfault.report.neutral import neutral
    from firstfault.signatures.check import check_folder

    found = check_folder(folder)
    if not found.files and not found.complaints:
        raise click.UsageError(f"{folder} holds no signature (a .toml file in a folder named after its domain).")
    lines = [neutral(f"{c.where}: {c.what}. {c.fix}.") for c in found.complaints]
    lines += [f"note: {name} replaces the one that ships with firstfault" for name in found.replaced]
    bad = len({c.where for c in found.complaints})
    complaints = f"{_many(len(found.complaints), 'complaint')} in {_many(bad, 'file')}" if bad else "no complaint"
    lines.append(f"{_many(found.files, 'signature')} read, {complaints}")
    write("".join(line + "\n" for line in lines))
    return 2 if found.complaints else 0


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@command.command(name="new", short_help="Start a new signature.")
@click.argument("name", metavar="ID")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Your folder of signatures; it is made where it is not there.",
)
@click.option("--line", help="A real log line of this kind; it becomes the first example and pattern.")
def new(name: str, folder: Path, line: str | None) -> int:
    """Start a new signature: writes a commented file for the ID (`folder.name`, such as `storage.my_store_full`)."""
    from firstfault.cli.messages import tell
    from firstfault.signatures.template import fill

    if not _ID.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not an id: two words in small letters with a dot, such as `storage.my_store_full`."
        )
    file = folder.joinpath(*name.split(".")).with_suffix(".toml")
    if file.exists():
        raise click.UsageError(f"{file} is there already; edit it, or choose another id.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(fill(line), encoding="utf-8")
    tell(f"wrote {file}; fill it in, then run `firstfault signatures check {folder}`")
    return 0
