"""Measures how soon HTML reports are there in a real Chromium: first paint, all pictures drawn, processor time of the page, size.

    python bench/report/paint.py REPORT.html… [--rounds 5]

Needs playwright and Chromium. Best and median of the rounds, each in a fresh page: on a machine that others use the clock tells more
of them than of the page, its processor time does not.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)
TIMES = ("first-contentful-paint", "drawn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for report in asked.reports:
            rounds = [measure(browser, report) for _ in range(asked.rounds)]
            told = [f"{name} {min(t):.0f} ms (median {statistics.median(t):.0f})" for name, t in columns(rounds)]
            print(f"{report.name}: {report.stat().st_size / 1e6:.2f} MB, {', '.join(told)}")
        browser.close()


def columns(rounds: list[tuple[float, ...]]) -> list[tuple[str, tuple[float, ...]]]:
    """Each time with its name, over all rounds."""
    return list(zip((*TIMES, "processor"), zip(*rounds, strict=True), strict=True))


def measure(browser: Browser, report: Path) -> tuple[float, ...]:
    """Milliseconds until the first paint and until all is drawn, and those that the page's own thread worked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(report.resolve().as_uri())
    for name in TIMES:
        page.wait_for_function("name => performance.getEntriesByName(name).length > 0", arg=name)
    times = [page.evaluate("name => performance.getEntriesByName(name)[0].startTime", name) for name in TIMES]
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    context.close()
    return (*times, metrics["TaskDuration"] * 1000)


if __name__ == "__main__":
    main()
