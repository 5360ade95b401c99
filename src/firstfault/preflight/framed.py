"""Finds framed profiles in the output of a job, whatever else stands there: banners, colours, prefixes, cut and mixed lines.

Pure: bytes in, profiles out. A profile counts only where it is whole by its own digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from firstfault.model.environment import ENVIRONMENT, FRAME, Environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLOR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LABEL = re.compile(
    r"^\s*(?:\[?(?:rank|default)?\s*\d+\]?\s*[:>|]\s*|\[[^\]]{1,60}\]:?\s*|\S{1,60}\s*\|\s|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\s+)"
)
_STRING = re.compile(r'(?:[^"\\]|\\.)*')
MOST = 256 << 10
"""Characters of one profile."""
LINES = 4000
"""Lines over which one profile may be spread."""


class Read(NamedTuple):
    """What a text holds."""

    found: list[Environment]
    """Each different profile once, in the order in which they came."""
    copies: list[int]
    """How often each came."""
    damaged: list[tuple[int, str]]
    """Line at which a profile begins that is not whole, and why."""


def digest_of(tree: dict[str, Any]) -> str:
    """SHA-256 over a profile without its digest."""
    rest = {k: v for k, v in tree.items() if k != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def frame(environment: Environment) -> str:
    """A profile as one line of ASCII, with its digest, ending in a newline.

    Args:
        environment: what went through the one door already.
    """
    tree = msgspec.to_builtins(environment)
    tree["digest"] = digest_of(tree)
    return FRAME + json.dumps(tree, separators=(",", ":")) + "\n"


def read_frames(text: str) -> Read:
    """The profiles in a text."""
    lines = [_COLOR.sub("", line).replace("\x00", "") for line in text.splitlines()]
    found: dict[str, tuple[Environment, int]] = {}
    damaged = []
    for number, line in enumerate(lines):
        for match in re.finditer(re.escape(FRAME), line):
            why = "it is cut off"
            for tree in _trees(lines, number, match.start()):
                profile, why = _profile(tree)
                if profile is not None:
                    before = found.get(profile.digest, (profile, 0))
                    found[profile.digest] = (before[0], before[1] + 1)
                    break
            else:
                damaged.append((number + 1, why))
    return Read([p for p, _ in found.values()], [n for _, n in found.values()], damaged)


def _trees(lines: Sequence[str], number: int, at: int) -> Iterator[dict[str, Any]]:
    """What may be meant by a frame that begins there: on its line, else with later lines of the same writer joined to it."""
    line = lines[number]
    head = line[at + len(FRAME) :]
    label = line[:at]
    tree = _decoded(head)
    if tree is not None:
        yield tree
        return
    for joined in (_followed(lines, number, head, label), _followed(lines, number, head, None)):
        tree = _decoded(joined)
        if tree is not None:
            yield tree


def _followed(lines: Sequence[str], number: int, head: str, label: str | None) -> str:
    """The text with what follows: lines that begin with the same label, without it; every line where the label is None."""
    parts = [head]
    size = len(head)
    same = None if label is None else _LABEL.match(label)
    for line in lines[number + 1 : number + LINES]:
        if FRAME in line and (label is None or line.startswith(label)):
            break
        if label:
            # Stamps change from line to line; what stands behind them tells the writer.
            if line.startswith(label):
                piece = line[len(label) :]
            elif (
                same is not None
                and (other := _LABEL.match(line)) is not None
                and _shape(other[0]) == _shape(same[0])
                and re.search(r"\d{4}-", same[0])
            ):
                piece = line[other.end() :]
            else:
                continue
        else:
            piece = line
        parts.append(piece)
        size += len(piece)
        if size > MOST:
            break
        if piece.rstrip().endswith("}") and _decoded("".join(parts)) is not None:
            break
    return "".join(parts)


def _shape(label: str) -> str:
    return re.sub(r"\d", "0", label)


def _decoded(text: str) -> dict[str, Any] | None:
    """The object that a text begins with; what stands behind it is none of ours."""
    start = text.lstrip()
    if not start.startswith("{") or len(start) > MOST:
        return None
    for candidate in (start, _unquoted(start)):
        try:
            tree, _ = json.JSONDecoder().raw_decode(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(tree, dict):
            return tree
    return None


def _unquoted(text: str) -> str:
    """The text where a collector keeps lines as strings of JSON: up to the quote that ends the string, without its escapes."""
    inner = _STRING.match(text)
    if inner is None or "\\" not in inner[0]:
        return ""
    try:
        return str(json.loads(f'"{inner[0]}"'))
    except ValueError:
        return ""


def _profile(tree: dict[str, Any]) -> tuple[Environment | None, str]:
    if tree.get("schema") != ENVIRONMENT:
        return None, f"its schema is {str(tree.get('schema'))[:60]!r}, not {ENVIRONMENT!r}"
    if digest_of(tree) != tree.get("digest"):
        return None, "its digest does not fit: something was changed, cut or mixed in"
    try:
        return msgspec.convert(tree, type=Environment), ""
    except msgspec.ValidationError as error:
        return None, str(error)
