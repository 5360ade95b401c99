"""Compressed files and archives: every kind, nested, damaged and hostile."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest
import zstandard

from firstfault.model.words import CoverageState
from firstfault.readers.open import Limits, open_inputs

LOG = b"".join(b"step %d loss %d.%d\n" % (i, i % 7, i * i % 100) for i in range(3000))
PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def opened(tmp_path, data: bytes, name: str = "input", **limits):
    path = tmp_path / name
    path.write_bytes(data)
    return open_inputs([path], limits=Limits(**limits))


def contents(result) -> dict[str, bytes]:
    return {s.path: result.store.read(s.id, 0, 1 << 30) for s in result.sources}


def said(result) -> dict[str, tuple[CoverageState, str]]:
    return {c.file: (c.state, c.reason) for c in result.coverage}


def tar_of(members: dict[str, bytes], mode: str = "w", fmt: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=fmt) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("kind", PACK)
def test_a_compressed_file_is_told_by_content_and_keeps_its_name(tmp_path, kind):
    with opened(tmp_path, PACK[kind](LOG), "train.log.1") as result:
        assert contents(result) == {"train.log.1": LOG}
        assert said(result)["train.log.1"][0] is CoverageState.READ


@pytest.mark.parametrize("kind", PACK)
def test_joined_streams_are_one_log(tmp_path, kind):
    with opened(tmp_path, PACK[kind](LOG) + PACK[kind](b"the end\n")) as result:
        assert contents(result) == {"input": LOG + b"the end\n"}


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_cut_stream_gives_what_comes_before(tmp_path, kind, share):
    noisy = b"".join(b"%x\n" % (i * 2654435761 % 2**64) for i in range(60_000))
    packed = PACK[kind](noisy)
    with opened(tmp_path, packed[: int(len(packed) * share)]) as result:
        state, reason = said(result)["input"]
        assert state is CoverageState.DAMAGED
        assert "too early" in reason
        got = contents(result).get("input", b"")
        assert noisy.startswith(got)
        if kind in {"gz", "zst"}:
            assert len(got) > len(noisy) * (share - 0.25)


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_bytes_before_a_flipped_one_are_kept(tmp_path, kind):
    noisy = b"".join(b"%x\n" % (i * 2654435761 % 2**64) for i in range(60_000))
    packed = bytearray(PACK[kind](noisy))
    at = len(packed) * 3 // 4
    packed[at : at + 40] = bytes(40)
    with opened(tmp_path, bytes(packed)) as result:
        assert said(result)["input"][0] is CoverageState.DAMAGED
        got = contents(result)["input"]
        assert got[: len(noisy) // 2] == noisy[: len(noisy) // 2]


def test_padding_and_a_signature_behind_a_stream_are_no_damage(tmp_path):
    for i, behind in enumerate((bytes(5000), b"-----BEGIN SIGNATURE-----\n")):
        with opened(tmp_path, gzip.compress(LOG) + behind, f"{i}.gz") as result:
            assert said(result)[f"{i}.gz"] == (CoverageState.READ, "")


@pytest.mark.parametrize("fmt", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_tar_plain_and_compressed(tmp_path, fmt, mode):
    with opened(tmp_path, tar_of({"./logs/b.log": LOG, "a.log": b"one\n"}, mode, fmt), "all.tar") as result:
        assert contents(result) == {"all.tar!a.log": b"one\n", "all.tar!logs/b.log": LOG}


def test_archives_within_archives(tmp_path):
    inner = zip_of({"node-1.tar.gz": tar_of({"rank0.log.gz": gzip.compress(LOG)}, "w:gz"), "x.log": b"x\n"})
    with opened(tmp_path, tar_of({"bundle.zip": inner}), "all.tar") as result:
        assert contents(result) == {
            "all.tar!bundle.zip!node-1.tar.gz!rank0.log.gz": LOG,
            "all.tar!bundle.zip!x.log": b"x\n",
        }
        assert result.sources[0].member == ("bundle.zip", "node-1.tar.gz", "rank0.log.gz")


def test_too_deep(tmp_path):
    data = LOG
    for _ in range(8):
        data = gzip.compress(data)
    with opened(tmp_path, data, depth=3) as result:
        assert said(result) == {"input": (CoverageState.SKIPPED, "archives nested more than 3 deep")}


def test_members_that_share_their_bytes_do_not_multiply_them(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("0.log", LOG)
        for n in range(1, 300):
            again = copy.copy(archive.filelist[0])
            again.filename = f"{n}.log"
            archive.filelist.append(again)
        archive._didModify = True
    with opened(tmp_path, out.getvalue(), "x.zip") as result:
        assert 1 <= len(result.sources) < 10
        assert said(result)["x.zip!299.log"][0] is CoverageState.DAMAGED


def test_names_and_kinds_of_members_cannot_reach_out(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, target in (
            ("link", tarfile.SYMTYPE, "/etc/passwd"),
            ("hard", tarfile.LNKTYPE, "../../etc/passwd"),
            ("null", tarfile.CHRTYPE, ""),
            ("pipe", tarfile.FIFOTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        for name in ("../../up.log", "/abs.log"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"abc\n"))
    before = set(tmp_path.parent.rglob("*"))
    with opened(tmp_path, out.getvalue(), "t.tar") as result:
        assert contents(result) == {"t.tar!../../up.log": b"abc\n", "t.tar!abs.log": b"abc\n"}
        assert all(said(result)[f"t.tar!{n}"][0] is CoverageState.SKIPPED for n in ("link", "hard", "null", "pipe"))
        assert set(tmp_path.parent.rglob("*")) - before == {tmp_path / "t.tar"}


def test_a_cut_tar_gives_the_members_before(tmp_path):
    data = tar_of({"a.log": b"one\n", "b.log": LOG, "c.log": b"three\n"})
    with opened(tmp_path, data[:6000], "t.tar") as result:
        assert contents(result) == {"t.tar!a.log": b"one\n", "t.tar!b.log": LOG[: 6000 - 512 * 3 - 0]}
        assert said(result)["t.tar!b.log"] == (CoverageState.DAMAGED, "the archive ends inside this member")


def test_a_cut_tar_gz(tmp_path):
    noisy = {
        f"{i}.log": b"".join(b"%x\n" % ((i * 999 + j) * 2654435761 % 2**64) for j in range(4000)) for i in range(6)
    }
    packed = tar_of(noisy, "w:gz")
    with opened(tmp_path, packed[: len(packed) // 2], "t.tgz") as result:
        got = contents(result)
        assert got["t.tgz!0.log"] == noisy["0.log"]
        assert all(noisy[name.split("!")[1]].startswith(data) for name, data in got.items())
        assert {state for state, _ in said(result).values()} == {CoverageState.DAMAGED}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip_by_every_method(tmp_path, method):
    with opened(tmp_path, zip_of({"d/a.log": LOG, "b.log": b"b\n"}, method), "z.zip") as result:
        assert contents(result) == {"z.zip!b.log": b"b\n", "z.zip!d/a.log": LOG}


def test_an_encrypted_member_is_named(tmp_path):
    data = bytearray(zip_of({"a.log": LOG}))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + flags] |= 1
    with opened(tmp_path, bytes(data), "z.zip") as result:
        assert said(result) == {"z.zip!a.log": (CoverageState.SKIPPED, "encrypted")}


def test_a_zip_without_its_end(tmp_path):
    data = zip_of({"a.log": b"a\n" * 50, "b.log": LOG})
    with opened(tmp_path, data[:-400], "z.zip") as result:
        got = contents(result)
        assert got["z.zip!a.log"] == b"a\n" * 50
        assert LOG.startswith(got["z.zip!b.log"])
        assert said(result)["z.zip"][0] is CoverageState.DAMAGED


def test_a_wrong_check_sum_is_damage(tmp_path):
    data = bytearray(zip_of({"a.log": LOG}, zipfile.ZIP_STORED))
    data[200] ^= 1
    with opened(tmp_path, bytes(data), "z.zip") as result:
        assert said(result)["z.zip!a.log"] == (CoverageState.DAMAGED, "damaged: its check sum is wrong")


def test_a_bomb_is_stopped(tmp_path):
    with opened(tmp_path, gzip.compress(bytes(3_000_000) + LOG), ratio=50, ratio_from=100_000) as result:
        assert "expands more than 50 times" in said(result)["input"][1]


def test_a_bomb_of_members_is_stopped(tmp_path):
    data = zip_of({f"{i}.log": b"x\n" for i in range(30)})
    with opened(tmp_path, data, "z.zip", members=10) as result:
        assert len(result.sources) == 10
        assert said(result)["z.zip"] == (CoverageState.DAMAGED, "more than 10 members: the rest was not read")


def test_temporary_space_is_limited(tmp_path):
    with opened(tmp_path, gzip.compress(LOG), unpacked=1000) as result:
        assert contents(result) == {"input": LOG[:1000]}
        assert said(result)["input"] == (CoverageState.DAMAGED, "too large: the limit of temporary space is reached")


def test_a_checkpoint_is_not_searched(tmp_path):
    with opened(tmp_path, zip_of({"archive/data.pkl": b"\x80\x02.", "archive/version": b"3\n"}), "m.pt") as result:
        assert said(result)["m.pt"][1].startswith("a checkpoint")


def test_a_tar_header_that_claims_too_much(tmp_path):
    data = bytearray(tar_of({"a" * 150: b"x\n"}, fmt=tarfile.GNU_FORMAT))
    data[124:136] = b"77777777777\0"
    data[148:156] = b" " * 8
    data[148:155] = b"%06o\0" % sum(data[:512])
    with opened(tmp_path, bytes(data), "t.tar") as result:
        assert result.sources == ()
        assert said(result)["t.tar"][0] is CoverageState.DAMAGED


def nested_bomb(layers: int, fan: int, size: int) -> bytes:
    """Archives within archives, each of which packs equal copies of the next: tiny outside, huge inside."""
    data = zip_of({"log": b"0" * size})
    for _ in range(layers):
        data = zip_of({f"{i}.zip": data for i in range(fan)})
    return data


def test_archives_within_archives_may_not_grow_without_end(tmp_path):
    bomb = nested_bomb(2, 8, 1 << 20)  # 64 MiB out of some kilobytes
    with opened(tmp_path, bomb, "bomb.zip", whole_from=4 << 20, ratio=100) as result:
        unpacked = sum(len(data) for data in contents(result).values())
        reasons = [reason for state, reason in said(result).values() if state is CoverageState.DAMAGED]
    assert unpacked < 6 << 20
    assert any("more than 100 times" in reason for reason in reasons)


def test_a_log_that_is_compressed_well_in_two_layers_is_read_whole(tmp_path):
    text = b"".join(b"[rank3] iteration %d/ 90000 | loss: 2.%d\n" % (i, i % 7) for i in range(90_000))
    packed = zip_of({"a.log.gz": gzip.compress(text)})
    with opened(tmp_path, packed, "logs.zip", whole_from=1 << 20) as result:
        assert contents(result)["logs.zip!a.log.gz"] == text
        assert {state for state, _ in said(result).values()} == {CoverageState.READ}
