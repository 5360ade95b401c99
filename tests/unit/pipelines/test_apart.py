"""Work in copies of the process: a piece that dies, hangs or grows costs itself alone."""

import os
import time

import pytest

from firstfault.pipelines import apart as module
from firstfault.pipelines.apart import apart

pytestmark = pytest.mark.usefixtures("alone")


def squares(number):
    return number * number


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers):
    assert apart(squares, 7, workers, int) == [0, 1, 4, 9, 16, 25, 36]


def test_no_pieces_give_no_results():
    assert apart(squares, 0, 2, int) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_only_the_harmful_piece_is_lost(workers, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 1 << 28)

    def work(number):
        if number == 1:
            os._exit(9)
        if number == 3:
            raise ValueError("no")
        if number == 4:
            time.sleep(60)
        if number == 6:
            return len(bytearray(1 << 29))
        return number

    assert apart(work, 8, workers, int, seconds=1.0) == [0, None, 2, None, None, 5, None, 7]


def test_a_pickle_made_to_harm_is_a_note_and_its_neighbours_are_read(tmp_path):
    from firstfault.pipelines.diagnose import diagnose

    good = (module.Path(__file__).parents[2] / "recorded" / "gloo-world-missing-bad2" / "dumps").glob("fr_trace_*")
    for file in good:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    head = b"\x80\x02}(X\x09\x00\x00\x00pg_configN"
    (tmp_path / "fr_trace_4").write_bytes(head + b"(N" + b"\x85" * 3_000_000 + b"Nuu.")
    (tmp_path / "fr_trace_5").write_bytes(head + b"cos\nsystem\nX\x04\x00\x00\x00true\x85Ru.")
    found = diagnose([tmp_path])
    rows = {row.file: (row.state, row.reason) for row in found.coverage}
    assert rows["fr_trace_4"][0] == rows["fr_trace_5"][0] == "damaged"
    assert "refused" in rows["fr_trace_5"][1]
    assert found.verdict.culprits.ranks == [2]
