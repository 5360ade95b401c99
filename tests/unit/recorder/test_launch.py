"""`firstfault record`: every Python process below it records, but for launchers and helpers; nothing else changes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import SOURCES, Left, environment, program

from firstfault.recorder import format as layout
from firstfault.recorder.identity import is_launcher

PLAIN = {n: os.environ[n] for n in ("PATH", "HOME", "LD_LIBRARY_PATH") if n in os.environ}


def record(folder, command, *options, **more):
    names = {
        "PYTHONPATH": SOURCES,
        "FIRSTFAULT_RECORD_LOCAL": str(folder / "local"),
        "FIRSTFAULT_RECORD_GRACE_S": "0.2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", "record", "--dir", str(folder / "box"), *options, "--", *command],
        env={**PLAIN, **names, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Left(done.returncode, done.stdout, done.stderr, folder / "box")


def test_a_script_is_recorded_without_a_change_to_it(tmp_path):
    left = record(
        tmp_path, program(tmp_path, "def f():\n    raise ValueError('label 17')\nf()"), RANK="0", WORLD_SIZE="1"
    )
    assert left.code == 1
    assert "label 17" in left.err
    assert left.records(layout.EXCEPTION)[0]["message"] == "label 17"
    assert left.records(layout.DEATH)[0]["exit_code"] == 1
    assert not list((tmp_path / "local").glob("*"))


def test_options_of_the_command_are_its_own(tmp_path):
    left = record(
        tmp_path, program(tmp_path, "import sys; print(sys.argv[1:])", "--dir", "x", "--hang=1", "-v", "--help")
    )
    assert left.out == "['--dir', 'x', '--hang=1', '-v', '--help']\n"
    assert left.code == 0


def test_the_exit_code_is_the_commands(tmp_path):
    assert record(tmp_path, ["/bin/sh", "-c", "exit 7"]).code == 7
    assert record(tmp_path, ["/bin/sh", "-c", "kill -9 $$"]).code == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_is_told_in_one_message(tmp_path):
    left = record(tmp_path, ["no-such-program-of-ours"])
    assert left.code == 2
    assert "no-such-program-of-ours" in left.err
    assert "Traceback" not in left.err


def test_the_users_own_sitecustomize_runs(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins; builtins.MINE = 5\n", encoding="utf-8")
    left = record(
        tmp_path,
        program(tmp_path, "import sitecustomize, sys; print(MINE, sitecustomize.__file__)"),
        PYTHONPATH=f"{SOURCES}{os.pathsep}{tmp_path / 'site'}",
    )
    assert left.out == f"5 {tmp_path / 'site' / 'sitecustomize.py'}\n"


def test_children_that_inherit_a_rank_are_not_that_rank(tmp_path):
    text = """
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import firstfault.recorder as r; print(r.started())"], check=True)
    """
    left = record(tmp_path, program(tmp_path, text), RANK="2", WORLD_SIZE="4")
    assert left.out == "False\n"
    assert len(left.records(layout.HEADER)) == 1


def test_each_rank_of_a_launcher_is_recorded_and_the_launcher_is_not(tmp_path):
    (tmp_path / "torchrun").write_text(
        f"#!{sys.executable}\nimport os, subprocess, sys\n"
        "ps = [subprocess.Popen([sys.executable, sys.argv[1]], env={**os.environ, 'RANK': str(n), 'WORLD_SIZE': '2'}) for n in range(2)]\n"
        "sys.exit(max(p.wait() for p in ps))\n",
        encoding="utf-8",
    )
    (tmp_path / "torchrun").chmod(0o755)
    left = record(tmp_path, [str(tmp_path / "torchrun"), program(tmp_path, "print('rank')")[1]])
    assert left.out == "rank\nrank\n"
    assert sorted(r["rank"] for r in left.records(layout.HEADER)) == [0, 1]
    assert len(left.records(layout.NODE)) == 1


def test_a_signal_to_record_goes_to_the_command(tmp_path):
    text = "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(9))\nos.write(1, b'ready\\n')\nsignal.pause()"
    process = subprocess.Popen(
        [sys.executable, "-m", "firstfault", "record", "--dir", str(tmp_path / "box"), "--", *program(tmp_path, text)],
        env={**environment(tmp_path), "FIRSTFAULT_RECORD_MONITOR": "0"},
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.wait(timeout=60) == 9
    process.stdout.close()


def test_another_environment_sees_firstfault_and_nothing_else_of_ours(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    text = "import sys, firstfault.recorder as r\nprint(r.started())\ntry:\n    import click\nexcept ImportError:\n    print('no click')"
    command = [str(tmp_path / "venv" / "bin" / "python"), *program(tmp_path, text)[1:]]
    names = {"FIRSTFAULT_RECORD_LOCAL": str(tmp_path / "local"), "FIRSTFAULT_RECORD_GRACE_S": "0.2"}
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r}); from firstfault.recorder import launch;"
        f"sys.exit(launch.run({command!r}, {str(tmp_path / 'box')!r}, {{}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**PLAIN, **names}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True\nno click\n", done.stderr


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["/usr/bin/python3", "/opt/venv/bin/torchrun", "--nproc-per-node=8", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-u", "-m", "torch.distributed.launch", "train.py"], True),
        (["/usr/bin/python3", "/usr/local/bin/deepspeed", "train.py"], True),
        (["python", "/x/deepspeed/launcher/launch.py", "--world_info=x"], True),
        (["/usr/bin/python", "/usr/bin/accelerate", "launch", "train.py"], True),
        (["python", "train.py", "torchrun"], False),
        (["python", "-u", "train_deepspeed.py", "--deepspeed", "ds.json"], False),
        (["python", "-m", "mypackage.train"], False),
        ([], False),
    ],
)
def test_launchers_are_told_from_what_they_start(words, is_one):
    assert is_launcher(words) is is_one


def test_shown_records_are_json(tmp_path):
    left = record(tmp_path, program(tmp_path, "pass"), RANK="0", WORLD_SIZE="1")
    assert all(json.dumps(r) for r in left.records())
    assert left.records(layout.END)


def test_what_python_finds_at_its_start_is_part_of_the_package():
    """A folder without `__init__` is none of the packages that a build finds by itself."""
    root = Path(SOURCES).parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("installed, not a checkout")
    assert '"recorder/inject/*.py"' in (root / "pyproject.toml").read_text(encoding="utf-8")
    assert list((Path(SOURCES) / "firstfault" / "recorder" / "inject").glob("*.py")) == [
        Path(SOURCES) / "firstfault" / "recorder" / "inject" / "sitecustomize.py"
    ]


def test_a_monitor_that_was_killed_is_replaced_and_the_death_is_told(tmp_path):
    text = """
    import json, os, signal
    import firstfault.recorder as r
    from firstfault.recorder.api import current
    r.start(); r.step()
    with open(os.path.join(current().spool, "monitor.lock")) as lock:
        os.kill(json.load(lock)["pid"], signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    left = record(tmp_path, program(tmp_path, text), RANK="0", WORLD_SIZE="1")
    assert left.code == 128 + signal.SIGKILL
    assert [r["rank"] for r in left.records(layout.DEATH)] == [0]
    assert not list((tmp_path / "local").glob("*"))


def test_a_folder_that_keeps_nothing_is_told_before_the_command_and_not_after_the_failure(tmp_path):
    (tmp_path / "box").write_text("a file", encoding="utf-8")
    left = record(tmp_path, program(tmp_path, "print('trained')"))
    assert (left.code, left.out) == (0, "trained\n")
    assert left.err.splitlines() == [
        f"firstfault record: {tmp_path}/box cannot be written: nothing would survive the node; the command runs all the same"
    ]
