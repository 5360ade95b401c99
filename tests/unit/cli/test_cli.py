import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from firstfault.cli.main import COMMANDS, run
from firstfault.model.diagnosis import CoverageRow, Verdict
from firstfault.model.words import Category, CoverageState, Strength
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.publish import FORMATS
from firstfault.signatures.errors import SignatureError

READ = [CoverageRow(file="a.log", state=CoverageState.READ, bytes=1)]


@pytest.fixture
def pipeline(monkeypatch, build_diagnosis):
    """A pipeline that answers with a given diagnosis (or raises a given error) and remembers what it was asked."""
    seen = types.SimpleNamespace(paths=None, options=None, answer=build_diagnosis())

    def diagnose(paths, options):
        seen.paths, seen.options = paths, options
        if isinstance(seen.answer, BaseException):
            raise seen.answer
        return seen.answer

    module = types.ModuleType("firstfault.pipelines.diagnose")
    module.diagnose = diagnose
    monkeypatch.setitem(sys.modules, "firstfault.pipelines.diagnose", module)
    return seen


def verdict(build_diagnosis, **changes):
    base = build_diagnosis().verdict
    return Verdict(**{**{f: getattr(base, f) for f in base.__struct_fields__}, **changes})


def test_a_bare_path_means_diagnose(pipeline, capsys):
    assert run(["logs"]) == 1
    assert pipeline.paths == ["logs"]
    assert capsys.readouterr().out.startswith("FAILED")
    assert run(["--format", "json", "x", "y"]) == 1
    assert pipeline.paths == ["x", "y"]
    assert json.loads(capsys.readouterr().out)["schema"] == "firstfault.diagnosis/1"
    assert run(["-"]) == 1
    assert pipeline.paths == ["-"]


def test_without_arguments_it_shows_the_help_and_exits_with_2(capsys):
    assert run([]) == 2
    assert "A bare path means" in capsys.readouterr().out
    assert run(["--help"]) == 0


@pytest.mark.parametrize(
    ("failed", "category", "strength", "code"),
    [
        (True, Category.DATA, Strength.ESTABLISHED, 1),
        (True, Category.NETWORK, Strength.POSSIBLE, 1),
        (True, Category.UNKNOWN, Strength.UNKNOWN, 3),
        (None, Category.UNKNOWN, Strength.UNKNOWN, 3),
        (False, Category.NONE, Strength.SUPPORTED, 0),
    ],
)
def test_exit_codes_follow_the_verdict(pipeline, build_diagnosis, failed, category, strength, code):
    pipeline.answer = build_diagnosis(
        verdict=verdict(build_diagnosis, failed=failed, category=category, strength=strength)
    )
    assert run(["x"]) == code
    assert run(["x", "--exit-zero"]) == 0


def test_nothing_readable_is_2_even_with_exit_zero(pipeline, build_diagnosis, capsys):
    rows = [CoverageRow(file="core", state=CoverageState.SKIPPED, reason="binary")]
    pipeline.answer = build_diagnosis(coverage=rows)
    assert run(["core", "--exit-zero"]) == 2
    told = capsys.readouterr().err
    assert "core" in told
    assert "binary" in told
    pipeline.answer = build_diagnosis(coverage=[])
    assert run(["explan"]) == 2
    assert "Did you mean the command `explain`?" in capsys.readouterr().err


def test_every_option_reaches_the_pipeline(pipeline, tmp_path, capsys):
    words = ["x", "--attempt", "3", "--job-state", "timeout", "--exit-code", "0:9", "--assume-zone", "+8"]
    assert run([*words, "--signatures", str(tmp_path), "--engine", "inline", "--raw"]) == 1
    asked = pipeline.options
    assert (asked.attempt, asked.job_state, asked.exit_code, asked.assume_zone) == (3, "TIMEOUT", -9, "+08:00")
    assert (asked.signatures, asked.engine) == ((tmp_path,), "inline")
    assert "SECRETS ARE NOT REMOVED" in capsys.readouterr().out
    assert run(["x"]) == 1
    assert "SECRETS ARE NOT REMOVED" not in capsys.readouterr().out
    asked = pipeline.options
    assert (asked.attempt, asked.job_state, asked.exit_code, asked.assume_zone) == ("last", None, None, None)


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("--assume-zone", "UTC", "Z"),
        ("--assume-zone", "-0330", "-03:30"),
        ("--assume-zone", "Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_zones(pipeline, option, value, kept):
    assert run(["x", option, value]) == 1
    assert pipeline.options.assume_zone == kept


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["x", "--attempt", "0"], "not an attempt"),
        (["x", "--assume-zone", "Mars/Base"], "not a time zone"),
        (["x", "--exit-code", "nine"], "not an exit code"),
        (["x", "--engine", "dask:"], "names no address"),
        (["x", "--engine", "spark"], "not an engine"),
        (["x", "--lang", "fr"], "use `en` or `zh`"),
        (["x", "--share", "--raw"], "choose one"),
        (["x", "--format", "pdf"], "pdf"),
        (["diagnose"], "PATH"),
        (["explain", "establishd"], "Did you mean `established`?"),
        (["signatures", "list", "--role", "culprit"], "none of cause"),
    ],
)
def test_wrong_use_says_what_is_wrong_and_exits_with_2(pipeline, capsys, words, told):
    assert run(words) == 2
    assert told in capsys.readouterr().err
    assert pipeline.paths is None


def test_errors_say_what_where_why_and_what_to_do(pipeline, capsys):
    pipeline.answer = PipelineError("cannot open", where="a\x1b[2Jb", why="no space", fix="Make room.")
    assert run(["x"]) == 2
    assert capsys.readouterr().err == "firstfault: a\\x1b[2Jb: cannot open\n  why: no space\n  what to do: Make room.\n"
    pipeline.answer = SignatureError("gpu/x.toml", "bad", "Correct it")
    assert run(["x"]) == 2
    assert "gpu/x.toml: bad" in capsys.readouterr().err


def test_a_fault_of_ours_is_one_line_unless_debugging(pipeline, capsys, monkeypatch):
    monkeypatch.delenv("FIRSTFAULT_DEBUG", raising=False)
    pipeline.answer = ZeroDivisionError("secret text of a log")
    assert run(["x"]) == 2
    told = capsys.readouterr().err
    assert "a fault of our own: ZeroDivisionError" in told
    assert "Traceback" not in told
    assert "secret text" not in told
    monkeypatch.setenv("FIRSTFAULT_DEBUG", "1")
    assert run(["x"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_before_anything_is_known_is_said(pipeline, capsys):
    pipeline.answer = KeyboardInterrupt()
    assert run(["x"]) == 2
    assert "interrupted" in capsys.readouterr().err


def test_output_goes_to_a_file(pipeline, tmp_path, capsys):
    target = tmp_path / "r.md"
    assert run(["x", "--format", "markdown", "-o", str(target)]) == 1
    assert target.read_text(encoding="utf-8").startswith("# FAILED")
    assert capsys.readouterr().out == ""
    assert run(["x", "-o", str(tmp_path / "no" / "r.md")]) == 2
    assert "no such file or directory" in capsys.readouterr().err


def test_share_hides_the_host(pipeline, capsys):
    assert run(["x", "--share"]) == 1
    assert "node-04" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gpu.out_of_memory"], "caching allocator"),
        (["exit", "137"], "SIGKILL"),
        (["signal", "9"], "SIGKILL"),
        (["SIGKILL"], "SIGKILL"),
        (["-9"], "SIGKILL"),
        (["sigterm"], "SIGTERM"),
        (["established"], "Direct lines prove it"),
        (["storage_io"], "full disk"),
        (["global", "rank"], "default process group"),
        (["data-loading-stall"], "CPU side"),
    ],
)
def test_explain_knows(words, told, capsys):
    assert run(["explain", *words]) == 0
    assert told in capsys.readouterr().out
    assert run(["explain", *words, "--format", "json"]) == 0
    assert told in capsys.readouterr().out


def test_signatures_list_filters_and_gives_json(capsys):
    assert run(["signatures", "list", "--role", "cause", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {r["role"] for r in rows} == {"cause"}
    assert "gpu.out_of_memory" in {r["id"] for r in rows}
    assert run(["signatures", "list", "--text", "no such thing at all"]) == 0
    assert capsys.readouterr().out == "0 signatures\n"


def test_the_schema_is_printed(capsys):
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "firstfault.diagnosis/1"


def test_every_command_of_the_table_loads_and_has_help(capsys):
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        assert "Usage: firstfault " + name in capsys.readouterr().out


def fresh(*words, stdin=None, **env):
    held = {**os.environ, **env}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=held, input=stdin, check=False, timeout=60
    )


def test_the_version_needs_nothing_but_us():
    out = fresh(
        "-c",
        "import sys; sys.argv[1:] = ['--version']; from firstfault.cli.main import main\ntry: main()\nexcept SystemExit: pass\nprint(sorted({'click', 'msgspec', 'numpy', 'rich', 'hyperscan'} & set(sys.modules)))",
    )
    assert out.stdout.splitlines() == ["firstfault 0.1.0", "[]"]


def test_the_help_loads_no_heavy_module():
    out = fresh(
        "-c",
        "import sys; from firstfault.cli.main import run\nrun(['diagnose', '--help'])\nprint(sorted({'numpy', 'rich', 'hyperscan', 'jinja2', 'zstandard'} & set(sys.modules)))",
    )
    assert out.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_leaves_early_gets_no_traceback():
    script = "import os, sys; from firstfault.cli.main import main; r, w = os.pipe(); os.close(r); os.dup2(w, 1); main(['schema'])"
    out = fresh("-c", script)
    assert out.stderr == ""


def test_closed_output_changes_nothing_but_that_nobody_reads_it(tmp_path):
    (tmp_path / "a.log").write_text("nothing to see\n", encoding="utf-8")
    script = "import os, sys; os.close(1); sys.stdout = None; from firstfault.cli.main import main; main([sys.argv[1]])"
    out = fresh("-c", script, str(tmp_path))
    assert (out.returncode, out.stderr) == (3, "")


@pytest.mark.parametrize("command", ["diagnose", "ranks", "timeline"])
def test_a_report_never_overwrites_evidence(tmp_path, capsys, command):
    log = tmp_path / "a.log"
    log.write_text("nothing to see\n", encoding="utf-8")
    for given in (tmp_path, log):
        assert run([command, str(given), "--output", str(log)]) == 2
        assert "would destroy it" in capsys.readouterr().err
    assert log.read_text(encoding="utf-8") == "nothing to see\n"


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_may_be_written_over_the_one_before(tmp_path, form):
    (tmp_path / "a.log").write_text("nothing to see\n", encoding="utf-8")
    words = ["diagnose", str(tmp_path), "--output", str(tmp_path / "report.log"), "--format", form]
    told = []
    for _ in range(2):
        assert run(words) == 3
        head = (tmp_path / "report.log").read_text(encoding="utf-8").splitlines()[:2]
        told.append(
            head[:1] if form == "junit" else head
        )  # its second line counts the inputs, and the report is one more
    assert told[0] == told[1]


def test_a_module_run_is_the_command():
    out = fresh("-m", "firstfault", "--version")
    assert (out.returncode, out.stdout) == (0, "firstfault 0.1.0\n")


def test_new_signature_is_told_what_to_fill_in_and_passes_once_filled(tmp_path, capsys):
    line = "[rank3]: 2026-01-02 03:04:05 ERROR mystore write failed: pool 7 is full at /mnt/x"
    assert run(["signatures", "new", "storage.my_pool_full", "--dir", str(tmp_path), "--line", line]) == 0
    assert run(["signatures", "check", str(tmp_path)]) == 2
    assert "not filled in" in capsys.readouterr().out
    file = tmp_path / "storage" / "my_pool_full.toml"
    filled = "\n".join(
        row.split("FILL IN")[0] + "filled." + ('"]' if row.startswith("advice") else '"')
        if "= " in row and "FILL IN" in row
        else row
        for row in file.read_text(encoding="utf-8").splitlines()
    )
    file.write_text(filled, encoding="utf-8")
    assert run(["signatures", "check", str(tmp_path)]) == 0, capsys.readouterr().out
    assert run(["explain", "storage.my_pool_full", "--signatures", str(tmp_path)]) == 0
    assert run(["signatures", "new", "storage.my_pool_full", "--dir", str(tmp_path)]) == 2
    assert run(["signatures", "new", "Bad Name", "--dir", str(tmp_path)]) == 2


def test_check_of_an_empty_folder_is_wrong_use(tmp_path, capsys):
    assert run(["signatures", "check", str(tmp_path)]) == 2
    assert "holds no signature" in capsys.readouterr().err


GOOD = """title = "t"
tier = "loop"
role = "noise"
patterns = ['{pattern}']
meaning = "m."
not_proof = "n."
[[sources]]
what = "w"
date = "2026-01"
[[match]]
line = "{line}"
[[no_match]]
line = "something else"
why = "another thing"
"""


@pytest.mark.parametrize(
    ("pattern", "line", "told"),
    [
        ("abcdef(?=g)", "abcdefg", "looks around"),
        ("abcdefg$", "abcdefg", "anchor"),
        ("abcdefg[^x]h", "abcdefgyh", "newline"),
        ("abcdefg.*", "abcdefg", "open repeat"),
        ("a.b", "axb", "dear"),
        ("abcdef(", "abcdef(", "does not compile"),
        ("abcdefgh", "xyz", "does not match"),
        ("something", "something", "look-alike matches"),
        (
            "CUDA out of memory",
            "CUDA out of memory. Tried to allocate 3 MiB",
            "gpu.out_of_memory claims its example too",
        ),
    ],
)
def test_check_names_each_fault(tmp_path, capsys, pattern, line, told):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "y.toml").write_text(GOOD.format(pattern=pattern, line=line), encoding="utf-8")
    assert run(["signatures", "check", str(tmp_path)]) == 2
    assert told in capsys.readouterr().out


def test_check_goes_on_after_a_broken_file(tmp_path, capsys):
    folder = Path(tmp_path / "x")
    folder.mkdir()
    (folder / "a.toml").write_text("title = ", encoding="utf-8")
    (folder / "b.toml").write_text(GOOD.format(pattern="abcdefgh", line="abcdefgh"), encoding="utf-8")
    assert run(["signatures", "check", str(tmp_path)]) == 2
    out = capsys.readouterr().out
    assert "x/a.toml: not valid TOML" in out
    assert "1 signature read, 1 complaint in 1 file" in out


def test_our_own_signatures_have_no_complaint():
    from firstfault.signatures.check import check_signatures
    from firstfault.signatures.library import load_library

    library = load_library()
    assert check_signatures(list(library.signatures), library) == []


def test_an_order_to_stop_leaves_no_temporary_folder(tmp_path):
    private = tmp_path / "tmp"
    private.mkdir()
    env = {**os.environ, "TMPDIR": str(private)}
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as running:
        running.stdin.write(b"step 1\n" * 300_000)
        running.stdin.flush()
        while not list(private.glob("firstfault-*/spool")):
            assert running.poll() is None
        running.terminate()
        assert running.wait(60) == 128 + 15
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["diagnos", "logs"], "Did you mean the command `diagnose`?"),
        (["timelin"], "Did you mean the command `timeline`?"),
        (["version"], "Did you mean `firstfault --version`?"),
    ],
)
def test_a_mistyped_command_is_not_read_as_a_path(pipeline, capsys, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    assert told in capsys.readouterr().err
    assert pipeline.paths is None
    (tmp_path / words[0]).mkdir()
    assert run(words) == 1
    assert pipeline.paths[0] == words[0]


def test_an_option_in_front_of_the_path_is_no_mistyped_command(pipeline, capsys, tmp_path):
    assert run(["--signatures", str(tmp_path / "none"), "logs"]) == 2
    told = capsys.readouterr().err
    assert "does not exist" in told
    assert "Did you mean" not in told
    assert pipeline.paths is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ALLREDUCE"], "sum (or maximum"),
        (["_ALLGATHER_BASE"], "the pieces of all"),
        (["all_to_all"], "mixture of experts"),
        (["absent"], "never issued the work"),
        (["unpaired"], "One half of a send"),
        (["frozen"], "stopped completing"),
        (["rival"], "Another explanation"),
        (["exit", "3"], "Not decidable"),
        (["nccl"], "firstfault signatures list --text nccl."),
    ],
)
def test_explain_knows_the_words_of_its_own_pages(words, told, capsys):
    assert run(["explain", *words]) == 0
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_bare_number_is_a_signal_before_it_is_a_code_of_a_library(capsys):
    assert run(["explain", "9"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("SIGKILL")
    assert "CUDA runtime errors" in out
    assert run(["explain", "exit", "1"]) == 0
    assert "of firstfault" not in capsys.readouterr().out


def test_check_tells_all_faults_of_a_file_at_once(tmp_path, capsys):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y.toml").write_text(
        'title = "t"\ntier = "lop"\nrle = "cause"\npatterns = "p"\n', encoding="utf-8"
    )
    assert run(["signatures", "check", str(tmp_path)]) == 2
    out = capsys.readouterr().out
    for told in (
        "`tier`",
        "One of killer, loop, io, context",
        "Perhaps `role` is meant",
        "`patterns`",
        "`meaning` is missing",
    ):
        assert told in out, told
    assert "complaints in 1 file\n" in out


def test_a_traceback_without_a_signature_may_be_explained(tmp_path, capsys):
    (tmp_path / "x").mkdir()
    text = GOOD.format(pattern="abcdefgh", line="abcdefgh")
    file = tmp_path / "x" / "y.toml"
    file.write_text('explains = ["python.exception"]\n' + text, encoding="utf-8")
    assert run(["signatures", "check", str(tmp_path)]) == 0, capsys.readouterr().out
    assert "1 signature read, no complaint" in capsys.readouterr().out
    file.write_text('explains = ["python.exceptio"]\n' + text, encoding="utf-8")
    assert run(["signatures", "check", str(tmp_path)]) == 2


def test_the_template_explains_every_field_that_decides(tmp_path):
    from firstfault.signatures.template import fill

    for field in ("depth", "explains", "refines", "extract", "unless", "fatal", "blame"):
        assert f"\n{field} = " in fill(None), field


def test_a_state_that_no_scheduler_has_is_wrong_use_and_the_known_ones_are_listed(pipeline, capsys):
    assert run(["x", "--job-state", "TIMEDOUT"]) == 2
    said = capsys.readouterr().err
    assert "TIMEDOUT" in said
    assert "OUT_OF_MEMORY" in said
    assert pipeline.options is None
