r"""The same log as other systems hand it on: container runtimes, collectors, terminals, copies.

Each disguise changes how lines are wrapped and nothing of what they say; a verdict must not become bolder or wrong by
it. Line numbers stay, so the truth of a case still holds.
"""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 3, 5, 10, 11, 12, 123456, tzinfo=timezone.utc)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines and lines[-1] == b"" else lines


def _each(wrap: Callable[[int, bytes], bytes]) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        return b"".join(wrap(n, line) + b"\n" for n, line in enumerate(_lines(data)))

    return change


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _later(number: int) -> datetime:
    """The collector's own clock: it got all lines within a second or so, which says nothing of when they were written."""
    return START + timedelta(milliseconds=number)


def _cri(number: int, line: bytes) -> bytes:
    return f"{_later(number):%Y-%m-%dT%H:%M:%S.%f}789Z stderr F ".encode() + line


def _docker_json(number: int, line: bytes) -> bytes:
    row = {"log": _text(line) + "\n", "stream": "stderr", "time": f"{_later(number):%Y-%m-%dT%H:%M:%S.%f}789Z"}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def _cloud_json(number: int, line: bytes) -> bytes:
    row = {"timestamp": int(_later(number).timestamp() * 1000), "message": _text(line), "logStreamName": "trainer/main"}
    return json.dumps(row).encode()


def _journal(number: int, line: bytes) -> bytes:
    return f"{_later(number):%b %d %H:%M:%S} localhost trainer[20417]: ".encode() + line


def _coloured(number: int, line: bytes) -> bytes:
    return b"\x1b[" + (b"31m" if number % 2 else b"0;33m") + line + b"\x1b[0m"


WRAPS: dict[str, Callable[[bytes], bytes]] = {
    "kubernetes runtime": _each(_cri),
    "docker json-file": _each(_docker_json),
    "cloud collector json": _each(_cloud_json),
    "docker compose": _each(lambda _, line: b"trainer-1  | " + line),
    "kubectl prefix": _each(lambda _, line: b"[pod/train-worker-0/pytorch] " + line),
    "journal": _each(_journal),
    "ansi colours": _each(_coloured),
    "windows line ends": lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "utf-16": lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "quoted in a mail": _each(lambda _, line: b"> " + line),
    "indented paste": _each(lambda _, line: b"    " + line),
    "numbered by grep -n": _each(lambda number, line: b"%d:" % (number + 1) + line),
    "file name by grep -r": _each(lambda _, line: b"job/train.log:" + line),
    "pasted between fences": lambda data: b"```\n" + data.rstrip(b"\n") + b"\n```\n",
    "ts of moreutils": _each(lambda number, line: f"{_later(number):%b %d %H:%M:%S} ".encode() + line),
    "grep -rn": _each(lambda number, line: b"job/train.log:%d:" % (number + 1) + line),
    "cat -n": _each(lambda number, line: b"%6d\t" % (number + 1) + line),
    "html": _each(
        lambda _, line: (
            line.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;").replace(b'"', b"&quot;")
        )
    ),
    "blank lines between": _each(lambda _, line: line + b"\n"),
    "every line twice": _each(lambda _, line: line + b"\n" + line),
    "cut at 160 columns": _each(lambda _, line: line[:160]),
    "wrapped at 120 columns": _each(
        lambda _, line: b"\n".join(line[n : n + 120] for n in range(0, max(1, len(line)), 120))
    ),
}
"""Name of each disguise and what it does to the bytes of a file."""
MOVED = {"pasted between fences": 1}
"""By how much line numbers move."""
RENAMED = {"gzip": ".gz"}
"""What is added to the file's name."""
