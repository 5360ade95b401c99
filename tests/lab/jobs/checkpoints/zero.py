"""Trains a tiny model under DeepSpeed on gloo and saves it twice: `torchrun zero.py STAGE OUT STEPS`, with DS_ACCELERATOR=cpu."""

import sys

import deepspeed
import torch
import torch.distributed as dist

stage, out, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4))
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": stage},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "bf16": {"enabled": True},
}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, lr_scheduler=scheduler, config=config)
torch.manual_seed(9 + dist.get_rank())
kind = next(engine.module.parameters()).dtype
for step in range(1, steps + 1):
    x = torch.randn(2, 6, dtype=kind)
    engine.backward((engine(x) - x[:, :4]).float().pow(2).mean())
    engine.step()
    if step in {2, steps}:
        engine.save_checkpoint(out, client_state={"seen": step * 2})
dist.destroy_process_group()
