"""Holds a start that failed for no reason that a line tells against the settings that lie beside its logs.

What is wrong with a script is known from `firstfault.config`; that it is why the start failed is a possibility and no more.
Asked only where a job never came to its first collective; a script that would stop a job says nothing of one that ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.evidence import Event, Span, When
from firstfault.model.words import ActionKind, Category, Domain, Form, Phase, SourceKind, Strength

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.config import ConfigFinding
    from firstfault.model.evidence import Source
    from firstfault.readers.store import Store

MOST_BYTES = 256 << 10
"""Size above which a file beside the logs is no script."""
MOST_FILES = 8
_OF_STARTS = ("launch.", "slurm.")
"""Rooms of checks that speak of how ranks are started."""
_WARNED = "launch.srun"
"""The one check of which a warning counts too: what it doubts is whether the other nodes were started, and they did not come."""


def heed_settings(scene: Scene, answer: Answer, store: Store) -> Answer:
    """The answer about a start that failed for an unknown reason, with a setting that would bring that about."""
    start = answer.classes.form is Form.FAILED_START or answer.classes.phase is Phase.START_UP
    if not answer.failed or answer.category is not Category.UNKNOWN or not start or scene.case.tracks:
        return answer
    scripts = [s for s in scene.case.seen.sources if s.kind is SourceKind.CONFIG and 0 < store.size(s.id) <= MOST_BYTES]
    if not scripts:
        return answer
    from firstfault.config.check import check

    texts = {s.path: store.read(s.id, 0, store.size(s.id)) for s in scripts[:MOST_FILES]}
    found = check([(path, raw.decode("utf-8", "replace")) for path, raw in texts.items()]).findings
    for finding in found:
        told = finding.state == "fail" or finding.check == _WARNED
        source = next((s for s in scripts if s.path == finding.file), None)
        if told and finding.check.startswith(_OF_STARTS) and finding.line and source is not None:
            line = _line(source, texts[source.path], finding.line)
            return answer if line is None else _by(answer, finding, line)
    return answer


def _line(source: Source, raw: bytes, number: int) -> Event | None:
    lines = raw.split(b"\n")
    if number > len(lines) or not lines[number - 1].strip():
        return None
    text = lines[number - 1].rstrip(b"\r")
    span = Span(source.id, sum(len(line) + 1 for line in lines[: number - 1]), len(text), number, 1)
    return Event(signature="settings.line", span=span, text=text.decode("utf-8", "backslashreplace"), when=When())


def _by(answer: Answer, finding: ConfigFinding, line: Event) -> Answer:
    return replace(
        answer,
        category=Category.SOFTWARE,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary} The script that lies here may tell why: {finding.what} ({finding.file}:{finding.line}); {finding.why}.",
        trigger=line,
        proof=(line, *answer.proof),
        classes=replace(answer.classes, domain=Domain.CONFIG),
        action=ActionKind.FIX_AND_RERUN,
        steps=(*((finding.fix,) if finding.fix else ()), *answer.steps),
    )
