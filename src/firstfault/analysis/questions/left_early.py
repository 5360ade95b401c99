"""Did a rank leave the training loop, by its own word, while the others went on and waited for it? Uneven numbers of batches.

Needs the line of the one that left, and that the others wait in a collective of the loop itself; a wait in the clean-up
is asked about in `firstfault.analysis.questions.exit_hang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.hang_words import collective, waited, waiting_there
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import few, picture
from firstfault.analysis.state.standing import first_line
from firstfault.analysis.wording import beginning, ranks_text
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.picture import Picture
    from firstfault.model.evidence import Event

GRADIENTS = 1 << 20
"""Elements from which on a reduction is one of gradients, not of a flag or a metric."""


def ask(scene: Scene) -> Answer | None:
    """The answer where one or few ranks do not wait, and a line of theirs says before the wait that the loop had ended."""
    if scene.hang is None or scene.suspects or not scene.marked(Mark.LOOP_LEFT, Mark.END):
        return None
    seen = picture(scene)
    ranks = seen.late()
    if not in_the_loop(seen) or not few(len(ranks), seen.where.total) or not seen.where.witnessed:
        return None
    told = [e for e in scene.marked(Mark.LOOP_LEFT, Mark.END) if scene.roster.rank(e) in {None, *ranks}]
    told = [e for e in told if all(first(e, w) is True for w in scene.hang.events)]
    return _answer(seen, max(told, key=sort_key)) if told else None


def in_the_loop(seen: Picture) -> bool:
    """Whether all that is known to wait does so in reductions of gradients, which no clean-up issues."""
    works = [c.work for g in seen.state.stuck for c in g.pending if c.work is not None]
    return bool(works) and all(
        w.op is not None and ("REDUCE" in w.op) and max(w.numel_in or 0, w.numel_out or 0) >= GRADIENTS for w in works
    )


def _answer(seen: Picture, line: Event) -> Answer:
    scene, ranks = seen.scene, seen.late()
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values())))
    named = Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE)
    wait = None if seen.nearest is None else first_line(seen.nearest)
    said = beginning(line.text, 120)
    return Answer(
        question="left_early",
        failed=True,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.POSSIBLE,
        summary=f"{ranks_text(ranks).capitalize()} had left the training loop (“{said}”) while {waiting_there(seen)} went on and "
        f"waited in {collective(seen.nearest)}{waited(scene)}, a reduction of gradients: the ranks did not have the same number "
        "of batches.",
        trigger=line,
        proof=(line, *(() if wait is None else (wait,))),
        culprits=named,
        first_failed=named,
        classes=Classes(
            domain=Domain.DATA,
            form=Form.HUNG,
            layer=Layer.COLLECTIVE,
            phase=Phase.DATA,
            scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Count the samples that each rank gets (files, rows, batches) and deal them out evenly, repeat or drop the rest.",
            "Or let all ranks agree at each step whether there is another batch (torch.distributed.algorithms.Join, a flag).",
        ),
        collect=("the number of samples and batches of every rank",),
    )
