"""Which files belong to which job, and what a scheduler's list says."""

import pytest

from firstfault.readers.jobs import Job, Listed, jobs_in, of_listed, read_list


def make(folder, *names):
    for name in names:
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x\n")


def names(folder):
    return {job.name: [p.rsplit("/", 1)[-1] for p in job.paths] for job in jobs_in(str(folder))}


def test_each_entry_is_a_job_and_files_of_one_number_are_one_job(tmp_path):
    make(
        tmp_path,
        "run-a/rank0.log",
        "train-4711-0.out",
        "train-4711-1.out",
        "error-4711-1.err",
        "slurm-81_3.out",
        "slurm-81_4.out",
        "log_20260301_9001.txt",
        "notes.log",
        "logs-of-2026.tar",
        "job812345.log",
        ".hidden",
    )
    assert names(tmp_path) == {
        "4711": ["error-4711-1.err", "train-4711-0.out", "train-4711-1.out"],
        "812345": ["job812345.log"],
        "9001": ["log_20260301_9001.txt"],
        "81_3": ["slurm-81_3.out"],
        "81_4": ["slurm-81_4.out"],
        "logs-of-2026.tar": ["logs-of-2026.tar"],
        "notes.log": ["notes.log"],
        "run-a": ["run-a"],
    }


def test_numbers_are_in_the_order_in_which_people_count(tmp_path):
    make(tmp_path, "job-10/", "job-9/", "job-100/")
    assert [job.name for job in jobs_in(str(tmp_path))] == ["job-9", "job-10", "job-100"]


def test_a_file_is_a_job_by_itself(tmp_path):
    make(tmp_path, "a.log")
    assert jobs_in(str(tmp_path / "a.log")) == [Job("a.log", (str(tmp_path / "a.log"),))]


SACCT = """JobID|JobName|State|ExitCode|End
4711|train|FAILED|1:0|2026-03-01T10:00:00
4711.batch|batch|FAILED|1:0|2026-03-01T10:00:00
4711.0|python|OUT_OF_MEMORY|0:125|2026-03-01T10:00:00
4712|train|COMPLETED|0:0|2026-03-01T10:00:00
4713|train|CANCELLED by 1000|0:15|2026-03-01T10:00:00
81_3|sweep|OUT_OF_ME+|0:9|2026-03-01T10:00:00
81_[4-9]|sweep|PENDING|0:0|Unknown
90+1|het|TIMEOUT|0:0|2026-03-01T10:00:00
cut off
"""


@pytest.mark.parametrize("end", ["", "|"])
def test_a_list_of_the_scheduler(tmp_path, end):
    path = tmp_path / "sacct.txt"
    path.write_text("".join(f"{line}{end}\n" for line in SACCT.splitlines()))
    assert read_list(str(path)) == [
        Listed("4711", "FAILED", 1),
        Listed("4712", "COMPLETED", 0),
        Listed("4713", "CANCELLED", -15),
        Listed("81_3", "OUT_OF_ME", -9),
        Listed("90", "TIMEOUT", 0),
    ]


@pytest.mark.parametrize("end", ["", "|"])
def test_a_name_with_a_bar_in_it_moves_no_cell(tmp_path, end):
    path = tmp_path / "sacct.txt"
    path.write_text(
        f"\ufeffJobID|JobName|State|ExitCode{end}\r\n4711|a|COMPLETED|b|FAILED|1:0{end}\r\n4712|c|TIMEOUT|0:0{end}\r\n"
    )
    assert read_list(str(path)) == [Listed("4711", "FAILED", 1), Listed("4712", "TIMEOUT", 0)]


@pytest.mark.parametrize(
    "text", ["", "nothing of the kind\n", "JobID|Elapsed\n1|2\n", "             JobID State\n1 FAILED\n"]
)
def test_what_is_no_list_is_told(tmp_path, text):
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="JobID and State"):
        read_list(str(path))


def test_listed_jobs_get_their_files(tmp_path):
    make(tmp_path, "out-4711.log", "err-4711.log", "run-4713/", "4714/")
    listed = [Listed(name, "FAILED", 1) for name in ("4713", "4711", "4714", "5")]
    found = {one.name: len(job.paths) for one, job in of_listed(listed, jobs_in(str(tmp_path)))}
    assert found == {"4713": 1, "4711": 2, "4714": 1, "5": 0}


def test_a_link_to_what_is_there_is_no_job_of_its_own(tmp_path):
    make(tmp_path, "day/run-4711/rank0.log", "elsewhere/run-9/a.log", "day/.kept/run-8/a.log")
    day = tmp_path / "day"
    (day / "latest").symlink_to("run-4711")
    (day / "newest.log").symlink_to(day / "run-4711" / "rank0.log")
    (day / "run-9").symlink_to(tmp_path / "elsewhere" / "run-9")
    (day / "run-8").symlink_to(".kept/run-8")
    (day / "gone").symlink_to("nowhere-at-all")
    (day / "itself").symlink_to(".")
    assert list(names(day)) == ["gone", "itself", "run-8", "run-9", "run-4711"]


def test_files_of_one_day_and_time_are_one_job(tmp_path):
    make(tmp_path, *(f"rank{n}-20260301-101500.log" for n in range(2)), "x_2026-03-01_10-15-00.log")
    make(tmp_path, "y_20260301_101500_4711.log", "z_20260301_9001.log", "slurm-2025.out", "slurm-2025.err")
    assert {name: len(paths) for name, paths in names(tmp_path).items()} == {
        "20260301-101500": 2,
        "2026-03-01_10-15-00": 1,
        "4711": 1,
        "9001": 1,
        "2025": 2,
    }


@pytest.mark.parametrize(
    ("name", "listed", "of"),
    [
        ("train-4720_3.out", ["4720_3", "4720_4"], "4720_3"),
        ("sweep-4720-3.out", ["4720_3"], "4720_3"),
        ("n-12-4720_3.out", ["4720_3"], "4720_3"),
        ("4720_3", ["4720_3"], "4720_3"),
        ("train-4720_3.out", ["4720"], "4720"),  # rank 3 of a job
        ("train-4720_3.out", ["4720_5"], None),
        ("llama-4096-4711.out", ["4711", "4712"], "4711"),
        ("llama-4096-4711.out", ["4096", "4711"], None),  # either
        ("train-4711-3.out", ["3"], None),  # a rank
        ("train-81.out", ["81"], "81"),
        ("slurm-2025.out", ["2025"], "2025"),
        ("train-2025-03-01.out", ["2025"], None),  # a day
        ("run-20260301-4711.log", ["4711", "20260301"], "4711"),
    ],
)
def test_a_name_belongs_to_the_listed_job_whose_number_it_carries(name, listed, of):
    found = of_listed([Listed(n, "FAILED", 1) for n in listed], [Job("x", (f"/logs/{name}",))])
    assert [one.name for one, job in found if job.paths] == ([of] if of else [])
