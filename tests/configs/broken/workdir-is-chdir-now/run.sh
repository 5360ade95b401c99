#!/bin/bash
#SBATCH --nodes=2
#SBATCH --workdir=/scratch/run
#SBATCH --time=60
#SBATCH --job-name=net

srun --nodes=2 --ntasks-per-node=4 python main.py
