"""Who is told how far a scan is."""

import io
import sys

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.scan import progress as bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def log(folder):
    (folder / "train.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    return [folder]


def test_a_bar_is_drawn_on_a_terminal_where_it_may(tmp_path, monkeypatch):
    monkeypatch.setattr(bar, "PATIENCE", 0.0)
    drawn = {}
    for allowed in (True, False):
        monkeypatch.setattr(sys, "stderr", Terminal())
        diagnose(log(tmp_path), DiagnoseOptions(progress=allowed))
        drawn[allowed] = "reading" in sys.stderr.getvalue()
    assert drawn == {True: True, False: False}


def test_a_caller_is_told_every_byte(tmp_path):
    told = []
    diagnose(log(tmp_path), progress=told.append)
    assert sum(told) == 14
