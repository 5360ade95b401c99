"""Checks of the network between machines: interfaces, RDMA devices, memory that may be locked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.preflight.check import Check, fail, ok, unknown, warn
from firstfault.preflight.interfaces import TUNNELS, VIRTUAL, chosen_by_nccl, matching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.preflight.check import Seen
    from firstfault.preflight.machine import Machine

IPC_LOCK = 14
"""Number of the capability that lifts the limit of locked memory."""
_IB = "/sys/class/infiniband"
LEAST_LOCKED = 1 << 30


class Port(NamedTuple):
    """One port of an RDMA device."""

    device: str
    number: str
    state: str
    """`ACTIVE`, `DOWN`, `INIT` or `ARMED`."""
    physical: str
    """Such as `LinkUp`, `Polling`, `Disabled`."""
    layer: str
    """`InfiniBand` or `Ethernet`."""
    rate: str


def ports(machine: Machine) -> list[Port]:
    """The ports of all RDMA devices, by the kernel's files."""
    found = []
    for device in machine.names(_IB):
        for number in machine.names(f"{_IB}/{device}/ports"):
            base = f"{_IB}/{device}/ports/{number}"
            words = [machine.word(f"{base}/{n}") for n in ("state", "phys_state", "link_layer", "rate")]
            state, physical = (w.rpartition(":")[2].strip() for w in words[:2])
            found.append(Port(device, number, state, physical, words[2], words[3]))
    return found


def _interface(machine: Machine) -> Iterator[Seen]:
    env, found = machine.env, machine.interfaces
    if not found:
        yield unknown("the kernel does not tell its interfaces")
        return
    asked = env.get("NCCL_SOCKET_IFNAME", "")
    chosen = chosen_by_nccl(found, env)
    there = ", ".join(i.name for i in found if i.running and i.addresses) or "none"
    if asked and not chosen:
        yield fail(
            f"NCCL_SOCKET_IFNAME={asked} names no running interface with an address; there are: {there}",
            "Name one of these (a prefix such as `eth`, `=eth0` for a whole name, `^docker0,lo` for all but some), or unset it.",
        )
        return
    if not chosen:
        yield warn("NCCL would find no interface at all", "Bring an interface up.")
        return
    if machine.who.alone:
        yield ok(f"NCCL would take {chosen[0].name}; one machine needs no other")
        return
    yield from _between(machine, chosen, there, asked)


def _between(machine: Machine, chosen: list, there: str, asked: str) -> Iterator[Seen]:  # type: ignore[type-arg]
    first = chosen[0]
    better = [i.name for i in machine.interfaces if i.usable and not i.name.startswith((*VIRTUAL, *TUNNELS))]
    hint = f"Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface between the machines ({', '.join(better)})." if better else "Bring up an interface that reaches the other machines."  # fmt: skip
    if first.loopback or not first.usable:
        yield fail(f"NCCL would start over {first.name}, which no other machine reaches; there are: {there}", hint)
    elif first.name.startswith(VIRTUAL):
        yield fail(f"NCCL would start over {first.name} ({first.addresses[0]}), a bridge inside of this machine", hint)
    elif first.name.startswith(TUNNELS):
        yield warn(f"NCCL would start over {first.name}, a tunnel", hint)
    else:
        others = [i.name for i in chosen[1:] if i.name.startswith((*VIRTUAL, *TUNNELS))]
        if others:
            yield warn(
                f"NCCL would start over {first.name}, and may send over {', '.join(others)} too, which is inside of this machine or a tunnel",
                hint,
            )
        else:
            yield ok(
                f"NCCL would take {', '.join(i.name for i in chosen)} ({'by NCCL_SOCKET_IFNAME' if asked else 'by itself'})"
            )


def _gloo(machine: Machine) -> Seen:
    asked = machine.env.get("GLOO_SOCKET_IFNAME", "")
    if not asked:
        return ok("GLOO_SOCKET_IFNAME is not set")
    names = {i.name: i for i in machine.interfaces}
    if not names:
        return unknown("the kernel does not tell its interfaces")
    for name in filter(None, asked.split(",")):
        if name not in names:
            kind = (
                "an address" if re.fullmatch(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]*", name) else "no interface of this machine"
            )
            return fail(
                f"GLOO_SOCKET_IFNAME={asked}: {name} is {kind}; there are: {', '.join(names)}",
                "Name an interface as `ip -br address` shows it: whole names, comma-separated.",
            )
        if not names[name].running or not names[name].addresses:
            return fail(f"GLOO_SOCKET_IFNAME={asked}: {name} is down or has no address", "Name one that is up.")
        if names[name].loopback and not machine.who.alone:
            return fail(f"GLOO_SOCKET_IFNAME={asked} is the loopback, the job has several machines", "Name the interface between the machines.")  # fmt: skip
    return ok(f"gloo uses {asked}")


def _rdma(machine: Machine) -> Iterator[Seen]:
    env, found = machine.env, ports(machine)
    if not found:
        asked = env.get("NCCL_IB_HCA", "")
        if asked and not asked.startswith("^") and not machine.who.alone:
            yield warn(
                f"NCCL_IB_HCA={asked}, but no RDMA device is seen here: NCCL would send over sockets, many times slower",
                "Give the container /dev/infiniband and /sys/class/infiniband, or look whether the driver is loaded: `ibv_devices`.",
            )
        else:
            yield ok("no RDMA device; NCCL sends over sockets")
        return
    if not machine.exists("/dev/infiniband") and not machine.who.alone:
        yield warn(
            "there are RDMA devices, but no /dev/infiniband: NCCL cannot use them",
            "Give it to the container (`--device=/dev/infiniband --cap-add=IPC_LOCK`, or a device plugin).",
        )
    yield from _disabled(machine, found)
    used = [p for p in found if _selected(p, env.get("NCCL_IB_HCA", ""))]
    if not used:
        state = fail if env.get("NCCL_NET") == "IB" else warn
        yield state(
            f"NCCL_IB_HCA={env['NCCL_IB_HCA']} names none of {', '.join(sorted({p.device for p in found}))}: NCCL "
            + (
                "stops, as NCCL_NET=IB lets it use nothing else"
                if state is fail
                else "would send over sockets, many times slower"
            ),
            "Correct it: prefixes such as `mlx5`, `=mlx5_0:1` for whole names, `^mlx5_3` for all but some.",
        )
        return
    yield from _states(used)
    yield from _gid(machine, used)


def _disabled(machine: Machine, found: list[Port]) -> Iterator[Seen]:
    active = [p for p in found if p.state == "ACTIVE" and p.layer == "InfiniBand"]
    if machine.env.get("NCCL_IB_DISABLE") == "1" and active and not machine.who.alone:
        yield warn(
            f"NCCL_IB_DISABLE=1, though {len(active)} InfiniBand ports are active: NCCL would send over sockets",
            "Unset it, unless that is what you want.",
        )


def _selected(port: Port, asked: str) -> bool:
    """Whether NCCL_IB_HCA lets NCCL use a port."""
    if not asked:
        return True
    without = asked.startswith("^")
    words = asked.lstrip("^")
    exact = words.startswith("=")
    hit = False
    for word in filter(None, words.lstrip("=").split(",")):
        name, _, number = word.partition(":")
        named = port.device == name if exact else port.device.startswith(name)
        hit = hit or (named and number in {"", port.number})
    return hit != without


def _states(used: list[Port]) -> Iterator[Seen]:
    active = [p for p in used if p.state == "ACTIVE"]
    down = [p for p in used if p.state != "ACTIVE"]
    told = ", ".join(f"{p.device}:{p.number} {p.state} ({p.physical})" for p in down)
    if not active:
        yield warn(f"no RDMA port is active: {told}", "Look at cables and the subnet manager: `ibstat`. NCCL would send over sockets.")  # fmt: skip
    elif [p for p in down if p.layer == "InfiniBand"] and any(p.layer == "InfiniBand" for p in active):
        # Ports that nobody plugged in are common; NCCL leaves out what is not active.
        initial = [p for p in down if p.state in {"INIT", "ARMED"}]
        if initial:
            yield warn(f"ports that no subnet manager has brought up: {told}", "Look whether the subnet manager runs: `sminfo`.")  # fmt: skip
        else:
            yield ok(f"{len(active)} ports active; not connected: {told}")
    else:
        yield ok(
            f"{len(active)} ports active: " + ", ".join(f"{p.device}:{p.number} {p.layer} {p.rate}" for p in active)
        )
    slow = {p.rate for p in active if p.layer == "InfiniBand"}
    if len(slow) > 1:
        yield warn(f"active ports of different rates: {', '.join(sorted(slow))}", "A port that came up slower than its like has a bad cable or port: `ibstat`, `mlxlink`.")  # fmt: skip


def _gid(machine: Machine, used: list[Port]) -> Iterator[Seen]:
    index = machine.env.get("NCCL_IB_GID_INDEX", "")
    if not index.isdecimal():
        return
    for port in used:
        if port.layer != "Ethernet" or port.state != "ACTIVE":
            continue
        gid = machine.word(f"{_IB}/{port.device}/ports/{port.number}/gids/{index}")
        if not gid.strip("0:"):
            yield fail(
                f"NCCL_IB_GID_INDEX={index}, but {port.device}:{port.number} has no GID there",
                "Take the index of the RoCE v2 address (`show_gids`), or unset it: NCCL finds it since 2.21.",
            )


def capability(machine: Machine, number: int) -> bool:
    """Whether this process has a capability of the kernel."""
    found = re.search(r"(?m)^CapEff:\s*([0-9a-fA-F]+)", machine.text("/proc/self/status") or "")
    return found is not None and bool(int(found[1], 16) >> number & 1)


def _memlock(machine: Machine) -> Seen:
    limit = machine.limit("locked memory")
    told = "unlimited" if limit is None else f"{limit >> 10} kB"
    active = [p for p in ports(machine) if p.state == "ACTIVE"]
    if limit is None or limit >= LEAST_LOCKED:
        return ok(f"locked memory: {told}")
    if capability(machine, IPC_LOCK):
        return ok(f"locked memory: {told}, lifted by a capability of this process")
    if not active or machine.env.get("NCCL_IB_DISABLE") == "1":
        return ok(f"locked memory: {told}; no active RDMA device needs more")
    state = warn if machine.who.alone else fail
    return state(
        f"locked memory: {told}, but NCCL registers its buffers with the RDMA device",
        "`ulimit -l unlimited`: /etc/security/limits.conf, `PropagateResourceLimitsExcept=MEMLOCK` on SLURM, `--ulimit memlock=-1` of docker.",
    )


def _family(machine: Machine) -> Seen:
    told = machine.env.get("NCCL_SOCKET_FAMILY")
    if not told:
        return ok("NCCL_SOCKET_FAMILY is not set")
    if told not in {"AF_INET", "AF_INET6"}:
        return warn(
            f"NCCL_SOCKET_FAMILY={told} is neither AF_INET nor AF_INET6 and has no effect", "Correct or unset it."
        )
    if not matching(machine.interfaces, "^lo", machine.env):
        return fail(f"NCCL_SOCKET_FAMILY={told}, but no interface has such an address", "Unset it.")
    return ok(f"NCCL_SOCKET_FAMILY={told}")


CHECKS = (
    Check(
        "network.interface", "the interface over which NCCL would start", "NCCL takes the first that fits; a docker bridge or loopback reaches no other machine, and the start times out.",
        ("nccl.no_interface", "nccl.socket_unreachable", "nccl.connect_failed"), _interface,
    ),
    Check(
        "network.gloo", "GLOO_SOCKET_IFNAME", "gloo stops at a name that is no interface, and at an address in its place.",
        ("gloo.interface_is_address", "gloo.no_interface", "gloo.connect_failed"), _gloo,
    ),
    Check(
        "network.family", "NCCL_SOCKET_FAMILY", "A family without an address leaves NCCL without an interface.", ("nccl.no_interface",), _family,
    ),
    Check(
        "network.rdma", "InfiniBand and RoCE: devices, ports, NCCL_IB_HCA, the GID", "A port that is down, or a filter that fits none, makes NCCL fail or send over sockets, many times slower.",
        ("nccl.ib_port_error", "nccl.ib_retry_exceeded", "nccl.ib_verbs_call", "network.link_down"), _rdma,
    ),
    Check(
        "network.memlock", "the limit of locked memory", "RDMA registers its buffers as locked memory; a small limit refuses that at the first collective.",
        ("nccl.ib_memory_registration",), _memlock, "rank",
    ),
)  # fmt: skip
