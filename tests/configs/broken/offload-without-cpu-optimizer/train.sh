#!/bin/bash
GLOBAL_BATCH_SIZE=64
MICRO_BATCH_SIZE=1
LR=1e-5
DS_CONFIG=ds_config.json
cat <<EOT > $DS_CONFIG
{
  "train_batch_size": $GLOBAL_BATCH_SIZE,
  "train_micro_batch_size_per_gpu": $MICRO_BATCH_SIZE,
  "steps_per_print": 10,
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    },
    "overlap_comm": true,
    "contiguous_gradients": true
  },
  "bf16": {
    "enabled": true
  }
}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py \
    --tensor-model-parallel-size 1 \
    --pipeline-model-parallel-size 1 \
    --no-pipeline-parallel \
    --num-layers 32 \
    --hidden-size 4096 \
    --num-attention-heads 32 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size $MICRO_BATCH_SIZE \
    --global-batch-size $GLOBAL_BATCH_SIZE \
    --train-iters 1000 \
    --lr $LR \
    --bf16 \
    --deepspeed \
    --deepspeed_config $DS_CONFIG \
    --zero-stage 3
