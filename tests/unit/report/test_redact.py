import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.diagnosis import Count, CoverageRow, Fact
from firstfault.model.words import CoverageState
from firstfault.pipelines.publish import FORMATS, publish
from firstfault.redact import Redacted, redact
from firstfault.report.json import render_json

SECRET = "q7Zt9Lk2Xv4Bn8Mw1Rc6Yd3Hf5Js0PaGe"


def test_only_the_door_makes_the_type(build_diagnosis):
    with pytest.raises(TypeError, match="only"):
        Redacted(build_diagnosis(), {}, object())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("level", ["secrets", "identities"])
def test_no_planted_secret_survives_in_any_format(build_diagnosis, form, level):
    diagnosis = build_diagnosis(
        f"[rank37]: WANDB_API_KEY={SECRET}", job={"command": Fact(value=f"train.py --token {SECRET} --x")}
    )
    assert SECRET not in publish(diagnosis, form, level)
    assert SECRET[:12] not in publish(diagnosis, form, level)


def test_a_secret_named_once_is_taken_out_everywhere(build_diagnosis):
    diagnosis = build_diagnosis(f"HF_TOKEN={SECRET}", collect_next=[f"look for {SECRET}"])
    assert SECRET not in publish(diagnosis, "json", "secrets")


def test_raw_keeps_them_and_says_so(build_diagnosis):
    out = publish(build_diagnosis(f"WANDB_API_KEY={SECRET}"), "json", "none")
    assert SECRET in out
    assert '"redaction": "none"' in out


@pytest.mark.parametrize("form", FORMATS)
def test_share_names_no_host_user_path_or_address(build_diagnosis, form):
    diagnosis = build_diagnosis(
        "node-04:12:34 [0] NCCL INFO /lustre/fsw/acme/jdoe/run.py 10.0.3.21 s3://acme-data/x jdoe@example.org",
        collect_next=["ssh node-04 and read /home/jdoe/slurm.out"],
        coverage=[CoverageRow(file="node-04/rank3.log", state=CoverageState.READ)],
    )
    out = publish(diagnosis, form, "identities")
    for word in ("node-04", "acme", "jdoe", "10.0.3.21", "lustre"):
        assert word not in out, word
    assert "host-1" in out


def test_the_host_list_is_made_of_pseudonyms(build_diagnosis):
    action = redact(build_diagnosis(), "identities").content.verdict.action
    assert action.exclude_hosts == ["host-1"]
    assert action.exclude_hostlist == "host-1"


def test_two_names_that_become_one_add_their_counts(build_diagnosis):
    safe = redact(build_diagnosis(), "secrets")
    assert safe.content.counts[0].ranks == {"10": 1, "9": 2}
    counted = build_diagnosis().counts[0]
    counted.files.update({f"token={SECRET}": 2, f"token={SECRET}x": 3})
    files = redact(build_diagnosis(counts=[counted]), "secrets").content.counts[0].files
    assert sum(files.values()) == sum(counted.files.values())


def test_what_was_removed_is_listed_by_kind(build_diagnosis):
    assert redact(build_diagnosis(f"WANDB_API_KEY={SECRET}"), "secrets").removed["secret"] >= 1


def test_file_names_that_are_no_text_are_spelt_out(build_diagnosis):
    out = render_json(
        redact(build_diagnosis(coverage=[CoverageRow(file="a\udcff.log", state=CoverageState.READ)]), "secrets")
    )
    assert "a\\\\xff.log" in out


@settings(max_examples=60, deadline=None)
@given(
    st.text("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=20, max_size=40).filter(
        lambda t: not t.isdigit()
    ),
    st.sampled_from(FORMATS),
    st.sampled_from(["secrets", "identities"]),
    st.sampled_from(
        ["API_KEY={}", "password: '{}'", "https://u:{}@h/x", "Authorization: Bearer {}", "--auth-token {}"]
    ),
)
def test_planted_values_do_not_survive(build_diagnosis, secret, form, level, shape):
    assert secret not in publish(build_diagnosis("step 3 " + shape.format(secret)), form, level)


def test_counts_by_rank_stay_and_names_of_files_beside_them_do_not(build_diagnosis):
    counts = [
        Count(
            signature="a.b",
            title="t",
            total=3,
            files={f"out-{SECRET}.log?token={SECRET}": 3},
            ranks={"7": 1, "1234567": 2},
        )
    ]
    said = publish(build_diagnosis("x", counts=counts), "json", "secrets")
    assert '"1234567": 2' in said
    assert f"token={SECRET}" not in said
