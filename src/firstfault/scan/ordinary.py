"""Lines that healthy jobs print by the million; a literal that stands in one of them is a bad thing to search for.

They stand for kinds of lines, not for any program's exact text. Engines must be right without this; it only makes them fast.
"""

ORDINARY = b"""\
 iteration    4210/  500000 | consumed samples:  4311040 | elapsed time per iteration (ms): 3712.4 | learning rate: 2.9E-04 |\
 global batch size: 1024 | lm loss: 2.104731E+00 | loss scale: 1.0 | grad norm: 0.412 | number of skipped iterations:   0 |\
 number of nan iterations:   0 |
Epoch 3:  41%|####      | 3741/9000 [1:12:09<1:22:31, 3.95it/s, v_num=3, train_loss=2.604, train_step_timing in s=0.25]
{'loss': 2.6428, 'grad_norm': 0.570523, 'learning_rate': 4.5333e-05, 'epoch': 0.79, 'eval_accuracy': 0.52, 'perplexity': 14.1}
[rank3]: 2026-03-09 16:40:30,290 - root - INFO - step:   6280  loss:  2.0694  memory: 56.68GiB(88.1%)  tps: 8,114  mfu: 41.2%
[2026-03-09 16:40:30,290] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)]
[2026-03-09 16:40:30,290] [INFO] [timer.py:215:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=92.1, MemAllocated=8.1GB
Epoch: [0][ 100/5004]  Time  0.412 ( 0.571)  Data  0.001 ( 0.120)  Loss 6.9112e+00 (6.9441e+00)  Acc@1   0.39 (  0.12)
gpu-h017:2031:2431 [3] NCCL INFO Channel 05/0 : 3[3] -> 11[3] [send] via NET/IB/3/GDRDMA comm 0x55d2 rank 3 nranks 128
/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:91: UserWarning: the parameter should be passed explicitly.
  warnings.warn(
  File "/workspace/train/loop.py", line 214, in training_step
    return forward_call(*args, **kwargs)
INFO:root:validation loss at iteration 1000 | last checkpoint /results/checkpoints/iter_0001000 | data processed
2026-03-09T16:40:30.290Z worker-3 INFO trainer: step 6280/90000 time 0.41s data 0.01s loss 2.07 lr 1.2e-4 gpu mem 41.2 GB
Validation: 100%|##########| 24/24 [00:12<00:00,  1.98it/s] val_loss=2.31 samples/sec tokens per second TFLOPs
gpu-h017:2031:2431 [3] NCCL INFO Trees [0] 4/-1/-1->3->2 [1] 4/-1/-1->3->2 Setting affinity for GPU 3 to ffff,ffffffff
gpu-h017:2031:2431 [3] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22. Connected all rings, use ring PXN 0 GDR 1
gpu-h017:2031:2431 [3] NCCL INFO ncclCommInitRank comm 0x55d2 rank 3 nranks 128 cudaDev 3 nvmlDev 3 busId 5d000 commId 0x6a9c
frame #7: <unknown function> + 0x93da4 (0x7f2d9a12bda4 in /usr/lib/x86_64-linux-gnu/libc.so.6)
frame #3: c10d::ProcessGroupNCCL::Watchdog::run() + 0x1f8 (0x7f2d4c in /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)
[rank3]:   File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1773, in _wrapped_call_impl
[rank3]:     return self._call_impl(*args, **kwargs)  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^  self.optimizer.step(closure) loss.backward()
[NeMo I 2026-03-09 16:40:30 nemo_logging:393] shard 214 of bucket 3: 1420 cuts, 4.2 s, tarred dataset, manifest, num_workers
Loading checkpoint shards: 100%|##########| 4/4 [00:12<00:00,  3.1s/it] Map (num_proc=8):  12%|#2  | 12000/99000 [01:12<08:31, 170.31 examples/s]
Downloading shards: 100%|##########| 4/4 [00:12<00:00,  3.1s/it] Saving the dataset (3/8 shards):  12%|#2  | 12000/99000 [01:12<08:31, 170.31 examples/s]
Loading weights:  41%|####      | 300/730 [00:11<00:22, 41.20it/s] Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:02<00:07,  2.41s/it]
(WorkerDict pid=101224, ip=10.0.4.17) step:12 - actor/entropy:0.31 - critic/score/mean:0.2 - timing_s/update_actor:31.2 - response_length/max:2048
I0309 16:40:30.290123 140233 trainer.py:88] Setting work unit notes: step 6280, loss=2.07, steps/sec=1.21, learning_rate=0.0001
{"log":"step 6280 loss 2.07 tokens_per_sec 81210\\n","stream":"stderr","time":"2026-03-09T16:40:30.290123456Z","level":"info","msg":"ok"}
INFO trainer: the model, optimizer and scheduler state of epoch 3, version 2, will default to False. Refer to docs for more details.
WARNING: rank 0 node 1 host process group timeout error memory device cuda default
"""

COMMON = b"""\
RuntimeError: ValueError: OSError: [Errno 11] TypeError: ImportError: NCCL error NCCL version CUDA error: CUDA version PyTorch version
[rank3]: Traceback (most recent call last): exitcode 1 exited terminated Process signal srun: error: node-3: task 17: slurmstepd: error:
Connection reset by peer, connection refused, timed out, not found, failed to, unable to, could not, cannot, expected, distributed
wandb: ERROR environment variable world_size local_rank global rank checkpoint file directory Checkpoint Failed Stack trace of the
Loading Loaded Starting Started Running Initializing Initialized Creating Created Sending Connecting Connected Finished Using Setting
"""
"""Beginnings and words that many lines about faults share: a literal of these alone is a poor one too, if not so dear."""
