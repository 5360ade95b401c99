"""Who searches for a fault by one of its names finds records that tell it by another."""

import pytest

from firstfault.incidents.synonyms import NAMES, other_names


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("OOM", "out of memory"),
        ("显存溢出", "out of memory"),
        ("内存", "oom"),
        ("CUDA out of memory rank", "cuda oom rank"),
        ("ESTALE", "stale file handle"),
        ("通信超时", "通信timed out"),
    ],
)
def test_another_name_of_the_same_fault(text, among):
    assert among in other_names(text)


@pytest.mark.parametrize("text", ["room", "banana", "gpu-n017", "", "stale_file_handle"])
def test_a_part_of_another_word_is_no_name(text):
    assert other_names(text) == []


def test_no_name_stands_for_two_faults():
    every = [name for names in NAMES for name in names]
    assert len(every) == len(set(every))
