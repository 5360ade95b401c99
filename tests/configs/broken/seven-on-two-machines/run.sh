#!/bin/bash
ACCELERATE_LOG_LEVEL=info accelerate launch --config_file rank0.yaml \
    --num_processes=7 src/open_r1/grpo.py --config recipes/c.yaml
