"""Where prefixes and ends of progress bars stand in the middle of a line, so that glued lines can be taken apart. Reads none of them."""

from __future__ import annotations

from firstfault.model.lazy import lazy

_OPENED = lazy(
    rb"[\[(](?:rank\d{1,6}\]:|default\d{1,4}\]:|\d{1,6},(?:mpirank:)?\d{1,6}(?:,[\w.\-]{1,100})?\]<std\w{2,4}>:"
    rb"|[IWEFV](?:\d{3,4} \d\d:\d\d:\d\d\.\d{9})? {1,2}?[^\s\]]{1,300}?:\d{1,6}\]"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] |NeMo [DIWEC] \d{4}-|(?:DEBUG|INFO|WARNING|ERROR)\|"
    rb"|(?:[A-Za-z_][^()\n=]{0,80}?,? )?(?:rank=\d{1,6}, ?)?pid=\d{1,8}(?:, ip=[\w.:]{3,45})?\)(?=\s{0,8}\S))",  # what a line ends with is no prefix: `ray::f() (pid=9, ip=…)`
)
_GLOG = lazy(rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} {1,7}\d{1,20} \S{1,300}?:\d{1,6}\]")
_NCCL_INSIDE = lazy(rb"(?<![\w.\-])[A-Za-z0-9][\w.\-]{0,100}:\d{1,8}:\d{1,8} \[-?\d{1,3}\] (?=\S{1,200} NCCL|NCCL)")
MOST_SEARCHED = 16 * 1024


def inner_parts(segment: bytes, begin: int, end: int) -> list[int]:
    """Positions from `begin` to `end` at which a prefix stands in the middle of a segment, ascending.

    Behind a bar or another rank's text, such a prefix belongs to what follows it.
    """
    end = min(end, begin + MOST_SEARCHED)
    found: list[int] = []
    if segment.find(b"[", begin, end) >= 0 or segment.find(b"(", begin, end) >= 0:
        found = [m.start() for m in _OPENED.finditer(segment, begin, end)]
    if b":" not in segment:
        return found
    if segment.find(b".py:", begin, end) >= 0:
        found += [m.start() for m in _GLOG.finditer(segment, begin, end)]
    if segment.find(b" NCCL ", begin, end) >= 0:
        found += [m.start() for m in _NCCL_INSIDE.finditer(segment, begin, end)]
    return sorted(found)


_HINTS = (b"[", b"]", b"|", b"pid=", b"NeMo ", b".py:", b" NCCL ")
"""One of them is in every line in which a prefix stands in the middle."""


def is_native_frame(segment: bytes) -> bool:
    """Whether a segment is a frame of a C++ stack with its address, alone in its line: no prefix stands in it or before it.

    Addresses are written with letters, so that hardly two such lines have one shape.
    """
    if not segment.startswith(b"frame #") or b"(0x" not in segment:
        return False
    return not any(map(segment.__contains__, _HINTS))


BAR_END = lazy(rb"\[(?:\d+ days?, )?\d{1,4}:\d\d(?::\d\d)?[<,][^\]\n]{0,300}\]")
"""End of a tqdm bar, behind which other text may be glued."""
