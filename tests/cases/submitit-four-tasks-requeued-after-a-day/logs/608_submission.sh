#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=10
#SBATCH --error=/netscratch/mae/exp_17/%j_0_log.err
#SBATCH --gpus-per-node=4
#SBATCH --job-name=mae
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --open-mode=append
#SBATCH --output=/netscratch/mae/exp_17/%j_0_log.out
#SBATCH --signal=USR2@120
#SBATCH --time=1440
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /netscratch/mae/exp_17/%j_%t_log.out --error /netscratch/mae/exp_17/%j_%t_log.err /opt/envs/mae/bin/python -u -m submitit.core._submit /netscratch/mae/exp_17
