"""Trains a tiny sharded model on gloo and saves it with torch.distributed.checkpoint: `torchrun sharded.py OUT FROM TO [RESUME]`."""

import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

out, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
resume = Path(sys.argv[4]) if len(sys.argv) > 4 else None
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(100)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(10, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
torch.manual_seed(7 + rank)
random.seed(7 + rank)
np.random.seed(7 + rank)  # noqa: NPY002 - the state that trainers save
trainer = {"step": 0}


def state():
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "trainer": trainer, "scheduler": scheduler.state_dict()}


if resume is not None:
    held = state()
    dcp.load(held, checkpoint_id=resume)
    set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])
    trainer = held["trainer"]
    scheduler.load_state_dict(held["scheduler"])
    seeds = torch.load(resume / f"rng_state_{rank}.pth", weights_only=False)
    torch.set_rng_state(seeds["torch"])
    random.setstate(seeds["python"])
    np.random.set_state(seeds["numpy"])  # noqa: NPY002
for step in range(first, last):
    x = torch.randn(3, 6)
    (model(x) - x[:, :4]).pow(2).mean().backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    trainer["step"] = step + 1
dcp.save(state(), checkpoint_id=out)
seeds = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()}  # noqa: NPY002
torch.save(seeds, out / f"rng_state_{rank}.pth")
dist.destroy_process_group()
