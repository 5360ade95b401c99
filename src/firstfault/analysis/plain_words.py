"""What plain words at the end of a log say where no signature names a cause: that the program failed, and by what family of fault.

The words are those of the operating system and of any logger, not of one program: they are a possibility at most, and they are
asked only where nothing else of the attempt gives a cause. The pipeline finds the lines; this judges them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.fault_words import FAMILIES, Family, family_of
from firstfault.analysis.order import first
from firstfault.analysis.suspects import HANDLED
from firstfault.analysis.wording import beginning, who_text
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Form, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene

PLAIN = "plain.failure"
"""Stands in the place of a signature for a line that no signature knows."""
NEAR = 6
"""Lines around a statement that all is over in which a line without a level of its own may be the reason."""
END = 25
"""Lines at the end of a log that can tell how it ended; a banner or a stack may stand below."""
LIFE = 2
"""Lines that look like progress after which nothing above them ended the program."""
LAST = 3
"""Lines at the end of a log of which one of an error's level is its last word."""
_ASKED = frozenset({"nothing", "exits", "effects", "peers", "scheduler"})
_CANCELLED = "slurm.cancelled"


_GOOD = lazy(
    r"^.{0,120}?(?:^|[\s\[|(:<-])(?:INFO|DEBUG|TRACE|NOTICE|NOTE|HINT|WARN|WARNING|\w{0,40}Warning|warning)(?:[\s\]|):>,-]|$)"
    r"|^\[?[IW]\d{4} |\[[IWDV]\d{0,4} "
)
_BAD = lazy(
    r"^.{0,120}?(?:^|[\s\[|(:<_-])(?:ERROR|ERR|FATAL|CRITICAL|CRIT|SEVERE|EMERG|PANIC|Fatal)(?:[\s\]|):>,_-]|$)"
    r"|^\[?[EF]\d{4} |\[[EF]\d{0,4} |(?:^|[\s\]:])[EF]: |(?i:\b(?:severe|error) ?[:(](?! ?(?:-?[\d.]+|nan|inf)\b(?!\)))"
    r"|\bsevere \(\d)"
)
_OVER = lazy(
    r"\bpanicked at\b|(?i:core dumped|segmentation fault|\bsegfault\b|illegal instruction|\bgiving up\b|\bgave up\b|\babandon(?:ed|ing)\b"
    r"|\b(?:cannot|can not|can't|unable to|could not) (?:continue|proceed|recover|go on)\b|\brefus(?:es|ing) to (?:start|run|continue)\b"
    r"|\bunrecoverable\b|\buncorrectable\b|\bfatal(?:ly)?\b)"
)
_STATE = lazy(
    r"(?i:\b(?:status|state|phase|outcome|conclusion)) ?[=:]? ?['\"(]?(?:FAILED|FAILURE|DEAD|CRASHED|KILLED|ABORTED|Failed)\b"
    r"|(?i:\b(?:exit(?:ed|s|ing)?|quits?|left|leaving|ended|over|died|stopped|terminated|crashed|aborted)\b"
    r"(?:[^\n]{0,40}?\b(?:code|status|rc)[ =:]{1,3}(?!0\b)-?\d{1,3}\b|[^\n]{0,20}? with (?!0\b)-?\d{1,3}[\s.)\]]{0,3}$))"
)
"""A state or an exit code that is not good; a level does not matter, since launchers report it at any."""
_ENDS = lazy(
    r"(?i)\b(?:abort(?:ed|ing|s)?|terminat(?:ed|ing|es?)|tearing down|shutting down|stopping|dying|exiting|crashed|process down)\b"
    r"|\b(?:train(?:ing|er)?|fit(?:ting)?|experiment|job|run|process|program|rank|worker|execution|script)\b[^\n]{0,30}\b(?:failed|failure|died|killed|dead|gone)\b"
)
"""Words that say that all is over where the line is of an error's level."""
_STRERROR = lazy(
    r"(?i): (?:no space left on device|disk quota exceeded|read-only file system|input/output error|stale file handle|cannot allocate memory"
    r"|permission denied|operation not permitted|no such file or directory|connection (?:refused|timed out|reset by peer)|no route to host"
    r"|transport endpoint is not connected|bus error|segmentation fault|illegal instruction)[\s'\")\].]{0,4}$"
)
_NOTHING = lazy(
    r"(?i)\bretry(?:ing)?\b|\bwill (?:try|continue|retry)\b|\btry(?:ing)? again\b|\b(?:re-?start|respawn|reconnect)(?:ing|ed|s)?\b"
    r"|\b(?:0|no) (?:\w+ )?(?:errors?|failures?)\b|\buncorrect\w+[^\n]{0,20}[:=] ?0\b|\bharmless\b|\bif\b[^\n]{0,60}\b(?:fails?|error)\b"
    r"|fatal: (?:not a git|detected dubious|unsafe repo)"
)
"""What is tried again, what is counted and is none, and what programs ask for at their start without needing it."""
_MAYBE = lazy(
    r"(?i)\b(?:may|might|could) (?:be|have)\b|\b(?:potential|possible|common|likely|usual) (?:root )?(?:causes?|reasons?)\b|\btroubleshoot"
    r"|\b(?:likely|usually|probably|typically|for example|such as|e\.g\.)"
)
"""Words of a text that explains what such an end can come from: it names reasons and tells none."""
_LIVES = lazy(r"(?i)\b(?:step|iter(?:ation)?s?|epoch|batch|loss|it/s|samples)\b[^\n]{0,40}\d")
_RANK = lazy(r"(?i)(?<!remote )(?<!peer )(?<!from )(?<!for )(?<!\bto )\b(?:global[_ ]?)?rank ?[=:#]? ?(\d{1,6})\b")
_HOST = lazy(r"(?i)\b(?:host(?:name)?|node) ?[=:] ?([a-z][\w.-]*\d[\w.-]*)")


class Line(Struct, frozen=True, kw_only=True):
    """One line at the end of a log, with what its words are."""

    event: Event
    bad: bool
    """An error's level, or the operating system's own word at its end."""
    over: bool
    """It says that a process or the job is over, and not well."""
    good: bool
    """A level at which nothing is wrong."""
    family: Family | None


class Told(Struct, frozen=True, kw_only=True):
    """What the end of one log tells."""

    over: Event | None
    """The line by which the program failed; None where none says so."""
    error: Event | None
    """The last line of an error's level among the last lines."""
    reason: Event | None
    family: Family | None


def read_line(event: Event, body: str) -> Line:
    """What the words of a line are.

    Args:
        event: the line.
        body: its text behind the prefixes of its streams.
    """
    text = event.text
    good = _GOOD.search(text) is not None
    ended = _OVER.search(body) is not None
    handled = (HANDLED.search(body) is not None or _NOTHING.search(body) is not None) and not ended
    if handled:
        return Line(event=event, bad=False, over=False, good=True, family=None)
    state = _STATE.search(body) is not None
    bad = not good and (_BAD.search(text) is not None or _STRERROR.search(body) is not None)
    over = state or (not good and (ended or (_BAD.search(text) is not None and _ENDS.search(body) is not None)))
    family = None if good or _MAYBE.search(body) is not None else family_of(body)
    if family is not None and family.strict and not (bad or over):
        family = None
    return Line(event=event, bad=bad, over=over, good=good, family=family)


def told_by(lines: Sequence[Line], *, failed: bool) -> Told:
    """What the lines behind the last sign of progress of one log tell.

    Args:
        lines: in their order, to the end of the log.
        failed: whether it is known from elsewhere that the job failed.
    """
    lines = _behind_life(lines)
    over = [n for n, line in enumerate(lines) if line.over]
    last = range(max(0, len(lines) - LAST), len(lines))
    near = {n for at in over for n in range(at - NEAR, at + NEAR + 1)}
    named = [
        n
        for n, line in enumerate(lines)
        if line.family is not None and (n in near or _tells(line, n in last, over, failed))
    ]
    reason = min(named, key=lambda n: (not _family(lines[n]).root, n), default=None)
    ends = [n for n in over if reason is None or n >= reason] or over
    said = lines[ends[0]].event if ends else None if reason is None else lines[reason].event
    errors = [lines[n].event for n in last if lines[n].bad]
    return Told(
        over=said,
        error=errors[-1] if errors else None,
        reason=None if reason is None else lines[reason].event,
        family=None if reason is None else lines[reason].family,
    )


def _behind_life(lines: Sequence[Line]) -> Sequence[Line]:
    """The last lines, from behind the last but one that looks like progress of a form that nobody knows."""
    lively = [n for n, line in enumerate(lines) if not (line.bad or line.over) and _LIVES.search(line.event.text)]
    return lines[max(0, len(lines) - END, lively[-LIFE] + 1 if len(lively) >= LIFE else 0) :]


def _tells(line: Line, last: bool, over: Sequence[int], failed: bool) -> bool:
    """Whether a line whose words are a family's tells why, where no statement that all is over stands near it."""
    if not line.bad:
        return False
    if over or failed:
        return True
    # A log that merely stops with it: what programs survive every day says nothing, and neither does a command's own complaint.
    return last and not _family(line).soft and _BAD.search(line.event.text) is not None


def _family(line: Line) -> Family:
    return FAMILIES[-1] if line.family is None else line.family


def wanted(scene: Scene, answer: Answer) -> bool:
    """Whether nothing else of the attempt gave a cause, so that plain words are worth reading."""
    if answer.category is not Category.UNKNOWN or answer.question not in _ASKED:
        return False
    if answer.culprits.anybody and not named_by_exit(answer):
        return False
    return scene.hang is None and not any(e.signature == _CANCELLED for e in scene.events)


def named_by_exit(answer: Answer) -> bool:
    """Whether one process is named by its exit alone, so that only its own words can say more."""
    return answer.question == "exits" and len(answer.first_failed.ranks) == 1


def counted_end(scene: Scene, answer: Answer) -> bool:
    """Whether a good end rests on nothing but the number of steps: one bar of many may have come to its end."""
    return answer.question == "good_end" and scene.outcome.event is None and answer.strength is Strength.POSSIBLE


def against_count(scene: Scene, answer: Answer, told: Sequence[Told]) -> Answer:
    """The answer, or a failure where a log says behind its last step, at the level of an error, that the program failed.

    Args:
        scene: the attempt.
        answer: a good end by the number of steps alone.
        told: of each log that tells something, in the order of the sources.
    """
    if not any(t.over is not None and _BAD.search(t.over.text) is not None for t in told):
        return answer
    undecided = replace(
        answer,
        question="nothing",
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        action=ActionKind.COLLECT_MORE,
        proof=(),
    )
    return heed_plain(scene, undecided, told)


def heed_plain(scene: Scene, answer: Answer, told: Sequence[Told]) -> Answer:
    """The answer with what the ends of the logs say in plain words.

    Args:
        scene: the attempt.
        answer: one that names no cause.
        told: of each log that tells something, in the order of the sources.
    """
    named = [t for t in told if t.family is not None and t.reason is not None]
    if named:
        return _by_family(scene, answer, named)
    over = next((t.over for t in told if t.over is not None), None)
    if over is not None:
        if answer.failed:
            return answer if answer.proof else replace(answer, trigger=over, proof=(over,))
        return replace(
            answer,
            failed=True,
            summary=f"The log says that the program failed (“{_short(over)}”); no line that is known says why.",
            trigger=over,
            proof=(over,),
            classes=replace(answer.classes, form=_form(scene)),
            steps=("Read the last lines of each log; the first error of the process that ended first says why.",),
        )
    error = next((t.error for t in told if t.error is not None), None)
    if error is None or answer.failed is not None:
        return answer
    return replace(
        answer,
        summary=answer.summary.replace(
            "no error, no end marker.",
            f"an error at the end that is not known to end a run (“{_short(error)}”), no end marker.",
        ),
        proof=(*answer.proof, error),
    )


def last_said(answer: Answer, told: Told) -> Answer:
    """The answer about a process that ended by itself, with what it said last at the level of an error; why stays unknown.

    Args:
        answer: one that names the process by its exit.
        told: by the lines of that process alone.
    """
    said = told.over or told.error
    if said is None or answer.trigger is said:
        return answer
    return replace(
        answer,
        summary=f"{answer.summary} Its last words: “{_short(said)}”.",
        trigger=said,
        proof=(said, *answer.proof),
    )


def _by_family(scene: Scene, answer: Answer, named: Sequence[Told]) -> Answer:
    """The answer with the family that the earliest line tells; of several that nothing orders, the one that is no consequence."""
    best = named[0]
    for one in named[1:]:
        if _before(one, best):
            best = one
    family, reason = best.family, best.reason
    if family is None or reason is None:
        return answer
    same = [t.reason for t in named if t.family is family and t.reason is not None]
    ranks = sorted({r for e in same if (r := _rank(scene, e)) is not None})
    hosts = sorted({h for e in same if (h := _host(scene, e)) is not None})
    one_speaker = len(ranks) == 1 or (not ranks and len(hosts) == 1 and len(same) == 1)
    who = Named()
    if one_speaker:
        who = Named(ranks=tuple(ranks), hosts=tuple(hosts), strength=Strength.POSSIBLE)
    proof = (reason, *(t.over for t in (best,) if t.over is not None and t.over is not reason), *answer.proof)
    return replace(
        answer,
        question="plain_words",
        failed=True,
        category=family.category,
        strength=Strength.POSSIBLE,
        summary=f"{family.title}{who_text(ranks, tuple(hosts))}, by the plain words of a line of no known form (“{_short(reason)}”).",
        trigger=reason,
        proof=proof,
        culprits=who if family.own else Named(),
        first_failed=who,
        classes=replace(
            answer.classes,
            domain=family.domain,
            layer=family.layer,
            form=_form(scene),
            scope=Scope.RANK if len(ranks) == 1 else answer.classes.scope,
        ),
        action=ActionKind.FIX_AND_RERUN if family.root else ActionKind.COLLECT_MORE,
        steps=("Read this line and those around it: nothing else in these logs names a cause.", *answer.steps),
        why="it is the earliest line whose plain words tell a kind of fault; no line of a known form names a cause",
    )


def _before(one: Told, other: Told) -> bool:
    """Whether what one log tells comes first: by its kind, else by time."""
    if one.family is None or other.family is None or one.reason is None or other.reason is None:
        return False
    if one.family.root != other.family.root:
        return one.family.root
    return first(one.reason, other.reason) is True


def _rank(scene: Scene, event: Event) -> GlobalRank | None:
    known = scene.roster.rank(event)
    if known is not None:
        return known
    said = {int(m) for m in _RANK.findall(event.text)}
    world = scene.complete.expected
    if len(said) != 1 or (world is not None and max(said) >= world):
        return None
    return GlobalRank(said.pop())


def _host(scene: Scene, event: Event) -> str | None:
    said = set(_HOST.findall(event.text))
    return said.pop() if len(said) == 1 else scene.roster.host(event)


def _form(scene: Scene) -> Form:
    return Form.INTERRUPTED if scene.case.tracks else Form.FAILED_START


def _short(event: Event) -> str:
    return beginning(event.text, 160, "…")
