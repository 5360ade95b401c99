CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 pretraining.py \
  --model_type auto --per_device_train_batch_size 4 \
  --bf16 \
  --output_dir out \
  --deepspeed zero2.json
