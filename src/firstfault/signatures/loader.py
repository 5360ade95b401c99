"""Loads signatures and vendor tables from their TOML files, ours and a site's own.

Must not decide anything about a log. Order is by id, so that the same files give the same library everywhere.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firstfault.model.patterns import Signature, SignatureFile, Table
from firstfault.model.words import (
    ActionKind,
    Blame,
    Category,
    Domain,
    Form,
    Layer,
    Mark,
    Phase,
    Role,
    Scope,
    Strength,
    Tier,
    Word,
)
from firstfault.signatures.errors import SignatureError
from firstfault.signatures.match import engine_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

HERE = Path(__file__).parent
TABLES = "tables"


def _toml() -> ModuleType:
    """The parser; loaded here, since signatures come from a pack as a rule."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - the other branch is tested on its own Python
        import tomli as tomllib
    module: ModuleType = tomllib
    return module


def parse_signature(text: str, where: str) -> SignatureFile:
    """Reads one signature from TOML text; `where` names the file in messages.

    Raises:
        SignatureError: the text is not TOML, or not a signature.
    """
    toml = _toml()
    try:
        return msgspec.convert(toml.loads(text), SignatureFile)
    except toml.TOMLDecodeError as error:
        raise SignatureError(where, f"not valid TOML: {error}", "Correct the file at that place") from error
    except msgspec.ValidationError as error:
        raise SignatureError(where, f"not a signature: {error}", "See docs/how-to/add-a-signature.md") from error


def faults(text: str, where: str) -> list[SignatureError]:
    """Everything that keeps a text from being a signature, each field judged by itself; empty where it is one."""
    try:
        parse_signature(text, where)
    except SignatureError as error:
        first = error
    else:
        return []
    toml = _toml()
    try:
        told = toml.loads(text)
    except toml.TOMLDecodeError:
        return [first]
    known = SignatureFile.__struct_fields__
    found = [
        SignatureError(where, f"the field `{name}` is missing", "Add it; `firstfault signatures new` shows how")
        for name in _LEAST
        if name not in told
    ]
    for name, value in told.items():
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            fix = f"Perhaps `{near[0]}` is meant" if near else f"Drop it; the fields are {', '.join(known)}"
            found.append(SignatureError(where, f"there is no field `{name}`", fix))
            continue
        try:
            msgspec.convert({**_LEAST, name: value}, SignatureFile)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at `$")[0]
            found.append(SignatureError(where, f"`{name}`: {reason[:1].lower()}{reason[1:]}", _allowed(name)))
    return found or [first]


_LEAST: dict[str, object] = {
    "title": "t", "tier": "loop", "role": "noise", "patterns": [], "meaning": "", "not_proof": "", "sources": [], "match": [],
}  # fmt: skip
"""The smallest signature: what it holds is what every one needs."""


def _allowed(name: str) -> str:
    """What a field may hold, where that is a closed list."""
    kinds: dict[str, type[Word]] = {
        "tier": Tier, "role": Role, "category": Category, "domain": Domain, "layer": Layer, "phase": Phase, "scope": Scope,
        "form": Form, "blame": Blame, "strength": Strength, "action": ActionKind, "marks": Mark,
    }  # fmt: skip
    if name in kinds:
        return f"One of {', '.join(str(word) for word in kinds[name])}"
    return "See docs/how-to/add-a-signature.md"


def parse_table(text: str, where: str) -> Table:
    """Reads one vendor table from TOML text.

    Raises:
        SignatureError: the text is not TOML, or not a table.
    """
    toml = _toml()
    try:
        return msgspec.convert(toml.loads(text), Table)
    except (toml.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SignatureError(where, f"not a vendor table: {error}", "Compare it with a table that loads") from error


def signature_id(folder: Path, file: Path) -> str:
    """Id of a signature from the place of its file: `gpu/fell_off_bus.toml` is `gpu.fell_off_bus`."""
    return ".".join(file.relative_to(folder).with_suffix("").parts)


def read_folder(folder: Path) -> list[Signature]:
    """Reads every signature below a folder (tables left out), sorted by id.

    Raises:
        SignatureError: a file is wrong.
    """
    found = []
    for file in sorted(folder.rglob("*.toml")):
        if TABLES in file.relative_to(folder).parts:
            continue
        spec = parse_signature(file.read_text(encoding="utf-8"), str(file.relative_to(folder)))
        found.append(Signature(signature_id(folder, file), spec, _words(spec)))
    return sorted(found, key=lambda s: s.id)


def _words(spec: SignatureFile) -> tuple[tuple[bytes, ...], ...]:
    """What a line must hold for each pattern, by the case that it is written in."""
    from firstfault.scan.literals import required_literals

    found = []
    for pattern in spec.patterns:
        try:
            literals = required_literals(engine_pattern(pattern))
        except re.error:
            return ()  # told where signatures are checked
        found.append(() if literals is None or literals.any_case else literals.words)
    return tuple(found)


def read_tables(folder: Path) -> dict[str, Table]:
    """Reads every vendor table of a folder, by name.

    Raises:
        SignatureError: a file is wrong.
    """
    place = folder / TABLES
    return {
        f.stem: parse_table(f.read_text(encoding="utf-8"), f"{TABLES}/{f.name}") for f in sorted(place.glob("*.toml"))
    }


def merge(parts: Iterable[list[Signature]]) -> list[Signature]:
    """Joins libraries; a later part replaces a signature of the same id.

    Returns:
        Signatures sorted by id.
    """
    by_id: dict[str, Signature] = {}
    for part in parts:
        for signature in part:
            by_id[signature.id] = signature
    return [by_id[key] for key in sorted(by_id)]
