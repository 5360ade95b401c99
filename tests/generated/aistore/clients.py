"""What the storage client and the data loader of a training job print, by version of the client.

Text only: which rank prints it and when is the job's business.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

SITE = "/opt/venv/lib/python3.12/site-packages"


@dataclass(frozen=True)
class Said:
    """What a rank prints when its data does not come."""

    before: tuple[tuple[float, str], ...]
    """Lines before the error: seconds before it (negative), text with `{time}` for the local time."""
    error: str
    """The exception line: class and message."""
    cause: tuple[str, ...]
    """Traceback lines of the exception behind it; empty where there is none."""
    needle: str
    """Part of the line that is the trigger on the worker's side."""


def idle_reset(sdk: str, path: str) -> str:
    """The reset of a connection that was idle for too long, healed by the first retry."""
    reset = "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
    version = tuple(int(part) for part in sdk.split("."))
    if version >= (1, 24):
        return f"{{time}} WARNING: Resuming '{path}' after {reset} (1/5)"
    if version < (1, 15):
        return f"{{time}} WARNING: Chunked encoding error ({reset}), retrying 1/5"
    return "\n".join(
        (
            f"{{time}} WARNING: Error while reading '{path}', retrying 1/5",
            "Traceback (most recent call last):",
            f'  File "{SITE}/urllib3/response.py", line 754, in _error_catcher',
            "    yield",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
            f'  File "{SITE}/aistore/sdk/obj/obj_file/object_file.py", line 133, in read',
            "    chunk = next(self._iterable)",
            (
                "urllib3.exceptions.ProtocolError: (\"Connection broken: ConnectionResetError(104, 'Connection reset by "
                "peer')\", ConnectionResetError(104, 'Connection reset by peer'))"
            ),
        )
    )


def _with_traceback(line: str, error: str) -> str:
    """A resumed read of the clients 1.15 to 1.23, which show the error although it is not fatal."""
    return "\n".join(
        (
            line,
            "Traceback (most recent call last):",
            f'  File "{SITE}/aistore/sdk/obj/obj_file/object_file.py", line 133, in read',
            "    chunk = next(self._iterable)",
            f"requests.exceptions.ConnectionError: {error}",
        )
    )


def short_batch(rng: random.Random, *, fallback: bool, host: str, bucket: str) -> Said:
    """A batch that ends early: a crash of the loader, or from the spring of 2026 on a fallback that fails as well."""
    if not fallback:
        return Said(
            (),
            "lhotse.ais.batch_loader.AISBatchLoaderError: Batch result iterator exhausted prematurely. "
            "Expected more objects for manifests with URLs.",
            (
                f'  File "{SITE}/lhotse/ais/batch_loader.py", line 148, in __call__',
                "    info, content = next(batch_result)",
                "                    ^^^^^^^^^^^^^^^^^^",
                "StopIteration",
            ),
            "Caught AISBatchLoaderError in DataLoader worker process",
        )
    index = rng.randint(8, 90)
    name = f"shards/audio_{rng.randint(1000, 4999)}.tar"
    timeout = f"HTTPConnectionPool(host='{host}', port=51081): Read timed out. (read timeout=60)"
    return Said(
        (
            (
                -75.0,
                f"WARNING:root:Batch stream truncated at index {index}/128. Falling back to direct AIStore API calls for remaining objects.",
            ),
            (-0.5, f"ERROR:root:Failed to fetch object {name} from bucket {bucket}: {timeout}"),
        ),
        f"lhotse.ais.batch_loader.AISBatchLoaderError: Direct API fallback failed for {name}",
        (
            f'  File "{SITE}/requests/adapters.py", line 713, in send',
            "    raise ReadTimeout(e, request=request)",
            f"requests.exceptions.ReadTimeout: {timeout}",
        ),
        "Caught AISBatchLoaderError in DataLoader worker process",
    )


def refused_by_server(status: int, message: str, *, node: str, host: str, path: str, tcode: str = "") -> Said:
    """An answer with a status, as the client shows it."""
    body = json.dumps(
        {
            "tcode": tcode,
            "message": message,
            "method": "PUT" if "ckpt" in path else "GET",
            "url_path": path,
            "remote_addr": "10.1.7.21:40112",
            "caller": "",
            "node": node,
            "status": status,
        },
        separators=(",", ":"),
    )
    error = f"aistore.sdk.errors.AISError: STATUS:{status}, MESSAGE:{body}, REQ_URL:http://{host}:51081{path}"
    return Said((), error, (), f"STATUS:{status}, MESSAGE")


def broken_read(sdk: str, rng: random.Random, *, host: str, bucket: str, timeout: bool) -> Said:
    """A read from a target that is gone: resumed, resumed, given up."""
    path = f"{bucket}/shards/audio_{rng.randint(1000, 4999)}.tar"
    url = f"/v1/objects/{path.split('://')[1]}?provider=aws"
    if timeout:
        last = (
            f"HTTPConnectionPool(host='{host}', port=51081): Max retries exceeded with url: {url} (Caused by "
            f"ConnectTimeoutError(<urllib3.connection.HTTPConnection object at 0x7f2a51c0d3d0>, 'Connection to {host} timed out. (connect timeout=3)'))"
        )
    else:
        last = (
            f"HTTPConnectionPool(host='{host}', port=51081): Max retries exceeded with url: {url} (Caused by NewConnectionError("
            "'<urllib3.connection.HTTPConnection object at 0x7f2a51c0d3d0>: Failed to establish a new connection: [Errno 111] Connection refused'))"
        )
    reset = "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
    version = tuple(int(part) for part in sdk.split("."))
    before = []
    for number in range(1, 6):
        why = reset if number == 1 and not timeout else last
        if version >= (1, 24):
            text = f"{{time}} WARNING: Resuming '{path}' after {why} ({number}/5)"
        elif version < (1, 15):
            text = f"{{time}} WARNING: Chunked encoding error ({why}), retrying {number}/5"
        else:
            text = _with_traceback(f"{{time}} WARNING: Error while reading '{path}', retrying {number}/5", why)
        before.append((-7.0 + number, text))
    before.append((-0.2, f"{{time}} ERROR: Error while reading object at '{path}': {last}. Closing file."))
    cause = (
        f'  File "{SITE}/requests/adapters.py", line 700, in send',
        "    raise ConnectionError(e, request=request)",
        f"requests.exceptions.ConnectionError: {last}",
    )
    if version < (1, 11):
        return Said(
            tuple(before), f"requests.exceptions.ConnectionError: {last}", (), "requests.exceptions.ConnectionError"
        )
    name = "aistore.sdk.obj.obj_file.errors.ObjectFileReaderMaxResumeError"
    return Said(
        tuple(before),
        f"{name}: ObjectFileReader exceeded max number of stream resumptions: 6",
        cause,
        "exceeded max number of stream resumptions",
    )


def proxy_refused(rng: random.Random, *, host: str, bucket: str) -> Said:
    """Nobody listens at the gateway; the request is tried seven times."""
    last = (
        f"HTTPConnectionPool(host='{host}', port=51080): Max retries exceeded with url: /v1/objects/{bucket.split('://')[1]}/shards/audio_{rng.randint(1000, 4999)}.tar"
        "?provider=aws (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f61b04e2f10>: Failed to establish a new "
        "connection: [Errno 111] Connection refused'))"
    )
    before = tuple(
        (
            -60.0 + number * 9,
            f"WARNING:root:Retrying aistore.sdk.request_client.RequestClient._request_with_retry in {number}.53 seconds as it raised ConnectionError: {last}.",
        )
        for number in range(1, 7)
    )
    return Said(before, f"requests.exceptions.ConnectionError: {last}", (), "requests.exceptions.ConnectionError")
