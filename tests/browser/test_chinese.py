"""The HTML report in Chinese in a real browser: it draws, fits, can be heard, and leaves no English prose of our own.

What is read here is what a person gets: text and sizes as the browser has them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pages
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from opening import Opened
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SHOWN = ("large", "witnesses", "storage", "memory", "metrics", "unknown", "hostile")
PROSE = re.compile(r"(?<![\w./`=-])(?:the|of|and|is|are|was|were|that|which|from|with|by)(?![\w/=-])")
"""Small words that no name, command or term of the field is."""


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], pages.Shown]:
    made: dict[str, pages.Shown] = {}

    def get(name: str) -> pages.Shown:
        if name not in made:
            made[name] = pages.write(name, tmp_path_factory.mktemp(name), "zh")
        return made[name]

    return get


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", SHOWN)
def test_it_opens_without_trouble_and_fits(opened: Opened, chinese, name: str, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 844})
    page = opened.go(chinese(name))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.lang") == "zh"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre, .tree') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"
    )
    assert wide == []
    assert opened.troubles == []
    assert opened.requests == [chinese(name).path.as_uri()]


@pytest.mark.parametrize("name", SHOWN)
def test_no_english_prose_of_ours_is_left(opened: Opened, chinese, name: str) -> None:
    page = opened.go(chinese(name))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    texts = page.evaluate(
        """() => { const found = []; const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let n = walk.nextNode(); n; n = walk.nextNode())
          if (!n.parentElement.closest('script, style, noscript, pre, code, .tx, .quote, .tree')) found.push(n.data);
        document.querySelectorAll('[aria-label], [title], [placeholder]').forEach(e => found.push(
          e.getAttribute('aria-label') ?? '', e.getAttribute('title') ?? '', e.getAttribute('placeholder') ?? ''));
        return found; }"""
    )
    # What is quoted stands in marks, and what an exception says behind its name.
    plain = [re.sub(r"“[^”]*”|`[^`]*`|\w+(?:Error|Exception)[:：].*", "", t) for t in texts]
    assert [t for t in plain if PROSE.search(t)] == []


@pytest.mark.parametrize(("name", "scheme"), [("large", "light"), ("witnesses", "dark")])
def test_it_is_accessible(browser: Browser, chinese, name: str, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe is not here: `npm ci --prefix web` fetches it")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(chinese(name).path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    context.close()
    assert [(v["id"], v["nodes"][0]["html"][:160]) for v in found["violations"]] == []
