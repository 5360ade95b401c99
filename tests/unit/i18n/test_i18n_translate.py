"""Sentences are translated by their templates, and whatever they name is in the translation as it was."""

import re
import subprocess
import sys
import tarfile
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from allocator import GIB, MIB, Allocator, OutOfMemory, pickled, stack
from msgspec import Struct

from firstfault import diagnose
from firstfault.i18n import translator
from firstfault.i18n.atoms import lost
from firstfault.i18n.translate import Translator
from firstfault.pipelines.check_config import check_config
from firstfault.pipelines.check_data import DataOptions, check_data
from firstfault.pipelines.checkpoint import compare_checkpoints, verify_checkpoint
from firstfault.pipelines.compare import compare_runs
from firstfault.pipelines.flight_recorder import recorder_view
from firstfault.pipelines.memory import memory_table
from firstfault.pipelines.metrics import metrics_of
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.ranks import rank_table
from firstfault.pipelines.stacks import stack_table
from firstfault.pipelines.timeline import timeline
from firstfault.report.localise import SENTENCES

TESTS = Path(__file__).resolve().parents[2]
CASES = sorted(p.parent for p in (TESTS / "cases").glob("*/expected.json"))
SOME = CASES[::14]
DUMPS = sorted((TESTS / "recorded").glob("*/dumps"))
MIXED = TESTS / "mixed" / "loader-behind-a-mount"
SETTINGS = sorted(p for p in (TESTS / "configs").glob("*/*") if "__pycache__" not in p.parts)[::3]
CHECKPOINT = TESTS / "unit" / "checkpoint" / "real"
FACTS = re.compile(
    r"`[^`\n]+`|“[^”]*”|\d+(?:[.:]\d+)*|(?<![\w/])/(?:[\w.-]+/)+[\w.-]*|(?<![A-Za-z_])[A-Z][A-Z_]{3,}(?![A-Za-z])"
)
ATOMS = re.compile(r"\b[\w.]*(?:Error|Exception|Exit|Interrupt)(?:\([\w.]*\))?: [^\u4e00-\u9fff]*")
OURS = re.compile(
    r"(?<![\w/.`'-])(?:in [A-Z_]{4}|(?:on|for|from|behind|before|among|silent|told|ranks|Ranks|waited|never|which|had|was|were|the|of the)\b(?![\w/`'=-]))"
)
NAMES = re.compile(
    r"[\w.<>]+(?= \([\w.-]+:\d+\))|\bnnodes\b|(?<=\d )x(?= \w+ \d)|(?<=trainer, )data\b|\bfp16\b.*?\boff\b|^world size$|^(?:code|data|absent|frozen|unpaired|collective)$"
)
SMALL = {
    "{0} waited in {1}{2}{3}. A time-out alone proves nothing.": "{0} 在 {1} 中等待{2}{3}。单是超时不能证明什么。",
    " for {0}": "，持续 {0}",
    "; {0} of {1} ranks are accounted for": "；{1} 个 rank 中有 {0} 个的情况已知",
    "the disk is full": "磁盘满",
    "Nothing was heard of {0}.": "没有 {0} 的任何消息。",
    "{0} The last line: “{1}”.": "{0} 最后一行：“{1}”。",
    "{0} line{1} of {2}": "{2} 的 {0} 行",
    "ranks {0}": "rank {0}",
    "{0} on {host}": "{0}，位于 {host}",
    "Or by hand: `{0}`": "或者手工：`{0}`",
}


@pytest.fixture
def say():
    return Translator(SMALL, (("; ", "；"), (": ", "："), (", ", "，")), "。", {r"\b(\d+) min\b": r"\1 分钟"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The disk is full.", "磁盘满。"),
        ("the disk is full on node-7", "磁盘满，位于 node-7"),
        (
            "Ranks 0-3, 7 waited in ALLREDUCE 12 for 10 min; 5 of 8 ranks are accounted for. A time-out alone proves nothing.",
            "rank 0-3, 7 在 ALLREDUCE 12 中等待，持续 10 分钟；8 个 rank 中有 5 个的情况已知。单是超时不能证明什么。",
        ),
        (
            "The disk is full. The last line: “1 line of the disk is full”.",
            "磁盘满。最后一行：“1 line of the disk is full”。",
        ),
        ("Nothing was heard of rank 3.", "没有 rank 3 的任何消息。"),
        ("3 lines of a.log", "a.log 的 3 行"),
        ("Or by hand: `cd a; for p in b. C; do d $p; done`", "或者手工：`cd a; for p in b. C; do d $p; done`"),
    ],
)
def test_a_sentence_is_said_by_its_templates(say, text, said):
    assert say(text) == said


@pytest.mark.parametrize("text", ["Quite another thing happened here today.", "", "4711", "/data/x: y", "磁盘满"])
def test_what_is_not_known_stays(say, text):
    assert say(text) == text
    assert translator("zh")(text) == text


def test_half_a_sentence_is_not_said(say):
    text = "The disk is full; quite another thing happened here today and nobody has a word for it"
    assert say(text) == text


@pytest.mark.parametrize(
    ("text", "said", "gone"),
    [
        ("rank 3 of 8", "8 个中的 rank 3", False),
        ("rank 3 of 8", "rank 3", True),
        ("3 and 3", "3", True),
        ("at 4.0 h", "4。0 小时", True),
        ("run `df -h`", "运行 `df  -h`", True),
        ("run `df -h`", "运行 `df -h`", False),
    ],
)
def test_a_lost_fact_is_seen(text, said, gone):
    assert lost(text, said) is gone


def _sentences(value):
    if isinstance(value, Struct):
        spoken = SENTENCES.get(type(value).__name__, ())
        for name in value.__struct_fields__:
            yield from _texts(getattr(value, name)) if name in spoken else _sentences(getattr(value, name))
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _sentences(one)


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


@pytest.fixture(scope="module")
def spoken():
    """Sentences of the diagnoses of real cases, with the case."""
    return {
        s: case.name
        for case in SOME
        for s in _sentences(diagnose(str(case / "logs" if (case / "logs").is_dir() else case)))
    }


def _views(folder):
    """What the other commands publish, with a name: views of evidence, checks of settings, data and checkpoints, two runs."""
    alone = DiagnoseOptions(engine="inline")
    for case in SOME[::4]:
        logs = case / "logs"
        yield case.name, rank_table([logs], alone)
        yield case.name, timeline([logs], alone)
        yield case.name, metrics_of([logs]).view
    for dumps in DUMPS:
        yield dumps.parent.name, recorder_view([dumps], alone)
    yield "stacks", stack_table([MIXED / "stacks"], alone)
    kept = stack(("/srv/app/metrics.py", 57, "keep_all"), ("/srv/app/train.py", 93, "step"))
    device = Allocator(4 * GIB)
    with suppress(OutOfMemory):
        while True:
            device.alloc(120 * MIB, kept)
    (folder / "rank1_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    yield "memory", memory_table([folder], alone)
    for settings in SETTINGS:
        yield settings.name, check_config(sorted(p for p in settings.iterdir() if p.name != "case.toml"), world_size=6)
    for archive in ("ds2", "dcp2-whole", "dtensor4"):
        with tarfile.open(CHECKPOINT / f"{archive}.tar.xz") as tar:
            tar.extractall(folder, filter="data")
        yield archive, verify_checkpoint(folder / archive)
        largest = max(
            (p for p in (folder / archive).rglob("*") if p.is_file()), key=lambda p: (p.stat().st_size, str(p))
        )
        largest.write_bytes(largest.read_bytes()[:-200])
        yield f"{archive}, cut", verify_checkpoint(folder / archive)
    yield "two checkpoints", compare_checkpoints(folder / "ds2", folder / "dcp2-whole")
    lines = ['{"audio_filepath": "a.wav", "duration": 1.5}', '{"audio_filepath": "b.wav"}', '{"audio_filepath":', ""]
    (folder / "train.json").write_text("\n".join(lines), encoding="utf-8")
    yield "manifest", check_data([str(folder / "train.json")], DataOptions(world=8))
    healthy = [
        c / "logs"
        for c in CASES
        if c.name.startswith("healthy-") and "tep" in (c / "expected.json").read_text(encoding="utf-8")
    ]
    stepped = [logs for logs in healthy if metrics_of([logs]).view.tables][:6]
    for first, second in pairwise(stepped):
        yield f"{first.parent.name} and {second.parent.name}", compare_runs(first, second)


@pytest.fixture(scope="module")
def viewed(tmp_path_factory):
    """Sentences of all other views and checks, with what they are of."""
    return {s: name for name, view in _views(tmp_path_factory.mktemp("views")) for s in _sentences(view)}


@pytest.fixture(scope="module", params=["spoken", "viewed"])
def told(request):
    """Both kinds of sentences, one after the other."""
    return request.getfixturevalue(request.param)


def test_nothing_that_a_sentence_names_is_lost_or_changed(told):
    say = translator("zh")
    gone = {}
    for text, case in told.items():
        missing = Counter(FACTS.findall(text)) - Counter(FACTS.findall(say(text)))
        if missing:
            gone[case, text] = missing
    assert gone == {}


def test_nearly_nothing_stays_english(told):
    say = translator("zh")
    # A function beside its place may be called as a word is, and a setting too; the x between two factors is no word.
    rest = {text: left for text in told if (left := say.told(text)[1] - len("".join(NAMES.findall(text)))) > 3}
    assert len(rest) * 200 <= len(told), rest


def _half_english(said):
    """English words of a Chinese text that no quotation, code, exception or meant name holds, one of ours among them."""
    bare = ATOMS.sub("", re.sub("“[^”]*”|`[^`]*`|：[^\u4e00-\u9fff]*$", "", said))
    return re.search("[\u4e00-\u9fff]", bare) and OURS.search(bare)


def test_no_sentence_is_half_english(told):
    say = translator("zh")
    assert {t: said for t in told if _half_english(said := say(t))} == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Ranks waited too long: ranks 4, 8, 12, in ALLREDUCE 3, for 10 min (only told of it: ranks 1, 5-6; silent: 10 ranks)",
            "rank 等待过久：rank 4, 8, 12，在 ALLREDUCE 3 中，持续 10 分钟 (只是被告知：rank 1, 5-6；没有任何信息：10 个 rank)",
        ),
        ("Ranks waited too long: rank 0 (silent: ranks 1-7)", "rank 等待过久：rank 0 (没有任何信息：rank 1-7)"),
        (
            "Xid: the NVIDIA driver reports a GPU fault: Timeout of an RPC to the GSP on rank 3 (n7). Ranks 0-2, 4-7 only waited for it for 5 min.",
            "Xid：NVIDIA 驱动报告 GPU 故障：对 GSP 的 RPC 超时，在 rank 3 (n7)。rank 0-2, 4-7 只是在等它，持续 5 分钟。",
        ),
        (
            "Python exception ray.exceptions.RayTaskError(ValueError)",
            "Python 异常 ray.exceptions.RayTaskError(ValueError)",
        ),
        (
            "Python exception RuntimeError on ranks 0, 3, 6, 8, 11, 14 … (3 more runs)",
            "Python 异常 RuntimeError，在 rank 0, 3, 6, 8, 11, 14 … (还有 3 段)",
        ),
        ("SLURM could not launch the tasks on kx01, kx02, kx03", "SLURM 无法启动任务，位于 kx01, kx02, kx03"),
    ],
)
def test_lists_brackets_and_titles_are_said_whole(text, said):
    assert translator("zh")(text) == said


def test_a_sentence_takes_no_words_of_the_one_before():
    text = (
        "Ranks 2, 6 (n5) never entered BROADCAST 142 of the default group, in which ranks 0-1, 3-5, 7 waited for 10 min. "
        "8 of at least 8 ranks are accounted for. Ranks 2, 6 were inside another collective (all_gather) at that time, "
        "by the traceback: the ranks did not call the same collectives."
    )
    first, _, third = (translator("zh")(f"{s}.") for s in text.rstrip(".").split(". "))
    said = translator("zh")(text)
    assert said.startswith(first)
    assert said.endswith(third)


def test_english_reads_no_file_of_another_language():
    code = "import sys, firstfault.cli.main as m; m.run(['--version']); m.run(['explain', 'established']); print([n for n in sys.modules if 'i18n.zh' in n or 'translate' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
