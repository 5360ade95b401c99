"""Which processes of this machine belong to a trial: those below it, and those that carry its mark. Reads /proc; signals nobody."""

from __future__ import annotations

import os

MARK = "FIRSTFAULT_TRIAL_ID"
"""Variable that everything started by a trial inherits."""


class Family:
    """The processes of one trial, as they are met."""

    def __init__(self, mark: str) -> None:
        self.root = 0
        """Process of its command; 0 as long as it has not begun."""
        self.mark = f"{MARK}={mark}".encode()
        self.known: dict[int, str] = {}
        """Process that was found to belong -> when it began: a number is given again."""

    def owns(self, pid: int) -> bool | None:
        """Whether a process belongs to the trial; None where it is not to be seen from here."""
        began = _field(pid, 19)
        if not began:
            return True if pid in self.known else None  # it has just ended, or is of another namespace
        if self.known.get(pid) == began:
            return True
        if self._below(pid) or self._marked(pid):
            self.known[pid] = began
            return True
        return False

    def alive(self) -> list[int]:
        """Processes of the trial that still run, without its first."""
        return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) not in {os.getpid(), self.root} and _field(pid, 0) not in {"", "Z", "X"} and self._marked(pid)]  # fmt: skip

    def _below(self, pid: int) -> bool:
        for _ in range(64):
            if self.root and pid == self.root:
                return True
            parent = _field(pid, 1)
            if not parent or int(parent) <= 1:
                return False
            pid = int(parent)
        return False

    def _marked(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self.mark in file.read(1 << 20).split(b"\0")
        except OSError:
            return False


def name_of(pid: int) -> str:
    """Name of a process; empty where it is not to be seen."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def _field(pid: int, number: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read(4096).rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[number] if len(fields) > number else ""
