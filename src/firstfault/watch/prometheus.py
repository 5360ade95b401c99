"""The board as Prometheus metrics: text for a collector of text files, and a page that listens on the loopback only."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.watch.board import Board

STATES = ("moving", "slow", "stalled", "dead", "ended", "silent")
_GAUGES = (
    ("step", "firstfault_rank_step", "Last step of the rank."),
    ("still_s", "firstfault_rank_still_seconds", "Seconds since the last sign of life of the rank."),
    ("pace_s", "firstfault_rank_step_seconds", "Usual seconds of a step of the rank."),
    (
        "waited_share",
        "firstfault_rank_waits_for_others_ratio",
        "Share of its time that the rank waits for others in calls of torch.distributed.",
    ),
    (
        "own_share",
        "firstfault_rank_own_work_ratio",
        "Share of its time outside of collectives, backward pass and optimizer, where waits are seen (gloo, MPI).",
    ),
    (
        "loader_share",
        "firstfault_rank_waits_for_loader_ratio",
        "Share of its time that the rank waits for its data loader.",
    ),
)


_LOOPBACK = re.compile(r"(?:localhost\.?|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")


def text(board: Board) -> str:
    """All metrics of a board in the text format."""
    lines = ["# HELP firstfault_ranks Ranks by state.", "# TYPE firstfault_ranks gauge"]
    lines += [f'firstfault_ranks{{run="{_safe(board.run)}",state="{s}"}} {board.count(s)}' for s in STATES]
    if board.rows:
        lines += ["# HELP firstfault_rank_state The state of the rank.", "# TYPE firstfault_rank_state gauge"]
        lines += [
            f'firstfault_rank_state{{run="{_safe(board.run)}",rank="{row.rank}",host="{_safe(row.host)}",state="{row.state}"}} 1'
            for row in board.rows
        ]
    for field, name, meaning in _GAUGES:
        rows = [(row, value) for row in board.rows if (value := getattr(row, field)) is not None]
        if rows:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [
                f'{name}{{run="{_safe(board.run)}",rank="{row.rank}",host="{_safe(row.host)}"}} {v}' for row, v in rows
            ]
    return "\n".join(lines) + "\n"


def _safe(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def of_loopback(hosts: Sequence[str]) -> bool:
    """Whether a request names the loopback as whom it wants; a page of a browser may have a name of its own lead here.

    Args:
        hosts: its `Host` lines.
    """
    return len(hosts) == 1 and _LOOPBACK.fullmatch(hosts[0].strip().lower()) is not None


def server(port: int, board: Callable[[], Board]) -> ThreadingHTTPServer:
    """A server of `/metrics` on the loopback; start it with `serve_forever`.

    Args:
        port: 0 for any free one.
        board: gives the board at each request.

    Raises:
        OSError: the port is taken.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not of_loopback(self.headers.get_all("Host", [])):
                self.answer(421, b"only names of the loopback are answered\n")
                return
            found = self.path.split("?", 1)[0] == "/metrics"
            self.answer(*((200, text(board()).encode()) if found else (404, b"only /metrics is here\n")))

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the class
            del format, args

    return ThreadingHTTPServer(("127.0.0.1", port), Page)
