"""Who is told how far a scan is, and that threads are answered one after the other."""

import io
import sys
import threading

from firstfault.pipelines.diagnose import concluded, diagnose
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


def test_of_two_threads_one_reads_after_the_other(tmp_path):
    """Readers remember lines for the whole process: two at once would take each other's ranks."""
    paths, done = log(tmp_path), []
    with concluded(paths, DiagnoseOptions()):
        thread = threading.Thread(target=lambda: done.append(diagnose(paths)))
        thread.start()
        thread.join(2.0)
        assert not done
    thread.join(60)
    assert len(done) == 1
