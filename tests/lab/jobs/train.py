"""A small classifier trained data-parallel on gloo: gzip samples, DataLoader workers, a checkpoint every few steps.

Nothing in here fails by itself: what fails is in the configuration, the data or the machine it is given.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import gzip
import json
import logging
import os
import sys
import urllib.request
import warnings
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError

import gates
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger("train")


class Samples(Dataset):
    """One gzip file of JSON for each sample."""

    def __init__(self, config: dict) -> None:
        self.files = sorted(Path(config["data"]).glob("*.json.gz"))
        self.classes = config["classes"]
        self.repeat = config.get("repeat", 1)
        self.tokenizer = config.get("tokenizer")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        gates.reached(f"sample-{index}")
        with gzip.open(self.files[index], "rt", encoding="utf-8") as handle:
            record = json.load(handle)
        if not 0 <= record["label"] < self.classes:
            raise ValueError(f"{self.files[index].name}: label {record['label']} is outside [0, {self.classes})")
        if self.tokenizer == "native":
            native_length(record["text"])
        return torch.tensor(record["features"]).repeat(self.repeat), torch.tensor(record["label"])


def native_length(text: str | None) -> int:
    """Length of the text, measured by C code that does not expect to get none."""
    return ctypes.CDLL(None).strlen(None if text is None else text.encode())


def read_index(config: dict, rank: int) -> bytes:
    """The index of the samples of this rank."""
    return (Path(config["index"]) / f"samples-{rank}.idx").read_bytes()


def fetch_vocabulary(config: dict) -> list[str]:
    """The vocabulary of the hub, or the copy on disk where the hub cannot be reached."""
    for attempt in range(1, 4):
        try:
            with urllib.request.urlopen(config["vocabulary_url"], timeout=5) as answer:
                return answer.read().decode().split()
        except URLError as error:
            if attempt == 3:
                log.exception("could not download the vocabulary, using the cached copy")
                break
            log.warning("Retrying (%d/2) after connection broken by '%r': %s", attempt, error, config["vocabulary_url"])
    return Path(config["vocabulary_file"]).read_text(encoding="utf-8").split()


def open_cache(config: dict, rank: int) -> None:
    """Check the feature cache of this rank; a damaged one is taken away so that the next start builds it anew."""
    file = Path(config["cache"]) / f"features-{rank}.json.gz"
    if not file.exists():
        log.info("building feature cache %s", file)
        with gzip.open(file, "wt", encoding="utf-8") as handle:
            json.dump({"rows": 64}, handle)
        return
    try:
        with gzip.open(file, "rt", encoding="utf-8") as handle:
            json.load(handle)
    except (EOFError, OSError):
        file.unlink()
        raise


def start_up(config: dict, rank: int) -> None:
    """Everything before the model."""
    if "vocabulary_url" in config:
        log.info("vocabulary of %d words", len(fetch_vocabulary(config)))
    if "index" in config:
        log.info("index of %d bytes", len(read_index(config, rank)))
    if "cache" in config:
        open_cache(config, rank)
    if config.get("amp"):
        warnings.warn("CUDA is not available: RuntimeError in amp autocast is ignored, using float32", stacklevel=2)


class PlainSGD:
    """Gradient descent by hand: importing torch.optim would double the time that a process needs to start."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr

    def step(self) -> None:
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.add_(parameter.grad, alpha=-self.lr)
                parameter.grad = None


def build(config: dict) -> tuple[nn.Module, PlainSGD]:
    """Model and optimizer, from the checkpoint where there is one."""
    model = nn.Sequential(nn.Linear(8 * config.get("repeat", 1), config["hidden"]), nn.ReLU())
    model.append(nn.Linear(config["hidden"], config["classes"]))
    if "resume" in config:
        log.info("loading checkpoint %s", config["resume"])
        state = torch.load(config["resume"], map_location="cpu")
        model.load_state_dict(state["model"])
    if config.get("ddp"):
        return DistributedDataParallel(model), PlainSGD(model.parameters(), lr=config["lr"])
    return model, PlainSGD(model.parameters(), lr=config["lr"])


def average_gradients(model: nn.Module) -> None:
    """What DDP does, by hand: wrapping a model imports the compiler, which doubles the time of a start."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def save(config: dict, model: nn.Module, step: int) -> None:
    """Write a checkpoint on rank 0 while the others wait."""
    if dist.get_rank() == 0:
        target = Path(config["checkpoints"]) / f"step-{step}.pt"
        log.info("saving checkpoint %s", target)
        torch.save({"model": model.state_dict(), "step": step}, target)
        log.info("saved checkpoint %s", target)
    dist.barrier()


def train(config: dict, loader: DataLoader, model: nn.Module, optimizer: PlainSGD) -> None:
    """One epoch."""
    rank = dist.get_rank()
    for step, (features, labels) in enumerate(loader, start=1):
        loss = nn.functional.cross_entropy(model(features), labels)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {step}, stopping")
        loss.backward()
        if not config.get("ddp"):
            average_gradients(model)
        gates.reached(f"rank-{rank}-step-{step}")
        optimizer.step()
        if rank == 0 or config.get("all_ranks_log"):
            log.info("step %d/%d loss %.4f", step, len(loader), loss.item())
        if step == config.get("save_at"):
            save(config, model, step)


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    logging.basicConfig(
        level=logging.INFO,
        format=config.get("log_format", "%(asctime)s %(levelname)s %(name)s: %(message)s").replace(
            "RANK", os.environ["RANK"]
        ),
    )
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=config["timeout_s"]))
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        log.info("world size %d, config %s", world, sys.argv[1])
    start_up(config, rank)
    model, optimizer = build(config)
    samples = Samples(config)
    sampler = DistributedSampler(samples, shuffle=False)
    loader = DataLoader(samples, batch_size=2, sampler=sampler, num_workers=config["workers"])
    if rank == 0:
        log.info("training on %d samples, %d steps per epoch", len(samples), len(loader))
    train(config, loader, model, optimizer)
    if rank == 0:
        log.info("training finished after %d steps", len(loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
