"""Whether a machine can record, tried by doing it; what is missing is named with what it means."""

import os
import signal
import socket
import time

import pytest
from click.testing import CliRunner

import firstfault.recorder as recorder
from firstfault.cli.record import command
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


def test_a_folder_that_answers_slowly_is_named(tmp_path, monkeypatch):
    def slow(path, data):
        time.sleep(0.02)
        with open(path, "wb") as file:
            file.write(data)
        return True

    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    monkeypatch.setattr(checks, "FREE_MB", 0)
    monkeypatch.setattr(checks, "replace_file", slow)
    monkeypatch.setattr(checks, "SLOW_S", 0.01)
    found = by_name(recorder.check(str(tmp_path / "box")))["shared folder"]
    assert not found.met
    assert "heartbeats would come late" in found.detail


@pytest.fixture
def port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def store(monkeypatch, address, port):
    monkeypatch.setenv("MASTER_ADDR", address)
    monkeypatch.setenv("MASTER_PORT", str(port))
    return checks._store()


def test_the_store_is_reached_where_somebody_listens_or_the_host_answers(port, monkeypatch):
    number = port.getsockname()[1]
    refused = store(monkeypatch, "127.0.0.1", number)
    port.listen()
    taken = store(monkeypatch, "127.0.0.1", number)
    assert [(c.met, c.detail.rsplit(": ", 1)[1]) for c in (*refused, *taken)] == [
        (True, "the host answers, nobody listens there yet"),
        (True, "somebody listens"),
    ]


def test_a_store_that_nobody_knows_is_named_and_without_one_nothing_is_said(monkeypatch):
    assert [c.met for c in store(monkeypatch, "no-such-host.invalid", 29500)] == [False]
    assert store(monkeypatch, "", 29500) == []
    assert store(monkeypatch, "127.0.0.1", "none") == []


def test_the_command_shows_each_need_and_fails_where_one_is_not_met(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    monkeypatch.setattr(checks, "FREE_MB", 0)
    monkeypatch.setattr(checks, "_ptrace", lambda: checks.Check("ptrace", met=True, detail="scope 0"))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    fine = CliRunner().invoke(command, ["--check", "--dir", str(tmp_path / "box")], standalone_mode=False)
    assert (fine.return_value, fine.output.count("ok ")) == (0, 7), fine.output
    monkeypatch.setattr(checks, "FREE_MB", 1 << 40)
    short = CliRunner().invoke(command, ["--check", "--dir", str(tmp_path / "box")], standalone_mode=False)
    assert short.return_value == 1
    assert "missing shared folder" in short.output


@pytest.mark.parametrize("words", [["--check", "--", "true"], []])
def test_a_check_runs_no_command_and_without_one_a_command_is_wanted(words):
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert "COMMAND" in done.output
