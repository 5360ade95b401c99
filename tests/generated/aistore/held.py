"""Holds the diagnosis of a simulated storage incident against its truth.

The rules are those of `judge.py`; added are the names of one daemon (host, id) and what only storage incidents can be
asked. It neither simulates nor decides what is right.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

import checks
from firstfault.model.words import Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from judge import Judgement, judge, read_expected

from . import claims
from .scenario import GUILTY, build

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis, Evidence

    from .scenario import Spec


class Held(NamedTuple):
    """One incident with its truth and what was said about it."""

    spec: Spec
    truth: dict[str, Any]
    diagnosis: Diagnosis
    judgement: Judgement

    def problems(self) -> dict[str, str]:
        """What is wrong, by check; empty where all is right."""
        found = {name: check(self.judgement) for name, check in checks.CHECKS.items()}
        found["first_failed"] = self._first_failed()
        found["daemon_line"] = self._daemon_line()
        found["asks"] = self._asks()
        found["clocks"] = self._clocks()
        found["sure"] = self._sure()
        found["claims"] = claims.bare(self.diagnosis)
        return {name: problem for name, problem in found.items() if problem}

    def _sure(self) -> str:
        """Whether a daemon is named for sure where the end of another job alone speaks for it."""
        verdict = self.diagnosis.verdict
        if not self.truth.get("surely_nobody"):
            return ""
        if verdict.strength is Strength.ESTABLISHED or verdict.culprits.strength.level > Strength.POSSIBLE.level:
            return f"{verdict.culprits.storage_nodes} is named as {verdict.culprits.strength}"
        return ""

    def _first_failed(self) -> str:
        if self.judgement.first_failed is not False:
            return ""
        got, wanted = sorted(self.diagnosis.verdict.first_failed.ranks), self.truth["first_failed_ranks"]
        return f"ranks {got} are said to have failed first, it was {wanted}"

    def _daemon_line(self) -> str:
        """Whether a line of the daemons that belongs to the fault is shown as such."""
        lines = [step["line"] for step in self.truth["chain"]]
        if self.spec.kind not in GUILTY or not lines or self.spec.layout == "archives_error":
            return ""
        shown = [evidence for link in self.diagnosis.chain for evidence in link.evidence]
        if self.diagnosis.verdict.trigger is not None:
            shown.append(self.diagnosis.verdict.trigger)
        if any(_same(line, evidence) for line in lines for evidence in shown):
            return ""
        return "no line of the daemons that belongs to the fault stands in the chain"

    def _clocks(self) -> str:
        """Whether every moment that is told on both clocks lies right, and none is where nothing tells."""
        told = [self.diagnosis.verdict.summary, *(link.what for link in self.diagnosis.chain)]
        pairs = [match.groups() for text in told for match in BOTH_CLOCKS.finditer(text)]
        if pairs and not self.truth["decidable_offset"]:
            return "moments are told on the job's clock although no line joins the clocks"
        if self.truth.get("surely_nobody"):
            # No line tells the two ends apart: a moment on the job's clock is as possible as who is named, and no more.
            return (
                ""
                if any("--assume-zone" in asked for asked in self.diagnosis.collect_next)
                else "the zone is not asked for"
            )
        worker, store = self.spec.zones
        for pair in pairs:
            shown = store if pair[3] is None else _offset(pair[3])
            apart = _seconds(*pair[4:]) - _seconds(*pair[:3]) - (worker - shown) * 60
            # Skewed daemons are some seconds off, and only the time of day is told.
            if (apart + 43_200) % 86_400 - 43_200 not in range(-8, 9):
                return f"{':'.join(pair[:3])} {pair[3] or ''} is not {':'.join(pair[4:])} on the job's clock"
        return ""

    def _asks(self) -> str:
        """Whether the daemons' logs are asked for where they are missing."""
        if self.spec.kind not in ("no_daemon_logs", "origin_missing", "wrong_window"):
            return ""
        steps = " ".join([*self.diagnosis.verdict.action.steps, *self.diagnosis.collect_next])
        return "" if re.search(r"ais log|AIStore", steps) else "nobody is asked for the logs of the daemons"


BOTH_CLOCKS = re.compile(
    r"(\d\d):(\d\d):(\d\d)(?: (UTC|[+-]\d\d:\d\d))? \((?:[\d-]+[ T])?(\d\d):(\d\d):(\d\d) on the job's clock\)"
)


def _seconds(hours: str, minutes: str, seconds: str) -> int:
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _offset(zone: str) -> int:
    """Minutes east of Greenwich."""
    if zone == "UTC":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:6])
    return -minutes if zone[0] == "-" else minutes


def _same(line: dict[str, Any], evidence: Evidence) -> bool:
    name = line.get("member", line["file"]).rsplit("/", 1)[-1]
    return line["must_contain"] in evidence.text or (name in evidence.file and evidence.line == line["line"])


def hold(spec: Spec, folder: Path) -> Held:
    """Simulate, diagnose and judge one incident in an empty folder."""
    truth = build(spec, folder)
    storage = tuple(str(folder / name) for name in ("storage", "other_store") if (folder / name).is_dir())
    diagnosis = diagnose([folder / "logs"], DiagnoseOptions(storage=storage))
    expected = read_expected(truth)
    lines = tuple(dataclasses.replace(line, file=_shown(line.file)) for line in expected.trigger)
    judgement = judge(_called(diagnosis, truth), dataclasses.replace(expected, trigger=lines))
    return Held(spec, truth, diagnosis, judgement)


def _shown(file: str) -> str:
    """A file of the truth as a diagnosis of the folder `logs` shows it."""
    return file.removeprefix("logs/")


def _called(diagnosis: Diagnosis, truth: dict[str, Any]) -> Diagnosis:
    """The diagnosis with every daemon under the name that the truth has for it: host and id are one daemon."""
    names = {alias: name for name, aliases in truth["aliases"].items() for alias in aliases}
    culprits = diagnosis.verdict.culprits
    trigger = diagnosis.verdict.trigger
    if trigger is not None:
        # With the store's logs apart, both folders stand in front of the names.
        trigger = replace(trigger, file=_shown(trigger.file))
    renamed = replace(
        culprits, storage_nodes=_renamed(culprits.storage_nodes, names), hosts=_renamed(culprits.hosts, names)
    )
    return replace(diagnosis, verdict=replace(diagnosis.verdict, culprits=renamed, trigger=trigger))


def _renamed(values: Iterable[str], names: dict[str, str]) -> list[str]:
    return sorted({names.get(value, value) for value in values})
