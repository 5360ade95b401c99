"""What tables of GPU counters add to an answer: they support it, speak against it, or hint at a GPU; never more than a hint.

A counter tells how a GPU was, not why: alone it carries no more than a possibility, and it overrules no line of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.cards import Address, address, rank_at, rank_at_index
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.wording import ranks_text
from firstfault.model.evidence import Event, Who
from firstfault.model.words import Category, Domain, Layer, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank
    from firstfault.model.gpu_course import GpuCourse, GpuSample

QUESTION = "gpu_course"
SAMPLE = "gpu.sample"
"""Signature of an event that is a row of such a table."""
THERMAL = "kernel.thermal"
"""Signature of the kernel's word that a processor is slowed by heat."""
WAITS = frozenset({"hang", "stacks"})
"""Questions about ranks that wait: whose GPU stands still then is worth knowing."""


def with_courses(scene: Scene, answer: Answer) -> Answer:
    """The answer with what the GPUs' counters say about it."""
    courses = scene.case.seen.courses
    if not courses or answer.failed is not True:
        return answer
    if answer.category is Category.GPU_CUDA:
        return _supported(scene, answer, courses)
    still = _standing_still(courses)
    if still is not None and answer.question in WAITS:
        return _waited_for(scene, answer, still)
    broken = [c for c in courses if c.lost is not None or c.errors is not None]
    if len(broken) == 1 and answer.category is Category.UNKNOWN and not answer.culprits.anybody:
        return _hinted(scene, answer, broken[0])
    return answer


def _supported(scene: Scene, answer: Answer, courses: Iterable[GpuCourse]) -> Answer:
    """A fault of a GPU, with the row of the same GPU that shows it."""
    card = None if answer.trigger is None else address(answer.trigger.fields.get("pci", ""))
    hosts = {short_host(h) for h in answer.culprits.hosts}
    ranks = set(answer.culprits.ranks)
    for course in courses:
        row, what = _fault(course)
        if row is None:
            continue
        host = _host(scene, course)
        same = card is not None and _card(course) == card and host is not None and short_host(host) in hosts
        if same or (card is None and ranks and _rank(scene, course) in ranks):
            event = _event(row, host)
            return replace(
                answer,
                summary=f"{answer.summary} The counters of {_name(course, host)} agree: {what}.",
                proof=(*answer.proof, event),
            )
    return answer


def _fault(course: GpuCourse) -> tuple[GpuSample | None, str]:
    if course.lost is not None:
        return course.lost, "it can no longer be reached"
    if course.errors is not None:
        return course.errors, f"uncorrected memory errors rise to {course.errors.uncorrected}"
    if course.slowed is not None:
        return course.slowed, f"it was slowed because of {course.slowed.slowed} in {course.slowed_count} samples"
    return None, ""


def _standing_still(courses: Iterable[GpuCourse]) -> GpuCourse | None:
    """The one GPU on which no kernel ran to the end while kernels ran on all others: a rank in a collective keeps its GPU busy."""
    kept = tuple(courses)
    idle = [c for c in kept if c.idle is not None]
    others = [c for c in kept if c.idle is None]
    return idle[0] if len(idle) == 1 and others and all(c.busy is not None for c in others) else None


def _waited_for(scene: Scene, answer: Answer, course: GpuCourse) -> Answer:
    """A wait, with the GPU that stood still meanwhile: of the rank that is named, of another, or of nobody named yet."""
    assert course.idle is not None
    host, rank = _host(scene, course), _rank(scene, course)
    event = _event(course.idle, host)
    name = _name(course, host)
    proof = (*answer.proof, event)
    whose = "" if rank is None else f" ({ranks_text([rank])})"
    fact = f"At the end no kernel ran on {name}{whose}, while all other GPUs that were watched stayed busy."
    if not answer.culprits.ranks and not answer.culprits.hosts and rank is not None:
        named = Named(ranks=(rank,), hosts=() if host is None else (host,), strength=Strength.POSSIBLE)
        return replace(answer, summary=f"{answer.summary} {fact}", proof=proof, culprits=named)
    if rank is not None and answer.culprits.ranks and rank not in answer.culprits.ranks:
        culprits = replace(answer.culprits, strength=answer.culprits.strength.at_most(Strength.POSSIBLE))
        return replace(answer, summary=f"{answer.summary} But: {fact}", proof=proof, culprits=culprits)
    return replace(answer, summary=f"{answer.summary} {fact}", proof=proof)


def _hinted(scene: Scene, answer: Answer, course: GpuCourse) -> Answer:
    """A failure of which no line tells the reason, and the one GPU whose counters show a fault."""
    row, what = _fault(course)
    assert row is not None
    host, rank = _host(scene, course), _rank(scene, course)
    event = _event(row, host)
    named = Named(
        ranks=() if rank is None else (rank,), hosts=() if host is None else (host,), strength=Strength.POSSIBLE
    )
    return replace(
        answer,
        question=QUESTION,
        category=Category.GPU_CUDA,
        strength=Strength.POSSIBLE,
        summary=f"No line of the job names a cause; the counters of {_name(course, host)} show a fault: {what}.",
        trigger=event,
        proof=(event, *answer.proof),
        culprits=named if named.anybody else answer.culprits,
        classes=replace(answer.classes, domain=Domain.HARDWARE, layer=Layer.HOST, scope=Scope.NODE),
        collect=("the kernel log of that host (`dmesg -T | grep -i xid`)", *answer.collect),
    )


def heat_of(scene: Scene, rank: GlobalRank) -> tuple[str, Event] | None:
    """That the GPU of a rank was slowed by its driver, or the processor of its machine by heat, with the line; None where none says so."""
    for course in scene.case.seen.courses:
        if course.slowed is not None and _rank(scene, course) == rank:
            host = _host(scene, course)
            said = f"Its GPU ({_name(course, host)}) was slowed because of {course.slowed.slowed} in {course.slowed_count} samples."
            return said, _event(course.slowed, host)
    home = scene.roster.host_of_rank(rank)
    if home is None:
        return None
    hot = [
        e
        for e in scene.case.of(frozenset({THERMAL}))
        if (host := scene.roster.host(e)) is not None and short_host(host) == short_host(home)
    ]
    return (f"The processor of its machine ({home}) was slowed by heat.", hot[0]) if hot else None


def _card(course: GpuCourse) -> Address | None:
    return None if course.bus is None else address(course.bus)


def _host(scene: Scene, course: GpuCourse) -> str | None:
    """The machine of a table: as it says, by the name of its file, or the only one of the job."""
    if course.host is not None:
        return course.host
    return scene.roster.file_host(course.first.span.source) or scene.roster.only_host()


def _rank(scene: Scene, course: GpuCourse) -> GlobalRank | None:
    """The rank on a GPU, by lines that state its address, or its index as the driver counts."""
    host, card = _host(scene, course), _card(course)
    if host is None:
        return None
    found = rank_at(scene, host, card) if card is not None else None
    if found is None and course.gpu is not None:
        found = rank_at_index(scene, host, course.gpu)
    return None if found is None else found[0]


def _name(course: GpuCourse, host: str | None) -> str:
    gpu = f"GPU {course.gpu}" if course.gpu is not None else f"the GPU at {course.bus}"
    return gpu if host is None else f"{gpu} of {host}"


def _event(row: GpuSample, host: str | None) -> Event:
    return Event(signature=SAMPLE, span=row.span, text=row.text, who=Who(host=host), when=row.when)
