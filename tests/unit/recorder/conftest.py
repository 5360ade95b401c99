"""The frameworks whose hooks are tested with the real classes are large: those tests are there where one is installed."""

import importlib.util

FRAMEWORKS = ("lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed", "megatron")

collect_ignore = [] if any(importlib.util.find_spec(name) for name in FRAMEWORKS) else ["test_real_frameworks.py"]
