"""What programs call: the same answers as the command line, redacted where they become text, and nothing loaded early."""

import html
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import firstfault
from firstfault.pipelines.asked import checked
from firstfault.pipelines.ranks import RankFilters
from firstfault.pipelines.timeline import EventFilters

ROOT = Path(__file__).resolve().parents[3]
LOGS = ROOT / "examples" / "incident" / "logs"
SECRET = "ghp_" + "a1B2" * 9


def said(*args):
    """What the command line prints, as a person runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", *args], capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout


@pytest.fixture(scope="module")
def found():
    return firstfault.diagnose(LOGS)


@pytest.fixture
def leaky(tmp_path):
    (tmp_path / "rank0.log").write_text(
        f"export HF_TOKEN={SECRET}\n[rank0]: Traceback (most recent call last):\n"
        f'[rank0]:   File "train.py", line 3, in <module>\n[rank0]: ValueError: <img src=x onerror=alert(1)> {SECRET}\n'
    )
    return tmp_path


def test_importing_the_package_loads_nothing_of_others():
    code = "import sys; old = set(sys.modules); import firstfault; print(*sorted(set(sys.modules) - old))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    new = {m.partition(".")[0] for m in out.split()} - set(sys.stdlib_module_names)
    assert new == {"firstfault"}
    assert "firstfault.api" not in out.split()


def test_every_name_is_there_and_no_other():
    for name in firstfault.__all__:
        assert getattr(firstfault, name) is not None
    assert set(firstfault.__all__) <= set(dir(firstfault))
    with pytest.raises(AttributeError, match="no attribute 'diagnoze'"):
        firstfault.diagnoze  # noqa: B018


def test_a_diagnosis_says_what_the_command_line_says(found):
    assert json.loads(found.report("json")) == json.loads(said("diagnose", "--format", "json", str(LOGS)))
    assert found.report("markdown") == said("diagnose", "--format", "markdown", str(LOGS))
    assert found._repr_markdown_() == found.report("markdown")


def test_a_site_gives_options(tmp_path):
    (tmp_path / "job.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    asked = firstfault.DiagnoseOptions(job_state="TIMEOUT")
    assert firstfault.diagnose(tmp_path, options=asked).verdict.failed is True


def test_rows_are_those_of_the_csv(found):
    import csv
    import io

    for table, command in ((firstfault.ranks(LOGS), "ranks"), (firstfault.timeline(LOGS), "timeline")):
        printed = list(csv.DictReader(io.StringIO(said(command, "--format", "csv", str(LOGS)))))
        rows = table.rows()
        assert len(rows) == len(printed) > 0
        assert list(rows[0]) == list(printed[0])
    ranks = firstfault.ranks(LOGS).rows()
    assert {type(row["rank"]) for row in ranks} == {int}
    assert {type(row["outlier"]) for row in ranks} == {bool}
    assert set(found.verdict.culprits.ranks) <= {row["rank"] for row in ranks}


def test_rows_become_data_frames():
    table = firstfault.ranks(LOGS)
    assert isinstance(table.to_pandas(), pd.DataFrame)
    assert (
        table.to_pandas()["rank"].tolist() == table.to_polars()["rank"].to_list() == [r["rank"] for r in table.rows()]
    )
    assert table.to_polars().schema["outlier"] == pl.Boolean


def test_what_a_notebook_shows_holds_no_secret_and_no_markup_of_the_logs(leaky):
    shown = [
        firstfault.diagnose(leaky)._repr_markdown_(),
        firstfault.ranks(leaky)._repr_html_(),
        firstfault.timeline(leaky)._repr_html_(),
        firstfault.page(leaky)._repr_html_(),
        str(firstfault.timeline(leaky).rows()),
    ]
    for text in shown:
        assert SECRET not in text
    for text in shown[1:4]:
        assert "<img" not in text
    assert "ValueError" in shown[2]


def test_a_page_stands_in_a_frame_of_its_own(leaky):
    page = firstfault.page(leaky)
    frame = page._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert html.unescape(frame.split('srcdoc="')[1].split('"')[0]) == page.html()
    assert page.diagnosis.verdict.category == "software"
    assert isinstance(page.diagnosis, firstfault.Diagnosis)


def test_raw_and_shared_text(leaky):
    found = firstfault.diagnose(leaky)
    assert SECRET in found.report("json", raw=True)
    assert SECRET not in found.report("json", share=True)
    with pytest.raises(ValueError, match="choose one"):
        found.report(share=True, raw=True)


@pytest.mark.parametrize("call", ["diagnose", "page", "ranks", "timeline"])
def test_nothing_to_read_is_an_error_that_says_where(call, tmp_path):
    with pytest.raises(firstfault.PipelineError, match="nothing there could be read") as told:
        getattr(firstfault, call)(tmp_path / "not-there")
    assert "not-there" in told.value.where
    assert told.value.fix
    with pytest.raises(firstfault.PipelineError, match="no path was given"):
        getattr(firstfault, call)()


def test_a_wrong_site_signature_is_an_error_of_its_kind(tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.toml").write_text("title = 3\n")
    with pytest.raises(firstfault.SignatureError):
        firstfault.diagnose(LOGS, options=firstfault.DiagnoseOptions(signatures=(tmp_path / "bad",)))


@pytest.mark.parametrize(
    ("options", "said", "where"),
    [
        ({"storage": ("not/there",)}, "no such file or folder: not/there", "options.storage"),
        ({"storage": "logs"}, "another kind", "options.storage"),
        ({"signatures": ("not/there",)}, "no such folder: not/there", "options.signatures"),
        ({"signatures": "site"}, "another kind", "options.signatures"),
        ({"assume_zone": "Nowhere/Town"}, "not a time zone", "options.assume_zone"),
        ({"assume_zone": 8}, "another kind", "options.assume_zone"),
        ({"job_state": "EXPLODED"}, "no state of a scheduler", "options.job_state"),
        ({"attempt": 0}, "no attempt", "options.attempt"),
        ({"attempt": "first"}, "another kind", "options.attempt"),
        ({"exit_code": "1"}, "another kind", "options.exit_code"),
        ({"engine": "spark"}, "no engine", "options.engine"),
        ({"engine": 3}, "another kind", "options.engine"),
    ],
)
@pytest.mark.parametrize("call", ["diagnose", "page", "ranks", "timeline"])
def test_an_option_of_no_use_is_an_error_that_says_which(call, options, said, where):
    with pytest.raises(firstfault.PipelineError, match=said) as told:
        getattr(firstfault, call)(LOGS, options=firstfault.DiagnoseOptions(**options))
    assert told.value.where == where
    assert told.value.fix


def test_folders_given_as_text_and_zones_in_any_form_are_taken(tmp_path):
    (tmp_path / "site").mkdir()
    given = {
        "signatures": (str(tmp_path / "site"),),
        "storage": (tmp_path,),
        "job_state": "timeout",
        "assume_zone": "UTC+8",
    }
    read = checked(firstfault.DiagnoseOptions(**given))
    assert (read.signatures, read.storage) == ((tmp_path / "site",), (str(tmp_path),))
    assert (read.assume_zone, read.job_state) == ("+08:00", "TIMEOUT")


def test_filters_of_another_kind_are_an_error_that_says_which():
    with pytest.raises(firstfault.PipelineError, match="another kind") as told:
        firstfault.ranks(LOGS, filters=RankFilters(ranks=(0, 1)))
    assert told.value.where == "filters.ranks[0]"
    with pytest.raises(firstfault.PipelineError, match="another kind"):
        firstfault.timeline(LOGS, filters=EventFilters(hosts="gpu-1"))


def test_a_format_that_is_none_is_an_error_that_names_those_there_are(found):
    with pytest.raises(ValueError, match="'pdf' is no format of a report: one of text, markdown, html"):
        found.report("pdf")
