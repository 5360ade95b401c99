"""Settings of a training job held against what the programs that read them demand: pure functions of the files' text.

It reads no file and no environment, and runs nothing.
"""
