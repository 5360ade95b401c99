"""Fills "seen before" of a diagnosis: past incidents that are like it, from the shipped records and a team's own.

Changes nothing else of the diagnosis: no category, no strength, no culprit rests on what was seen before.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind, Strength
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.verify import Verifier
    from firstfault.incidents.origin import Origin
    from firstfault.incidents.rules import Scene
    from firstfault.incidents.similar import Likeness
    from firstfault.model.diagnosis import Diagnosis, SeenBefore
    from firstfault.model.evidence import Event, Frame
    from firstfault.pipelines.diagnose import Concluded

NEAR, WIDE = 8, 400
"""Lines on each side of the first one that a rule may ask for, and characters of each."""
TAIL, LAST, MOST_LOGS = 4 << 10, 8, 64
"""Bytes at the end of a log, lines of it, and logs, that are looked at where no line tells of a failure."""
NO_LOGS = frozenset(
    [
        SourceKind.CONFIG,
        SourceKind.BINARY,
        SourceKind.METRICS,
        SourceKind.MEMORY_SNAPSHOT,
        SourceKind.FLIGHT_RECORDER,
        SourceKind.EMPTY,
    ]
)
"""Kinds of sources in which nobody says anything in words."""
MOST = 3
"""Past incidents that a diagnosis names."""
FIX = 300
"""Characters of a past fix that it quotes."""
VERIFIED = "verified"
FATAL = lazy(r"\bFatal Python error: ")
"""How the fault handler of Python begins to tell of a crash."""
DUMP = 400
"""Lines below it among which the thread that crashed is looked for."""
AUTO = "auto"
"""Instead of a folder: that named `incidents` in the repository in which a PATH lies."""
HERE = "here"
"""Instead of a folder: that named `incidents` in the repository in which the command is called; none where there is none."""


def origin_of(conclusion: Conclusion, verifier: Verifier) -> Origin:
    """What the first line tells beyond its text: its signature, and the frames of its traceback or of the crash that it reports."""
    from firstfault.incidents.origin import Origin

    trigger = conclusion.answer.trigger
    if trigger is None:
        return Origin()
    stood: Sequence[Frame] = ()
    own: Frame | None = None
    if trigger.exception is not None:
        stood, own = trigger.exception.frames, trigger.exception.user_frame
    elif FATAL.search(trigger.text) is not None:
        stood, own = _crashed_in(trigger, verifier)
    else:
        stood, own = _failed_in(trigger, verifier)
    if not stood:
        return Origin(signature=trigger.signature)
    frames = [f"{f.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{f.function}" for f in stood]
    index = len(frames) - 1 if own is None or own not in stood else stood.index(own)
    return Origin(signature=trigger.signature, place=frames[index], frames=tuple(frames))


def _crashed_in(trigger: Event, verifier: Verifier) -> tuple[Sequence[Frame], Frame | None]:
    """The frames of the thread in which an interpreter crashed, outermost first, and the innermost one of the job's own code.

    The fault handler prints them below its first line, that thread as `Current thread`; lines of others may stand between.
    """
    from firstfault.readers.frames import user_frame
    from firstfault.readers.same_label import behind
    from firstfault.readers.stacks.forms import FAULTHANDLER, frame_of

    first, lines = verifier.around(trigger.span, DUMP)
    at = trigger.span.line - first
    begun = FATAL.search(lines[at]) if 0 <= at < len(lines) else None
    if begun is None:
        return (), None
    text_of = behind(lines[at][: begun.start()])
    frames: list[Frame] = []
    inside = False
    for text in (found for line in lines[at + 1 :] if (found := text_of(line)) is not None):
        if not inside:
            if FATAL.search(text) is not None:
                break
            inside = text.startswith("Current thread")
            continue
        read = frame_of(FAULTHANDLER, text)
        if read is None:
            break
        frames.insert(0, read.frame)
    return frames, user_frame(frames)


def _failed_in(trigger: Event, verifier: Verifier) -> tuple[Sequence[Frame], Frame | None]:
    """The frames of the test that failed by this line, outermost first, and the innermost one of the job's own code."""
    from firstfault.readers.frames import user_frame
    from firstfault.readers.pytest_frames import SAID, frames_around

    if SAID.search(trigger.text) is None:
        return (), None
    first, lines = verifier.around(trigger.span, DUMP)
    at = trigger.span.line - first
    frames = frames_around(lines, at) if 0 <= at < len(lines) else []
    return frames, user_frame(frames)


def with_seen_before(
    diagnosis: Diagnosis,
    concluded: Concluded,
    paths: Sequence[str | os.PathLike[str]],
    folder: str | None,
) -> Diagnosis:
    """The diagnosis with past incidents that are like it.

    Args:
        diagnosis: of a failure; any other is given back as it is.
        concluded: from which it was made, with the bytes at hand.
        paths: what was diagnosed.
        folder: the folder of a team's records, `auto`, `here`, or None for the shipped records alone.

    Raises:
        PipelineError: the folder is not there.
    """
    own = None if folder is None else _folder(paths, folder)
    trigger = concluded.conclusion.answer.trigger
    if diagnosis.verdict.failed is False or (trigger is None and diagnosis.verdict.failed):
        return diagnosis
    origin = origin_of(concluded.conclusion, concluded.verifier)
    if trigger is None:
        scenes = _last_scenes(concluded)
    else:
        scenes = [_scene(diagnosis, origin, concluded.verifier.around(trigger.span, NEAR)[1])]
    found = [] if own is None else _looked_up(own, diagnosis, origin, scenes, asked=folder != HERE)
    # Without a cause a line of a launcher or a watchdog is all that is there; a traceback tells a place even then, and so do
    # the program's own words of its end.
    from firstfault.analysis.plain_words import PLAIN

    placed = trigger is None or bool(origin.frames) or trigger.signature == PLAIN
    found += _shipped(scenes) if placed or diagnosis.verdict.strength is not Strength.UNKNOWN else []
    distinct = {row.id: row for row in reversed(found)}
    rows = [row for row in found if distinct[row.id] is row][:MOST]
    return replace(diagnosis, seen_before=rows) if rows else diagnosis


def _looked_up(
    own: Path | str, diagnosis: Diagnosis, origin: Origin, scenes: Sequence[Scene], *, asked: bool
) -> list[SeenBefore]:
    """The records of a place; of one that nobody asked for only what can be read there."""
    from firstfault.incidents.errors import IncidentError

    try:
        return _own(own, diagnosis, origin, scenes)
    except (IncidentError, OSError):
        if asked:
            raise
        return []


def _folder(paths: Sequence[str | os.PathLike[str]], folder: str) -> Path | str | None:
    from firstfault.incidents.places import is_address

    if is_address(folder):
        return folder
    if folder not in {AUTO, HERE}:
        if not Path(folder).is_dir():
            raise PipelineError(
                "there is no such folder of records",
                where=f"--incidents {folder}",
                fix="Give the folder of your records, or start one by `firstfault incidents new`.",
            )
        return Path(folder)
    for start in _here() if folder == HERE else map(_absolute, paths):
        found = _in_repository_of(start)
        if found is not None and (folder == AUTO or _holds_records(found)):
            return found
    if folder == HERE:
        return None
    raise PipelineError(
        "no folder named `incidents` lies in the repository of a PATH",
        where="--incidents auto",
        fix="Give the folder itself: `--incidents DIR`.",
    )


def _here() -> list[Path]:
    """The folder that one stands in; none where it is gone."""
    try:
        return [Path.cwd()]
    except OSError:
        return []


def folder_around() -> Path | None:
    """The folder of records in the repository in which one stands; None where there is none."""
    found = next((place for start in _here() if (place := _in_repository_of(start)) is not None), None)
    return found if found is not None and _holds_records(found) else None


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they were named


def _in_repository_of(start: Path) -> Path | None:
    """The folder `incidents` in the repository around a place, the nearest one above it."""
    above = (start, *start.parents)
    root = next((i for i, place in enumerate(above) if (place / ".git").exists()), -1)
    # Outside a repository, such as in a temporary folder, anybody may have put a folder of that name.
    return next((place / "incidents" for place in above[: root + 1] if (place / "incidents").is_dir()), None)


def _holds_records(folder: Path) -> bool:
    """Whether a folder that nobody named is one of records, and no package or data of that name."""
    from firstfault.incidents.store import Store

    return any(name.endswith(".md") for name, _ in Store(folder).files()) and not (folder / "__init__.py").exists()


def _scene(diagnosis: Diagnosis, origin: Origin, near: list[str]) -> Scene:
    from firstfault.incidents.rules import Scene

    lines = [] if diagnosis.verdict.trigger is None else [diagnosis.verdict.trigger]
    lines += [line for link in diagnosis.chain[:1] for line in link.evidence]
    texts = dict.fromkeys(line.text.lower() for line in lines)
    return Scene(
        signature=origin.signature,
        category=str(diagnosis.verdict.category),
        texts=tuple(texts),
        frames=origin.frames,
        near=tuple(line[:WIDE].lower() for line in near),
    )


def _last_scenes(concluded: Concluded) -> list[Scene]:
    """The last lines of each log, where no line tells of a failure: what ended the work may be told there in plain words."""
    from firstfault.incidents.rules import Scene

    logs = [s for s in concluded.conclusion.scene.case.seen.sources if s.kind not in NO_LOGS]
    scenes = []
    for source in logs[:MOST_LOGS]:
        size = concluded.store.size(source.id)
        raw = concluded.store.read(source.id, max(0, size - TAIL), TAIL)
        lines = [line.strip().lower()[:WIDE] for line in raw.decode("utf-8", "replace").split("\n")]
        last = tuple(line for line in lines if line)[-LAST:]
        scenes += [Scene(signature="", category="", texts=(line,), frames=(), near=last) for line in last]
    return scenes


def _shipped(scenes: Sequence[Scene]) -> list[SeenBefore]:
    from firstfault.incidents.rules import shown
    from firstfault.incidents.table import table
    from firstfault.model.diagnosis import SeenBefore

    return [
        SeenBefore(
            id=row.id,
            title=row.title,
            state=row.state,
            verified=row.state == VERIFIED,
            fix=_short(row.fix),
            by="lines",
            equal=_told(rule),
        )
        for row in table()
        if (rule := next(filter(None, (shown(row.shown_by, scene) for scene in scenes)), ""))
    ]


def _told(rule: str) -> list[str]:
    from firstfault.incidents.rules import conditions

    return [f"{kind}: {value}" for kind, value in conditions(rule)]


def _own(folder: Path | str, diagnosis: Diagnosis, origin: Origin, scenes: Sequence[Scene]) -> list[SeenBefore]:
    from firstfault.incidents.fingerprint import traits_of
    from firstfault.incidents.places import index_at
    from firstfault.incidents.rules import shown
    from firstfault.incidents.similar import compared, known_again

    traits = traits_of(diagnosis, origin)
    with closing(index_at(folder)) as index:
        index.refresh()
        found = []
        # As above: such a line is alike in faults of every kind.
        if diagnosis.verdict.strength is not Strength.UNKNOWN or traits.place:
            found = [_row(one, "fingerprint") for one in known_again(index, traits, limit=MOST)]
        numbers = dict.fromkeys(n for rule, n in index.own_rules() if any(shown((rule,), scene) for scene in scenes))
        found += [_row(compared(record, traits), "lines") for _, record in index.records_of(numbers)]
    return found


def _row(one: Likeness, by: str) -> SeenBefore:
    from firstfault.incidents.lint import is_verified
    from firstfault.incidents.words import Section
    from firstfault.model.diagnosis import SeenBefore

    record = one.record
    return SeenBefore(
        id=record.id,
        title=record.title,
        state=str(record.state),
        verified=is_verified(record),
        fix=_short(" ".join(record.said(Section.FIX).split())),
        by="fingerprint" if by == "fingerprint" else "lines",
        equal=list(one.equal),
        differs=list(one.differs),
        date=record.one("date"),
        where=record.where if record.path is not None or record.place else "",
    )


def _short(text: str) -> str:
    return text if len(text) <= FIX else text[: FIX - 1].rpartition(" ")[0] + "…"
