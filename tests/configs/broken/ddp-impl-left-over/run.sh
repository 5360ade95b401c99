#!/bin/bash
torchrun --nproc_per_node 8 pretrain_megatron.py \
    --tensor-model-parallel-size 1 \
    --pipeline-model-parallel-size 1 \
    --num-layers 32 \
    --hidden-size 4096 \
    --num-attention-heads 32 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size 1 \
    --global-batch-size 8 \
    --lr 1e-5 \
    --train-iters 1000 \
    --DDP-impl local
