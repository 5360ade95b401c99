"""Records that claim more than they show are found, and those that show it pass."""

from datetime import date

import pytest
from incident_text import PROVED, text_of
from msgspec.structs import replace

from firstfault.incidents.fingerprint import fingerprint
from firstfault.incidents.lint import lint, migrated
from firstfault.incidents.mask import VERSION as MASK
from firstfault.incidents.record import parse
from firstfault.incidents.shipped import make_table, shipped
from firstfault.incidents.table import FILE, table
from firstfault.incidents.verification import read_verification


def errors(**parts):
    return [c.what for c in lint([parse(text_of(**parts))]) if c.level == "error"]


def test_what_shows_what_it_claims_has_no_error():
    assert errors() == []
    assert errors(**PROVED) == []
    assert errors(**{**PROVED, "state": "fixed", "verifications": "", "verification": "OPEN: x"}) == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"cause": "A sample is too long."}, "root_cause states as a fact"),
        ({"cause": "猜测：样本过长。", "fix": "样本截断到 8192。"}, "fix states as a fact"),
        ({"state": "supported"}, "still a guess"),
        ({"state": "supported", "cause": "OPEN: x"}, "root_cause is open"),
        ({**PROVED, "fix_links": ""}, "no `fix_links`"),
        ({**PROVED, "verifications": ""}, "no re-run that held"),
        ({**PROVED, "verifications": '\n  - "rerun 2026-03-04 not comparable: x"'}, "no re-run that held"),
        (
            {**PROVED, "verifications": '\n  - "rerun 2026-03-04 held: x"\n  - "rerun 2026-03-09 recurred: x"'},
            "the last re-run recurred",
        ),
        ({**PROVED, "verifications": "\n  - it works now"}, "no known kind"),
        ({**PROVED, "sentence": "OPEN: x"}, "sentence is open"),
        ({"state": "rejected"}, "without `rejected_because`"),
        ({"verification": "It works, we looked."}, "proof that nothing links"),
        ({"date": "March"}, "`date`"),
        ({"cause": "Guess: token hf_AbCdEfGhIjKlMnOpQrStUvWx0123456789 expired."}, "secret"),
    ],
)
def test_a_claim_that_is_not_shown_is_an_error(parts, said):
    assert any(said in what for what in errors(**parts)), errors(**parts)


def notes(**parts):
    return [c.what for c in lint([parse(text_of(**parts))]) if c.level == "note"]


def test_what_waits_for_a_person_is_listed_part_by_part():
    told = notes(verification="OPEN: how it was seen", sentence="待填：一句话")
    assert "still open: fix, verification, sentence" in told
    empty = text_of().replace("state:", 'command: ""\nimage:\nrevision: 3f2a91c\nstate:', 1)
    assert "not said: command, image" in [c.what for c in lint([parse(empty)])]
    assert not [t for t in told if t.startswith("not said")]
    assert not [t for t in notes(**PROVED) if t.startswith("still open")]
    # What the state demands is an error already, and said once.
    claimed = {**PROVED, "sentence": "OPEN: x"}
    assert any("sentence is open" in e for e in errors(**claimed))
    assert not [t for t in notes(**claimed) if "sentence" in t]
    assert not [t for t in notes(state="rejected", sentence="OPEN: x") if t.startswith("still open")]


def test_an_older_re_run_that_recurred_does_not_undo_a_later_one_that_held():
    both = '\n  - "rerun 2026-03-01 recurred: x"\n  - "rerun 2026-03-04 held: x"'
    assert errors(**{**PROVED, "verifications": both}) == []


@pytest.mark.parametrize(
    ("item", "kind", "shows"),
    [
        ("rerun 2026-03-04 held: completed", "rerun", True),
        ("rerun 2026-03-04 recurred", "rerun", False),
        ('command: python -c "import x" => ok', "command", True),
        ("check: start of the image => it starts", "command", True),
        ("command: python train.py", "", False),
        ("commit 3f2a91c0: pins it", "commit", True),
        ("looks good", "", False),
    ],
)
def test_kinds_of_verification(item, kind, shows):
    read = read_verification(item)
    assert (read.kind, read.shows) == (kind, shows)


@pytest.mark.parametrize(
    ("item", "proof"),
    [
        ("command: pytest -q => 12 failed, 3 passed", False),
        ("command: pytest -q => 15 passed, 0 failed", True),
        ("command: pytest -q => 15 passed, no errors", True),
        ("check: the container comes up => it doesn't", False),
        ("check: the container comes up => still broken", False),
        ("check: the container comes up => n/a", False),
        ("check: the container comes up => 待定", False),
        ("check: 容器启动 => 启动失败", False),
        ("check: 容器启动 => 没有报错，正常", True),
        ("command: python a.py => exit code 1", False),
        ("command: python a.py => exit code 0", True),
        ("commit n/a", False),
        ("commit 3f2a91c0: pins it", True),
        ("rerun 2025-01-01 held: of before the incident", False),
        ("rerun undated held: nobody knows when", False),
        ("rerun 2026-03-04 held: completed", True),
    ],
)
def test_a_failure_or_no_answer_proves_nothing(item, proof):
    found = errors(**{**PROVED, "verifications": f'\n  - "{item}"'})
    assert (found == []) is proof, found


def test_two_records_of_one_id_and_a_file_named_otherwise_are_found(store, put):
    put()
    (store.folder / "other.md").write_text(text_of(), encoding="utf-8")
    told = " ".join(c.what for c in lint(*store.records()))
    assert "is also that of" in told
    assert "named otherwise" in told


def test_names_of_people_and_machines_are_a_note_and_no_error():
    found = lint([parse(text_of(cause="Guess: ask okada@team.example about node gpu-n017.hpc.example."))])
    assert [c.level for c in found if "name somebody" in c.what] == ["note"]


def test_an_earlier_form_is_brought_up_to_date_and_nothing_else():
    record = parse(text_of(fingerprint="ff0:abc").replace("schema: firstfault.incident/1\n", ""))
    assert migrated(record) == {"schema": "firstfault.incident/1", "fingerprint": fingerprint(record.traits)}
    assert {c.level for c in lint([record])} == {"note"}


def test_a_message_of_another_mask_is_told_and_made_anew_where_it_is_known():
    told = text_of(fingerprint='"ff1:0123456789:0123456789:-"')
    assert [c.level for c in lint([parse(told)]) if "masked by another version" in c.what] == ["note"]
    record = parse(told)
    assert "message" not in migrated(record)
    changed = migrated(record, "OutOfMemoryError: HIP out of memory")
    assert changed["message"] == "OutOfMemoryError: HIP out of memory"
    assert changed["mask"] == MASK
    traits = replace(record.traits, message=changed["message"])
    assert changed["fingerprint"] == fingerprint(traits)
    now = parse(told.replace("message:", f'mask: "{MASK}"\nmessage:', 1))
    assert not [c for c in lint([now]) if "masked" in c.what]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"date": "2099-01-01"}, "`date` tells the day 2099-01-01"),
        ({"date": "2026-12-04"}, "`date` tells the day 2026-12-04"),
        ({**PROVED, "verifications": '\n  - "rerun 2099-03-04 held: completed"'}, "tells the day 2099-03-04"),
        ({"date": "2026-12-03"}, ""),
        ({"date": "2026-12-02"}, ""),
        ({"date": ""}, ""),
    ],
)
def test_a_day_that_is_still_to_come_is_an_error(parts, told):
    found = [c.what for c in lint([parse(text_of(**parts))], (), date(2026, 12, 2)) if "still to come" in c.what]
    assert [told in what for what in found] == ([True] if told else [])
    assert not [c for c in lint([parse(text_of(**parts))]) if "still to come" in c.what]


def test_the_shipped_records_are_the_eleven_and_lint_finds_nothing():
    assert [r.id for r in shipped()] == [f"E{n:03d}" for n in range(1, 12)]
    assert lint(shipped()) == []


def test_the_table_of_the_shipped_records_is_theirs():
    assert FILE.read_text(encoding="utf-8") == make_table()
    assert {row.id for row in table()} == {r.id for r in shipped() if r.all("shown_by")}
