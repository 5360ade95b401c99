"""Machines that stand before every line by their address: as pdsh, a loop over ssh, or a node's kernel log writes them."""

from __future__ import annotations

import pytest

from firstfault.readers.identity import locate, profile_source

PDSH = "10.10.3.{n}: [2024-01-02 10:00:{i:02d},101] [INFO] [launch.py:145:main] nproc {i}"
LOOP = "172.16.0.{n}: step {i}: loss 1.9"
TALOS = "192.168.40.{n}: kern: warning: [2026-04-22T21:25:{i:02d}.458998481Z]: NVRM: Xid (PCI:0000:48:00): 74, pid=1"
GREPPED = "log.{n}:step {i}: loss 1.9"


@pytest.mark.parametrize("form", [PDSH, LOOP, TALOS])
def test_an_address_is_the_machine_of_its_line(form: str) -> None:
    lines = [form.format(n=4 + i % 2, i=i).encode() for i in range(20)]
    profile = profile_source(b"\n".join(lines) + b"\n", "job.log")
    hosts = [locate(line, len(line), profile).who.host for line in lines]
    assert hosts == [form.split("{", 1)[0] + str(4 + i % 2) for i in range(20)]


def test_a_kernel_log_of_one_node_too() -> None:
    lines = [TALOS.format(n=7, i=i).encode() for i in range(8)]
    profile = profile_source(b"\n".join(lines) + b"\n", "dmesg.txt")
    found = locate(lines[3], len(lines[3]), profile)
    assert found.who.host == "192.168.40.7"
    assert found.stamp is not None


def test_a_numbered_file_is_still_a_file() -> None:
    lines = [GREPPED.format(n=4 + i % 2, i=i).encode() for i in range(20)]
    profile = profile_source(b"\n".join(lines) + b"\n", "all.txt")
    assert profile.wrapping is not None
    assert profile.wrapping.kind == "file"
