"""Lists the sentences that reports can hold, as templates, and what a catalogue of another language lacks of them.

    python tools/messages.py zh            what is missing and what is left over, by room
    python tools/messages.py zh --write    adds the missing ones, untranslated, to the catalogue's files (null)

Needs the package on its path. Sentences are the texts of the code (strings and f-strings with at least two words), the
texts of the signatures and of the vendor tables, the help of the command line and the words that `explain` knows. A
sentence that no report shows is listed in `kept.json` of the language; phrases out of which sentences are put together
stand in `more.json`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import tomllib

from firstfault.cli.group import group
from firstfault.cli.helping import joined, paragraphs
from firstfault.cli.main import COMMANDS
from firstfault.cli.main import load as load_command
from firstfault.i18n.glossary import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parent.parent / "src" / "firstfault"
CATALOGUES = SOURCE / "i18n"
ROOMS = (
    "analysis",
    "checkpoint",
    "config",
    "dataset",
    "guard",
    "metrics",
    "pipelines",
    "preflight",
    "readers",
    "report",
)
"""Rooms whose sentences reach a report."""
SIGNATURE_TEXTS = ("title", "meaning", "not_proof", "advice", "collect")
TOLD_FILES = (
    "collect/boxes.py",
    "incidents/lint.py",
    "incidents/proofs.py",
    "incidents/ran.py",
    "incidents/record.py",
    "incidents/verification.py",
    "scan/engines.py",
    "scan/run.py",
    "model/until.py",
    "scan/stretch.py",
    "recorder/checks.py",
    "watch/board.py",
    "watch/slurm.py",
)
"""Files of other rooms whose sentences a command shows: of records and re-runs, of machines, and why something was not read."""
ERROR_ROOMS = ("cli", "collect", "incidents", "signatures", "watch")
"""Rooms whose errors are told on standard error."""
_TELLING = {"BadParameter", "IncidentError", "PipelineError", "SignatureError", "UsageError", "echo", "fail", "note", "tell", "write"}  # fmt: skip
"""Calls whose texts are such an error, or another word of the command line."""
_TELLING_NAMES = {"fix", "wanted", "why"}
"""Names of arguments whose texts are told, whatever is called."""
OF_CLICK = (
    "No such option: {0}",
    "No such option '{0}'.",
    "Did you mean {0}?",
    "(Possible options: {0})",
    "No such command {0}.",
    "Missing argument {0}.",
    "Missing option {0}.",
    "Missing command.",
    "Invalid value for {0}: {1}",
    "Invalid value: {0}",
    "Got unexpected extra argument ({0})",
    "Got unexpected extra arguments ({0})",
    "Option {0} requires an argument.",
    "Option {0} requires {1} arguments.",
    "Option {0} does not take a value.",
    "Path {0} does not exist.",
    "File {0} does not exist.",
    "Directory {0} does not exist.",
    "Path {0} is not readable.",
    "File {0} is not readable.",
    "Directory {0} is a file.",
    "File {0} is a directory.",
    "{0} is not a valid integer.",
    "{0} is not a valid float.",
    "{0} is not a valid integer range.",
    "{0} is not one of {1}.",
    "{0} is not in the range {1}.",
)
"""Errors of click, in its words."""
_PATTERN = re.compile(r"\\[dsSwWbnt.]|\(\?|\[\^|^[\w.-]+$|%[sdr]|[<>]{2}|^\{\w+\}$")
_WORDS = re.compile(r"[A-Za-z][a-z']+")


def sentences() -> dict[str, dict[str, str]]:
    """File of the catalogue -> template -> the place where it stands first."""
    found: dict[str, dict[str, str]] = {}
    for room in ROOMS:
        for file in sorted((SOURCE / room).rglob("*.py")):
            place = file.relative_to(SOURCE).as_posix()
            for line, text in texts_of(ast.parse(file.read_text(encoding="utf-8"))):
                found.setdefault(f"{room}.json", {}).setdefault(text, f"{place}:{line}")
    for file in sorted((SOURCE / "signatures").rglob("*.toml")):
        if "tables" in file.parts:
            continue
        values = tomllib.loads(file.read_text(encoding="utf-8"))
        place = file.relative_to(SOURCE).as_posix()
        for name in SIGNATURE_TEXTS:
            value = values.get(name) or []
            for text in [value] if isinstance(value, str) else value:
                found.setdefault(f"signatures_{file.parent.name}.json", {}).setdefault(text, place)
    found["tables.json"] = table_texts()
    found["errors.json"] = error_texts()
    found["cli.json"] = help_texts()
    found["glossary.json"] = {
        text: f"i18n/glossary.py: {group}" for group, words in WORDS.items() for text in words.values()
    }
    return found


def error_texts() -> dict[str, str]:
    """What the command line says where it cannot go on, and beside a report -> the place where it stands first."""
    found = dict.fromkeys(OF_CLICK, "click")
    for place in TOLD_FILES:
        for line, text in texts_of(ast.parse((SOURCE / place).read_text(encoding="utf-8"))):
            found.setdefault(text, f"{place}:{line}")
    for room in ERROR_ROOMS:
        for file in sorted((SOURCE / room).rglob("*.py")):
            place = file.relative_to(SOURCE).as_posix()
            tree = ast.parse(file.read_text(encoding="utf-8"))
            named = {
                target.id: node.value for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
            }  # fmt: skip
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call):
                    continue
                telling = getattr(node.func, "attr", getattr(node.func, "id", "")) in _TELLING
                given = [*node.args, *(k.value for k in node.keywords)] if telling else [k.value for k in node.keywords if k.arg in _TELLING_NAMES]  # fmt: skip
                said = [named.get(one.id, one) if isinstance(one, ast.Name) else one for one in given]
                for line, text in texts_of(ast.Tuple(said)):
                    found.setdefault(text.strip(), f"{place}:{line}")
    return found


def table_texts() -> dict[str, str]:
    """Title, names that are words, meaning and action of the vendor tables' rows -> the table."""
    found: dict[str, str] = {}
    for file in sorted((SOURCE / "signatures" / "tables").glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        place = f"signatures/tables/{file.name}"
        found.setdefault(table["title"], place)
        for row in table["rows"].values():
            name = row["name"] if _is_sentence(row["name"]) else ""
            for text in filter(None, (name, row.get("meaning"), row.get("action"))):
                found.setdefault(text, place)
    return found


def help_texts() -> dict[str, str]:
    """Paragraph of the command line's help, on one line -> the command whose help shows it first."""
    found = dict.fromkeys(
        ("Usage:", "Options", "Commands", "Show this message and exit.", "Show the version and exit.", "[default: "),
        "click",
    )

    def look(command: click.Command, name: str) -> None:
        options = [p.help for p in command.params if isinstance(p, click.Option)]
        for text in (command.help, command.short_help, command.epilog, *options):
            for paragraph, as_written in paragraphs(text or ""):
                first, *rest = paragraph.split("\n")
                example = as_written and any(line.startswith("  ") for line in rest)
                if paragraph and not first.startswith("firstfault "):
                    found.setdefault(joined(first if example else paragraph), name)
        for inner, one in getattr(command, "commands", {}).items():
            look(one, f"{name} {inner}")

    look(group(COMMANDS), "firstfault")
    for name, (_, line) in COMMANDS.items():
        found.setdefault(line, name)
        look(load_command(name), f"firstfault {name}")
    return found


def texts_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and template of each sentence of a module; docstrings and annotations are none."""
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            silent.update(id(v) for v in node.values)
            silent.update(id(c) for v in node.values if isinstance(v, ast.FormattedValue) and v.format_spec is not None for c in ast.walk(v.format_spec))  # fmt: skip
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"lazy", "AssertionError", "TypeError"}:  # fmt: skip
            silent.update(id(c) for c in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        text = _template(node)
        if text and _is_sentence(text):
            yield node.lineno, text  # type: ignore[attr-defined]


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        number = iter(range(len(node.values)))
        return "".join(str(v.value) if isinstance(v, ast.Constant) else f"{{{next(number)}}}" for v in node.values)
    return ""


def _is_sentence(text: str) -> bool:
    fixed = re.sub(r"\{\w+\}", " ", text)
    return " " in text.strip() and len(_WORDS.findall(fixed)) >= 1 and not _PATTERN.search(text)


def load(language: str, name: str) -> dict[str, str | None]:
    """A file of the catalogue; empty where it is not there."""
    file = CATALOGUES / language / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write(language: str, name: str, texts: dict[str, str | None]) -> None:
    """Writes a file of the catalogue, one template a line."""
    file = CATALOGUES / language / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def missing(language: str) -> dict[str, dict[str, str]]:
    """File -> template -> place, of what the catalogue has no translation of."""
    kept = set(load(language, "kept.json"))
    lacking: dict[str, dict[str, str]] = {}
    for name, texts in sentences().items():
        known = load(language, name)
        for text, place in texts.items():
            if not known.get(text) and text not in kept:
                lacking.setdefault(name, {})[text] = place
    return lacking


def stale(language: str) -> dict[str, list[str]]:
    """File -> templates that the catalogue has and no text of the code is any more."""
    old: dict[str, list[str]] = {}
    for name, texts in sentences().items():
        gone = [text for text in load(language, name) if text not in texts]
        if gone:
            old[name] = gone
    return old


def main() -> int:
    """Prints what is missing; ends with 1 where anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language")
    parser.add_argument("--write", action="store_true", help="add what is missing, drop what is left over")
    asked = parser.parse_args()
    lacking, old = missing(asked.language), stale(asked.language)
    for name in sorted({*lacking, *old}):
        print(f"{name}: {len(lacking.get(name, {}))} missing, {len(old.get(name, []))} left over")
        if asked.write:
            texts = {t: s for t, s in load(asked.language, name).items() if t not in set(old.get(name, []))}
            write(asked.language, name, {**texts, **dict.fromkeys(lacking.get(name, {}))})
        else:
            for text, place in lacking.get(name, {}).items():
                print(f"  {place}: {text!r}")
    return 1 if lacking or old else 0


if __name__ == "__main__":
    sys.exit(main())
