"""Labels and names of files that count from 0 on every machine: no global rank is told by them, and a stated one is found."""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"


def banner(host, rank, local, at="08:08:20", code=1):
    return [
        "============================================================",
        "fit.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : 2026-11-12_{at}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {code} (pid: 90{local})",
        "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        "============================================================",
    ]


def raised(label, error=ECC):
    return [
        f"{label}Traceback (most recent call last):",
        f'{label}  File "/app/fit.py", line 3, in step',
        f"{label}    loss.backward()",
        f"{label}{error}",
    ]


def told(folder, files):
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return diagnose([folder]).verdict


def ups(first, host, form="[rank{local}]: RANK={rank} LOCAL_RANK={local} WORLD_SIZE=8 host={host}"):
    return [form.format(local=n, rank=first + n, host=host) for n in range(4)]


def test_a_label_that_the_environment_behind_it_contradicts_is_a_local_rank(tmp_path):
    files = {"na.log": ups(0, "na"), "nb.log": [*ups(4, "nb"), *raised("[rank1]: "), *banner("nb", 5, 1)]}
    verdict = told(tmp_path, files)
    assert verdict.category is Category.GPU_CUDA
    assert (list(verdict.culprits.ranks), list(verdict.culprits.hosts)) == ([5], ["nb"])


def test_a_label_that_the_launchers_list_contradicts_is_a_local_rank(tmp_path):
    files = {
        "a.log": [*raised("[rank2]: ", "RuntimeError: Connection closed by peer"), *banner("na", 2, 2, "08:20:00", -6)],
        "b.log": [*raised("[rank2]: ", "ValueError: bad header in /d/x.bin"), *banner("nb", 10, 2, "08:10:00")],
    }
    verdict = told(tmp_path, files)
    assert 2 not in verdict.first_failed.ranks
    assert list(verdict.first_failed.ranks) in ([10], [])
    assert "na" not in verdict.first_failed.hosts


@pytest.mark.parametrize("names", [("node0/rank{n}.log", "node1/rank{n}.log"), ("a/rank_{n}.log", "b/rank_{n}.log")])
def test_a_number_of_a_file_that_stands_on_two_machines_is_no_global_rank(tmp_path, names):
    init = "hx{i}:40{n}:40{n} [{n}] NCCL INFO Bootstrap: Using eth0:10.0.0.{i}<0>"
    files = {name.format(n=n): [init.format(i=i, n=n)] for i, name in enumerate(names) for n in range(4)}
    files[names[1].format(n=3)] += raised("")
    verdict = told(tmp_path, files)
    assert verdict.category is Category.GPU_CUDA
    assert list(verdict.culprits.ranks) == []


def test_numbers_of_files_of_several_starts_stay_ranks(tmp_path):
    files = {f"attempt_{i}/rank{n}.log": [f"host=hx{i} up"] for i in range(2) for n in range(4)}
    files["attempt_1/rank3.log"] += raised("")
    assert list(told(tmp_path, files).culprits.ranks) == [3]


def test_torchs_own_label_stays_a_global_rank(tmp_path):
    lines = [f"[rank{n}]: RANK={n} LOCAL_RANK={n % 4} WORLD_SIZE=8 host=n{'ab'[n // 4]}" for n in range(8)]
    files = {"job.log": [*lines, *raised("[rank5]: "), *banner("nb", 5, 1)]}
    assert list(told(tmp_path, files).culprits.ranks) == [5]


@pytest.mark.parametrize(
    ("head", "ranks"),
    [
        ("RANK=10 LOCAL_RANK=2 WORLD_SIZE=16 HOSTNAME=hb", [10]),
        ("env: MASTER_ADDR=10.0.0.1 LOCAL_RANK=2 RANK=6 WORLD_SIZE=16", [6]),
        ("worker: {RANK=7, LOCAL_RANK=3, WORLD_SIZE=16}", [7]),
        # an operator gives each pod such a number, and a launcher in the pod starts several ranks
        ("RANK=1 WORLD_SIZE=16 MASTER_ADDR=fit-master-0", []),
    ],
)
def test_the_environment_that_a_log_begins_with_tells_whose_it_is(tmp_path, head, ranks):
    files = {"ha/gpu2.log": ["RANK=2 LOCAL_RANK=2 WORLD_SIZE=16 HOSTNAME=ha"], "hb/gpu2.log": [head, *raised("")]}
    assert list(told(tmp_path, files).culprits.ranks) == ranks
