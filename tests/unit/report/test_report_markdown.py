import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from firstfault.model.diagnosis import ChainLink
from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.publish import publish
from firstfault.pipelines.timeline import timeline
from firstfault.report.markdown import code, escape, told

SECTIONS = [
    "1. Job details",
    "2. Timeline",
    "3. Root-cause chain",
    "4. Key files",
    "5. Recommendations",
    "Checks",
    "Rival explanations",
]
SIDES = ["Storage side", "Client side", "Training configuration side"]


def test_the_five_sections_stand_in_their_order_then_checks_and_rivals(build_diagnosis):
    for diagnosis in (
        build_diagnosis(),
        build_diagnosis(chain=[], timeline=[], rivals=[], job={}, coverage=[], counts=[], attempts=[]),
    ):
        out = publish(diagnosis, "markdown", "secrets")
        assert re.findall(r"^## (.*)$", out, re.MULTILINE) == SECTIONS
        heads = re.findall(r"^### (.*)$", out, re.MULTILINE)
        assert [h for h in heads if h in SIDES] == SIDES


def section(markdown, head):
    return markdown.partition(f"### {head}\n")[2].partition("\n#")[0].strip()


def test_a_storage_fault_without_a_log_of_the_store_is_not_nothing_found_there(build_diagnosis):
    whole = build_diagnosis()
    stored = replace(
        whole, verdict=replace(whole.verdict, category=Category.STORAGE_IO), recommendations={"client": ["Look."]}
    )
    said = section(publish(stored, "markdown", "secrets"), "Storage side")
    assert "no log of the store itself is in these files" in said
    other = section(publish(replace(whole, recommendations={}), "markdown", "secrets"), "Storage side")
    assert other == "Nothing in these files points to this side."


def test_every_cited_line_has_its_file_and_line(build_diagnosis):
    out = publish(build_diagnosis(), "markdown", "secrets")
    assert out.count("`error-4711-4.out:1893`") >= 4
    assert "`error-4711-0.out:20`" in out
    assert "rank 5 waited for rank 37" in out
    assert "9: 2, 10: 1" in out


def inline(markdown):
    """What a reader sees, and which kinds of markup a line of Markdown gives."""
    tokens = MarkdownIt("commonmark").enable(["strikethrough", "table"]).parse(markdown)
    kinds = {t.type for t in tokens} | {c.type for t in tokens for c in t.children or []}
    words = "".join(c.content for t in tokens for c in t.children or [])
    return words, kinds


HOSTILE = [
    "# a",
    "- a",
    "1. a",
    "1) a",
    "[x](y)",
    "![x](y)",
    "<b>x</b>",
    "`x`",
    "*x*",
    "_x_",
    "__x__",
    "~~x~~",
    "a|b",
    "&lt;",
    "+ a",
    "===",
    "\\*",
    "> q",
    "http://x.y",
    "a__b__c",
    "*a_b*",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_plain_text(text):
    words, kinds = inline(escape(text))
    assert words == text
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("ask @alice and @org/team", ["@alice", "@org/team"]),
        ("as in #12, a/b#3, GH-4 and !5", ["#12", "a/b#3", "GH-4", "!5"]),
        ("a@b.org on GPU 3 at 50%2, x @ 3", []),
        ("plain words, *x* and `y`", []),
    ],
)
def test_what_a_forge_would_make_a_reference_of_is_a_code_span(text, spans):
    tokens = MarkdownIt("commonmark").parseInline(escape(text))[0].children
    assert [t.content for t in tokens if t.type == "code_inline"] == spans
    assert "".join(t.content for t in tokens) == text


@settings(max_examples=200)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40).map(str.strip).filter(bool))
@example("1.")
@example("  # x")
def test_any_escaped_text_is_plain_text(text):
    words, kinds = inline(escape(text))
    assert words == text.strip()
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}


@settings(max_examples=200)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40).filter(lambda t: t.strip()))
def test_any_code_span_shows_the_text_as_it_is(text):
    tokens = MarkdownIt("commonmark").parseInline(code(text))[0].children
    assert [t.type for t in tokens] == ["code_inline"]
    assert tokens[0].content == text


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="`"), max_size=30)


@settings(max_examples=200)
@given(PLAIN, PLAIN.filter(lambda t: t.strip()), PLAIN)
@example("Run ", "for p in $(kubectl get pods -o name); do n=${p#pod/} > *_x_*; done", ", then [look](x).")
def test_a_command_of_the_advice_is_a_code_span_with_every_character(before, command, behind):
    tokens = MarkdownIt("commonmark").parseInline(told(f"Do {before}`{command}`{behind}"))[0].children
    assert command in [t.content for t in tokens if t.type == "code_inline"]
    assert {t.type for t in tokens} <= {"text", "text_special", "code_inline"}


def test_rows_of_the_timeline_are_those_of_the_view_and_in_its_order(tmp_path):
    clocks = {
        "b.log": "2026-03-02T14:05:07Z [rank1] RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "2026-03-02T14:05:09Z [rank1] OSError: [Errno 28] No space left on device\n",
        "a.log": "2026-03-02T14:05:08Z [rank0] OSError: [Errno 28] No space left on device\n"
        "2026-03-02T14:05:01Z [rank0] ValueError: no batch\n",
        "c.log": "2026-03-01 09:00:00 [rank2] KeyError: 'x'\n2026-03-01 09:00:02 [rank3] KeyError: 'x'\n",
    }
    for name, text in clocks.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    view = timeline([tmp_path], DiagnoseOptions())
    found = diagnose([tmp_path])
    assert len(view.clocks) == 2
    assert [(e.clock, e.what, e.evidence) for e in found.timeline] == [
        (e.clock, e.what, e.evidence) for e in view.events
    ]
    for form in ("markdown", "html"):
        part = publish(found, form, "secrets").partition("Timeline")[2]
        places = [f"{e.evidence.file}:{e.evidence.line}" for e in view.events]
        at = [part.index(place) for place in places]
        if form == "markdown":
            assert at == sorted(at)


def test_log_text_cannot_make_a_heading_or_end_a_list(build_diagnosis):
    evil = "x` </code>\n## 9. Forged\n<script>"
    out = publish(build_diagnosis(evil, chain=[ChainLink(what=evil, why=evil)]), "markdown", "secrets")
    assert re.findall(r"^## (.*)$", out, re.MULTILINE) == SECTIONS
    assert "<script>" not in MarkdownIt("commonmark").render(out)


def test_the_moments_stand_in_the_verdict(build_diagnosis):
    text = publish(build_diagnosis(), "markdown", "secrets")
    assert "- When: first sign 2026-03-02 14:05:01" in text
