CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node 2 finetune.py \
    --model_type chatglm \
    --model_name_or_path models/chat-6b \
    --do_train \
    --per_device_train_batch_size 2 \
    --num_train_epochs 1 \
    --learning_rate 2e-5 \
    --output_dir out/full \
    --torch_dtype float16 \
    --deepspeed ds_config.json
