"""Lines of a manifest, one after the other, also out of gzip and zstandard; a damaged end is told, never raised."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firstfault.dataset.nouns import Kind, Notes

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 16 << 20
"""Bytes of one line that are kept; the rest of it is passed over."""

MISSING = Kind("manifest.missing", "fail", "manifests are not there", fix="Check the path.")
UNREADABLE = Kind("manifest.unreadable", "fail", "manifests cannot be read", fix="Check their permissions.")
CUT = Kind("manifest.cut", "fail", "manifests are cut off or damaged", "Reading raises there, and what is behind it is lost.", "Write or copy it again.")  # fmt: skip
LONG = Kind("manifest.long_line", "warn", "lines are longer than 16 MiB, and were not read")


def lines_of(path: str, notes: Notes) -> Iterator[tuple[int, bytes]]:
    """Number, from 1, and bytes of each line, without its end.

    Args:
        path: a text file, maybe packed.
        notes: where problems go.
    """
    number = 0
    try:
        with Path(path).open("rb") as file:
            stream = _opened(file)
            while True:
                raw = stream.readline(LONGEST)
                if not raw:
                    return
                number += 1
                if len(raw) == LONGEST and not raw.endswith(b"\n"):
                    notes.note(LONG, path, f"line {number}", line=number)
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(LONGEST)
                    continue
                yield number, raw.rstrip(b"\r\n")
    except FileNotFoundError:
        notes.note(MISSING, path, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        notes.note(CUT, path, path, line=number or None, detail=str(error)[:200])
    except OSError as error:
        notes.note(UNREADABLE, path, path, detail=(error.strerror or str(error))[:200])
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "zstandard":
            raise
        notes.note(CUT, path, path, line=number or None, detail=str(error)[:200])


def _opened(file: BinaryIO) -> BinaryIO:
    head = file.read(4)
    file.seek(0)
    if head[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if head == b"\x28\xb5\x2f\xfd":
        import io

        import zstandard

        return io.BufferedReader(
            zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
        )
    return file
