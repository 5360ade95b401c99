"""Fills "seen before" of a diagnosis: past incidents that are like it, from the shipped records and a team's own.

Changes nothing else of the diagnosis: no category, no strength, no culprit rests on what was seen before.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.words import Strength
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.conclude import Conclusion
    from firstfault.incidents.origin import Origin
    from firstfault.incidents.rules import Scene
    from firstfault.incidents.similar import Likeness
    from firstfault.model.diagnosis import Diagnosis, SeenBefore
    from firstfault.pipelines.diagnose import Concluded

NEAR, WIDE = 8, 400
"""Lines on each side of the first one that a rule may ask for, and characters of each."""
MOST = 3
"""Past incidents that a diagnosis names."""
FIX = 300
"""Characters of a past fix that it quotes."""
VERIFIED = "verified"
AUTO = "auto"
"""Instead of a folder: that named `incidents` in the repository in which a PATH lies."""
HERE = "here"
"""Instead of a folder: that named `incidents` in the repository in which the command is called; none where there is none."""


def origin_of(conclusion: Conclusion) -> Origin:
    """What the first line tells beyond its text: its signature, and the frames of its traceback."""
    from firstfault.incidents.origin import Origin

    trigger = conclusion.answer.trigger
    if trigger is None:
        return Origin()
    if trigger.exception is None or not trigger.exception.frames:
        return Origin(signature=trigger.signature)
    frames = [f"{f.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{f.function}" for f in trigger.exception.frames]
    own = trigger.exception.user_frame
    index = (
        len(frames) - 1 if own is None or own not in trigger.exception.frames else trigger.exception.frames.index(own)
    )
    return Origin(signature=trigger.signature, place=frames[index], frames=tuple(frames))


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
    if diagnosis.verdict.failed is False or trigger is None:
        return diagnosis
    origin = origin_of(concluded.conclusion)
    scene = _scene(diagnosis, origin, concluded.verifier.around(trigger.span, NEAR)[1])
    found = [] if own is None else _looked_up(own, diagnosis, origin, scene, asked=folder != HERE)
    # Without a cause a line of a launcher or a watchdog is all that is there; a traceback tells a place even then.
    found += _shipped(scene) if diagnosis.verdict.strength is not Strength.UNKNOWN or origin.frames else []
    distinct = {row.id: row for row in reversed(found)}
    rows = [row for row in found if distinct[row.id] is row][:MOST]
    return replace(diagnosis, seen_before=rows) if rows else diagnosis


def _looked_up(own: Path | str, diagnosis: Diagnosis, origin: Origin, scene: Scene, *, asked: bool) -> list[SeenBefore]:
    """The records of a place; of one that nobody asked for only what can be read there."""
    from firstfault.incidents.errors import IncidentError

    try:
        return _own(own, diagnosis, origin, scene)
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


def _shipped(scene: Scene) -> list[SeenBefore]:
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
        if (rule := shown(row.shown_by, scene))
    ]


def _told(rule: str) -> list[str]:
    from firstfault.incidents.rules import conditions

    return [f"{kind}: {value}" for kind, value in conditions(rule)]


def _own(folder: Path | str, diagnosis: Diagnosis, origin: Origin, scene: Scene) -> list[SeenBefore]:
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
        numbers = dict.fromkeys(number for rule, number in index.own_rules() if shown((rule,), scene))
        found += [_row(compared(record, traits), "lines") for _, record in index.records_of(numbers)]
    return found


def _row(one: Likeness, by: str) -> SeenBefore:
    from firstfault.incidents.words import Section, State
    from firstfault.model.diagnosis import SeenBefore

    record = one.record
    return SeenBefore(
        id=record.id,
        title=record.title,
        state=str(record.state),
        verified=record.state is State.VERIFIED,
        fix=_short(" ".join(record.said(Section.FIX).split())),
        by="fingerprint" if by == "fingerprint" else "lines",
        equal=list(one.equal),
        differs=list(one.differs),
        date=record.one("date"),
        where=record.where if record.path is not None or record.place else "",
    )


def _short(text: str) -> str:
    return text if len(text) <= FIX else text[: FIX - 1].rpartition(" ")[0] + "…"
