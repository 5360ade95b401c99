"""One state in the formats of several libraries: `python formats.py OUT`."""

import sys
from pathlib import Path

import lightning
import numpy as np
import torch
from accelerate import Accelerator
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file

out = Path(sys.argv[1])
out.mkdir()
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.BatchNorm1d(10), torch.nn.Linear(10, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
for _ in range(3):
    model(torch.randn(4, 6)).pow(2).mean().backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
weights = model.state_dict()
for name, safe in (("hf-sharded", True), ("hf-bin", False)):
    (out / name).mkdir()
    save_torch_state_dict(weights, out / name, max_shard_size=300, safe_serialization=safe)
half = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in weights.items()}
save_file(half, out / "bf16.safetensors", metadata={"format": "pt"})
whole = {
    "model": weights,
    "optimizer": optimizer.state_dict(),
    "scheduler": scheduler.state_dict(),
    "epoch": 1,
    "step": 3,
    "rng": torch.get_rng_state(),
    "np_rng": np.random.get_state(),  # noqa: NPY002 - the state that trainers save
    "tied": weights["0.weight"].t(),
    "half": torch.randn(3, dtype=torch.float16),
    "param": torch.nn.Parameter(torch.randn(2, 2)),
}
torch.save(whole, out / "whole.pt")
torch.save(whole, out / "legacy.pt", _use_new_zipfile_serialization=False)
torch.serialization.set_crc32_options(False)
torch.save(whole, out / "nocrc.pt")
torch.serialization.set_crc32_options(True)
accelerator = Accelerator(cpu=True)
accelerator.prepare(model, optimizer, scheduler)
accelerator.save_state(str(out / "accelerate"))


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(6, 2)
        self.save_hyperparameters({"lr": 0.1})

    def training_step(self, batch, index):
        return self.net(batch).pow(2).mean()

    def configure_optimizers(self):
        adam = torch.optim.Adam(self.parameters(), lr=0.1)
        return [adam], [torch.optim.lr_scheduler.StepLR(adam, 1)]


trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(8, 6), batch_size=4))
trainer.save_checkpoint(out / "lightning.ckpt")
