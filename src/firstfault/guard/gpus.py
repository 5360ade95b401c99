"""What is on the GPUs of this machine at one moment: by nvidia-smi, else by the driver's library in a process of its own.

Every question has a limit of time. Must not judge whose a program is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from firstfault.collect.commands import run

LIMIT_S = 20.0
"""Seconds for one answer: without persistence mode the driver sets every GPU up first."""
_CHILD = Path(__file__).with_name("nvml_child.py")
_FIELDS = ("index", "pci.bus_id", "memory.used", "utilization.gpu", "clocks.sm", "temperature.gpu")
_THROTTLE = "clocks_throttle_reasons.active"
_REASONS = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}  # fmt: skip
"""Bits that mean a slower card; idle clocks and clocks that somebody set do not."""


class Program(NamedTuple):
    """A program that computes on a card."""

    pid: int
    card: str
    """Number of the card; empty where it is not known."""
    mb: int | None
    name: str = ""


class Card(NamedTuple):
    """One card; None where it does not tell."""

    number: str
    used_mb: int | None
    busy: int | None
    clock_mhz: int | None
    temperature: int | None
    throttled: tuple[str, ...]


class Gpus(NamedTuple):
    """What was seen at one moment."""

    cards: list[Card]
    programs: list[Program]
    trouble: str = ""
    """Why the programs are not known; empty where they are."""
    absent: bool = False
    """Whether there is no driver: then nobody computes on a GPU."""


def look() -> Gpus:
    """The cards of this machine and the programs on them."""
    answer = run(
        ("nvidia-smi", f"--query-gpu={','.join((*_FIELDS, _THROTTLE))}", "--format=csv,noheader,nounits"), LIMIT_S
    )
    if "not on this machine" in answer.trouble:
        return _by_library()
    if answer.stuck:
        return Gpus([], [], answer.trouble)
    rows = _rows(answer.text, len(_FIELDS) + 1)
    if answer.trouble or not rows:
        # One field that a driver does not know spoils its whole question.
        answer = run(("nvidia-smi", f"--query-gpu={','.join(_FIELDS[:3])}", "--format=csv,noheader,nounits"), LIMIT_S)
        rows = _rows(answer.text, 3)
        if answer.trouble or not rows:
            said = answer.text.decode("utf-8", "replace").strip().split("\n")[0][:200]
            return Gpus(
                [], [], answer.trouble or said or "nvidia-smi lists no GPU", absent="no devices" in said.lower()
            )
    cards = []
    for row in rows:
        busy, clock, heat, throttle = (*row[3:], "", "", "", "")[:4]
        cards.append(Card(row[0], _number(row[2]), _number(busy), _number(clock), _number(heat), _reasons(throttle)))
    numbers = {_bus(r[1]): r[0] for r in rows}
    answer = run(("nvidia-smi", "--query-compute-apps=pid,used_gpu_memory,gpu_bus_id,process_name", "--format=csv,noheader,nounits"), LIMIT_S)  # fmt: skip
    if answer.trouble:
        return Gpus(cards, [], answer.trouble)
    found = []
    for line in answer.text.decode("utf-8", "replace").splitlines():
        pid, used, bus, name = (*(v.strip() for v in line.split(",", 3)), "", "", "")[:4]
        if pid.isdecimal():
            found.append(Program(int(pid), numbers.get(_bus(bus), ""), _number(used), name[:200]))
    return Gpus(cards, found)


def _rows(text: bytes, wide: int) -> list[list[str]]:
    lines = [[v.strip() for v in line.split(",")] for line in text.decode("utf-8", "replace").splitlines()]
    return [row for row in lines if len(row) == wide and row[0].isdecimal()]


def _bus(text: str) -> str:
    return text.strip().lower().lstrip("0")


def _number(text: str) -> int | None:
    word = text.split(" ", maxsplit=1)[0].partition(".")[0]
    return int(word) if word.isdecimal() else None


def _reasons(text: str) -> tuple[str, ...]:
    try:
        bits = int(text, 16)
    except ValueError:
        return ()
    return tuple(name for bit, name in _REASONS.items() if bits & bit)


def _by_library() -> Gpus:
    answer = run((sys.executable, "-I", "-S", str(_CHILD)), LIMIT_S)
    try:
        told: dict[str, Any] = json.loads(answer.text)
    except ValueError:
        return Gpus(
            [],
            [],
            answer.trouble.replace(sys.executable, "the driver's library") or "the driver's library said nothing",
        )
    if "cards" not in told:
        return Gpus([], [], "" if told.get("absent") else str(told.get("trouble", "")), absent=bool(told.get("absent")))
    cards, found, trouble = [], [], ""
    for one in told["cards"]:
        index = str(one["index"])
        throttle = one.get("throttle")
        cards.append(Card(index, one.get("used_mb"), one.get("busy"), one.get("clock"), one.get("temperature"), _reasons(f"{throttle or 0:x}")))  # fmt: skip
        if one["programs"] is None:
            trouble = f"the driver does not tell the programs on GPU {index}"
        found += [Program(p["pid"], index, p["mb"]) for p in one["programs"] or []]
    return Gpus(cards, found, trouble)
