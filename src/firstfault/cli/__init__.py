"""The command line: one file per command; parse, call a pipeline, print, set the exit code.

No command decides anything about a log, and none is imported before it is called.
"""
