"""Do the machines of a job run the same NCCL? Asked where communication failed at the start and no line names a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.order import sort_key
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event

VERSION = "nccl.version"
FAILED = ("nccl.", "torch.store", "gloo.")
"""Prefixes of the signatures whose lines show that ranks did not come together."""


def ask(scene: Scene) -> Answer | None:
    """The answer where machines state different versions; None where they agree, or where training had begun."""
    if scene.case.tracks or not any(e.signature.startswith(FAILED) for e in scene.effects):
        return None
    by_host: dict[str, Event] = {}
    for event in scene.events:
        host = scene.roster.host(event) if event.signature == VERSION and event.fields.get("version") else None
        if host is not None:
            by_host.setdefault(host, event)
    hosts: dict[str, list[str]] = {}
    for host, event in sorted(by_host.items()):
        hosts.setdefault(event.fields["version"], []).append(host)
    if len(hosts) < 2:
        return None
    rows = sorted(hosts.items(), key=lambda row: (len(row[1]), row[0]))
    fewest, rest = rows[0], [h for _, named in rows[1:] for h in named]
    alone = len(fewest[1]) < len(rows[1][1])
    named = Named(hosts=tuple(fewest[1]), strength=Strength.SUPPORTED) if alone else Named()
    lines = [by_host[h] for h in (*fewest[1], *rest)]
    told = "; ".join(f"{version} on {', '.join(found[:4])}" for version, found in rows)
    return Answer(
        question="versions",
        failed=True,
        category=Category.SOFTWARE,
        strength=Strength.SUPPORTED if alone else Strength.POSSIBLE,
        summary=f"The machines run different versions of NCCL ({told}): ranks of different ones may not understand each other's set-up.",
        trigger=lines[0],
        proof=(*lines[:4], *sorted(scene.effects, key=sort_key)[:2]),
        culprits=named,
        classes=Classes(
            domain=Domain.CONFIG,
            form=Form.FAILED_START,
            layer=Layer.COLLECTIVE,
            phase=Phase.START_UP,
            scope=Scope.NODE if alone and len(fewest[1]) == 1 else Scope.GROUP,
        ),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            f"Install the environment of the other machines on {', '.join(fewest[1][:4])}; compare pip list or the image's digest.",
        ),
    )
