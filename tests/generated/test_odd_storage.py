"""Daemons' logs as nobody should hand them in: of another cluster or year, cut, packed, recoded, mixed. Nothing may be named surely
that is not at fault, what can be read is used, and what cannot is told."""

from __future__ import annotations

import gzip
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from generated.aistore import scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis

BASE = next(s for s in scenario.matrix(large=False) if s.kind == "late_abort" and s.version == (4, 2))


def spec(**changes: Any) -> scenario.Spec:
    plain = replace(
        BASE, layout="folder", apart=True, decoy=False, tenant=False, skewed=False, zones=(480, 0), midnight=""
    )
    return replace(plain, **changes)


STATED = "+08:00"
"""The zone of the jobs."""


def read(folder: Path, *storage: Path, zone: str | None = None) -> Diagnosis:
    """The diagnosis; with the job's zone stated where it is to be sure whom it names: without, only counters join the clocks."""
    options = DiagnoseOptions(storage=tuple(map(str, storage or (folder / "storage",))), assume_zone=zone)
    return diagnose([folder / "logs"], options)


def names(truth: dict[str, Any]) -> set[str]:
    return {name for host in truth["culprit_hosts"] for name in truth["aliases"][host]}


def surely(found: Diagnosis) -> set[str]:
    """Daemons that are named as more than a possibility."""
    culprits = found.verdict.culprits
    return set(culprits.storage_nodes) if culprits.strength.level > Strength.POSSIBLE.level else set()


def each(folder: Path, change: Callable[[Path], None]) -> None:
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        change(file)


def test_of_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its own job ended at the same moment, and a disk of it was busy.
    monkeypatch.setattr(scenario, "_moment", lambda spec, rng: 1_770_700_000.0 + rng.uniform(0, 1))
    scenario.build(spec(), tmp_path / "a")
    scenario.build(spec(kind="healthy"), tmp_path / "b")
    shutil.rmtree(tmp_path / "a" / "storage")
    found = read(tmp_path / "a", tmp_path / "b" / "storage")
    assert found.verdict.category is Category.STORAGE_IO
    assert surely(found) == set()


def test_of_another_year(tmp_path: Path) -> None:
    scenario.build(spec(), tmp_path)

    def age(file: Path) -> None:
        text = file.read_bytes()
        file.write_bytes(re.sub(rb"\b20(\d\d)/", lambda m: b"20%02d/" % (int(m[1]) - 2), _marks(text)))

    each(tmp_path / "storage", age)
    found = read(tmp_path)
    assert surely(found) == set()
    assert found.storage is not None
    assert not any(d.covers_failure for d in found.storage.daemons)
    assert any("those given are of 2024-02" in asked for asked in found.collect_next)


def _marks(text: bytes) -> bytes:
    """Hourly marks two years earlier."""
    return re.sub(
        rb"(\d\d [A-Z][a-z]{2} )(\d\d)( \d\d:\d\d \S+ =+)", lambda m: m[1] + b"%02d" % (int(m[2]) - 2) + m[3], text
    )


def test_rotated_parts_packed_one_by_one(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)

    def pack(file: Path) -> None:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()

    each(tmp_path / "storage", pack)
    assert surely(read(tmp_path, zone=STATED)) & names(truth)


def test_proxies_only(tmp_path: Path) -> None:
    scenario.build(spec(), tmp_path)
    each(tmp_path / "storage", lambda file: file.unlink() if "target" in file.name else None)
    found = read(tmp_path)
    assert surely(found) == set()
    assert any("the logs of the storage targets" in asked for asked in found.collect_next)


def test_errors_on_stderr_only(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)

    def keep(file: Path) -> None:
        errors = [line for line in file.read_bytes().splitlines(keepends=True) if line.startswith(b"E ")]
        file.unlink()
        if errors:
            name = re.search(r"ais-?[a-z-]*-\d+|ais(?:target|proxy)\.[^.]+", str(file))
            file.with_name(f"{name[0] if name else file.name}-stderr.log").write_bytes(b"".join(errors))

    each(tmp_path / "storage", keep)
    assert surely(read(tmp_path)) <= names(truth)


def test_folders_with_blanks(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)
    place = tmp_path / "my store (west)" / "log files of today"
    place.parent.mkdir()
    shutil.move(tmp_path / "storage", place)
    assert surely(read(tmp_path, place, zone=STATED)) & names(truth)


def test_two_clusters_in_one_folder(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path / "a")
    scenario.build(spec(kind="healthy", seed=5), tmp_path / "b")
    both = tmp_path / "both"
    shutil.copytree(tmp_path / "a" / "storage", both / "west", symlinks=True)
    shutil.copytree(tmp_path / "b" / "storage", both / "east", symlinks=True)
    assert surely(read(tmp_path / "a", both)) <= names(truth)


def test_two_bytes_a_character(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)
    each(tmp_path / "storage", lambda file: file.write_bytes(file.read_bytes().decode().encode("utf-16")) and None)
    found = read(tmp_path, zone=STATED)
    assert surely(found) <= names(truth)
    read_well = {row.file for row in found.coverage if row.state == "read"}
    assert surely(found) or not any("ais" in file for file in read_well)


def test_a_half_written_archive(tmp_path: Path) -> None:
    truth = scenario.build(spec(layout="archives"), tmp_path)
    each(tmp_path / "storage", lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]) and None)
    found = read(tmp_path)
    assert surely(found) <= names(truth)
    assert any(row.state == "damaged" for row in found.coverage)


def test_parts_put_together_in_the_wrong_order(tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)
    parts: dict[str, list[Path]] = {}
    for file in sorted(p for p in (tmp_path / "storage").rglob("*") if p.is_file() and not p.is_symlink()):
        parts.setdefault(re.sub(r"\.\d{4}-\d{6}\.\d+$", "", str(file)), []).append(file)
    for stem, files in parts.items():
        whole = b"".join(file.read_bytes() for file in reversed(files))
        for file in files:
            file.unlink()
        (tmp_path / "storage" / (stem.rsplit("/", 1)[-1] + ".all.log")).write_bytes(whole)
    assert surely(read(tmp_path)) <= names(truth)


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_line_ends(end: bytes, tmp_path: Path) -> None:
    truth = scenario.build(spec(), tmp_path)
    each(tmp_path / "storage", lambda file: file.write_bytes(file.read_bytes().replace(b"\n", end)) and None)
    assert surely(read(tmp_path)) <= names(truth)


def test_empty_files_and_folders(tmp_path: Path) -> None:
    scenario.build(spec(), tmp_path)
    each(tmp_path / "storage", lambda file: file.write_bytes(b"") and None)
    (tmp_path / "storage" / "nothing").mkdir()
    found = read(tmp_path)
    assert found.verdict.category is Category.STORAGE_IO
    assert found.verdict.culprits.storage_nodes == []


HEALED = {
    "older": "2026-01-01 00:00:01,118 WARNING: Error while reading 'objects/asr/shards/a_1.tar', retrying 1/5",
    "newer": "2026-01-01 00:00:01,118 WARNING: Resuming 'asr/a_1.tar' after ('Connection broken', ConnectionResetError(104, 'x')) (1/5)",
}


@pytest.mark.parametrize("told_between", [True, False])
@pytest.mark.parametrize("words", HEALED.values(), ids=HEALED)
@pytest.mark.parametrize("labelled", [True, False])
def test_a_read_that_the_failing_rank_had_repeated_before(
    words: str, *, told_between: bool, labelled: bool, tmp_path: Path
) -> None:
    truth = scenario.build(spec(), tmp_path)
    (rank,) = truth["first_failed_ranks"]
    for file in sorted((tmp_path / "logs").iterdir()):
        lines = file.read_text().split("\n")
        heads = [n for n, line in enumerate(lines) if re.match(rf"\[rank{rank}\]: Traceback", line)]
        if heads:
            label = f"[rank{rank}]: " if labelled else ""
            between = [f"[rank{rank + 1}]: 2026-01-01 02:00:00,004 INFO: step"] if told_between else []
            lines[heads[0] : heads[0]] = [label + words, *between]
            file.write_text("\n".join(lines))
    found = read(tmp_path, zone=STATED)
    assert found.verdict.category is Category.STORAGE_IO
    assert found.verdict.first_failed.ranks == [rank]
    assert surely(found) & names(truth)
