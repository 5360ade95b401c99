"""A simulated AIStore cluster beside a training job: log files with a truth, made without knowing how they are read.

The daemons keep state (counters, disks, caches, cluster map) and write what that state makes them write; the fault is put
in by a scenario, which writes the truth at the same time. Nothing here imports firstfault but `held`, which judges.
"""
