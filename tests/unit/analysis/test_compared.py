"""Two diagnoses of one incident: what changed is told, and the reason only as far as the two documents show it."""

from firstfault.analysis.compared import compare
from firstfault.model.diagnosis import (
    AttemptSummary,
    ChainLink,
    CoverageRow,
    Culprits,
    Evidence,
    Ranks,
    RivalSummary,
    Verification,
    Withdrawn,
)
from firstfault.model.words import Category, CoverageState, Strength

READ, SKIPPED = CoverageState.READ, CoverageState.SKIPPED


def row(file, state=READ, size=10, reason=""):
    return CoverageRow(file=file, state=state, reason=reason, bytes=size)


def cited(file, line=1):
    return Evidence(file=file, line=line, column=1, text="x")


def other(build, **changes):
    """The full diagnosis with parts of its verdict changed; what is no part of the verdict is passed on."""
    first = build().verdict
    told = {f: getattr(first, f) for f in first.__struct_fields__}
    mine = {k: changes.pop(k) for k in list(changes) if k in told}
    return build(verdict=type(first)(**{**told, **mine}), **changes)


def test_a_diagnosis_equals_itself(build_diagnosis):
    found = compare(build_diagnosis(), build_diagnosis())
    assert found.same
    assert (found.changes, found.why, found.inputs, found.lines_added, found.lines_gone) == ([], [], [], [], [])


def test_only_what_changed_is_told_in_the_order_of_the_verdict(build_diagnosis):
    after = other(
        build_diagnosis, category=Category.NETWORK, culprits=Culprits(hosts=["node-09"], strength=Strength.POSSIBLE)
    )
    told = [(c.what, c.before, c.after) for c in compare(build_diagnosis(), after).changes]
    assert told == [
        ("category", "data_loading_stall", "network"),
        ("culprits", "rank 37, node-04", "node-09"),
        ("culprits_strength", "established", "possible"),
    ]


def test_a_first_sign_in_a_new_file_is_the_reason(build_diagnosis):
    after = other(
        build_diagnosis,
        trigger=cited("dmesg-node-04", 7),
        category=Category.GPU_CUDA,
        coverage=[row("error-4711-0.out", size=4000), row("core.88", SKIPPED, 12, "binary"), row("dmesg-node-04")],
    )
    found = compare(build_diagnosis(), after)
    assert [(i.file, i.change) for i in found.inputs] == [("dmesg-node-04", "added")]
    assert "The first sign now stands in dmesg-node-04:7, a file that the first diagnosis had not read." in found.why
    assert next((e.file, e.line) for e in found.lines_added) == ("dmesg-node-04", 7)


def test_a_file_that_was_there_but_not_read_counts_as_new(build_diagnosis):
    before = other(build_diagnosis, coverage=[row("a.log"), row("b.log", SKIPPED)])
    after = other(build_diagnosis, trigger=cited("b.log"), coverage=[row("a.log"), row("b.log")])
    found = compare(before, after)
    assert [(i.file, i.change) for i in found.inputs] == [("b.log", "read_otherwise")]
    assert any("b.log:1, a file that the first diagnosis had not read" in why for why in found.why)


def test_a_line_that_no_longer_reads_back_is_the_reason(build_diagnosis):
    gone = Withdrawn(file="error-4711-4.out", line=1893, why="the source ends before that place now")
    after = other(
        build_diagnosis,
        trigger=None,
        chain=[],
        key_lines=[],
        category=Category.UNKNOWN,
        verification=Verification(claims=2, reread=1, withdrawn=[gone]),
    )
    found = compare(build_diagnosis(), after)
    assert any("error-4711-4.out:1893" in why and "the source ends before that place now" in why for why in found.why)
    assert ("error-4711-4.out", 1893) in [(e.file, e.line) for e in found.lines_gone]


def test_explanations_that_changed_places_are_told_with_what_speaks_against_the_old_one(build_diagnosis):
    rival = RivalSummary(
        category=Category.DATA_LOADING_STALL, strength=Strength.POSSIBLE, against=["rank 37 was in it"]
    )
    why = compare(build_diagnosis(), other(build_diagnosis, category=Category.NETWORK, rivals=[rival])).why
    assert "The first diagnosis had weighed network as a rival (possible)." in why
    assert any("data_loading_stall, is now a rival (possible); against it: rank 37 was in it" in w for w in why)


def test_another_attempt_is_told(build_diagnosis):
    first = [AttemptSummary(number=n, ended="failed", diagnosed=n == 1) for n in (1, 2)]
    found = compare(build_diagnosis(attempts=first), other(build_diagnosis, summary="Something else."))
    assert "The first diagnosis is about attempt 1, the second about attempt 2." in found.why


def test_equal_inputs_point_at_version_and_options_and_other_inputs_at_nothing_unseen(build_diagnosis):
    changed = {"strength": Strength.POSSIBLE}
    assert "The inputs are the same" in compare(build_diagnosis(), other(build_diagnosis, **changed)).why[0]
    more = [*build_diagnosis().coverage, row("extra.log")]
    (why,) = compare(build_diagnosis(), other(build_diagnosis, **changed, coverage=more)).why
    assert why == "Inputs differ (1 new), but no line on which a verdict rests stands in them."


def test_two_incidents_are_not_taken_for_one(build_diagnosis):
    far = other(build_diagnosis, summary="Another job.", coverage=[row("x/y.log")], ranks=Ranks(expected=8, seen=8))
    why = compare(build_diagnosis(), far).why
    assert any("they may be about two incidents" in w for w in why)
    assert "8 of 8 ranks are seen now; the first diagnosis saw 127." in why


def test_more_lines_of_a_chain_are_no_change_of_the_verdict(build_diagnosis):
    link = ChainLink(what="more", why="", evidence=[cited("error-4711-0.out", 99)])
    found = compare(build_diagnosis(), build_diagnosis(chain=[*build_diagnosis().chain, link]))
    assert found.same
    assert [(e.file, e.line) for e in found.lines_added] == [("error-4711-0.out", 99)]


def test_sentences_of_two_languages_are_not_compared(build_diagnosis):
    after = other(
        build_diagnosis,
        summary="rank 37 (node-04) 从未进入该集合通信。",
        coverage=[row(r.file, r.state, r.bytes, "空" if r.reason else "") for r in build_diagnosis().coverage],
    )
    found = compare(build_diagnosis(), after)
    assert (found.same, found.changes, found.inputs) == (True, [], [])
    assert found.why == ["The two are in different languages: their sentences are not compared."]


def test_a_chinese_word_in_a_quotation_makes_no_other_language(build_diagnosis):
    after = other(build_diagnosis, summary="Rank 37 ended. The last line: “磁盘满”.")
    assert [c.what for c in compare(build_diagnosis(), after).changes] == ["summary"]
