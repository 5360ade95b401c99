"""Who a storage daemon is: role, node id and name, from archive and file name, first lines and its own messages.

A name that nothing states stays empty. File names are the weakest witness: they shorten long host names.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from firstfault.model.lazy import lazy
from firstfault.model.storage import Daemon, DaemonRole
from firstfault.readers.aistore_lines import heads

_NODE = lazy(rb"\bNode ([tp])\[([\w-]{1,40})\], Version (\d[\w.]*)")
_VERSION = lazy(rb"\bVersion (\d+\.\d+[\w.]*), build ")
_POD = lazy(rb"Pod info: name ([\w.-]+) ?,")
_SELF = lazy(
    rb"(?<!called by )(?:\(([tp])\[([\w-]{4,40})\]: [a-z]|[IWE] \d\d:\d\d:\d\d\.\d{6} [a-z0-9_]+:\d+ ([tp])\[([\w-]{4,40})\](?!\[g)"
    rb"|\b([tp])\[([\w-]{4,40})\](?: RecvObj| run: |: joined cluster| via primary| is ready| loaded Smap| (?:open|close) shared-dm))"
)
"""How a daemon speaks of itself; what stands behind `called by` or in brackets of an abort is another one."""
_ALERT = lazy(rb"\b([\w-]{4,40})\.(?:gmm|smm)\b")
_STREAM = lazy(rb"\bshared-dm\[([\w-]{4,40})=>|\bshared-dm\[[\w-]{4,40}<=([\w-]{4,40})\]")
"""A stream's label: `[me=>peer]` where it sends, `[peer<=me]` where it receives."""
_OWN_ABORT = lazy(rb"aborting: x-get-batch\[[^\n\]]*\]\S* t\[([\w-]{4,40})\] ")
"""An abort that began here; one that was relayed says so."""
_ARCHIVE = lazy(r"(?:^|[/!])(?:ais)?(target|proxy)-([\w-]+?)(?:\.tar\.gz|\.tgz|\.tar|\.tar\.zst)?(?=[/!])")
_FILE = lazy(r"^ais(target|proxy|node)\.(?P<host>.+?)\.(?P<sev>INFO|ERROR|WARNING)\.(?P<when>\d{4}-\d{6})\.\d+")
_POD_FILE = lazy(r"((?:[a-z0-9]+-)*(?:target|proxy)-\d+)(?![\w-]*\.(?:tar|tgz))")
_TARGETS = lazy(rb"Smap v\d+\[[^\]\n]*\][^\]\n]*, t=(\d+)")
SAMPLE = 64 * 1024


class Identity(Struct, frozen=True, kw_only=True):
    """What names and first lines tell about the writer of one source (or of one label in it)."""

    daemon: Daemon
    version: str = ""
    errors_only: bool = False
    created: str = ""
    """`MMDD-HHMMSS` of the file name."""


def identify(path: str, head: bytes, label: str = "") -> Identity:
    """Who wrote a source.

    Args:
        path: as shown.
        head: its first bytes, or some of its bytes where the first are not there.
        label: the pod's name, where each line carries it.
    """
    name = path.replace("!", "/").rsplit("/", 1)[-1]
    file = _FILE.search(name)
    node = _NODE.search(head)
    version = _VERSION.search(head)
    role, node_id = _self(path, head, node)
    host = label or _host(path, head, None if file is None else file["host"])
    if node_id and not any(c.isdigit() for c in host):
        # A long host name was cut to its first two parts, which all nodes share.
        host = ""
    if role is DaemonRole.UNKNOWN:
        role = _role_of_name(label or host or name)
    return Identity(
        daemon=Daemon(role, node_id, host),
        version=(node[3] if node else version[1] if version else b"").decode("ascii"),
        errors_only=file is not None and file["sev"] == "ERROR",
        created="" if file is None else file["when"],
    )


def _self(path: str, head: bytes, node: object) -> tuple[DaemonRole, str]:
    if node is not None:
        found = _NODE.search(head)
        assert found is not None
        return _role(found[1]), found[2].decode("ascii")
    named = _ARCHIVE.search(path)
    if named is not None and not named[2].isdecimal():
        return (DaemonRole.TARGET if named[1] == "target" else DaemonRole.PROXY), named[2]
    votes: Counter[tuple[bytes, bytes]] = Counter()
    for found in _SELF.finditer(head):
        letter = found[1] or found[3] or found[5]
        votes[letter, found[2] or found[4] or found[6]] += 1
    for found in _OWN_ABORT.finditer(head):
        votes[b"t", found[1]] += 100
    for found in _STREAM.finditer(head):
        votes[b"t", found[1] or found[2]] += 1
    alert = _ALERT.search(head)
    if alert is not None:
        votes[b"t", alert[1]] += 100
    if not votes:
        return DaemonRole.UNKNOWN, ""
    letter, own = min(votes, key=lambda k: (-votes[k], k))
    return _role(letter), own.decode("ascii")


def _role(letter: bytes) -> DaemonRole:
    return DaemonRole.TARGET if letter == b"t" else DaemonRole.PROXY


def _role_of_name(name: str) -> DaemonRole:
    if "target" in name:
        return DaemonRole.TARGET
    return DaemonRole.PROXY if "proxy" in name else DaemonRole.UNKNOWN


def _host(path: str, head: bytes, in_file: str | None) -> str:
    pod = _POD.search(head)
    if pod is not None:
        return pod[1].decode("ascii")
    first = heads(head)
    if first and first[0].host:
        return first[0].host
    if in_file is not None:
        return in_file
    named = _POD_FILE.findall(path)
    return named[-1] if named else ""


def targets_of(data: bytes) -> int | None:
    """Number of targets in the last cluster map that some bytes print; None where they print none."""
    found = _TARGETS.findall(data)
    return int(found[-1]) if found else None
