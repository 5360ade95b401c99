"""One process: safetensors, HF shards, torch zip and legacy, accelerate, Lightning-like."""
import os, sys, json
import torch, numpy as np
torch.manual_seed(3)
from safetensors.torch import save_file
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.BatchNorm1d(10), torch.nn.Linear(10, 4))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2); sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
for _ in range(3):
    model(torch.randn(4, 6)).pow(2).mean().backward(); opt.step(); sched.step(); opt.zero_grad()
o = sys.argv[1]; os.makedirs(o, exist_ok=True)
sd = {k: v.contiguous() for k, v in model.state_dict().items()}
from huggingface_hub import save_torch_state_dict
os.makedirs(f"{o}/hf-sharded", exist_ok=True)
save_torch_state_dict(model.state_dict(), f"{o}/hf-sharded", max_shard_size=300)
os.makedirs(f"{o}/hf-bin", exist_ok=True)
save_torch_state_dict(model.state_dict(), f"{o}/hf-bin", max_shard_size=300, safe_serialization=False)
save_file({k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in sd.items()}, f"{o}/bf16.safetensors", metadata={"format": "pt"})
whole = {"model": model.state_dict(), "optimizer": opt.state_dict(), "scheduler": sched.state_dict(), "epoch": 1, "step": 3, "rng": torch.get_rng_state(), "np_rng": np.random.get_state(), "tied": sd["0.weight"].t(), "half": torch.randn(3, dtype=torch.float16), "param": torch.nn.Parameter(torch.randn(2, 2))}
torch.save(whole, f"{o}/whole.pt"); torch.save(whole, f"{o}/legacy.pt", _use_new_zipfile_serialization=False)
torch.serialization.set_crc32_options(False); torch.save(whole, f"{o}/nocrc.pt"); torch.serialization.set_crc32_options(True)
try:
    from accelerate import Accelerator
    a = Accelerator(cpu=True); m, op, sc = a.prepare(model, opt, sched); a.save_state(f"{o}/accelerate")
except Exception as e: print("accelerate", repr(e))
try:
    import lightning as L
    class M(L.LightningModule):
        def __init__(self): super().__init__(); self.net = torch.nn.Linear(6, 2); self.save_hyperparameters({"lr": 0.1})
        def training_step(self, b, i): return self.net(b).pow(2).mean()
        def configure_optimizers(self):
            x = torch.optim.Adam(self.parameters(), lr=0.1); return [x], [torch.optim.lr_scheduler.StepLR(x, 1)]
    t = L.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
    t.fit(M(), torch.utils.data.DataLoader(torch.randn(8, 6), batch_size=4)); t.save_checkpoint(f"{o}/lightning.ckpt")
except Exception as e: print("lightning", repr(e))
