"""What the lines of a log say of ranks that are not in the collective in which few others wait: at work alone, or gone.

The pipeline finds the lines; this says for which hangs they are wanted and what follows, which is a possibility at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.hang_answers import UNEXPLAINED, stall
from firstfault.analysis.hang_words import collective, waited, waiting_there
from firstfault.analysis.order import comparable
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import Picture, few, picture
from firstfault.analysis.wording import beginning, duration, ranks_text
from firstfault.model.evidence import Event
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Phase, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

MOST = 64
"""Ranks whose last words are asked for."""
HALF = 0.5
"""Share of a wait for which a bar must have run, to be that of a rank which did not wait."""
SLACK = 60.0
"""Seconds between the last words of a rank that has ended and the beginning of the wait of those that are left."""
_ENDED = lazy(
    r"(?i)\b(?:run|job|training|fit|program|script|process|main|worker|rank \d+|everything|all)\b[^\n]{0,40}?"
    r"\b(?:finished|complete[d]?|done|exit(?:ed|ing)?|leaving|ended)\b|^(?:done|finished|bye|exiting)[.!]?$"
)
_NOT_ENDED = lazy(
    r"(?i)\bstep\b|\bepoch\b|\bbatch|\bshard\b|%\||not |n't |waiting|before|unfinished|incomplete|fail|error"
)


_PROMPT = lazy(
    r"(?i)(?:(?:^|[:\]>] ?|please )(?:enter|type|select|choose|paste|input)\b[^\n]{0,80}[:?>]\s*$)"
    r"|\b(?:password|passphrase|username|login|verification code|your choice)(?: (?:for|of) [^\n:]{1,60})?: ?$"
    r"|[\[(](?:y|yes) ?/ ?(?:n|no)(?: ?/ ?\w{1,12})?[\])]\s*[:?]?\s*$|\bpress (?:any key|enter|return)\b[^\n]{0,40}$|^\(?Pdb\)\s*$|^ipdb> ?$"
)
"""The end of a line at which a program waits for somebody to type."""
_SHARE = lazy(
    r"(?i)\b(?:(?:sum\(count\)|(?:num[_ ]|n_|#)?(?:samples|examples|batches|shards|files|records|rows|items|utterances|cuts|sequences|documents))"
    r" ?[=:] ?(?P<told>\d{1,15}\b(?![.%/])|\[ ?\])|(?P<count>\d{1,15}|no) (?:training |train |data )?"
    r"(?:samples|examples|batches|shards|files|records|rows|items|utterances|cuts|sequences|documents)\b)"
)
"""How many of the data a line gives to somebody."""
_OF_RANK = lazy(r"(?i)\brank ?[=:#]? ?(\d{1,6})\b")


class Bar(Struct, frozen=True, kw_only=True):
    """A bar or counter of work, with how long it ran by its own words."""

    event: Event
    """Its line, from where it begins; of a bar that was not at its end the part that was drawn last."""
    seconds: float
    """0 where its words are not asked for it."""
    phase: Phase
    what: str
    """What stands before it, for people."""


def undecided_hang(scene: Scene, answer: Answer) -> Picture | None:
    """The picture of a hang of which no reason is known, and in which at most the rank outside is; None for anything else."""
    if answer.question != "hang" or answer.category is not Category.UNKNOWN or len(answer.culprits.ranks) > 1:
        return None
    seen = picture(scene)
    waiting = seen.where.waiting or _said_to_wait(seen)
    return seen if waiting and not seen.where.outside and not seen.state.unplaced else None


def hung_at_exit(scene: Scene, answer: Answer) -> Picture | None:
    """The picture of processes that hung behind the end of their run, where nobody is named; None for anything else."""
    if answer.question != "exit_hang" or answer.culprits.anybody or scene.hang is None:
        return None
    seen = picture(scene)
    return seen if seen.where.waiting and not seen.where.outside and not seen.state.unplaced else None


def may_have_left(seen: Picture) -> tuple[GlobalRank, ...]:
    """The other ranks, where only few of a job of known size wait: they may have ended before; else nobody."""
    where = seen.where
    if not where.witnessed or not few(len(where.waiting), where.total) or len(where.missing) > MOST:
        return ()
    failed = {e.rank for e in seen.scene.exits if e.rank in set(where.missing)}
    return () if failed else where.missing


def left(seen: Picture, answer: Answer, words: Mapping[GlobalRank, Event]) -> Answer:
    """The answer, or a mismatch where all other ranks said that they had ended when the wait began."""
    missing = seen.where.missing
    if not missing or any(r not in words or not _says_end(words[r].text) for r in missing):
        return answer
    if any(_later(seen.scene, words[r]) for r in missing):
        return answer
    ranks = seen.where.waiting
    hosts = tuple(sorted(set(hosts_of(seen.scene, ranks).values())))
    hang = seen.scene.hang
    line = None if hang is None else hang.first
    gone = words[missing[0]]
    return replace(
        answer,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.POSSIBLE,
        summary=f"{ranks_text(ranks).capitalize()} waited in {collective(seen.nearest)}{waited(seen.scene)}, which the others "
        f"never issued: by their last lines {ranks_text(missing)} had finished and ended when it began "
        f"(“{_short(gone.text)}”). A collective in code that only some ranks run, such as a save or a clean-up.",
        trigger=line,
        proof=(*(() if line is None else (line,)), gone, *answer.proof),
        culprits=Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE),
        first_failed=Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE),
        classes=replace(answer.classes, phase=Phase.TEARDOWN),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            (
                "Find the collective that only these ranks call at the end (a barrier inside a save or a clean-up that runs on rank 0 "
                "alone), and call it on all ranks or on none."
            ),
            *answer.steps,
        ),
    )


def alone_at_exit(seen: Picture, answer: Answer, words: Mapping[GlobalRank, Event]) -> Answer:
    """The answer with the few ranks that hung behind the end of a run, where all others said that they had ended."""
    told = left(seen, answer, words)
    if told is answer:
        return answer
    who = ranks_text([int(r) for r in told.culprits.ranks])
    return replace(
        answer,
        summary=f"{answer.summary} By their last lines the others had ended: {who} waited in {collective(seen.nearest)} alone, "
        "a collective that only some ranks call.",
        culprits=told.culprits,
        first_failed=told.first_failed,
        proof=told.proof,
        steps=told.steps,
    )


def _says_end(text: str) -> bool:
    said = text.rsplit("- ", 1)[-1]
    return _ENDED.search(said) is not None and _NOT_ENDED.search(said) is None


def _later(scene: Scene, event: Event) -> bool:
    """Whether a line was said long after the wait had begun: then its rank was not gone but elsewhere."""
    hang = scene.hang
    if hang is None or hang.began is None or event.when.earliest is None:
        return False
    return comparable(event.when, hang.first.when) and event.when.earliest > hang.began + SLACK


def _said_to_wait(seen: Picture) -> tuple[GlobalRank, ...]:
    """Ranks that said that they waited, where no line tells of a collective or its counters (gloo); at least two.

    Nobody where a report names who is late: there a bar counts only if it has not come to its end.
    """
    named = seen.named_event is not None
    waiters = () if named or seen.scene.hang is None else seen.scene.hang.waiters
    return waiters if len(waiters) > 1 else ()


def lone_worker(seen: Picture) -> tuple[GlobalRank, ...]:
    """The one rank that does not wait, where all others of a small job do; else nobody.

    Without a witness of the number of ranks the others are those that lines name, and rank 0, which every job has.
    """
    hang = seen.scene.hang
    waiters = () if seen.where.waiting else _said_to_wait(seen)
    missing = tuple(r for r in seen.where.missing if r not in set(waiters))
    return missing if len(missing) == 1 and hang is not None and hang.waited_ms is not None else ()


def named_worker(scene: Scene, answer: Answer) -> Picture | None:
    """The picture of a hang in which a report names the one rank that stayed away, and nothing says why; else None."""
    if answer.question != "hang" or answer.category is not Category.UNKNOWN or len(answer.culprits.ranks) != 1:
        return None
    seen = picture(scene)
    return seen if seen.named_event is not None and seen.named == answer.culprits.ranks else None


def at_work(seen: Picture, answer: Answer, bar: Bar) -> Answer:
    """The answer, with the unfinished bar that was drawn until the others gave up as the work of the rank that a report names.

    Bars of a healthy start look the same: it is the report that makes one tell something, and not the bar that makes a report.
    """
    ranks = seen.named
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.SUPPORTED.at_most(answer.culprits.strength),
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} The last work that was seen before they gave up had not come to its end "
        f"(“{_short(bar.what)}”). Who waits draws no bar, so it is that of {ranks_text(ranks)}.",
        trigger=bar.event,
        proof=(bar.event, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=bar.phase),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            f"Do this work before the process group is created, or give the first collective a timeout above what {ranks_text(ranks)} needs.",
            *answer.steps,
        ),
    )


def busy(seen: Picture, answer: Answer, bar: Bar) -> Answer:
    """The answer, or a stall of the one rank that does not wait, where work went on while all others waited.

    A rank inside a collective draws no bar: one that ran through the wait is of a rank outside.
    """
    ranks = lone_worker(seen)
    hang = seen.scene.hang
    if not ranks or hang is None or hang.waited_ms is None or bar.seconds < HALF * hang.waited_ms / 1000:
        return answer
    named = stall(seen, ranks, Strength.POSSIBLE, (), "is not among those that waited in")
    return replace(
        named,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"While {waiting_there(seen)} waited in {collective(seen.nearest)}{waited(seen.scene)}, work went on for {duration(int(1000 * bar.seconds))} "
        f"(“{_short(bar.what)}”). Who waits draws no bar, so it is that of {ranks_text(ranks)}: it came too late for the timeout.",
        trigger=bar.event,
        proof=(bar.event, *named.proof),
        culprits=answer.culprits if answer.culprits.anybody else named.culprits,
        classes=replace(named.classes, phase=bar.phase),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            f"Share this work among the ranks, or raise the timeout above what {ranks_text(ranks)} needs for it alone.",
            *named.steps,
        ),
    )


def asks(text: str) -> bool:
    """Whether a program stands behind a line and waits for somebody to type."""
    return _PROMPT.search(text.rstrip("\r\n")) is not None


def share_of(text: str) -> tuple[int, bool] | None:
    """The rank that a line speaks of and whether the share of the data that it tells is empty; None where it tells none."""
    rank, last = _OF_RANK.search(text), None
    for last in _SHARE.finditer(text):  # noqa: B007 - the last one is the sum of those before it
        pass
    if rank is None or last is None:
        return None
    return int(rank[1]), (last["told"] or last["count"]).strip("[ ]").lower() in {"", "0", "no"}


def starved(shares: Mapping[int, bool], rank: GlobalRank) -> bool:
    """Whether one rank alone has an empty share: all the others of which lines of that kind tell have something."""
    return shares.get(int(rank), False) and len(shares) > 1 and sum(shares.values()) == 1


def without_data(answer: Answer, rank: GlobalRank, line: Event) -> Answer:
    """The answer with the possibility that the late rank has no data at all, by the line that says so."""
    return replace(
        answer,
        category=Category.DATA,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} {ranks_text([rank]).capitalize()} alone was given no data (“{_short(line.text)}”).",
        trigger=line,
        proof=(line, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=Phase.DATA),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Split the data so that every rank has at least one sample of each part (more shards, fewer ranks or workers).",
            *answer.steps,
        ),
    )


def asked(answer: Answer, rank: GlobalRank, line: Event) -> Answer:
    """The answer with the possibility that the late rank stands at a question that nobody answers."""
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} The last line before is a question that waits for somebody to type "
        f"(“{_short(line.text)}”); who waits for others asks nothing, so it is that of {ranks_text([rank])}.",
        trigger=line,
        proof=(line, *answer.proof),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Give the program its answer in advance (a flag, a variable, a stored login), or switch off what asks.",
            *answer.steps,
        ),
    )


def _short(text: str) -> str:
    return beginning(text, 120, "…")
