"""A rank in a monitored barrier gives up first, and its end breaks the collective in which the other one stands.

PyTorch's line then sends everybody to rank 0, as if that had not come; what the ranks were in is in their own tracebacks.
"""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

BARRIER = """\
[rank1]:[E1130 16:55:46.151031654 ProcessGroupGloo.cpp:67] Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/app/stream.py", line 91, in <module>
[rank1]:     main()
[rank1]:   File "/srv/app/stream.py", line 84, in main
[rank1]:     dist.monitored_barrier(timeout=timeout)
[rank1]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 5435, in monitored_barrier
[rank1]:     return group_to_use.monitored_barrier(  # type:ignore[attr-defined]
[rank1]:            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.
[rank1]:  Original exception:\x20
[rank1]: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 4000ms for send operation to complete
"""
BROKEN = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/app/stream.py", line 91, in <module>
[rank0]:     main()
[rank0]:   File "/srv/app/stream.py", line {line}, in main
[rank0]:     dist.{call}(mean, group=group)
[rank0]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper
[rank0]:     return func(*args, **kwargs)
[rank0]:            ^^^^^^^^^^^^^^^^^^^^^
[rank0]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in {call}
[rank0]:     work.wait()
[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:3993. This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error.
"""


@pytest.mark.parametrize("call", ["all_reduce", "all_gather", "broadcast"])
def test_who_stood_in_another_collective_did_come(tmp_path, call):
    (tmp_path / "console.log").write_text(BARRIER + BROKEN.format(call=call, line=81), encoding="utf-8")
    said = diagnose([tmp_path]).verdict
    assert said.category is Category.COLLECTIVE_MISMATCH
    assert said.culprits.ranks != [0]
    assert call in said.summary


def test_who_came_to_the_same_barrier_too_late_is_in_no_other_call(tmp_path):
    (tmp_path / "console.log").write_text(BARRIER + BROKEN.format(call="monitored_barrier", line=84), encoding="utf-8")
    said = diagnose([tmp_path]).verdict
    assert said.category is not Category.COLLECTIVE_MISMATCH
