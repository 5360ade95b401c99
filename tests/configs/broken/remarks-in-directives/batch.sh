#!/bin/bash
#SBATCH --job-name=my_nice_job                    (sets the job name)
#SBATCH -n 2                                      (number of cores)
#SBATCH --mem=4G                                  (memory)
#SBATCH --time=00:30:00                           (time limit)
python train.py
