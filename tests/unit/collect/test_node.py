"""What is asked of a node: by programs that answer, refuse, stand or are missing; the truth is what those programs were made to do."""

import os
import subprocess
import sys
import tarfile
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from box_folder import START, Box
from click.testing import CliRunner

from firstfault.cli.collect import command
from firstfault.collect import node, processes
from firstfault.collect.boxes import begun, pack
from firstfault.collect.commands import Answer, run
from firstfault.privacy.secrets import SecretFilter

UUID = "GPU-3b1f2c4d-0a1b-2c3d-4e5f-60718293a4b5"
SECRET = "hf_PlantedTokenOfThisNode0123456789"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine on which only the programs are that a test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("firstfault.collect.commands._PATH", str(folder))

    def put(name, text):
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(0o755)

    return put


def test_a_program_that_stands_is_left_after_its_time(machine):
    machine("df", "echo begun; exec /bin/sleep 60")
    begin = time.monotonic()
    answer = run(["df"], 0.3)
    assert time.monotonic() - begin < 5
    assert (answer.text, answer.trouble) == (b"begun\n", "df gave no answer in 0.3 s")


def test_what_is_missing_or_refused_is_told_with_its_reason(machine):
    machine("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    machine("df", "echo /dev/vda1 ext4 100 50 50 50% /")
    found = node.look("/", pids=[os.getpid()])
    assert "Operation not permitted" in found.left_out["kernel.txt"]
    assert "journalctl is not on this machine" in found.left_out["kernel.txt"]
    assert "nvidia-smi is not on this machine" in found.left_out["cards.txt"]
    assert b"/dev/vda1" in found.files["disks.txt"]
    assert set(found.files) | set(found.left_out) == {p.file for p in node.parts("/", None)} | {"processes.txt"}


def test_another_program_answers_where_the_first_may_not(machine):
    machine("dmesg", "exit 1")
    machine("journalctl", "echo 'kernel: NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.'")
    found = node.look("/", pids=[os.getpid()])
    assert b"Xid" in found.files["kernel.txt"]
    assert "kernel.txt" not in found.left_out


def test_the_order_is_that_of_least_evidence_first(machine):
    for tool in ("nvidia-smi", "docker", "df", "git", "dmesg", "sacct", "scontrol"):
        machine(tool, "echo told")
    asked = []
    found = node.look("/", job="77", pids=[os.getpid()], say=asked.append)
    assert asked == list(found.files)
    assert [n.split(".")[0] for n in asked] == [
        "cards", "card-processes", "containers", "disks", "inodes", "code-revision", "code-changes", "image-labels",
        "processes", "kernel", "slurm-accounting", "slurm-job"]  # fmt: skip


def test_keys_proxies_and_serial_numbers_are_in_no_file_also_with_raw_names(machine, tmp_path):
    machine("nvidia-smi", f"echo 'GPU 0: Some Card (UUID: {UUID})'")
    machine("docker", f"echo 'image HUB_TOKEN={SECRET} http_proxy=http://inner.example:3128 --proxy x'")
    machine("scontrol", "echo '   Command=/x HTTPS_PROXY=inner.example:3128'")
    words = [sys.executable, "-c", "input()", "--token", SECRET, "--https-proxy=inner.example:3128"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        # It has begun when it waits for its input.
        while b") S " not in Path(f"/proc/{child.pid}/stat").read_bytes() and time.monotonic() < end:
            time.sleep(0.01)
        found = node.look("/", job="77", pids=[child.pid])
    finally:
        child.communicate(b"\n")
    pack(None, tmp_path / "a.tar.gz", raw=True, node=found)
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        content = b"".join(archive.extractfile(m).read() for m in archive.getmembers())
    assert b"Some Card" in content
    assert b"state S" in content
    for text in (UUID, UUID[4:], SECRET, SECRET[10:], "inner.example"):
        assert text.encode() not in content


def test_a_key_makes_the_pseudonyms_of_several_archives_agree(machine, tmp_path):
    machine("dmesg", "echo 'Nov 30 09:00:00 node-77.example.org kernel: oops'")
    found = node.look("/", pids=[os.getpid()])
    texts = []
    for number, key in enumerate((b"k" * 16, b"k" * 16, b"l" * 16)):
        pack(None, tmp_path / f"{number}.tar.gz", node=found, key=key)
        with tarfile.open(tmp_path / f"{number}.tar.gz") as archive:
            texts.append({n: archive.extractfile(n).read() for n in archive.getnames() if "kernel" in n})
    assert texts[0] == texts[1] != texts[2]
    assert b"node-77" not in b"".join(texts[0].values())


def test_the_command_lists_what_it_left_out_in_the_archive_too(machine, tmp_path):
    machine("df", "echo /dev/vda1 ext4 100 50 50 50% /")
    done = CliRunner().invoke(command, ["--node", "-o", str(tmp_path / "a.tar.gz")], standalone_mode=False)
    assert done.return_value == 0
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        told = archive.extractfile("left-out.txt").read().decode()
    assert "cards.txt: nvidia-smi is not on this machine" in told


@pytest.mark.parametrize("words", [[], ["--slurm", "77; rm"], ["--slurm", "-x"]])
def test_wrong_use_is_told(words, tmp_path):
    done = CliRunner().invoke(command, [*words, "-o", str(tmp_path / "a.tar.gz")])
    assert done.exit_code == 2
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-11-30T06:00:00,123456+00:00 x: segfault", "2026-11-30T07:00:01,123456+00:00 y: segfault"),
        ("2026-11-30T06:00:00+0000 h kernel: x", "2026-11-30T09:00:01+0200 h kernel: y"),
    ],
)
def test_what_the_kernel_said_before_the_job_stays_away(old, new):
    since = datetime(2026, 11, 30, 7, tzinfo=timezone.utc).timestamp()
    text = f"{old}\n more of it\n{new}\n more of that\n"
    assert node.recent(text.encode(), since) == (f"{new}\n more of that\n".encode(), 2)


def test_a_time_of_the_local_clock_counts_too():
    now = time.time()
    lines = [f"[{time.strftime('%a %b %e %H:%M:%S %Y', time.localtime(now + s))}] x" for s in (-7200, -60)]
    assert node.recent("\n".join(lines).encode(), now - 3600) == (lines[1].encode(), 1)


def test_the_job_begins_with_its_box(tmp_path):
    Box(tmp_path)
    assert begun(tmp_path) == START


STANDS = "trap '' TERM INT HUP; while :; do /bin/sleep 60; done"


def test_a_dying_card_costs_one_time_out_and_leaves_what_the_driver_says(machine, monkeypatch):
    monkeypatch.setattr(node, "LIMIT_S", 0.5)
    machine("nvidia-smi", f'echo "$@" >> {Path(os.environ["PATH"]) / "asked"}; {STANDS}')
    machine("cat", f"echo 'NVRM version: NVIDIA UNIX Module  570.86.15'; echo 'GPU UUID: {UUID}'")
    machine("df", "echo /dev/vda1 ext4 100 50 50 50% /")
    begin = time.monotonic()
    found = node.look("/", pids=[os.getpid()])
    assert time.monotonic() - begin < 30
    asked = (Path(os.environ["PATH"]) / "asked").read_text().splitlines()
    assert len(asked) == 1, "each further one would stand beside the first"
    assert b"570.86.15" in found.files["cards.txt"]
    assert UUID.encode() not in found.files["cards.txt"]
    assert "nvidia-smi gave no answer in 0.5 s" in found.left_out["cards.txt"]
    assert "nvidia-smi gave no answer" in found.left_out["card-processes.txt"]
    assert b"/dev/vda1" in found.files["disks.txt"]


def test_a_program_that_not_even_a_kill_ends_is_left_behind(machine, monkeypatch):
    killed = []
    monkeypatch.setattr("firstfault.collect.commands.os.killpg", lambda pid, number: killed.append((pid, number)))
    monkeypatch.setattr("firstfault.collect.commands._GONE_S", 0.2)
    machine("nvidia-smi", STANDS)
    begin = time.monotonic()
    answer = run(["nvidia-smi"], 0.3)
    spent = time.monotonic() - begin
    monkeypatch.undo()
    os.killpg(*killed[0])
    os.waitpid(killed[0][0], 0)
    assert answer.stuck
    assert spent < 5


def test_a_disk_that_stands_does_not_hide_the_others(machine, monkeypatch):
    monkeypatch.setattr(node, "LIMIT_S", 0.5)
    machine("df", f'case "$1" in *l) echo /dev/vda1 ext4 100 50 50 50% /;; *) {STANDS};; esac')
    found = node.look("/", pids=[os.getpid()])
    assert b"/dev/vda1" in found.files["disks.txt"]
    assert found.left_out["disks.txt"] == "df gave no answer in 0.5 s"


def test_a_process_that_does_not_answer_hides_no_other(monkeypatch):
    lines = {1: "pid 1 parent 0 state S\n", 3: "pid 3 parent 1 state S\n"}

    def answer(words, seconds):
        """As the kernel does where the memory of process 2 is locked: who asks for it stands."""
        wanted = [int(w) for w in words[4:]]
        told = wanted[: wanted.index(2)] if 2 in wanted else wanted
        return Answer("".join(lines[n] for n in told).encode(), "no answer" if 2 in wanted else "", 2 in wanted)

    monkeypatch.setattr(processes, "run", answer)
    monkeypatch.setattr(processes, "_own", lambda: [1, 2, 3])
    text, trouble = processes.processes([])
    assert text.decode() == lines[1] + lines[3]
    assert trouble.startswith("process 2 ")


@pytest.mark.parametrize(
    "line",
    [
        "python t.py --proxy http://inner.example:3128 --x",
        "curl -x inner.example:3128 y",
        "PROXY_URL=inner.example:3128",
        "git -c http.proxy=http://inner.example:3128 pull",
        "java -Dhttp.proxyHost=inner.example -jar x",
        "ssh -o ProxyCommand='nc -X connect -x inner.example:3128 %h' h",
        f"MIG {UUID.replace('GPU', 'MIG-GPU')}/7/0",
        "Serial Number : 3b1f2c4d99",
    ],
)
def test_what_a_proxy_and_a_serial_number_look_like(line):
    plain = node.cleaned(line.encode(), SecretFilter()).decode()
    assert "removed:" in plain
    assert not any(text in plain for text in ("inner.example", "3b1f2c4d", "MIG-GPU"))


@pytest.mark.parametrize(
    "line", ["registry reverse proxy nginx:1.25 Up 3 hours", "kube-proxy started pid 4", "serial8250: ttyS0"]
)
def test_what_only_speaks_of_a_proxy_stays(line):
    assert node.cleaned(line.encode(), SecretFilter()).decode() == line
