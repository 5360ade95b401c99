"""Suspects: groups of events of one kind that may be the first fault, with what speaks for their innocence.

Holds the types and the grouping; `causes.py` decides between suspects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.by_frames import by_frames, of_its_bytes, through_a_client
from firstfault.analysis.case import BARE_EXCEPTION, GENERIC_EXCEPTION, Case
from firstfault.analysis.clocks import Reading, reading
from firstfault.analysis.fault_words import COMMON, device_family, refers_back
from firstfault.analysis.nature import Nature
from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.program_names import ours
from firstfault.model.evidence import CAUGHT, Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import (
    ActionKind,
    Category,
    Domain,
    Layer,
    Mark,
    Role,
    Strength,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.patterns import SignatureFile, TableRow

EXCEPTIONS = "exceptions"
INNERMOST = "Read the innermost frame of your own code above this line."
"""Advice about an exception of which only the class is known."""
BURST = 30.0
"""Seconds: events of one kind within this of the first are one blow that hit several ranks at once."""
MACHINES = frozenset({"kernel", "slurm", "kubernetes", "container", "network", "launcher"})
"""Rooms of signatures whose lines speak of machines and schedulers: these do not deal with errors of programs."""
OWN_WORD = MACHINES | {
    "nccl",
    "gloo",
    "torch",
    "process",
    "python",
    "ray",
    "aistore",
    "numerics",
    "jax",
    "paddle",
    "tensorflow",
}
"""Rooms whose plain lines are the word of a runtime or a machine, not of a program's own logger."""
HANDLED = lazy(
    r"(?i)\b(?:optional|(?<!cannot )(?<!can't )(?<!can not )(?<!could not )(?<!unable to )(?<!failed to )(?<!no )fall(?:s|ing)? ?back"
    r"(?! (?:also |too )?failed)|(?:is|are|was|will be|kernels|telemetry) (?:disabled|skipped|ignored)|(?<!or )(?<!by )(?<!try )(?<!consider )disabling|disabled\b"
    r"|skipp(?:ed|ing) (?:it|this|sample|file|batch)|ignor(?:ed|ing)\b|continuing|from scratch|without (?:it|lock|locking|telemetry)"
    r"|using (?:the )?(?:cache|cached|older|previous|last good|step_\w+|default)\b|using [\w ./-]{1,40} instead"
    r"|not fatal|non-fatal|recovered|reasons? (?:are|is)\b)"
)
"""Words by which any logger says that an error was dealt with; a line of one program says it by the mark `caught`."""
_PART_OF_HANDLED = (
    "optional", "fall", "disabl", "skip", "ignor", "continuing", "scratch", "without", "using", "fatal", "recovered", "reason",
)  # fmt: skip
"""Every text that `HANDLED` finds holds one of these: looking for them first is a hundred times as fast."""
ELSEWHERE = 60.0
"""Seconds: progress of another source this long after an event shows that the job went on."""


NO_TURN = 1 << 30
"""The turn of ranks whose own exit is not reported, beside others whose exits are."""


class Suspect(Struct, frozen=True, kw_only=True):
    """All events of one nature in one attempt, with their subjects."""

    nature: Nature
    events: tuple[Event, ...]
    """In order of time where known, else of place; the first is the earliest."""
    ranks: tuple[GlobalRank, ...]
    """Ranks of the first burst, sorted."""
    later_ranks: tuple[GlobalRank, ...]
    """Ranks that said the same only later."""
    hosts: tuple[str, ...]
    ordered: bool = False
    """Whether it is an order to stop, not an error of a process."""
    unplaced: int = 0
    """Lines of the first burst whose rank is not known."""
    clock: Reading = Reading()
    """By which the first event is stamped."""
    turn: int | None = None
    """The turn in which the first of its ranks is reported to have exited by itself, `NO_TURN` where none is; None where
    nobody reports exits one by one, or it has no rank."""

    @property
    def first(self) -> Event:
        """The earliest event."""
        return self.events[0]

    @property
    def everyone(self) -> tuple[GlobalRank, ...]:
        """All ranks that said it at any time."""
        return tuple(sorted({*self.ranks, *self.later_ranks}))


def nature_of(case: Case, event: Event) -> Nature:
    """Nature of an event.

    A specific signature decides; a vendor row refines it; a plain exception is judged by its class.
    """
    if event.exception is None:
        plain = case.plain.get(event.signature)
        if plain is not None:
            return plain
    spec = case.spec(event)
    if spec is None or event.signature in {BARE_EXCEPTION, GENERIC_EXCEPTION}:
        return by_frames(event, _exception_nature(case, event))
    code = event.fields.get(spec.table, "") if spec.table else None
    known = case.natures.get((event.signature, code))
    if known is None:
        known = case.natures[event.signature, code] = _signature_nature(case, event.signature, spec, code)
    if (told := of_its_bytes(event, known)) is not None:
        return told
    if event.signature.startswith("gpu."):
        return _of_its_runtime(case, event, known)
    if code is None and event.exception is None:
        case.plain[event.signature] = known
    return through_a_client(event, known) if event.signature.startswith("python.") else known


def of_roles(case: Case, roles: Container[Role], also: Container[str] = ()) -> list[Event]:
    """Events whose nature has one of some roles, and all of some signatures, in order of position."""
    wanted = set()
    asked = set()
    for signature in case.signatures:
        one = case.one_of(signature)
        if signature in also:
            wanted.add(signature)
        elif signature not in case.uniform or signature in {BARE_EXCEPTION, GENERIC_EXCEPTION}:
            wanted.add(signature)
            asked.add(signature)
        elif nature_of(case, one).role in roles:
            # What runtime a line names changes the words of its nature, never the role.
            wanted.add(signature)
    return [e for e in case.of(wanted) if e.signature not in asked or nature_of(case, e).role in roles]


_RUNTIME = lazy(
    r"\b(HIP|XPU|NPU|MUSA|MLU|MPS|HPU|GCU|SYCL)\b(?: backend)? (?:out of memory|(?:driver |runtime |function )?error\b)"
)
"""How PyTorch names the runtime of a device of another kind than NVIDIA's, in front of the words that CUDA's errors have."""


def _of_its_runtime(case: Case, event: Event, nature: Nature) -> Nature:
    """A nature in whose words CUDA stands, with the runtime that the line names: the same allocator serves other devices."""
    if not nature.title.startswith("CUDA"):
        return nature
    found = _RUNTIME.search(event.text)
    if found is None:
        return nature
    key = (f"{event.signature}@{found[1]}", nature.key)
    known = case.natures.get(key)
    if known is None:
        # Only ROCm has the calls of torch.cuda: what they are called elsewhere is not said.
        told = tuple(
            c if found[1] == "HIP" else c.replace("CUDA ", "").partition(" (torch.cuda.")[0] for c in nature.collect
        )
        known = case.natures[key] = replace(nature, title=found[1] + nature.title.removeprefix("CUDA"), collect=told)
    return known


def _signature_nature(case: Case, signature: str, spec: SignatureFile, code: str | None) -> Nature:
    row: TableRow | None = None
    key = signature
    if code is not None:
        row = case.library.row(spec.table, code)
        key = f"{key}#{code}"
    nature = Nature(
        key=key,
        title=spec.title,
        role=spec.role,
        category=spec.category,
        domain=spec.domain,
        layer=spec.layer,
        phase=spec.phase,
        scope=spec.scope,
        form=spec.form,
        blame=spec.blame,
        strength=spec.strength,
        depth=spec.depth,
        fatal=spec.fatal,
        action=spec.action,
        advice=tuple(spec.advice),
        collect=tuple(spec.collect),
        meaning=spec.meaning,
    )
    return nature if row is None else _refined(nature, row)


def _refined(nature: Nature, row: TableRow) -> Nature:
    """A nature with the words of a vendor row over the signature's."""
    return Nature(
        key=nature.key,
        title=f"{nature.title}: {row.name}",
        role=row.role or nature.role,
        category=row.category or nature.category,
        domain=row.domain or nature.domain,
        layer=nature.layer,
        phase=nature.phase,
        scope=nature.scope,
        form=nature.form,
        blame=row.blame or nature.blame,
        strength=row.strength or nature.strength,
        depth=nature.depth if row.depth is None else row.depth,
        fatal=nature.fatal if row.fatal is None else row.fatal,
        action=row.action_kind or nature.action,
        advice=(row.action, *nature.advice) if row.action else nature.advice,
        collect=nature.collect,
        meaning=row.meaning,
    )


def bare_message(event: Event) -> str:
    """What stands behind the class in a last line of a traceback that stands alone; empty where the line is another."""
    kind = event.fields.get("exception", "")
    if event.signature != BARE_EXCEPTION or not kind or event.text.lstrip()[:1] == "{":
        return ""
    return _COLOUR.sub("", event.text.partition(f"{kind}: ")[2]).strip()


_COLOUR = lazy(r"(?:\x1b|\\x1b)\[[0-9;]*m")


def _exception_nature(case: Case, event: Event) -> Nature:
    kind = event.exception.kind if event.exception is not None else event.fields.get("exception", "Exception")
    row = case.library.row(EXCEPTIONS, kind) or case.library.row(EXCEPTIONS, kind.rsplit(".", 1)[-1])
    message = event.exception.message if event.exception is not None else bare_message(event) or event.text
    if kind == "Exception" and (not message.strip() or "-- Process " in message):
        # torch.multiprocessing.spawn raises a bare Exception that quotes the child's own.
        return Nature(
            key=f"{GENERIC_EXCEPTION}:spawn", title="A parent reports a child's exception", role=Role.EFFECT, depth=30
        )
    base = Nature(
        key=f"{GENERIC_EXCEPTION}:{kind.rsplit('.', 1)[-1]}:{shape(message)}",
        title=f"Python exception {kind}",
        role=Role.CAUSE,
        category=Category.SOFTWARE,
        domain=Domain.CONFIG,
        layer=Layer.RUNTIME,
        strength=Strength.POSSIBLE,
        action=ActionKind.FIX_AND_RERUN,
        advice=(INNERMOST,),
        meaning="An exception that nobody caught ended the process.",
    )
    if row is not None:
        # The row of an exception is named after its class: said twice it says nothing.
        base = replace(_refined(base, row), title=base.title if row.name in kind else f"{base.title}: {row.name}")
    if row is not None and row.name not in COMMON:
        return base
    if (family := device_family(message)) is not None:
        base = replace(base, title=f"{base.title}: {family.said}", category=family.category, domain=family.domain)
    return replace(base, role=Role.EFFECT, depth=30) if refers_back(message) else base


_NUMBER = lazy(r"0x[0-9a-fA-F]+|\d+")
_QUOTED = lazy(r"'[^']*'|\"[^\"]*\"|<[^>]*>|/\S+")


def shape(message: str) -> str:
    """A message with numbers, quoted text and paths taken out: equal for the same error on different ranks."""
    return _NUMBER.sub("#", _QUOTED.sub("*", message.split("\n", 1)[0]))[:80]


def went_on(case: Case, event: Event) -> bool:
    """Whether the job made progress after an event, so that the event ended nothing.

    An order to stop is carried out after a grace time, in which steps are still made: it is not acquitted by them.
    """
    if not case.tracks or case.has(event, Mark.STOP_SIGNAL):
        return False
    track = case.tracks.get(event.span.source)
    if track is not None and track.went_on_after(event.span.offset):
        return True
    if track is not None and event.exception is None and track.started_after(event.span.offset):
        # A line of a logger, not of the interpreter, before the first step of a job that then made steps.
        return True
    if event.when.latest is None or not (exact(event.when) or lived_on(event)):
        return False
    return case.stepped_elsewhere(event, event.when.latest + ELSEWHERE)


def lived_on(event: Event) -> bool:
    """Whether a logger's line behind a traceback tells until when it was printed at the latest, whoever printed that line."""
    return event.exception is not None and event.exception.lived_on


_TRIED_AGAIN = lazy(r"(?i)\bretry(?:ing)?\b[^\n]{0,20}\b(?:in|after) (?:another )?\d")
_ATTEMPTS = lazy(r"\b(\d{1,3}) ?(?:/|of) ?(\d{1,3})\b")


def _tried_again(event: Event) -> bool:
    """Whether a bare line with an exception's class says that the call is made once more."""
    if event.signature not in {BARE_EXCEPTION, GENERIC_EXCEPTION}:
        return False
    if (event.exception is not None and event.exception.frames) or _TRIED_AGAIN.search(event.text) is None:
        return False
    return all(made != most for made, most in _ATTEMPTS.findall(event.text))


def harmless(event: Event) -> bool:
    """Whether the text itself says that the exception ended nothing, or what is done instead."""
    if (event.exception is not None and event.exception.ignored) or event.fields.get(CAUGHT):
        return True
    if _tried_again(event):
        return True
    room = event.signature.split(".", 1)[0]
    if room in MACHINES:
        return False
    low = event.text.lower()
    for part in _PART_OF_HANDLED:  # a plain loop: this is asked of every line that may be a cause or an effect
        if part in low:
            return HANDLED.search(event.text) is not None
    return False


_EXCEPTION_IN_LINE = lazy(r"\b[A-Z]\w*(?:Error|Exception|Interrupt|Fault)\b:?")
_QUIET = lazy(r"^.{0,100}?(?:^|[\s\[|(:-])(?:INFO|DEBUG|TRACE|HINT|NOTE)\b")


def mentioned(case: Case, event: Event) -> bool:
    """Whether a program's logger only mentions an error: a plain line, neither an exception nor a machine's word.

    The program that writes such a line goes on; what ends it is told by an exception, a signal or an exit.
    """
    room = event.signature.split(".", 1)[0]
    if case.has(event, Mark.RUNTIME_WORD):
        return False
    return event.exception is None and room not in OWN_WORD and _EXCEPTION_IN_LINE.search(event.text) is None


def quiet(case: Case, event: Event) -> bool:
    """Whether a program's logger says it at a level at which nothing is wrong."""
    return mentioned(case, event) and _QUIET.search(event.text) is not None


def stranger(event: Event) -> bool:
    """Whether the kernel killed a process that by its name is no part of a training job."""
    name = event.fields.get("name", "")
    return event.signature.startswith(("kernel.oom_kill", "kernel.segfault")) and bool(name) and not ours(name)


def of_the_store(event: Event) -> bool:
    """Whether the kernel killed a daemon of the object store, which is no process of the job whatever host it is on."""
    return stranger(event) and event.fields.get("name") == "aisnode"


_ELSEWHERE_WRITTEN = lazy(r"^(?:<string>|.*/tmp/tmp[a-z0-9_]{8}(?:/.*|\.py))$")
"""Files of no project: text handed to `exec` or `python -c`, and programs written into Python's temporary files."""


def another_program(event: Event) -> bool:
    """Whether an exception is of a program that the job runs as its data (a benchmark of generated code, a check).

    All its frames are in text or temporary files: no frame is of the job's own code or of a library under it.
    """
    exception = event.exception
    if exception is None or not exception.frames:
        return False
    return all(_ELSEWHERE_WRITTEN.match(f.file) for f in exception.frames)


def recovered_retry(case: Case, event: Event) -> bool:
    """Whether an event is a lost attempt that was not the last one (1/5 and not 5/5)."""
    if not case.has(event, Mark.RETRY):
        return False
    retry, retries = event.fields.get("retry", ""), event.fields.get("retries", "")
    if retry.isdecimal() and retries.isdecimal():
        return int(retry) < int(retries)
    return True


def group(case: Case, roster: Roster, events: Iterable[Event]) -> list[Suspect]:
    """Groups events by nature, with the ranks and hosts of the first blow.

    Returns:
        Suspects, earliest first.
    """
    by_key: dict[str, tuple[Nature, list[Event]]] = {}
    for event in events:
        nature = nature_of(case, event)
        by_key.setdefault(nature.key, (nature, []))[1].append(event)
    suspects = [
        _suspect(roster, nature, found, ordered=case.has(found[0], Mark.STOP_SIGNAL))
        for nature, found in by_key.values()
    ]
    return sorted(suspects, key=lambda s: sort_key(s.first))


def _suspect(roster: Roster, nature: Nature, events: Sequence[Event], *, ordered: bool) -> Suspect:
    in_order = tuple(sorted(events, key=sort_key))
    opening = in_order[0]
    for event in in_order[1:]:
        if first(event, opening) is True:
            opening = event
    in_order = (opening, *(e for e in in_order if e is not opening))
    ranks: set[GlobalRank] = set()
    later: set[GlobalRank] = set()
    hosts: set[str] = set()
    unplaced: set[tuple[int, int]] = set()
    for event in in_order:
        rank = roster.rank(event)
        if _same_blow(opening, event):
            if rank is None:
                unplaced.add((event.span.source, event.span.line))
            else:
                ranks.add(rank)
            host = roster.host(event)
            if host is not None:
                hosts.add(host)
        elif rank is not None:
            later.add(rank)
    return Suspect(
        nature=nature,
        events=in_order,
        ordered=ordered,
        ranks=tuple(sorted(ranks)),
        later_ranks=tuple(sorted(later - ranks)),
        hosts=tuple(sorted(hosts)),
        unplaced=len(unplaced),
        clock=reading(roster, opening),
    )


def _same_blow(opening: Event, event: Event) -> bool:
    if exact(opening.when) and exact(event.when) and comparable(opening.when, event.when):
        return abs((event.when.earliest or 0.0) - (opening.when.earliest or 0.0)) <= BURST
    return True
