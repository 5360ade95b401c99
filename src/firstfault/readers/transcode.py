"""UTF-16, UTF-32 and GB 18030 text as UTF-8, as a stream: Windows tools, some web pages and Chinese locales write it.

It judges nothing.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same text in UTF-8 without byte-order mark; what is no character becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    first = True
    for block in blocks:
        text = decoder.decode(block)
        if first and text:
            text = text.removeprefix("\ufeff")
            first = False
        if text:
            yield text.encode("utf-8", "replace")
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest.encode("utf-8", "replace")
