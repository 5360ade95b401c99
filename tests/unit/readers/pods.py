"""Pods as kubectl prints them, in YAML and in JSON; names, nodes and numbers are invented."""

from __future__ import annotations

import json
from typing import Any

YAML = """\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    note: |
      kind: Pod
      reason: OOMKilled
  name: llm-worker-3
  namespace: train
spec:
  containers:
  - args:
    - --steps
    - "1000"
    env:
    - name: RANK
      value: "3"
    - name: WORLD_SIZE
      value: "8"
    name: trainer
    resources:
      limits:
        nvidia.com/gpu: "1"
  nodeName: gpu-node-17
  tolerations:
  - effect: NoExecute
    key: node.kubernetes.io/not-ready
    operator: Exists
status:
  conditions:
  - lastTransitionTime: "2026-02-11T06:40:11Z"
    message: 'containers with unready status: [trainer]'
    reason: ContainersNotReady
    status: "False"
    type: Ready
  containerStatuses:
  - containerID: containerd://5f1f
    lastState: {}
    name: trainer
    ready: false
    restartCount: 0
    state:
      terminated:
        exitCode: 137
        finishedAt: "2026-02-11T06:40:10Z"
        reason: OOMKilled
        startedAt: "2026-02-11T04:10:20Z"
  phase: Failed
"""
"""One pod that was killed for memory; its node is only tolerated to be not ready, and a note quotes another end."""


def pod(name: str, node: str | None, status: dict[str, Any], *, rank: int = 0, world: int = 4) -> dict[str, Any]:
    """The object of one pod with one container and one GPU."""
    env = [{"name": "RANK", "value": str(rank)}, {"name": "WORLD_SIZE", "value": str(world)}]
    container = {"env": env, "name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec: dict[str, Any] = {"containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "train"},
        "spec": spec if node is None else {**spec, "nodeName": node},
        "status": status,
    }


def ended(reason: str, code: int, at: str) -> dict[str, Any]:
    """The status of a pod whose container ended."""
    state = {"exitCode": code, "finishedAt": at, "reason": reason, "startedAt": "2026-02-11T04:10:20Z"}
    return {"containerStatuses": [{"lastState": {}, "name": "trainer", "state": {"terminated": state}}]}


def listed(*pods: dict[str, Any]) -> str:
    """What `kubectl get pods -o json` prints."""
    return json.dumps({"apiVersion": "v1", "items": list(pods), "kind": "List"}, indent=4) + "\n"
