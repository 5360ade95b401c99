"""Writes the pages that are made from the code: commands, JSON, signatures, words, glossary, schema, shown output.

`python tools/generate_docs.py` writes them; a test holds that they are current.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import firstfault
from firstfault.cli.main import COMMANDS, load, run
from firstfault.i18n.glossary import WORDS
from firstfault.preflight.families import FAMILIES
from firstfault.preflight.job_checks import JOB_CHECKS
from firstfault.preflight.settings import table as variables
from firstfault.readers.identity import body_starts
from firstfault.report.markdown import code, escape
from firstfault.report.schema import DOCUMENTS, file_of, generate
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
MADE = "<!-- Made by tools/generate_docs.py; edit the code, then run `make docs`. -->\n"
DEMO = re.compile(r"(<!-- demo(?P<words>(?: [^ >]+)*) -->\n```text\n).*?(```\n<!-- /demo -->)", re.DOTALL)
SHOWN = (
    "README.md",
    "README.zh-CN.md",
    "docs/tutorial.md",
    "docs/zh/tutorial.md",
    "docs/how-to/see-every-rank.md",
    "docs/how-to/follow-the-order.md",
)
"""Pages that show the output of the bundled incident between `<!-- demo -->` marks; the mark may hold a command and options."""
VIEWS = """`firstfault schema` prints the schema from which this page is made; `firstfault schema ranks`, `timeline`, `stacks`,
`flight-recorder`, `memory`, `metrics`, `compare`, `diff`, `checkpoint`, `check-config`, `check-data`, `guard`, `preflight` and `probe` print those of [RankTable](#ranktable), [Timeline](#timeline), [StackTable](#stacktable),
[RecorderView](#recorderview), [MemoryTable](#memorytable), [MetricsView](#metricsview), [RunComparison](#runcomparison),
[Comparison](#comparison), [Checkpoint](#checkpoint), [ConfigCheck](#configcheck), [DataCheck](#datacheck), [Results](#results) (of `guard --show`), [Preflight](#preflight) and [Environment](#environment), which the commands of
these names print, `checkpoint-compare` that of [CheckpointComparison](#checkpointcomparison), `probe-compare` that of
[EnvironmentComparison](#environmentcomparison)."""


RUN = re.compile(r"(<!-- run: (.*?) -->\n```text\n).*?(```\n<!-- /run -->)", re.DOTALL)
RUNS = (
    "docs/how-to/read-flight-recorder-dumps.md",
    "docs/how-to/read-stacks.md",
    "docs/explanation/several-witnesses.md",
)
"""Pages that show the output of the whole command in their `<!-- run: … -->` marks."""


def pages() -> dict[str, str]:
    """Every made file, by path below the root, with its text."""
    made = {
        **{f"src/firstfault/report/{file_of(name)}": generate(name) for name in DOCUMENTS},
        "docs/reference/commands.md": commands(),
        "docs/reference/python-api.md": python_api(),
        "docs/reference/json.md": json_fields(),
        "docs/reference/signatures.md": signatures(),
        "docs/reference/storage-clients.md": storage_clients(),
        "docs/reference/checks.md": checks(),
        "docs/reference/words.md": words(),
        "docs/glossary.md": glossary(),
    }
    if importlib.util.find_spec("firstfault.pipelines.diagnose") is not None:
        for name in SHOWN:
            text = (ROOT / name).read_text(encoding="utf-8")
            made[name] = DEMO.sub(lambda m: m[1] + demo(tuple(m["words"].split())) + m[3], text)
        for name in RUNS:
            text = (ROOT / name).read_text(encoding="utf-8")
            made[name] = RUN.sub(lambda m: m[1] + shown(m[2].split()) + m[3], text)
    return made


@cache
def demo(words: tuple[str, ...] = ()) -> str:
    """What `make demo` prints, 100 columns wide, or what another command says of the same incident."""
    return shown([*words, "--exit-zero", "examples/incident/logs"])


def shown(words: list[str]) -> str:
    """What a command prints, 100 columns wide."""
    held = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    here = Path.cwd()
    try:
        os.chdir(ROOT)
        with contextlib.redirect_stdout(out):
            run(words)
            out.flush()
    finally:
        os.chdir(here)
        if held is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = held
    raw = out.detach()
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("utf-8")


def commands() -> str:
    """The reference of commands and options."""
    parts = [MADE, "# Commands", "Exit codes of every command are in [words](words.md#exit-code)."]
    for name in COMMANDS:
        command = load(name)
        assert isinstance(command, click.Command)
        parts += _command(command, f"firstfault {name}", 2)
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command, name: str, depth: int) -> list[str]:
    ctx = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(ctx)])
    parts = ["#" * depth + f" `{name}`", f"```text\n{usage}\n```", _prose(command.help or "")]
    options = [p for p in command.params if isinstance(p, click.Option)]
    rows = [o.get_help_record(ctx) for o in options]
    lines = [f"- {code(r[0])}: {' '.join(r[1].split())}" for r in rows if r is not None]
    parts.append("\n".join(lines))
    for inner in getattr(command, "commands", {}).values():
        parts += _command(inner, f"{name} {inner.name}", depth + 1)
    return [p for p in parts if p]


def _prose(text: str) -> str:
    paragraphs = []
    # Python 3.13 takes the indentation out of docstrings by itself, earlier ones do not.
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith("\b"):
            paragraphs.append("```text\n" + part.removeprefix("\b\n") + "\n```")
        else:
            paragraphs.append(" ".join(part.split()))
    return "\n\n".join(paragraphs)


API = """What `import firstfault` offers; the [how-to](../how-to/use-it-from-python.md) shows it at work. Names, arguments and
meanings stay within a major version. The fields of what is returned are those of the [JSON](json.md): the first heading there
is the type `Diagnosis` here."""


def python_api() -> str:
    """The reference of what programs call, from signatures and docstrings."""
    parts = [MADE, "# Python API", API]
    for name in firstfault.__all__:
        if name == "__version__":
            continue
        made = getattr(firstfault, name)
        if inspect.isclass(made):
            # What is inherited as it is needs no entry of its own; what a notebook calls is no business of a reader.
            methods = [n for n, m in vars(made).items() if inspect.isfunction(m) and not n.startswith("_")]
            parts += [f"## `{name}`", _documented(made.__doc__)]
            if made is firstfault.DiagnoseOptions:
                parts.append(_options())
            for inner in methods:
                method = getattr(made, inner)
                parts += [
                    f"### `{name}.{inner}`",
                    f"```python\n{inner}{_call(method, drop=1)}\n```",
                    _documented(method.__doc__),
                ]
        else:
            parts += [f"## `{name}`", f"```python\n{name}{_call(made)}\n```", _documented(made.__doc__)]
    return "\n\n".join(p for p in parts if p) + "\n"


def _call(function: Callable[..., object], *, drop: int = 0) -> str:
    signature = inspect.signature(function)
    told = str(signature.replace(parameters=list(signature.parameters.values())[drop:]))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", told)


def _options() -> str:
    """The options with their defaults, as their class tells them."""
    source = inspect.getsource(firstfault.DiagnoseOptions)
    rows = re.findall(r'^    (\w+): (.+?) = (.+)\n    """(.+?)"""', source, re.MULTILINE)
    assert [r[0] for r in rows] == list(firstfault.DiagnoseOptions.__struct_fields__)
    return "\n".join(
        f"- {code(name)} ({code(kind)}, default {code(default)}): {prose(says)}" for name, kind, default, says in rows
    )


def _documented(text: str | None) -> str:
    """A docstring as Markdown: what it says, then its sections as lists."""
    said, *sections = re.split(r"\n\n(?=(?:Args|Returns|Raises):\n)", inspect.cleandoc(text or ""))
    parts = [prose(" ".join(said.split()))]
    for section in sections:
        head, _, body = section.partition("\n")
        entries = re.split(r"\n(?=    \S)", "\n" + body)[1:]
        if head == "Returns:":
            parts.append("Returns: " + prose(" ".join(body.split())))
            continue
        rows = [" ".join(entry.split()).partition(": ") for entry in entries]
        parts.append(
            "\n".join(
                [
                    {"Args:": "Arguments:", "Raises:": "Raises:"}[head],
                    "",
                    *(f"- {code(a)}: {prose(b)}" for a, _, b in rows),
                ]
            )
        )
    return "\n\n".join(parts)


def json_fields() -> str:
    """The reference of the JSON form."""
    held: dict[str, dict[str, Any]] = {name: json.loads(generate(name)) for name in DOCUMENTS}
    parts = [
        MADE,
        "# JSON",
        escape(held["diagnosis"]["description"]),
        VIEWS,
    ]
    definitions: dict[str, Any] = {}
    for schema in held.values():
        definitions.update({name: part for name, part in schema["$defs"].items() if name not in definitions})
    ordered = ["Diagnosis", "Verdict", *(n for n in definitions if n not in {"Diagnosis", "Verdict"})]
    for name in ordered:
        part = definitions[name]
        parts += [f"## {name}", escape(part.get("description", ""))]
        if "enum" in part:
            parts.append(", ".join(code(str(v)) for v in part["enum"]))
        rows = [
            f"| {code(field)} | {_type(spec)} | {escape(spec.get('description', ''))} |"
            for field, spec in part.get("properties", {}).items()
        ]
        if rows:
            parts.append("\n".join(["| field | type | says |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(p for p in parts if p) + "\n"


def _type(spec: dict[str, Any]) -> str:
    if "$ref" in spec:
        name = spec["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in spec:
        return " or ".join(_type(s) for s in spec["anyOf"])
    if "enum" in spec:
        return ", ".join(code(str(v)) for v in spec["enum"])
    if spec.get("type") == "array":
        return f"list of {_type(spec['items'])}"
    if spec.get("type") == "object":
        return f"map of text to {_type(spec['additionalProperties'])}"
    return {"integer": "whole number", "string": "text", "null": "null"}.get(
        spec.get("type", ""), spec.get("type", "any")
    )


def signatures() -> str:
    """The list of signatures and vendor tables."""
    library = load_library()
    parts = [
        MADE,
        "# Signatures",
        "`firstfault explain ID` tells the rest: what it does not prove, what to do, examples.",
    ]
    folder = ""
    for signature in library.signatures:
        if signature.id.split(".")[0] != folder:
            folder = signature.id.split(".")[0]
            parts += [f"## {folder}", "| id | role | category | title |\n| --- | --- | --- | --- |"]
        spec = signature.spec
        parts[-1] += f"\n| {code(signature.id)} | {spec.role} | {spec.category or '-'} | {escape(spec.title)} |"
    parts += ["## Vendor tables", "| table | rows | holds | from |\n| --- | --- | --- | --- |"]
    for name, table in sorted(library.tables.items()):
        parts[-1] += f"\n| {code(name)} | {len(table.rows)} | {escape(table.title)} | {escape(table.source)} |"
    return "\n\n".join(parts) + "\n"


CLIENTS_TEXT = """What each client of a store and each file system prints when a read or a write is repeated, given up or
refused, and which signature knows it. A line that says that a request is repeated is never a fault; one that gives up is the
store's, and a store that all share is nobody's. Lines marked † were read in the client's own source, the others in public
logs. Every line here is a test (`tests/signatures/clients.toml`)."""
SAYS = {
    "retried": "repeated: no fault yet",
    "gave_up": "given up",
    "refused": "refused: rights, name, credentials",
    "kernel": "the client's kernel",
    "daemon": "the store's daemon",
}
"""What a line of a client of a store tells, in the words of the page."""


def storage_clients() -> str:
    """What clients of stores and file systems print, by version, and the signature that knows it."""
    data = tomllib.loads((ROOT / "tests" / "signatures" / "clients.toml").read_text(encoding="utf-8"))
    parts = [
        MADE,
        "# Clients of stores",
        CLIENTS_TEXT,
    ]
    for client in data["client"]:
        parts += [f"## {escape(client['name'])}", "| versions | says | line | signature |\n| --- | --- | --- | --- |"]
        for line in client["line"]:
            text = line["text"].split("|")[0]
            shown_text = text if len(text) <= 110 else text[:109] + "…"
            mark = " †" if line.get("read") else ""
            known = (
                ", ".join(code(name) for name in _known(text)) or "the class of the exception and the frames above it"
            )
            parts[-1] += f"\n| {escape(line['versions'])}{mark} | {SAYS[line['says']]} | {code(shown_text)} | {known} |"
    return "\n\n".join(parts) + "\n"


def _known(text: str) -> list[str]:
    """Signatures that a line matches, without those that others make more precise."""
    library = load_library()
    line = text.encode()
    found = {s.id: s.spec for s in library.signatures if Matcher(s.spec).find(line, body_starts(line))}
    refined = {general for spec in found.values() for general in spec.refines}
    return [name for name, spec in found.items() if name not in refined and not spec.generic]


CHECKS_TEXT = """What `firstfault preflight` looks at ([how to](../how-to/check-before-the-run.md)). *Each* says whether a check is made by
every rank, or once on a machine. The last column names signatures and recorded incidents that it is there to prevent;
`firstfault explain` tells of them."""
SETTINGS_TEXT = """The table of variables behind the checks `settings.*`. Names that are not in it are not told, unless they are nearly one that
is: plugins have names of their own."""


def checks() -> str:
    """Every check before a run, and the table of variables."""
    parts = [MADE, "# Checks before a run", CHECKS_TEXT]
    head = "| check | looks at | each | why | prevents |\n| --- | --- | --- | --- | --- |"
    for family, rows in [*FAMILIES.items(), ("job", JOB_CHECKS)]:
        lines = [
            f"| {code(c.id)} | {escape(c.title)} | {getattr(c, 'place', 'job')} | {escape(c.why)} | {', '.join(map(code, c.prevents)) or '-'} |"
            for c in rows
        ]
        parts += [f"## {family}", "\n".join([head, *lines])]
    data = variables()
    parts += ["## Variables", SETTINGS_TEXT]
    for title, head, rows in (
        ("Other names", "| old | new | since | old one works |", [(r["old"], r["new"], r["since"], "yes" if r["works"] else "no") for r in data["renamed"]]),
        ("Read by nobody", "| variable | instead |", [(r["name"], r["fix"]) for r in data["unread"]]),
        ("Values", "| variable | takes | else |", [(", ".join(r["names"]), _takes(r), r["says"]) for r in data["value"]]),
        ("Dangerous", "| variable | value | because |", [(r["name"], ", ".join(r["values"]) or "any" if "values" in r else f"below {r['below']}", r["says"]) for r in data["danger"]]),
        ("In conflict", "| one | other | because |", [(r["first"], r["second"], r["says"]) for r in data["conflict"]]),
        ("Known names from", "| prefix | source |", [(r["prefix"], r["source"]) for r in data["known"]]),
    ):  # fmt: skip
        bar = "|" + " --- |" * head.count(" | ") + " --- |"
        parts += [
            f"### {title}",
            "\n".join([head, bar, *("| " + " | ".join(prose(c) for c in row) + " |" for row in rows)]),
        ]
    return "\n\n".join(parts) + "\n"


def _takes(row: dict[str, Any]) -> str:
    """What a variable may hold, in words."""
    if "words" in row:
        return ", ".join(w or "nothing" for w in row["words"])
    return f"{row['least']} to {row['most']}" if "most" in row else f"a whole number from {row['least']}"


def words() -> str:
    """The closed lists of words and the exit codes."""
    parts = [
        MADE,
        "# Words",
        "The closed lists that a diagnosis uses. The words of the field are in the [glossary](../glossary.md).",
    ]
    for kind, entries in WORDS.items():
        if kind == "word":
            continue
        parts += [f"## {kind.capitalize()}", "\n".join(f"- {code(w)}: {prose(m)}" for w, m in entries.items())]
    return "\n\n".join(parts) + "\n"


def prose(text: str) -> str:
    """Our own text, in which code stands in backticks: those are code spans, everything else is escaped."""
    return "".join(code(part) if n % 2 else escape(part) for n, part in enumerate(text.split("`")))


def glossary() -> str:
    """The words of the field, by alphabet."""
    lines = [f"**{escape(word)}**\n: {prose(meaning)}" for word, meaning in sorted(WORDS["word"].items())]
    return "\n\n".join([MADE, "# Glossary", "One word for each thing, here and in the code.", *lines]) + "\n"


def main() -> int:
    """Writes what is not current and says so."""
    for name, text in pages().items():
        file = ROOT / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
