import os, sys
os.environ.setdefault("DS_ACCELERATOR", "cpu")
import torch, deepspeed
stage, out, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
deepspeed.init_distributed(dist_backend="gloo")
import torch.distributed as dist
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4))
cfg = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "bf16": {"enabled": stage in (1, 2, 3)}, "wall_clock_breakdown": False}
opt = torch.optim.AdamW(model.parameters(), lr=1e-2); sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
engine, opt, _, sched = deepspeed.initialize(model=model, optimizer=opt, lr_scheduler=sched, config=cfg)
torch.manual_seed(9 + dist.get_rank())
dt = next(engine.module.parameters()).dtype
for step in range(steps):
    x = torch.randn(2, 6, dtype=dt); loss = (engine(x) - x[:, :4]).float().pow(2).mean(); engine.backward(loss); engine.step()
    if step + 1 in (2, steps): engine.save_checkpoint(out, client_state={"seen": (step + 1) * 2})
dist.destroy_process_group()
