"""Sentences of a verdict, in English."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.suspects import bare_message
from firstfault.privacy.secrets import SecretFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.answer import Named
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, Frame

SHOWN = 6
"""Ranks or hosts shown before a list is cut."""
CPP = "torch.cpp_exception"
"""Signature of the words of a C++ exception, which tell more than its title."""
QUOTED = 90
"""Characters of an exception's message shown in a sentence, where nothing but the message says what happened."""


def ranges(numbers: Iterable[int], *, most: int = SHOWN, more: str = "({n} more runs)") -> str:
    """Numbers as `0-3, 7`, each once; beyond `most` runs how many more there are, in the words of `more`."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:most]]
    hidden = len(runs) - len(parts)
    return ", ".join(parts) + (f" … {more.format(n=hidden)}" if hidden else "")


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3` or `ranks 0-7`; empty for none."""
    if not ranks:
        return ""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def hosts_text(hosts: Sequence[str]) -> str:
    """Host names, the first few."""
    return ", ".join(hosts[:SHOWN]) + (f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else "")


def who_text(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    """` on rank 3 (node-a)`, ` on node-a`, or nothing."""
    if ranks and hosts:
        return f" on {ranks_text(ranks)} ({hosts_text(hosts)})"
    if ranks:
        return f" on {ranks_text(ranks)}"
    return f" on {hosts_text(hosts)}" if hosts else ""


def duration(ms: int) -> str:
    """A duration as people say it."""
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def size_text(size: int) -> str:
    """A number of bytes as the allocator prints it."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} bytes"


def frame_text(frame: Frame) -> str:
    """A frame as `function (file:line)`: no folders, no arguments of C++, and no line or file where none is known."""
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
    function = _without_arguments(frame.function)
    if not name:
        return function
    return f"{function} ({name}:{frame.line})" if frame.line else f"{function} ({name})"


def _without_arguments(function: str) -> str:
    """The name of a function of C++ without the list of its arguments' types."""
    if "::" not in function or not function.endswith((")", ") const")):
        return function
    depth, end = 0, function.rfind(")")
    for at in range(end, -1, -1):
        depth += (function[at] == ")") - (function[at] == "(")
        if depth == 0:
            name = function[:at]
            return function if not name or name.endswith("operator") else name
    return function


def _without_secrets(text: str) -> str:
    """A text that is to be cut: half of a secret tells much of it, and is known for one by nobody who sees only that."""
    return SecretFilter().clean(text)


def beginning(text: str, limit: int, rest: str = "") -> str:
    """A line's first characters, at most `limit` with `rest` for what was cut away; secrets are taken out before."""
    text = text.strip()
    if len(text) <= limit:
        return text
    text = _without_secrets(text)
    return text if len(text) <= limit else text[: limit - len(rest)] + rest


def clipped(text: str, limit: int) -> str:
    """A text in at most `limit` characters, cut behind a whole word where one ends near enough, with `…` for the rest."""
    if len(text) > limit:
        text = _without_secrets(text)
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    blank = kept.rfind(" ")
    if not text[limit - 1].isspace() and blank >= limit // 2:
        kept = kept[:blank]
    return kept.rstrip(" ,;:") + "…"


def both_ends(text: str, limit: int) -> str:
    """A text in at most `limit` characters, with `…` for its middle: what an error is about often stands at its end."""
    if len(text) > limit:
        text = _without_secrets(text)
    if len(text) <= limit:
        return text
    tail = text[-(limit // 2) :]
    blank = tail.find(" ")
    tail = tail[blank + 1 :] if 0 <= blank < len(tail) // 2 else tail
    return f"{clipped(text, limit - len(tail) - 1)} {tail}"


def what_text(root: Suspect) -> str:
    """What happened; an exception's own words only where no signature says what they mean: the line itself is quoted anyway."""
    exception = root.first.exception
    if exception is None:
        return _said(root.first) or root.nature.title
    thrown = root.nature.key == CPP
    if not thrown and not root.nature.key.startswith("python."):
        kind = exception.kind.rsplit(".", 1)[-1]
        return root.nature.title if kind in root.nature.title else f"{root.nature.title} ({kind})"
    head = exception.message.split("\n", 1)[0].strip()
    place = f" in {frame_text(exception.user_frame)}" if exception.user_frame is not None else ""
    return (f"{exception.kind}: {both_ends(head, QUOTED)}" if head else exception.kind) + place


def _said(event: Event) -> str:
    """A last line of a traceback that stands alone, from its class on; empty where the line is another, or has no message."""
    kind, said = event.fields.get("exception", ""), bare_message(event)
    return f"{kind}: {both_ends(said, QUOTED)}" if said else ""


def sentence(root: Suspect, named: Named, failed: Named, scene: Scene) -> str:
    """The verdict in one or two sentences."""
    # Who failed first may be a victim of a fault that is no rank's: what struck it is not said of it.
    own = bool(named.ranks) or set(failed.ranks) <= set(root.everyone)
    ranks = named.ranks or (failed.ranks if own else ())
    hosts = named.hosts or (failed.hosts if own else ())
    text = f"{what_text(root)}{who_text(ranks, hosts)}{_process(root, ranks)}{_reporters(root, ranks, scene)}.{_group_rank(root, scene)}"
    waited = scene.hang
    if waited is not None and waited.waiters:
        away = scene.chart.waits_there(waited, root.first)
        if away:
            # Who stays away elsewhere is not explained by what befell a machine whose ranks all came.
            return f"{text} All ranks of {scene.roster.host(root.first)} wait, so that it does not tell why {ranks_text(sorted(away))} did not come."
        blamed = set(ranks)
        others = [r for r in waited.waiters if r not in blamed]
        if others:
            wait = f" for {duration(waited.waited_ms)}" if waited.waited_ms is not None else ""
            text += f" {ranks_text(others).capitalize()} only waited for it{wait}."
    return text


def _process(root: Suspect, shown: Sequence[int]) -> str:
    """The process that a line names, where it is no rank: a server beside the job, with a file of its own."""
    label, pid = root.first.who.label, root.first.who.pid
    if shown or root.everyone or label is None or pid is None or not label.endswith(f" pid={pid}"):
        return ""
    return f" in {label.removesuffix(f' pid={pid}')} (process {pid})"


def _reporters(root: Suspect, shown: Sequence[int], scene: Scene) -> str:
    """How many ranks report a fault, where more do than were named; else how many processes of its machine."""
    everyone = root.everyone
    if len(everyone) > 1 and set(everyone) - set(shown):
        return f"; {len(everyone)} ranks report it"
    if everyone or len(root.hosts) != 1:
        return ""
    host = root.hosts[0]
    told = {e.who.pid for e in root.events if e.who.pid is not None}
    known = {e.who.pid for e in scene.events if e.who.pid is not None and scene.roster.host(e) == host}
    return f"; {len(told)} of {len(known)} processes there report it" if len(told) > 1 and told <= known else ""


def _group_rank(root: Suspect, scene: Scene) -> str:
    """A remark where the line itself shows another number: the rank inside its process group."""
    event = root.first
    inner, rank = event.who.group_rank, scene.roster.rank(event)
    if inner is None or rank is None or int(inner) == int(rank) or list(root.ranks) != [rank]:
        return ""
    return f" `Rank {inner}` in its line is its number inside the process group."
