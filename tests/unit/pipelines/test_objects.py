"""Objects of pods are judged as their descriptions are: the pod's node and rank, the first end, nothing from what is tolerated."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "readers"))

from pods import YAML, ended, listed, pod

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose


def of(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text)
    return diagnose([tmp_path])


def test_the_first_pod_killed_for_memory_is_named_with_its_node(tmp_path):
    pods = [pod(f"w-{i}", f"gpu-{i}", ended("Error", 1, "2026-02-11T06:51:10Z"), rank=i) for i in range(4)]
    pods[2] = pod("w-2", "gpu-2", ended("OOMKilled", 137, "2026-02-11T06:40:10Z"), rank=2)
    verdict = of(tmp_path, pods__json=listed(*pods)).verdict
    assert (verdict.category, verdict.culprits.ranks, verdict.culprits.hosts) == (
        Category.INFRASTRUCTURE,
        [2],
        ["gpu-2"],
    ), verdict.summary
    assert "OOMKilled" in verdict.trigger.text


def test_yaml_says_the_same_as_json(tmp_path):
    verdict = of(tmp_path, w__yaml=YAML).verdict
    assert (verdict.category, verdict.culprits.ranks, verdict.culprits.hosts) == (
        Category.INFRASTRUCTURE,
        [3],
        ["gpu-node-17"],
    ), verdict.summary


def test_a_pod_that_runs_is_no_fault_for_what_it_tolerates(tmp_path):
    running = YAML[: YAML.index("status:\n")] + "status:\n  phase: Running\n"
    assert of(tmp_path, w__yaml=running).verdict.category is Category.UNKNOWN


def test_a_pod_that_no_node_could_take_is_told(tmp_path):
    text = "0/16 nodes are available: 16 Insufficient nvidia.com/gpu."
    conditions = [{"message": text, "reason": "Unschedulable", "status": "False", "type": "PodScheduled"}]
    verdict = of(tmp_path, p__json=listed(pod("w-0", None, {"conditions": conditions, "phase": "Pending"}))).verdict
    assert (verdict.category, text in verdict.trigger.text) == (Category.INFRASTRUCTURE, True), verdict.summary


def test_a_job_as_json_is_judged_as_its_text_is(tmp_path):
    job = '{\n  "jobs": [\n    {\n      "job_id": 7,\n      "job_state": [\n        "%s"\n      ],\n      "state_reason": "%s"\n    }\n  ]\n}\n'
    ended = [("TIMEOUT", "TimeLimit"), ("OUT_OF_MEMORY", "OutOfMemory"), ("NODE_FAIL", "NodeDown")]
    for state, reason in ended:
        (tmp_path / state).mkdir()
        text = f"JobId=7 JobName=a\n   JobState={state} Reason={reason} Dependency=(null)\n"
        as_text = of(tmp_path / state, job__txt=text).verdict
        (tmp_path / state / "job.txt").unlink()
        as_json = of(tmp_path / state, job__json=job % (state, reason)).verdict
        assert as_json.category is as_text.category is Category.INFRASTRUCTURE
        assert as_json.summary == as_text.summary
