"""Loads a two-rank checkpoint into four ranks and saves it again, untouched; also each rank's DTensors by torch.save."""
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
src, out, dt = sys.argv[1:]
dist.init_process_group("gloo"); rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(10, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2); sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
m, o = get_state_dict(model, opt); s = {"model": m, "optimizer": o, "trainer": {"step": 0}, "scheduler": sched.state_dict()}
dcp.load(s, checkpoint_id=src); dcp.save(s, checkpoint_id=out)
import os; os.makedirs(dt, exist_ok=True)
torch.save({"model": model.state_dict(), "step": 6}, f"{dt}/model_world_size_{world}_rank_{rank}.pt")
dist.destroy_process_group()
