"""Columns of GPU counters without a header: told by what stands in them, else said to be untold; logs are no tables."""

import random

import pytest

from firstfault.model.evidence import SourceId
from firstfault.model.words import CoverageState
from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.gpu_columns import is_untold, told_columns
from firstfault.readers.gpu_course import read_courses, table_of


def rows(form, *, seconds=6, gpus=4, still=None):
    """Rows of some GPUs by the second; one of them stands still from the third second on."""
    return "".join(
        form.format(
            s=s,
            g=g,
            use=0 if g == still and s > 2 else 97 - g,
            used=71234 + 10 * s + g,
            heat=61 + g,
            bus=0x1B + g,
            ecc=0,
        )
        + "\n"
        for s in range(seconds)
        for g in range(gpus)
    ).encode()


FULL = "2026/01/15 14:31:{s:02d}.123, {g}, NVIDIA H100 80GB HBM3, 00000000:{bus:02X}:00.0, {use} %, {used} MiB, 81559 MiB, {heat}, 512.33 W"


def test_units_and_forms_tell_the_columns():
    assert told_columns(rows(FULL)) == ("time", "gpu", "", "bus", "use", "memory", "", "heat", "")


def test_the_order_is_that_of_the_query_and_not_a_custom():
    other = "00000000:{bus:02X}:00.0, 81559 MiB, {used} MiB, {use} %, 2026/01/15 14:31:{s:02d}.123"
    assert told_columns(rows(other)) == ("bus", "", "memory", "use", "time")


def test_a_gpu_that_stood_still_is_seen_without_a_header():
    data = rows(FULL, still=2)
    table = table_of(data)
    found = {c.gpu: c for c in read_courses(data, SourceId(0), table, host="n1")}
    assert found[2].idle.text.startswith("2026/01/15 14:31:03.123, 2,")
    assert (found[2].bus, found[1].idle) == ("00000000:1D:00.0", None)


def test_what_could_be_two_things_is_left_untold():
    two = "2026/01/15 14:31:{s:02d}.123, {g}, {use} %, {heat} %, {used} MiB, {heat} MiB"
    columns = told_columns(rows(two))
    assert "use" not in columns
    assert "memory" not in columns


def test_numbers_alone_say_so_and_are_no_table():
    bare = "2026/01/15 14:31:{s:02d}.123, NVIDIA H100 80GB HBM3, {use}, {used}, {ecc}, {ecc}"
    data = rows(bare)
    assert is_untold(data)
    assert table_of(data) is None
    assert is_untold(b"GPU 0     0.981        0.412\nGPU 1     0.980        N/A\n" * 6)


def test_the_coverage_says_that_a_table_was_not_understood(tmp_path):
    (tmp_path / "smi.csv").write_bytes(
        rows("2026/01/15 14:31:{s:02d}.123, NVIDIA H100 80GB HBM3, {use}, {used}, {ecc}, {ecc}")
    )
    (tmp_path / "train.log").write_text("2026-01-15 14:31:05,123 INFO train: step 10/20 loss=2.5\nValueError: no\n")
    told = {c.file: c for c in diagnose([tmp_path]).coverage}
    assert (told["smi.csv"].state, "header" in told["smi.csv"].reason) == (CoverageState.SKIPPED, True)
    assert told["train.log"].state is CoverageState.READ


@pytest.mark.parametrize(
    "data",
    [
        b"2026/01/15 14:31:05.123, step 1, loss 2.31\n2026/01/15 14:31:06.123, step 2, loss 2.30\n",
        b"2026-01-15 14:31:05,123 INFO train: step 10, loss 2.5, lr 1e-4\n" * 5,
        b"[rank0]: GPU 0 has 3 streams\n" * 20,
        b"",
    ],
)
def test_logs_are_neither_told_nor_untold(data):
    assert told_columns(data) is None
    assert not is_untold(data)


def test_damage_never_raises():
    rng, whole = random.Random(5), rows(FULL)
    for _ in range(300):
        broken = bytearray(whole[: rng.randrange(len(whole))])
        for _ in range(rng.randrange(8)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        data = bytes(broken)
        table = table_of(data)
        is_untold(data)
        if table is not None:
            assert sum(c.count for c in read_courses(data, SourceId(0), table, host=None)) <= data.count(b"\n") + 1
