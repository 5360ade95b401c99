"""What a shell completes, asked as its script asks."""

import os
import shutil
import subprocess
import sys

import pytest

from firstfault.cli.main import COMMANDS, run


def offered(*words):
    """What is offered for the last word, as `type,value`."""
    env = {
        **os.environ,
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_FIRSTFAULT_COMPLETE": "bash_complete",
    }
    asked = subprocess.run([sys.executable, "-m", "firstfault"], env=env, capture_output=True, text=True, check=False)
    assert asked.stderr == ""
    return asked.stdout.split()


@pytest.fixture(autouse=True)
def by_its_name(monkeypatch):
    monkeypatch.delenv("FIRSTFAULT_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("firstfault", "fli"), ["plain,flight-recorder"]),
        (("firstfault", "diagnose", "--follo"), ["plain,--follow"]),
        (("firstfault", "diagnose", "--format", "m"), ["plain,markdown"]),
        (("firstfault", "incidents", "sim"), ["plain,similar"]),
        (("firstfault", "./lo"), ["file,./lo"]),
        (("firstfault", "ranks", "lo"), ["file,lo"]),
        (("firstfault", "completion", "z"), ["plain,zsh"]),
    ],
)
def test_words(words, expected):
    assert offered(*words) == expected


def test_all_commands_are_offered_without_importing_them():
    assert [word.partition(",")[2] for word in offered("firstfault", "")] == [*COMMANDS]
    from firstfault.cli.group import group

    before = set(sys.modules)
    top = group({name: ("no.such.module", line) for name, (_, line) in COMMANDS.items()})
    import click

    assert len(top.shell_complete(click.Context(top), "")) == len(COMMANDS)
    assert not any(name.startswith("firstfault.cli.") for name in set(sys.modules) - before)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shell, capsys):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_FIRSTFAULT_COMPLETE" in script
    found = shutil.which(shell)
    if found is not None:
        read = subprocess.run([found, "-n", "/dev/stdin"], input=script, capture_output=True, text=True, check=False)
        assert read.returncode == 0, read.stderr


def test_bash_completes_by_it(capsys, tmp_path):
    assert run(["completion", "bash"]) == 0
    program = tmp_path / "firstfault"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m firstfault "$@"\n')
    program.chmod(0o755)
    script = capsys.readouterr().out + (
        'COMP_WORDS=(firstfault diagnose --format m)\nCOMP_CWORD=3\n_firstfault_completion firstfault\necho "${COMPREPLY[*]}"\n'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "--norc", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "markdown\n", done.stderr


def test_another_shell_is_refused(capsys):
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err


def test_a_tab_does_not_load_the_analysis():
    code = "import sys; from firstfault.cli.group import group; from firstfault.cli.main import COMMANDS; group(COMMANDS); print('firstfault.analysis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
