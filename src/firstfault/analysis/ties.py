"""What ties a machine's or a platform's word to the job and to a rank of it: a name, a place, a process or a number that both state.

A machine's log lies beside a job's by somebody's choice, and a list of events is of a whole cluster. Without a tie such a line may
be anybody's: it is given to no rank, and yields to what the job says of itself. Must not choose between faults.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.analysis.causes import of_its_own
from firstfault.analysis.devices import from_outside
from firstfault.analysis.foreign import alike, names_of
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import comparable, exact
from firstfault.analysis.program_names import runs_ranks, serves
from firstfault.analysis.wording import ranks_text, what_text, who_text
from firstfault.analysis.zones import shifted_into
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, GlobalRank

PLATFORMS = ("kubernetes.", "container.")
AFTER_ALL = "it came only after the wait had begun, on what nothing ties to the rank that is waited for"
"""What is said of such a fault."""
UNTIED = "nothing ties it to the job, or it came after the job's end; no machine brings such an error about"
"""What is said of a machine's word that stands back behind a rank's own error."""
LATE = 120.0
"""Seconds after the beginning of a wait from which on what is told is no reason for it: clocks drift, and monitors are slow."""
BEFORE = 900.0
"""Seconds before a wait in which another zone may have to put a line for it to be a reason."""
ENDED = 10.0
"""Seconds behind the scheduler's stamp of the end, on a clock of the same kind, from which on a machine's line tells of later."""
_NAME_ENDS = lazy(r"[._]")
_ORDINAL = lazy(r"(?i)(?:worker|replica|trainer|node|rank|master|leader)s?-?(?:\d+-)*(\d{1,5})$")


def without_untied(scene: Scene, suspects: Sequence[Suspect]) -> tuple[list[Suspect], tuple[tuple[Suspect, str], ...]]:
    """Suspects without the machines' words that stand back, and those with the reason."""
    reasons = {
        id(s): UNTIED if yields(scene, s, scene.suspects) else AFTER_ALL if too_late(scene, s) else None
        for s in suspects
    }
    loose = tuple((s, told) for s in suspects if (told := reasons[id(s)]) is not None)
    return [s for s in suspects if reasons[id(s)] is None], loose


def may_be_of(scene: Scene, event: Event, rank: GlobalRank) -> bool:
    """Whether a line that names no rank may be given to the one that stayed away: a platform's needs a tie to it."""
    return not event.signature.startswith(PLATFORMS) or of_a_rank(scene, event, rank)


def of_a_rank(scene: Scene, event: Event, rank: GlobalRank) -> bool:
    """Whether a platform's line is about the container of a rank: by its node, by the names of the job, or by its pod's number.

    A pod's number is its rank's, or that of the block of ranks which each pod has, where its name says that it runs ranks.
    """
    host, home = scene.roster.host(event), scene.roster.host_of_rank(rank)
    if home is not None:
        names = [n for n in (host, event.fields.get("pod")) if n is not None]
        return not names or short_host(home) in {short_host(n) for n in names}
    pod = event.fields.get("pod")
    if pod is None:
        return event.span.source in scene.case.tracks or runs_ranks(event.fields.get("container", ""))
    place = next((w for w in scene.case.seen.place.values() if w.label == pod and w.rank is not None), None)
    if place is not None:
        return place.rank == rank
    found = _ORDINAL.search(pod)
    return runs_ranks(pod) if found is None else int(found[1]) in _pods_of(scene, rank)


def _pods_of(scene: Scene, rank: GlobalRank) -> frozenset[int]:
    """Numbers that the pod of a rank may have, by how many ranks a machine has where that is stated."""
    each, world = scene.roster.per_node, scene.complete.expected
    sizes = [n for n in (1, 2, 4, 8, 16) if world is None or world % n == 0] if each is None else [each]
    return frozenset(int(rank) // n for n in sizes)


def tied(scene: Scene, suspect: Suspect) -> bool:
    """Whether any line of a machine's or platform's fault names what is the job's, or stands in the job's own log."""
    return any(of_the_job(scene, e) for e in suspect.events)


def of_the_job(scene: Scene, event: Event) -> bool:
    """Whether a machine's or platform's line names what is the job's, or stands in the job's own log."""
    roster, case = scene.roster, scene.case
    own_log = event.span.source in case.tracks or roster.speaks_in(event.span.source)
    if own_log or roster.rank(event) is not None:
        return True
    host, pod = roster.host(event), event.fields.get("pod")
    ours = _machines_of(scene)
    if host is not None and (short_host(host) in ours or _spoken_of(scene, short_host(host))):
        return True
    if pod is not None and (serves(pod) or runs_ranks(pod) or alike(pod, names_of(case, roster, pod) | ours)):
        return True
    pid = event.fields.get("pid", "")
    if pid.isdecimal() and host is None and pod is None:
        return any(e.who.pid == int(pid) for e in case.events if case.kind_of.get(e.span.source) is SourceKind.LOG)
    return False


def _machines_of(scene: Scene) -> set[str]:
    """Short names of the machines of ranks, of those that the job's own logs speak of, and of the nodes of its pods.

    The node of any pod of which a description lies there is none of them.
    """
    roster = scene.roster
    logs = {w.label for s, w in scene.case.seen.place.items() if scene.case.kind_of.get(s) is SourceKind.LOG}
    pods = {} if roster.pods is None else roster.pods.nodes
    nodes = {n for pod, n in pods.items() if pod in logs or pod in roster.host_of.values() or runs_ranks(pod)}
    return {short_host(h) for h in (*roster.host_of.values(), *nodes)} | scene.chart.named | _in_paths(scene)


def _spoken_of(scene: Scene, host: str) -> bool:
    """Whether a line of the job's own logs holds the name of a machine as a word, whatever it says of it."""
    word = re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w-])")
    kinds = scene.case.kind_of
    return any(kinds.get(e.span.source) is SourceKind.LOG and word.search(e.text) for e in scene.case.events)


def _in_paths(scene: Scene) -> set[str]:
    """Names of folders and files of the job's own logs: who gathers logs of several machines keeps them apart by these."""
    kinds, paths = scene.case.kind_of, scene.case.paths
    own = [path for source, path in paths.items() if kinds.get(source) is SourceKind.LOG]
    parts = (part for path in own for part in path.replace("!", "/").split("/"))
    return {name for part in parts for name in (part, *_NAME_ENDS.split(part))}


def yields(scene: Scene, suspect: Suspect, others: Iterable[Suspect]) -> bool:
    """Whether a machine's word stands back behind an error that a rank of the job raised by itself.

    No eviction, kill or lost card elsewhere brings a program's own error about: it does so neither from a pod that nothing ties
    to the job, nor after the scheduler had told of the end.
    """
    if not from_outside(suspect) or suspect.first.exception is not None:
        return False
    if not any(of_its_own(scene.case, o) and o.everyone for o in others if o is not suspect):
        return False
    platform = all(e.signature.startswith(PLATFORMS) for e in suspect.events)
    return (platform and not tied(scene, suspect)) or (not suspect.ordered and _behind_the_end(scene, suspect))


def _behind_the_end(scene: Scene, suspect: Suspect) -> bool:
    """Whether all lines of a machine's fault are stamped behind the scheduler's own stamp of the end."""
    ends = [e.when for e in scene.marked(Mark.STOP_SIGNAL) if e.signature.startswith("slurm.") and exact(e.when)]
    if not ends or scene.hang is not None:
        return False
    return all(
        exact(e.when)
        and all(comparable(e.when, end) and (e.when.earliest or 0.0) - (end.latest or 0.0) > ENDED for end in ends)
        for e in suspect.events
    )


def too_late(scene: Scene, suspect: Suspect) -> bool:
    """Whether a machine's fault, which nothing ties to the job, was told only when others had long waited, in whichever zone."""
    hang, when = scene.hang, suspect.first.when
    if hang is None or hang.began is None or when.earliest is None or not exact(when) or not when.dated:
        return False
    if not _machines(suspect) or tied(scene, suspect):
        return False
    behind = when.earliest - hang.began
    if 0 <= -behind <= BEFORE or behind < LATE:
        return False
    # A clock in another zone may still bring it there.
    return not shifted_into(behind, -BEFORE, LATE)


def _machines(suspect: Suspect) -> bool:
    return from_outside(suspect) and not suspect.ordered and suspect.first.exception is None


def only_beside(scene: Scene, suspect: Suspect) -> bool:
    """Whether a fault of a machine that nothing ties to the job stands beside a wait, without a rank of its own."""
    machine = _machines(suspect) and not suspect.everyone and suspect.nature.blame is Blame.HOST
    return machine and bool(suspect.hosts) and not tied(scene, suspect)


def beside_text(scene: Scene, suspect: Suspect, absent: GlobalRank) -> str:
    """The verdict where a machine's fault lies beside a wait for one rank, and no line says that this rank ran there."""
    waiters = () if scene.hang is None else scene.hang.waiters
    waited = f", for which {ranks_text(waiters)} waited," if waiters else ""
    begin = (
        f"{what_text(suspect)}{who_text((), suspect.hosts)}. {ranks_text((absent,)).capitalize()}{waited} did not come"
    )
    home = scene.roster.host_of_rank(absent)
    if home is None or short_host(home) in map(short_host, suspect.hosts):
        return f"{begin}: whether it ran there, no line tells."
    return f"{begin}: it ran on {home}, and nothing ties the other machine to the job."
