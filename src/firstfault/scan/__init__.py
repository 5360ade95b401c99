"""Bytes to hits: blocks, engines, line numbers, the split of work and its executors.

It is handed a plan (patterns and what confirms them) and does not know what a signature means.
"""
