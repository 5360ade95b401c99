#!/bin/bash
#SBATCH --ntasks=8
#SBATCH --gpus=8
#SBATCH --partition=vis
# tasks land where there are cards: vn-14 (6 gpus), vn-22 (1), vn-31 (1)
echo $SLURM_JOB_NODELIST $SLURM_TASKS_PER_NODE
srun -l python run.py --num_nodes 3 --devices 6
