"""Settings stand for options: which comes first, which may not come from a file that lies around, and what a mistake says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.cli.settings import _nearby

ROOT = Path(__file__).resolve().parents[3]
LOGS = str(ROOT / "examples" / "incident" / "logs")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def call(place, *words, folder=None, **variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FIRSTFAULT_") and k != "XDG_CONFIG_HOME"}
    return subprocess.run(
        [sys.executable, "-m", "firstfault", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder or place / "work",
        env={**clean, "HOME": str(place / "home"), "PYTHONPATH": str(ROOT / "src"), **variables},
    )


def users(place, text):
    file = place / "home" / ".config" / "firstfault" / "firstfault.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def is_json(out):
    try:
        json.loads(out)
    except ValueError:
        return False
    return True


def test_without_settings_nothing_changes(place):
    assert call(place, LOGS).stdout.startswith("FAILED")


def test_a_flag_beats_a_variable_beats_the_folder_beats_the_user(place):
    users(place, 'format = "json"\n')
    assert is_json(call(place, LOGS).stdout)
    (place / "work" / "firstfault.toml").write_text('format = "markdown"\n')
    assert call(place, LOGS).stdout.startswith("# FAILED")
    assert is_json(call(place, LOGS, FIRSTFAULT_FORMAT="json").stdout)
    assert call(place, LOGS, "--format", "text", FIRSTFAULT_FORMAT="json").stdout.startswith("FAILED")


def test_a_table_is_for_its_command_alone_and_beats_what_is_for_all(place):
    (place / "work" / "firstfault.toml").write_text('format = "json"\n[ranks]\nformat = "csv"\n')
    assert is_json(call(place, LOGS).stdout)
    assert call(place, "ranks", LOGS).stdout.startswith("rank,local_rank")


def test_a_format_that_a_command_does_not_give_leaves_its_own(place):
    done = call(place, "ranks", LOGS, FIRSTFAULT_FORMAT="sarif")
    assert done.returncode == 1
    assert not is_json(done.stdout)
    assert done.stdout


def test_the_project_file_of_a_repository_is_found_from_below_and_none_above_it(place):
    below = place / "work" / "deep" / "er"
    below.mkdir(parents=True)
    (place / "work" / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.firstfault]\nformat = "json"\n')
    assert is_json(call(place, LOGS, folder=below).stdout)
    (place / "work" / "deep" / ".git").mkdir()
    assert not is_json(call(place, LOGS, folder=below).stdout)


def test_a_file_in_a_folder_of_somebody_else_above_is_not_found(tmp_path, monkeypatch):
    above, here = tmp_path / "shared", tmp_path / "shared" / "mine"
    here.mkdir(parents=True)
    (above / "firstfault.toml").write_text('format = "json"\n')
    assert _nearby(here) == above / "firstfault.toml"
    plain = Path.stat

    def stat(path, **how):
        told = plain(path, **how)
        return os.stat_result((*told[:4], told.st_uid + 1, *told[5:10])) if path == above else told

    monkeypatch.setattr(Path, "stat", stat)
    assert _nearby(here) is None
    (here / "firstfault.toml").write_text('format = "json"\n')
    assert _nearby(here) == here / "firstfault.toml"


@pytest.mark.parametrize(
    "line", ["exit-zero = true", "raw = true", 'job-state = "COMPLETED"', 'assume_zone = "+08:00"']
)
def test_a_file_that_nobody_named_changes_no_verdict_and_opens_no_door(place, line):
    file = place / "work" / "firstfault.toml"
    file.write_text(line + "\n")
    plain, told = call(place, LOGS, "--format", "json", folder=place), call(place, LOGS, "--format", "json")
    assert (told.stdout, told.returncode) == (plain.stdout, plain.returncode)
    assert "is left out" in told.stderr
    assert f"--config {file}" in told.stderr
    named = call(place, "--config", "firstfault.toml", LOGS, "--format", "json")
    assert (named.stdout, named.returncode) != (plain.stdout, plain.returncode)
    assert "left out" not in named.stderr


@pytest.mark.parametrize("theirs", ["share = false", 'share = "no"', "[diagnose]\nshare = false"])
def test_a_file_that_nobody_named_shows_no_names_that_the_user_keeps_back(place, theirs):
    users(place, "share = true\n")
    kept = call(place, LOGS).stdout
    (place / "work" / "firstfault.toml").write_text(theirs + "\n")
    told = call(place, LOGS)
    assert told.stdout == kept != call(place, "--config", "firstfault.toml", LOGS).stdout
    assert "`share`" in told.stderr
    assert "is left out" in told.stderr


def test_a_file_that_nobody_named_may_keep_names_back(place):
    (place / "work" / "firstfault.toml").write_text("share = true\n")
    assert (
        call(place, LOGS).stdout
        == call(place, LOGS, "--share", folder=place).stdout
        != call(place, LOGS, folder=place).stdout
    )


@pytest.mark.parametrize("variables", [{"HOME": ""}, {"HOME": "work"}, {"XDG_CONFIG_HOME": ".", "HOME": "/nowhere"}])
def test_no_folder_of_logs_passes_for_the_users_own(place, variables):
    for folder in (
        place / "work" / ".config" / "firstfault",
        place / "work" / "work" / ".config" / "firstfault",
        place / "work" / "firstfault",
    ):
        folder.mkdir(parents=True)
        (folder / "firstfault.toml").write_text("exit-zero = true\n")
    assert call(place, LOGS, **variables).returncode == 1


def test_a_folder_that_is_gone_stops_nothing(place):
    gone = place / "gone"
    gone.mkdir()
    code = f"import os, sys; os.rmdir({str(gone)!r}); from firstfault.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, LOGS],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=gone,
        env={**os.environ, "HOME": str(place / "home"), "PYTHONPATH": str(ROOT / "src"), "FIRSTFAULT_FORMAT": "text"},
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("FAILED")


def test_own_signatures_of_a_named_file_are_seen_from_that_file(place):
    site = place / "etc" / "site" / "config"
    site.mkdir(parents=True)
    (place / "etc" / "ours.toml").write_text('signatures = ["site"]\n')
    for named in (["--config", str(place / "etc" / "ours.toml")], [f"--config={place / 'etc' / 'ours.toml'}"]):
        (site / "planted.toml").write_text("title = 3\n")
        wrong = call(place, *named, LOGS)
        assert wrong.returncode == 2
        assert "config/planted.toml: not a signature" in wrong.stderr


def test_the_variable_names_the_file_too(place):
    (place / "ours.toml").write_text("exit-zero = true\n")
    assert call(place, LOGS).returncode == 1
    assert call(place, LOGS, FIRSTFAULT_CONFIG=str(place / "ours.toml")).returncode == 0
    assert call(place, LOGS, FIRSTFAULT_EXIT_ZERO="yes").returncode == 0
    assert call(place, LOGS, FIRSTFAULT_EXIT_ZERO="no", FIRSTFAULT_CONFIG=str(place / "ours.toml")).returncode == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fromat = 'json'\n", "Did you mean `format`?"),
        ("[diagnos]\nformat = 'json'\n", "Did you mean `diagnose`?"),
        ("[diagnose]\nformatt = 'json'\n", "no option `formatt`"),
        ("format = 'jason'\n", "Did you mean `json`?"),
        ("exit-zero = 'perhaps'\n", "true or false"),
        ("format = ['json']\n", "one value"),
        ("format = \n", "no TOML"),
        ("job-state = 'GONE'\n", "no state of a scheduler"),
        ("lang = 'xx'\n", "The value stands in"),
    ],
)
def test_a_mistake_says_what_where_and_what_is_meant(place, text, says):
    file = place / "ours.toml"
    file.write_text(text)
    done = call(place, "--config", str(file), LOGS)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    if "scheduler" not in says:
        assert "ours.toml" in done.stderr
    assert "fault of our own" not in done.stderr


def test_help_and_version_need_no_settings(place):
    (place / "work" / "firstfault.toml").write_text("format = \n")
    assert call(place, "--version").returncode == 0
    assert "--config FILE" in call(place, "--help").stdout
