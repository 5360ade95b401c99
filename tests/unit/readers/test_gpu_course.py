"""Tables of GPU counters: which column is which, what a course keeps, and that damage or other tables give nothing."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.model.evidence import SourceId
from firstfault.readers.gpu_course import read_courses, seconds_of, table_of

SOURCE = SourceId(0)
CSV = "timestamp, index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], temperature.gpu, ecc.errors.uncorrected.volatile.total, clocks_event_reasons.active\n"


def row(second, gpu, use, *, memory="71234 MiB", errors="0", bits="0x0000000000000004"):
    return f"2026/01/15 14:31:{second:02d}.123, {gpu}, NVIDIA H100 80GB HBM3, 00000000:{0x1B + gpu:02X}:00.0, {use}, {memory}, 61, {errors}, {bits}\n"


def courses(text):
    data = text.encode()
    table = table_of(data)
    assert table is not None
    return {c.gpu: c for c in read_courses(data, SOURCE, table, host="n1")}


def test_a_csv_gives_address_time_and_the_row_from_which_a_gpu_stood_still():
    text = CSV + "".join(row(s, g, "0 %" if g == 1 and s > 3 else "100 %") for s in range(8) for g in range(2))
    found = courses(text)
    assert (found[1].bus, found[1].host, found[1].count) == ("00000000:1C:00.0", "n1", 8)
    assert found[1].idle.text.startswith("2026/01/15 14:31:04.123, 1,")
    assert text.encode()[found[1].idle.span.offset :].startswith(b"2026/01/15 14:31:04.123, 1,")
    assert text.split("\n")[found[1].idle.span.line - 1] == found[1].idle.text
    assert (found[0].idle, found[1].busy) == (None, None)
    assert found[0].busy.when.earliest == 1768487460.123


def test_a_gpu_that_never_worked_or_that_holds_no_memory_is_not_called_still():
    never = CSV + "".join(row(s, 0, "0 %") for s in range(8))
    free = CSV + row(0, 0, "90 %") + "".join(row(s, 0, "0 %", memory="4 MiB") for s in range(1, 8))
    short = CSV + row(0, 0, "90 %") + row(1, 0, "0 %") + row(2, 0, "0 %")
    assert [courses(t)[0].idle for t in (never, free, short)] == [None, None, None]


def test_counters_that_rise_and_a_gpu_that_is_lost_are_kept_with_their_first_row():
    text = CSV + "".join(row(s, 0, "90 %", errors=str(2 if s < 4 else 5)) for s in range(8))
    text += "2026/01/15 14:32:00.000, 0, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n"
    found = courses(text)[0]
    assert (found.errors.uncorrected, found.errors.when.earliest) == (5, 1768487464.123)
    assert found.lost is found.last
    assert courses(CSV + "".join(row(s, 0, "90 %", errors="2") for s in range(3)))[0].errors is None


@pytest.mark.parametrize(
    ("bits", "words"),
    [("0x0000000000000004", ""), ("0x0000000000000040", "heat"), ("0x0000000000000008", "the hardware"), ("0xzz", "")],
)
def test_only_reasons_of_protection_count_as_slowed(bits, words):
    found = courses(CSV + row(0, 0, "90 %", bits=bits))[0]
    assert ("" if found.slowed is None else found.slowed.slowed) == words


SMI = "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk\n# Idx      W      C      C      %      %      %      %    MHz    MHz\n"
DATED = "#Date       Time        gpu    pwr  gtemp     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      C      %\n"
DCGM = "#Entity   GPUTL        TMPTR        FBUSD\nID\n"


def test_tables_of_the_monitors_are_read_too():
    smi = SMI + "".join(
        f"    {g}    512     61      -    {0 if g and s > 2 else 99}      40      0      0   2619   1755\n"
        for s in range(8)
        for g in range(2)
    )
    assert courses(smi)[1].idle.span.line == 10
    dated = DATED + "".join(f" 20260115   14:31:0{s}      0    512     61     99\n" for s in range(4))
    assert courses(dated)[0].busy.when.earliest == 1768487460.0
    dcgm = DCGM + "GPU 0     98           61           71234\nGPU 1     N/A          40           N/A\n"
    assert (courses(dcgm)[0].last.utilization, courses(dcgm)[1].last.utilization) == (98.0, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step,loss,gpu\n1,2.3,0\n",
        "2026/01/15 14:31:05.123, 3, NVIDIA H100 80GB HBM3, 100 %, 71234 MiB\n",
        "utilization.gpu [%], memory.used [MiB]\n100 %, 3 MiB\n",
        "#Entity NAMES\nGPU 0 x\n",
        "# gpu notes: which cards are ours\n",
    ],
)
def test_other_tables_are_none(text):
    assert table_of(text.encode()) is None


def test_no_cut_or_damage_raises():
    data = (CSV + "".join(row(s, g, "100 %") for s in range(3) for g in range(2))).encode()
    table = table_of(data)
    for at in range(0, len(data), 7):
        read_courses(data[:at], SOURCE, table, host=None)
        read_courses(data[at:], SOURCE, table, host=None)
        read_courses(data[:at] + b"\xff\x00,9e999, -,,,,,,\n" + data[at:], SOURCE, table, host=None)
    huge = CSV.encode() + row(0, 0, "9" * 400).encode() + row(0, 0, "1 %", errors="9" * 300).encode()
    assert {c.count for c in read_courses(huge, SOURCE, table, host=None)} == {2}


@pytest.mark.parametrize(
    "text",
    [
        "2026/05/09 21:41:33.123", "2026/05/09 21:41:33", "2026-05-09 21:41:33.123456", "2026-05-09 21:41:33",
        "20260509 21:41:33", "2026/5/9 21:41:33", "2026/05/09 21:41:33.12",
    ],
)  # fmt: skip
def test_the_time_of_a_row_is_read_in_every_form(text):
    whole = dt.datetime(2026, 5, 9, 21, 41, 33, tzinfo=dt.timezone.utc).timestamp()
    assert seconds_of(text) == pytest.approx(whole + float(f"0.{text.partition('.')[2] or 0}"), abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["", "N/A", "2026/13/09 21:41:33", "2026/05-09 21:41:33", "2026-05-09T21:41:33", "2026-05-09 21:41:33+08:00"],
)
def test_what_is_no_time_of_a_row_is_none(text):
    assert seconds_of(text) is None
