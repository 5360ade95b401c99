"""Turns the error files that processes leave for their launcher (error.json) into failures and exceptions; infers nothing.

The exception stands in such a file as JSON text: its signature is found in the text as the interpreter would have printed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.case import GENERIC_EXCEPTION
from firstfault.model.evidence import Event, Failure, PythonException, Who
from firstfault.model.lazy import lazy
from firstfault.model.words import Role
from firstfault.readers.banners import read_error_json
from firstfault.signatures.match import Matcher

if TYPE_CHECKING:
    from firstfault.model.evidence import Source
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.store import Store
    from firstfault.signatures.library import Library

JSON_BYTES = 1 << 20
MESSAGE_LINES = 6
"""Lines of a message in which its meaning is looked for."""
_KIND = lazy(
    r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout|OutOfMemory)\w*)(?:: ?(.*))?$"
)
_ROLES = {Role.CAUSE: 2, Role.EFFECT: 1, Role.TEARDOWN: 0}


class ErrorFile(NamedTuple):
    """What one error file tells."""

    failures: list[Failure]
    events: list[Event]


def read_error_file(store: Store, source: Source, library: Library, profile: SourceProfile) -> ErrorFile:
    """The failure that a process noted, and the exception that ended it; empty where the file holds none."""
    data = store.read(source.id, 0, JSON_BYTES)
    read = read_error_json(data, source.id, profile)
    if read is None:
        return ErrorFile([], [])
    failure, exception = read
    if failure.exit_code is not None and failure.exit_code < 0:
        return ErrorFile([failure], [])  # a signal ended it: there is no exception
    exception = exception or _exception(failure.message)
    if exception is None:
        return ErrorFile([failure], [])
    text = data[failure.span.offset : failure.span.offset + failure.span.length]
    signature, fields = meaning(exception, library)
    event = Event(
        signature=signature,
        span=failure.span,
        text=text.decode("utf-8", "backslashreplace"),
        who=Who(rank=failure.who.rank, local_rank=failure.who.local_rank, host=failure.who.host),
        when=failure.when,
        fields=fields,
        exception=exception,
    )
    return ErrorFile([failure], [event])


def _exception(message: str) -> PythonException | None:
    """The exception of a file that holds its last line only."""
    first, _, rest = message.partition("\n")
    found = _KIND.match(first)
    if found is None:
        return None
    return PythonException(kind=found[1], message=(found[2] or "") + (f"\n{rest}" if rest else ""), complete=False)


def meaning(exception: PythonException, library: Library) -> tuple[str, dict[str, str]]:
    """The signature that knows an exception best, and the fields of its line."""
    said = f"{exception.kind}: {exception.message}".split("\n")[:MESSAGE_LINES]
    best: tuple[tuple[bool, int, int, str], dict[str, str]] | None = None
    for signature in library.signatures:
        spec = signature.spec
        if spec.generic or spec.role not in _ROLES:
            continue
        matcher = _matcher(signature.id, library)
        for number, line in enumerate(said):
            found = matcher.find(line.encode("utf-8", "backslashreplace"))
            if not found:
                continue
            rank = (number == 0, _ROLES[spec.role], spec.depth, signature.id)
            if best is None or rank > best[0]:
                best = (rank, found[0].fields)
    if best is None:
        return GENERIC_EXCEPTION, {"exception": exception.kind}
    return best[0][3], best[1]


_matchers: dict[int, tuple[Library, dict[str, Matcher]]] = {}


def _matcher(name: str, library: Library) -> Matcher:
    """The compiled form of a signature; those of the last library are kept, since a job leaves a file for each process."""
    kept = _matchers.get(id(library))
    if kept is None or kept[0] is not library:
        _matchers.clear()
        kept = _matchers[id(library)] = (library, {})
    found = kept[1].get(name)
    if found is None:
        found = kept[1][name] = Matcher(library.by_id[name])
    return found
