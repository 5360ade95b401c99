import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.analysis.wording import clipped
from firstfault.model.diagnosis import (
    Action,
    ChainLink,
    CoverageRow,
    Culprits,
    Evidence,
    Fact,
    Ranks,
    Recurrence,
    Time,
    Verdict,
)
from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.publish import FORMATS, publish
from firstfault.report.neutral import neutral
from firstfault.report.text import columns, refuted, shorten_link, wrap, wrap_told

EVIL = "\x1b]0;owned\x07\x1b[2J[rank3]: \u202eboom\u202c\x9b31m `*_[x](javascript:1)<b> | \r\n done\u200b"


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_no_line_is_wider_than_the_page(build_diagnosis, width):
    text = publish(build_diagnosis("x" * 400 + " 日本語" * 40), "text", "secrets", width=width)
    assert max(columns(line) for line in text.splitlines()) <= width


def test_it_is_one_screen_even_where_much_is_known(build_diagnosis):
    links = [ChainLink(what=f"step {i}", why="because", evidence=[]) for i in range(40)]
    rows = [CoverageRow(file=f"f{i}", state=CoverageState.SKIPPED, reason="binary") for i in range(200)]
    rows.append(CoverageRow(file="log", state=CoverageState.READ))
    text = publish(build_diagnosis("y " * 200, chain=links, coverage=rows), "text", "secrets", width=100)
    assert len(text.splitlines()) <= 45
    assert "35 steps between" in text
    assert "and 197 more" in text


def test_it_says_all_that_one_screen_must(build_diagnosis):
    text = publish(build_diagnosis(), "text", "secrets")
    for needed in (
        "FAILED",
        "supported: lines favour it",
        "Rank 37 (node-04) never entered",
        "rank 37 on node-04 (established",
        "error-4711-4.out:1893",
        "127 of 128 ranks",
        "error-4711-7.out",
        "core.88 (binary)",
        "Rerun from the last checkpoint",
        "exit code 1: a failure was found",
        "41 of 41 cited lines",
    ):
        assert needed in " ".join(text.split()), needed


@pytest.mark.parametrize("form", FORMATS)
def test_log_text_acts_nowhere(build_diagnosis, form):
    out = publish(build_diagnosis(EVIL), form, "secrets")
    bad = [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]
    assert not bad, bad


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.sampled_from(FORMATS), st.integers(40, 130))
def test_any_log_text_is_printable_everywhere(build_diagnosis, text, form, width):
    out = publish(build_diagnosis(text), form, "secrets", width=width)
    assert not [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    out.encode("utf-8")


def test_colour_changes_no_letter(build_diagnosis):
    plain = publish(build_diagnosis(), "text", "secrets", color=False)
    painted = publish(build_diagnosis(), "text", "secrets", color=True)
    assert "\x1b[" in painted
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_raw_says_that_secrets_are_in_it(build_diagnosis):
    assert "SECRETS ARE NOT REMOVED" in publish(build_diagnosis(), "text", "none")
    assert "SECRETS ARE NOT REMOVED" not in publish(build_diagnosis(), "text", "secrets")


def test_unknown_is_said_as_unknown(build_diagnosis):
    verdict = build_diagnosis().verdict
    unknown = Verdict(
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary="The log stops.",
        culprits=Culprits(),
        first_failed=verdict.first_failed,
        trigger=None,
        classes=verdict.classes,
        action=Action(kind=ActionKind.COLLECT_MORE, steps=["Get the scheduler's record."]),
    )
    text = publish(build_diagnosis(verdict=unknown), "text", "secrets")
    assert text.startswith("NOT DECIDABLE  the evidence does not say")
    assert "Culprit" not in text
    assert "exit code 3" in text


def test_the_drain_command_is_given_only_for_hosts_that_are_left_out(build_diagnosis):
    verdict = build_diagnosis().verdict

    def said(kind, hostlist):
        action = Action(kind=kind, exclude_hosts=["a"], exclude_hostlist=hostlist)
        changed = Verdict(**{**{f: getattr(verdict, f) for f in verdict.__struct_fields__}, "action": action})
        return publish(build_diagnosis(verdict=changed), "text", "secrets", width=120)

    assert "scontrol update NodeName='node-[01-02]'" in said(ActionKind.RESTART_WITHOUT, "node-[01-02]")
    assert "scontrol" not in said(ActionKind.FIX_AND_RERUN, "node-[01-02]")
    assert "scontrol" not in said(ActionKind.RESTART_WITHOUT, "node'; rm -rf /'")


@given(st.text(max_size=120), st.integers(4, 60))
def test_wrapping_loses_nothing_but_blanks(text, width):
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(columns(line) <= width for line in lines)


LONG = "a collective that never ended because one rank of the tensor-parallel group was elsewhere " * 3


def full(build_diagnosis, words=LONG):
    """A diagnosis in which every part has more to say than a small screen holds."""
    base = build_diagnosis()
    links = [ChainLink(what=f"step {i}: {words}", why=words, evidence=base.chain[0].evidence) for i in range(9)]
    verdict = replace(
        base.verdict, summary=words, action=replace(base.verdict.action, steps=[f"{i} {words}" for i in range(6)])
    )
    return replace(
        base, verdict=verdict, chain=links, rivals=base.rivals * 4, naive=base.naive * 3, collect_next=[words] * 5
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40)])
def test_on_a_terminal_it_fits_the_screen_and_still_says_what_it_must(build_diagnosis, width, height):
    diagnosis = full(build_diagnosis)
    text = publish(diagnosis, "text", "secrets", width=width, height=height)
    assert len(text.splitlines()) < height
    assert max(columns(line) for line in text.splitlines()) <= width
    shown = " ".join(text.split())
    for needed in (
        "FAILED",
        "rank 37 on node-04",
        "1. 14:05:01 step 0",
        "error-4711-4.out:1893",
        "127 of 128 ranks",
        "1. 0 a",
        "exit code 1",
    ):
        assert needed in shown, needed


def test_off_a_terminal_the_page_is_as_long_as_it_is(build_diagnosis):
    diagnosis = full(build_diagnosis)
    page = publish(diagnosis, "text", "secrets", width=80)
    assert len(page.splitlines()) > 40
    assert publish(diagnosis, "text", "secrets", width=80, height=1000) == page


def test_parts_without_anything_to_say_leave_no_double_blank_lines(build_diagnosis):
    text = publish(build_diagnosis(chain=[], rivals=[], naive=[], key_lines=[]), "text", "secrets")
    assert "\n\n\n" not in text


def test_one_rank_is_not_called_ranks(build_diagnosis):
    alone = Ranks(seen=1, seen_ranks="0", at_least=1)
    assert "Seen             rank 0; how many" in publish(build_diagnosis(ranks=alone), "text", "secrets")


def test_attempts_that_failed_alike_are_said_to(build_diagnosis):
    again = [Recurrence(attempts=[1, 2], what="Disk full", hosts=["node-04"])]
    text = publish(build_diagnosis(recurrence=again), "text", "secrets")
    assert "attempts 1-2 failed in the same way: Disk full; each time host node-04" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 100])
def test_the_last_row_is_one_row_and_the_first_step_is_never_cut(build_diagnosis, width):
    diagnosis = full(build_diagnosis)
    text = publish(diagnosis, "text", "secrets", width=width, height=24)
    assert text.splitlines()[-1].startswith("exit code 1")
    assert " ".join(diagnosis.verdict.action.steps[0].split()) in " ".join(text.split())
    assert "NCCL failed on rank 5" in text


def test_nobody_is_named_for_one_of_two_reasons(build_diagnosis):
    base = build_diagnosis()

    def said(*, shared):
        verdict = replace(base.verdict, culprits=Culprits(shared=shared))
        return publish(replace(base, verdict=verdict), "text", "secrets")

    assert "nobody: it lies in what all ranks share" in said(shared=True)
    assert "not known: no line tells whose fault it is" in said(shared=False)


def test_ranks_are_counted_as_far_as_lines_tell(build_diagnosis):
    def said(**ranks):
        return " ".join(publish(build_diagnosis(ranks=Ranks(**ranks)), "text", "secrets").split())

    assert "Seen ranks 0-1, 3, of at least 5; nothing from ranks 2, 4;" in said(seen=3, seen_ranks="0-1, 3", at_least=5)
    assert "Seen ranks 0-3; how many there should be, no line tells" in said(seen=4, seen_ranks="0-3", at_least=4)
    assert "Seen no line names a rank" in said()


def test_moments_are_those_that_lines_tell(build_diagnosis):
    base = build_diagnosis()
    stamp = base.verdict.trigger
    job = {
        "last_step": Fact(value=4711, evidence=[stamp]),
        "last_checkpoint": Fact(value=4000, evidence=[replace(stamp, time=None)]),
    }
    text = " ".join(publish(replace(base, job=job), "text", "secrets").split())
    assert (
        "When first sign 2026-03-02 14:05:01; last step 4711 (14:05:01); last checkpoint at step 4000 Attempts" in text
    )
    wide = replace(stamp, time=Time(earliest="2026-03-02T14:05:01", latest="2026-03-03T01:00:00.500"))
    changed = replace(base, verdict=replace(base.verdict, trigger=wide), job={})
    assert "first sign between 2026-03-02 14:05:01 and 2026-03-03 01:00:00" in " ".join(
        publish(changed, "text", "secrets").split()
    )


@pytest.mark.parametrize(("at", "told"), [("2026-03-02T14:05:00", False), ("2026-03-02T14:05:01", True)])
def test_no_end_is_told_that_lies_before_the_first_sign(build_diagnosis, at, told):
    base = build_diagnosis()
    end = replace(base.verdict.trigger, time=Time(earliest=at, latest=at))
    text = publish(replace(base, job={"last_word": Fact(value="x", evidence=[end])}), "text", "secrets")
    assert ("; end 14:05:01" in " ".join(text.split())) is told
    assert "end 14:05:00" not in text


def test_lines_that_say_the_same_but_for_numbers_stand_once_while_others_are_left(build_diagnosis):
    def quoted(number, text):
        return Evidence(file="a.log", line=number, column=1, text=text)

    lines = [quoted(1, "rank 1 timed out"), quoted(2, "rank 2 timed out"), quoted(3, "exit code of rank 1 is 7")]
    text = publish(build_diagnosis(key_lines=lines), "text", "secrets")
    assert "a.log:3" in text
    assert "a.log:2" not in text


@pytest.mark.parametrize("length", [20, 150, 400])
@pytest.mark.parametrize("file", ["ais_logs/a.INFO", "ais_logs/" + "deep/" * 40 + "a.INFO"])
@pytest.mark.parametrize("limit", [80, 160, 240])
def test_a_step_of_the_chain_keeps_its_line_however_long_its_words_are(length, file, limit):
    what, place, why = "2. " + "word " * (length // 5), f" [{file}:13]", " (it follows)"
    cut = shorten_link((what, place, why), limit)
    assert len(cut) <= limit
    assert "a.INFO:13]" in cut
    assert cut.startswith("2. word")


@given(st.text(alphabet="ab cd,.", max_size=80), st.integers(12, 40))
def test_a_clipped_text_ends_behind_a_whole_word(text, limit):
    cut = clipped(text, limit)
    assert len(cut) <= limit
    assert cut == text or cut.endswith("…")
    kept = cut.removesuffix("…")
    assert text.startswith(kept)
    if cut != text and " " in text[limit // 2 : limit - 1]:
        assert not text[len(kept) :][:1].isalpha() or not kept[-1:].isalpha()


def test_no_acting_character_of_all_that_there_are_is_let_through():
    acting = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    every = map(chr, range(sys.maxunicode + 1))
    assert [hex(ord(c)) for c in every if unicodedata.category(c) in acting and c != "\t" and neutral(c) == c] == []


LOOP = "for p in $(kubectl -n store get pods -o name | grep target); do n=${p#pod/}; kubectl -n store logs $n --timestamps > logs/$n.log; done"


@pytest.mark.parametrize(("width", "height"), [(60, 40), (80, None), (80, 24), (120, 40), (120, 16)])
def test_a_command_is_on_the_screen_whole_or_not_at_all(build_diagnosis, width, height):
    base = full(build_diagnosis)
    steps = [
        f"Write the logs of all targets into one folder: `{LOOP}`, then look.",
        "Look at it with `sacct -j 7 -o State%30` then.",
    ]
    verdict = replace(base.verdict, action=replace(base.verdict.action, steps=steps))
    told = replace(
        base,
        verdict=verdict,
        collect_next=["the ends of its steps: `sacct -j 7 --format=JobID,State,ExitCode,NodeList`"],
    )
    text = publish(told, "text", "secrets", width=width, height=height)
    assert [line.strip() for line in text.splitlines()].count(LOOP) == 1
    # Of what there is room for, no part of a command stands without the rest.
    for command, begin in (
        ("sacct -j 7 -o State%30", "sacct -j 7 -o"),
        ("sacct -j 7 --format=JobID,State,ExitCode,NodeList", "sacct -j 7 --"),
    ):
        assert text.count(command) == text.count(begin)
    assert text.count("sacct") == text.count("sacct -j 7 -")
    assert max(columns(line) for line in text.splitlines() if line.strip() != LOOP) <= width


def test_the_command_that_drains_hosts_is_one_line(build_diagnosis):
    base = build_diagnosis()
    action = Action(kind=ActionKind.RESTART_WITHOUT, exclude_hosts=["a"], exclude_hostlist="node-[01-02,07,11-19,23]")
    text = publish(replace(base, verdict=replace(base.verdict, action=action)), "text", "secrets", width=60)
    command = "scontrol update NodeName='node-[01-02,07,11-19,23]' State=DRAIN Reason='firstfault'"
    assert command in [line.strip() for line in text.splitlines()]


def test_a_host_that_is_only_possibly_at_fault_is_looked_at_before_it_is_drained(build_diagnosis):
    base = build_diagnosis()
    action = Action(kind=ActionKind.RESTART_WITHOUT, exclude_hosts=["a"], exclude_hostlist="node-01")
    verdict = replace(base.verdict, action=action, strength=Strength.POSSIBLE)
    for form in ("text", "markdown", "html"):
        assert "State=DRAIN" not in publish(replace(base, verdict=verdict), form, "secrets")


@given(st.lists(st.text("ab .$|>'", max_size=12), max_size=6), st.integers(10, 40))
def test_what_is_wrapped_keeps_its_commands_in_one_piece(pieces, width):
    sentence = " and ".join(f"do `{p}`." if p.strip() else "rest" for p in pieces)
    lines = wrap_told(sentence, width)
    for piece in pieces:
        if piece.strip():
            assert any(piece in line for line in lines)
    assert all(columns(line) <= width or line in pieces for line in lines)


def test_a_small_screen_says_nothing_twice(build_diagnosis):
    base = full(build_diagnosis)
    verdict = base.verdict
    same = replace(verdict.first_failed, ranks=verdict.culprits.ranks, hosts=verdict.culprits.hosts)
    alike = replace(base, verdict=replace(verdict, first_failed=same, strength=verdict.culprits.strength))
    small = publish(alike, "text", "secrets", width=80, height=16)
    assert "First failed" not in small
    assert small.count("direct lines prove it") <= 1
    assert "First failed" in publish(alike, "text", "secrets", width=80)
    other = replace(base, verdict=replace(verdict, first_failed=replace(same, ranks=[5], hosts=["node-09"])))
    assert "rank 5 on node-09" in publish(other, "text", "secrets", width=80, height=16)


@pytest.mark.parametrize(
    ("room", "shown"), [(200, "X is at fault, it came last: the order is chance"), (40, "X is at fault, it came last")]
)
def test_half_a_reason_is_left_out(room, shown):
    assert refuted("X is at fault, it came last", "the order is chance", room) == shown
