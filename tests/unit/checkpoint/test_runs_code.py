"""A checkpoint whose pickle would act on the machine is told, none of it is run, and what real trainers save is no alarm."""

import argparse
import collections
import enum
import functools
import io
import os
import pathlib
import pickle
import subprocess
import zipfile

import pytest

from firstfault.pipelines.checkpoint import verify_checkpoint
from firstfault.readers.acting import acts
from firstfault.readers.unpickle_torch import load_inert


class Calls:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def saved(path, value, data="x"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{data}/data.pkl", pickle.dumps(value, protocol=2))
        archive.writestr(f"{data}/version", "3\n")
    return path


PAYLOADS = [
    ("a shell", lambda mark: Calls(os.system, f"touch {mark}"), "posix.system"),
    ("a process", lambda mark: Calls(subprocess.Popen, ["touch", str(mark)]), ".Popen"),
    ("code", lambda mark: Calls(exec, f"open({str(mark)!r}, 'w')"), "builtins.exec"),
    ("an expression", lambda mark: Calls(eval, f"open({str(mark)!r}, 'w')"), "builtins.eval"),
    ("a module", lambda mark: Calls(__import__, "antigravity"), "builtins.__import__"),
    ("a file", lambda mark: Calls(open, str(mark), "w"), "open"),
]


@pytest.mark.parametrize(("_", "payload", "called"), PAYLOADS, ids=[p[0] for p in PAYLOADS])
def test_what_loading_would_run_is_told_and_not_run(tmp_path, _, payload, called):
    mark = tmp_path / "ran"
    found = verify_checkpoint(saved(tmp_path / "model.pt", {"epoch": 3, "state_dict": {"x": payload(mark)}}))
    assert found.state == "damaged"
    (problem,) = [p for p in found.problems if p.kind == "runs_code"]
    assert called in problem.what
    assert problem.file == "model.pt"
    assert "weights_only=True" in problem.fix
    assert not mark.exists()


DOTTED = b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93\x8c\x04true\x85R."
LOOKED_UP = b"\x80\x04cbuiltins\ngetattr\n(ctorch\nos\n\x8c\x06systemtR\x8c\x04true\x85R."
PYTHON_2 = b"c__builtin__\neval\n(S'1'\ntR."
OLD_INSTANCE = b"(S'true'\nios\nsystem\n."


@pytest.mark.parametrize("raw", [DOTTED, LOOKED_UP, PYTHON_2, OLD_INSTANCE])
def test_other_ways_of_calling_are_seen(raw):
    assert load_inert(raw).called


class Color(enum.Enum):
    RED = 1


def test_what_trainers_save_is_no_alarm():
    value = {
        "args": argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("/data")),
        "counts": collections.Counter("abca"),
        "partial": functools.partial(sorted, reverse=True),
        "stat": pathlib.Path("/").stat(),
        "color": Color.RED,
        "named": [os.path.join, print, len, subprocess.run],
        "error": OSError(28, "No space left on device"),
    }
    for protocol in range(2, 6):
        assert load_inert(pickle.dumps(value, protocol=protocol)).called == ()


@pytest.mark.parametrize(
    ("whole", "does"),
    [
        ("os.system", True),
        ("nt.system", True),
        ("torch.os.system", True),
        ("torch.hub.load", True),
        ("os.stat_result", False),
        ("builtins.set", False),
        ("builtins.object", False),
        ("mine.os_tools.Config", False),
        ("mine.code.Model", False),
        ("code.models.Model", False),
        ("test.Config", False),
        ("commands.Options", False),
        ("commands.getoutput", True),
        ("pickle.loads", True),
        ("dill._dill._create_type", False),
        ("torch.nn.modules.linear.Linear", False),
        ("functools.partial", False),
        ("system", False),
        ("", False),
    ],
)
def test_names_that_act(whole, does):
    assert acts(whole) is does


def test_a_row_of_pickles_is_looked_at_too(tmp_path):
    stream = io.BytesIO()
    for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {"w": Calls(os.system, "true")}, []):
        pickle.dump(value, stream, protocol=2)
    path = tmp_path / "old.pt"
    path.write_bytes(stream.getvalue())
    assert [p.kind for p in verify_checkpoint(path).problems] == ["runs_code"]
