"""Hooks into libraries, held against stand-ins that have the names and calls of the real ones; the lab holds them against torch."""

import pytest
from programs import run

from firstfault.recorder import format as layout

STAND_IN = """
import os, sys, types
def library(name, **content):
    folder = os.path.join(os.getcwd(), *name.split("."))
    os.makedirs(folder, exist_ok=True)
    part = os.getcwd()
    for word in name.split("."):
        part = os.path.join(part, word)
        init = os.path.join(part, "__init__.py")
        if not os.path.exists(init):
            open(init, "w").close()
    with open(os.path.join(folder, "__init__.py"), "w") as file:
        file.write(content["text"])
"""


def test_an_optimizer_counts_steps_by_torchs_own_hooks_also_where_it_is_imported_later(tmp_path):
    left = run(
        tmp_path,
        STAND_IN
        + '''
library("torch.optim.optimizer", text="""
before, after = [], []
def register_optimizer_step_pre_hook(hook): before.append(hook)
def register_optimizer_step_post_hook(hook): after.append(hook)
class SGD:
    def __init__(self): self._optimizer_step_post_hooks = {}
    def step(self):
        for hook in before: hook(self, (), {})
        for hook in after: hook(self, (), {})
""")
import firstfault.recorder as r
r.start()
from torch.optim.optimizer import SGD
one, other = SGD(), SGD()
for n in range(5):
    one.step(); other.step()
from firstfault.recorder import api, format
ring = format.read_ring(bytes(api.current().ring.map))
print(ring.step, ring.phase)
r.step(100); one.step()
print(format.read_ring(bytes(api.current().ring.map)).step, SGD.__module__)
''',
    )
    assert left.out == "5 forward\n100 torch.optim.optimizer\n", left.err


def test_a_call_is_seen_and_an_exception_leaves_it_inside(tmp_path):
    left = run(
        tmp_path,
        STAND_IN
        + '''
library("torch.distributed.distributed_c10d", text="""
import functools
class Group:
    begun = 0
    def _get_sequence_number_for_group(self): return Group.begun
class _world:
    pg_map = {Group(): None}
def logged(f):
    @functools.wraps(f)
    def wrapper(*a, **k): return f(*a, **k)
    return wrapper
@logged
def all_reduce(x):
    Group.begun += 1
    if x is None: raise RuntimeError("Connection closed by peer")
    return x()
def is_initialized(): return True
def get_rank(): return 5
def get_world_size(): return 8
""")
import firstfault.recorder as r
r.start()
import torch.distributed.distributed_c10d as c10d
from firstfault.recorder import api, format
recorder = api.current()
def ring():
    recorder.looker.look()
    return format.read_ring(bytes(recorder.ring.map))
before = c10d.all_reduce
inside = c10d.all_reduce(ring)
print(inside.call, inside.in_call, inside.call_number, inside.head.rank)
print(ring().in_call, c10d.all_reduce is before)
def main():
    c10d.all_reduce(None)
try:
    main()
except RuntimeError as error:
    recorder.raised_in(error, "MainThread")
print(ring().in_call, ring().call_number)
''',
        RANK="",
    )
    assert left.out == "all_reduce True 1 5\nFalse True\nTrue 2\n", left.err
    assert left.records(layout.CHANGE)[0]["now"] == 5


MEMORY = (
    STAND_IN
    + '''
library("torch", text="""
class _C:
    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer
""")
library("torch.cuda", text="def _lazy_call(call): call()\\n")
library("torch.cuda.memory", text="""
switched = []
def _record_memory_history(**how): switched.append(how)
def _dump_snapshot(file): open(file, "wb").write(b"a snapshot")
def memory_summary(device): return f"summary of {device}"
""")
import firstfault.recorder as r
r.start()
import torch, torch.cuda, torch.cuda.memory
'''
)


def test_the_allocators_observer_leaves_a_snapshot_and_a_summary_when_it_happens(tmp_path):
    left = run(
        tmp_path,
        MEMORY
        + """
print(torch.cuda.memory.switched[0]["max_entries"])
for n in range(5):
    torch._C.observer(0, 2 << 30, 80 << 30, 1 << 20)
print("the program catches it and goes on")
""",
    )
    assert left.out == "100000\nthe program catches it and goes on\n", left.err
    records = left.records(layout.OOM)
    assert [(r["device"], r["wanted"], r.get("snapshot") is not None) for r in records[:3]] == [
        (0, 2 << 30, True),
        (0, 2 << 30, True),
        (0, 2 << 30, False),
    ]
    assert left.texts(layout.MEMORY) == ["a snapshot"] * 2
    assert left.texts(".memory.txt") == ["summary of 0"] * 2


def test_the_memory_history_can_be_left_off(tmp_path):
    left = run(tmp_path, MEMORY + "print(torch.cuda.memory.switched)", FIRSTFAULT_RECORD_MEMORY="0")
    assert left.out == "[]\n", left.err


@pytest.mark.parametrize(
    "text",
    [
        "def _dump_snapshot(file): raise OSError('full')\ndef _record_memory_history(**how): pass\n",
        "def _record_memory_history(enabled): pass\n",
        "",
    ],
)
def test_an_old_torch_is_left_alone(tmp_path, text):
    program = MEMORY.replace(
        'library("torch.cuda.memory", text="""', 'library("torch.cuda.memory", text="""' + text + "\nignored = '''"
    ).replace('memory_summary(device): return f"summary of {device}"\n', "memory_summary'''\n")
    left = run(tmp_path, program + "\ngetattr(torch._C, 'observer', print)(0, 1, 2, 3)\nprint('on')")
    assert left.code == 0, left.err
    assert left.out.endswith("on\n")


def test_frameworks_tell_their_phases_and_steps(tmp_path):
    left = run(
        tmp_path,
        STAND_IN
        + '''
library("transformers.trainer", text="""
import firstfault.recorder.api as api
def now(): return api.current().ring.said
class Trainer:
    def _save_checkpoint(self): return now()
    def evaluate(self): return now()
""")
library("megatron.training.training", text="""
def train_step(): return 7
def evaluate(): raise ValueError("x")
""")
import firstfault.recorder as r
r.start()
from transformers.trainer import Trainer
import megatron.training.training as m
from firstfault.recorder import api
print(Trainer()._save_checkpoint(), Trainer().evaluate(), repr(api.current().ring.said))
print(m.train_step(), m.train_step(), api.current().ring.step_number)
try:
    m.evaluate()
except ValueError:
    print(api.current().ring.said)
''',
    )
    assert left.out == "checkpoint evaluation ''\n7 7 2\nevaluation\n", left.err


SAVES = (
    STAND_IN
    + '''
library("torch.serialization", text="""
import threading
begun, go = threading.Event(), threading.Event()
def save(what, path):
    begun.set()
    if what == "slowly": go.wait(30)
def load(path): raise FileNotFoundError(path)
""")
import threading
import firstfault.recorder as r
r.start()
import torch.serialization as torch
from firstfault.recorder import api, format
def now():
    api.current().looker.look()
    ring = format.read_ring(bytes(api.current().ring.map))
    return ring.phase, ring.item
'''
)


def test_a_phase_that_an_exception_left_is_over_when_the_program_goes_on_in_spite_of_it(tmp_path):
    left = run(
        tmp_path,
        SAVES
        + """
try:
    torch.load("/c/last.pt")
except FileNotFoundError:
    print(*now())
r.step()
print(*now())
torch.save("all", "/c/1.pt")
print(*now())
try:
    with r.phase("evaluation"):
        r.item("/d/7.bin")
        raise ValueError("x")
except ValueError:
    torch.save("all", "/c/2.pt")
print(*now())
""",
    )
    assert left.out == "checkpoint /c/last.pt\nforward \nforward \nforward \n", left.err


def test_an_exception_that_ends_the_program_is_one_of_the_phase_that_it_left(tmp_path):
    left = run(tmp_path, SAVES + 'r.step()\ntorch.load("/c/last.pt")\n')
    assert [e["phase"] for e in left.records(layout.EXCEPTION)] == ["checkpoint"], left.err


def test_what_another_thread_saves_is_no_phase_of_the_program(tmp_path):
    left = run(
        tmp_path,
        SAVES
        + """
r.step()
thread = threading.Thread(target=torch.save, args=("slowly", "/c/1.pt"))
thread.start()
torch.begun.wait(30)
print(*now())
with r.phase("evaluation"):
    torch.go.set()
    thread.join()
    print(*now())
""",
    )
    assert left.out == "forward \nevaluation \n", left.err


def test_what_is_imported_is_imported_as_ever(tmp_path):
    left = run(
        tmp_path,
        STAND_IN
        + """
library("torch.serialization", text="def save(obj, f): return f\\nraise_it = False\\n")
library("lightning.pytorch.trainer.trainer", text="raise ImportError('its own error')\\n")
import firstfault.recorder as r
r.start()
import torch.serialization as s, importlib, inspect
assert inspect.getsource(s).startswith("def save"), s.__spec__
assert s.__loader__ is s.__spec__.loader and s.__loader__.get_filename()
print(s.save(1, "/ckpt/x.pt"), importlib.reload(s).raise_it)
try:
    import lightning.pytorch.trainer.trainer
except ImportError as error:
    print(error)
""",
    )
    assert left.out == "/ckpt/x.pt False\nits own error\n", left.err


LOADERS = (
    STAND_IN
    + '''
library("torch.utils.data._utils.worker", text="def _worker_loop(*args): pass\\n")
library("torch.utils.data.dataloader", text="""
import torch.utils.data._utils.worker
class _BaseDataLoaderIter:
    def __init__(self, calls): self.calls, self._num_yielded = iter(calls), 0
    def __next__(self):
        batch = next(self.calls)()
        self._num_yielded += 1
        return batch
""")
import firstfault.recorder as r
r.start()
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
from firstfault.recorder import api, format
def ring(look=True):
    if look: api.current().looker.look()
    return format.read_ring(bytes(api.current().ring.map))
'''
)


def test_a_rank_is_in_its_loader_from_asking_to_getting_a_batch_without_a_look(tmp_path):
    left = run(
        tmp_path,
        LOADERS
        + """
def broken(): raise OSError("stale file handle")
it = Iterator([lambda: ring(False), lambda: ring(), broken])
for n in range(2):
    inside = next(it)
    print(inside.phase, inside.waiting_since > 0, ring(False).phase, ring(False).waiting_since)
print(ring().batches, ring().waited > 0)
for error in (OSError, StopIteration):
    try:
        next(it)
    except error:
        print(ring(False).phase)
""",
    )
    assert left.out == "data True forward 0\ndata True forward 0\n2 True\nforward\nforward\n", left.err


def test_what_the_program_says_counts_where_it_says_it(tmp_path):
    left = run(
        tmp_path,
        LOADERS
        + """
def augmented():
    with r.phase("augment"):
        return ring()
with r.phase("evaluation"):
    it = Iterator([ring, augmented])
    print(next(it).phase, ring().phase, next(it).phase, ring().phase)
print(ring().phase)
""",
    )
    assert left.out == "data evaluation augment evaluation\nforward\n", left.err


def test_the_one_thread_looks_by_itself(tmp_path):
    left = run(
        tmp_path,
        LOADERS
        + """
import time
end = time.monotonic() + 30
def waits():
    while time.monotonic() < end:
        found = ring(False)
        if found.seen > found.waiting_since: return found
        time.sleep(0.01)
print(next(Iterator([waits])).phase)
""",
    )
    assert left.out == "data\n", left.err


def test_another_optimizer_counts_when_the_first_is_gone(tmp_path):
    left = run(
        tmp_path,
        STAND_IN
        + '''
library("torch.optim.optimizer", text="""
after = []
def register_optimizer_step_post_hook(hook): after.append(hook)
class SGD:
    def __init__(self): self._optimizer_step_post_hooks = {}
    def step(self):
        for hook in after: hook(self, (), {})
class Other:
    step = SGD.step
""")
import firstfault.recorder as r
r.start()
from torch.optim.optimizer import SGD, Other
from firstfault.recorder import api
Other().step()
one, other = SGD(), SGD()
one.step(); other.step()
print(api.current().ring.beats)
one._optimizer_step_post_hooks = {}
one.step(); other.step(); Other().step()
print(api.current().ring.beats)
del one
other.step(); other.step()
print(api.current().ring.beats)
r.step(); other.step()
print(api.current().ring.beats)
''',
    )
    assert left.out == "1\n2\n4\n5\n", left.err


WRAPPED = (
    STAND_IN
    + '''
library("torch.optim.optimizer", text="""
import functools
after = []
def register_optimizer_step_post_hook(hook): after.append(hook)
class Optimizer:
    def __init__(self):
        self._optimizer_step_post_hooks = {}
        kind = type(self)
        if not getattr(kind.step, "hooked", None):
            kind.step = self.profile_hook_step(kind.step)
            kind.step.hooked = True
    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args):
            self, *_ = args
            out = func(*args)
            for hook in after: hook(self, (), {})
            return out
        return wrapper
class SGD(Optimizer):
    def step(self): return "done"
""")
import firstfault.recorder as r
r.start()
from torch.optim.optimizer import SGD, Optimizer
from firstfault.recorder import api
class Above(SGD):
    skips = False
    def step(self): return None if self.skips else super().step()
class Around(Optimizer):
    def __init__(self, inner): super().__init__(); self.inner = inner
    times = 1
    def step(self):
        for _ in range(self.times): out = self.inner.step()
        return out
def counted(times, *optimizers):
    before = api.current().ring.beats
    for _ in range(times):
        for optimizer in optimizers: optimizer.step()
    return api.current().ring.beats - before
'''
)


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("SGD(); print(counted(5, Above()))", "5"),
        ("one = Above(); print(counted(5, one)); SGD(); print(counted(5, one))", "5\n5"),
        (
            "SGD(); one = Above(); one.skips = True; print(counted(5, one)); one.skips = False; print(counted(5, one))",
            "5\n5",
        ),
        ("SGD(); a, b = Above(), Above(); print(counted(5, a, b)); del a; print(counted(5, b))", "5\n5"),
        # It has its own name and class, and everything else of the optimizer that it stands for.
        ("one = SGD(); around = Around(one); around.__dict__.update(one.__dict__); print(counted(5, around))", "5"),
        ("one = SGD(); print(counted(5, Around(one)))", "5"),
        # One that climbs and comes down again, or looks for the length of its way, steps another one many times.
        ("one = Around(SGD()); one.times = 2; print(counted(5, one))", "5"),
        ("one = Around(SGD()); one.times = 50; print(counted(5, one))", "5"),
        ("one, other = Around(SGD()), SGD(); print(counted(5, one), counted(30, other))", "5 11"),
    ],
    ids=[
        "a class above",
        "hooked later",
        "not every time",
        "two of them",
        "the same hooks",
        "around another",
        "around another twice",
        "around another often",
        "and then another",
    ],
)
def test_one_step_that_two_of_torchs_hooks_see_is_counted_once(tmp_path, text, out):
    left = run(tmp_path, WRAPPED + text)
    assert left.out == f"{out}\n", left.err


def test_deepspeed_tells_its_own_steps_whatever_its_optimizer_does_for_each_group(tmp_path):
    left = run(
        tmp_path,
        WRAPPED
        + '''
library("deepspeed.runtime.engine", text="""
class DeepSpeedEngine:
    def __init__(self, optimizer): self.optimizer, self.micro_steps = optimizer, 0
    def _take_model_step(self, lr_kwargs, block_eigenvalue={}):
        for group in range(3): self.optimizer.step()
    def step(self):
        self.micro_steps += 1
        if self.micro_steps % 2 == 0: self._take_model_step(None)
""")
from deepspeed.runtime.engine import DeepSpeedEngine
print(counted(10, DeepSpeedEngine(SGD())), api.current().broken)
''',
    )
    assert left.out == "5 []\n", left.err


def test_another_optimizer_counts_where_the_first_steps_no_more(tmp_path):
    left = run(
        tmp_path,
        WRAPPED
        + "a, b = SGD(), SGD(); print(counted(3, a), counted(15, b), counted(3, a, b), counted(25, b), counted(3, b), counted(5, a, b))",
    )
    assert left.out == "3 0 3 7 3 5\n", left.err


def test_a_stopped_recorder_is_written_to_no_more(tmp_path):
    left = run(
        tmp_path,
        LOADERS
        + """
ring_of_old, it = api.current().ring, Iterator([lambda: 7])
r.stop()
before = bytes(ring_of_old.map)
print(next(it), bytes(ring_of_old.map) == before)
""",
    )
    assert left.out == "7 True\n", left.err


@pytest.mark.parametrize(
    ("loop", "out"),
    [
        ("counted(5, critic) + counted(1, generator)", [5, 5, 5, 5]),
        ("counted(1, generator) + counted(5, critic)", [1, 1, 1, 1]),
        ("counted(1, generator) + counted(19, critic)", [1, 1, 1, 1]),
        ("counted(1, generator) + counted(100, critic)", [82, 100, 100, 100]),
        ("counted(1, critic, generator)", [1, 1, 1, 1]),
    ],
)
def test_of_two_optimizers_that_step_at_different_rates_one_is_counted(tmp_path, loop, out):
    """As a critic and its generator do; never the sum of both, and no change to and fro."""
    left = run(tmp_path, WRAPPED + f"critic, generator = SGD(), SGD()\nprint([{loop} for _ in range(4)])\n")
    assert left.out == f"{out}\n", left.err
