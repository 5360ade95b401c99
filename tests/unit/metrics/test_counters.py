"""Tables of GPU counters are read a column at a time; the series are those of the way that reads each line."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.metrics import devices
from firstfault.readers.gpu_course import table_of
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path

SMI = "timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks.sm [MHz]\n"
BUS = "timestamp, pci.bus_id, name, utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks.sm [MHz]\n"
DMON = "#Date       Time        gpu     sm    mem    fb  pclk  gtemp\n#YYYYMMDD   HH:MM:SS    Idx      %      %    MB   MHz      C\n"
DCGM = "#Entity   GPUTL   FBUSD   TMPTR   SMCLK\nID                              C   MHz\n"
ODD = (
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "ERR!",
    "",
    "-1",
    "+7",
    "67.5",
    "1.",
    ".5",
    "12345678",
    "123456789012",
    "7x",
    "%",
    "1e5",
)


def csv(row: int, pick: random.Random, odd: float) -> str:
    def cell(usual: str) -> str:
        return pick.choice(ODD) if pick.random() < odd else usual

    cells = [cell(f"{pick.randrange(101)}{unit}") for unit in (" %", " MiB", "", " MHz")]
    time = cell(f"2026/05/09 21:{row // 60 % 60:02d}:{row % 60:02d}.{pick.randrange(1000):03d}")
    return f"{time}, {cell(str(row % 8))}, {', '.join(cells)}\n"


def bus(row: int, pick: random.Random, odd: float) -> str:
    head, rest = csv(row, pick, odd).split(", ", 2)[0::2]
    return f"{head}, 00000000:{['0F', '1A', '3B', '9C'][row % 4]}:00.0, NVIDIA H100 80GB HBM3, {rest}"


def dmon(row: int, pick: random.Random, odd: float) -> str:
    if row % 30 == 0:
        return DMON
    use = "-" if pick.random() < odd else str(pick.randrange(101))
    return f" 20260509   21:{row // 60 % 60:02d}:{row % 60:02d}      {row % 8}   {use:>4}     12 {pick.randrange(90000):6d}  {pick.randrange(2000)}     {pick.randrange(30, 90)}\n"


def dcgm(row: int, pick: random.Random, odd: float) -> str:
    if row % 30 == 0:
        return DCGM
    use = "N/A" if pick.random() < odd else str(pick.randrange(101))
    return (
        f"GPU {row % 8}    {use}     {pick.randrange(90000)}     {pick.randrange(30, 90)}     {pick.randrange(2000)}\n"
    )


def told(path: Path) -> list[object]:
    with open_inputs([str(path)]) as opened:
        (source,) = opened.sources
        series = devices.read_devices(opened.store, source.id, source.path)
    return [
        (d.host, d.gpu, repr(d.time.tolist()), d.line.tolist(), {n: repr(c.tolist()) for n, c in d.columns.items()}, d.idle_from)
        for d in series
    ]  # fmt: skip


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.5])
@pytest.mark.parametrize(("head", "row"), [(SMI, csv), (BUS, bus), (DMON, dmon), (DCGM, dcgm)])
@pytest.mark.parametrize("change", ["", "crlf", "tab", "nbsp", "cut", "noise", "bare", "day"])
def test_both_ways_give_the_same_series(tmp_path, monkeypatch, head, row, odd, change) -> None:
    pick = random.Random(f"{row.__name__} {odd} {change}")
    lines = [head, *(row(n, pick, odd) for n in range(1, 400))]
    if change == "noise":
        lines[60:60] = [
            "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n",
            "\n",
            "  \n",
            "a, b\n",
            "# a b c d e f g h\n",
        ]
    if change == "bare":
        lines[60:60] = ["3    45     1023     67     1980\n", "GPU    45     1023     67     1980\n"]
    if change == "day":
        lines[60:60] = [row(3, pick, 0.0).replace("05/09", "02/30").replace("0509", "0230")]
    text = "".join(lines)
    if change == "crlf":
        text = text.replace("\n", "\r\n")
    if change in {"tab", "nbsp"}:
        text = text.replace(" ", {"tab": "\t", "nbsp": "\xa0"}[change], 1000).replace("#Date\t", "#Date ")
    if change == "cut":
        text = text[:-9]
    path = tmp_path / "gpu.csv"
    path.write_bytes(text.encode())
    monkeypatch.setattr(devices, "BLOCK", 4000)
    asked = []
    at_once = devices._at_once
    monkeypatch.setattr(devices, "_at_once", lambda *a: asked.append(at_once(*a)) or asked[-1])
    quick = told(path)
    monkeypatch.setattr(devices, "_at_once", lambda *_: None)
    assert quick == told(path)
    if change in {"", "crlf", "noise", "day"}:
        assert asked
        assert all(found is not None for found in asked)
        assert quick


def test_a_number_is_read_as_the_cell_by_itself() -> None:
    pick = random.Random(3)
    texts = [
        *ODD, "0", "00", "0000007", "1234567", "  5", "5  ", " 9 %", "9%", "1,5"[:1], "99999999", "x" * 50, "1" * 41, "1" + " " * 60 + "2",
        *("".join(pick.choice("0123456789.-+ %xN/") for _ in range(pick.randrange(14))) for _ in range(3000)),
    ]  # fmt: skip
    table = table_of(SMI.encode())
    assert table is not None
    block = "".join(f"2026/05/09 21:00:00.000, 0, {text}, 1, 1, 1\n" for text in texts).encode()
    quick, slow = devices._at_once(block, 1, table), devices._rows(block, 1, table)
    assert quick is not None
    assert np.array_equal(quick[None, "0"], slow[None, "0"], equal_nan=True)
    assert quick[None, "0"].shape == (6, len(texts))
