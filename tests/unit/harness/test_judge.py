"""The judge itself, on made-up diagnoses: a judge that lets something pass would hide it everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from firstfault.model.diagnosis import Action, Classes, Culprits, Diagnosis, Evidence, FirstFailed, Verdict
from firstfault.model.words import ActionKind, Category, Strength
from judge import judge, read_expected

EXPECTED: dict[str, Any] = {
    "category": "data",
    "acceptable": ["data", "software"],
    "strength_at_most": None,
    "culprit_ranks": [5],
    "culprit_hosts": ["node-02"],
    "first_failed_ranks": [5],
    "trigger": [{"file": "train.log", "line": 40, "must_contain": "index out of bounds"}],
    "must_not": {"category": ["network"], "ranks": [0], "hosts": ["node-01"]},
}


def expected(**changes: Any) -> dict[str, Any]:
    return {**EXPECTED, **changes}


def diagnosis(
    category: str = "data",
    strength: str = "established",
    *,
    ranks: tuple[int, ...] = (5,),
    hosts: tuple[str, ...] = ("node-02",),
    storage_nodes: tuple[str, ...] = (),
    sure_of_whom: str | None = None,
    first_failed: tuple[int, ...] = (5,),
    trigger: tuple[str, int, str] | None = ("train.log", 40, "assert: index out of bounds"),
) -> Diagnosis:
    return Diagnosis(
        verdict=Verdict(
            failed=True,
            category=Category(category),
            strength=Strength(strength),
            summary="made up",
            culprits=Culprits(
                ranks=list(ranks),
                hosts=list(hosts),
                storage_nodes=list(storage_nodes),
                strength=Strength(sure_of_whom or strength),
            ),
            first_failed=FirstFailed(ranks=list(first_failed)),
            trigger=None if trigger is None else Evidence(file=trigger[0], line=trigger[1], column=1, text=trigger[2]),
            classes=Classes(),
            action=Action(kind=ActionKind.FIX_AND_RERUN),
        )
    )


def test_the_right_answer_is_right_in_everything() -> None:
    judged = judge(diagnosis(), EXPECTED)
    assert (judged.acceptable, judged.strict, judged.culprits_exact, judged.first_failed, judged.trigger) == (True,) * 5
    assert (judged.confidently_wrong, judged.must_not) == ((), ())


@pytest.mark.parametrize(
    ("category", "at_most", "acceptable", "strict"),
    [
        ("software", None, True, False),
        ("network", None, False, False),
        ("unknown", None, False, False),
        ("unknown", "possible", True, False),
        ("unknown", "unknown", True, False),
    ],
)
def test_category(category: str, at_most: str | None, acceptable: bool, strict: bool) -> None:
    judged = judge(diagnosis(category, "unknown"), expected(strength_at_most=at_most))
    assert (judged.acceptable, judged.strict) == (acceptable, strict)


@pytest.mark.parametrize(
    ("strength", "wrong"), [("established", True), ("supported", True), ("possible", False), ("unknown", False)]
)
def test_an_unacceptable_category_is_confidently_wrong_from_supported_on(strength: str, wrong: bool) -> None:
    assert bool(judge(diagnosis("numerical", strength), EXPECTED).confidently_wrong) is wrong


@pytest.mark.parametrize("at_most", ["possible", "unknown"])
@pytest.mark.parametrize(
    ("category", "strength", "wrong"),
    [("data", "supported", True), ("data", "possible", False), ("unknown", "unknown", False)],
)
def test_a_claim_beyond_what_the_log_holds_is_confidently_wrong(
    at_most: str, category: str, strength: str, wrong: bool
) -> None:
    judged = judge(diagnosis(category, strength), expected(strength_at_most=at_most))
    assert bool(judged.confidently_wrong) is wrong


@pytest.mark.parametrize(
    ("ranks", "wanted", "exact", "wrong"),
    [
        ((5,), [5], True, False),
        ((), [5], False, False),
        ((5, 6), [5], False, True),
        ((6,), [5], False, True),
        ((0,), [], False, True),
        ((), [], True, False),
        ((6,), None, None, False),
    ],
)
def test_ranks_are_an_exact_set(
    ranks: tuple[int, ...], wanted: list[int] | None, exact: bool | None, wrong: bool
) -> None:
    judged = judge(diagnosis(ranks=ranks), expected(culprit_ranks=wanted))
    assert judged.ranks_exact is exact
    assert bool(judged.confidently_wrong) is wrong


@pytest.mark.parametrize(
    ("hosts", "storage_nodes", "wanted", "exact", "wrong"),
    [
        (("node-02",), (), ["node-02"], True, False),
        ((), ("target-3",), ["target-3"], True, False),
        (("node-02",), ("target-3",), ["target-3"], False, True),
        ((), (), ["node-02"], False, False),
        (("node-02",), (), [], False, True),
        (("node-02",), (), None, None, False),
    ],
)
def test_hosts_are_an_exact_set_with_storage_nodes_among_them(
    hosts: tuple[str, ...], storage_nodes: tuple[str, ...], wanted: list[str] | None, exact: bool | None, wrong: bool
) -> None:
    judged = judge(diagnosis(hosts=hosts, storage_nodes=storage_nodes), expected(culprit_hosts=wanted))
    assert judged.hosts_exact is exact
    assert bool(judged.confidently_wrong) is wrong


@pytest.mark.parametrize(
    ("strength", "sure_of_whom", "wrong"),
    [
        ("unknown", "established", True),
        ("possible", "supported", True),
        ("established", "possible", True),
        ("possible", "possible", False),
    ],
)
def test_whom_is_confidently_wrong_by_the_stronger_word(strength: str, sure_of_whom: str, wrong: bool) -> None:
    judged = judge(diagnosis(strength=strength, ranks=(7,), sure_of_whom=sure_of_whom), EXPECTED)
    assert bool(judged.confidently_wrong) is wrong


def test_culprits_are_exact_only_where_ranks_and_hosts_are() -> None:
    assert judge(diagnosis(hosts=()), EXPECTED).culprits_exact is False
    assert judge(diagnosis(hosts=()), expected(culprit_hosts=None)).culprits_exact is True
    assert judge(diagnosis(), expected(culprit_hosts=None, culprit_ranks=None)).culprits_exact is None


@pytest.mark.parametrize(
    ("trigger", "right"),
    [
        (("train.log", 40, "cut"), True),
        (("train.log", 38, "cut"), True),
        (("train.log", 42, "cut"), True),
        (("train.log", 37, "cut"), False),
        (("train.log", 43, "cut"), False),
        (("other.log", 40, "cut"), False),
        (("other.log", 7, "the same: index out of bounds"), True),
        (None, False),
    ],
)
def test_trigger(trigger: tuple[str, int, str] | None, right: bool) -> None:
    assert judge(diagnosis(trigger=trigger), EXPECTED).trigger is right


def test_where_no_line_is_listed_no_trigger_is_right_and_another_is_not_judged() -> None:
    assert judge(diagnosis(trigger=None), expected(trigger=[])).trigger is True
    assert judge(diagnosis(), expected(trigger=[])).trigger is None


@pytest.mark.parametrize(
    ("category", "strength", "ranks", "hosts", "broken"),
    [
        ("network", "possible", (), (), ("category network",)),
        ("network", "unknown", (), (), ()),
        ("data", "possible", (0, 5), (), ("rank 0",)),
        ("data", "possible", (), ("node-01",), ("host node-01",)),
        ("unknown", "unknown", (0,), ("node-01",), ()),
    ],
)
def test_must_not(
    category: str, strength: str, ranks: tuple[int, ...], hosts: tuple[str, ...], broken: tuple[str, ...]
) -> None:
    judged = judge(diagnosis(category, strength, ranks=ranks, hosts=hosts), EXPECTED)
    assert judged.must_not == broken


def test_must_not_holds_for_whom_where_only_whom_is_known() -> None:
    judged = judge(diagnosis("unknown", "unknown", ranks=(0,), sure_of_whom="possible"), EXPECTED)
    assert judged.must_not == ("rank 0",)


@pytest.mark.parametrize(("first_failed", "wanted", "right"), [((3,), [3], True), ((), [3], False), ((3,), None, None)])
def test_first_failed_counts_for_no_other_figure(
    first_failed: tuple[int, ...], wanted: list[int] | None, right: bool | None
) -> None:
    judged = judge(diagnosis(first_failed=first_failed), expected(first_failed_ranks=wanted))
    assert judged.first_failed is right
    assert (judged.culprits_exact, judged.confidently_wrong, judged.must_not) == (True, (), ())


SIMULATED: dict[str, Any] = {
    "category": "network",
    "acceptable_categories": ["infrastructure", "network"],
    "strength_at_most": None,
    "culprit_ranks": [],
    "culprit_hosts": ["cn-15"],
    "first_failed_ranks": [6],
    "suspects": [14, "cn-16"],
    "trigger": {"file": "dmesg/cn-15.txt", "line": 15, "must_contain": "Link down"},
    "trigger_alternatives": [
        {"file": "ais/t.tar.gz", "line": 9, "must_contain": "broken pipe", "member": "t.INFO.1"},
    ],
    "must_not": {"category": [], "ranks": [], "hosts": []},
}


@pytest.mark.parametrize(
    ("ranks", "hosts", "exact"),
    [
        ((), ("cn-15",), True),
        ((14,), ("cn-15",), True),
        ((14,), ("cn-15", "cn-16"), True),
        ((14,), ("cn-16",), False),
        ((13,), ("cn-15",), False),
    ],
)
def test_suspects_of_a_simulated_incident_may_be_named(
    ranks: tuple[int, ...], hosts: tuple[str, ...], exact: bool
) -> None:
    judged = judge(diagnosis("network", ranks=ranks, hosts=hosts), SIMULATED)
    assert judged.culprits_exact is exact
    assert bool(judged.confidently_wrong) is (13 in ranks)


def test_lines_of_a_simulated_incident_are_the_trigger_and_its_alternatives() -> None:
    assert [line.file for line in read_expected(SIMULATED).trigger] == ["dmesg/cn-15.txt", "ais/t.tar.gz!t.INFO.1"]
    assert read_expected({**SIMULATED, "trigger": None, "trigger_alternatives": []}).trigger == ()
    assert judge(diagnosis(trigger=("ais/t.tar.gz!t.INFO.1", 10, "")), SIMULATED).trigger is True
