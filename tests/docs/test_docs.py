"""The documentation is held against the code: made pages are current, everything is documented, links lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import click
import pytest

from firstfault.cli.main import COMMANDS, load
from firstfault.i18n import messages
from firstfault.i18n.glossary import WORDS
from firstfault.model import views, words
from firstfault.signatures.library import load_library

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def generator():
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_made_pages_are_current():
    stale = [n for n, text in generator().pages().items() if (ROOT / n).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


CLOSED = {
    "Category": "category",
    "Strength": "strength",
    "Domain": "domain",
    "Form": "form",
    "Layer": "layer",
    "Phase": "phase",
    "Scope": "scope",
    "ActionKind": "action kind",
    "Tier": "tier",
    "Role": "role",
    "Blame": "blame",
    "CoverageState": "coverage state",
}


@pytest.mark.parametrize(("name", "kind"), CLOSED.items())
def test_every_word_of_a_closed_list_is_explained(name, kind):
    closed = getattr(words, name)
    assert issubclass(closed, Enum)
    assert set(WORDS[kind]) == {str(w) for w in closed}
    assert all(meaning.endswith(".") for meaning in WORDS[kind].values())


def test_every_word_of_the_rank_table_is_explained():
    assert set(WORDS["part in a hang"]) == set(views.PartWord.__args__)
    assert set(WORDS["rank state"]) == set(views.StateWord.__args__)


def test_every_word_that_a_report_looks_up_is_in_the_catalogue():
    say = messages("en")
    for prefix, closed in (("strength", words.Strength), ("category", words.Category), ("action", words.ActionKind)):
        for word in closed:
            assert f"{prefix}.{word}" in say
    source = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "src/firstfault/report").glob("*.py"))
    for key in re.findall(r"say\[\"([a-z_.0-9]+)\"", source):
        assert key in say, key


def options(command, name):
    found = [(name, o) for p in command.params if isinstance(p, click.Option) for o in p.opts]
    for inner in getattr(command, "commands", {}).values():
        found += options(inner, f"{name} {inner.name}")
    return found


def test_every_command_and_option_is_in_the_reference_and_in_the_readme():
    reference = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    for page in ("README.md", "README.zh-CN.md"):
        readme = (ROOT / page).read_text(encoding="utf-8")
        for name in COMMANDS:
            assert name == "diagnose" or f"firstfault {name}" in readme, (page, name)
    for name in COMMANDS:
        for where, option in options(load(name), f"firstfault {name}"):
            section = reference.split(f"`{where}`\n", 1)[1].split("\n## ")[0]
            assert option in section, (where, option)


def test_every_option_shown_in_a_page_exists():
    known = {o for name in COMMANDS for _, o in options(load(name), name)} | {"--help", "--version"}
    for page in PAGES:
        for block in re.findall(r"firstfault [^\n`|]*", page.read_text(encoding="utf-8")):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", block.split(" | ")[0].split(" -- ")[0]):
                if "kubectl" not in block and "sbatch" not in block:
                    assert option in known, (page.name, option)


def test_every_signature_is_listed():
    page = (ROOT / "docs/reference/signatures.md").read_text(encoding="utf-8")
    for signature in load_library().signatures:
        assert f"`{signature.id}`" in page


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)


def test_both_readmes_have_the_same_parts():
    english, chinese = ((ROOT / n).read_text(encoding="utf-8") for n in ("README.md", "README.zh-CN.md"))
    for pattern in (r"^## ", r"^- ", r"^\| ", r"```"):
        assert len(re.findall(pattern, english, re.MULTILINE)) == len(re.findall(pattern, chinese, re.MULTILINE)), (
            pattern
        )
    assert set(re.findall(r"docs/[\w/-]+\.md", english)) == set(re.findall(r"docs/[\w/-]+\.md", chinese))


@pytest.mark.parametrize("name", ["docs/tutorial.md", "docs/zh/tutorial.md"])
def test_the_tutorial_points_at_the_line_that_it_names(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    number, file = re.search(r"sed -n (\d+)p (\S+log)", page).groups()
    assert "FileNotFoundError" in (ROOT / file).read_text(encoding="utf-8").split("\n")[int(number) - 1]


def test_the_example_runs():
    out = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "api.py")], capture_output=True, text=True, check=True, timeout=120
    )
    assert "as JSON without names" in out.stdout


def test_the_house_files_name_what_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "test-core", "lint", "docs", "bench"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=False).returncode == 0


def test_every_path_of_the_repository_in_a_page_exists():
    named = re.compile(r"`((?:bench|docs|examples|src|tests|tools)/[\w./-]+)`")
    for page in PAGES:
        for path in named.findall(page.read_text(encoding="utf-8")):
            made = path.startswith("bench/data")
            assert made or (ROOT / path).exists(), (page.name, path)


def test_every_decision_and_example_is_linked_from_somewhere():
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    }
    for file in [*(ROOT / "docs" / "decisions").glob("*.md"), *(ROOT / "examples").glob("*.py")]:
        assert file in linked, file.name


def test_code_in_our_own_words_is_a_code_span_and_no_backtick_is_shown():
    for page in ("glossary.md", "reference/words.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert "\\`" not in text, page
        assert "`" in text, page


def test_only_the_tests_of_the_page_need_a_browser():
    # README and Makefile promise that `make test-core` needs none.
    marked = {
        f.relative_to(ROOT) for f in (ROOT / "tests").rglob("*.py") if "mark." + "browser" in f.read_text("utf-8")
    }
    assert marked == {Path("tests/browser/test_page.py"), Path("tests/browser/test_chinese.py")}
    core = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest-core:")[2].partition("\n\n")[0]
    assert '-m "not torch and not browser and not server and not slurm and not threads"' in core


def test_the_notebook_runs_and_shows_what_it_says():
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    assert all(not cell.outputs for cell in book.cells if cell.cell_type == "code")  # kept without what one run gave
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(ROOT / "examples")}}).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"text/markdown", "text/html", "text/plain"} <= kinds
    assert "software supported" in "".join(o.get("text", "") for o in shown)
