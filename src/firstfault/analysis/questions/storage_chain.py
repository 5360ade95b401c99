"""Did the store bring about what the job suffered, and which daemon was the origin?

Asked after the job's own lines have been judged: only where they show a read that failed or stood still can the store be the
cause. A busy store beside any other fault stays innocent, however loud it is. Daemons are ordered by time, on one clock.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.analysis import storage_words as words
from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.questions.storage_symptom import Symptom, symptom
from firstfault.analysis.state.storage import changes
from firstfault.analysis.state.storage_blame import NOT_DELIVERED, abort_origin, named_sender
from firstfault.analysis.state.storage_clusters import of_the_failure
from firstfault.analysis.state.storage_faults import ONCE, Kind, Trouble, name_of, still, troubles
from firstfault.analysis.state.storage_origin import FRESH, Origin, origin
from firstfault.analysis.state.storage_unjoined import lone_trouble, named_target
from firstfault.analysis.storage_request import (
    by_reads,
    concerned,
    of_the_batch,
    of_the_object,
    request,
    without_others,
)
from firstfault.analysis.suspects import of_the_store
from firstfault.model.words import ActionKind, Category, Domain, Layer, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.storage import StorageState
    from firstfault.analysis.storage_request import Request

BATCH_BEFORE = 1200.0
"""Seconds before the job stood still in which a failed batch can be its reason: clients repeat for up to eleven minutes."""
BATCH_AFTER = 90.0
FAULT_BEFORE = 900.0
"""The same for a daemon that died, restarted or was removed."""
LASTING = 1800.0
"""The same for a disk that fails or a file system that is full: they go on."""
LOAD_BEFORE = 600.0
"""Seconds within which load must still have been reported."""
LOAD_REPORT = 2400.0
"""The same where no line since says that it is over: housekeeping reports it only now and then."""
AT_ONCE = 60.0
"""Seconds between a line of this job's batch, or of the daemon it asked, and its error within which it bears out a join of the clocks."""
STALE = 600.0
"""Seconds without a word of it after which a fault that nothing else names is no more than possible."""
SEVERAL = 2
"""Relays of an abort that name a target without a line of its own, from which on it is more than a possibility."""
ERRORS = ("err.getbatch.n", "err.soft.getbatch.n", "err.gfn.getbatch.n", "err.io.get.n", "err.io.n", "err.fshc.n")
"""Counters of failures that come from the store's own side."""


class Borne(Enum):
    """What bears out how the clocks of store and job lie to each other."""

    STATED = "stated"
    """Both sides state their zone."""
    BATCH = "batch"
    """A line of the get-batch job that the client names."""
    OBJECT = "object"
    """A line about the object that the client failed to read."""
    DAEMON = "daemon"
    """A line of the daemon that the client asked."""


class Weighed(NamedTuple):
    """An origin with how sure it is."""

    found: Origin
    active: list[Trouble]
    """All troubles that were there when the job stood still."""
    category: Strength
    who: Strength
    seen: Symptom
    """How the job shows that it depends on the store."""
    inferred: bool
    """Whether how the clocks lie to each other is inferred, and no line of this job bears it out."""


def judge(scene: Scene, answer: Answer, state: StorageState) -> Answer:
    """The answer with the store's part in it; the same answer where it has none."""
    seen = symptom(scene, answer)
    if seen is None:
        return answer
    answer = _with_killed(scene, _by_name(answer, state), seen)
    if state.clock.why and state.clock.offset is not None:
        answer = replace(
            answer,
            collect=(
                f"the true time zone of the job's logs, as --assume-zone ZONE: {state.clock.why}",
                *answer.collect,
            ),
        )
    asking = request(scene, answer, state)
    state = without_others(state, asking)
    if state.stop is None:
        if seen is Symptom.READ and answer.category is Category.STORAGE_IO:
            answer = _without_clock(answer, without_others(state, by_reads(asking)), asking.asked)
        return replace(answer, collect=(*answer.collect, *words.ask_to_place(state)))
    stop = state.stop
    active = _active(concerned(troubles(state), asking), stop)
    failed = {t.node for t in active if t.kind is Kind.BATCH}
    own = of_the_failure(state, scene.case.paths, asking.asked, failed)
    stop = state.stop
    if own is not state:
        state, active = own, _active(concerned(troubles(own), asking), stop)
    found = origin(state, active, asking.asked)
    if found is None:
        return _nothing(answer, state, seen, active, no_way=asking.no_way)
    own_lines = [t.last.at for t in active if t.node == found.trouble.node and t.kind is not Kind.ECHO]
    ago = stop - max(own_lines, default=found.trouble.last.at)
    if seen is not Symptom.READ and not _enough(found, seen, ago):
        return replace(answer, rivals=(*answer.rivals, words.rival(state, found.trouble)))
    sure, who = _strength(found, seen)
    if not found.named and (ago > STALE or asking.asked not in {None, found.trouble.node}):
        # Reads went well since, or the client failed at another daemon: the fault was there, and may have harmed nothing.
        who = who.at_most(Strength.POSSIBLE)
    if found.alike:
        who = who.at_most(Strength.POSSIBLE)
    before = who
    sure, who = _as_sure_as_the_clock(state, active, asking, sure, who)
    if who is not before and state.clock.how != "stated":
        answer = replace(answer, collect=(words.ANOTHER_END, *answer.collect))
    if scene.complete.missing_files:
        sure = sure.at_most(Strength.SUPPORTED)
    if answer.open:
        # A rank that failed before takes its readers with it: the store gives up a batch that nobody fetches any more.
        sure, who = sure.at_most(Strength.POSSIBLE), who.at_most(Strength.POSSIBLE)
    inferred = _borne_out(state, active, asking) is None
    return _answer(scene, answer, state, Weighed(found, active, sure, who, seen, inferred=inferred))


def _by_name(answer: Answer, state: StorageState) -> Answer:
    """The answer with the daemon that the client names by its id called as its logs call it."""
    nodes = answer.culprits.storage_nodes
    known = tuple(n if (d := state.named(n)) is None else d.daemon.shown for n in nodes)
    return answer if known == nodes else replace(answer, culprits=replace(answer.culprits, storage_nodes=known))


def _without_clock(answer: Answer, state: StorageState, asked: str | None) -> Answer:
    """The answer with the target that is known without a common clock: the only one in trouble, or the one others name."""
    alone = lone_trouble(state, asked)
    if alone is not None:
        why = "The client's error names it" if alone.node == asked else "It is the only one in trouble"
        return _unplaced(answer, state, alone, why)
    by = named_target(state) or named_sender(state)
    return answer if by is None or asked not in {None, by[0].node} else _unplaced(answer, state, *by)


def _unplaced(answer: Answer, state: StorageState, alone: Trouble, why: str) -> Answer:
    """The answer with the one target in trouble at `possible`, where nothing joins the clocks of the store and the job."""
    return replace(
        answer,
        summary=f"{answer.summary} {words.what(state, alone)} (the store's own clock). {why}; how that clock lies to the job's is "
        "not known, so that it may be of another time.",
        proof=(*answer.proof, *(m.event for m in alone.moments[:2])),
        culprits=Named(storage_nodes=(alone.shown,), strength=Strength.POSSIBLE),
    )


def _with_killed(scene: Scene, answer: Answer, seen: Symptom) -> Answer:
    """The answer with what the kernel of a storage host says: that it killed a daemon of the store for memory."""
    killed = [e for e in scene.events if of_the_store(e)]
    if seen is not Symptom.READ or answer.category is not Category.STORAGE_IO or not killed:
        return answer
    hosts = sorted({host for e in killed if (host := scene.roster.host(e)) is not None})
    on = f" on {', '.join(hosts[:4])}" if hosts else ""
    return replace(
        answer,
        summary=f"{answer.summary} The kernel killed a daemon of the store (aisnode) for memory{on}.",
        proof=(*answer.proof, *killed[:2]),
        steps=(f"Look at the memory of the storage host{on}, and which target ran there.", *answer.steps),
    )


def without_logs(scene: Scene, answer: Answer) -> Answer:
    """The answer where no daemon's logs were given: it asks for them where a client of the store gave up."""
    if symptom(scene, answer) is not Symptom.READ or not any(e.signature.startswith("aistore.") for e in scene.events):
        return answer
    answer = _with_killed(scene, answer, Symptom.READ)
    rest = tuple(c for c in answer.collect if not c.startswith("ais log get"))
    asked = "the storage daemons' logs around that time: `ais log get cluster ais_logs/`"
    return replace(answer, collect=(asked, *rest), steps=(*words.get_logs(scene), *answer.steps))


def _active(listed: Sequence[Trouble], stop: float) -> list[Trouble]:
    """Troubles that were there when the job stood still, cut off at that moment."""
    batches = [b for t in listed if t.kind is Kind.BATCH and (b := _within(t, stop - BATCH_BEFORE, stop + BATCH_AFTER))]
    # A batch that failed fixes the moment better than the job, which may stand still only minutes later.
    moment = min((b.first.at for b in batches), default=stop)
    kept = list(batches)
    for trouble in listed:
        if trouble.kind is Kind.ECHO:
            near = _within(trouble, moment - BATCH_BEFORE, stop + BATCH_AFTER)
            if near is not None:
                kept.append(near)
        elif trouble.kind in {Kind.FAULT, Kind.LOAD}:
            before = trouble.until(moment + 1.0 if batches else stop + BATCH_AFTER)
            if before is not None and _lasts(before, moment):
                kept.append(before)
    return sorted(kept, key=lambda t: (t.first.at, t.signature, t.node))


def _within(trouble: Trouble, low: float, high: float) -> Trouble | None:
    kept = tuple(m for m in trouble.moments if low <= m.at <= high)
    return trouble._replace(moments=kept) if kept else None


def _lasts(trouble: Trouble, moment: float) -> bool:
    """Whether a trouble was still there, or had come about so shortly before, that it can be the reason."""
    ago = moment - trouble.last.at
    if trouble.kind is Kind.LOAD:
        return ago <= LOAD_BEFORE or (ago <= LOAD_REPORT and still(trouble, moment))
    return ago <= (FAULT_BEFORE if trouble.signature in ONCE else LASTING)


def _enough(found: Origin, seen: Symptom, ago: float) -> bool:
    """Whether the store's lines suffice where the job itself shows no read that failed.

    Args:
        found: the origin.
        seen: what the job shows.
        ago: seconds from the origin's last line of trouble to the moment at which the job stood still.
    """
    if seen is Symptom.CONTENT:
        return ago <= FRESH and (found.batch is not None or found.failed)
    if seen is Symptom.READING:
        return found.batch is not None or (found.failed and ago <= STALE)
    return found.batch is not None and found.named


def _strength(found: Origin, seen: Symptom) -> tuple[Strength, Strength]:
    """How sure the category is, and how sure the daemon."""
    if seen in {Symptom.WAIT, Symptom.CONTENT}:
        return Strength.POSSIBLE, Strength.POSSIBLE
    here = found.trouble.daemon is not None
    told = found.trouble.kind is not Kind.BATCH or abort_origin(found.trouble) != found.trouble.node
    if found.trouble.signature == "aistore.membership":
        return (
            Strength.SUPPORTED,
            Strength.POSSIBLE,
        )  # whoever let it join at that hour did it; the member is not at fault
    if found.trouble.signature == NOT_DELIVERED:
        # A link between two targets has two ends: it takes several receivers to tell which is at fault.
        return Strength.SUPPORTED, Strength.SUPPORTED if here and len(found.by) > 1 else Strength.POSSIBLE
    if found.batch is not None and found.named:
        who = Strength.SUPPORTED if here and (found.alone or found.trouble is not found.batch) else Strength.POSSIBLE
        # What one daemon says of one batch is a complaint; its own trouble before it, or the word of others, makes it proof.
        # Where only others tell of an abort, its own log is cut, or says nothing of it.
        proved = told and (found.trouble.kind is not Kind.BATCH or bool(found.by - {found.trouble.node}))
        if not told and len(found.by) < SEVERAL:
            who = Strength.POSSIBLE
        return (Strength.ESTABLISHED if seen is Symptom.READ and here and proved else Strength.SUPPORTED), who
    if found.named or (found.trouble.kind is Kind.FAULT and found.alone):
        return Strength.SUPPORTED, Strength.SUPPORTED if here else Strength.POSSIBLE
    return Strength.SUPPORTED, Strength.POSSIBLE


def _as_sure_as_the_clock(
    state: StorageState, active: Sequence[Trouble], of: Request, sure: Strength, who: Strength
) -> tuple[Strength, Strength]:
    """Both strengths, no higher than the join of the clocks allows on which the order of lines rests.

    The end of any job stops counters and breaks its batches: both are one event, and that it comes a whole quarter of an
    hour apart from this job's end is common, since time limits are whole hours. Only a line that is of this job by more
    than its time bears a join out: of its batch, of the object that it failed to read, or of the daemon that it asked.
    """
    borne = _borne_out(state, active, of)
    if borne is Borne.STATED or (borne is Borne.BATCH and state.clock.how == "counters"):
        return sure, who
    return sure.at_most(Strength.SUPPORTED), who if borne else who.at_most(Strength.POSSIBLE)


def _borne_out(state: StorageState, active: Sequence[Trouble], of: Request) -> Borne | None:
    """What makes the clock of the store sure on which the order of lines rests; None where it is inferred, or in doubt."""
    if (state.clock.how == "stated" and not state.clock.why) or state.stop is None:
        return Borne.STATED
    stop = state.stop
    near = [(t, m) for t in active if t.kind is not Kind.LOAD for m in t.moments if abs(m.at - stop) <= AT_ONCE]
    if any(of_the_batch(of, m) for _, m in near):
        return Borne.BATCH
    if any(of_the_object(of, m) for _, m in near):
        return Borne.OBJECT
    asked = of.asked is not None and any(
        of.asked in {t.node, None if t.daemon is None else name_of(t.daemon)} for t, _ in near
    )
    return Borne.DAEMON if asked else None


def _answer(scene: Scene, answer: Answer, state: StorageState, weighed: Weighed) -> Answer:
    found, active, strength, who, seen, inferred = weighed
    root = found.trouble
    victims = answer.first_failed if answer.first_failed.ranks else answer.culprits
    trigger = root.first.event if root.daemon is not None or answer.trigger is None else answer.trigger
    batch = () if found.batch is None else (found.batch.first.event,)
    spec = scene.case.library.by_id.get(root.signature)
    summary = words.summary(scene, answer, state, found, seen)
    if found.alike:
        summary = f"{summary} {words.carried_alike(state, found)}"
    return replace(
        answer,
        question="storage_chain",
        category=Category.STORAGE_IO,
        strength=strength,
        summary=f"{summary} {words.DOUBTED if state.clock.why else words.INFERRED}" if inferred else summary,
        trigger=trigger,
        proof=(root.first.event, *batch, *answer.proof),
        culprits=Named(storage_nodes=(root.shown,), strength=who),
        first_failed=replace(victims, strength=victims.strength.at_most(Strength.SUPPORTED))
        if victims.ranks
        else Named(),
        classes=replace(
            answer.classes,
            domain=Domain.HARDWARE if root.signature == "aistore.disk_fault" else Domain.DATA,
            layer=Layer.STORAGE,
            scope=Scope.EXTERNAL,
        ),
        action=ActionKind.COLLECT_MORE if who is Strength.POSSIBLE else ActionKind.FIX_AND_RERUN,
        exclude_hosts=(),
        steps=words.steps(found, () if spec is None else tuple(spec.advice), answer),
        collect=(*words.missing_daemons(state, found), *answer.collect),
        upstream=words.links(state, found, active),
        rivals=tuple(r for r in answer.rivals if r.category is not Category.STORAGE_IO),
    )


def _nothing(answer: Answer, state: StorageState, seen: Symptom, active: Sequence[Trouble], *, no_way: bool) -> Answer:
    """The job shows a failed read and the daemons that were given show no reason, or none that one of them has alone."""
    batches = [t for t in active if t.kind is Kind.BATCH]
    if seen is not Symptom.READ:
        # Failed batches fit a standstill, whoever is at fault for them.
        return replace(answer, rivals=(*answer.rivals, words.rival(state, batches[0]))) if batches else answer
    told = next((kind for k in (Kind.BATCH, Kind.FAULT, Kind.LOAD) if (kind := [t for t in active if t.kind is k])), [])
    if told:
        answer = replace(
            answer,
            summary=f"{answer.summary} {words.nobody(state, told)}",
            proof=(*answer.proof, *(t.first.event for t in told[:2])),
        )
    if no_way:
        return replace(answer, collect=(words.NO_WAY, *answer.collect))
    moved = _failures(state)
    asked = words.silent_store(state, moved) if not told or batches else ()
    return replace(answer, collect=(*asked, *answer.collect))


def _failures(state: StorageState) -> dict[str, int]:
    """Daemons whose counters of failures rose when the job stood still."""
    assert state.stop is not None
    found = {}
    for daemon in state.daemons:
        rose = sum(c.delta for c in changes(daemon, state.stop - 600, state.stop + 300) if c.name in ERRORS)
        if rose:
            found[daemon.daemon.shown] = rose
    return found
