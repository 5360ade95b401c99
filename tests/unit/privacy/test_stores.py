"""Names of buckets, accounts and daemons in addresses of stores do not leave the machine under `--share`."""

from __future__ import annotations

import pytest

from firstfault.privacy.identities import Identities
from firstfault.privacy.secrets import SecretFilter

SECRET = "0f3b9c1d2e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b"


def cleaned(text: str) -> str:
    identities = Identities()
    identities.learn(text)
    return identities.clean(text)


@pytest.mark.parametrize(
    "text",
    [
        "GET https://s3.eu-west-1.amazonaws.com/acme-speech/corpora/v3/shard-0042.tar",
        'Could not connect to the endpoint URL: "https://minio.store.example:9000/acme-speech/shard-0042.tar"',
        "503 GET https://storage.googleapis.com/storage/v1/b/acme-speech/o/shard.tar?alt=media",
        "https://acct.blob.core.windows.net/acme-speech/shard.tar",
        "REQ_URL:http://ais-target-3.ais.svc.cluster.local:51081/v1/objects/acme-speech/shard.tar?provider=aws",
        "http://10.0.0.3:51080/v1/ml/moss/acme-speech",
        "reading via arn:aws:s3:::acme-speech/corpora/shard.tar",
        "s3://acme-speech/corpora/shard.tar",
        "https://acme-speech.s3.eu-west-1.amazonaws.com/shard.tar",
    ],
)
def test_a_bucket_is_replaced_wherever_it_stands(text: str) -> None:
    assert "acme-speech" not in cleaned(text)


@pytest.mark.parametrize(
    "text",
    [
        "assuming role arn:aws:iam::123456789012:role/asr-trainer",
        "AccessDenied: User: arn:aws:sts::123456789012:assumed-role/asr-trainer/i-0abc is not authorized",
        "pulling 123456789012.dkr.ecr.eu-west-1.amazonaws.com/asr-trainer:latest",
        "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/asr-trainer",
    ],
)
def test_the_number_of_an_account_is_replaced(text: str) -> None:
    assert "123456789012" not in cleaned(text)


def test_a_role_is_replaced_and_one_account_is_one() -> None:
    text = cleaned("arn:aws:iam::123456789012:role/asr-trainer and arn:aws:s3:eu:123456789012:accesspoint/x")
    assert "asr-trainer" not in text
    assert text.count("account-1") == 2


@pytest.mark.parametrize(
    "name", ["X-Amz-Signature", "Signature", "sig", "X-Goog-Signature", "OSSAccessKeyId", "X-Amz-Security-Token"]
)
def test_what_signs_an_address_is_a_secret_even_without_share(name: str) -> None:
    assert SECRET not in SecretFilter().clean(
        f"https://s3.store.example/train/shard.tar?{name}={SECRET}&Expires=1770000000"
    )


def test_words_of_everybody_are_not_taken_for_hosts() -> None:
    text = cleaned("https://storage.store.example/x: the storage daemons of ais; aws s3 cp s3://train/x.tar -")
    assert "the storage daemons of ais; aws s3 cp s3://" in text
    assert "storage.store.example" not in text


@pytest.mark.parametrize(
    "text",
    [
        "ais_logs/aistarget.prod-west.INFO.0211-010203.1",
        "Started up at 2026/02/11 01:02:03, host prod-west, go1.25.5 for linux/amd64",
        "[pod/prod-west/aisnode] I 14:02:11.774518 config:2840 x",
        "containers/prod-west_ais_aisnode-" + "0123456789abcdef" * 4 + ".log",
        "pods/ais_prod-west_01234567-89ab-cdef-0123-456789abcdef/aisnode/0.log",
    ],
)
def test_the_name_of_a_pod_is_a_hosts_name(text: str) -> None:
    assert "prod-west" not in cleaned(text)


def test_a_file_that_is_named_after_a_pod_loses_the_name() -> None:
    assert cleaned("ais_logs/acme-ais-target-3.previous.log:17").endswith("/host-1.previous.log:17")
