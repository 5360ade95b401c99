"""firstfault: what was the first fault of a training job on many GPUs.

Importing this package loads nothing else; the rooms are imported where they are used.
"""

__version__ = "0.1.0"
