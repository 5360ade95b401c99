"""Who it was, where the line of the fault does not say so: told by reports, tables, maps and lists beside it, in many forms."""

from __future__ import annotations

import json

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(f"[rank0] 2026-03-04 10:0{n}:00,100 INFO step {n}/900 loss 2.{n}\n" for n in range(5))
LOST = "Last error:\nsocketProgress: Connection closed by remote peer llm-worker-3.llm<53210>\n"
OOM = "      Reason:       OOMKilled\n      Exit Code:    137\n"
DESCRIBED = (
    "Name:             llm-worker-3\nNamespace:        ml\nNode:             {node}\nStatus:           Failed\n"
    "Containers:\n  pytorch:\n    State:          Terminated\n{reason}    Limits:\n      nvidia.com/gpu:  {gpus}\n"
    "    Environment:\n      WORLD_SIZE:  4\n      RANK:        3\n"
)
ROW = "llm-worker-3   0/1   OOMKilled   1 (3m ago)   12m   10.2.3.4   gke-a100-7   <none>   <none>\n"
HEAD = (
    "NAME           READY   STATUS      RESTARTS     AGE   IP         NODE         NOMINATED NODE   READINESS GATES\n"
)


def verdict_of(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return diagnose([tmp_path]).verdict


def who(verdict):
    return list(verdict.culprits.ranks), list(verdict.culprits.hosts)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (DESCRIBED.format(node="gke-a100-7/10.0.3.7", reason=OOM, gpus=1), ([3], ["gke-a100-7"])),
        (DESCRIBED.format(node="gke-a100-7/10.0.3.7", reason=OOM, gpus=8), ([], ["gke-a100-7"])),
        (DESCRIBED.format(node="<none>", reason=OOM, gpus=1), ([], [])),
        (HEAD + ROW, ([], ["gke-a100-7"])),
        (HEAD.replace("NAME", "NAMESPACE   NAME", 1) + "ml          " + ROW, ([], ["gke-a100-7"])),
        (HEAD + ROW + ROW.replace("gke-a100-7", "gke-a100-9"), ([], [])),
    ],
)
def test_a_pod_is_joined_to_its_node_and_to_its_rank_where_it_has_one_process(tmp_path, described, expected):
    assert who(verdict_of(tmp_path, {"pods.txt": described, "llm-worker-0.log": STEPS + LOST})) == expected


def test_an_event_of_a_pod_is_its_nodes_and_no_other_pods(tmp_path):
    events = (
        "LAST SEEN   TYPE      REASON      OBJECT              MESSAGE\n"
        "9m   Normal    Scheduled   pod/t-worker-0   Successfully assigned ml/t-worker-0 to node-a\n"
        "9m   Normal    Scheduled   pod/t-worker-1   Successfully assigned ml/t-worker-1 to node-b\n"
        "2m   Warning   Evicted     pod/t-worker-1   The node was low on resource: ephemeral-storage.\n"
    )
    verdict = verdict_of(tmp_path, {"events.txt": events, "t-worker-0.log": STEPS + LOST})
    assert who(verdict) == ([], ["node-b"])


@pytest.mark.parametrize("there", [True, False])
def test_an_image_that_one_node_alone_cannot_get_is_that_nodes_fault(tmp_path, there):
    events = (
        "LAST SEEN   TYPE      REASON      OBJECT           MESSAGE\n"
        "9m   Normal    Scheduled   pod/t-worker-0   Successfully assigned ml/t-worker-0 to node-a\n"
        "9m   Normal    Scheduled   pod/t-worker-1   Successfully assigned ml/t-worker-1 to node-b\n"
        '2m   Warning   Failed      pod/t-worker-1   Failed to pull image "r.example/t:1": i/o timeout\n'
    )
    if there:
        events += '8m   Normal   Pulled   pod/t-worker-0   Container image "r.example/t:1" already present on machine\n'
    assert who(verdict_of(tmp_path, {"events.txt": events})) == ([], ["node-b"] if there else [])


SPAWNED = "{host}: [2025-08-19 21:40:51,634] [INFO] [launch.py:253:main] process {pid} spawned with command: ['python', '-u', 'train.py', '--local_rank={local}']\n"
MAP = "{host}: [2025-08-19 21:40:51,271] [INFO] [launch.py:162:main] global_rank_mapping=defaultdict(<class 'list'>, {{'g1': [0, 1], 'g2': [2, 3]}})\n"


@pytest.mark.parametrize(("pid", "expected"), [(401, ([3], ["g2"])), (301, ([], ["g2"])), (999, ([], ["g2"]))])
def test_a_killed_process_is_joined_by_the_launchers_map_only_on_its_own_machine(tmp_path, pid, expected):
    log = "".join(MAP.format(host=h) for h in ("g1", "g2"))
    for host, first in (("g1", 300), ("g2", 400)):
        log += "".join(SPAWNED.format(host=host, pid=first + n, local=n) for n in range(2))
    log += "g1: {'loss': 1.50, 'epoch': 0.01}\ng1: {'loss': 1.49, 'epoch': 0.02}\ng1: saved\ng2: saved\npdsh@g1: g2: ssh exited with exit code 247\n"
    kernel = f"[Tue Aug 19 22:17:55 2025] Out of memory: Killed process {pid} (python3.10) total-vm:1kB, anon-rss:1kB\n"
    assert who(verdict_of(tmp_path, {"train.log": log, "g2-dmesg-T.txt": kernel})) == expected


REPORT = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict\n\tactor_id: d9cc467228965f31cb6dbc93\n"
    "\tpid: 20172\n\tname: {name}\n\tnamespace: de88eeeb\n\tip: 10.1.2.3\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file.\n"
)
GLOO = "(WorkerDict pid={pid}) [Gloo] Rank {rank} is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n"


@pytest.mark.parametrize(
    ("joined", "name", "expected"),
    [
        ("", "Zap0WorkerDict_0:1", ([1], ["10.1.2.3"])),
        ("".join(GLOO.format(pid=20170 + n, rank=n) for n in range(4)), "x", ([2], ["10.1.2.3"])),
        ("".join(GLOO.format(pid=20170 + n, rank=n % 2) for n in range(8)), "x", ([], [])),
        ("(WorkerDict pid=20172, ip=10.1.2.3) [rank5] step 7 loss 1.2\n", "x", ([5], ["10.1.2.3"])),
        ("(WorkerDict pid=20172, ip=10.9.9.9) [rank5] step 7 loss 1.2\n", "x", ([], [])),
    ],
)
def test_rays_report_of_a_dead_actor_names_its_rank_by_name_or_process(tmp_path, joined, name, expected):
    verdict = verdict_of(tmp_path, {"driver.log": joined + REPORT.format(name=name)})
    assert who(verdict) == expected
    assert verdict.category is Category.UNKNOWN
    assert verdict.culprits.strength.level <= Strength.POSSIBLE.level


UNHEALTHY = "E0304 10:03:00.123456  100 coordination_service_agent.cc:767] Coordination agent is set to ERROR: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (UNHEALTHY + "/job:jax_worker/replica:0/task:5\n", [5]),
        (UNHEALTHY + "/job:jax_worker/replica:0/task:5\n/job:jax_worker/replica:0/task:6\n", [5, 6]),
        (UNHEALTHY, []),
        ("E0304 10:05:00.000000  150 x.cc:1020] Task /job:jax_worker/replica:0/task:2 heartbeat timeout. x\n", [2]),
        (
            (
                "Barrier timed out. Id: save::0.\n# of tasks that reached the barrier: 3/4.\nThe first task at the barrier: "
                "/job:w/replica:0/task:3. Some timed out task names:\n/job:w/replica:0/task:1\n"
            ),
            [1],
        ),
    ],
)
def test_tasks_that_jax_names_as_missing_are_ranks(tmp_path, lines, expected):
    verdict = verdict_of(tmp_path, {"host0.log": STEPS.replace("[rank0] ", "") + lines})
    assert list(verdict.culprits.ranks) == expected
    assert verdict.category is Category.UNKNOWN


def test_two_tracebacks_after_two_headers_are_given_to_neither_process(tmp_path):
    who_is_who = "".join(
        f"Hostname cn-1, pid {50 + n}, rank {n} / size 2, local rank {n} / local size 2.\n" for n in range(2)
    )
    heads = "Unhandled exception <class 'RuntimeError'> in proc {}.\n"
    trace = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in f\n    x()\nRuntimeError: CUDA error: unspecified launch failure\n'
    apart = verdict_of(tmp_path / "a", {"t.log": who_is_who + heads.format(51) + trace})
    assert list(apart.first_failed.ranks) == [1]
    mixed = verdict_of(tmp_path / "b", {"t.log": who_is_who + heads.format(50) + heads.format(51) + trace})
    assert list(mixed.first_failed.ranks) == []


STACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 12, in step\n    f()\n{}\n'


def error_file(message, at, *, indent=None, legacy=False):
    if legacy:
        return json.dumps({"message": message, "timestamp": at}, indent=indent)
    extra = {"py_callstack": STACK.format(message), "timestamp": str(at)}
    return json.dumps({"message": {"message": message, "errorCode": 1, "extraInfo": extra}}, indent=indent)


NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free."


@pytest.mark.parametrize("options", [{}, {"indent": 2}, {"legacy": True}, {"legacy": True, "indent": 1}])
def test_an_error_file_of_any_form_gives_its_exception(tmp_path, options):
    verdict = verdict_of(tmp_path, {"rank5_error.json": error_file(NO_MEMORY, 1795961895, **options)})
    assert (verdict.category, list(verdict.first_failed.ranks)) == (Category.GPU_CUDA, [5])
    assert "OutOfMemoryError" in verdict.trigger.text


def test_of_error_files_of_two_nodes_the_earliest_that_no_launcher_ended_counts(tmp_path):
    killed = json.dumps({"message": "Signal 15 (SIGTERM) received by PID 100", "errorTraits": {"category": "x"}})
    late = error_file("torch.distributed.DistBackendError: NCCL error: remote process exited", 1795961899)
    files = {
        "node-a/none_x/attempt_0/0/error.json": killed,
        "node-a/none_x/attempt_0/1/error.json": late,
        "node-b/none_y/attempt_0/0/error.json": error_file("KeyError: 'caption'", 1795961895),
    }
    verdict = verdict_of(tmp_path, files)
    assert verdict.trigger.file == "node-b/none_y/attempt_0/0/error.json"
    assert "caption" in verdict.summary


BANNER = """============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_14:18:{second}
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: 101)
  error_file: {file}
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_a_launchers_list_gives_an_error_file_its_rank(tmp_path):
    path = "/tmp/torchelastic_q/none_ab/attempt_0/1/error.json"
    files = {
        "a.log": BANNER.format(second=15, host="node-a", rank=9, local=1, code=1, file=path),
        "node-a/none_ab/attempt_0/1/error.json": error_file("KeyError: 'caption'", 1795961895),
    }
    assert list(verdict_of(tmp_path / "one", files).first_failed.ranks) == [9]
    files["b.log"] = BANNER.format(second=15, host="node-b", rank=1, local=1, code=1, file=path)
    assert list(verdict_of(tmp_path / "host", files).first_failed.ranks) == [9]
    files = {name.replace("node-a/", ""): text for name, text in files.items()}
    assert list(verdict_of(tmp_path / "two", files).first_failed.ranks) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("39", 1), ("42", -6), [2]),
        (("42", 1), ("39", -6), [0]),
        (("39", 1), ("41", -11), [0]),
        (("10", 1), ("41", 1), [2]),
    ],
)
def test_of_the_lists_of_two_nodes_the_earliest_exit_is_told_first(tmp_path, first, second, expected):
    files = {
        "b.log": BANNER.format(second=first[0], host="node-b", rank=2, local=0, code=first[1], file="<N/A>"),
        "a.log": BANNER.format(second=second[0], host="node-a", rank=0, local=0, code=second[1], file="<N/A>"),
    }
    assert list(verdict_of(tmp_path, files).first_failed.ranks) == expected


CRASH = "[Wed Mar  4 10:02:10 2026] {name}[4105]: segfault at 0 ip 00007f2 sp 00007ff error 4 in libtorch_cuda.so[7f2+1000]\n"
WAITED = "[rank{rank}]:[E304 10:34:12.100000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=1800000) ran for 1800063 milliseconds before timing out.\n"


@pytest.mark.parametrize(
    ("waiters", "name", "expected"),
    [
        ((0, 1, 3), "python", [2]),
        ((0, 3), "python", []),
        ((0, 1, 2, 3), "python", []),
        ((0, 1, 3), "pt_data_worker", []),
    ],
)
def test_a_crash_without_a_rank_is_that_of_the_only_rank_that_did_not_wait(tmp_path, waiters, name, expected):
    log = STEPS + "".join(WAITED.format(rank=r) for r in waiters)
    verdict = verdict_of(tmp_path, {"train.log": log, "dmesg.gpu-11": CRASH.format(name=name)})
    assert list(verdict.culprits.ranks) == expected
