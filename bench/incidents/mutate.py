"""Changes a log in what differs between two runs of one fault: hosts, ranks, steps, paths, and how streams interleave.

Every change is made alike in all files of a case, so that what the log tells stays true but for the names.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEP = re.compile(rb"(?i)(\b(?:global_step|step|steps|iter|iteration|it)\b[ :=\[]{1,3})(\d{1,8})\b(?!/)")
_RANKED = re.compile(rb"((?:\[rank|\[Rank |\brank ?[:=] ?|\brank )|\[default|\blocal_rank: )(\d{1,3})\b")
_ROOT = re.compile(
    rb"(?<![\w/.:])/(?!usr/|proc/|sys/|dev/|lib/|lib64/|etc/|run/|var/|bin/|opt/|pytorch/|tmp/)([\w.-]+)/([\w.@-]+)(?=/)"
)
_NAMED = re.compile(
    rb"(?m)^([A-Za-z][\w.-]*\d[\w-]*):\d+:\d+ \[\d|\bhost\s+: ([A-Za-z][\w-]*\d[\w-]*)|\[pod/([a-z][\w-]*\d[\w-]*)/"
)
_PID = re.compile(rb"(\bpid[:=]? ?|\(PID )(\d{3,7})\b")
_ADDRESS = re.compile(rb"\b(10|172|192)\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\b")
_LABEL = re.compile(rb"\[rank(\d+)\]:")
_SITES = ("cn", "gpu-", "node", "h100-", "worker-", "nid00", "dgx-", "tr-")


class Mutation:
    """One set of changes, made by a seed."""

    def __init__(self, seed: int, hosts: Iterable[str], files: dict[str, bytes]) -> None:
        self._dice = random.Random(seed)
        named = {g.decode() for data in files.values() for m in _NAMED.findall(data) for g in m if g}
        self._hosts = self._names({*hosts, *named})
        self._more = self._dice.randrange(1, 400)
        self._room = self._headroom(files)
        self._pids = self._dice.randrange(1, 90)
        self._net = self._dice.randrange(1, 200)
        self._roots: dict[bytes, bytes] = {}
        self._ranks = self._permutation(files)

    def _names(self, hosts: Iterable[str]) -> list[tuple[re.Pattern[bytes], bytes]]:
        site = self._dice.choice(_SITES)
        number = self._dice.randrange(10, 800)
        changes = []
        for host in sorted(set(hosts), key=lambda h: (-len(h), h)):
            short = host.partition(".")[0]
            # A name without a digit is a word now and then; an address would be mistaken for a part of a longer one.
            if len(short) < 4 or short.isdigit() or not re.search(r"[a-z]", short) or not re.search(r"\d", short):
                continue
            number += self._dice.randrange(1, 9)
            name = f"{site}{number:03d}"
            changes.append(
                (re.compile(rb"(?<![A-Za-z0-9])" + re.escape(short).encode() + rb"(?![A-Za-z0-9])"), name.encode())
            )
        return changes

    def _permutation(self, files: dict[str, bytes]) -> dict[bytes, bytes]:
        """Ranks of one node in another order, where nothing but the labels tells them; else they stay."""
        if len(files) != 1 or len(self._hosts) > 1:
            return {}
        (data,) = files.values()
        seen = sorted({int(r) for r in _LABEL.findall(data)})
        if len(seen) < 2 or max(seen) > 15 or re.search(rb"(?i)cuda:\d|LOCAL_RANK", data):
            return {}
        order = seen.copy()
        self._dice.shuffle(order)
        return {str(a).encode(): str(b).encode() for a, b in zip(seen, order, strict=True)}

    def _headroom(self, files: dict[str, bytes]) -> dict[int, int]:
        """By how much steps of so many digits may grow and keep their digits, so that their order and all columns stay."""
        most: dict[int, int] = {}
        for data in files.values():
            for match in _STEP.finditer(data):
                length = len(match[2])
                most[length] = max(most.get(length, 0), int(match[2]))
        return {length: min(self._more, 10**length - 1 - high) for length, high in most.items()}

    def name(self, path: str) -> str:
        """The name of a file with its hosts changed."""
        raw = path.encode()
        for pattern, new in self._hosts:
            raw = pattern.sub(new, raw)
        return raw.decode()

    def change(self, data: bytes) -> bytes:
        """The content of a file."""
        if b"\0" in data:
            return data
        for pattern, new in self._hosts:
            data = pattern.sub(new, data)
        data = _STEP.sub(self._step, data)
        data = _ROOT.sub(self._root, data)
        data = _PID.sub(self._pid, data)
        data = _ADDRESS.sub(self._address, data)
        if self._ranks:
            data = _RANKED.sub(lambda m: m[1] + self._ranks.get(m[2], m[2]), data)
        return self._interleave(data)

    def _step(self, match: re.Match[bytes]) -> bytes:
        old = match[2]
        return match[1] + str(int(old) + self._room.get(len(old), 0)).encode().rjust(len(old), b"0")

    def _pid(self, match: re.Match[bytes]) -> bytes:
        new = str(int(match[2]) + self._pids).encode()
        return match[1] + (new if len(new) == len(match[2]) else match[2])

    def _address(self, match: re.Match[bytes]) -> bytes:
        return b"%s.%d.%s.%s" % (match[1], (int(match[2]) + self._net) % 256, match[3], match[4])

    def _root(self, match: re.Match[bytes]) -> bytes:
        new = self._roots.get(match[0])
        if new is None:
            new = (
                f"/{self._dice.choice(['home', 'data', 'mnt', 'scratch'])}/u{self._dice.randrange(1000, 9999)}".encode()
            )
            self._roots[match[0]] = new
        return new

    def _interleave(self, data: bytes) -> bytes:
        """Neighbouring lines of two ranks change places now and then; each rank's own lines stay in order."""
        lines = data.split(b"\n")
        for i in range(len(lines) - 1):
            one, two = _LABEL.match(lines[i]), _LABEL.match(lines[i + 1])
            if one and two and one[1] != two[1] and self._dice.random() < 0.3:
                lines[i], lines[i + 1] = lines[i + 1], lines[i]
        return b"\n".join(lines)
