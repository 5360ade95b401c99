"""The set of signatures and tables that one run uses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.signatures.loader import HERE, merge, read_folder, read_tables
from firstfault.signatures.pack import load_pack
from firstfault.signatures.plan import SignaturePlan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.model.patterns import Signature, SignatureFile, Table, TableRow


class Library:
    """Signatures by id and vendor tables by name."""

    def __init__(self, signatures: Sequence[Signature], tables: dict[str, Table]) -> None:
        self.signatures = tuple(signatures)
        self.tables = tables

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
    packs = [load_pack(folder, _read) for folder in (HERE, *site)]
    tables: dict[str, Table] = {}
    for pack in packs:
        tables.update(pack.tables)
    return Library(merge([pack.signatures for pack in packs]), tables)


def _read(folder: Path) -> tuple[list[Signature], dict[str, Table]]:
    return read_folder(folder), read_tables(folder)
