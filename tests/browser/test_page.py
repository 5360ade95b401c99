"""The HTML report in a real browser: it draws, it is quick, it can be used by keyboard, nothing in it acts or fetches.

What is read here is what a person gets: text, focus, sizes and times as the browser has them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pages
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from opening import Opened
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
SECTIONS = ["Job details", "Timeline", "Root-cause chain", "Key files", "Recommendations"]
PAINT = {"small": 1000, "large": 1000, "huge": 3000}
"""Milliseconds from opening the file to the first paint, and to all pictures being there."""
SIZE = {"large": 1_500_000, "huge": 6_000_000}
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], pages.Shown]:
    made: dict[str, pages.Shown] = {}

    def get(name: str) -> pages.Shown:
        if name not in made:
            made[name] = pages.write(name, tmp_path_factory.mktemp(name))
        return made[name]

    return get


@pytest.mark.parametrize("name", pages.REPORTS)
def test_it_opens_without_trouble_and_fetches_nothing(opened: Opened, report, name: str) -> None:
    shown = report(name)
    page = opened.go(shown)
    page.wait_for_timeout(50)
    assert opened.troubles == []
    assert opened.requests == [shown.path.as_uri()]
    heads = [h.strip().lstrip("12345") for h in page.locator("main > section > h2").all_inner_texts()]
    assert heads[:5] == SECTIONS
    assert heads[-2:] == ["Checks", "Rival explanations"]
    assert page.locator("h1").count() == 1
    empty = page.evaluate(
        "[...document.querySelectorAll('.panel')].filter(p => !p.hidden && p.innerText.trim() === '').length"
    )
    assert empty == 0


@pytest.mark.parametrize("name", PAINT)
def test_it_is_quick_and_small(opened: Opened, report, name: str) -> None:
    shown = report(name)
    assert shown.size < SIZE.get(name, 1_000_000)
    session = opened.page.context.new_cdp_session(opened.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    times = []
    for _ in range(5):  # the best of five: another program may have had the processor
        page = opened.go(shown)
        while page.evaluate("performance.getEntriesByName('first-contentful-paint').length") == 0:
            page.wait_for_timeout(10)
        spent = {m["name"]: m["value"] * 1000 for m in session.send("Performance.getMetrics")["metrics"]}
        assert spent["TaskDuration"] < PAINT[name]  # what the page itself costs, whatever else runs
        marks = "['first-contentful-paint', 'drawn'].map(name => performance.getEntriesByName(name)[0].startTime)"
        times.append(max(page.evaluate(marks)))
        if times[-1] < PAINT[name]:
            break
    assert min(times) < PAINT[name], times


@pytest.mark.parametrize("name", ["large", "hostile", "storage", "witnesses", "metrics", "spread"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_runs_over_the_edge(opened: Opened, report, name: str, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 844})
    page = opened.go(report(name))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre, .tree') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"
    )
    assert wide == []


def pixels(page: Page, canvas: str) -> int:
    """How many different colours a canvas holds; 1 where nothing was drawn."""
    return page.evaluate(
        """id => { const c = document.getElementById(id); const d = new Uint32Array(c.getContext('2d')
        .getImageData(0, 0, c.width, c.height).data.buffer); return new Set(d).size; }""",
        canvas,
    )


@pytest.mark.parametrize("name", ["large", "huge"])
def test_the_heat_map_shows_every_rank_and_names_the_odd_one(opened: Opened, report, name: str) -> None:
    page = opened.go(report(name))
    late, total = ("37", 128) if name == "large" else ("9037", pages.MANY)
    assert pixels(page, "heat-map") > 2
    label = page.locator("#heat-map").get_attribute("aria-label")
    assert f"{total} ranks on {total // 8} nodes" in label
    counts = [int(n) for n in page.locator("#heat-keys b").all_inner_texts()]
    assert sum(counts) == total
    assert page.locator("#heat-odd li").all_inner_texts()[0].startswith(f"rank {late} ")
    page.locator("#heat-odd button").first.click()
    assert page.locator("#nccl-table tbody tr").count() == 1
    assert page.locator("#nccl-table tbody th").inner_text() == late


def test_a_cell_tells_its_rank_to_the_pointer_and_to_the_keyboard(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    canvas = page.locator("#heat-map")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator("#heat-now").inner_text().startswith("rank 9 · cn-08")
    page.keyboard.press("Enter")
    assert page.locator("#nccl-find").input_value() == "9"
    page.locator("#nccl-find").fill("")
    canvas.hover(position={"x": 200, "y": 4})
    assert " · cn-07 · " in page.locator("#heat-now").inner_text()


def test_a_culprit_among_thousands_is_drawn_larger_than_the_others(opened: Opened, report) -> None:
    page = opened.go(report("huge"))
    red = page.locator("#heat-map").evaluate(
        """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
        const want = getComputedStyle(document.documentElement).getPropertyValue('--state-failed').trim();
        const [r, g, b] = [1, 3, 5].map(i => parseInt(want.slice(i, i + 2), 16));
        for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) n++;
        return n; }"""
    )
    assert red >= 60
    assert page.locator("#heat").evaluate("e => e.clientWidth") > 1000


def test_the_stuck_collective_is_a_named_band_over_the_lanes(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    label = page.locator("#lanes-map").get_attribute("aria-label")
    assert "ALLREDUCE #812 (default): 127 ranks, 10 min" in label
    band = page.locator("#lanes-map").evaluate(
        """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const want = getComputedStyle(document.documentElement).getPropertyValue('--band-edge').trim();
        const [r, g, b] = [1, 3, 5].map(i => parseInt(want.slice(i, i + 2), 16)); const found = new Set();
        for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) found.add((i / 4) % c.width);
        return [Math.min(...found) / c.width, Math.max(...found) / c.width]; }"""
    )
    assert band[0] < 0.6
    assert band[1] > 0.9


def test_the_table_fits_and_says_what_its_columns_mean(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    assert page.locator("#nccl .scroll").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    page.locator("#nccl-means summary").click()
    told = dict(
        zip(
            page.locator("#nccl-means dt").all_inner_texts(),
            page.locator("#nccl-means dd").all_inner_texts(),
            strict=True,
        )
    )
    heads = {head.strip() for head in page.locator("#nccl-table thead th").all_inner_texts()}
    assert {"Part", "Enqueued", "Stuck in"} <= set(told) <= heads
    assert "handed to its GPU" in told["Enqueued"]


def test_the_lanes_tell_who_waited_and_who_went_quiet(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    assert pixels(page, "lanes-map") > 4
    page.locator("#lanes-map").focus()
    page.keyboard.press("ArrowDown")
    first = page.locator("#lanes-now").inner_text()
    assert first.startswith("rank 37 · cn-11")
    assert "waited" not in first.split("·", 3)[-1]
    page.keyboard.press("ArrowDown")
    second = page.locator("#lanes-now").inner_text()
    assert "127 ranks: 0-36, 38-127" in second
    assert "waited from 14:25:01 to 14:35:01 (10 min)" in second


def test_a_fault_without_a_stamp_is_marked_as_the_stretch_in_which_it_lies(opened: Opened, report) -> None:
    page = opened.go(report("between"))
    chart = page.locator("#lanes-map")
    found = re.search(r"first sign of the fault (?:between|after) (\d\d:\d\d:\d\d)", chart.get_attribute("aria-label"))
    assert found is not None
    chart.focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("#lanes-now").inner_text()
    assert told.startswith("rank 2 · ")
    assert re.search(rf"own error or exit (?:between|after) {found[1]}", told), told
    assert page.locator("#lanes-keys .key-died_within").count() == 1
    assert page.locator("#lanes-keys .key-first_fault_within").count() == 1
    assert page.locator("#lanes-keys .key-first_fault").count() == 0
    bad = chart.evaluate(
        """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const want = getComputedStyle(document.documentElement).getPropertyValue('--bad').trim();
        const [r, g, b] = [1, 3, 5].map(i => parseInt(want.slice(i, i + 2), 16)); let n = 0;
        for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) n++;
        return n; }"""
    )
    assert bad > 100


def rows_are(page: Page, count: int) -> None:
    """Waits until the table has so many rows; typing is heeded a moment later."""
    from playwright.sync_api import expect

    expect(page.locator("#nccl-table tbody tr")).to_have_count(count)


def ranks_shown(page: Page) -> list[str]:
    return page.locator("#nccl-table tbody th").all_inner_texts()


def test_the_table_sorts_filters_and_folds(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    assert page.locator("#nccl-count").inner_text() == "128 rows as 2, equal ones as one"
    page.locator("#nccl-fold").uncheck()
    assert ranks_shown(page)[:3] == ["37", "0", "1"]
    by_rank = page.get_by_role("button", name="Rank", exact=True)
    by_rank.click()
    assert ranks_shown(page)[:3] == ["0", "1", "2"]
    by_rank.click()
    assert ranks_shown(page)[:3] == ["127", "126", "125"]
    assert page.locator("#nccl-table th[aria-sort=descending]").count() == 1
    page.locator("#nccl-find").fill("3-5, 40")
    rows_are(page, 4)
    assert ranks_shown(page) == ["40", "5", "4", "3"]
    page.locator("#nccl-find").fill("cn-11")
    rows_are(page, 8)
    page.locator("#nccl-odd").check()
    assert ranks_shown(page) == ["37"]
    page.locator("#nccl-odd").uncheck()
    page.locator("#nccl-find").fill("no such host")
    rows_are(page, 0)


def test_a_long_table_shows_a_part_and_more_on_request(opened: Opened, report) -> None:
    page = opened.go(report("huge"))
    page.locator("#nccl-fold").uncheck()
    assert len(ranks_shown(page)) == 60
    page.locator("#nccl-more").click()
    assert len(ranks_shown(page)) == 260


def test_every_witness_has_a_panel_and_no_other_is_there(opened: Opened, report) -> None:
    shown = "[...document.querySelectorAll('.panel, #store')].filter(p => !p.hidden).map(p => p.querySelector('h2, h3').innerText)"
    panels = {
        name: set(opened.go(report(name)).evaluate(shown)) for name in ("witnesses", "storage", "memory", "unknown")
    }
    assert {"Process groups by the flight recorder", "Where the processes stood, by their stacks"} <= panels[
        "witnesses"
    ]
    assert "Storage daemons" in panels["storage"]
    assert "What held the memory" in panels["memory"]
    assert panels["unknown"] <= {"Where every rank stood", "Ranks over time", "Training metrics"}
    assert "Training metrics" not in panels["memory"]


def test_the_treemap_names_the_place_that_holds_the_most(opened: Opened, report) -> None:
    page = opened.go(report("memory"))
    assert page.locator("#memory-map svg text").first.text_content().startswith("remember (metrics.py:57")
    assert (
        page.locator("#memory-map svg")
        .get_attribute("aria-label")
        .startswith("Treemap of memory held on device rank 1")
    )
    page.locator("#memory-map summary").click()
    assert page.locator("#memory-map tr").first.inner_text().split("\t")[0] == "remember (metrics.py:57)"


def figure(page: Page, name: str) -> Any:
    """The plot with a name."""
    return page.locator("figure.plot").filter(has=page.get_by_text(name, exact=True))


def red(page: Page, name: str) -> list[int]:
    """The columns of pixels of a plot that hold the colour of what is bad, as shares of a thousand of its width."""
    return coloured(page, name, "--bad")


def coloured(page: Page, name: str, colour: str) -> list[int]:
    """The columns of pixels of a plot that hold a colour of the page, as shares of a thousand of its width."""
    return figure(page, name).evaluate(
        """(f, colour) => { const c = f.querySelector('canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const bad = getComputedStyle(document.documentElement).getPropertyValue(colour).trim();
        const want = [1, 3, 5].map(i => parseInt(bad.slice(i, i + 2), 16)); const found = new Set();
        for (let i = 0; i < d.length; i += 4) if (want.every((v, k) => d[i + k] === v)) found.add((i / 4) % c.width);
        return [...found].map(x => Math.round(1000 * x / c.width)); }""",
        colour,
    )


@pytest.mark.parametrize("name", ["metrics", "spread"])
def test_metrics_are_drawn_with_their_abnormal_points(opened: Opened, report, name: str) -> None:
    page = opened.go(report(name))
    shown = page.locator("figure.plot figcaption strong").all_inner_texts()
    assert {"Loss", "Gradient norm", "Step time", "Forward time", "GPU use"} <= set(shown)
    assert page.locator("figure.plot .drawing canvas").count() == len(shown)
    loss = figure(page, "Loss")
    assert f"no number from step {pages.NAN_FROM} on" in loss.locator(".drawing").get_attribute("aria-label")
    # The axis begins left of the drawing: the mark stands at its share of the rest.
    marked = red(page, "Loss")
    assert marked
    assert min(marked) > 1000 * pages.NAN_FROM / pages.RUN * 0.85
    slow = figure(page, "Forward time").locator(".marks li.bad").first
    ranks = 4 if name == "metrics" else 48
    assert slow.inner_text().startswith(
        f"Rank {pages.SLOW_RANK % ranks} is slower than the others from step {pages.SLOW_FROM}"
    )
    slow.locator("a").click()
    assert f"step: {pages.SLOW_FROM}," in page.locator(":target").inner_text()
    assert red(page, "Gradient norm") == []
    bands = page.locator("figure.plot .key-band").count()
    assert (bands > 0) == (name == "spread")


def test_no_value_of_a_short_run_is_outside_of_its_plot(opened: Opened, report) -> None:
    page = opened.go(report("short"))
    assert page.locator(".note.outside").count() == 0
    # The axis takes the first eighth: the line begins behind it, at its first value.
    assert min(coloured(page, "Loss", "--line-0")) < 200


def test_values_that_a_plot_leaves_out_are_told(opened: Opened, report) -> None:
    page = opened.go(report("steep"))
    assert figure(page, "Loss").locator(".note.outside").inner_text().startswith("The first values reach from 2 to 900")


@pytest.mark.parametrize("name", ["short", "steep"])
def test_a_page_that_was_dark_is_printed_on_white(browser: Browser, report, name: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(report(name).path.as_uri())
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)" != dark
    context.close()


def test_a_plot_is_read_by_the_keyboard(opened: Opened, report) -> None:
    page = opened.go(report("metrics"))
    loss = figure(page, "Loss")
    loss.locator(".drawing").focus()
    page.keyboard.press("Home")
    assert loss.locator(".now").inner_text().startswith("step 1 · rank 0: ")
    page.keyboard.press("End")
    last = loss.locator(".now").inner_text()
    assert last.startswith(f"step {pages.RUN} · ")
    assert "rank 0: no number" in last
    page.keyboard.press("ArrowLeft")
    assert loss.locator(".now").inner_text() != last


def test_plots_stay_small_however_many_ranks_there_are(report) -> None:
    assert report("spread").size - report("metrics").size < 400_000


def test_links_of_the_chain_open_their_line_in_its_context(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    page.locator(".chain summary").nth(1).click()
    link = page.locator(".chain .quote a.place").nth(1)
    place = link.inner_text()
    link.click()
    target = page.locator(":target")
    assert target.is_visible()
    assert target.locator(".ln").inner_text() == place.rpartition(":")[2]
    numbers = [int(n) for n in target.locator("xpath=..").locator(".ln").all_inner_texts()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert len(numbers) >= 6
    assert page.evaluate("document.activeElement.classList.contains('cited')")


def test_every_link_leads_to_a_line_that_is_there(opened: Opened, report) -> None:
    for name in pages.REPORTS:
        page = opened.go(report(name))
        lost = page.evaluate(
            "[...document.querySelectorAll('a[href]')].filter(a => !document.getElementById(a.getAttribute('href').slice(1)))"
            ".map(a => a.outerHTML)"
        )
        assert lost == [], name


def test_copying_gives_the_line_with_its_place(browser: Browser, report) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(report("large").path.as_uri())
    button = page.locator("#verdict .quote button.copy")
    button.click()
    button.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    context.close()
    assert copied.startswith("error-77-4.out:")
    assert "Received a dump signal" in copied


def test_the_keyboard_reaches_everything_in_order(opened: Opened, report) -> None:
    page = opened.go(report("small"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    seen: list[str] = []
    for _ in range(120):
        page.keyboard.press("Tab")
        here: dict[str, Any] = page.evaluate(
            "(() => { const e = document.activeElement; const b = e.getBoundingClientRect(); const s = getComputedStyle(e);"
            "return {id: e.id || e.className || e.tagName, outline: s.outlineStyle, seen: b.width > 0 && b.height > 0}; })()"
        )
        if here["id"] == "BODY":
            break
        assert here["seen"], here
        assert here["outline"] != "none", here
        seen.append(here["id"])
    for needed in ("heat-map", "lanes-map", "nccl-find", "nccl-odd"):
        assert needed in seen


def test_hostile_text_stays_text(opened: Opened, report) -> None:
    page = opened.go(report("hostile"))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_timeout(100)
    assert page.title() != "owned"
    assert "owned" not in page.title() or "document.title" in page.title()
    assert page.locator("img, iframe, object, embed, base, form, link").count() == 0
    assert page.locator("main script, main svg[onload]").count() == 0
    assert "</script><script>document.title=" in page.locator("#files").inner_text()
    assert "{{ 7 * 7 }}" in page.locator("#files").inner_text()
    assert "<img src=x onerror=alert(1)>" in page.locator("#checks").inner_text()
    assert opened.troubles == []


def test_the_policy_lets_nothing_else_run(opened: Opened, report) -> None:
    page = opened.go(report("small"))
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'document.title = \"ran\"'; document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'https://example.invalid/x.png'; document.body.append(i); }"
    )
    page.wait_for_timeout(100)
    assert page.title() != "ran"
    assert len(opened.blocked) == 1
    assert any("Content Security Policy" in t for t in opened.troubles)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("large", "light"),
        ("small", "dark"),
        ("storage", "light"),
        ("witnesses", "dark"),
        ("metrics", "light"),
        ("spread", "dark"),
    ],
)
def test_it_is_accessible(browser: Browser, report, name: str, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe is not here: `npm ci --prefix web` fetches it")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report(name).path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    context.close()
    bad = [(v["id"], v["nodes"][0]["html"][:160], v["nodes"][0]["failureSummary"][:200]) for v in found["violations"]]
    assert bad == []


def test_the_theme_can_be_turned(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_print_shows_what_is_folded_and_no_buttons(opened: Opened, report) -> None:
    page = opened.go(report("large"))
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    # The heads of columns are buttons, and stay as what the columns are called.
    assert page.locator("button:visible:not(.odd button, .keys button, thead button)").count() == 0
    assert page.locator("thead button:visible").count() > 0
    assert page.locator("#heat-odd li").first.inner_text().startswith("rank 37 · cn-11")
    assert page.locator("#headline").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


def test_without_its_script_the_verdict_and_the_evidence_are_there(browser: Browser, report) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report("large").path.as_uri())
    assert "Rank 37" in page.locator("h1").inner_text()
    assert page.locator(".row.cited").count() > 0
    assert "Without its script" in page.locator("noscript").inner_text()
    context.close()
