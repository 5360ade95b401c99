"""Simulated hangs of any size: an event simulation of a job, what its software prints, and the truth about it.

Nothing here imports firstfault: the simulation is a check that is independent of the tool. Start at `incident.make`.
"""
