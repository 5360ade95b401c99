"""A checkpoint whose pickle would act on the machine is told, none of it is run, and what real trainers save is no alarm."""

import argparse
import array
import collections
import enum
import functools
import http
import inspect
import io
import itertools
import logging
import operator
import os
import pathlib
import pickle
import platform
import random
import re
import resource
import signal
import socket
import ssl
import subprocess
import time
import types
import typing
import urllib.parse
import uuid
import zipfile
import zoneinfo

import pytest

from firstfault.checkpoint.values import canonical
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


def _text(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


def _name(module, name):
    return _text(module) + _text(name) + b"\x93"


SHELL = _name("os", "system")
ROUNDABOUT = {
    "handed to map": _name("builtins", "map") + SHELL + b"]" + _text("true") + b"a\x86R",
    "handed to starmap": _name("itertools", "starmap") + SHELL + b"]" + _text("true") + b"\x85a\x86R",
    "handed to reduce": _name("functools", "reduce") + _name("builtins", "eval") + b"]" + _text("1") + b"a\x86R",
    "kept, then called": _name("functools", "partial") + SHELL + _text("true") + b"\x86R)R",
    "kept as a state, then called": _name("functools", "partial")
    + _name("builtins", "print")
    + b"\x85R("
    + SHELL
    + _text("true")
    + b"\x85}Ntb)R",
    "a method of an object": _name("argparse", "Namespace") + b")\x81}" + _text("__setstate__") + SHELL + b"sb0N",
    "handed to a pool": _name("concurrent.futures", "ThreadPoolExecutor.submit")
    + b"(K\x01"
    + SHELL
    + _text("true")
    + b"tR",
    "at its end": _name("weakref", "finalize") + b"(K\x01" + SHELL + _text("true") + b"tR",
    "a file by its path": _name("pathlib", "Path.write_text") + b"K\x01" + _text("x") + b"\x86R",
    "a file of numpy": _name("numpy", "ndarray.tofile") + b"K\x01" + _text("x") + b"\x86R",
    "a part of Python that few know": _name("uuid", "_get_command_stdout") + _text("true") + _text("x") + b"\x86R",
    "a tool of numpy": _name("numpy.f2py.crackfortran", "myeval") + _text("1") + b"\x85R",
    "another save": _name("torch", "save") + _text("x") + _text("y") + b"\x86R",
    "a function of its own": _name("dill._dill", "_create_function") + b"N\x85R)R",
    "looked up by dill": _name("dill._dill", "_get_attr")
    + _name("dill._dill", "_import_module")
    + _text("os")
    + b"\x85R"
    + _text("system")
    + b"\x86R"
    + _text("true")
    + b"\x85R",
    "inside of a storage": _name("torch.storage", "_load_from_bytes")
    + b"C"
    + bytes([len(OLD_INSTANCE)])
    + OLD_INSTANCE
    + b"\x85R",
}


@pytest.mark.parametrize("raw", ROUNDABOUT.values(), ids=ROUNDABOUT)
def test_ways_round_about_are_seen(raw):
    assert load_inert(b"\x80\x04" + raw + b".").called


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Keyed:
    def __new__(cls, *, key):
        return object.__new__(cls)

    def __getnewargs_ex__(self):
        return (), {"key": 1}


class Outer:
    class Inner:
        pass


def test_what_python_itself_saves_is_no_alarm():
    values = [
        *(Rights.READ | Rights.WRITE, Rights.READ, Keyed(key=1), Outer.Inner(), list[int], typing.Literal["a"]),
        *(
            http.HTTPStatus.OK,
            signal.SIGTERM,
            socket.AF_INET,
            ssl.TLSVersion.TLSv1_2,
            urllib.parse.urlsplit("http://a/b"),
        ),
        *(os.times(), os.uname(), time.localtime(), platform.uname(), resource.getrusage(0), zoneinfo.ZoneInfo("UTC")),
        *(TimeoutError("x"), subprocess.CalledProcessError(1, "x"), logging.getLogger("x"), re.compile("a")),
        *(uuid.uuid4(), random.Random(1), array.array("i", [1]), inspect.signature(len), operator.itemgetter(1)),
        *(types.SimpleNamespace(run=subprocess.run), collections.defaultdict(functools.partial(dict)), itertools.count),
        functools.partial(subprocess.run, check=True),
    ]
    for protocol in range(2, 6):
        assert {repr(v): load_inert(pickle.dumps(v, protocol=protocol)).called for v in values} == dict.fromkeys(
            map(repr, values), ()
        )


def test_members_of_an_enum_stay_apart():
    texts = {
        canonical(load_inert(b"\x80\x04cbuiltins\ngetattr\ncmine\nMode\n" + _text(name) + b"\x86R.").value)
        for name in ("Fast", "Slow", "FAST", "slow")
    }
    assert len(texts) == 4


def test_lists_in_lists_are_looked_through_in_bounds():
    raw = b"\x80\x04" + b"]" + b"(" + b"K\x01" * 60 + b"e"
    for number in range(12):
        raw += b"q" + bytes([number]) + b"]" + b"(" + (b"h" + bytes([number])) * 60 + b"e"
    load_inert(raw[:3] + raw[3:] + b"q\x7f0" + _name("builtins", "map") + b"h\x7fh\x7f\x86R.")
