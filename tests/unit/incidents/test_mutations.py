"""A sample of what `bench/incidents/fingerprints.py` measures: cases changed in what differs between two runs of one fault."""

import importlib.util
from pathlib import Path

import pytest

import casefolder
from firstfault.incidents.fingerprint import fingerprint, hosts_of, same
from firstfault.pipelines.incidents import examine
from firstfault.pipelines.options import DiagnoseOptions

OPTIONS = DiagnoseOptions(engine="inline")
SAMPLE = (
    "asr-oom-one-rank",
    "arrow-cache-chmod-on-shared-folder",
    "pdsh-two-nodes-g002-gone-at-step-224",
    "valueerror-three-lines-before-typeerror",
    "dataloader-worker-sigkill-tee-prefixes",
    "badzip-in-getitem-is-no-checkpoint",
)


@pytest.fixture(scope="module")
def mutate():
    path = Path(__file__).parents[3] / "bench" / "incidents" / "mutate.py"
    spec = importlib.util.spec_from_file_location("mutate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SAMPLE)
def test_a_changed_run_of_one_fault_has_its_fingerprint(name, mutate, tmp_path):
    case = casefolder.load(casefolder.CASES / name)
    diagnosis, before = examine([str(p) for p in case.paths], OPTIONS)
    files = {case.shown(file): file.read_bytes() for file in case.files()}
    changed = 0
    for seed in range(2):
        mutation = mutate.Mutation(seed, hosts_of(diagnosis), files)
        for shown, data in files.items():
            file = tmp_path / str(seed) / mutation.name(shown)
            file.parent.mkdir(parents=True, exist_ok=True)
            new = mutation.change(data)
            changed += new != data or mutation.name(shown) != shown
            file.write_bytes(new)
        _, after = examine([str(tmp_path / str(seed))], OPTIONS)
        assert fingerprint(after) == fingerprint(before)
    assert changed


def test_cases_of_different_faults_have_different_fingerprints():
    prints = {}
    for name in SAMPLE:
        case = casefolder.load(casefolder.CASES / name)
        prints[name] = fingerprint(examine([str(p) for p in case.paths], OPTIONS)[1])
    pairs = [(a, b) for a in SAMPLE for b in SAMPLE if a < b]
    assert [pair for pair in pairs if same(prints[pair[0]], prints[pair[1]])] == []
