"""Loads a checkpoint of `sharded.py` into another number of ranks and saves it again, untouched; also each rank's DTensors.

`torchrun recut.py SOURCE OUT DTENSORS`.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

source, out, plain = sys.argv[1], sys.argv[2], Path(sys.argv[3])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(10, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
weights, moments = get_state_dict(model, optimizer)
held = {"model": weights, "optimizer": moments, "trainer": {"step": 0}, "scheduler": scheduler.state_dict()}
dcp.load(held, checkpoint_id=source)
dcp.save(held, checkpoint_id=out)
plain.mkdir(exist_ok=True)
torch.save({"model": model.state_dict(), "step": 6}, plain / f"model_world_size_{world}_rank_{rank}.pt")
dist.destroy_process_group()
