#!/bin/bash
#SBATCH -N 16
#SBATCH --exclusive
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --job-name "test-megatron"
##SBATCH --mpi=none
##SBATCH --time=40:00

export GPUS_PER_NODE=8
export NUM_NODES=16
export NODE_RANK=${SLURM_PROCID}
export MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n1)
export MASTER_PORT=12341
export WORLD_SIZE=$(($GPUS_PER_NODE * $NUM_NODES))

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
    --master_port $MASTER_PORT
)

srun torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    --num-layers 96 \
    --hidden-size 12288 \
    --num-attention-heads 96 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size 1 \
    --global-batch-size 1536 \
    --train-iters 500000 \
    --lr 6.0e-5 \
    --min-lr 6.0e-6 \
    --lr-decay-style cosine \
    --tensor-model-parallel-size 8 \
    --pipeline-model-parallel-size 16 \
    --mock-data \
    --fp16
