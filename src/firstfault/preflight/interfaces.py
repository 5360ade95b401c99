"""Network interfaces of this machine, and those that NCCL would take of them.

Asks the kernel without rights and without a program. The choice follows NCCL 2.30 (`src/misc/socket.cc`, `src/os/linux.cc`).
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
VIRTUAL = (
    "docker",
    "br-",
    "virbr",
    "veth",
    "cni",
    "flannel",
    "cali",
    "cilium",
    "lxc",
    "lxd",
    "vxlan",
    "podman",
    "nerdctl",
    "kube-",
)
"""Interfaces that only programs on one machine share, as container tools name them."""
TUNNELS = ("tun", "tap", "wg", "tailscale", "zt", "ppp", "utun")
"""Tunnels: they reach other machines, though slowly, and not always those of the job."""


class Interface(NamedTuple):
    """One network interface."""

    name: str
    flags: int
    addresses: tuple[str, ...]
    """Numeric, IPv4 first; those of IPv6 without their zone."""

    @property
    def running(self) -> bool:
        """Whether it is up and something is attached."""
        return bool(self.flags & _UP and self.flags & _RUNNING)

    @property
    def loopback(self) -> bool:
        """Whether it leads back to this machine."""
        return bool(self.flags & _LOOPBACK)

    @property
    def usable(self) -> bool:
        """Whether it has an address by which another machine could reach it."""
        return self.running and not self.loopback and any(not local_only(a) for a in self.addresses)


class _Head(ctypes.Structure):
    pass


_Head._fields_ = [
    ("next", ctypes.POINTER(_Head)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("mask", ctypes.c_void_p),
    ("other", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def interfaces() -> list[Interface]:
    """The interfaces in the order of the kernel; empty where it does not tell."""
    library = ctypes.CDLL(None, use_errno=True)
    head = ctypes.POINTER(_Head)()
    try:
        if library.getifaddrs(ctypes.byref(head)):
            return []
    except AttributeError:
        return []
    found: dict[str, tuple[int, list[str]]] = {}
    one = head
    while one:
        entry = one.contents
        _, addresses = found.setdefault(entry.name.decode("ascii", "replace"), (entry.flags, []))
        address = _address(entry.address)
        if address:
            addresses.append(address)
        one = entry.next
    library.freeifaddrs(head)
    return [Interface(n, flags, tuple(sorted(a, key=lambda x: ":" in x))) for n, (flags, a) in found.items()]


def _address(place: int | None) -> str:
    if not place:
        return ""
    family = struct.unpack("H", ctypes.string_at(place, 2))[0]
    with contextlib.suppress(ValueError, OSError):
        if family == socket.AF_INET:
            return socket.inet_ntop(socket.AF_INET, ctypes.string_at(place + 4, 4))
        if family == socket.AF_INET6:
            return socket.inet_ntop(socket.AF_INET6, ctypes.string_at(place + 8, 16))
    return ""


def local_only(address: str) -> bool:
    """Whether an address is of no use on another machine."""
    return address.startswith(("127.", "169.254.", "fe80:")) or address in {"::1", "0.0.0.0", "::"}  # noqa: S104


def chosen_by_nccl(found: Sequence[Interface], env: Mapping[str, str]) -> list[Interface]:
    """The interfaces that NCCL would take for its sockets, the first of which carries its start; empty where it finds none."""
    asked = env.get("NCCL_SOCKET_IFNAME", "")
    if len(asked) > 1:
        return matching(found, asked, env)
    for words in ("ib", "^docker,lo,virbr", "docker", "lo", "virbr"):
        fit = matching(found, words, env)
        if fit:
            return fit
    return []


def matching(found: Sequence[Interface], words: str, env: Mapping[str, str]) -> list[Interface]:
    """The running interfaces that a list in NCCL's form names: prefixes, `=` for whole names, `^` for all but these."""
    family = env.get("NCCL_SOCKET_FAMILY", "")
    without = words.startswith("^")
    words = words[1:] if without else words
    exact = words.startswith("=")
    names = [w for w in (words[1:] if exact else words).split(",") if w]
    fit = []
    for one in found:
        addresses = [a for a in one.addresses if a != "::1" and family in {"", "AF_INET6" if ":" in a else "AF_INET"}]
        named = not names or any(one.name == n if exact else one.name.startswith(n) for n in names)
        if one.running and addresses and named != without:
            fit.append(one)
    return fit
