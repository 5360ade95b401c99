"""Sentences, links and steps about the storage side, with every time on both clocks; decides nothing."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from firstfault.analysis.questions.storage_symptom import Symptom
from firstfault.analysis.state.storage import disk_event, stats_event
from firstfault.analysis.state.storage_faults import REBALANCE, Kind, Trouble
from firstfault.analysis.wording import duration, ranks_text
from firstfault.analysis.zones import EAST, WEST
from firstfault.model.findings import Link, Rival
from firstfault.model.lazy import lazy
from firstfault.model.storage import DaemonRole
from firstfault.model.words import Category, Strength
from firstfault.model.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.storage import StorageState
    from firstfault.analysis.state.storage_origin import Origin
    from firstfault.model.evidence import Event, GlobalRank
    from firstfault.model.storage import DiskLine

SAID = {
    "aistore.panic": "its process crashed",
    "aistore.daemon_fatal": "its process gave up",
    "aistore.started": "its process ended and was started anew",
    "aistore.stopping": "it was told to stop",
    "aistore.member_removed": "it did not answer and was taken out of the cluster map",
    "aistore.membership": "it joined the cluster as a new member, which sets off a rebalance",
    "aistore.disk_fault": "a disk of it failed",
    "aistore.out_of_space": "it ran out of space",
    "aistore.memory_critical": "it ran short of memory",
    "aistore.disk_critical": "its disks were saturated",
    "aistore.cpu_critical": "its processors were saturated",
    "aistore.out_of_bounds": "an entry came for a batch that it had given up, and the get-batch job was aborted",
    "aistore.batch_aborted": "its get-batch job was aborted",
    "aistore.batch_entry_missing": "entries of a batch did not come in time",
    "aistore.not_delivered": "what it sent to other targets did not arrive",
    "aistore.batch_failed": "a batch failed",
    "aistore.rejected": "it refused batches",
    "aistore.stream_ended": "streams between targets broke",
    "aistore.not_found": "data came for a get-batch job that was gone",
    "aistore.client_gone": "clients closed their connections",
}
"""What befell a daemon, as a clause."""
BY_HAND = (
    "mkdir -p ais_logs; for p in $(kubectl -n ais get pods -o name | grep -E 'ais-(target|proxy)'); do n=${p#pod/}; "
    "kubectl -n ais logs $n --timestamps > ais_logs/$n.log; "
    "kubectl -n ais logs $n --timestamps --previous > ais_logs/$n.previous.log; "
    "kubectl -n ais cp $n:/var/log/ais ais_logs/$n; done"
)
"""How to get the logs without the store's own command: what each pod says, said before a restart, and wrote to files."""
ANOTHER_END = (
    "the true time zone of the job's logs, as --assume-zone ZONE: the clocks are joined by where reads stopped, and the end of "
    "another job would look the same"
)
INFERRED = "How the store's clock lies to the job's is inferred: times on the job's clock may be whole hours off."
"""What is said where no line states or bears out the join of the clocks."""
DOUBTED = "The zone given for the job is in doubt: times on the job's clock may be whole hours off."
"""What is said where the logs speak against the zone that was given."""
NO_WAY = (
    "the network of the client's host at that time (kernel log, `ip route`, `ip link`): its error says that it had no way to the "
    "host that it asked, which load or a disk of a target does not bring about"
)
"""What would settle a connection for which there was no route."""
SHOWN = 3
APART = float(EAST - WEST)
"""Seconds by which two clocks can differ by their zones alone."""
_ADDRESS = lazy(
    r"(?P<scheme>https?)://(?P<host>[\w.-]+(?::\d+)?)/v1/|(?P<pool>HTTPS?)ConnectionPool\(host='(?P<name>[\w.-]+)'"
)


def clock(moment: float, zone: int | None) -> str:
    """A time of day with its zone: `05:31:01 UTC`, `11:01:01 +05:30`, `05:31:01` where the zone is unknown."""
    local = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=moment + (zone or 0))
    text = local.strftime("%H:%M:%S")
    if zone is None:
        return text
    if zone == 0:
        return f"{text} UTC"
    return f"{text} {zone_name(zone)}"


def both_clocks(state: StorageState, at: float, zone: int | None) -> str:
    """A moment of the store on the daemon's clock and on the job's."""
    when = state.job_time(at)
    if when.earliest is None:
        return clock(at, zone)
    return f"{clock(at, zone)} ({_job(state, when.earliest)} on the job's clock)"


def _job(state: StorageState, moment: float) -> str:
    zone = state.job.zone
    if not state.job.utc or zone is None:
        return clock(moment, None)
    if zone == "Z":
        return clock(moment, None if state.clock.why else 0)
    sign = -1 if zone[0] == "-" else 1
    east = sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    # A zone given by hand that does not fit is not put beside the times that show it.
    return clock(moment + east, None) if state.clock.how != "stated" else clock(moment, east)


def _zone(state: StorageState, trouble: Trouble) -> int | None:
    if trouble.daemon is not None:
        return trouble.daemon.zone
    # None of its own logs are here: the line is one of another daemon.
    return next((d.zone for d in state.daemons if d.zone is not None), None)


def _side(trouble: Trouble) -> str:
    if trouble.daemon is not None and trouble.daemon.daemon.role is DaemonRole.PROXY:
        return "Storage proxy"
    return "Storage target"


def what(state: StorageState, trouble: Trouble) -> str:
    """One trouble as a sentence without its full stop."""
    if unseen_end(trouble):
        moment = both_clocks(state, trouble.first.at, _zone(state, trouble))
        return f"{_side(trouble)} {trouble.full}: {said(trouble)}, its last word before that was at {moment}"
    reason = next((path for m in trouble.moments if (path := m.event.fields.get("path", ""))), "")
    detail = f" ({reason})" if reason and trouble.signature == "aistore.disk_fault" else _for_rebalance(trouble)
    return (
        f"{_side(trouble)} {trouble.full}: {said(trouble)}{detail}, "
        f"{'from' if len(trouble.moments) > 1 and trouble.kind is Kind.LOAD else 'at'} "
        f"{both_clocks(state, trouble.first.at, _zone(state, trouble))}"
    )


def unseen_end(trouble: Trouble) -> bool:
    """Whether a process ended that left no word of it: only its start anew is told, and when it spoke last."""
    began = trouble.first.event.when.earliest
    return trouble.signature == "aistore.started" and began is not None and began - trouble.first.at > 1.0


def said(trouble: Trouble) -> str:
    """What befell a daemon, as a clause: what its line itself says where a signature holds several things."""
    if trouble.signature == "aistore.batch_entry_missing":
        text = trouble.first.event.text
        if "soft-errors limit" in text or "GFN fail" in text:
            return "it could not get entries of a batch, as where objects are not in the cluster"
        return "it waited in vain for entries of a batch, which others had to send"
    return SAID[trouble.signature]


def _for_rebalance(trouble: Trouble) -> str:
    """Why a get-batch job was aborted, where the line says that data was being moved."""
    if trouble.signature != "aistore.batch_aborted" or not REBALANCE.search(trouble.first.event.text):
        return ""
    return " because a rebalance began"


def summary(scene: Scene, answer: Answer, state: StorageState, found: Origin, seen: Symptom) -> str:
    """The verdict in a few sentences."""
    parts = [f"{what(state, found.trouble)}."]
    if found.batch is not None and found.batch.first.event is not found.trouble.first.event:
        where = "There" if found.batch.node == found.trouble.node else f"At {found.batch.shown}"
        clause = said(found.batch) + _for_rebalance(found.batch)
        parts.append(f"{where}: {clause}, at {both_clocks(state, found.batch.first.at, _zone(state, found.batch))}.")
    failed = answer.first_failed.ranks or answer.culprits.ranks
    if failed:
        parts.append(_victims(failed, seen))
    hang = scene.hang
    if hang is not None and hang.waiters:
        others = [r for r in hang.waiters if r not in set(failed)]
        if others:
            wait = f" for {duration(hang.waited_ms)}" if hang.waited_ms is not None else ""
            parts.append(f"{ranks_text(others).capitalize()} only waited{wait}.")
    return " ".join(parts)


def _victims(failed: Sequence[GlobalRank], seen: Symptom) -> str:
    """What the job shows of the ranks that failed first, and no more."""
    who = ranks_text(failed).capitalize()
    if seen is Symptom.WAIT:
        return f"No line shows what {ranks_text(failed)} did: that {'it' if len(failed) == 1 else 'they'} waited for data would fit."
    if seen is Symptom.CONTENT:
        return f"{who} could not decode what {'it' if len(failed) == 1 else 'they'} had read."
    return f"{who} got {'its' if len(failed) == 1 else 'their'} data short or not at all."


def links(state: StorageState, found: Origin, active: Sequence[Trouble]) -> tuple[Link, ...]:
    """What happened on the storage side, by time: the root first, then what followed from it."""
    root = found.trouble
    shown = [_link(what(state, root), "it is the earliest trouble at the origin", _of(root))]
    busy = _disks(state, root)
    if busy:
        disks = ", ".join(f"{e.fields['disk']} at {both_clocks(state, at, _zone(state, root))}" for at, e in busy)
        shown.append(
            _link(
                f"{_side(root)} {root.full}: its busiest disks were {disks}",
                "its own disk lines show it",
                [e for _, e in busy],
            )
        )
    for trouble in sorted(active, key=lambda t: (t.first.at, t.node, t.signature)):
        if trouble.first.event is root.first.event or trouble.last.at < root.first.at:
            continue
        if trouble.kind is Kind.LOAD and trouble.node != root.node:
            continue
        shown.append(_link(what(state, trouble), _why(trouble, found), _of(trouble)))
    return tuple(_merged(shown))


def _merged(listed: Sequence[Link]) -> Iterable[Link]:
    """At most eight links: many targets tell the same of one abort."""
    if len(listed) <= 8:
        return listed
    return [*listed[:6], *listed[-2:]]


def _why(trouble: Trouble, found: Origin) -> str:
    if trouble.kind is Kind.BATCH:
        if _for_rebalance(trouble):
            return "a rebalance ends the get-batch jobs of all targets"
        if trouble.signature == "aistore.batch_entry_missing" and trouble.node != found.trouble.node:
            return "the target that puts a batch together waits for what the others send"
        if trouble.node == found.trouble.node:
            return "a target in trouble is late with its batches"
        return "an abort at one target ends the job on all of them"
    if trouble.kind is Kind.ECHO:
        return "it follows from the abort or from the client's going, whichever came before it"
    return "it came after the first trouble"


def _of(trouble: Trouble) -> list[Event]:
    # The line whose time the sentence tells stands first.
    told = trouble.first.event
    events = [told, *(m.event for m in trouble.moments if m.event is not told)]
    if trouble.daemon is not None and unseen_end(trouble):
        # The line of the last word, whose time is told.
        events += [stats_event(trouble.daemon, at, line) for at, line in trouble.daemon.stats if at == trouble.first.at]
    return events if len(events) <= SHOWN else [*events[: SHOWN - 1], events[-1]]


def _link(said: str, why: str, events: Sequence[Event]) -> Link:
    return Link(what=said, why=why, events=tuple(events), spans=tuple(e.span for e in events))


def _disks(state: StorageState, root: Trouble) -> list[tuple[float, Event]]:
    """The busiest line of each disk of the origin before the job stood still."""
    daemon, stop = root.daemon, state.stop
    if daemon is None or stop is None or root.signature not in {"aistore.disk_critical", "aistore.disk_fault"}:
        return []
    best: dict[str, tuple[float, DiskLine]] = {}
    for at, disk in daemon.disks:
        if root.first.at - 300 <= at <= stop and (disk.disk not in best or disk.util > best[disk.disk][1].util):
            best[disk.disk] = (at, disk)
    return [(at, disk_event(daemon, at, disk)) for at, disk in list(best.values())[:SHOWN]]


def carried_alike(state: StorageState, found: Origin) -> str:
    """That most targets carried the load of the origin."""
    return f"{found.alike} of {state.target_count} targets carried that load at the time: the whole store may be too slow for what is asked of it."


def nobody(state: StorageState, batches: Sequence[Trouble]) -> str:
    """What the store shows of failed batches where it does not tell at which target they failed."""
    first = min(batches, key=lambda t: (t.first.at, t.node, t.signature))
    alike = {t.node for t in batches if t.signature == first.signature}
    others = f" (so on {len(alike)} targets)" if len(alike) > 1 else ""
    return f"{what(state, first)}{others}. That does not tell which target is at fault."


def rival(state: StorageState, trouble: Trouble) -> Rival:
    """The store as another explanation."""
    return Rival(
        category=Category.STORAGE_IO,
        strength=Strength.POSSIBLE,
        supports=(what(state, trouble),),
        against=("no line of the job shows a read that failed",),
        settled_by=("stacks of the late ranks (py-spy dump): whether they stood in a read",),
    )


def steps(found: Origin, advice: tuple[str, ...], answer: Answer) -> tuple[str, ...]:
    """What to do, the origin first."""
    first = f"On {found.trouble.full}: " + (
        advice[0][:1].lower() + advice[0][1:] if advice else "read its log around that time."
    )
    return tuple(dict.fromkeys((first, *advice[1:], *answer.steps)))


def missing_daemons(state: StorageState, found: Origin) -> tuple[str, ...]:
    """Logs that are not there and would tell more."""
    asked = []
    if found.trouble.daemon is None:
        asked.append(
            f"the logs of storage node {found.trouble.shown}, which the others name: `ais log get {found.trouble.node} DIR --all`"
        )
    if state.targets is not None and state.targets > state.target_count:
        asked.append(
            f"the logs of the other {state.targets - state.target_count} of {state.targets} targets: `ais log get cluster DIR`"
        )
    return tuple(asked)


def silent_store(state: StorageState, moved: Mapping[str, int]) -> tuple[str, ...]:
    """What to say where the daemons that were given show no reason."""
    asked = []
    if state.targets is not None and state.targets > state.target_count:
        asked.append(
            f"the logs of the other {state.targets - state.target_count} of {state.targets} targets: those given show no fault at that time"
        )
    uncovered = [d.daemon.shown for d in state.daemons if not d.covers]
    if uncovered:
        asked.append(f"logs that reach over the failure, of {', '.join(uncovered[:6])}: `ais log get NODE DIR --all`")
    if moved:
        named = ", ".join(f"{n} ({v})" for n, v in sorted(moved.items()))
        asked.append(f"a higher log level on the targets whose error counters rose then: {named}")
    if not asked:
        asked.append("the client's side of the failed read (network, timeouts): the daemons show no fault at that time")
    return tuple(asked)


def _day(moment: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=moment)).strftime("%Y-%m-%d %H:%M")


def get_logs(scene: Scene) -> tuple[str, ...]:
    """The exact steps to get the daemons' logs, with what the job's lines tell of the cluster's address."""
    texts = [e.text for e in scene.events if e.signature.startswith(("aistore.", "storage.", "data."))]
    found = [m for text in texts for m in _ADDRESS.finditer(text)]
    secure = any((m["scheme"] or m["pool"] or "").lower().startswith("https") for m in found)
    proxies = sorted({m["host"] or m["name"] for m in found if "proxy" in (m["host"] or m["name"])})
    scheme = "https" if secure else "http"
    endpoint = f"{scheme}://{proxies[0] if proxies else 'PROXY:51080'}"
    if proxies and ":" not in proxies[0]:
        endpoint += ":51080"
    tls = ""
    if secure:
        tls = (
            " For its TLS, first: `export AIS_CLIENT_CA=CA.pem`, and where clients need a certificate: "
            "`export AIS_CRT=CERT.pem AIS_CRT_KEY=KEY.pem`."
        )
    elif not found:
        tls = (
            " Where it has TLS, write `https://`, and first: `export AIS_CLIENT_CA=CA.pem`, and where clients need a certificate: "
            "`export AIS_CRT=CERT.pem AIS_CRT_KEY=KEY.pem`."
        )
    by_command = (
        "Get the storage daemons' logs before they rotate, by any proxy, from where the cluster can be reached: "
        f"`export AIS_ENDPOINT={endpoint}; mkdir -p ais_logs; ais log get cluster ais_logs/`. Where authentication is on, first "
        f"`ais auth login USER`, or `export AIS_AUTHN_TOKEN_FILE=TOKEN`.{tls}"
    )
    by_hand = f"Or by hand, all daemons: `{BY_HAND}`"
    return (by_command, by_hand, "Then: `firstfault diagnose LOGS --storage ais_logs/`")


def ask_to_place(state: StorageState) -> tuple[str, ...]:
    """What would place the daemons' lines on the job's clock: other logs where these cannot be of that time, else the zone."""
    if all(d.daemon.role is DaemonRole.PROXY for d in state.daemons):
        return (
            "the logs of the storage targets: those given are of proxies, which no batch passes: `ais log get cluster ais_logs/`",
        )
    reach = [(d.begins, d.ends) for d in state.daemons if d.begins is not None and d.ends is not None]
    stop = state.job.stop
    if reach and stop is not None and all(a > stop + APART or b < stop - APART for a, b in reach):
        first, last = (_day(moment) for moment in (min(a for a, _ in reach), max(b for _, b in reach)))
        return (
            (
                f"the storage daemons' logs of the time of the failure ({_day(stop)} on the job's clock): those given are of "
                f"{first} to {last}: `ais log get cluster ais_logs/`"
            ),
        )
    why = f" ({state.clock.why})" if state.clock.why else ""
    return (
        f"the time zone of the job's logs, as --assume-zone ZONE: how the daemons' clock lies to the job's is not known{why}",
    )
