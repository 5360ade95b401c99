"""What is taken out before it is written, and what must stay readable."""

import argparse
import json

import pytest

from firstfault.recorder.clean import Cleaner, plain_item
from firstfault.recorder.describing import hashed


@pytest.mark.parametrize(
    "text",
    [
        "/data/imagenet/train/n01440764/n01440764_10026.JPEG",
        "/mnt/set/shard-000017.tar",
        "/dev/shm/firstfault-0/run-794c5a3c-1f29-4652-bd34-b09a04f934c3/node-a",
        "index 17",
        "s3://bucket/part-00001-of-01024.parquet",
        "/cache/blobs/0f4d1c9be0f4d1c9be0f4d1c9be0f4d1c9be0f4d",
    ],
)
def test_what_names_a_sample_stays(text):
    assert plain_item(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://host/x.tar?X-Amz-Signature=abcdef0123456789abcdef", "abcdef0123456789"),
        ("https://user:Pa55word@host/x.tar", "Pa55word"),
        ("/data/hf_AbCdEfGh1234567890XyZ/x.jpg", "hf_AbCdEfGh1234567890XyZ"),
        ("/run/secrets/api_key_prod/x", "api_key_prod"),
    ],
)
def test_what_may_be_a_secret_goes(text, secret):
    assert secret not in plain_item(text)


def test_a_value_under_a_telling_name_is_a_secret_whatever_it_looks_like():
    cleaner = Cleaner()
    cleaned = cleaner.value(
        {"optimizer": {"lr": 0.1, "name": "adam"}, "password": "plain", "seeds": (1, 2), "nan": float("nan")}
    )
    assert cleaned == {
        "optimizer": {"lr": 0.1, "name": "adam"},
        "password": "[removed:password]",
        "seeds": [1, 2],
        "nan": None,
    }
    assert cleaner.removed == {"password": 1}


def test_a_password_of_digits_is_one_and_a_count_of_tokens_is_none():
    told = {"password": 12345678, "api_key": 99887766, "max_tokens": 2048, "pad_token_id": 0, "sync": True}
    cleaned = Cleaner().value(told)
    assert cleaned == {**told, "password": "[removed]", "api_key": "[removed]"}


def test_deep_and_long_values_end():
    nested: dict = {}
    nested["again"] = nested
    assert Cleaner().value(nested)
    assert len(Cleaner().text("word " * 100_000)) < 30_000
    assert len(Cleaner().value(list(range(10_000)))) == 400


@pytest.mark.parametrize("before", range(9_950, 10_001, 7))
def test_no_half_of_a_secret_stays_where_a_long_text_is_cut(before):
    secret = "ghp_" + "A1b2C3d4E5" * 4
    for text in (f"{'x ' * (before // 2)}{secret} {'y ' * 9_000}", f"{'y ' * 9_000}{secret}{' x' * (before // 2)}"):
        cleaned = Cleaner().text(text)
        assert "left out" in cleaned
        assert not any(secret[at : at + 6] in cleaned for at in range(len(secret) - 6))


def test_an_option_gives_the_next_word_away():
    assert Cleaner().words(["train.py", "--password", "hunter2x9", "--lr", "1"])[1:] != [
        "--password",
        "hunter2x9",
        "--lr",
        "1",
    ]
    assert Cleaner().words(["python", "train.py", "--lr", "0.1"]) == ["python", "train.py", "--lr", "0.1"]


PLANTED = "Winterx"


@pytest.mark.parametrize(
    "config",
    [
        {"a": {"b": {"c": {"password": PLANTED}}}},
        {"password": {"of": PLANTED, "all": [PLANTED, {"deep": PLANTED}]}},
        {"credentials": {"user": "u", "what": PLANTED}},
        {"secrets": {"store": PLANTED}},
        {"passwords": [PLANTED, PLANTED]},
        {"login": [["password", PLANTED]]},
        {"env": [{"name": "STORE_PASSWORD", "value": PLANTED}]},
        {"args": ["--steps", "9", "--api-key", PLANTED, "--lr", "1"]},
        {("store", "password"): PLANTED},
        {"store.password": PLANTED},
        {"text": '{"password": "Winterx"}'},
        {"made": argparse.Namespace(password=PLANTED)},
    ],
)
def test_a_secret_goes_at_any_depth(config):
    cleaner = Cleaner()
    assert PLANTED not in json.dumps(cleaner.value({"run": config}))
    assert cleaner.removed


def test_a_secret_of_the_environment_is_one_wherever_it_is_said():
    environment = {"STORE_TOKEN": "quiet7Harbour", "TOKENIZER": "org/model-7b-chat", "TOKENIZERS_PARALLELISM": "false",
                   "CREDENTIALS_FILE": "/etc/keys/store.json", "NOTHING": "", "FUNCTION": "token=" + "x1" * 5000}  # fmt: skip
    cleaner = Cleaner(environment)
    assert "quiet7Harbour" not in cleaner.text("the store refuses quiet7Harbour of run 3")
    said = "org/model-7b-chat is false, see /etc/keys/store.json"
    assert cleaner.text(said) == said


def test_what_only_sounds_like_a_secret_stays_at_any_depth():
    told = {"tokenizer": {"name": "bpe", "files": ["tok/x.json"], "size": 50000}, "tokens": {"max": 2048, "kind": "bpe"},
            "pair": ["key", "adam"], "env": [{"name": "LR", "value": "0.1"}], "args": ["--lr", "0.1", "--tokens", "2048"]}  # fmt: skip
    assert Cleaner().value(told) == told


def test_the_hash_of_a_configuration_holds_no_secret_and_tells_two_apart():
    def of(**config):
        return hashed({"config": config}, Cleaner().value)["config_sha256"]

    assert of(lr=1, store={"password": "one"}) == of(lr=1, store={"password": "two"})
    assert of(lr=1) != of(lr=2)
