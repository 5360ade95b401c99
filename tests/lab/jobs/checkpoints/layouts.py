"""Writes the layouts of Megatron and of the Hugging Face Trainer with torch itself, by their documented structure.

The files are real files of torch.save, safetensors and torch.distributed.checkpoint; the programs that lay them out so did
not run. `python layouts.py OUT`.
"""

import argparse
import json
import random
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

out = Path(sys.argv[1])


def state(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Linear(10, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for _ in range(3):
        model(torch.randn(4, 6)).pow(2).mean().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return model, optimizer, scheduler


def megatron(root, tensor, pipe, iterations):
    for iteration in iterations:
        for t in range(tensor):
            for p in range(pipe):
                folder = root / f"iter_{iteration:07d}" / (f"mp_rank_{t:02d}" + (f"_{p:03d}" if pipe > 1 else ""))
                folder.mkdir(parents=True)
                model, optimizer, _ = state(iteration * 100 + t * 10 + p)
                args = argparse.Namespace(
                    tensor_model_parallel_size=tensor,
                    pipeline_model_parallel_size=pipe,
                    world_size=tensor * pipe * 2,
                    hidden_size=10,
                    iteration=iteration,
                )
                held = {
                    "args": args,
                    "checkpoint_version": 3.0,
                    "iteration": iteration,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "opt_param_scheduler": {"max_lr": 0.01, "num_steps": iteration},
                    "rng_state": [{"random_rng_state": random.getstate(), "torch_rng_state": torch.get_rng_state()}],
                    "num_floating_point_operations_so_far": iteration * 1e9,
                }
                torch.save(held, folder / "model_optim_rng.pt")
    (root / "latest_checkpointed_iteration.txt").write_text(str(iterations[-1]))


def megatron_dist(root, iteration):
    folder = root / f"iter_{iteration:07d}"
    model, _, _ = state(iteration)
    dcp.save({f"model.{k}": v for k, v in model.state_dict().items()}, checkpoint_id=folder, no_dist=True)
    torch.save({"iteration": iteration, "checkpoint_version": 3.0}, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1}))
    (root / "latest_checkpointed_iteration.txt").write_text(str(iteration))


def trainer(root, step, ranks):
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    model, optimizer, scheduler = state(step)
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    torch.save(scheduler.state_dict(), folder / "scheduler.pt")
    for rank in range(ranks):
        torch.manual_seed(rank)
        held = {"python": random.getstate(), "cpu": torch.get_rng_state()}
        torch.save(held, folder / f"rng_state_{rank}.pth")
    torch.save({"learning_rate": 0.01, "output_dir": "/data/run"}, folder / "training_args.bin")
    log = [{"epoch": 0.5, "loss": 1.25, "step": step}]
    held = {"best_metric": None, "epoch": 0.5, "global_step": step, "log_history": log, "max_steps": 1000}
    (folder / "trainer_state.json").write_text(json.dumps(held, indent=2))


megatron(out / "megatron", 2, 2, [100, 200])
megatron_dist(out / "megatron-dist", 300)
for at in (50, 100):
    trainer(out / "trainer", at, 2)
