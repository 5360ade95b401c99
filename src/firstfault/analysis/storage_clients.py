"""Which client of a store an exception came out of, by the files of its traceback; knows packages, judges nothing.

A connection that breaks is a peer's death as a rule. Where the frames show that a client of a store was reading or writing
over it, it is the store, or the way to it, that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from firstfault.model.evidence import PythonException

_PACKAGE = lazy(r"[/\\](?:site|dist)-packages[/\\](.+)$")
_TRANSPORT = lazy(
    r"(?:requests|urllib3|httpx|httpcore|aiohttp|anyio|aiobotocore|tenacity|google[/\\](?:auth|api_core)|h11|botocore[/\\]vendored)[/\\]"
)
"""Packages that carry bytes for a client and do not know what for."""
_STANDARD = lazy(
    r"[/\\](?:lib(?:64)?[/\\])?python\d(?:\.\d+)?[/\\](?:http|asyncio|concurrent|socket|ssl|urllib|contextlib|selectors)\b"
)
_CLIENT = lazy(
    r"(?:(?P<name>aistore|botocore|boto3|s3transfer|s3fs|gcsfs|adlfs|fsspec|ocifs|ossfs|oss2|qcloud_cos|minio|smart_open|megfile"
    r"|huggingface_hub|hf_transfer|datasets|webdataset|litdata|petastorm|deeplake|s3torchconnector|tensorstore|modelscope)[/\\]"
    r"|(?P<lhotse>lhotse[/\\]ais)[/\\]|(?P<streaming>streaming[/\\]base)[/\\]|(?P<google>google[/\\](?:cloud[/\\]storage|resumable_media))[/\\]"
    r"|(?P<azure>azure[/\\](?:storage|core|datalake))[/\\])"
)


def client_of(exception: PythonException) -> str | None:
    """Name of the client of a store out of which an exception came; None where its innermost own code is no such client's.

    Packages that only carry bytes and the interpreter's own files are looked through.
    """
    for frame in reversed(exception.frames):
        found = _PACKAGE.search(frame.file)
        if found is None:
            if _STANDARD.search(frame.file):
                continue
            return None
        if _TRANSPORT.match(found[1]):
            continue
        client = _CLIENT.match(found[1])
        return None if client is None else next(v for v in client.groups() if v)
    return None
