pyxis: imported docker image: docker://lab/openmpi-torch:24.05
srun: error: slurm_receive_msgs: [[kx01.cluster.lan]:6818] failed: Socket timed out on send/recv operation
srun: error: Task launch for StepId=5128.0 failed on node kx02: No such process
srun: error: Task launch for StepId=5128.0 failed on node kx03: No such process
srun: error: Task launch for StepId=5128.0 failed on node kx01: Socket timed out on send/recv operation
srun: error: Application launch failed: Socket timed out on send/recv operation
srun: Job step aborted
