"""What else is weighed in an answer before its chain is built: the lines that the scan kept nothing of, read where an answer asks for them.

Wires the rooms that read on; each of them gives the answer back as it was where it has nothing to say. What few jobs come to
is loaded only for these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.last_words import heed, wanted
from firstfault.analysis.quiet import limited
from firstfault.model.words import Category
from firstfault.pipelines.disks import with_disks
from firstfault.pipelines.ground import Ground
from firstfault.pipelines.last_words import recent_words
from firstfault.pipelines.lone import heed_lone
from firstfault.pipelines.numbers import heed_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank, SourceId
    from firstfault.pipelines.observe import Observed
    from firstfault.readers.store import Store


def heeding(observed: Observed, store: Store) -> Callable[[Scene, Answer], Answer]:
    """What weighs an answer about one attempt.

    Args:
        observed: what was seen, with what is needed to read on.
        store: the bytes of all sources.
    """
    ground = Ground(store, observed.profiles, observed.clocks)

    def heeded(scene: Scene, answer: Answer) -> Answer:
        named: dict[SourceId, GlobalRank] = {}
        if answer.question == "hang" and not answer.culprits.anybody:
            # Loaded only for a hang that names nobody.
            from firstfault.pipelines.roll_call import heed_roll

            answer, named = heed_roll(scene, answer, ground)
        ranks = wanted(answer)
        unheard = answer
        if ranks:
            words = recent_words(scene, ranks, ground, named)
            answer = heed(scene, answer, words)
        if answer.question == "stopped" or limited(scene, answer) is not None:
            # What few jobs come to is loaded only for these.
            from firstfault.pipelines.standstill import heed_stop

            answer = unheard = heed_stop(scene, answer, ground)
        heard = heed_lone(scene, answer, ground)
        if heard is answer and answer is not unheard:
            # Work that is seen not to have ended says more than the last words of its rank do.
            seen_at_work = heed_lone(scene, unheard, ground)
            if seen_at_work.category is answer.category and seen_at_work.strength.level > answer.strength.level:
                heard = seen_at_work
        heard = heed_numbers(scene, heard, store)
        if heard.category is Category.UNKNOWN and heard.failed:
            from firstfault.pipelines.settings import heed_settings

            heard = heed_settings(scene, heard, store)
        if heard.category is Category.UNKNOWN or heard.question == "good_end":
            from firstfault.pipelines.plain_words import heed_plain_words

            heard = heed_plain_words(scene, heard, observed.seen, ground)
        return heard if ranks else with_disks(scene, heard, store)

    return heeded
