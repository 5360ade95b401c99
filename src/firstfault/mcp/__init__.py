"""The answers of firstfault for an assistant that speaks the Model Context Protocol.

Must not decide anything about a job: every answer is that of a command, run apart within limits of time and memory.
"""
