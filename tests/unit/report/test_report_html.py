"""The HTML report as text: structure, escaping, policy, packaged script. How it looks and acts is tested in a browser."""

import base64
import hashlib
import html
import json
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.model.diagnosis import (
    Action,
    AttemptSummary,
    ChainLink,
    CoverageRow,
    Fact,
    NaiveReading,
    Recurrence,
    RivalSummary,
    SeenBefore,
    TimelineEntry,
)
from firstfault.model.metrics import MetricFinding
from firstfault.model.page import Context, Course, CoursePoint, GroupColumns, Lanes, Page, RankColumns
from firstfault.model.plots import Plot, PlotLine, PlotMark, Plots
from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.publish import publish, publish_page
from firstfault.report.html import embedded

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
ASSETS = ROOT / "src" / "firstfault" / "report" / "assets"
SECTIONS = ["job", "timeline", "chain", "files", "recommendations"]
EVIL = "</script><img src=x onerror=alert(1)>\"'`<!--{{7*7}}{%x%}\u2028\x1b[31m\u202e&lt;]]>"


class Reader(HTMLParser):
    """What a browser would make of a page: elements with attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.raw = []
        self.words = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

        self.inside = tag in {"script", "style"}
        if self.inside:
            self.raw.append("")

    def handle_endtag(self, _tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.raw[-1] += data
        else:
            self.words.append(data)

    def with_tag(self, tag):
        return [a for t, a in self.elements if t == tag]


def evil_page(build, text):
    """A page in which one text stands wherever a text of a log can stand."""
    plain = build(text)
    line = plain.verdict.trigger
    line = type(line)(file=text, line=3, column=1, text=text, time=line.time)
    everywhere = build(
        text,
        job={"command": Fact(value=text, evidence=[line])},
        chain=[ChainLink(what=text, why=text, evidence=[line])],
        timeline=[TimelineEntry(time=None, what=text, evidence=line)],
        rivals=[
            RivalSummary(
                category=Category.NETWORK,
                strength=Strength.POSSIBLE,
                supports=[text],
                against=[text],
                settled_by=[text],
            )
        ],
        naive=[NaiveReading(reading="last_error", says=text, dropped_because=text, evidence=[line])],
        coverage=[CoverageRow(file=text, state=CoverageState.DAMAGED, reason=text)],
        attempts=[AttemptSummary(number=n, ended="failed", diagnosed=n == 2, summary=text) for n in (1, 2)],
        recurrence=[Recurrence(attempts=[1, 2], what=text, hosts=[text])],
        recommendations={"client": [text]},
        collect_next=[text],
        key_lines=[line],
        seen_before=[
            SeenBefore(id=text, title=text, state="fixed", verified=False, fix=text, by="lines", equal=[text])
        ],
    )
    return Page(
        diagnosis=everywhere,
        ranks=RankColumns(
            rank=[0, 1],
            host=[0, None],
            local_rank=[None, None],
            node_rank=[None, None],
            state=[0, 0],
            part=[None, None],
            outlier=[True, False],
            last_step=[None, 3],
            phase=[None, None],
            note=[0, None],
            file=[0, None],
            line=[3, None],
            hosts=[text],
            states=["failed"],
            notes=[text],
            files=[text],
            groups=[GroupColumns(name=text, rows=[0], ops=[text])],
        ),
        lanes=Lanes(origin=line.time, seconds=2.0),
        context=[Context(file=text, first=2, lines=[text, text, text])],
        plots=Plots(
            plots=[
                Plot(
                    column="loss",
                    courses=1,
                    low=1.0,
                    high=2.0,
                    lines=[PlotLine(file=text, device=text, host=text, x=[1.0], y=[2.0])],
                    marks=[PlotMark(kind="nan", x=1.0, text=text, evidence=line)],
                )
            ],
            findings=[
                MetricFinding(claim=text, strength=Strength.POSSIBLE, supports=[text], against=[text], next=[text])
            ],
        ),
        courses=[
            Course(gpu=0, host=text, bus=text, samples=1, told=True, points=[CoursePoint(what="lost", evidence=line)])
        ],
    )


@pytest.mark.parametrize("full", [True, False])
def test_the_five_sections_stand_in_their_order_then_checks_and_rivals(build_diagnosis, full):
    empty = {
        "chain": [],
        "timeline": [],
        "rivals": [],
        "job": {},
        "coverage": [],
        "counts": [],
        "attempts": [],
        "naive": [],
    }
    page = Reader(publish(build_diagnosis(**({} if full else {**empty, "key_lines": []})), "html", "secrets"))
    assert [a["id"] for a in page.with_tag("section")] == ["verdict", *SECTIONS, "checks", "rivals"]


def test_what_a_tired_reader_needs_stands_above_the_sections(build_diagnosis):
    top = publish(build_diagnosis(), "html", "secrets").partition('<section id="job"')[0]
    words = " ".join(" ".join(Reader(top).words).split())
    for needed in (
        "FAILED",
        "late on the CPU side",
        "supported",
        "Rank 37 (node-04) never entered BROADCAST 7727",
        "rank 37 on node-04 (established",
        "2026-03-02 14:05:01",
        "127 of 128 ranks",
        "41 of 41 cited lines re-read",
        "fix, then rerun",
        "Rerun from the last checkpoint.",
        "error-4711-4.out:1893",
        "[rank37]: tokenizing shard 12 of 40",
    ):
        assert needed in words, needed


def test_the_command_that_drains_the_named_hosts_can_be_copied(build_diagnosis):
    verdict = build_diagnosis().verdict
    action = Action(kind=ActionKind.RESTART_WITHOUT, exclude_hosts=["node-04"], exclude_hostlist="node-04")
    changed = type(verdict)(**{f: getattr(verdict, f) for f in verdict.__struct_fields__} | {"action": action})
    buttons = Reader(publish(build_diagnosis(verdict=changed), "html", "secrets")).with_tag("button")
    commands = [b["data-copy"] for b in buttons if "data-copy" in b]
    assert "scontrol update NodeName='node-04' State=DRAIN Reason='firstfault'" in commands


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80))
@example(EVIL)
@example("</style><script>x</script>")
@example("{{ say }}")
def test_no_text_becomes_markup_wherever_it_stands(build_diagnosis, text):
    calm = Reader(publish_page(evil_page(build_diagnosis, "plain words"), "none"))
    page = Reader(publish_page(evil_page(build_diagnosis, text), "none"))
    tags = [t for t, _ in page.elements]
    assert {t: tags.count(t) for t in tags if t in {"script", "style", "img", "svg", "a", "section", "meta"}} == {
        t: [t for t, _ in calm.elements].count(t) for t in ("script", "style", "svg", "a", "section", "meta")
    }
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
    assert all(a["href"].startswith("#") for a in page.with_tag("a"))
    assert page.raw[-1] == calm.raw[-1]


def test_hostile_text_is_there_as_text_and_acts_nowhere(build_diagnosis):
    out = publish_page(evil_page(build_diagnosis, EVIL), "none")
    assert "<img src=x onerror=alert(1)>" in " ".join(Reader(out).words)
    assert not [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@given(
    st.recursive(
        st.text() | st.none() | st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_data_are_the_same_and_cannot_end_their_element(value):
    text = embedded(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_the_policy_names_the_style_and_the_script_that_stand_there_and_nothing_else(build_diagnosis):
    page = Reader(publish(build_diagnosis(), "html", "secrets"))
    policy = next(a["content"] for a in page.with_tag("meta") if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, text in (("style-src", page.raw[0]), ("script-src", page.raw[-1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert "unsafe" not in policy
    assert not re.search(r"https?:", policy)


def test_nothing_on_the_page_is_fetched(build_diagnosis):
    page = Reader(publish(build_diagnosis(), "html", "secrets"))
    assert not [a for _, a in page.elements if {"src", "srcset", "action", "poster"} & set(a)]
    assert not [t for t, _ in page.elements if t in {"link", "iframe", "object", "embed", "base", "form"}]
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", page.raw[0] + page.raw[-1])


def test_every_link_has_its_target_and_every_name_is_one(build_diagnosis):
    page = Reader(publish_page(evil_page(build_diagnosis, "plain words"), "secrets"))
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(names) == len(set(names))
    assert {a["href"][1:] for a in page.with_tag("a")} <= set(names)


def test_a_cited_line_stands_among_its_neighbours(build_diagnosis):
    near = [f"step {n}" for n in range(1888, 1899)]
    context = [Context(file="error-4711-4.out", first=1888, lines=near)]
    words = "".join(Reader(publish_page(Page(diagnosis=build_diagnosis(), context=context), "secrets")).words)
    rows = re.findall(r"(\d+)(step \d+|\[rank37\][^\n]*)", words.partition("error-4711-4.out 1 line")[2] or words)
    assert [int(n) for n, _ in rows][:3] == [1888, 1889, 1890]
    assert ("1893", "[rank37]: tokenizing shard 12 of 40Copy") in [(n, t.rstrip()) for n, t in rows]


def test_the_page_says_what_was_taken_out(build_diagnosis):
    assert "SECRETS ARE NOT REMOVED" in publish(build_diagnosis(), "html", "none")
    assert "SECRETS ARE NOT REMOVED" not in publish(build_diagnosis(), "html", "secrets")
    assert "are pseudonyms" in publish(build_diagnosis(), "html", "identities")


def test_rows_of_the_timeline_stand_by_clock_as_they_come(build_diagnosis):
    one = build_diagnosis().timeline[0]
    rows = [(1, 4, 0), (1, 2, 0), (1, 9, 37), (2, 5, 0), (None, 7, 0)]
    entries = [
        replace(
            one,
            what=f"event {n}",
            evidence=replace(one.evidence, line=n),
            clock=clock,
            left_out=gone,
            ranks=[n],
            count=1,
        )
        for clock, n, gone in rows
    ]
    page = publish(build_diagnosis(timeline=entries), "html", "secrets")
    part = page[page.index('<section id="timeline"') : page.index('<section id="chain"')]
    assert re.findall(r"event (\d): rank \1<", part) == ["4", "2", "9", "5", "7"]
    assert part.index("event 2") < part.index("37 rows between") < part.index("event 9")
    assert (
        part.index("event 9")
        < part.index("<h3>Clock 2: zones stated, put on one scale</h3>")
        < part.index("event 5")
        < part.index("Without a time")
    )
    alone = publish(build_diagnosis(timeline=entries[:3]), "html", "secrets")
    assert "<h3>Clock" not in alone


def test_commands_of_the_advice_are_code_and_act_nowhere(build_diagnosis):
    command = "for p in $(kubectl get pods -o name | grep 'ais'); do n=${p#pod/} <x> *_*; done"
    page = publish(build_diagnosis(collect_next=[f"the logs: `{command}`, and <b>more</b>"]), "html", "secrets")
    shown = [html.unescape(text) for text in re.findall(r"<code>(.*?)</code>", page)]
    assert command in shown
    assert "<b>more</b>" not in page


def test_the_packaged_script_is_built_from_the_sources_that_are_here():
    hashed = hashlib.sha256()
    names = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
    names += [f"src/{file.name}" for file in sorted((WEB / "src").iterdir())]
    for name in names:
        hashed.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    for file in ("report.js", "report.css"):
        first = (ASSETS / file).read_text(encoding="utf-8").partition("\n")[0]
        assert hashed.hexdigest() in first, "run `make web` and commit what it writes"


def test_the_lock_file_names_no_address():
    assert "http" not in re.sub(
        r'"(url|funding)": "[^"]*"', "", (WEB / "package-lock.json").read_text(encoding="utf-8")
    )
