"""The object of a pod tells its node, its place and how its containers ended, in YAML and in JSON; nothing harms the reader."""

import random
from time import process_time

import pytest
from pods import YAML, ended, listed, pod

from firstfault.model.words import SourceKind
from firstfault.readers.outline import leaves
from firstfault.readers.pod_object import pod_objects
from firstfault.readers.sniff import sniff


def told(text):
    return [
        (p.name, None if p.node is None else p.node.value, [(s.leaf.path[-1], s.leaf.value) for s in p.said])
        for p in pod_objects(text.encode())
    ]


def test_a_pod_in_yaml_tells_node_place_and_end():
    (found,) = pod_objects(YAML.encode())
    assert (found.name, found.node.value) == ("llm-worker-3", "gpu-node-17")
    assert found.facts == {"pod_rank": "3", "pod_world": "8", "gpus": "1"}
    end = [s for s in found.said if s.leaf.path[1] == "containerStatuses"]
    assert [(s.leaf.path[-1], s.leaf.value) for s in end] == [("exitCode", "137"), ("reason", "OOMKilled")]
    assert {(s.when.hour, s.when.minute, s.last) for s in end} == {(6, 40, False)}
    assert YAML.splitlines()[end[1].leaf.line - 1] == "        reason: OOMKilled"


def test_pods_in_json_are_told_apart():
    text = listed(
        pod("w-0", "node-a", ended("Error", 1, "2026-02-11T06:51:10Z")),
        pod("w-1", "node-b", ended("OOMKilled", 137, "2026-02-11T06:40:10Z")),
        pod("w-2", None, {"phase": "Pending"}),
    )
    assert told(text) == [
        ("w-0", "node-a", [("exitCode", "1"), ("reason", "Error")]),
        ("w-1", "node-b", [("exitCode", "137"), ("reason", "OOMKilled")]),
        ("w-2", None, []),
    ]


def test_a_condition_is_news_where_it_does_not_hold_and_a_disruption_where_it_does():
    conditions = [
        {"reason": "PodCompleted", "status": "True", "type": "Initialized"},
        {
            "message": "0/16 nodes are available: 16 Insufficient nvidia.com/gpu.",
            "status": "False",
            "type": "PodScheduled",
        },
        {"reason": "PreemptionByScheduler", "status": "True", "type": "DisruptionTarget"},
        {"reason": "NotYet", "status": "False", "type": "DisruptionTarget"},
    ]
    (one,) = told(listed(pod("w-0", None, {"conditions": conditions})))
    assert [value for _, value in one[2]] == [
        "0/16 nodes are available: 16 Insufficient nvidia.com/gpu.",
        "PodScheduled",
        "PreemptionByScheduler",
        "DisruptionTarget",
    ]


def test_the_run_before_the_present_one_is_told_as_such():
    before = {"exitCode": 137, "finishedAt": "2026-02-11T06:40:10Z", "reason": "OOMKilled"}
    status = {
        "containerStatuses": [
            {
                "lastState": {"terminated": before},
                "name": "t",
                "state": {"running": {"startedAt": "2026-02-11T08:40:10Z"}},
            }
        ]
    }
    (found,) = pod_objects(listed(pod("w-0", "node-a", status)).encode())
    assert {(s.last, s.restarted_after) for s in found.said} == {(True, 7200.0)}


def test_items_of_lists_are_numbered_whether_or_not_they_are_set_in():
    flat = b"a:\n- b: 1\n  c: 2\n- b: 3\nd: 4\n"
    deep = b"a:\n  - b: 1\n    c: 2\n  - b: 3\nd: 4\n"
    wanted = [(("a", "#0", "b"), "1"), (("a", "#0", "c"), "2"), (("a", "#1", "b"), "3"), (("d",), "4")]
    assert [(leaf.path, leaf.value) for leaf in leaves(flat)] == wanted
    assert [(leaf.path, leaf.value) for leaf in leaves(deep)] == wanted


@pytest.mark.parametrize("name", ["worker-3.yaml", "pods.json", "pods.txt"])
def test_objects_with_a_status_are_read_whatever_their_name(name):
    text = listed(pod("w-0", "node-a", ended("Error", 1, "2026-02-11T06:51:10Z"))) if "json" in name else YAML
    assert sniff(text.encode(), b"", name).kind is SourceKind.SCHEDULER


def test_what_a_pod_is_to_be_is_no_evidence():
    manifest = YAML[: YAML.index("status:\n")]
    assert sniff(manifest.encode(), manifest.encode(), "pod.yaml").kind is SourceKind.CONFIG


def test_pods_in_one_line_are_said_to_be_passed_over():
    text = listed(pod("w-0", "node-a", ended("Error", 1, "2026-02-11T06:51:10Z")))
    packed = "".join(line.strip() for line in text.splitlines()).replace('": ', '":').encode()
    found = sniff(packed, b"", "pods.json")
    assert (found.kind, "kubectl get pod -o yaml" in found.note) == (SourceKind.CONFIG, True)


def test_cut_and_flipped_objects_never_raise_and_cite_only_what_stands_there():
    rng = random.Random(7)
    whole = listed(pod("w-0", "node-a", ended("OOMKilled", 137, "2026-02-11T06:51:10Z"))).encode()
    for text in (whole, YAML.encode()):
        for _ in range(300):
            broken = bytearray(text[: rng.randrange(len(text) + 1)])
            for _ in range(rng.randrange(6)):
                if broken:
                    broken[rng.randrange(len(broken))] = rng.randrange(256)
            for one in pod_objects(bytes(broken)):
                for said in one.said:
                    assert bytes(broken).split(b"\n")[said.leaf.line - 1].startswith(said.leaf.text)


def test_depth_and_length_are_bounded():
    deep = b"\n".join(b" " * i + b"k:" for i in range(5000)) + b" v\n"
    assert not list(leaves(deep))
    assert not list(pod_objects(b"- " * 200_000 + b"\n" + b"x" * 5_000_000))
    begun = process_time()
    assert not list(leaves((b"- " * 2000 + b"\n") * 500 + b"".join(b" " * i + b"- \n" for i in range(4000))))
    assert process_time() - begun < 5
