"""Binary files beside dumps and plain archives, damaged at random: the whole program reads or lists them, and never raises.

Event files of TensorBoard, the recorder's files and its ring, further compressions, real dumps and the example of a snapshot;
pickles made to harm, and dumps in the usual archives, are in `test_hostile`.
"""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.model.words import CoverageState
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.metrics import metrics_of
from firstfault.recorder import format as layout

LARGE = os.environ.get("FIRSTFAULT_TEST_PROFILE") == "large"
TESTS = Path(__file__).parents[1]
PROFILE = settings(
    max_examples=1000 if LARGE else 12,
    derandomize=not LARGE,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
LOG = b"2026-03-04 10:00:00 INFO rank=0 step 4 loss 2.5\n[rank0]: ValueError: x\n" * 30


def _tar(mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        member = tarfile.TarInfo("a/rank0.log")
        member.size = len(LOG)
        archive.addfile(member, io.BytesIO(LOG))
    return out.getvalue()


def _events() -> bytes:
    """A TensorBoard file of some scalars; its checksums are not read."""

    def record(event: bytes) -> bytes:
        return struct.pack("<Q", len(event)) + b"\0" * 4 + event + b"\0" * 4

    out = record(b"\x09" + struct.pack("<d", 1.78e9) + b"\x1a\x0dbrain.Event:2")
    for step in range(30):
        tag = b"loss"
        value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", 3 - step / 10)
        summary = b"\x0a" + bytes([len(value)]) + value
        event = (
            b"\x09"
            + struct.pack("<d", 1.78e9 + step)
            + b"\x10"
            + bytes([step])
            + b"\x2a"
            + bytes([len(summary)])
            + summary
        )
        out += record(event)
    return out


def _box() -> bytes:
    who = {
        "time": "2026-11-30T09:00:00.000000+00:00",
        "rank": 0,
        "local_rank": 0,
        "host": "node-a",
        "pid": 4000,
        "attempt": 0,
    }
    return b"".join(
        layout.line(kind, {**who, "world": 2, "step": 7}) for kind in (layout.HEADER, layout.BEAT, layout.END)
    )


FILES = {
    "events.out.tfevents.1780000000.node-a": _events(),
    "node-a/4000.jsonl": _box(),
    "logs.tar.xz": _tar("w:xz"),
    "logs.tar.bz2": _tar("w:bz2"),
    "_dump_9": (TESTS / "recorded" / "moe16-lock-gil" / "dumps" / "_dump_9").read_bytes(),
    "rank1_memory_snapshot.pickle": (
        TESTS.parent / "examples" / "memory" / "rank1_memory_snapshot.pickle"
    ).read_bytes(),
}
"""One sound file of each kind that `test_hostile` does not damage."""
DAMAGE = st.tuples(
    st.floats(0.02, 1),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6)), max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6),
)
"""What share is kept, what is put in where, and which bytes become what."""


def damaged(raw: bytes, how: tuple[float, list[tuple[float, bytes]], list[tuple[float, int]]]) -> bytes:
    share, inserted, changed = how
    out = bytearray(raw[: int(len(raw) * share)])
    for place, byte in changed:
        out[int(place * (len(out) - 1))] = byte
    for place, more in inserted:
        at = int(place * len(out))
        out[at:at] = more
    return bytes(out)


@pytest.mark.parametrize("name", sorted(FILES))
@PROFILE
@given(how=DAMAGE)
def test_a_damaged_file_is_read_or_listed(
    name: str, how: tuple[float, list[tuple[float, bytes]], list[tuple[float, int]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(damaged(FILES[name], how))
        found = diagnose([folder])
        assert len(found.coverage) >= 1
        assert all(row.state in CoverageState for row in found.coverage)
        metrics_of([folder])


def test_each_sound_file_is_read(tmp_path: Path) -> None:
    """The samples above are what they should be: else damage to them would show nothing."""
    for name, raw in FILES.items():
        file = tmp_path / name / "run" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(raw)
        rows = diagnose([tmp_path / name]).coverage
        if "tfevents" in name:
            assert metrics_of([tmp_path / name]).view.tables
            continue
        assert any(r.state is CoverageState.READ for r in rows), (name, rows)


def test_a_ring_of_any_bytes_is_read_or_refused() -> None:
    @PROFILE
    @given(st.binary(max_size=layout.SIZE), st.booleans())
    def held(noise: bytes, begun: bool) -> None:
        raw = ((layout.MAGIC if begun else b"") + noise).ljust(layout.SIZE, b"\0")[: layout.SIZE]
        ring = layout.read_ring(raw)
        assert ring is None or isinstance(ring, layout.Ring)

    held()
