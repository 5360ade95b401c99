"""Simulated storage incidents: the verdict against what the simulation did, and the simulation against itself.

`FIRSTFAULT_TEST_PROFILE=large` crosses kinds, versions, zones and layouts; what is not reached in the default matrix stands
in `aistore/reached.toml`.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import checks
from generated.aistore import claims, held, scenario

LARGE = os.environ.get("FIRSTFAULT_TEST_PROFILE") == "large"
SPECS = list(scenario.matrix(large=LARGE))
REACHED = checks.read_reached(Path(__file__).parent / "aistore" / "reached.toml")
SAMPLE = [spec for spec in scenario.matrix(large=False) if spec.kind in ("late_abort", "killed", "proxy_lost")]


def _parameters() -> list[Any]:
    """One parameter an incident, a strict expected failure where its name is listed."""
    found = []
    for spec in SPECS:
        marks = []
        if spec.name in REACHED:
            reason = "; ".join(f"{check}: {why}" for check, why in REACHED[spec.name].items())
            marks.append(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
        found.append(pytest.param(spec, id=spec.name, marks=marks))
    return found


@pytest.mark.parametrize("spec", _parameters())
def test_incident(spec: scenario.Spec, tmp_path: Path) -> None:
    assert held.hold(spec, tmp_path).problems() == {}


@pytest.mark.skipif(LARGE, reason="the list is about the default matrix")
def test_what_is_not_reached_is_listed_properly() -> None:
    names = {spec.name for spec in SPECS}
    assert set(REACHED) <= names
    known = {*checks.CHECKS, "first_failed", "daemon_line", "asks", "clocks", "claims", "sure"}
    for name, entries in REACHED.items():
        assert entries, name
        assert set(entries) <= known, name
        assert all(isinstance(why, str) and why for why in entries.values()), name


@pytest.mark.parametrize("spec", SAMPLE, ids=lambda spec: spec.name)
def test_lines_of_the_truth_stand_where_it_says(spec: scenario.Spec, tmp_path: Path) -> None:
    truth = scenario.build(spec, tmp_path)
    lines = [truth["trigger"], *truth["trigger_alternatives"], *(step["line"] for step in truth["chain"])]
    for line in lines:
        raw = _content(tmp_path / line["file"], line.get("member")).split(b"\n")[line["line"] - 1]
        assert line["must_contain"] in raw.decode()


def test_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    for spec in SAMPLE[:3]:
        for folder in ("a", "b"):
            scenario.build(spec, tmp_path / folder / spec.name)
        first, second = (sorted((tmp_path / folder / spec.name).rglob("*")) for folder in ("a", "b"))
        assert [file.name for file in first] == [file.name for file in second]
        assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True) if a.is_file())


def test_long_records_are_cut_and_the_next_is_glued_on(tmp_path: Path) -> None:
    spec = next(spec for spec in scenario.matrix(large=True) if spec.version == (4, 1) and spec.layout == "folder")
    incident = scenario.plan(spec)
    incident.cluster.targets[0].disks = [f"nvme{number}n1" for number in range(16)]
    scenario.play(incident)
    node = incident.cluster.targets[0]
    files = node.journal.render(1_000_000, node.kept).files
    lines = b"".join(files.values()).split(b"\n")
    assert any(len(line) > 2048 and line[2048:2050] in (b"I ", b"W ", b"E ") for line in lines)


def _content(file: Path, member: str | None) -> bytes:
    if member is not None:
        with tarfile.open(file) as archive:
            packed = archive.extractfile(member)
            assert packed is not None
            return packed.read()
    raw = file.read_bytes()
    return gzip.GzipFile(fileobj=io.BytesIO(raw)).read() if file.suffix == ".gz" else raw


def test_a_claim_without_place_or_clock_is_found(tmp_path: Path) -> None:
    spec = next(spec for spec in SAMPLE if spec.kind == "late_abort" and not spec.tenant)
    diagnosis = held.hold(spec, tmp_path).diagnosis
    store = diagnosis.storage
    assert store is not None
    assert store.events
    assert claims.bare(diagnosis) == ""
    one_clock = replace(
        diagnosis.verdict, summary="Storage target ais-target-1: its disks were saturated, at 05:31:00 UTC."
    )
    unclocked = replace(store, events=[replace(event, job_time=None) for event in store.events])
    assert "one clock only" in claims.bare(replace(diagnosis, verdict=one_clock))
    assert "job's clock is missing" in claims.bare(replace(diagnosis, storage=unclocked))
