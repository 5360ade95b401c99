"""Pickles of checkpoints are read without running anything of them, whatever they ask for."""

import argparse
import collections
import contextlib
import enum
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.readers.husks import Husk
from firstfault.readers.unpickle import UnreadablePickleError
from firstfault.readers.unpickle_torch import load_inert


class Runs:
    def __init__(self, function, *args):
        self.made = (function, args)

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize(
    "act",
    [
        lambda mark: Runs(os.system, f"touch {mark}"),
        lambda mark: Runs(subprocess.check_call, ["touch", str(mark)]),
        lambda mark: Runs(eval, f"open({str(mark)!r}, 'w')"),
        lambda mark: Runs(open, str(mark), "w"),
        lambda mark: Runs(Path.touch, mark),
        lambda mark: collections.OrderedDict(a=Runs(os.system, f"touch {mark}")),
    ],
)
def test_nothing_is_run(tmp_path, act):
    mark = tmp_path / "ran"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = load_inert(pickle.dumps({"model": 1, "x": act(mark)}, protocol))
        assert found.value["model"] == 1
        assert found.names
        assert not mark.exists()


def test_nothing_is_imported():
    # A module that is on no path is named by hand: a name is never looked up.
    raw = b"\x80\x02cno_such_module_anywhere\nThing\n)\x81}X\x01\x00\x00\x00aK\x01sb."
    found = load_inert(raw)
    assert found.names == ("no_such_module_anywhere.Thing",)
    assert found.value.field("a") == 1
    assert "no_such_module_anywhere" not in sys.modules


class Kind(enum.Enum):
    A = 3


def test_what_trainers_keep_is_there():
    held = {
        "args": argparse.Namespace(world_size=8, lr=0.5),
        "kind": Kind.A,
        "order": collections.OrderedDict(b=1, a=2),
        "many": collections.defaultdict(list, {"x": [1]}),
        "set": {4},
        "path": Path("/data/run"),
        "plain": (1, 2.5, None, True, "text", b"raw"),
    }
    found = load_inert(pickle.dumps(held, 4)).value
    assert found["args"].field("world_size") == 8
    assert isinstance(found["kind"], Husk)
    assert list(found["order"]) == ["b", "a"]
    assert found["many"]["x"] == [1]
    assert found["plain"] == held["plain"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02}",
        b"no pickle at all",
        pickle.dumps({"a": [1, 2, 3]})[:-4],
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x02K\x03tR.",  # a tensor of a number
        b"\x80\x02K\x05Q.",  # an object from outside that is no storage
        b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x10\x85R\x81.",
    ],
)
def test_damage_is_one_kind_of_error(raw):
    with pytest.raises(UnreadablePickleError):
        load_inert(raw)


def test_a_buffer_that_is_cut_off_is_no_word_on_stderr(capfd):
    raw = pickle.dumps(bytearray(1000), 5)
    with pytest.raises(UnreadablePickleError):
        load_inert(raw[:500])
    assert capfd.readouterr().err == ""


def test_a_length_is_not_taken_for_room():
    # bytearray(1 << 40) would take a terabyte.
    raw = b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x01\x85R."
    assert load_inert(raw).value == b""


WHOLE = [
    pickle.dumps(
        {
            "args": argparse.Namespace(lr=0.1, kind=Kind.A),
            "state": collections.OrderedDict(step=7, seen={1, 2}, ratio=complex(1, 2), raw=bytearray(b"abc")),
            "names": [("a", 1), ("b", None)] * 20,
        },
        protocol,
    )
    for protocol in (2, 4)
]


@given(
    raw=st.sampled_from(WHOLE),
    keep=st.floats(0, 1),
    put=st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=5)), max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_no_damage_makes_it_raise_anything_else(raw, keep, put):
    changed = bytearray(raw)
    for where, what in put:
        at = int(where * len(changed))
        changed[at : at + len(what)] = what
    changed = changed[: int(keep * len(changed)) or None] if keep < 0.3 else changed
    with contextlib.suppress(UnreadablePickleError):
        load_inert(bytes(changed))
