"""What a program notices of the recorder: nothing, but for the files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from programs import SOURCES, environment, run

from firstfault.recorder import format as layout


def test_the_import_pulls_in_nothing_that_is_not_pythons_own(tmp_path):
    text = (
        "import sys; before = set(sys.modules); import firstfault.recorder as r; r.start(); r.step(); r.describe(config={'a': 1});"
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", text],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout.split()
    foreign = {m.split(".")[0] for m in out} - set(sys.stdlib_module_names) - {"firstfault"}
    assert foreign == set()
    assert {m for m in out if m.startswith("firstfault.")} <= {
        m for m in out if m.startswith(("firstfault.recorder", "firstfault.privacy", "firstfault.model"))
    }
    assert "firstfault.model.words" not in out


def test_without_start_every_call_does_nothing(tmp_path):
    left = run(
        tmp_path,
        """
        import sys, threading
        hook = sys.excepthook
        import firstfault.recorder as r
        r.step(); r.phase("data"); r.item("x"); r.metrics(loss=1.0); r.describe(a=1); r.report(ValueError()); r.stop()
        with r.phase("checkpoint"):
            pass
        assert sys.excepthook is hook and threading.active_count() == 1 and not r.started()
        print("ok")
        """,
    )
    assert (left.code, left.out) == (0, "ok\n")
    assert not left.box.exists()


def test_a_local_folder_that_others_may_write_is_not_used(tmp_path):
    from firstfault.recorder.identity import short_host
    from firstfault.recorder.settings import Settings

    spool = Path(Settings(str(tmp_path / "box"), "run", str(tmp_path / "local"), short_host()).spool)
    spool.mkdir(parents=True)
    spool.chmod(0o777)
    left = run(tmp_path, "import firstfault.recorder as r; r.start(); r.step()")
    assert left.code == 0
    assert list(spool.iterdir()) == []
    assert list(left.box.rglob(f"*{layout.RING}"))


def test_the_header_says_who_where_and_how(tmp_path):
    (tmp_path / "conf.yaml").write_text("lr: 1\n", encoding="utf-8")
    left = run(
        tmp_path,
        "import firstfault.recorder as r; r.start(); r.step()",
        "--config=conf.yaml",
        NCCL_DEBUG="INFO",
        OTHER="x",
    )
    header = left.records(layout.HEADER)[0]
    assert (header["rank"], header["local_rank"], header["world"], header["attempt"]) == (3, 1, 8, 0)
    assert header["variables"]["NCCL_DEBUG"] == "INFO"
    assert "OTHER" not in header["variables"]
    assert header["config"][0]["file"] == "conf.yaml"
    assert header["command"][-1] == "--config=conf.yaml"
    end = left.records(layout.END)[0]
    assert (end["how"], end["step"], end["broken"]) == ("ended", 1, [])


def test_every_line_starts_as_the_format_says(tmp_path):
    left = run(tmp_path, "import firstfault.recorder as r; r.start(); r.describe(data='v3'); r.report(ValueError('x'))")
    for file in left.box.rglob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            assert line.startswith(layout.START)
            json.loads(line)


def test_a_second_start_changes_nothing(tmp_path):
    left = run(tmp_path, "import firstfault.recorder as r; assert r.start(); assert r.start()")
    assert len(left.records(layout.HEADER)) == 1


def test_stop_gives_everything_back(tmp_path):
    left = run(
        tmp_path,
        """
        import faulthandler, signal, sys, threading
        before = (sys.excepthook, threading.excepthook, signal.signal, signal.getsignal(signal.SIGTERM))
        import firstfault.recorder as r
        r.start(); r.stop()
        assert (sys.excepthook, threading.excepthook, signal.signal, signal.getsignal(signal.SIGTERM)) == before
        assert not faulthandler.is_enabled()
        assert [t.name for t in threading.enumerate()] == ["MainThread"]
        import glob, os
        left = [os.readlink(f"/proc/self/fd/{d}") for d in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{d}")]
        assert not [f for f in left if f.endswith(".ask")]
        assert not [f for f in glob.glob(os.environ["FIRSTFAULT_RECORD_LOCAL"] + "/*/*/*") if f.endswith((".ask", ".ring"))]
        assert r.start() and r.started()  # and again
        print("ok")
        """,
    )
    assert (left.code, left.out) == (0, "ok\n"), left.err


@pytest.mark.parametrize(
    "secret", ["quiet7Harbour21Lantern", "sk-proj-Planted0Secret1Of2This3Test", "hf_PlantedTokenOfThisTest0123456789"]
)
def test_no_planted_secret_reaches_a_file(tmp_path, secret):
    left = run(
        tmp_path,
        """
        import os, sys
        import firstfault.recorder as r
        secret = os.environ["HUB_TOKEN"]
        r.start()
        r.describe(config={"api_key": secret, "nested": {"password": "Winter-2031x"}}, data="s3://u:Pa55-word9@bucket/v3")
        r.metrics(note=secret)
        r.item("/data/" + secret + "/x.jpg")
        r.item(f"https://host/x?token={secret}")
        import logging
        logging.getLogger().addHandler(r.handler()); logging.getLogger().setLevel(20)
        logging.info("token=%s", secret)
        logging.info("%s was refused", secret)
        with r.phase("data"):
            try:
                raise KeyError(f"no such key, api_key={secret}")
            except KeyError as error:
                raise RuntimeError(f"Authorization: Bearer {secret}") from error
        """,
        "--token",
        secret,
        HUB_TOKEN=secret,
        NCCL_NOTE=f"password={secret}",
        TORCH_SECRET=secret,
    )
    assert left.code == 1
    local = b"".join(f.read_bytes() for f in (tmp_path / "local").rglob("*") if f.is_file())
    for text in (secret, secret[8:], "Winter-2031x", "Pa55-word9"):
        assert text.encode() not in left.everything()
        assert text.encode() not in local
    assert sum(left.records(layout.END)[0]["removed"].values()) >= 4


def test_names_that_the_program_gives_are_looked_through_too(tmp_path):
    left = run(
        tmp_path,
        """
        import threading
        import firstfault.recorder as r
        r.start()
        r.phase("evaluation")
        r.phase("eval token=Winter2031Phase")
        def fail():
            raise RuntimeError("x")
        thread = threading.Thread(target=fail, name="loader password=Winter2031Thread")
        thread.start(); thread.join()
        r.describe(config={"密码": "Winter2031Config"}, data="口令是Winter2031Data")
        import time; time.sleep(1.5)
        """,
        FI_AUTH_KEY="Winter2031Fabric",
    )
    local = b"".join(f.read_bytes() for f in (tmp_path / "local").rglob("*") if f.is_file())
    assert b"Winter2031" not in left.everything() + local
    told = left.records(layout.EXCEPTION)[0]
    assert (told["thread"], told["phase"]) == ("loader password=[removed:password]", "eval token=[removed:token]")


def test_changed_facts_are_written_as_changes(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        r.start(); r.describe(data="v3", seeds={"torch": 1}); r.describe(data="v3"); r.describe(data="v4")
        """,
    )
    changes = left.records(layout.CHANGE)
    assert [c["changed"].get("data") for c in changes] == [{"was": None, "now": "v3"}, {"was": "v3", "now": "v4"}]
    assert len(changes[0]["changed"]["seeds_sha256"]["now"]) == 16


def test_of_a_configuration_only_what_changed_is_written_by_its_path(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        r.start()
        config = {"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}, "name": "x", "old": 1}
        r.describe(config=config)
        config["optimizer"]["lr"] = 0.01
        r.describe(config=config)
        del config["old"]
        config["new"] = 2
        r.describe(config=config)
        r.describe(config=config)
        """,
    )
    changes = [{k: v for k, v in c["changed"].items() if k != "config_sha256"} for c in left.records(layout.CHANGE)]
    assert changes[1:] == [
        {"config.optimizer.lr": {"was": 0.1, "now": 0.01}},
        {"config.old": {"was": 1, "now": None}, "config.new": {"was": None, "now": 2}},
    ]
    assert len({c["changed"]["config_sha256"]["now"] for c in left.records(layout.CHANGE)}) == 3


def test_the_hash_of_a_configuration_is_that_of_no_process(tmp_path):
    """Sets go through their members in an order of the process, and texts of objects hold addresses."""
    hashes = set()
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        left = run(
            folder,
            """
            import types, collections, firstfault.recorder as r
            class Thing: pass
            r.start()
            r.describe(config=collections.UserDict({
                "tags": {"alpha", "beta", "gamma", "delta"}, "act": lambda x: x, "kind": Thing, "thing": Thing(),
                "inner": types.SimpleNamespace(lr=1, password="Winter-2031x"), "mixed": {1, "a", (2, 3)},
            }))
            """,
            PYTHONHASHSEED=str(number + 1),
        )
        change = left.records(layout.CHANGE)[0]["changed"]
        hashes.add(change["config_sha256"]["now"])
        assert change["config"]["now"]["inner"] == {"lr": 1, "password": "[removed:password]"}
    assert len(hashes) == 1


def test_a_line_of_logging_brings_its_exception_without_secrets(tmp_path):
    left = run(
        tmp_path,
        """
        import logging, firstfault.recorder as r
        r.start()
        log = logging.getLogger("job"); log.addHandler(r.handler())
        for _ in range(3):
            try:
                raise ValueError("bad shard, password=Winter-2031x")
            except ValueError:
                log.exception("step failed")
        log.error("no error at hand", exc_info=True)
        """,
    )
    first, last = left.records(layout.LOG)
    assert (first["message"], first["exception"]["type"]) == ("step failed", "ValueError")
    assert first["exception"]["message"] == "bad shard, password=[removed:password]"
    assert first["exception"]["traceback"]
    assert "exception" not in last
    assert [n["folded"] for n in left.records(layout.NOTE) if "folded" in n] == [2]


def test_what_was_folded_is_counted_while_something_else_is_logged(tmp_path):
    """Who is killed later has no time for it."""
    left = run(
        tmp_path,
        """
        import logging, os, firstfault.recorder as r
        from firstfault.recorder import logs
        r.start()
        log = logging.getLogger("job"); log.setLevel(20); log.addHandler(r.handler())
        for n in range(100): log.info("shard %d", n)
        logs.AGAIN_S = 0.0
        log.info("another line")
        os.kill(os.getpid(), 9)
        """,
    )
    assert [n["folded"] for n in left.records(layout.NOTE) if "folded" in n] == [99]


def test_lines_of_logging_that_repeat_are_folded(tmp_path):
    left = run(
        tmp_path,
        """
        import logging
        import firstfault.recorder as r
        r.start()
        log = logging.getLogger("job"); log.setLevel(10); log.addHandler(r.handler())
        for n in range(1000):
            log.warning("slow read of shard %d", n)
        log.info("another")
        log.debug("too low")
        """,
    )
    assert [r["message"] for r in left.records(layout.LOG)] == ["slow read of shard 0", "another"]


def test_a_child_forked_while_a_thread_logs_can_log_itself(tmp_path):
    left = run(
        tmp_path,
        """
        import logging, os, signal, threading
        import firstfault.recorder as r
        r.start()
        log = logging.getLogger("job"); log.setLevel(20); handler = r.handler(); log.addHandler(handler)
        parent, inside, go = os.getpid(), threading.Event(), threading.Event()
        class Slow(dict):
            def get(self, key, other=None):
                if os.getpid() == parent:
                    inside.set(); go.wait(30)
                return super().get(key, other)
        handler._seen = Slow()
        thread = threading.Thread(target=log.info, args=("in the thread",)); thread.start()
        inside.wait(30)
        child = os.fork()
        if not child:
            signal.alarm(5)
            log.info("in the child")
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        go.set(); thread.join()
        """,
    )
    assert left.out == "0\n", left.err
    assert [r["message"] for r in left.records(layout.LOG)] == ["in the thread"]


def test_it_starts_on_the_python_that_has_no_firstfault_but_this_folder(tmp_path):
    code = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {SOURCES!r}); import firstfault.recorder as r; print(r.start())",
        ],
        env={**environment(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert code.stdout == "True\n"


def test_text_may_be_cleaned_from_within_cleaning(tmp_path):
    left = run(
        tmp_path,
        """
        import sys
        from firstfault.recorder.clean import Cleaner
        cleaner = Cleaner()
        def hook(event, args):
            if event == "open":
                try:
                    cleaner.text("x")
                except Exception:
                    pass
        sys.addaudithook(hook)
        print(cleaner.text("password=Winter-2031x"))
        """,
    )
    assert left.out == "password=[removed:password]\n"


def test_of_the_schedulers_variables_only_those_of_the_shape_are_kept(tmp_path):
    told = {"SLURM_JWT": "aaaa.bbbb.cccc", "SLURM_JOB_ACCOUNT": "lab-of-somebody", "SLURM_JOB_COMMENT": "ask mallory",
            "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "node-[01-08]", "SLURM_NTASKS": "64"}  # fmt: skip
    left = run(tmp_path, "import firstfault.recorder as r; r.start()", **told)
    kept = left.records(layout.HEADER)[0]["variables"]
    assert {k: v for k, v in kept.items() if k.startswith("SLURM_")} == {
        k: told[k] for k in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS")
    }


def test_the_hash_of_a_configuration_file_is_of_its_text_without_secrets(tmp_path):
    hashes = []
    for number, password in enumerate(("one", "two", "two")):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = tmp_path / "train.yaml"
        config.write_text(f"lr: {1 + number // 2}\npassword: Winter{password}\n", encoding="utf-8")
        left = run(folder, "import firstfault.recorder as r; r.start()", f"--config={config}")
        hashes.append(left.records(layout.HEADER)[0]["config"][0]["sha256"])
    assert hashes[0] == hashes[1] != hashes[2]
