"""Whose a root without a rank is: given to the ranks that alone failed by themselves, alone stayed away, or raised what it brings about.

Gives a line to nobody where more ranks than lines are left. Chooses no root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.joins import of_one_process, only_absent, spoke_of_another
from firstfault.analysis.suspects import stranger
from firstfault.analysis.ties import may_be_of
from firstfault.model.evidence import GlobalRank
from firstfault.model.words import Blame, Category, Domain, Mark

if TYPE_CHECKING:
    from firstfault.analysis.causes import Choice
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

SIGABRT, SIGKILL = 6, 9


def attributed(scene: Scene, root: Suspect) -> Suspect:
    """A root whose lines carry no rank, given to the ranks that alone are reported to have failed by themselves.

    Only where there are no more such ranks than lines: the launcher's list then leaves no choice.
    """
    if root.ranks or root.unplaced == 0 or stranger(root.first):
        return root
    killed = root.nature.category is Category.INFRASTRUCTURE and root.nature.domain is Domain.MEMORY
    last_word = (
        root.first.exception is not None
        or root.first.signature.startswith("process.")
        or scene.case.has(root.first, Mark.RUNTIME_WORD)
        or scene.case.has(root.first, Mark.ABORT)
        or of_one_process(scene, root.first)
    )
    if not last_word and not killed:
        # A line that no interpreter printed as its last word may be about anybody.
        return root
    owners = _owners(scene, root, killed=killed)
    if not owners:
        owners = {r for r in _absent(scene, root) if may_be_of(scene, root.first, r)}
    if not owners or spoke_of_another(scene, root, owners):
        return root
    hosts = {h for r in owners if (h := scene.roster.host_of_rank(r)) is not None}
    if root.hosts and hosts and not hosts & set(root.hosts):
        # The line names another machine than the one on which those ranks ran.
        return root
    return replace(root, ranks=tuple(sorted(owners)), hosts=tuple(sorted(hosts)) or root.hosts, unplaced=0)


def _owners(scene: Scene, root: Suspect, *, killed: bool) -> set[GlobalRank]:
    """Ranks that alone are reported to have failed by themselves, where there are no more of them than lines.

    A rank that waited in a collective and aborted itself did not fail by itself, whatever its exit says; nor did one that lost
    its peer, where it is not told which ranks did.
    """
    own = [e for e in scene.exits if e.own]
    if killed:
        own = [
            e
            for e in scene.exits
            if e.signal == SIGKILL or (e.event is not None and scene.case.has(e.event, Mark.OOM_KILL))
        ]
    elif scene.hang is not None:
        own = [e for e in own if e.signal != SIGABRT]
    owners = {e.rank for e in own if e.rank is not None}
    nameless = any(e.rank is None for e in own)
    if len(owners) > root.unplaced or (len(owners) > 1 and (nameless or _nameless_victims(scene))):
        return set()
    return owners


def _nameless_victims(scene: Scene) -> bool:
    """Whether somebody lost a peer of whom it is not told who: some of the listed ranks may be these."""
    lost = (e for e in scene.effects if e.exception is not None and scene.case.has(e, Mark.PEER_LOST))
    return any(scene.roster.rank(e) is None for e in lost)


def _absent(scene: Scene, root: Suspect) -> set[GlobalRank]:
    """Ranks that did not wait while all others of a known number did: the failed ones, where they are no more than lines."""
    hang, world = scene.hang, scene.complete.expected
    counted = world is not None and hang is not None and bool(hang.waiters)
    if not counted and root.nature.fatal and (alone := only_absent(scene)) is not None:
        return {alone}
    if hang is None or world is None or len(hang.waiters) < world / 2 or not root.nature.fatal:
        return set()
    away = set(map(GlobalRank, range(world))) - set(hang.waiters)
    return away if len(away) <= root.unplaced else set()


def by_effect(scene: Scene, choice: Choice) -> Suspect | None:
    """A root without a rank, given to the ranks that raised the error which it is known to bring about; None elsewhere.

    What a device or a native library prints has no prefix; the exception of the same process, right behind it, has one.
    """
    root = choice.root
    if root.everyone or root.nature.blame is not Blame.RANK or root.first.exception is not None:
        return None
    known = [
        s
        for s, _ in choice.explained
        if s.first.exception is not None and scene.case.library.explains(root.first.signature, s.first.signature)
    ]
    near = [s for s in known if s.first.span.source == root.first.span.source]
    # A kernel's line lies elsewhere. Where it names a process, that is the one rank that raised what it brings about.
    known = near or (known if _of_one_pid(root) and len({r for s in known for r in s.everyone}) == 1 else [])
    ranks = {r for s in known for r in s.ranks}
    if not ranks or any(s.unplaced for s in known):
        return None
    hosts = {h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}
    if not near and hosts and root.hosts and not hosts & set(root.hosts):
        return None
    return replace(root, ranks=tuple(sorted(ranks)), hosts=tuple(sorted(hosts)) or root.hosts, unplaced=0)


def _of_one_pid(root: Suspect) -> bool:
    """Whether all lines of a root are a kernel's about one and the same process."""
    pids = {e.fields.get("pid", "") for e in root.events}
    return len(pids) == 1 and next(iter(pids)).isdecimal() and root.first.signature.startswith("kernel.")
