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
