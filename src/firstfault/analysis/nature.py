"""What kind of thing an event is: the words that a signature, a vendor row or an exception's class give it. Holds them, decides nothing."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.words import ActionKind, Blame, Category, Domain, Form, Layer, Phase, Role, Scope, Strength


class Nature(Struct, frozen=True, kw_only=True):
    """What kind of thing an event is, from its signature, vendor row or exception class."""

    key: str
    title: str
    role: Role
    category: Category | None = None
    domain: Domain | None = None
    layer: Layer | None = None
    phase: Phase | None = None
    scope: Scope | None = None
    form: Form | None = None
    blame: Blame = Blame.NOBODY
    strength: Strength = Strength.POSSIBLE
    depth: int = 50
    fatal: bool = True
    action: ActionKind = ActionKind.COLLECT_MORE
    advice: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    meaning: str = ""
