"""Signatures (what a line means) and hits (where one matched)."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.place import Located
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
)


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that must match, with the fields that it must give, or one that must not, with the reason."""

    line: str
    fields: dict[str, str] = {}
    why: str = ""


class Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the knowledge in a signature comes from."""

    what: str
    date: str
    """YYYY-MM in which the source was read, or of the release that it describes."""


class SignatureFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One signature as its TOML file holds it; the id comes from the place of the file."""

    title: str
    tier: Tier
    role: Role
    patterns: list[str]
    """Regular expressions in the shared dialect; a line matches where one of them does."""
    meaning: str
    not_proof: str
    """What a line of this kind does not prove."""
    advice: list[str] = []
    """Steps for a person, most useful first."""
    unless: list[str] = []
    """Regular expressions; a line in which one matches is not of this signature."""
    extract: list[str] = []
    """Further expressions whose named groups give fields where they match in the line."""
    domain: Domain | None = None
    category: Category | None = None
    layer: Layer | None = None
    phase: Phase | None = None
    scope: Scope | None = None
    form: Form | None = None
    blame: Blame = Blame.NOBODY
    strength: Strength = Strength.SUPPORTED
    """The most that this line alone can prove about the cause."""
    fatal: bool = True
    """Whether the process that says so ends by it; False: it may recover, and progress afterwards acquits it."""
    depth: int = 50
    """How near to the root this kind of event is where time cannot tell: 90 hardware or kernel, 0 teardown."""
    action: ActionKind = ActionKind.COLLECT_MORE
    explains: list[str] = []
    """Ids (with `*`) of cause-like signatures that follow from this one."""
    in_warnings: bool = False
    """Whether it also counts where a Python warning says it; else what stands behind `…Warning:` is quoted."""
    refines: list[str] = []
    """Ids of more general signatures that are dropped where this one matches the same line."""
    generic: bool = False
    """Dropped where any other signature matches the same line."""
    together: list[str] = []
    """Ids of signatures that may rightly match the same line as well."""
    precursors: list[str] = []
    """Ids of lines that show the same fault coming (a skipped step before the loss scale reaches its floor): where they
    lead up to this line without a break, the first of them is the trigger."""
    marks: list[Mark] = []
    facts: dict[str, str] = {}
    """Job fact -> field that holds it, or `=literal`."""
    table: str = ""
    """Name of a vendor table whose row (by the field of the same name) refines this signature."""
    collect: list[str] = []
    """What would settle the matter, as commands or files to get."""
    sources: list[Reference]
    match: list[Example]
    no_match: list[Example] = []


class Signature(Struct, frozen=True):
    """One signature with its id."""

    id: str
    """`<folder>.<file stem>`, such as `gpu.fell_off_bus`."""
    spec: SignatureFile
    words: tuple[tuple[bytes, ...], ...] = ()
    """For each pattern of `spec` the byte strings of which every match holds at least one; empty where none are known."""


class TableRow(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of a vendor table (Xid, SXid, exit code, CUDA error, NCCL result, status of a completion, …)."""

    name: str
    """The vendor's name or short text."""
    meaning: str
    action: str = ""
    """The vendor's or our advised action."""
    action_kind: ActionKind | None = None
    """The same in one word, where the signature's does not fit this row."""
    role: Role | None = None
    category: Category | None = None
    domain: Domain | None = None
    blame: Blame | None = None
    depth: int | None = None
    fatal: bool | None = None
    strength: Strength | None = None
    marks: tuple[Mark, ...] = ()


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A vendor table as data."""

    title: str
    source: str
    date: str
    rows: dict[str, TableRow]


class Hit(Struct, frozen=True, kw_only=True, gc=False):
    """A confirmed match of one signature in one line."""

    signature: str
    line: int
    offset: int
    """Byte offset of the start of the segment (line, or `\\r` part of it) in the source."""
    column: int
    """1-based byte in the physical line at which the match starts."""
    raw: bytes
    """The segment, capped; long ones are cut around the match."""
    raw_offset: int
    """Byte offset in the source of the first byte of `raw`."""
    match_start: int
    """Byte position in `raw` at which the match starts."""
    match_end: int
    key: bytes = b""
    """Stream key: who speaks, as far as the prefix tells; part of the fold key."""
    fields: dict[str, str] = {}
    count: int = 1
    """Total number of hits in the fold to which this kept hit belongs."""
    ordinal: int = 0
    """0, 1, … from the front of the fold, negative from its back."""
    place: Located | None = None
    """Who speaks there and when, where the scan saw the whole segment; None where it is to be read from `raw`."""
