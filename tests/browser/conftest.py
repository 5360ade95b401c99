"""One browser for all pages of a module, and a fresh page for each test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from opening import CHROMIUM, Opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not in this environment")
    # Nobody's root may use the sandbox; the page is our own.
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        yield made
        made.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    one = Opened(context.new_page())
    yield one
    context.close()
