"""Labels before lines name a task or a process only where they are wholly of that form."""

import pytest

from firstfault.analysis.state.labels import process_of_label, task_of_label
from firstfault.model.evidence import Who


@pytest.mark.parametrize(
    ("label", "task", "process"),
    [
        ("task 0", 0, None),
        ("task 12", 12, None),
        ("process 8", None, 8),
        ("task 1 of 2", None, None),
        (None, None, None),
    ],
)
def test_a_label_is_a_task_or_a_process_or_neither(label, task, process):
    assert task_of_label(Who(label=label)) == task
    assert process_of_label(Who(label=label)) == process
