"""The run of a Slurm job is found by its number, with a scheduler that answers, forgets or is not there."""

import os

import pytest
from box_folder import Box
from click.testing import CliRunner

from firstfault.cli.watch import command
from firstfault.watch.slurm import run_of_job


@pytest.fixture
def site(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("firstfault.collect.commands._PATH", str(programs))
    monkeypatch.delenv("FIRSTFAULT_RECORD_DIR", raising=False)
    work = tmp_path / "work"
    for number, run in enumerate(("slurm-77.0", "slurm-77.1", "slurm-778", "slurm-7")):
        box = Box(work / "firstfault-record", run=run)
        for rank in range(4):
            at = box.node(rank, "node", 1).stat().st_mtime + number
            os.utime(box.folder / box.host(rank) / "node.jsonl", (at, at))

    def put(name, text):
        file = programs / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(0o755)

    return work, put


def test_the_working_directory_is_asked_for_and_the_last_step_is_taken(site):
    work, put = site
    put("scontrol", f'[ "$*" = "show job 77" ] && printf "JobId=77 JobName=x\\n   WorkDir={work}\\n   StdErr=/x\\n"')
    assert run_of_job("77", None) == work / "firstfault-record" / "slurm-77.1"


def test_accounting_remembers_what_the_scheduler_forgot(site):
    work, put = site
    put("scontrol", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1")
    put("sacct", f"echo {work}")
    assert run_of_job("77", None).name == "slurm-77.1"


def test_a_task_of_an_array_has_a_number_of_its_own(site):
    work, put = site
    put("scontrol", f'printf "JobId=778 ArrayJobId=700 ArrayTaskId=3\\n   WorkDir={work}\\n"')
    assert run_of_job("700_3", None).name == "slurm-778"


def test_with_a_folder_nobody_is_asked(site):
    work, _ = site
    assert run_of_job("7", work / "firstfault-record").name == "slurm-7"


@pytest.mark.parametrize(("job", "says"), [("9", "holds no run of job 9"), ("9_1", "$SLURM_JOB_ID")])
def test_a_job_without_a_run_is_told(site, job, says):
    work, _ = site
    with pytest.raises(FileNotFoundError, match=says.replace("$", r"\$")):
        run_of_job(job, work / "firstfault-record")


def test_the_command_watches_it_and_refuses_what_is_no_job(site):
    work, put = site
    put("scontrol", f'printf "   WorkDir={work}\\n"')
    done = CliRunner().invoke(command, ["--slurm", "77", "--once"], standalone_mode=False)
    assert "slurm-77.1" in done.output
    assert CliRunner().invoke(command, ["--slurm", "77;x"]).exit_code == 2
    assert CliRunner().invoke(command, []).exit_code == 2
