"""Who is to blame for a root, and who failed first: names the origin only, never a victim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.wording import ranks_text
from firstfault.model.words import Blame, Category, Domain, Mark, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.completeness import Completeness
    from firstfault.analysis.state.ranks import Roster
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import GlobalRank

MOST = 0.6
"""Share of the known ranks from which on a fault is one that all ranks run alike, where not every line carries a rank.

More than half and a bit, so that a fault of one of two nodes is not taken for it; and not all, since those that were about to meet
it are often ended by the others before they can say so. Lines without a rank count: one that is known among seven that
are not is no origin.
"""
FEW = 16
"""One rank in so many may fail together with others by a fault of its own: see `_few`."""


def all_alike(suspect: Suspect, complete: Completeness) -> bool:
    """Whether a fault hit so many ranks that it is no rank's own."""
    hit = len(suspect.everyone) + suspect.unplaced
    known = complete.expected or max(complete.at_least, len(complete.seen))
    if hit <= 1:
        return False
    return hit >= MOST * max(known, 1)


def _few(complete: Completeness) -> int:
    """Ranks up to which a common fault is still each rank's own: one, or one in sixteen of a large job.

    The contract names a rank for a fault in its own data, process or GPU, and nobody for a setting or code that all run
    alike. Two ranks that meet the same error in one blow hardly do so for two reasons: they share one, and then the
    origin is what they share. Four of eight ranks out of memory met the limit that the batch size sets and the other
    four were about to meet. In a large job few ranks may share what is theirs alone, such as the sample that the ranks of
    one model-parallel group read. Who is not named here still stands in `first_failed`.
    """
    return max(1, (complete.expected or complete.at_least) // FEW)


def culprits(case: Case, roster: Roster, suspect: Suspect, complete: Completeness) -> Named:
    """The origin of a root: ranks, hosts or storage targets, by the blame of its nature."""
    nature = suspect.nature
    strength = nature.strength
    match nature.blame:
        case Blame.RANK:
            if not suspect.ranks or all_alike(suspect, complete) or len(suspect.ranks) > _few(complete):
                return Named()
            if (
                case.marked_spawn
                and not _started(case, suspect)
                and nature.category in {Category.DATA, Category.STORAGE_IO}
            ):
                # `spawn` reports the first process that fails and ends the rest: at the start all may read the same file.
                return Named()
            hosts = {h for h in (roster.host_of_rank(r) for r in suspect.ranks) if h is not None}
            if not hosts and len(suspect.ranks) == 1 and len(suspect.hosts) == 1 and _of_one_place(roster, suspect):
                hosts = set(suspect.hosts)
            if nature.category is Category.SOFTWARE:
                # The process that crashed is known; that the code is not the same on all ranks is not.
                strength = strength.at_most(Strength.POSSIBLE)
            return Named(ranks=suspect.ranks, hosts=tuple(sorted(hosts)), strength=strength)
        case Blame.HOST:
            return _host_blame(case, roster, suspect, strength, alike=all_alike(suspect, complete))
        case Blame.STORE:
            nodes = {v for e in suspect.events for k in ("target", "storage_node") if (v := e.fields.get(k))}
            return Named(storage_nodes=tuple(sorted(nodes)), strength=strength if nodes else Strength.UNKNOWN)
        case Blame.NOBODY:
            return Named()


def _of_one_place(roster: Roster, suspect: Suspect) -> bool:
    """Whether every line of a fault carries a rank, or else the name of its machine."""
    return suspect.unplaced == 0 or all(
        roster.rank(e) is not None or roster.host(e) is not None for e in suspect.events
    )


def _started(case: Case, suspect: Suspect) -> bool:
    """Whether a step was made before a fault: in its own file before its line, in any other file at all."""
    span = suspect.first.span
    return any(s != span.source or t.before(span.offset) is not None for s, t in case.tracks.items())


def _host_blame(case: Case, roster: Roster, suspect: Suspect, strength: Strength, *, alike: bool) -> Named:
    """The machine, and its rank too where the fault is of a single rank there (its GPU, its killed process)."""
    hosts = set(suspect.hosts)
    peers = {e.fields["peer_host"] for e in suspect.events if e.fields.get("peer_host") and case.has(e, Mark.PEER_LOST)}
    if peers:
        # A line about a lost peer is printed by the victim.
        hosts = peers
    ranks: tuple[GlobalRank, ...] = ()
    own = nature_is_of_one_process(suspect)
    if own and not peers and not alike and 0 < len(suspect.ranks) <= 2:
        ranks = suspect.ranks
    hosts |= {h for h in (roster.host_of_rank(r) for r in ranks) if h is not None}
    if _shared_store(roster, suspect, hosts, alike=alike) or not (hosts or ranks):
        return Named()
    # A machine that no line names takes nothing from its rank.
    return Named(ranks=ranks, hosts=tuple(sorted(hosts)), strength=strength)


def _shared_store(roster: Roster, suspect: Suspect, hosts: set[str], *, alike: bool) -> bool:
    """Whether a file system fails on most machines of the job: then it is what they share, and no machine's own fault."""
    if suspect.nature.category is not Category.STORAGE_IO:
        return False
    if any(e.fields.get("volume") for e in suspect.events):
        return True  # a disk of the shared volume itself, of which a client of it only tells
    if alike and not roster.single_node:
        return True  # all ranks met it, whichever machine's kernel log happens to be here
    if len(hosts) < 2:
        return False
    known = {*roster.host_of.values(), *hosts}
    return len(hosts) >= MOST * len(known)


def nature_is_of_one_process(suspect: Suspect) -> bool:
    """Whether a machine's fault strikes one process (its GPU, or a kill for memory), and not all: a service, a setting of the node."""
    nature = suspect.nature
    if nature.scope is Scope.NODE and nature.domain is Domain.CONFIG:
        return False
    return nature.category is Category.GPU_CUDA or nature.domain is Domain.MEMORY


def first_failed(
    roster: Roster, suspect: Suspect, others: tuple[Suspect, ...], own: tuple[GlobalRank, ...] = ()
) -> Named:
    """The ranks that failed first by an error of their own.

    Args:
        roster: who is who.
        suspect: the root.
        own: the ranks that were named as culprits.
        others: fatal suspects explained by the root, whose ranks are the first victims where the root names no rank.
    """
    if suspect.ordered:
        # A scheduler's order strikes everybody; nobody failed.
        return Named()
    ranks = suspect.ranks or own
    if not ranks and suspect.nature.scope is Scope.NODE and roster.case.has(suspect.first, Mark.PEER_LOST):
        # A machine that is gone takes all its ranks with it.
        ranks = roster.ranks_on(suspect.hosts)
    if not ranks and (suspect.unplaced == 0 or suspect.nature.blame is not Blame.RANK):
        for other in others:
            if other.nature.fatal and other.ranks:
                ranks = other.ranks
                break
    hosts = {h for h in (roster.host_of_rank(r) for r in ranks) if h is not None}
    return Named(
        ranks=ranks, hosts=tuple(sorted(hosts)), strength=suspect.nature.strength if ranks else Strength.UNKNOWN
    )


def with_whereabouts(scene: Scene, answer: Answer) -> Answer:
    """An answer that says what would tell on which machine its ranks ran, where no mapping states it."""
    lost = [r for r in answer.culprits.ranks if scene.roster.home(r) is None]
    if not answer.failed or not lost or scene.roster.single_node:
        return answer
    wanted = (
        f"on which host {ranks_text(lost)} ran: no line maps it; one log a machine, NCCL_DEBUG=INFO (its init lines name "
        "host and rank) or the launcher's log of each machine tells it"
    )
    return replace(answer, collect=(*answer.collect, wanted))


def with_victims(scene: Scene, answer: Answer) -> Answer:
    """An answer about a machine's fault, with those of its processes that a launcher reports to have failed by themselves.

    A process that was ended by a signal may have been told to; one that ends with a code met the fault.
    """
    if not answer.failed or answer.question != "first_fault" or answer.first_failed.ranks or not answer.culprits.hosts:
        return answer
    found: set[GlobalRank] = set()
    for failure in scene.failures:
        rank = scene.roster.rank_of(failure.who, failure.span.source, {})
        code = failure.exit_code
        if (
            rank is not None
            and code is not None
            and 0 < code < 128
            and scene.roster.host_of_rank(rank) in answer.culprits.hosts
        ):
            found.add(rank)
    if not found or len(found) > FEW:
        return answer
    named = Named(ranks=tuple(sorted(found)), hosts=answer.culprits.hosts, strength=Strength.POSSIBLE)
    return replace(answer, first_failed=named)
