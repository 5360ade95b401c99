"""The set of signatures and tables that one run uses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING

from firstfault.signatures.loader import HERE, merge, read_folder, read_tables
from firstfault.signatures.pack import digest_now, load_pack
from firstfault.signatures.plan import SignaturePlan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.model.patterns import Signature, SignatureFile, Table, TableRow


class Library:
    """Signatures by id and vendor tables by name."""

    def __init__(self, signatures: Sequence[Signature], tables: dict[str, Table], digest: str = "") -> None:
        self.signatures = tuple(signatures)
        self.tables = tables
        self.digest = digest
        """Of the files that it was read from; empty where it was not read from files."""

    @cached_property
    def by_id(self) -> dict[str, SignatureFile]:
        """Signature bodies by id."""
        return {s.id: s.spec for s in self.signatures}

    @cached_property
    def plan(self) -> SignaturePlan:
        """What a scan for these signatures looks for."""
        return SignaturePlan(self.signatures)

    def row(self, table: str, key: str) -> TableRow | None:
        """Row of a vendor table; None where the table or the row is not there."""
        found = self.tables.get(table)
        return None if found is None else found.rows.get(key)

    def explains(self, cause: str, effect: str) -> bool:
        """Whether the signature `cause` says that `effect` follows from it."""
        spec = self.by_id.get(cause)
        return spec is not None and any(fnmatchcase(effect, glob) for glob in spec.explains)


def load_library(site: Sequence[Path] = ()) -> Library:
    """Our own library, with the signatures and tables of site folders on top.

    Raises:
        SignatureError: a file is wrong.
    """
    folders = (HERE, *site)
    digests = (_own_digest(), *map(digest_now, site))
    known = _KEPT.get(digests)
    if known is not None:
        return known
    packs = [load_pack(folder, _read, digest) for folder, digest in zip(folders, digests, strict=True)]
    tables: dict[str, Table] = {}
    for pack in packs:
        tables.update(pack.tables)
    made = Library(merge([pack.signatures for pack in packs]), tables, "-".join(digests))
    if all(digests):
        while len(_KEPT) >= _MOST_KEPT:
            _KEPT.pop(next(iter(_KEPT)), None)
        _KEPT[digests] = made
    return made


@cache
def _own_digest() -> str:
    """Of our own files: like its modules, they are what they were when the program began to use them."""
    return digest_now(HERE)


_KEPT: dict[tuple[str, ...], Library] = {}
"""By the digests of its folders: of two diagnoses in one program the second need not read, nor compile, what the first did."""
_MOST_KEPT = 2


def _read(folder: Path) -> tuple[list[Signature], dict[str, Table]]:
    return read_folder(folder), read_tables(folder)
