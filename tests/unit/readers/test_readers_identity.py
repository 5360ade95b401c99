import pytest

from firstfault.model.evidence import Who
from firstfault.readers import identity
from firstfault.readers.identity import SourceProfile, body_starts, locate, profile_source, stream_key
from firstfault.readers.sourcename import read_name

PLAIN = SourceProfile()


def who(line: str, profile: SourceProfile = PLAIN, at: str | None = None) -> Who:
    segment = line.encode()
    return locate(segment, segment.index(at.encode()) if at else len(segment), profile).who


def body(line: str, profile: SourceProfile = PLAIN) -> str:
    segment = line.encode()
    return segment[locate(segment, len(segment), profile).body :].decode()


@pytest.mark.parametrize(
    ("line", "expected", "message"),
    [
        ("[rank3]: Traceback (most recent call last):", Who(rank=3), "Traceback (most recent call last):"),
        ('[rank3]:   File "x.py", line 3, in f', Who(rank=3), '  File "x.py", line 3, in f'),
        ('[default3]:  File "x.py", line 3, in f', Who(local_rank=3), '  File "x.py", line 3, in f'),
        (
            "[rank7]:[E513 13:25:57.714781669 ProcessGroupNCCL.cpp:616] [PG ID 3 PG GUID 9(tp) Rank 1] failure detected",
            Who(rank=7, group_rank=1, group="9"),
            "failure detected",
        ),
        (
            "[rank5]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 5] Timeout at",
            Who(rank=5, group_rank=5, group="0"),
            "Timeout at",
        ),
        ("2026-05-04 09:01:00,031 gn0002 [rank3] INFO trainer: step 1", Who(rank=3), "trainer: step 1"),
        ("2026-05-04 09:01:00 node-7.pod [Rank 3] step 1", Who(rank=3), "step 1"),
        ("2026-05-04 09:01:00,031 [rank 3/8] INFO step 1", Who(rank=3), "step 1"),
        ("[Rank 3 / 8]: step 1", Who(rank=3), "step 1"),
        ("[rank 3 of 8] step 1", Who(rank=3), "step 1"),
        ("[rank=3] step 1", Who(rank=3), "step 1"),
        ("[global_rank=3] step 1", Who(rank=3), "step 1"),
        ("[rank 3 | node-7] step 1", Who(rank=3), "step 1"),
        ("(rank 3/8) step 1", Who(rank=3), "step 1"),
        ("rank 3/8: step 1", Who(rank=3), "step 1"),
        ("rank: 3 | step 1", Who(rank=3), "step 1"),
        ("[rank 0, 1, 2] are late", Who(), "[rank 0, 1, 2] are late"),
        ("2026-05-04 09:01:00 rank=2 step=1 loss=2.1", Who(rank=2), "rank=2 step=1 loss=2.1"),
        ("2026-05-04 09:01:00 lost [rank3] of 8", Who(), "lost [rank3] of 8"),
        ("2026-05-04 09:01:00 gn0002 lost [rank3] of 8", Who(), "gn0002 lost [rank3] of 8"),
        (
            "[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog caught collective",
            Who(group_rank=3),
            "Watchdog caught collective",
        ),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 6] gone", Who(rank=6, group_rank=6, group="0"), "gone"),
        ("[1,3]<stderr>:ValueError: x", Who(rank=3), "ValueError: x"),
        ("[1,mpirank:11,algo-2]<stdout>:ValueError: x", Who(rank=11, host="algo-2"), "ValueError: x"),
        (
            "[rank: 1] Child process with PID 4711 terminated with code 1",
            Who(rank=1),
            "Child process with PID 4711 terminated with code 1",
        ),
        ("(RANK 2) out of memory", Who(rank=2), "out of memory"),
        (
            "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0",
            Who(rank=0),
            "step=10, skipped=0",
        ),
        (
            "[2024-08-11 22:17:22,411][root][INFO] - train, rank: 2, epoch: 0/500, loss: 1",
            Who(rank=2),
            "train, rank: 2, epoch: 0/500, loss: 1",
        ),
        (
            "[default3]:06/27/2024 21:14:31 [INFO|DP=0|PP=1|TP=0|gpu-a14]: No checkpoint",
            Who(local_rank=3, host="gpu-a14", label="DP=0|PP=1|TP=0"),
            "No checkpoint",
        ),
        (
            "\x1b[36m(RayTrainWorker pid=123, ip=10.0.0.1)\x1b[0m [rank5]: ValueError: x",
            Who(rank=5, pid=123, host="10.0.0.1", label="RayTrainWorker pid=123"),
            "ValueError: x",
        ),
        (
            "node-a:15311:16187 [2] NCCL INFO Channel 00",
            Who(host="node-a", pid=15311, device=2),
            "NCCL INFO Channel 00",
        ),
        (
            "[2025-05-13 13:25:57] h1:22:33 [0] a.cc:93 NCCL WARN x",
            Who(host="h1", pid=22, device=0),
            "a.cc:93 NCCL WARN x",
        ),
        ("May 14 03:52:17 gpu-h12 kernel: NVRM: Xid", Who(host="gpu-h12"), "NVRM: Xid"),
        ("2026-01-15T14:31:05.123456+00:00 node017 kernel: NVRM: Xid", Who(host="node017"), "NVRM: Xid"),
        ("[pod/train-worker-7/pytorch] hello", Who(label="train-worker-7"), "hello"),
        ("2026-01-15T14:31:05.123456789+00:00 stderr F [rank2]: KeyError: 'x'", Who(rank=2), "KeyError: 'x'"),
        (
            "2024-05-11 03:22:09,871: rank3[1234][MainThread]: INFO: composer.trainer: msg",
            Who(rank=3, pid=1234),
            "composer.trainer: msg",
        ),
        (
            "2026-01-15 14:31:22,118 [WARNING] [node017] [workload:27(3) infra:27(3)] launcher.py:512 msg",
            Who(rank=27, local_rank=3),
            "msg",
        ),
        ("[NeMo I 2026-01-15 14:31:22 exp_manager:442 rank:3] hi", Who(rank=3), "hi"),
        ("W1129 14:18:16.233000 13120 torch/distributed/elastic/api.py:1028] Sending", Who(), "Sending"),
        ("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 1", Who(), "Sending process 1"),
        ("2024-05-11 03:22:09.871 | INFO     | mod.x:function:42 - msg here", Who(), "msg here"),
        ("[INFO|trainer.py:1769] 2023-07-25 11:08:01,450 >> ***** Running", Who(), "***** Running"),
        ("[titan] 2025-02-14 19:06:30,605 - root - INFO - Starting", Who(), "Starting"),
        ("ValueError: [Rank 1] said so", Who(), "ValueError: [Rank 1] said so"),
        ("    raise ValueError(", Who(), "    raise ValueError("),
        ("[epoch3]: loss 4", Who(), "[epoch3]: loss 4"),
    ],
)
def test_a_prefix_tells_who_speaks_and_where_the_message_begins(line, expected, message):
    assert who(line) == expected
    assert body(line) == message


def test_a_prefix_inside_a_segment_belongs_to_what_follows_it():
    line = " 7%|7 | 66/100 [02:18<30:20, 4.96it/s][rank5]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught"
    assert who(line, at="Watchdog").rank == 5
    glued = "[rank0]: KeyError: 'a'[rank1]: KeyError: 'b'"
    assert who(glued, at="KeyError: 'a'").rank == 0
    assert who(glued, at="KeyError: 'b'").rank == 1


def test_a_line_label_holds_for_text_glued_behind_a_bar():
    line = "[default3]: 7%|7 | 66/100 [02:18<30:20, 4.96it/s][E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught"
    assert who(line, at="Watchdog").local_rank == 3


def test_starts_include_prefix_ends_and_bar_ends():
    segment = b"  0%|  | 0/4 [00:00<?, ?it/s]Traceback (most recent call last):"
    assert segment.index(b"Traceback") in body_starts(segment)
    segment = b"[default0]:[rank0]: ValueError: x"
    assert {0, 11, 20} <= set(body_starts(segment))


def test_equal_speakers_have_equal_keys_and_others_do_not():
    first = b"[rank1]:[E513 13:25:57.714781669 a.cpp:6] [PG ID 3 PG GUID 9(tp) Rank 1] x"
    second = b"[rank1]: ValueError: y"
    assert stream_key(first, len(first) - 1, PLAIN) == stream_key(second, len(second) - 1, PLAIN) == b"r1"
    assert stream_key(b"[rank2]: y", 9, PLAIN) != stream_key(second, 9, PLAIN)


def label_sample(*lines: str) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def test_srun_labels_are_ranks_only_where_lines_show_it():
    shown = profile_source(
        label_sample("0: start", "1: rank = 1 on cn-12", "2: start", "3: rank = 3 on cn-12"), "slurm-1.out"
    )
    assert shown.style == "srun_label"
    assert who("3: ValueError: x", shown) == Who(rank=3, label="task 3")
    agents = profile_source(
        label_sample(
            "0: W1129 14:18:16.233000 13 torch/distributed/run.py:757] **", "1: hello", "0: [rank0]: x", "1: [rank8]: x"
        ),
        "slurm-1.out",
    )
    assert who("1: [rank8]: ValueError: x", agents) == Who(rank=8, label="task 1")
    assert who("1: Killed", agents) == Who(label="task 1")
    unknown = profile_source(label_sample("0: a", "1: b", "0: c", "1: d"), "slurm-1.out")
    assert who("1: Killed", unknown).rank is None


def test_numbers_before_a_colon_are_no_labels_in_a_plain_log():
    profile = profile_source(label_sample("start", "one", "two", " 3: a step"), "x.log")
    assert who(" 3: a step", profile) == Who()


def test_host_labels_of_collectors():
    pdsh = profile_source(label_sample("node-a: hello", "node-b: hello", "node-a: x", "node-b: y"), "x.log")
    assert who("node-b: ValueError: x", pdsh) == Who(host="node-b")
    dated = profile_source(label_sample(*[f"2023-12-17 16:40:0{i} 10.0.3.2{i % 2}: hello" for i in range(6)]), "x.log")
    assert who("2023-12-17 16:40:02 10.0.3.21: Killed", dated) == Who(host="10.0.3.21")
    levels = profile_source(label_sample("INFO: a", "WARNING: b", "INFO: c", "INFO: d"), "x.log")
    assert levels.style == "none"
    compose = profile_source(
        label_sample("trainer_1  | a", "trainer_2  | b", "trainer_1  | c", "trainer_1  | d"), "x.log"
    )
    assert who("trainer_1  | Killed", compose) == Who(label="trainer_1")


@pytest.mark.parametrize(
    "early", [("WARNING: infoROM is corrupted", "Using the cache"), ("Error: no ffmpeg", "pip is old", "INFO: go on")]
)
def test_a_warning_before_a_collector_begins_is_no_host_and_hides_none(early):
    lines = [f"kn-{i % 2}: line {i}" for i in range(12)]
    profile = profile_source(label_sample(*early, *lines), "x.log")
    assert who("kn-1: ValueError: x", profile) == Who(host="kn-1")
    assert who("WARNING: infoROM is corrupted", profile).host is None


def test_a_launcher_role_called_rank_is_not_the_global_rank():
    lines = ["[rank0]:2025-01-01 x", "[rank1]:hello", "[rank0]:hello", "[rank1]:[rank9]: ValueError: x"]
    profile = profile_source(label_sample(*lines), "x.log")
    assert profile.tee_rank
    assert who("[rank1]:hello", profile) == Who(local_rank=1)
    assert who("[rank1]:[rank9]: ValueError: x", profile) == Who(rank=9, local_rank=1)
    torch = profile_source(
        label_sample("[rank0]: a", "[rank1]:[E513 13:25:57.714781669 a.cpp:6] x", "[rank1]: b", "c"), "x.log"
    )
    assert not torch.tee_rank


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("none_x/attempt_0/3/stderr.log", Who(local_rank=3)),
        ("rank_3.log", Who(rank=3)),
        ("logs/rank3.err", Who(rank=3)),
        ("train_rank_12.log", Who(rank=12)),
        ("stderr-rank-0.log", Who(rank=0)),
        ("mp_rank_00_model_states.log", Who()),
        ("tp_rank_1.log", Who()),
        ("global_rank_9_local_rank_1.log", Who(rank=9, local_rank=1)),
        ("machine_rank_1.log", Who(node_rank=1)),
        ("a.tar.gz!logs/rank_4/stderr.txt", Who(rank=4)),
        ("logs/rank_2/out.log", Who(rank=2)),
        ("local_rank_1.log", Who(local_rank=1)),
        ("nemo_log_globalrank-11_localrank-3.txt", Who(rank=11, local_rank=3)),
        ("log_x_4711_3.err", Who()),
        ("error-4711-node017-3.out", Who(host="node017")),
        ("slurm-4711.out", Who()),
        ("frank3.log", Who()),
        ("gpu3.log", Who()),
        ("node0.log", Who()),
        ("kern-gpu-h12.log", Who(host="gpu-h12")),
        ("dmesg-node017.log", Who(host="node017")),
        ("job-worker-3.log", Who(label="job-worker-3")),
        ("node_rank_1.log", Who(node_rank=1)),
        ("evidence/pai-gpu-4/dmesg.txt", Who(host="pai-gpu-4")),
        ("cn31/slurmd.log", Who(host="cn31")),
        ("run7/dmesg.txt", Who()),
        ("attempt_2/kern.log", Who()),
        ("logs/dmesg.txt", Who()),
        ("cn31/train.log", Who()),
    ],
)
def test_a_file_name_tells_only_what_it_states(path, expected):
    assert read_name(path).who == expected


def test_attempts_and_numbers_of_file_names():
    assert read_name("x/attempt_2/3/stderr.log").attempt == 2
    assert read_name("log_x_4711_3.err").number == 3
    assert read_name("job.log").attempt is None


def test_the_name_of_a_file_completes_its_lines_but_does_not_overrule_them():
    profile = profile_source(b"", "attempt_0/3/stderr.log")
    assert who("ValueError: x", profile) == Who(local_rank=3)
    assert who("[rank11]: ValueError: x", profile) == Who(rank=11, local_rank=3)
    named = profile_source(b"", "rank_3.log")
    assert who("[rank4]: ValueError: x", named) == Who(rank=4)


def test_the_better_stamp_of_several_is_taken():
    line = b"15:47:40.580 [rank4]:[E203 15:47:40.275750231 ProcessGroupNCCL.cpp:1870] x"
    stamp = locate(line, len(line), PLAIN).stamp
    assert stamp is not None
    assert (stamp.month, stamp.day, stamp.second) == (2, 3, 40)
    line = b"2026-01-15T14:31:05.123456789Z [E115 15:31:05.275750231 a.cpp:6] x"
    stamp = locate(line, len(line), PLAIN).stamp
    assert stamp is not None
    assert stamp.zone == "Z"


def test_vllm_puts_level_and_a_date_without_a_year_before_the_place():
    profile = SourceProfile()
    for line in (
        b"(Worker_TP1 pid=40702) ERROR 08-18 19:32:08 [multiproc_executor.py:871] WorkerProc hit an exception.",
        b"ERROR 08-18 19:32:08 multiproc_executor.py:871] WorkerProc hit an exception.",
    ):
        found = locate(line, len(line), profile)
        assert line[found.body :] == b"WorkerProc hit an exception."
        assert found.level == "ERROR"
        assert (found.stamp.month, found.stamp.day, found.stamp.hour, found.stamp.year) == (8, 18, 19, None)


def test_a_file_of_nccl_lines_has_no_host_labels():
    lines = [b"cn000:%d:%d [%d] NCCL INFO Connected all rings" % (4000 + n, 4100 + n, n) for n in range(8)]
    profile = profile_source(b"\n".join(lines), "cn000.log")
    assert profile.style == "none"
    found = locate(lines[3], len(lines[3]), profile).who
    assert (found.host, found.pid, found.device) == ("cn000", 4003, 3)


_FRAME = (
    "frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f29d26bb496 in /opt/venv/lib/libtorch_cuda.so)"
)


@pytest.mark.parametrize(
    "line",
    [
        _FRAME,
        _FRAME + "[rank3]: Traceback (most recent call last):",
        _FRAME + "(Worker pid=311) ValueError: bad",
        _FRAME + "[NeMo W 2026-05-04 09:01:00 train:3] stopped",
        _FRAME + "gn01:311:312 [2] NCCL WARN gone",
        _FRAME + " 47%|####  | 9/19 [00:01<00:03,  2.9it/s]ValueError: bad",
        _FRAME + "E0504 09:01:00.123456 311 train.py:3] ValueError: bad",
        "frame #2: <unknown function> + 0x94ac3 (0x7f29d26be496 in /usr/lib/libc.so.6)",
        "frame #3: f(std::array<int, 3>, Error: Timeout) (0xdeadbeef in a b)",
        "frame #4: PyObject_Call[clone] (0xabc in python3)",
    ],
)
def test_frames_of_cpp_stacks_are_read_as_any_line(line, monkeypatch):
    segment = line.encode()
    quick = body_starts(segment, PLAIN)
    monkeypatch.setattr(identity, "is_native_frame", lambda _: False)
    assert quick == body_starts(bytes(bytearray(segment)), PLAIN)


def test_a_label_that_the_second_half_of_the_lines_lacks_is_none():
    labelled = [b"gn%02d: step %d" % (n % 3, n) for n in range(60)]
    plain = [b"step %d" % n for n in range(60)]
    assert profile_source(b"\n".join(labelled + labelled) + b"\n", "job.log").style == "host_label"
    assert profile_source(b"\n".join(labelled + plain) + b"\n", "job.log").style == "none"
    few = labelled * 2
    few[70:120:12] = plain[:5]  # a tenth may lack it
    assert profile_source(b"\n".join(few) + b"\n", "job.log").style == "host_label"
