"""Checks of a machine and of a whole job before a run, and the profile of an environment.

One file for each family of checks; facts come through `machine.Machine` alone.
"""
