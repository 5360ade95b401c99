"""Checks of the network: interfaces by NCCL's own rule, RDMA devices by a made tree, locked memory; a real empty network where it may be had."""

import subprocess
import sys

import pytest
from made import DOCKER, ETH, IB, LO, found, machine, may_unshare, states

from firstfault.preflight.interfaces import Interface, chosen_by_nccl

TWO = {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": "0"}
DOWN = Interface("eth1", 0x1, ("10.0.0.5",))
VIRBR = Interface("virbr0", 0x41, ("192.168.122.1",))
TUNNEL = Interface("tailscale0", 0x41, ("100.64.0.3",))


@pytest.mark.parametrize(
    ("there", "asked", "names"),
    [
        ([LO, DOCKER, ETH], "", ["eth0"]),
        ([LO, ETH, IB], "", ["ib0"]),
        ([LO, DOCKER], "", ["docker0"]),
        ([LO, VIRBR], "", ["lo"]),
        ([LO], "", ["lo"]),
        ([LO, ETH, DOWN], "eth", ["eth0"]),
        ([LO, ETH, IB], "^lo,docker", ["eth0", "ib0"]),
        ([LO, ETH, Interface("eth01", 0x41, ("10.0.1.4",))], "=eth0", ["eth0"]),
        ([LO, ETH], "=eth", []),
        ([LO, ETH], "bond0", []),
        ([LO, ETH], "^=eth0", ["lo"]),
    ],
)
def test_the_interfaces_that_nccl_would_take(there, asked, names):
    assert [i.name for i in chosen_by_nccl(there, {"NCCL_SOCKET_IFNAME": asked} if asked else {})] == names


@pytest.mark.parametrize(
    ("there", "asked", "state"),
    [
        ((LO, ETH), "", "ok"),
        ((LO, DOCKER, ETH), "", "ok"),
        ((LO, DOCKER), "", "fail"),
        ((LO,), "", "fail"),
        ((LO, ETH), "lo", "fail"),
        ((LO, ETH, DOCKER), "docker0", "fail"),
        ((LO, ETH), "bond0", "fail"),
        ((LO, TUNNEL, ETH), "", "warn"),
        ((LO, ETH, TUNNEL), "", "warn"),
        ((LO, ETH, TUNNEL), "eth0", "ok"),
        ((LO, ETH, Interface("br-3f2a", 0x41, ("172.18.0.1",))), "", "warn"),
    ],
)
def test_an_interface_between_machines(there, asked, state):
    env = {"NCCL_SOCKET_IFNAME": asked} if asked else {}
    assert states("network.interface", machine(interfaces=there, **TWO, **env)) == {state}


def test_one_machine_needs_no_interface_between_machines():
    for there in ((LO,), (LO, DOCKER), (LO, ETH, TUNNEL)):
        assert states("network.interface", machine(interfaces=there)) == {"ok"}


def test_a_machine_without_a_network():
    code = "from made import states, machine\nimport firstfault.preflight.interfaces as i\nm = machine(RANK='0', WORLD_SIZE='2', LOCAL_WORLD_SIZE='1')\nm.__dict__['interfaces'] = i.interfaces()\nprint(sorted(states('network.interface', m)))"
    if may_unshare():
        words = ["unshare", "-rn", sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300, env=_env())
        assert done.stdout.strip() == "['warn']"  # nothing is up, not even the loopback
        words[3:] = [
            "sh",
            "-c",
            f'ip link set lo up && ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up; exec {sys.executable} -c "$0"',
            code,
        ]
        words = ["unshare", "-rn", *words[3:]]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300, env=_env())
        assert done.stdout.strip() == "['fail']"  # the loopback, or a bridge with nobody on it
    assert states("network.interface", machine(interfaces=[Interface("lo", 0x8, ())], **TWO)) == {"warn"}


def _env():
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}


@pytest.mark.parametrize(
    ("asked", "state"),
    [("eth0", "ok"), ("eth9", "fail"), ("10.0.0.4", "fail"), ("lo", "fail"), ("eth0,ib0", "fail"), ("", "ok")],
)
def test_gloos_interface(asked, state):
    assert states("network.gloo", machine(**TWO, **({"GLOO_SOCKET_IFNAME": asked} if asked else {}))) == {state}


def test_a_family_without_an_address():
    only4 = (LO, Interface("eth0", 0x41, ("10.0.0.4",)))
    assert states("network.family", machine(interfaces=only4, NCCL_SOCKET_FAMILY="AF_INET6")) == {"fail"}
    assert states("network.family", machine(interfaces=only4, NCCL_SOCKET_FAMILY="AF_INET")) == {"ok"}
    assert states("network.family", machine(NCCL_SOCKET_FAMILY="inet")) == {"warn"}


def port(
    device, number=1, state="4: ACTIVE", physical="5: LinkUp", layer="InfiniBand", rate="400 Gb/sec (4X NDR)", gids=None
):
    base = f"/sys/class/infiniband/{device}/ports/{number}"
    files = {f"{base}/state": state, f"{base}/phys_state": physical, f"{base}/link_layer": layer, f"{base}/rate": rate}
    return {**files, **{f"{base}/gids/{i}": g for i, g in (gids or {}).items()}, "/dev/infiniband/uverbs0": ""}


DEAD = {"state": "1: DOWN", "physical": "3: Disabled"}


@pytest.mark.parametrize(
    ("files", "env", "state", "says"),
    [
        ({}, {}, "ok", "no RDMA device"),
        ({}, {"NCCL_IB_HCA": "mlx5"}, "warn", "no RDMA device is seen"),
        (port("mlx5_0"), {}, "ok", "1 ports active"),
        ({**port("mlx5_0"), **port("mlx5_1", **DEAD)}, {}, "ok", "not connected: mlx5_1:1 DOWN"),
        (port("mlx5_0", **DEAD), {}, "warn", "no RDMA port is active"),
        ({**port("mlx5_0"), **port("mlx5_1", state="2: INIT")}, {}, "warn", "no subnet manager"),
        ({**port("mlx5_0"), **port("mlx5_1", rate="100 Gb/sec (4X EDR)")}, {}, "warn", "different rates"),
        (port("mlx5_0"), {"NCCL_IB_HCA": "mlx4"}, "warn", "names none of mlx5_0"),
        (port("mlx5_0"), {"NCCL_IB_HCA": "mlx4", "NCCL_NET": "IB"}, "fail", "names none of mlx5_0"),
        (port("mlx5_0"), {"NCCL_IB_HCA": "=mlx5_0:1"}, "ok", "1 ports active"),
        (port("mlx5_0"), {"NCCL_IB_HCA": "^mlx5_0"}, "warn", "names none"),
        (port("mlx5_0"), {"NCCL_IB_DISABLE": "1"}, "warn", "NCCL_IB_DISABLE=1"),
        (port("mlx5_0", layer="Ethernet", gids={3: "0000:0000:0000:0000:0000:0000:0000:0000"}), {"NCCL_IB_GID_INDEX": "3"}, "fail", "no GID"),
        (port("mlx5_0", layer="Ethernet", gids={3: "0000:0000:0000:0000:0000:ffff:0a00:0004"}), {"NCCL_IB_GID_INDEX": "3"}, "ok", "active"),
    ],
)  # fmt: skip
def test_rdma_devices(tmp_path, files, env, state, says):
    answers = found("network.rdma", machine(tmp_path, files=files, **TWO, **env))
    assert {s for s, _ in answers} == {state}
    assert any(says in text for _, text in answers)


def test_a_container_without_the_device_files(tmp_path):
    files = {k: v for k, v in port("mlx5_0").items() if not k.startswith("/dev")}
    assert states("network.rdma", machine(tmp_path, files=files, **TWO)) == {"warn"}


@pytest.mark.parametrize(("capability", "state"), [("0000000000000000", "fail"), ("0000000000004000", "ok")])
def test_locked_memory(tmp_path, monkeypatch, capability, state):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    made = machine(tmp_path, files={**port("mlx5_0"), "/proc/self/status": f"CapEff:\t{capability}\n"}, **TWO)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, hard))
    try:
        assert states("network.memlock", made) == {state}
        assert states(
            "network.memlock", machine(tmp_path / "none", files={"/proc/self/status": "CapEff:\t0\n"}, **TWO)
        ) == {"ok"}
        alone = machine(tmp_path, RANK="0", WORLD_SIZE="8", LOCAL_WORLD_SIZE="8")
        assert states("network.memlock", alone) == {"warn" if state == "fail" else "ok"}
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
