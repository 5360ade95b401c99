"""A page in the browser, with what went wrong on it; where the browser is."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pages import Shown
    from playwright.sync_api import Page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)


class Opened:
    """A page with what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.blocked: list[str] = []
        page.on("console", lambda m: self.troubles.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.troubles.append(f"error: {e}"))
        page.on("dialog", lambda d: (self.troubles.append(f"dialog: {d.message}"), d.dismiss()))
        page.on("requestfailed", lambda r: self.blocked.append(r.url) if r.failure == "csp" else None)
        page.on("request", lambda r: self.requests.append(r.url))

    def go(self, shown: Shown) -> Page:
        self.page.goto(shown.path.as_uri())
        return self.page
