"""Files that strangers made to harm: every binary reader refuses or reads them, runs nothing, and stays within its limits.

The readers are held one by one against every operation that a pickle knows, and the whole program against folders and
archives of such files. The canary is a folder that an obedient unpickler would create.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import pickletools
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.model.evidence import SourceId
from firstfault.model.words import CoverageState
from firstfault.pipelines import strangers
from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.flight_recorder import UnreadableDumpError, read_dump
from firstfault.readers.memory_snapshot import UnreadableSnapshotError, read_snapshot
from firstfault.readers.unpickle import UnreadablePickleError, load, load_fast

LARGE = os.environ.get("FIRSTFAULT_TEST_PROFILE") == "large"
TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "recorded"
PROFILE = settings(
    max_examples=2000 if LARGE else 120,
    derandomize=not LARGE,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
PLAIN = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "NONE", "NEWTRUE", "NEWFALSE", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "FLOAT", "BINFLOAT", "EMPTY_LIST", "APPEND", "APPENDS", "LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS", "FROZENSET", "POP", "DUP", "MARK", "POP_MARK",
    "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "PROTO", "STOP", "FRAME",
}  # fmt: skip
"""Operations that make and arrange plain values; all others call, import, extend or ask from outside."""
ACTING = sorted(op.name for op in pickletools.opcodes if op.name not in PLAIN)


def snapshot(raw: bytes):
    return read_snapshot(lambda at, size: raw[at : at + size], len(raw), SourceId(0), "rank0_snapshot.pickle")


def dump(raw: bytes):
    return read_dump(raw, SourceId(0), "fr_trace_0")


def argument(op: pickletools.OpcodeInfo, canary: str) -> bytes:
    """A fitting argument of an operation, one that would make the canary where it can."""
    if op.arg is None:
        return b""
    return {
        "stringnl_noescape_pair": b"os\nmkdir\n",
        "stringnl_noescape": canary.encode() + b"\n",
        "uint1": b"\x01",
        "uint2": b"\x01\x00",
        "int4": b"\x01\x00\x00\x00",
        "uint4": b"\x01\x00\x00\x00",
    }.get(op.arg.name, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def programs(op: pickletools.OpcodeInfo, canary: str) -> list[bytes]:
    """Pickles that come to an operation with what it wants on the stack: a callable, arguments, a mark, a state."""
    path = b"X" + struct.pack("<I", len(canary)) + canary.encode()
    act = op.code.encode("latin-1") + argument(op, canary)
    mkdir = b"cos\nmkdir\n"
    named = b"X\x02\x00\x00\x00osX\x05\x00\x00\x00mkdir"
    heads = [b"", path, mkdir + path + b"\x85", b"(" + mkdir + path, b"(" + path, named, mkdir + path + b"\x85}", b"}}"]
    return [b"\x80\x02" + head + act + tail for head in heads for tail in (b".", path + b"\x85R.", b"0N.")]


@pytest.mark.parametrize("name", ACTING)
def test_no_operation_acts_in_any_reader(name, tmp_path):
    canary = tmp_path / "made"
    op = next(o for o in pickletools.opcodes if o.name == name)
    for raw in programs(op, str(canary)):
        for read, error in (
            (load, UnreadablePickleError),
            (load_fast, UnreadablePickleError),
            (dump, UnreadableDumpError),
            (snapshot, UnreadableSnapshotError),
        ):
            with pytest.raises(error) as told:
                read(raw)
            assert str(told.value)
            assert not canary.exists()


def test_the_canary_would_be_made_by_a_reader_that_obeys(tmp_path):
    canary = tmp_path / "made"
    pickle.loads(b"cos\nmkdir\n" + b"(V" + str(canary).encode() + b"\ntR.")
    assert canary.exists()


@st.composite
def machines(draw: st.DrawFn) -> bytes:
    """A random run of operations with random arguments, plain and acting ones."""
    raw = b"\x80" + bytes([draw(st.sampled_from([2, 4]))])
    for _ in range(draw(st.integers(1, 40))):
        op = draw(st.sampled_from(pickletools.opcodes))
        raw += op.code.encode("latin-1")
        if op.arg is None:
            continue
        kind = op.arg.name
        if kind.startswith(("stringnl", "decimalnl", "floatnl", "unicodestringnl")):
            words = draw(st.sampled_from([b"os", b"0", b"7", b"'a'", b"1.5", b"mkdir", b"-1", b"99"]))
            raw += words + b"\n" + (b"mkdir\n" if kind.endswith("pair") else b"")
        elif kind in {"uint1", "uint2", "int4", "uint4", "uint8", "float8"}:
            size = {"uint1": 1, "uint2": 2, "int4": 4, "uint4": 4, "uint8": 8, "float8": 8}[kind]
            small = draw(st.booleans())
            raw += (
                draw(st.integers(0, 3)).to_bytes(size, "little")
                if small
                else draw(st.binary(min_size=size, max_size=size))
            )
        else:  # a length and as many bytes, or fewer
            size = 1 if kind.endswith("1") else 8 if kind.endswith("8") else 4
            body = draw(st.binary(max_size=6))
            claimed = draw(st.sampled_from([len(body), len(body) + 1, 255, 2 ** (8 * size - 1) - 1]))
            raw += min(claimed, 2 ** (8 * size) - 1).to_bytes(size, "little") + body
    return raw + b"."


@PROFILE
@given(machines())
def test_no_run_of_operations_raises_anything_else(raw):
    for read, error in (
        (load, UnreadablePickleError),
        (dump, UnreadableDumpError),
        (snapshot, UnreadableSnapshotError),
    ):
        try:
            read(raw)
        except error as told:
            assert str(told)  # noqa: PT017 - the reason is for people


BOMBS = {
    "memo": b"\x80\x02]r\xff\xff\xff\x7f.",
    "memo below the limit": b"\x80\x02]r\x00\x00\x00\x08.",
    "text": b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"abc.",
    "bytes": b"\x80\x02B\xff\xff\xff\x7fabc.",
    "frame": b"\x80\x04\x95" + (2**62).to_bytes(8, "little") + b"N.",
    "number": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    "digits": b"I" + b"9" * 200_000 + b"\n.",
    "deep lists": b"\x80\x02" + b"](" * 200_000 + b"e" * 200_000 + b".",
    "deep tuples": b"\x80\x02N" + b"\x85" * 1_000_000 + b".",
    "deep key": b"\x80\x02}(N" + b"\x85" * 1_000_000 + b"Nu.",
    "folded list": b"\x80\x02]" + b"".join(b"q%c]q\xff0](h%ch%ch%ch%ce" % (n, n, n, n, n) for n in range(60)) + b".",
    "folded key": b"\x80\x02}(N" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(80)) + b"Nu.",
    "marks": b"\x80\x02" + b"(" * 300_000 + b".",
    "maps": b"\x80\x02(" + b"}" * 800_000 + b"t.",
    "holds itself": b"\x80\x02}q\x00X\x09\x00\x00\x00pg_configh\x00s.",
}
MEASURE = """
import resource, sys, time
from pathlib import Path
from firstfault.model.evidence import SourceId
from firstfault.readers.flight_recorder import UnreadableDumpError, read_dump
from firstfault.readers.memory_snapshot import UnreadableSnapshotError, read_snapshot
raw = Path(sys.argv[1]).read_bytes()
for read in (lambda: read_dump(raw, SourceId(0), "x"), lambda: read_snapshot(lambda a, n: raw[a:a + n], len(raw), SourceId(0), "x")):
    try:
        read()
    except (UnreadableDumpError, UnreadableSnapshotError) as error:
        print(str(error)[:80])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])))
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_files_cannot_eat_memory_time_or_stack(bomb, tmp_path):
    file = tmp_path / "bomb"
    file.write_bytes(BOMBS[bomb])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(file)],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    megabytes, seconds = map(int, done.stdout.splitlines()[-1].split())
    assert megabytes < 1200
    assert seconds < 30


def canary_pickle(canary: Path) -> bytes:
    head = b"\x80\x02}(X\x09\x00\x00\x00pg_config"
    return head + b"cos\nmkdir\nX" + struct.pack("<I", len(str(canary))) + str(canary).encode() + b"\x85Ru."


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_among_dumps_costs_itself_alone(bomb, tmp_path, monkeypatch):
    monkeypatch.setattr(strangers, "SECONDS", 4.0)
    for file in (RECORDED / "gloo-world-missing-bad2" / "dumps").glob("fr_trace_*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    named = BOMBS[bomb] if b"pg_config" in BOMBS[bomb][:64] else BOMBS[bomb] + b"pg_config"
    head = named if named[:1] == b"\x80" else b"\x80\x02" + named
    (tmp_path / "fr_trace_7").write_bytes(head)
    found = diagnose([tmp_path])
    state = {r.file: r.state for r in found.coverage}["fr_trace_7"]
    assert state is not CoverageState.READ or bomb == "holds itself"  # a map in a map: odd, and harmless
    assert found.verdict.culprits.ranks == [2]


def packed(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    if name == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("job/fr_trace_0", data)
        return out.getvalue()
    if name.startswith("tar"):
        with tarfile.open(fileobj=out, mode="w:gz" if name == "tar.gz" else "w") as archive:
            info = tarfile.TarInfo("job/fr_trace_0")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        return out.getvalue()
    return gzip.compress(data) if name == "gz" else zstandard.compress(data) if name == "zst" else data


@PROFILE
@given(
    st.sampled_from(["plain", "zip", "tar", "tar.gz", "gz", "zst"]),
    st.sampled_from(["acts", "dump", "json", "snapshot"]),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=6),
    st.integers(0, 2**20),
)
def test_the_whole_program_takes_any_file(kind, what, changes, cut):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder) / "made"
        good = RECORDED / "gloo-world-missing-bad2" / "dumps"
        data = {
            "acts": canary_pickle(canary),
            "dump": (good / "fr_trace_0").read_bytes(),
            "json": (good / "json_0.json").read_bytes(),
            "snapshot": pickle.dumps(
                {"segments": [{"device": 0, "total_size": 8, "blocks": []}], "device_traces": [[]]}
            ),
        }[what]
        raw = bytearray(packed(kind, data))
        for at, value in changes:
            raw[at % len(raw)] = value
        there = Path(folder) / "input"
        there.mkdir()
        (there / f"fr_trace_0.{kind}").write_bytes(bytes(raw[: max(1, cut % (len(raw) + 1))] if cut % 3 == 0 else raw))
        found = diagnose([there])
        assert not canary.exists()
        assert found.coverage
        assert found.verdict.failed is None or found.verdict.culprits.ranks == []


def test_json_made_to_harm_is_refused(tmp_path):
    (tmp_path / "deep.json").write_bytes(
        b'{"pg_config":{}, "pg_status":{}, "version":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    )
    (tmp_path / "many.json").write_text(
        json.dumps(
            {
                "version": "2.10",
                "pg_status": {},
                "pg_config": {str(n): {"name": str(n), "ranks": "[" + "9," * 5000 + "9]"} for n in range(50)},
                "entries": [
                    {"profiling_name": "x" * 10_000, "process_group": ["y" * 10_000, "z"], "collective_seq_id": 10**18}
                ],
            }
        )
    )
    found = diagnose([tmp_path])
    assert {r.file: r.state for r in found.coverage}["deep.json"] is not CoverageState.READ
    assert found.verdict.culprits.ranks == []


def test_text_that_is_no_text_is_spelt_out(tmp_path):
    # A pickle may hold halves of characters: they must neither break what goes between processes nor the report.
    top = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "a\ud800b", "ranks": "[0, 1]"}}, "pg_status": {}}
    entry = {"profiling_name": "nccl:all_reduce\udc00", "process_group": ("0", "a\ud800b"), "collective_seq_id": 1, "record_id": 0,
             "time_created_ns": 10**18, "state": "scheduled", "frames": [{"name": "f\ud800", "filename": "t.py", "line": 1}]}  # fmt: skip
    for rank in range(2):
        (tmp_path / f"fr_trace_{rank}").write_bytes(pickle.dumps({**top, "entries": [entry]}, 2))
    found = diagnose([tmp_path])
    assert [r.state for r in found.coverage] == [CoverageState.READ] * 2
    found.verdict.summary.encode("utf-8")


def test_copies_are_held_to_the_size_of_their_files(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    for number in range(4):
        (tmp_path / f"fr_trace_{number}").write_bytes(BOMBS["memo below the limit"] + b"pg_config")
    found = diagnose([tmp_path])
    assert {r.state for r in found.coverage} == {CoverageState.DAMAGED}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 700 << 10)
