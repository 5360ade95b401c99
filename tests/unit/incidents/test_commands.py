"""The commands of `firstfault incidents`, from logs to a verified record, and what they keep to themselves."""

import json
import re
import shutil
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from incident_text import PROVED, text_of

from firstfault.cli import incidents_options, incidents_write
from firstfault.cli.main import run
from firstfault.i18n.records import sentences
from firstfault.incidents.record import parse
from firstfault.incidents.words import OPEN_MARKS
from firstfault.report.schema import published


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "incidents")


def made(capsys):
    out = capsys.readouterr().out.strip().splitlines()
    return [Path(line) for line in out]


def test_a_record_is_made_from_logs_without_names_and_passes_lint(oom, folder, capsys):
    (oom / "gpu-n017.log").write_text(
        (oom / "gpu-n017.log").read_text(encoding="utf-8")
        + "gpu-n017:812:901 [1] NCCL INFO comm 0x1 rank 1 key hf_AbCdEfGhIjKlMnOpQrStUvWx0123456789\n",
        encoding="utf-8",
    )
    words = [
        "incidents",
        "new",
        str(oom),
        "--dir",
        folder,
        "--date",
        "2026-03-02",
        "--revision",
        "3f2a91c0",
        "--gpu",
        "1650521000123",
    ]
    assert run(words) == 0
    (path,) = made(capsys)
    text = path.read_text(encoding="utf-8")
    for name in ("okada", "gpu-n017", "1650521000123", "hf_AbCd", "/home"):
        assert name not in text, name
    record = parse(text, path)
    assert path.parent.name == "2026"
    assert re.fullmatch(r"20260302-[0-9a-z]{10}", record.id)
    assert record.one("signature") == "gpu.out_of_memory"
    assert record.one("revision") == "3f2a91c0"
    assert re.fullmatch(r"device-[0-9a-f]{10}", record.all("devices")[0])
    assert sum(text.count(mark) for mark in OPEN_MARKS) >= 5
    assert run(["incidents", "lint", "--dir", folder]) == 0


def test_a_record_is_made_from_a_stored_diagnosis_and_in_chinese(oom, folder, tmp_path, capsys):
    stored = tmp_path / "d.json"
    assert run([str(oom), "--format", "json", "--output", str(stored), "--exit-zero"]) == 0
    capsys.readouterr()
    assert run(["incidents", "new", str(stored), "--dir", folder, "--lang", "zh"]) == 0
    (path,) = made(capsys)
    text = path.read_text(encoding="utf-8")
    assert "## 根因" in text
    assert "猜测" in text
    assert "待填：" in text
    assert "gpu-n017" not in text
    assert run(["incidents", "lint", "--dir", folder]) == 0
    # Whole in Chinese but for what a line says, what is typed, and the closed words behind their meaning.
    said = re.sub(r"(?s)```.*?```|`[^`]*`", "", text.partition("\n---\n")[2])
    assert not re.search(r"[A-Za-z]+ (?:the|is|was|of|that) [a-z]+", said), said
    assert "类别：GPU 或其运行时（`gpu_cuda`）" in text
    english, chinese = (new_of(oom, folder, capsys, language) for language in ("en", "zh"))
    assert english.one("fingerprint") == chinese.one("fingerprint")
    assert english.title != chinese.title
    # Who it was stands in the head, in either language.
    assert "rank" not in chinese.title
    assert "host-" not in chinese.title


@pytest.mark.parametrize(("language", "wrong"), [("en", "The job failed."), ("zh", "作业失败。")])
def test_a_record_of_a_log_that_merely_stops_does_not_say_that_the_job_failed(
    folder, tmp_path, capsys, language, wrong
):
    (tmp_path / "run.log").write_text("loading the model\nready\n", encoding="utf-8")
    record = new_of(tmp_path / "run.log", folder, capsys, language)
    assert wrong not in record.text
    assert ("still runs" if language == "en" else "仍在运行") in record.text


def test_a_record_of_a_failed_test_holds_its_message_and_its_frame(folder, tmp_path, capsys):
    (tmp_path / "test.log").write_text(
        "=== FAILURES ===\n___ test_length ___\ntests/test_loader.py:22: in test_length\n    build(world=4)\n"
        "acme/shards.py:17: in shard\n    raise ValueError(said)\nE   ValueError: 1003 samples do not divide by 4\n"
        "=== 1 failed in 0.42s ===\n",
        encoding="utf-8",
    )
    record = new_of(tmp_path / "test.log", folder, capsys, "en")
    assert record.one("signature") == "python.exception_line"
    assert record.one("place") == "shards.py:shard"
    assert record.one("message") == "ValueError: # samples do not divide by #"


def new_of(logs, folder, capsys, language):
    capsys.readouterr()
    assert run(["incidents", "new", str(logs), "--dir", folder, "--again", "--stdout", "--lang", language]) == 0
    return parse(capsys.readouterr().out)


def test_a_day_that_is_still_to_come_is_not_taken(oom, folder, tmp_path, capsys, monkeypatch):
    for module in (incidents_write, incidents_options):
        monkeypatch.setattr(module, "today", lambda: date(2026, 3, 2))
    for words in (["new", str(oom)], ["verify", "E001", "--rerun", str(oom)]):
        assert run(["incidents", *words, "--dir", folder, "--date", "2026-03-04"]) == 2
        assert "2026-03-04 is still to come: today is 2026-03-02" in capsys.readouterr().err
    assert run(["incidents", "new", str(oom), "--dir", folder, "--date", "2026-03-03"]) == 0
    ahead = tmp_path / "ahead.log"
    ahead.write_text("2031-05-06 10:11:12 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n")
    made(capsys)
    assert run(["incidents", "new", str(ahead), "--dir", folder]) == 0
    told = capsys.readouterr()
    assert "2031-05-06, which is still to come" in told.err
    record = parse(Path(told.out.strip()).read_text(encoding="utf-8"))
    assert (record.one("date"), record.one("failed_at")) == ("", "")
    assert run(["incidents", "lint", "--dir", folder]) == 0


def test_a_host_is_found_by_the_name_of_its_log_and_in_capitals(folder, tmp_path, capsys):
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    for name in ("trainer-b.log", "gpu-n018.out"):
        (tmp_path / name).write_text(oom, encoding="utf-8")
        assert run(["incidents", "new", str(tmp_path / name), "--dir", folder, "--again"]) == 0
    first, second = [line for line in capsys.readouterr().out.split() if line]
    for asked, found in (
        ("trainer-b", first),
        ("TRAINER-B", first),
        ("trainer-b.cluster.example", first),
        ("gpu-n018", second),
        ("GPU-N018", second),
    ):
        assert run(["incidents", "search", "--host", asked, "--dir", folder]) == 0, asked
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [Path(found).stem], asked
    assert run(["incidents", "search", "--host", "trainer-c", "--dir", folder]) == 3


def test_a_search_that_finds_nothing_tells_what_it_looked_at(put, store, capsys):
    put(id="20260302-aaaaaaaaaa")
    assert run(["incidents", "search", "ProcessGroupNCCL", "--dir", str(store.folder)]) == 3
    assert "12 were searched" in capsys.readouterr().err
    assert run(["incidents", "search", "NCCL", "--dir", str(store.folder)]) == 3
    assert "`firstfault signatures list --text NCCL`" in capsys.readouterr().err
    assert run(["incidents", "search", "qqqqxyz", "--dir", str(store.folder)]) == 3
    assert "signatures list" not in capsys.readouterr().err


def test_one_host_has_one_pseudonym_in_all_records_and_is_found_by_its_name(oom, folder, tmp_path, capsys):
    kernel = tmp_path / "kernel.log"
    line = "Mar  2 10:11:12 gpu-n017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python, GPU has fallen off the bus.\n"
    kernel.write_text(line, encoding="utf-8")
    ids = []
    for again in ([], ["--again", "--date", "2025-12-24"]):
        assert run(["incidents", "new", str(kernel), "--dir", folder, *again]) == 0
        (path,) = made(capsys)
        ids.append(parse(path.read_text(encoding="utf-8"), path))
    assert ids[0].all("hosts") == ids[1].all("hosts") != ()
    assert run(["incidents", "search", "--host", "gpu-n017", "--dir", folder]) == 0
    out = capsys.readouterr().out
    assert all(record.id in out for record in ids)
    assert run(["incidents", "search", "--host", "gpu-n018", "--dir", folder]) == 3
    capsys.readouterr()
    assert run(["incidents", "trends", "--by", "host", "--dir", folder]) == 0
    assert f"host {ids[0].all('hosts')[0]}: 2 incidents" in capsys.readouterr().out


def test_a_second_record_of_the_same_lines_is_made_only_where_it_is_asked_for(oom, folder, tmp_path, capsys):
    stored = tmp_path / "d.json"
    assert run([str(oom), "--format", "json", "--output", str(stored), "--exit-zero"]) == 0
    capsys.readouterr()
    assert run(["incidents", "new", str(oom), "--dir", folder]) == 0
    (path,) = made(capsys)
    # What a person wrote meanwhile does not make it another one.
    path.write_text(path.read_text(encoding="utf-8").replace("OPEN: confirm", "Guess: a long sample. OPEN: confirm"))
    for source in (str(oom), str(stored)):
        assert run(["incidents", "new", source, "--dir", folder]) == 0
        said = capsys.readouterr()
        assert said.out.strip() == str(path)
        assert "there already" in said.err
        assert "--again" in said.err
    assert len(list(Path(folder).rglob("*.md"))) == 1
    log = oom / "gpu-n017.log"
    log.write_text(log.read_text(encoding="utf-8").replace("2.00 GiB", "3.00 GiB"), encoding="utf-8")
    assert run(["incidents", "new", str(oom), "--dir", folder]) == 0
    assert made(capsys) != [path]
    assert run(["incidents", "new", str(oom), "--dir", folder, "--again"]) == 0
    assert len(list(Path(folder).rglob("*.md"))) == 3


def test_a_record_is_dated_by_the_incident(oom, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(incidents_write, "today", lambda: date(2031, 5, 6))
    monkeypatch.setattr(incidents_options, "today", lambda: date(2031, 5, 6))
    kernel = tmp_path / "kernel.log"
    kernel.write_text(
        "2025-11-30T23:50:02.100000+01:00 gpu-n017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n",
        encoding="utf-8",
    )
    bare = tmp_path / "bare.log"
    bare.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", encoding="utf-8")
    dates = []
    for source, more in ((kernel, []), (kernel, ["--again", "--date", "2025-12-24"]), (bare, [])):
        assert run(["incidents", "new", str(source), "--dir", folder, *more]) == 0
        (path,) = made(capsys)
        dates.append(parse(path.read_text(encoding="utf-8")).one("date"))
        # Where no line tells a day the name alone carries that of the record.
        named = dates[-1] or "2031-05-06"
        assert path.stem.startswith(named.replace("-", ""))
        assert path.parent.name == named[:4]
    assert dates == ["2025-11-30", "2025-12-24", ""]


def test_a_host_that_is_only_named_is_found_and_counts_in_no_trend(folder, tmp_path, capsys):
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, host in enumerate(("gpu-n017", "gpu-n018")):
        head = f"{host}:{700 + number}:{800 + number} [0] NCCL INFO comm 0x7f00 rank {number} nranks 2 cudaDev 0 nvmlDev 0 busId 3b000 - Init COMPLETE\n"
        died = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" if number else ""
        (logs / f"{host}.log").write_text(head + died, encoding="utf-8")
    assert run(["incidents", "new", str(logs), "--dir", folder]) == 0
    (path,) = made(capsys)
    record = parse(path.read_text(encoding="utf-8"))
    assert len(record.all("hosts")) == 1
    for host in ("gpu-n017", "gpu-n018"):
        assert host not in record.text
        assert run(["incidents", "search", "--host", host, "--dir", folder]) == 0, host
        assert record.id in capsys.readouterr().out
    assert run(["incidents", "search", "--host", "gpu-n019", "--dir", folder]) == 3
    # The same lines of the same day are the same incident; a person's word makes them another.
    assert run(["incidents", "new", str(logs), "--dir", folder, "--again"]) == 0
    assert run(["incidents", "trends", "--by", "host", "--dir", folder]) == 3
    assert run(["incidents", "new", str(logs), "--dir", folder, "--again", "--date", "2026-03-09"]) == 0
    capsys.readouterr()
    assert run(["incidents", "trends", "--by", "host", "--dir", folder]) == 0
    assert capsys.readouterr().out.count("host host-") == 1


def test_the_timeline_lists_incidents_and_their_reruns_by_day(put, store, capsys):
    put(id="late", date="2026-03-09")
    put(id="early", date="2026-03-02", title="First", **{k: v for k, v in PROVED.items() if k != "title"})
    put(id="undated", date="")
    folder = str(store.folder)
    assert run(["incidents", "timeline", "--dir", folder]) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert [(r[0], r[1]) for r in rows] == [
        ("2026-03-02", "incident"),
        ("2026-03-04", "re-run"),
        ("2026-03-09", "incident"),
        ("-", "incident"),
    ]
    words = [
        "incidents",
        "timeline",
        "--dir",
        folder,
        "--since",
        "2026-03-03",
        "--until",
        "2026-03-09",
        "--format",
        "json",
    ]
    assert run(words) == 0
    assert [(m["what"], m["id"]) for m in json.loads(capsys.readouterr().out)] == [
        ("re-run held", "early"),
        ("incident", "late"),
    ]
    assert run(["incidents", "timeline", "--dir", folder, "--since", "2027-01-01"]) == 3


def test_another_key_gives_other_pseudonyms(oom, tmp_path, capsys):
    kernel = tmp_path / "kernel.log"
    kernel.write_text(
        "Mar  2 10:11:12 gpu-n017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n",
        encoding="utf-8",
    )
    told = []
    for number in range(2):
        key = tmp_path / f"key{number}"
        key.write_text(f"{number}" * 32, encoding="utf-8")
        assert run(["incidents", "new", str(kernel), "--stdout", "--key", str(key)]) == 0
        told.append(parse(capsys.readouterr().out).all("hosts"))
    assert told[0] != told[1]
    short = tmp_path / "short"
    short.write_text("x", encoding="utf-8")
    assert run(["incidents", "new", str(kernel), "--stdout", "--key", str(short)]) == 2
    assert "no key" in capsys.readouterr().err


def test_from_open_to_verified_and_back(oom, folder, tmp_path, capsys):
    world = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
    log = oom / "gpu-n017.log"
    log.write_text(world + log.read_text(encoding="utf-8"), encoding="utf-8")
    run(["incidents", "new", str(oom), "--dir", folder])
    (path,) = made(capsys)
    name = path.stem
    text = path.read_text(encoding="utf-8")
    for head, key in (
        ("Symptom", "sentence"),
        ("Diagnosis", "sentence"),
        ("Root cause", "cause"),
        ("Fix", "fix"),
        ("Verification", "verification"),
        ("In one sentence", "sentence"),
    ):
        text = re.sub(rf"(?s)## {head}\n\n.*?\n(?=## )", f"## {head}\n\n{PROVED[key]}\n\n", text)
    text = text.replace("state: open", "state: fixed").replace("fix_links:\n", "fix_links:\n  - commit 3f2a91c0\n")
    path.write_text(text, encoding="utf-8")

    ran = tmp_path / "rerun"
    ran.mkdir()
    steps = "step 40/4000 loss 2.2\nstep 41/4000 loss 2.2\nstep 4000/4000 loss 1.1\nTraining completed successfully\n"
    (ran / "a.log").write_text(world + steps, encoding="utf-8")
    assert run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder]) == 3
    assert "--date" in capsys.readouterr().out
    assert run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder, "--date", "2026-03-01"]) == 3
    assert run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder, "--date", "2026-03-05"]) == 0
    dated = "".join(f"2026-03-05 09:00:0{i} {line}\n" for i, line in enumerate(steps.splitlines()))
    (ran / "a.log").write_text(world + dated, encoding="utf-8")
    capsys.readouterr()
    assert run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder]) == 0
    assert f"{name}: held" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == text
    assert (
        run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder, "--write", "--date", "2026-03-05"]) == 0
    )
    assert "state: verified" in path.read_text(encoding="utf-8")
    assert run(["incidents", "lint", "--dir", folder]) == 0
    capsys.readouterr()

    assert run(["incidents", "verify", name, "--rerun", str(oom), "--dir", folder, "--write"]) == 2
    assert "the incident itself" in capsys.readouterr().err
    assert "state: verified" in path.read_text(encoding="utf-8")
    again = tmp_path / "again"
    again.mkdir()
    (again / log.name).write_text("step 1/4000 loss 9.1\n" + log.read_text(encoding="utf-8"), encoding="utf-8")
    assert (
        run(["incidents", "verify", name, "--rerun", str(again), "--dir", folder, "--write", "--date", "2026-03-09"])
        == 1
    )
    assert "state: supported" in path.read_text(encoding="utf-8")
    assert "recurred" in capsys.readouterr().out
    (ran / "a.log").write_text("step 5/4000 loss 1.2\n", encoding="utf-8")
    assert run(["incidents", "verify", name, "--rerun", str(ran), "--dir", folder]) == 3


RESTARTED = Path(__file__).parents[2] / "cases" / "torchrun-restart-after-damaged-cache-ends-well" / "logs"
"""A real launch: the first start failed, the second one completed."""


def test_a_fault_in_an_earlier_start_of_the_re_run_is_not_held(folder, tmp_path, capsys):
    kept = tmp_path / "d1.json"
    run(["diagnose", str(RESTARTED), "--attempt", "1", "--format", "json", "--output", str(kept)])
    run(["incidents", "new", str(kept), "--dir", folder])
    (path,) = made(capsys)
    assert run(["incidents", "verify", path.stem, "--rerun", str(RESTARTED), "--dir", folder]) == 2
    assert "the incident itself" in capsys.readouterr().err
    again = tmp_path / "again"
    for file in RESTARTED.rglob("*"):
        if file.is_file():
            copy = again / file.relative_to(RESTARTED)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes().replace(b"2026-11-29", b"2026-12-09"))
    assert run(["incidents", "verify", path.stem, "--rerun", str(again), "--dir", folder]) == 1
    told = capsys.readouterr().out
    assert "recurred" in told
    assert "attempt 1 of the re-run" in told


def test_a_record_made_with_a_teams_key_is_known_again_by_it(oom, folder, tmp_path, capsys):
    key = tmp_path / "teamkey"
    key.write_text("0123456789abcdef" * 4, encoding="utf-8")
    run(["incidents", "new", str(oom), "--dir", folder, "--key", str(key)])
    (path,) = made(capsys)
    assert run(["incidents", "verify", path.stem, "--rerun", str(oom), "--dir", folder, "--key", str(key)]) == 2
    assert "the incident itself" in capsys.readouterr().err


def test_replay_lists_verdicts_that_changed(oom, folder, tmp_path, capsys):
    run(["incidents", "new", str(oom), "--dir", folder])
    (path,) = made(capsys)
    kept = tmp_path / "kept"
    kept.mkdir()
    assert run(["incidents", "replay", "--dir", folder, "--evidence", str(kept)]) == 3
    oom.rename(kept / path.stem)
    capsys.readouterr()
    assert run(["incidents", "replay", "--dir", folder, "--evidence", str(kept)]) == 0
    assert f"{path.stem}: same" in capsys.readouterr().out
    path.write_text(
        path.read_text(encoding="utf-8").replace("category: gpu_cuda", "category: network"), encoding="utf-8"
    )
    assert run(["incidents", "replay", "--dir", folder, "--evidence", str(kept), "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["changed"] == ["category: network -> gpu_cuda"]
    assert run(["incidents", "replay", "nobody", "--dir", folder, "--evidence", str(kept)]) == 2


def test_evidence_that_cannot_be_read_hides_no_other_verdict(oom, folder, tmp_path, capsys):
    run(["incidents", "new", str(oom), "--dir", folder])
    (path,) = made(capsys)
    run(["incidents", "new", str(oom), "--dir", folder, "--again"])
    (other,) = made(capsys)
    kept = tmp_path / "kept"
    kept.mkdir()
    for unread in ("empty folder", "no archive"):
        first, second = sorted([path, other])
        if unread == "empty folder":
            (kept / first.stem).mkdir()
            shutil.copytree(oom, kept / second.stem)
        else:
            (kept / first.stem).rmdir()
            (kept / f"{first.stem}.tar.gz").write_bytes(bytes(range(256)) * 2)
        assert run(["incidents", "replay", "--dir", folder, "--evidence", str(kept)]) == 2
        told = capsys.readouterr()
        assert f"{first.stem}: not read: " in told.out
        assert f"{second.stem}: same" in told.out
        assert "1 of 2 replayed, 0 changed" in told.out
        assert "evidence of 1 records cannot be read" in told.err


@pytest.mark.parametrize("asked", ["shard-000123.tar", "s3://bucket/train/shard-000123.tar", "/data/x/shard-0001*"])
def test_a_shard_is_found_by_its_name_and_by_its_path(asked, folder, tmp_path, capsys):
    log = tmp_path / "job.log"
    log.write_text(
        'Traceback (most recent call last):\n  File "/w/data/tars.py", line 31, in members\n    t = tarfile.open(p)\n'
        "tarfile.ReadError: unexpected end of data: s3://bucket/train/shard-000123.tar\n",
        encoding="utf-8",
    )
    run(["incidents", "new", str(log), "--dir", folder])
    (path,) = made(capsys)
    assert run(["incidents", "search", "--shard", asked, "--dir", folder]) == 0
    assert capsys.readouterr().out.startswith(path.stem)
    assert (
        run(["incidents", "search", "--shard", asked.replace("123", "124").replace("01*", "02*"), "--dir", folder]) == 3
    )


def test_a_diagnosis_names_what_was_seen_before_in_every_format(oom, folder, capsys):
    run(["incidents", "new", str(oom), "--dir", folder])
    (path,) = made(capsys)
    for form in ("text", "markdown"):
        assert run([str(oom), "--incidents", folder, "--format", form]) == 1
        out = capsys.readouterr().out
        assert "Seen before" in out
        assert path.stem in out
        assert "no proof" in out
    assert run([str(oom), "--incidents", folder, "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(published("diagnosis")))
    assert told["seen_before"][0]["id"] == path.stem
    assert told["seen_before"][0]["verified"] is False
    assert run([str(oom), "--incidents", folder, "--share", "--format", "json"]) == 1
    assert "okada" not in capsys.readouterr().out


def test_show_finds_by_the_begin_of_an_id_and_what_ships(oom, folder, capsys):
    run(["incidents", "new", str(oom), "--dir", folder])
    (path,) = made(capsys)
    assert run(["incidents", "show", path.stem[:12], "--dir", folder]) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")
    assert run(["incidents", "show", "e007", "--dir", folder, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "verified"
    assert run(["incidents", "show", "nobody", "--dir", folder]) == 2
    assert "no record" in capsys.readouterr().err


def test_notes_come_in_and_records_go_out(folder, tmp_path, capsys):
    notes = tmp_path / "errors.md"
    notes.write_text("# Log\n\n## E1 disk full\n\n- Symptom: no space\n- Cause: old checkpoints\n", encoding="utf-8")
    assert run(["incidents", "import", str(notes), "--dir", folder]) == 0
    (path,) = made(capsys)
    assert run(["incidents", "lint", "--dir", folder]) == 0
    capsys.readouterr()
    assert run(["incidents", "export", "--dir", folder, "--format", "jsonl", "--library"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {r["id"] for r in rows} == {path.stem, *(f"E{n:03d}" for n in range(1, 12))}
    for form, begin in (("html", "<!doctype html>"), ("markdown", "# Incidents")):
        out = tmp_path / f"out.{form}"
        assert run(["incidents", "export", "--dir", folder, "--format", form, "--output", str(out)]) == 0
        assert out.read_text(encoding="utf-8").startswith(begin)
    notes.write_text("# nothing\n", encoding="utf-8")
    assert run(["incidents", "import", str(notes), "--dir", folder]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lint"], "There is no folder"),
        (["verify", "x", "--rerun", "."], "There is no folder"),
        (["new", "/nowhere/at/all"], "could be read"),
    ],
)
def test_what_cannot_be_done_is_told(words, said, folder, capsys):
    assert run(["incidents", *words, "--dir", folder]) == 2
    assert said in capsys.readouterr().err


def test_a_run_without_a_failure_makes_no_record(folder, tmp_path, capsys):
    log = tmp_path / "ok.log"
    log.write_text(
        "step 3999/4000 loss 1.2\nstep 4000/4000 loss 1.1\nTraining completed successfully\n", encoding="utf-8"
    )
    assert run(["incidents", "new", str(log), "--dir", folder]) == 2
    assert "no failure" in capsys.readouterr().err


def test_both_languages_have_the_same_sentences():
    english, chinese = sentences("en"), sentences("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert sorted(re.findall(r"\{(\w+)\}", text)) == sorted(re.findall(r"\{(\w+)\}", chinese[key])), key


def test_a_record_that_cannot_be_read_is_told_and_not_denied(folder, capsys):
    Path(folder).mkdir()
    Path(folder, "20260302-aaaaaaaaaa.md").write_text(
        "---\nid: 20260302-aaaaaaaaaa\n<<<<<<< ours\n---\n", encoding="utf-8"
    )
    assert run(["incidents", "search", "zzz", "--dir", folder]) == 3
    assert "1 files could not be read" in capsys.readouterr().err
    for words in (["show", "20260302-aaaaaaaaaa"], ["verify", "20260302-aaaaaaaaaa", "--rerun", folder]):
        assert run(["incidents", *words, "--dir", folder]) == 2
        told = capsys.readouterr().err
        assert "cannot be read" in told
        assert "20260302-aaaaaaaaaa.md:3" in told


@pytest.mark.parametrize("words", [["search", "oom"], ["similar", "."]])
def test_a_folder_that_was_named_and_is_not_there_is_told(folder, capsys, words):
    assert run(["incidents", *words, "--dir", folder]) == 2
    assert "There is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["sqlite:///x.db", "mysql://user:geheim@host/x", "https://wiki.example/incidents"])
def test_an_address_of_another_kind_makes_no_folder(oom, tmp_path, monkeypatch, capsys, place):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert run(["incidents", "new", str(oom), "--dir", place]) == 2
    told = capsys.readouterr().err
    assert "no address of records" in told
    assert "geheim" not in told
    assert sorted(tmp_path.iterdir()) == before


def test_no_list_says_verified_of_what_is_not_shown(folder, capsys):
    Path(folder).mkdir()
    for name, parts in (("shown", PROVED), ("claimed", {"state": "verified"})):
        Path(folder, f"{name}.md").write_text(text_of(id=name, **parts), encoding="utf-8")
    assert (
        run(["incidents", "search", "--dir", folder, "--host", text_of().partition("hosts:\n  - ")[2].split()[0]]) == 0
    )
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "nothing in it shows" in lines["claimed"]
    assert "nothing in it shows" not in lines["shown"]
    for form in ("markdown", "html"):
        assert run(["incidents", "export", "--dir", folder, "--format", form]) == 0
        assert capsys.readouterr().out.count("verified (not shown)") == 2
