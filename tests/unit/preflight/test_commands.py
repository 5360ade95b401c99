"""`firstfault preflight` and `firstfault probe` as they are typed: forms, exit codes; healthy machines pass; every check is described."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from made import CHECKS, ETH, IB, LO, machine, package, smi

from firstfault.cli.main import run
from firstfault.i18n.glossary import WORDS
from firstfault.incidents.shipped import shipped
from firstfault.model import checks
from firstfault.preflight import host
from firstfault.preflight.families import FAMILIES, look
from firstfault.preflight.job_checks import JOB_CHECKS
from firstfault.preflight.joint import join
from firstfault.preflight.machine import Asked
from firstfault.report.schema import generate
from firstfault.signatures.library import load_library

MEMINFO = "MemTotal: 2097152000 kB\nMemAvailable: 2000000000 kB\n"


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in list(os.environ):
        if name.startswith(
            (
                "SLURM_",
                "MASTER_",
                "RANK",
                "WORLD_SIZE",
                "LOCAL_",
                "NCCL_",
                "TORCH",
                "CUDA_",
                "OMP_",
                "OMPI_",
                "PMI",
                "PET_",
                "FIRSTFAULT_",
            )
        ):
            monkeypatch.delenv(name)


def printed(capfdbinary, words):
    code = run(words)
    return code, capfdbinary.readouterr().out.decode()


def test_a_plain_machine_passes(capfdbinary):
    code, text = printed(capfdbinary, ["preflight"])
    assert code == 0, text
    assert text.startswith("READY")
    assert "Would stop the job" not in text


@pytest.mark.parametrize("name", ["SLURM_LOCALID", "LOCAL_RANK"])
def test_a_process_that_is_asked_alone_looks_at_the_whole_machine(capfdbinary, monkeypatch, name):
    for key, value in {"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "4", name: "1"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("NCCL_IB_DISBLE", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29517")
    code, text = printed(capfdbinary, ["preflight"])
    del code
    assert "settings.misspelt  NCCL_IB_DISBLE" in text
    assert "host.shm" in text


def test_chinese_keeps_names_and_numbers(capfdbinary, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, text = printed(capfdbinary, ["preflight", "--lang", "zh"])
    assert code == 1
    assert text.startswith("不能运行")
    assert "launcher.numbers  RANK=5，而 WORLD_SIZE=2：rank 从 0 到 1" in text
    code, raw = printed(capfdbinary, ["preflight", "--lang", "zh", "--format", "json"])
    answer = json.loads(raw)
    jsonschema.validate(answer, json.loads(generate("preflight")))
    assert answer["state"] == "fail"
    assert {c["id"] for c in answer["checks"]} == set(CHECKS)


def test_the_forms_say_the_same(capfdbinary, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("NCCL_TIMEOUT", "60")
    code, text = printed(capfdbinary, ["preflight"])
    assert code == 1
    assert text.startswith("NOT READY")
    assert "launcher.numbers  RANK=5 with WORLD_SIZE=2" in text
    assert "Prevents: software.process_group" in text
    code, raw = printed(capfdbinary, ["preflight", "--format", "json"])
    answer = json.loads(raw)
    jsonschema.validate(answer, json.loads(generate("preflight")))
    assert code == 1
    assert answer["schema"] == "firstfault.preflight/1"
    assert answer["state"] == "fail"
    assert {c["id"] for c in answer["checks"]} == set(CHECKS)
    code, xml = printed(capfdbinary, ["preflight", "--format", "junit"])
    suite = ET.fromstring(xml)
    failed = {
        c.get("classname") + "." + c.get("name").split(" ")[0]
        for c in suite.iter("testcase")
        if c.find("failure") is not None
    }
    assert failed == {f"firstfault.preflight.{c['id']}" for c in answer["checks"] if c["state"] == "fail"}
    assert int(suite.get("skipped")) == sum(c["state"] == "not_checkable" for c in answer["checks"])
    assert code == 1


def test_a_warning_is_no_failure_unless_asked(capfdbinary, monkeypatch):
    monkeypatch.setenv("NCCL_TIMEOUT", "60")
    code, text = printed(capfdbinary, ["preflight"])
    assert (code, text.split("  ")[0]) == (0, "READY, WITH WARNINGS")
    assert printed(capfdbinary, ["preflight", "--strict"])[0] == 1


def test_paths_are_looked_at(capfdbinary, tmp_path):
    code, text = printed(
        capfdbinary, ["preflight", "--read", str(tmp_path / "none"), "--write", str(tmp_path), "--all"]
    )
    assert code == 1
    assert "storage.read" in text.split("Not checkable")[0]
    assert "Why: A machine without the mount stops its ranks" in text


def test_wrong_use(capfdbinary):
    assert run(["preflight", "--dir", "x"]) == 2
    assert run(["preflight", "--wait", "0", "--job"]) == 2
    assert run(["probe", "--read", "a", "--compare", "a", "b"]) == 2
    assert run(["probe", "--require", "teleport"]) == 2
    assert b"Known are: nvcc, cuda" in capfdbinary.readouterr().err


def test_what_a_variable_holds_does_not_steer_the_terminal(capfdbinary, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "\x1b]0;x\x07WARN")
    monkeypatch.setenv("RANK", "<b>\x1b[2J")
    for form in ("text", "junit", "json"):
        _, text = printed(capfdbinary, ["preflight", "--format", form])
        assert "\x1b" not in text
        assert "\x07" not in text


def test_secrets_do_not_get_out(capfdbinary, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_NCCL_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz012345")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    for words in (["preflight", "--format", "json", "--all"], ["probe", "--no-imports"]):
        assert "hf_abcdef" not in printed(capfdbinary, words)[1]


# healthy machines


def laptop(tmp_path):
    return machine(
        tmp_path,
        files={"/proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 9000000 kB\n"},
        host="laptop",
        PATH=str(tmp_path),
        HOME=str(tmp_path),
    )


def image(tmp_path):
    files = {
        "/.dockerenv": "",
        "/proc/meminfo": MEMINFO,
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/pids.max": "max",
    }
    return machine(
        tmp_path, files=files, interfaces=(LO, ETH), host="4d2a1b", PATH=smi(tmp_path / "bin", 1), HOME="/root"
    )


def one_gpu(tmp_path):
    env = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    return machine(
        tmp_path,
        files={"/proc/meminfo": MEMINFO},
        host="localhost",
        PATH=smi(tmp_path / "bin", 1),
        CUDA_VISIBLE_DEVICES="0",
        **env,
    )


def eight_gpus_by_slurm(tmp_path):
    env = {
        "SLURM_JOB_ID": "4711", "SLURM_PROCID": "8", "SLURM_LOCALID": "0", "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "16", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "8",
        "SLURM_NTASKS_PER_NODE": "8", "NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib0", "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    }  # fmt: skip
    ports = {}
    for n in range(8):
        base = f"/sys/class/infiniband/mlx5_{n}/ports/1"
        ports |= {
            f"{base}/state": "4: ACTIVE",
            f"{base}/phys_state": "5: LinkUp",
            f"{base}/link_layer": "InfiniBand",
            f"{base}/rate": "400 Gb/sec (4X NDR)",
        }
    files = {
        "/proc/meminfo": MEMINFO,
        "/dev/infiniband/uverbs0": "",
        "/proc/self/status": "CapEff:\t0000000000004000\n",
        "/dev/nvidia0": "",
        **ports,
    }
    made = machine(
        tmp_path, files=files, interfaces=(LO, ETH, IB), host="localhost", PATH=smi(tmp_path / "bin", 8), **env
    )
    made.limit = {"open files": 65536}.get
    return made


@pytest.mark.parametrize("make", [laptop, image, one_gpu, eight_gpus_by_slurm])
def test_healthy_machines_pass(tmp_path, make, monkeypatch):
    monkeypatch.setattr(host, "clock_state", lambda: False)
    (tmp_path / "dev/shm").mkdir(parents=True)
    made = make(tmp_path)
    made.__dict__["torch"] = {}  # that of the tests may be one for processors alone
    report = look(made)
    wrong = [(c.id, c.seen) for c in report.checks if c.state in {"warn", "fail"}]
    # What the machine of the test is short of (its disks) is no matter of the machine that is made.
    assert [w for w in wrong if not w[0].startswith(("storage.", "host.shm"))] == []
    assert join([report], report, expected=1).state != "fail"


# every check


def test_every_check_is_described():
    known = set(load_library().by_id) | {record.id for record in shipped()}
    for check in [*CHECKS.values(), *JOB_CHECKS]:
        assert check.title
        assert check.why.endswith(".")
        assert set(check.prevents) <= known, (check.id, set(check.prevents) - known)
    for family, members in FAMILIES.items():
        assert all(c.id.startswith(f"{family}.") for c in members)
    assert len(CHECKS) == sum(map(len, FAMILIES.values()))


def test_every_state_is_explained():
    assert set(WORDS["check state"]) == set(checks.ORDER) == set(checks.CheckState.__args__)


def test_names_are_hidden_where_a_report_is_shared(capfdbinary):
    import socket

    _, text = printed(capfdbinary, ["preflight", "--format", "json", "--share"])
    answer = json.loads(text)
    assert answer["redaction"] == "identities"
    assert answer["nodes"][0]["host"] != socket.gethostname()
    assert "eth0" in text or "lo" in text


def test_a_check_that_fails_itself_stops_nothing(monkeypatch):
    from firstfault.preflight import families

    def broken(machine):
        raise RuntimeError("unforeseen")

    bad = FAMILIES["host"][0]._replace(look=broken)
    monkeypatch.setitem(families.FAMILIES, "host", (bad,))
    report = look(machine())
    (told,) = [c for c in report.checks if c.id == bad.id]
    assert told.state == "not_checkable"
    assert "RuntimeError: unforeseen" in told.seen


def test_a_rank_that_leads_no_machine_asks_little(tmp_path):
    env = {"SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_NTASKS": "8", "SLURM_NNODES": "1"}
    path = smi(tmp_path / "bin", 8)
    (tmp_path / "bin" / "nvidia-smi").rename(tmp_path / "bin" / "real")
    counted = tmp_path / "count"
    (tmp_path / "bin" / "nvidia-smi").write_text(f'#!/bin/sh\necho x >> {counted}\nexec {tmp_path}/bin/real "$@"\n')
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    made = machine(tmp_path, PATH=path, asked=Asked(write=(str(tmp_path),)), **env)
    made.folder = None  # it must ask for no folder
    report = look(made)
    assert not counted.exists()
    assert report.facts == {}
    assert {c.state for c in report.checks} <= {"warn", "fail"}


# probe


def test_probe_and_back(capfdbinary, tmp_path):
    file = tmp_path / "job.log"
    code, text = printed(capfdbinary, ["probe", "--no-imports"])
    assert code == 0
    file.write_text("banner without an end" + text + "step 1\n")
    code, raw = printed(capfdbinary, ["probe", "--read", str(file)])
    assert code == 0
    profile = json.loads(raw)
    jsonschema.validate(profile, json.loads(generate("probe")))
    assert profile["python"]["version"] == ".".join(map(str, sys.version_info[:3]))
    # What --read printed is read again, and compared.
    (tmp_path / "a.json").write_text(raw)
    assert printed(capfdbinary, ["probe", "--read", str(tmp_path / "a.json")]) == (0, raw)
    code, text = printed(capfdbinary, ["probe", "--compare", str(tmp_path / "a.json"), str(file)])
    assert text.startswith("COMPARABLE")
    assert code == 0
    code, raw = printed(capfdbinary, ["probe", "--compare", str(tmp_path / "a.json"), str(file), "--format", "json"])
    jsonschema.validate(json.loads(raw), json.loads(generate("probe-compare")))


def test_a_required_capability_that_is_not_there(capfdbinary):
    code, text = printed(capfdbinary, ["probe", "--require", "transformer_engine"])
    assert code == 1
    assert '"missing":["transformer_engine"]' in text


def test_what_holds_no_profile(capfdbinary, tmp_path):
    (tmp_path / "empty.log").write_text("nothing here\n")
    (tmp_path / "cut.log").write_text('FIRSTFAULT_ENVIRONMENT_JSON={"schema": "firstf\n')
    for name, says in (
        ("empty.log", "no profile was found"),
        ("cut.log", "no profile there is whole"),
        ("none.log", "no such file"),
    ):
        assert run(["probe", "--read", str(tmp_path / name)]) == 2
        assert says in capfdbinary.readouterr().err.decode()
    assert run(["probe", "--read", str(tmp_path)]) == 2


def test_a_run_of_several_environments_is_compared_with_nothing(capfdbinary, tmp_path, monkeypatch):
    _, first = printed(capfdbinary, ["probe", "--no-imports"])
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    _, second = printed(capfdbinary, ["probe", "--no-imports"])
    (tmp_path / "mixed.log").write_text(first + second)
    (tmp_path / "one.log").write_text(second)
    assert run(["probe", "--compare", str(tmp_path / "mixed.log"), str(tmp_path / "one.log")]) == 2
    assert "2 different profiles stand there" in capfdbinary.readouterr().err.decode()
    (tmp_path / "other.log").write_text(first)
    code, text = printed(capfdbinary, ["probe", "--compare", str(tmp_path / "other.log"), str(tmp_path / "one.log")])
    assert code == 1
    assert "setting NCCL_ALGO" in text


def test_it_starts_without_what_a_run_needs(tmp_path):
    # No import of torch, numpy or another heavy one here: they may hang.
    package(
        tmp_path,
        "torch",
        "2.4.0",
        {"torch/__init__.py": "raise SystemExit('imported')", "numpy/__init__.py": "raise SystemExit('imported')"},
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    code = "import sys; from firstfault.cli.main import run; c = run(['preflight']); assert 'torch' not in sys.modules and 'numpy' not in sys.modules; sys.exit(c)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
