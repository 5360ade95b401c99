"""A stranger's pickle: plain values come through, everything else is refused and nothing of it runs."""

import os
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.readers.unpickle import UnreadablePickleError, load, load_fast

SOURCE = Path(__file__).resolve().parents[3] / "src" / "firstfault"
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.tuples(st.text(max_size=5), st.integers())
    ),
    max_leaves=25,
)


class Acts:
    """Would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_come_through(value, protocol):
    raw = pickle.dumps(value, protocol)
    assert load(raw) == load_fast(raw) == value


@pytest.mark.parametrize("read", [load, load_fast])
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_nothing_runs(read, protocol, tmp_path):
    with pytest.raises(UnreadablePickleError, match=r"refused|damaged|takes"):
        read(pickle.dumps([Acts(tmp_path / "made")], protocol))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("read", [load, load_fast])
@pytest.mark.parametrize(
    "raw",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x02\x82\x01.",  # an extension
        b"Pobject\n.",
        b"\x80\x02X\x01\x00\x00\x00aQ.",  # a persistent object
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x05\x97.",  # a buffer from outside
    ],
)
def test_every_way_out_is_refused(read, raw):
    with pytest.raises(UnreadablePickleError):
        read(raw)


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("deep key", b"\x80\x02}(N" + b"\x85" * 200_000 + b"Nu."),
        ("key whose hash doubles", b"\x80\x02}(N" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b"Nu."),
        ("keys of one hash", pickle.dumps({k * ((1 << 61) - 1): 0 for k in range(9)})),
        ("keys of one hash, one by one", b"\x80\x02}\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x1fNs."),
        ("keys of one hash in tuples", pickle.dumps({(k * ((1 << 61) - 1),): 0 for k in range(9)})),
        (
            "list that unfolds",
            b"\x80\x02]" + b"".join(b"q%c]q\xff0](h%ch%ch%ch%ce" % (n, n, n, n, n) for n in range(40)) + b".",
        ),
        ("list that holds itself", b"\x80\x02]q\x00h\x00a."),
        ("deep list", b"\x80\x02" + b"](" * 5000 + b"e" * 5000 + b"."),
        ("long number", b"\x80\x02\x8b" + struct.pack("<i", 5000) + b"\x01" * 5000 + b"."),
        ("number of digits", b"I" + b"9" * 4000 + b"\n."),
        ("text longer than the file", b"\x80\x02X\xff\xff\xff\x7fabc."),
        ("nothing", b""),
        ("no end", b"\x80\x02]"),
        ("stop on a mark", b"\x80\x02(."),
        ("memo without entry", b"\x80\x02h\x07."),
        ("memo of two gigabytes", b"\x80\x02]r\x00\x00\x00\x08."),
        ("memo numbered in digits", b"]p99999999\n."),
    ],
)
def test_what_would_eat_time_memory_or_stack_is_refused(what, raw):
    with pytest.raises(UnreadablePickleError):
        load(raw)


def test_a_large_number_is_a_value_and_may_be_a_time():
    told = {"time_created_ns": 1_780_000_000_000_000_000, 7: -(1 << 62), "at": (1 << 63, "x")}
    assert load(pickle.dumps(told)) == told


@settings(max_examples=400)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x80\x02", b"\x80\x04", b"\x80\x02}("]))
def test_no_bytes_raise_anything_else(noise, start):
    try:
        load(start + noise)
    except UnreadablePickleError as error:
        assert str(error)  # noqa: PT017 - the reason is for people


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_pickle_is_plain_or_refused(data):
    raw = bytearray(pickle.dumps({"entries": [{"a": 1, "b": ["x", 2.5, ("g", "d")]}] * 3, "version": "2.10"}, 2))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        value = load(bytes(raw))
    except UnreadablePickleError:
        return
    stack = [value]
    while stack:
        one = stack.pop()
        assert type(one) in {dict, list, tuple, str, int, float, bool, bytes, type(None)}
        stack += list(one.values()) if isinstance(one, dict) else list(one) if isinstance(one, (list, tuple)) else []


def test_only_the_refusing_reader_and_its_sibling_for_checkpoints_know_pickle():
    users = {f.name for f in SOURCE.rglob("*.py") if "import pickle" in f.read_text(encoding="utf-8")}
    assert users == {"unpickle.py", "unpickle_torch.py"}
