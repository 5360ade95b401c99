"""A job that imports torch once, forks its ranks, and meets one fault, which its configuration names.

With the recorder on (`firstfault record`) each rank leaves a black box; off, every call of it here does nothing.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import json
import os
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import firstfault.recorder as box


class Samples(Dataset):
    """One text file for each sample; worker and rank meet their fault where the configuration says."""

    def __init__(self, config: dict, rank: int) -> None:
        self.files = [str(f) for f in sorted(Path(config["data"]).glob("*.txt"))]
        self.fault = config["fault"] if rank == config["rank"] else ""
        self.at = config["at"] * 2

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.fault == "worker_killed" and index == self.at:
            os.kill(os.getpid(), 9)
        name = self.files[index]
        if self.fault == "worker_stuck" and index == self.at:
            name = name.replace(".txt", ".fifo")  # a pipe into which nobody writes
        with open(name, encoding="ascii") as file:  # noqa: PTH123 - as a reader of samples does it
            return torch.tensor([float(file.read())])


def meet(config: dict, rank: int, step: int) -> None:
    """The fault of this rank at this step; most have none."""
    fault = config["fault"]
    if rank != config["rank"] or step != config["at"]:
        return
    if fault == "raises":
        raise ValueError(f"label 17 is outside [0, 10), api_key={config['secret']}")
    if fault == "killed":
        os.kill(os.getpid(), 9)
    if fault == "crashes":
        ctypes.string_at(0)
    if fault == "lock":
        with box.phase("augment"):
            held = threading.Lock()
            held.acquire()
            held.acquire()
    if fault == "holds_gil":
        # A call through PyDLL keeps the interpreter's lock; a mutex that one thread takes twice is never free.
        mutex, library = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
        with box.phase("tokenize"):
            library.pthread_mutex_lock(mutex)
            library.pthread_mutex_lock(mutex)
    if fault == "checkpoint":
        # A store that does not answer: a pipe that is never read, too small for what is written.
        torch.save({"model": torch.zeros(1 << 18)}, config["pipe"])
    if fault == "out_of_memory":
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.20 GiB is free. "
            "Process 4711 has 77.95 GiB memory in use. Of the allocated memory 75.02 GiB is allocated by PyTorch, and 1.10 GiB is "
            "reserved by PyTorch but unallocated."
        )
    if fault == "other_call":
        dist.broadcast(torch.zeros(1), src=0)


def train(config: dict, rank: int, world: int) -> None:
    """Some steps: a batch, a sum over the ranks, and now and then the fault."""
    box.start()
    box.describe(config={k: v for k, v in config.items() if k != "data"}, data="v3", seeds={"torch": 7})
    dist.init_process_group(
        "gloo", init_method=f"file://{config['store']}", rank=rank, world_size=world, timeout=dt.timedelta(seconds=60)
    )
    samples = Samples(config, rank)
    workers = config["workers"]
    loader = DataLoader(
        samples, batch_size=2, num_workers=workers, multiprocessing_context=config["context"] if workers else None
    )
    slow = config["fault"] == "slow" and rank == config["rank"]
    model = DistributedDataParallel(torch.nn.Linear(1, 1)) if config.get("ddp") else None
    pause = threading.Event()
    for step, batch in enumerate(loader, start=1):
        pause.wait(config["step_s"] * (3 if slow else 1))  # the work of a step
        meet(config, rank, step)
        if model is None:
            dist.all_reduce(batch)
        else:
            model(batch.view(-1, 1)).sum().backward()  # sums up in the backward pass, where no call is seen
        box.step()
        box.metrics(loss=float(batch.sum()))
        if step == config["at"] + 1 and config["fault"] in {"stopped", "slow"} and rank == config["rank"]:
            with open(config["gate"], "w", encoding="ascii") as gate:  # noqa: PTH123 - a FIFO
                gate.write(f"{os.getpid()}\n")
    dist.destroy_process_group()


def main() -> None:
    """Forks the ranks; each goes on to `train`, the parent waits for all and fails where one did."""
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if config.get("alone"):  # a plain program: nobody has told it a rank
        train(config, 0, 1)
        return
    if "RANK" in os.environ:  # a launcher has started the ranks
        train(config, int(os.environ["RANK"]), config["world"])
        return
    children = []
    for rank in config.get("here") or range(config["world"]):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(config["world"]))
            train(config, rank, config["world"])
            return
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    sys.exit(int(any(codes)))


if __name__ == "__main__":
    main()
