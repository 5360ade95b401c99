"""Trains a tiny sharded model on gloo and saves it with DCP, for real: continuous or resumed."""
import os, sys, random
import numpy as np
import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
out, start, stop, resume = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else ""
dist.init_process_group("gloo"); rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(100 + (0)); 
mesh = init_device_mesh("cpu", (world,))
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(10, 4))
fully_shard(model, mesh=mesh)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2); sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
torch.manual_seed(7 + rank); random.seed(7 + rank); np.random.seed(7 + rank)
def rng(): return {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()}
class T:
    step = 0
    def state_dict(self): return {"step": self.step}
    def load_state_dict(self, s): self.step = s["step"]
t = T()
def state():
    m, o = get_state_dict(model, opt)
    return {"model": m, "optimizer": o, "trainer": t.state_dict(), "scheduler": sched.state_dict()}
if resume:
    s = state(); dcp.load(s, checkpoint_id=resume)
    set_state_dict(model, opt, model_state_dict=s["model"], optim_state_dict=s["optimizer"])
    t.step = s["trainer"]["step"]; sched.load_state_dict(s["scheduler"])
    r = torch.load(f"{resume}/rng_state_{rank}.pth", weights_only=False); torch.set_rng_state(r["torch"]); random.setstate(r["python"]); np.random.set_state(r["numpy"])
for step in range(start, stop):
    x = torch.randn(3, 6); loss = (model(x) - x[:, :4]).pow(2).mean(); loss.backward(); opt.step(); sched.step(); opt.zero_grad(); t.step = step + 1
dcp.save(state(), checkpoint_id=out)
torch.save(rng(), f"{out}/rng_state_{rank}.pth")
dist.destroy_process_group()
