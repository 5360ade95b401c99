"""Reads stack dumps of every common tool, alone in a file or inside a worker's log; what a frame means is not judged here.

`forms` knows the lines of each tool, `drafts` puts them together, `lines` goes through text, `pyspy_json` through JSON.
"""

from firstfault.readers.stacks.lines import local_of_name, read_stacks

__all__ = ["local_of_name", "read_stacks"]
