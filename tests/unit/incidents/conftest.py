"""A folder of records, and a cache and settings of its own for each test."""

import pytest
from incident_text import DEFAULTS, text_of

from firstfault.incidents.store import Store


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory, monkeypatch):
    base = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    return base


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "incidents"
    folder.mkdir()
    return Store(folder)


@pytest.fixture
def put(store):
    """Writes a record into the store; its path."""

    def write(**parts):
        name = parts.get("id", DEFAULTS["id"])
        path = store.folder / f"{name}.md"
        path.write_text(text_of(**parts), encoding="utf-8")
        return path

    return write


@pytest.fixture
def oom(tmp_path):
    """Logs of a job of two ranks of which one ran out of memory."""
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = [
        "2026-03-02 10:11:11 host-start trainer: [rank0]: step 41/4000 loss 2.31",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/home/okada/train/loop.py", line 88, in step',
        "[rank1]:     loss.backward()",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB of which 0.88 GiB is free.",
    ]
    (folder / "gpu-n017.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
