"""Source that is printed, and an error that is told only by half, say no more than they do."""

import pytest

from firstfault.pipelines.diagnose import diagnose

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 9, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 4, in main',
]


def said(folder, files):
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("mark", ["    ", ">       "])
def test_a_statement_that_would_raise_is_no_error(tmp_path, mark):
    lines = ["step 1 loss 2.0", f"{mark}raise ValueError('batch size must be divisible by the world size')"]
    assert said(tmp_path, {"notes.log": lines}).failed is None


def test_the_error_that_pytest_prints_below_its_source_is_the_trigger(tmp_path):
    lines = [
        "    def test_heads():",
        ">       build(cfg)",
        "",
        "tests/test_heads.py:40: ",
        "    raise ValueError('head_dim must be divisible by 8')",
        "E   ValueError: head_dim must be divisible by 8",
        "",
        "src/model.py:12: ValueError",
    ]
    verdict = said(tmp_path, {"ci.log": lines})
    assert verdict.trigger.line == 6
    assert "number of ranks" not in verdict.summary


def test_a_traceback_that_breaks_off_is_told(tmp_path):
    lines = [f"[rank0]: step {i} loss 1.0" for i in range(4)] + [f"[rank1]: {line}" for line in TRACEBACK]
    verdict = said(tmp_path, {"x.log": lines})
    assert (verdict.failed, verdict.category) == (None, "unknown")
    assert "a traceback on rank 1 breaks off" in verdict.summary
    assert "no error" not in verdict.summary


def test_what_one_rank_alone_met_and_nobody_understands_is_not_called_common(tmp_path):
    error = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    files = {f"rank{r}.log": [f"[rank{r}]: world_size=4, rank={r}"] for r in range(4)}
    files["rank2.log"] += [f"[rank2]: {line}" for line in [*TRACEBACK, "    json.load(f)", error]]
    verdict = said(tmp_path, files)
    assert verdict.culprits.shared is False
    assert verdict.first_failed.ranks == [2]


def test_a_machine_on_which_the_launcher_started_processes_is_one_of_the_job(tmp_path):
    spawned = [
        f"{host}: [2026-09-11 05:00:02,00{i}] [INFO] [launch.py:256:main] process {4710 + i} spawned with command: "
        f"['/usr/bin/python', '-u', 'train.py', '--local_rank={i}']"
        for host in ("node-1", "node-2", "node-3")
        for i in range(2)
    ]
    steps = [
        f"node-1: [2026-09-11 05:1{i}:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]"
        for i in range(3)
    ]
    end = (
        "node-3: [2026-09-11 05:17:09,500] [ERROR] [launch.py:322:sigkill_handler] "
        "['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9"
    )
    kernel = (
        "[Fri Sep 11 05:16:55 2026] Memory cgroup out of memory: Killed process 4711 (python) total-vm:912345678kB, "
        "anon-rss:501234567kB, file-rss:1234kB, shmem-rss:0kB, UID:1000 pgtables:1000000kB oom_score_adj:0"
    )
    verdict = said(tmp_path, {"launch.log": [*spawned, *steps, end], "dmesg-node-3.log": [kernel]})
    assert (verdict.category, verdict.strength) == ("infrastructure", "established")
    assert verdict.culprits.hosts == ["node-3"]


def test_tasks_of_srun_are_ranks_where_lines_say_rank_n_of_all(tmp_path):
    lines = [f"{r}: start rank {r}/4 on k0{1 + r // 2}" for r in range(4)]
    lines += [f"3: {line}" for line in [*TRACEBACK, "    f()", "MemoryError"]]
    assert said(tmp_path, {"slurm-1.out": lines}).first_failed.ranks == [3]


def test_the_chain_holds_the_root_behind_the_line_that_only_wraps_it(tmp_path):
    lines = [
        *TRACEBACK,
        "    next(loader)",
        "zstandard.ZstdError: Caught ZstdError in DataLoader worker process 2.",
        "Original Traceback (most recent call last):",
        '  File "/workspace/data.py", line 9, in __getitem__',
        "    return unpack(raw)",
        "zstandard.ZstdError: decompression error: Data corruption detected",
    ]
    (tmp_path / "x.log").write_text("\n".join(f"[rank1]: {line}" for line in lines) + "\n")
    told = diagnose([tmp_path])
    first, second = told.chain[:2]
    assert (first.evidence[0].line, second.evidence[0].line) == (6, 10)
    assert "damaged" in second.what
    assert all("damaged" not in n.says for n in told.naive)
