#!/usr/bin/env bash
set -euo pipefail

#SBATCH --job-name=vl-sft
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --partition=gpu
#SBATCH --account=my_account

srun python scripts/finetune.py --seq_length 4096
