"""The bar: nothing off a terminal, nothing for what is quick."""

from __future__ import annotations

import io

from firstfault.scan import progress
from firstfault.scan.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_there_is_no_callback():
    with progress_bar(100, io.StringIO()) as add:
        assert add is None


def test_what_is_quick_draws_nothing():
    out = Terminal()
    with progress_bar(100, out) as add:
        add(100)
    assert out.getvalue() == ""


def test_what_takes_long_draws_a_bar(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0)
    out = Terminal()
    with progress_bar(100, out) as add:
        add(60)
        add(60)
    assert "reading" in out.getvalue()
