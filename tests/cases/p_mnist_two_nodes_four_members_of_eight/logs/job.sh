#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=4
#SBATCH --time=02:00:00
source ~/envs/pl/bin/activate
python train.py --gpus 4 --num_nodes 2
