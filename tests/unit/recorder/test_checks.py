"""Whether a machine can record, tried by doing it; what is missing is named with what it means."""

import os
import signal

import firstfault.recorder as recorder
from firstfault.recorder import checks
from firstfault.recorder.signals import _candidates


def by_name(found):
    return {c.name: c for c in found}


def test_a_machine_that_can_do_it_passes_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    monkeypatch.setattr(checks, "FREE_MB", 0)
    found = by_name(recorder.check(str(tmp_path / "box")))
    for name in ("shared folder", "local folder", "heartbeat", "stacks by signal", "death of a process"):
        assert found[name].met, found[name]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_named_with_its_price(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="ascii")
    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    found = by_name(recorder.check(str(tmp_path / "file" / "box")))
    assert not found["shared folder"].met
    assert "nothing would survive the node" in found["shared folder"].detail


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    monkeypatch.setattr(checks, "FREE_MB", 1 << 40)
    assert not by_name(recorder.check(str(tmp_path / "box")))["shared folder"].met


def test_no_pidfd_is_named(tmp_path, monkeypatch):
    def none(_pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    monkeypatch.setattr(os, "pidfd_open", none)
    found = by_name(recorder.check(str(tmp_path / "box")))["death of a process"]
    assert not found.met
    assert "5.3" in found.detail


def test_a_wanted_signal_comes_first_by_name_or_number(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert _candidates("USR2")[0] == signal.SIGUSR2
    assert _candidates("SIGUSR2")[0] == signal.SIGUSR2
    assert _candidates("44")[0] == 44
    assert _candidates("nonsense")[0] == signal.SIGUSR1
