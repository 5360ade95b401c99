"""Changes a log in what differs between two runs of one fault: hosts, ranks, steps, paths, and how streams interleave.

Every change is made alike in all files of a case, so that what the log tells stays true but for the names.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEP = re.compile(rb"(?i)(\b(?:global_step|step|steps|iter|iteration|it)\b[ :=\[]{1,3})(\d{1,8})\b")
_RANKED = re.compile(rb"((?:\[rank|\[Rank |\brank ?[:=] ?|\brank )|\[default|\blocal_rank: )(\d{1,3})\b")
_ROOT = re.compile(
    rb"(?<![\w/.])/(home|data|mnt|scratch|work|workspace|users|lustre|nfs|fs|gpfs|pfs|cluster|output)/([\w.@-]+)(?=/)"
)
_LABEL = re.compile(rb"\[rank(\d+)\]:")
_SITES = ("cn", "gpu-", "node", "h100-", "worker-", "nid00", "dgx-", "tr-")


class Mutation:
    """One set of changes, made by a seed."""

    def __init__(self, seed: int, hosts: Iterable[str], files: dict[str, bytes]) -> None:
        self._dice = random.Random(seed)
        self._hosts = self._names(hosts)
        self._more = self._dice.randrange(1, 400)
        self._roots: dict[bytes, bytes] = {}
        self._ranks = self._permutation(files)

    def _names(self, hosts: Iterable[str]) -> list[tuple[re.Pattern[bytes], bytes]]:
        site = self._dice.choice(_SITES)
        number = self._dice.randrange(10, 800)
        changes = []
        for host in sorted(set(hosts), key=lambda h: (-len(h), h)):
            short, dot, rest = host.partition(".")
            # A name without a digit is a word now and then; an address would be mistaken for a part of a longer one.
            if len(short) < 4 or short.isdigit() or not re.search(r"[a-z]", short) or not re.search(r"\d", short):
                continue
            number += self._dice.randrange(1, 9)
            name = f"{site}{number:03d}"
            changes.append(
                (re.compile(rb"(?<![A-Za-z0-9])" + re.escape(short).encode() + rb"(?![A-Za-z0-9])"), name.encode())
            )
            del dot, rest
        return changes

    def _permutation(self, files: dict[str, bytes]) -> dict[bytes, bytes]:
        """Ranks of one node in another order, where nothing but the labels tells them; else they stay."""
        if len(files) != 1 or len(self._hosts) > 1:
            return {}
        (data,) = files.values()
        seen = sorted({int(r) for r in _LABEL.findall(data)})
        if len(seen) < 2 or max(seen) > 15 or re.search(rb"(?i)cuda:\d|\bGPU \d|pid|LOCAL_RANK", data):
            return {}
        order = seen.copy()
        self._dice.shuffle(order)
        return {str(a).encode(): str(b).encode() for a, b in zip(seen, order, strict=True)}

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
        if self._ranks:
            data = _RANKED.sub(lambda m: m[1] + self._ranks.get(m[2], m[2]), data)
        return self._interleave(data)

    def _step(self, match: re.Match[bytes]) -> bytes:
        # The same number of digits: bars and tables keep their columns.
        old = match[2]
        return match[1] + str(int(old) + self._more).encode().rjust(len(old), b"0") if len(old) >= 4 else match[0]

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
