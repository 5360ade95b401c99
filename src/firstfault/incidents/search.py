"""Finds records by text and by stable fields. Must not say that two incidents are one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from firstfault.incidents.record import Record
from firstfault.incidents.synonyms import other_names
from firstfault.incidents.tokens import any_word, every_word, whole_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.incidents.places import Lookup

Field = Literal["title", "symptom", "diagnosis", "cause", "fix", "rest"]
FIELDS: tuple[Field, ...] = ("title", "symptom", "diagnosis", "cause", "fix", "rest")
MANY = 5_000
"""Matches beyond which they are not ranked but given newest first: to weigh them all takes longer than it tells."""


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for; every part that is given has to fit."""

    text: str = ""
    fields: tuple[Field, ...] = ()
    """Parts of the record in which the words have to stand; all where empty."""
    facts: tuple[tuple[str, str], ...] = ()
    """Kind and value, such as `host` and `host-3fa2c1d09b`; a `*` at the end stands for anything."""
    limit: int = 20


class Hit(Struct, frozen=True):
    """One record that was found."""

    record: Record
    number: int
    every: bool
    """Whether it holds every word, not only some."""


class Found(Struct, frozen=True):
    """What a search found."""

    hits: tuple[Hit, ...]
    more: bool
    """Whether there are more than were asked for."""
    unranked: bool
    """Whether they are given newest first, since so many match."""
    unreadable: int = 0
    """Files of the folder that hold no record that can be read: what they say was not looked at."""
    searched: int = 0
    """Records that were searched, those that ship among them; 0 where some were found, since nobody asks then."""


def search(index: Lookup, query: Query) -> Found:
    """Records that fit, best first: those that hold every word, as it is before as a begin, then those by another name of the same fault, then some words."""
    chosen: dict[int, bool] = {}
    unranked = False
    # One more than is shown tells whether there are more; some may be gone when they are looked at.
    wanted = query.limit + 1
    if not query.text.strip():
        chosen = dict.fromkeys(index.by_facts(query, wanted), True)
    else:
        words = every_word(query.text)
        # The word itself comes before those that begin with it: who asks for `node7` is not lost among 70 to 79.
        for asked in dict.fromkeys((whole_words(words), words)):
            if len(chosen) < wanted:
                exact, many = index.by_text(query, asked, wanted)
                chosen.update(dict.fromkeys((n for n in exact if n not in chosen), True))
                unranked = unranked or many
        for other in other_names(query.text):
            if len(chosen) < wanted:
                alike, _ = index.by_text(query, every_word(other), wanted)
                chosen.update(dict.fromkeys((n for n in alike if n not in chosen), True))
        if len(chosen) < query.limit:
            others, _ = index.by_text(query, any_word(query.text), wanted)
            for number in others:
                chosen.setdefault(number, False)
    hits = []
    for number, record in index.records_of(chosen):
        hits.append(Hit(record, number, chosen[number]))
        if len(hits) == wanted:
            break
    return Found(
        tuple(hits[: query.limit]),
        len(hits) > query.limit,
        unranked,
        len(index.unreadable()),
        0 if hits else index.count(),
    )


def merged(found: Sequence[Found], limit: int) -> Found:
    """What several searches found, each record once, in the order of the searches."""
    hits = {hit.number: hit for one in found for hit in one.hits}
    return Found(
        tuple(hits.values())[:limit],
        len(hits) > limit or any(one.more for one in found),
        any(one.unranked for one in found),
        max((one.unreadable for one in found), default=0),
        max((one.searched for one in found), default=0),
    )


def span_of(value: str) -> tuple[str, str]:
    """The first and the last value of a fact that fit; the same where one value is meant."""
    low = value.lower()
    return (low[:-1], low[:-1] + "\U0010ffff") if low.endswith("*") else (low, low)
