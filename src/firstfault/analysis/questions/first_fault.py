"""What was the first fault, where lines of a known meaning name it? Chooses among suspects and says who and how sure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.beside_waits import Opening, at_no_known_time
from firstfault.analysis.cards import rank_of_card
from firstfault.analysis.causes import Choice, choose, precedes
from firstfault.analysis.classes import classes, phase_of_exception
from firstfault.analysis.clocks import reading
from firstfault.analysis.culprits import all_alike, culprits, first_failed, nature_is_of_one_process
from firstfault.analysis.devices import from_outside
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.job_map import proves
from firstfault.analysis.joins import left_out, of_one_node, only_absent
from firstfault.analysis.listed import with_listed
from firstfault.analysis.machine import of_one_machine, of_the_job
from firstfault.analysis.order import exact, first, sort_key
from firstfault.analysis.outages import of_reading
from firstfault.analysis.outcome import uncaught
from firstfault.analysis.own_files import keeper_of
from firstfault.analysis.owners import attributed, by_effect
from firstfault.analysis.peers_gone import PEER_GONE, peers_gone
from firstfault.analysis.questions.memory import explained
from firstfault.analysis.quiet import standstill_text
from firstfault.analysis.reloaded import RELOADED, reloaded
from firstfault.analysis.state.memory import LIBRARY
from firstfault.analysis.stopped import OUTLIVED, UPON_STOP, outlived, upon_stop
from firstfault.analysis.sureness import by_clocks, by_exits, by_itself, doubts, strength_of
from firstfault.analysis.survived import SURVIVED, survived
from firstfault.analysis.suspects import INNERMOST, lived_on, mentioned, stranger
from firstfault.analysis.ties import beside_text, only_beside, without_untied
from firstfault.analysis.wording import beginning, sentence, what_text, who_text
from firstfault.model.findings import Rival
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Blame, Category, Domain, Mark, Phase, SourceKind, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, GlobalRank

DEEP = 70
"""Depth from which on a line that is not fatal by itself may still be the root: it speaks of hardware, kernel or host."""

OF_PATHS = frozenset(
    {
        "FileNotFoundError",
        "FileExistsError",
        "PermissionError",
        "IsADirectoryError",
        "NotADirectoryError",
        "OSError",
        "IOError",
    }
)
"""Exceptions about paths: in the data path too they are as often a setting or a store as the data."""
PLACED = frozenset({Blame.RANK, Blame.HOST})
"""Whom a fault can be laid to that has its place on one machine."""
LAST_LINES = 5
"""Lines between the last word of a program and the report of its end, at most: wrappers print a few of their own."""
_BELOW_ERROR = lazy(r"(?:^|[\s\[|(:-])(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b|(?i:^\W{0,3}warning)")
STEPS_PER_SIGN = 1.5
"""Steps for each line that shows the fault coming, up to which the run of such lines is unbroken."""


def ask(scene: Scene) -> Answer | None:
    """The answer where a suspect remains; else None."""
    own = [s for s in scene.suspects if not _elsewhere(scene, s)] or scene.suspects
    pool = [*own, *(w for w in scene.weak if _eligible(scene, w))]
    pool, loose = without_untied(scene, pool)
    placed = [of_one_node(scene, of_one_machine(scene, _placed(scene, s))) for s in pool]
    placed, past = survived(scene, placed)
    orders = outlived(scene, placed)
    placed = [s for s in placed if s not in orders]
    late = upon_stop(scene, placed)
    gone, before = peers_gone(scene, placed), reloaded(scene, placed)
    left = [s for s in placed if s not in late and s not in gone and s not in before]
    choice = choose(scene.case, left, scene.hang, _opening(scene, placed))
    if choice is None:
        return None
    if choice.late and _elsewhere_than_absent(scene, choice.root):
        return None
    set_aside = (
        *((s, UPON_STOP) for s in late),
        *((s, PEER_GONE) for s in gone),
        *((s, RELOADED) for s in before),
        *((s, SURVIVED) for s in past),
        *((s, OUTLIVED) for s in orders),
        *loose,
    )
    choice = replace(choice, explained=(*choice.explained, *set_aside))
    if mentioned(scene.case, choice.root.first) and not _failed(scene):
        # A settings dump or a hint holds such words too; without any sign of a failure they are only words.
        return None
    return answer(scene, choice)


def _elsewhere_than_absent(scene: Scene, root: Suspect) -> bool:
    """Whether one rank alone never came, and a machine's line that only another zone brings to the wait is not of its place."""
    absent = only_absent(scene)
    if absent is None:
        return False
    host = scene.roster.host_of.get(absent)
    return absent not in root.everyone and (host is None or short_host(host) not in {short_host(h) for h in root.hosts})


def _opening(scene: Scene, suspects: Sequence[Suspect]) -> Opening | None:
    """By which clocks the first lines of the wait are stamped: of the first of all, and on the machines of suspects."""
    if scene.hang is None:
        return None
    clock = reading(scene.roster, scene.hang.first)
    wanted = {m for s in suspects if (m := s.clock.machine) is not None} - {clock.machine}
    there: dict[str, Event] = {}
    for event in scene.hang.events if wanted else ():
        host = scene.roster.host(event)
        if host is not None and short_host(host) in wanted and exact(event.when):
            known = there.setdefault(short_host(host), event)
            if first(event, known) is True:
                there[short_host(host)] = event
    return Opening(clock=clock, there=there)


def _failed(scene: Scene) -> bool:
    """Whether anything but the suspects' own lines says that the job failed."""
    return bool(
        scene.exits
        or scene.hang
        or scene.effects
        or scene.teardown
        or any(e.exception for s in scene.suspects for e in s.events)
    )


def _elsewhere(scene: Scene, suspect: Suspect) -> bool:
    """Whether a machine's fault is on a host on which nothing else of this failure happened."""
    if suspect.nature.blame is not Blame.HOST or not suspect.hosts or suspect.first.exception is not None:
        return False
    others = [s for s in scene.suspects if s.first.exception is not None and not s.first.exception.ignored]
    return bool(others) and all(s.hosts and not set(s.hosts) & set(suspect.hosts) for s in others)


def _eligible(scene: Scene, weak: Suspect) -> bool:
    """Whether a suspect that is not fatal by itself may stand beside the fatal ones.

    It must be deep, and either explain one of them by a stated relation, or have nobody fatal beside it.
    """
    if _elsewhere(scene, weak):
        return False
    explained = any(scene.case.library.explains(weak.nature.key.split("#")[0], s.nature.key) for s in scene.suspects)
    if explained:
        return True
    if stranger(weak.first) and (scene.suspects or scene.case.has(weak.first, Mark.OWN_LIMIT)):
        return False  # another program was killed for memory: that is no reason for an error of another kind; in its own group it takes no memory from the job
    if (
        scene.case.has(weak.first, Mark.OUTAGE)
        and scene.suspects
        and not any(of_reading(s.first) for s in scene.suspects)
    ):
        return False  # who waits for a file system gets no error of another kind for it
    if not scene.suspects:
        return _alone(scene, weak)
    return weak.nature.depth >= DEEP and any(
        first(weak.first, s.first) is not False and weak.nature.depth > s.nature.depth + 10 for s in scene.suspects
    )


def _alone(scene: Scene, weak: Suspect) -> bool:
    """Whether a suspect that is not fatal by itself is the answer where nobody fatal is beside it.

    A traceback that nobody caught, or a program's last word, in a job that failed: either may be harmless elsewhere, here
    nothing else is left.
    """
    failed = scene.outcome.ended == "failed" or (lived_on(weak.first) and any(map(uncaught, scene.effects)))
    if failed and (weak.first.exception is not None or _last_word(scene, weak)):
        return True
    return weak.nature.depth >= DEEP


def _last_word(scene: Scene, weak: Suspect) -> bool:
    """Whether a plain line is the last thing a program said before its end was reported: tools print an error's text so.

    Not one of a logger at a level below an error, whose program goes on.
    """
    said = weak.events[-1]
    if said.exception is not None or _BELOW_ERROR.search(said.text[:120]) is not None:
        return False
    ends = [d for d in scene.deaths if d.span.source == said.span.source and d.span.offset > said.span.offset]
    return bool(ends) and min(d.span.line for d in ends) - said.span.line <= LAST_LINES


def _placed(scene: Scene, suspect: Suspect) -> Suspect:
    """A plain exception judged with its place: in the data path of few ranks after progress, it is the data's."""
    exception = suspect.first.exception
    if exception is None or suspect.nature.strength is not Strength.POSSIBLE:
        return suspect
    if (
        suspect.nature.category not in {Category.SOFTWARE, Category.DATA}
        or exception.kind.rsplit(".", 1)[-1] in OF_PATHS
    ):
        return suspect
    in_data = exception.in_worker or phase_of_exception(exception) is Phase.DATA
    if not in_data or not scene.case.tracks or all_alike(suspect, scene.complete) or keeper_of(exception) is not None:
        return suspect
    nature = replace(
        suspect.nature,
        category=Category.DATA,
        domain=Domain.DATA,
        blame=Blame.RANK,
        strength=Strength.SUPPORTED if exception.in_worker else Strength.POSSIBLE,
        advice=(
            "Find the sample that was being read (the message or the frame above names it) and read it alone.",
            *suspect.nature.advice,
        ),
    )
    return replace(suspect, nature=nature)


def answer(scene: Scene, choice: Choice) -> Answer:
    """The answer for a chosen root."""
    card = None if choice.root.ranks else rank_of_card(scene, choice.root)
    root = left_out(scene, by_effect(scene, choice) or attributed(scene, choice.root))
    if card is not None:
        root = replace(choice.root, ranks=(card[0],), hosts=(card[1],), unplaced=0)
    nature = root.nature
    category = nature.category or Category.UNKNOWN
    own = Strength.POSSIBLE if _of_no_rank(scene, root) else proves(scene, choice.root)
    # What the job's own map speaks against makes no claim surer, whichever of its lines is the root.
    spare = [
        w
        for w in scene.weak
        if not scene.case.has(w.first, Mark.OWN_LIMIT)
        and _alone(scene, w)
        and proves(scene, w).level > Strength.POSSIBLE.level
    ]
    speaking = tuple(
        (s, why)
        for s, why in choice.explained
        if not _of_no_rank(scene, s) and proves(scene, s).level > Strength.POSSIBLE.level
    )
    weighed = replace(choice, explained=speaking)
    strength = strength_of(scene.case, weighed, fatal=nature.fatal, own=own, beside=spare)
    if scene.complete.missing_files and strength is Strength.ESTABLISHED:
        # A log that is not there may hold an earlier fault.
        strength = Strength.SUPPORTED
    if from_outside(root) and not root.ordered and root.nature.blame in PLACED and not (root.hosts or root.everyone):
        # Of which machine that is, no line says: it may be another's, or have come later.
        strength = strength.at_most(Strength.SUPPORTED)
    timeless = _at_no_known_time(scene, choice)
    if timeless:
        strength = strength.at_most(Strength.SUPPORTED)
    still = scene.case.stood_still(root.first) if root.ordered else None
    if still is not None:
        # It ended a job that had stopped by itself, for a reason that no line names.
        strength = strength.at_most(Strength.POSSIBLE)
    named = culprits(scene.case, scene.roster, _with_alike(scene, choice, root), scene.complete)
    memory = explained(scene, root)
    if choice.contested or memory.shared:
        # Of several faults that nothing orders, it is not known whose was the first; a device that the processes of the job
        # fill together is no rank's own.
        named = Named()
    elif choice.rivals or choice.late or timeless or own is not Strength.ESTABLISHED or by_exits(choice):
        # The category may be surer than the root, by other lines; who it was is no surer than the root.
        alone = by_itself(scene.case, root).at_most(by_clocks(choice, choice.root))
        named = replace(named, strength=named.strength.at_most(strength).at_most(alone).at_most(own))
    if root is not choice.root and (named.ranks or set(named.hosts) != set(choice.root.hosts)):
        # Who it was follows from the launcher's list or the card's address, not from the lines themselves.
        named = replace(named, strength=named.strength.at_most(Strength.SUPPORTED))
    if not named.ranks and nature.blame is Blame.HOST and nature_is_of_one_process(root):
        if named.hosts:
            named = _with_struck(scene, choice, named)
        elif not root.hosts and not choice.contested:
            named = _of_unnamed_machine(scene, choice, strength)
    if category is Category.UNKNOWN:
        strength = Strength.UNKNOWN
    absent = only_absent(scene) if only_beside(scene, root) else None
    if absent is not None:
        # The machine may be anybody's; that rank is the one for which all others wait, whatever kept it.
        strength = strength.at_most(Strength.POSSIBLE)
        named = Named(ranks=(absent,), strength=Strength.POSSIBLE)
    victims = tuple(s for s, _ in choice.explained)
    struck = first_failed(scene.roster, root, victims, named.ranks)
    failed_first = Named() if choice.contested else with_listed(scene, root, struck)
    kind, exclude, steps = _action(scene, root, named)
    trigger = trigger_of(scene, root)
    before = _or_else(scene.case, choice)
    return Answer(
        # An order that came to a job standing still says no more than that it was stopped: other witnesses may say why it stood.
        question="first_fault" if still is None else "stopped",
        failed=True,
        category=category,
        strength=strength,
        summary=" ".join(
            (
                (sentence(root, named, failed_first, scene) if absent is None else beside_text(scene, root, absent))
                + before
                + standstill_text(still),
                *memory.sentences,
            )
        ),
        trigger=trigger,
        fault=root.first,
        proof=(
            *(trigger, root.first),
            *(() if card is None else (card[2],)),
            *(s.first for s, _ in choice.explained[:2]),
        ),
        culprits=named,
        first_failed=failed_first,
        classes=classes(scene.case, root, named, scene.complete, scene.hang),
        action=kind,
        exclude_hosts=exclude,
        steps=(*memory.steps, *(_placed_step(step, root.first) for step in steps)),
        collect=() if memory.settled else nature.collect,
        rivals=tuple(_rival(r, root) for r in choice.rivals),
        open=bool(before),
        why=choice.why,
        follows=tuple((s.first, reason) for s, reason in choice.explained),
    )


def _at_no_known_time(scene: Scene, choice: Choice) -> bool:
    """Whether a kernel's line may as well have come behind the wait, and no process met what it is known to bring about.

    Records of the scheduler and of pods are of this one run; a kernel log is of the machine.
    """
    root = choice.root
    if scene.case.kind_of.get(root.first.span.source) is not SourceKind.KERNEL:
        return False
    if any(scene.case.library.explains(root.first.signature, s.first.signature) for s, _ in choice.explained):
        return False
    return at_no_known_time(root, scene.hang, _opening(scene, (root,)) or Opening())


def _of_no_rank(scene: Scene, suspect: Suspect) -> bool:
    """Whether a fault is of a machine on which no rank is known to have run, where it is known of others."""
    job = scene.roster.machines
    if suspect.nature.blame is not Blame.HOST or not job or not suspect.hosts:
        return False
    return not job & {short_host(h) for h in suspect.hosts}


def _placed_step(step: str, event: Event) -> str:
    """A step, with the frame that it sends the reader to where the traceback shows it."""
    if step != INNERMOST or event.exception is None:
        return step
    own = next((f for f in reversed(event.exception.frames) if LIBRARY.search(f.file) is None), None)
    if own is None:
        return step
    return f"Read {own.file}:{own.line} ({own.function}): the innermost frame of your own code above this line."


def trigger_of(scene: Scene, root: Suspect) -> Event:
    """The earliest line that is true evidence of a root: its own, or the first of the lines that led up to it.

    Lines that lead up to it count only as an unbroken run: about one for every step between them and the root.
    """
    spec = scene.case.spec(root.first)
    if spec is None:
        return root.first
    if not spec.precursors:
        known = [
            s.first for s in scene.suspects if scene.case.library.explains(root.first.signature, s.first.signature)
        ]
        earlier = [
            e
            for e in known
            if e.span.source == root.first.span.source
            and first(e, root.first) is True
            and (e.exception is None or e.exception != root.first.exception)
        ]
        return min(earlier, key=sort_key, default=root.first)
    before = [e for e in scene.events if e.signature in spec.precursors and first(e, root.first) is True]
    signs = sorted(before, key=sort_key)
    breaks = [
        n for n, (e, then) in enumerate(itertools.pairwise((*signs, root.first)), 1) if _stepped_between(scene, e, then)
    ]
    # Those before a break are earlier ones, after which the training went on as it should.
    for event in signs[breaks[-1] if breaks else 0 :]:
        track = scene.case.tracks.get(event.span.source)
        if track is None:
            return event
        start, end = track.before(event.span.offset), track.before(root.first.span.offset)
        steps = 0
        if start is not None and end is not None and start.step is not None and end.step is not None:
            steps = end.step - start.step
        left = event.count - event.ordinal if event.ordinal >= 0 else -event.ordinal
        if steps <= STEPS_PER_SIGN * left + 2:
            return event
    return root.first


def _stepped_between(scene: Scene, sign: Event, then: Event) -> bool:
    """Whether more steps lie between two lines that lead up to a fault than one sign a step allows, with no such line between."""
    if sign.span.source != then.span.source or (sign.ordinal >= 0 > then.ordinal):
        return False
    track = scene.case.tracks.get(sign.span.source)
    samples = () if track is None else track.samples
    steps = [s.step for s in samples if s.step is not None and sign.span.offset < s.offset < then.span.offset]
    return len(steps) > 1 and max(steps) - min(steps) > STEPS_PER_SIGN + 2


def _with_alike(scene: Scene, choice: Choice, root: Suspect) -> Suspect:
    """The root with the ranks whose own runtime says what it explains: no process gets that word from another one.

    A kernel's assertion is printed by the device, often on one rank only; each process in which it failed raises for it.
    """
    ranks = {
        rank
        for s, _ in choice.explained
        if s.nature.blame is Blame.RANK
        and s.nature.category is root.nature.category is Category.DATA
        and scene.case.has(s.first, Mark.RUNTIME_WORD)
        for rank in s.everyone
    }
    return replace(root, ranks=tuple(sorted({*root.ranks, *ranks}))) if root.ranks and ranks else root


def _with_struck(scene: Scene, choice: Choice, named: Named) -> Named:
    """A machine at fault with the rank that its fault struck; less sure where no line says that the rank ran there."""
    ranks = _struck(scene, choice, named.hosts)
    mapped = all(scene.roster.home(r) is not None for r in ranks)
    return replace(
        named, ranks=ranks, strength=named.strength if mapped else named.strength.at_most(Strength.SUPPORTED)
    )


def _of_unnamed_machine(scene: Scene, choice: Choice, strength: Strength) -> Named:
    """The one rank that a fault of a GPU struck, where its kernel log does not say of which machine it is."""
    ranks = _struck(scene, choice, ())
    hosts = tuple(h for h in (scene.roster.host_of_rank(r) for r in ranks) if h is not None)
    return Named(ranks=ranks, hosts=hosts, strength=strength.at_most(Strength.SUPPORTED)) if ranks else Named()


def _struck(scene: Scene, choice: Choice, hosts: tuple[str, ...]) -> tuple[GlobalRank, ...]:
    """The one rank that a fault of a machine's GPU struck, by the error that the fault is known to bring about."""
    ranks: set[GlobalRank] = set()
    for suspect, _ in choice.explained:
        if scene.case.library.explains(choice.root.first.signature, suspect.first.signature):
            ranks |= {r for r in suspect.ranks if not hosts or scene.roster.host_of_rank(r) in {None, *hosts}}
    return tuple(ranks) if len(ranks) == 1 else ()


def _action(scene: Scene, root: Suspect, named: Named) -> tuple[ActionKind, tuple[str, ...], tuple[str, ...]]:
    nature = root.nature
    kind = nature.action
    exclude: tuple[str, ...] = ()
    machine = nature.blame is Blame.HOST or nature.domain is Domain.HARDWARE
    if kind is ActionKind.RESTART_WITHOUT or (machine and kind is ActionKind.RESTART):
        exclude = of_the_job(scene, named.hosts)
        kind = ActionKind.RESTART_WITHOUT if exclude else ActionKind.COLLECT_MORE
    return kind, exclude, nature.advice


def _or_else(case: Case, choice: Choice) -> str:
    """A sentence on the fault that may as well have been the first; empty where none may."""
    rivals = [r for r in doubts(case, choice) if r.nature.fatal and precedes(choice.root, r) is None]
    if not rivals:
        return ""
    other = rivals[0]
    return f" {what_text(other)}{who_text(other.ranks, other.hosts)} may have come before it: nothing orders the two."


def _rival(suspect: Suspect, root: Suspect) -> Rival:
    return Rival(
        category=suspect.nature.category or Category.UNKNOWN,
        strength=suspect.nature.strength.at_most(Strength.POSSIBLE),
        supports=(
            f"{suspect.nature.title}{who_text(suspect.ranks, suspect.hosts)}: {beginning(suspect.first.text, 160)}",
        ),
        against=(
            f"nothing orders it before {root.nature.title}"
            + (", and it is not nearer to the root" if suspect.nature.depth < root.nature.depth else ""),
        ),
        settled_by=suspect.nature.collect or ("time stamps on both lines, or both ranks' complete logs",),
    )
