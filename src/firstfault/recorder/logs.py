"""A handler for `logging` that writes lines with fixed fields, and folds those that repeat."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

AGAIN_S = 10.0
"""Seconds after which a line that repeats is written again, with how often it came; also those for which a count is at most unwritten
while anything is logged: who is killed has no time to write it."""
MOST = 2000
"""Different lines that are remembered."""


_NUMBER = re.compile(r"\d+")
"""What alone may differ in texts that are the same: `shard 5`, not `loss nan`."""


class RecordHandler(logging.Handler):
    """Writes every record of `logging` into the events of this process; the same text of one place is folded."""

    def __init__(self, write: Callable[[dict[str, Any]], None], level: int = logging.INFO) -> None:
        super().__init__(level)
        self._write = write
        self._flushed = time.monotonic()
        self._seen: dict[tuple[str, int, str, str], list[Any]] = {}
        """(logger, level, place, text) -> [time of the last written one, how many were not written since, its fields]."""

    def emit(self, record: logging.LogRecord) -> None:
        """Takes one record."""
        try:
            text, place = record.getMessage(), f"{record.pathname}:{record.lineno}"
            key = (record.name, record.levelno, place, _NUMBER.sub("#", text))
            now = time.monotonic()
            if now - self._flushed >= AGAIN_S:
                self._flush(now)
            # Nothing of ours is locked: `handle` holds the handler's own lock, which logging makes anew in a forked child.
            known = self._seen.get(key)
            if known is not None and now - known[0] < AGAIN_S:
                known[1] += 1
                return
            fields: dict[str, Any] = {
                "level": record.levelname,
                "logger": record.name,
                "message": text,
                "place": place,
            }
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                fields["error"] = error
            folded = 0 if known is None else known[1]
            if len(self._seen) >= MOST:
                self.flush()
                self._seen.clear()
            # Without the exception, which holds the frames of the program.
            self._seen[key] = [now, 0, {k: v for k, v in fields.items() if k != "error"}]
            self._write({**fields, "repeated": folded} if folded else fields)
        except Exception:  # noqa: BLE001 - a log line never ends a program
            return

    def flush(self) -> None:
        """Writes how often lines came that were not written again."""
        try:
            self._flush(time.monotonic())
        except Exception:  # noqa: BLE001 - a log line never ends a program
            return

    def _flush(self, now: float) -> None:
        self._flushed = now
        for known in list(self._seen.values()):
            if known[1]:
                folded, known[1] = known[1], 0
                self._write({**known[2], "folded": folded})

    def close(self) -> None:
        """Ends it, with the counts of what was folded."""
        self.flush()
        super().close()
