torchrun --nproc_per_node=1 train.py config.yaml --deepspeed=deepspeed.json
