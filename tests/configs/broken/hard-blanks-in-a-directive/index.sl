#!/bin/bash -e
#SBATCH --account project
#SBATCH --job-name index
#SBATCH --partition     milan
#SBATCH --time 00:20:00
#SBATCH --mem 20GB
#SBATCH --cpus-per-task 8

srun python index.py
