"""Checkpoints of training jobs: what a folder holds, whether it is whole, and whether two hold the same.

Reads formats by their bytes, without torch and without running anything of a pickle. It decides nothing about a job's
fault and prints nothing.
"""
