torchrun --nproc_per_node=8 --nnodes=2 \
    scripts/prepare_hidden_states.py \
    --tp-size 16
