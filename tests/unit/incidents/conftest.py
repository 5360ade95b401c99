"""A folder of records, and a cache and settings of its own for each test."""

import itertools
from datetime import date

import pytest
from incident_text import DEFAULTS, text_of

import postgres
from firstfault.cli import incidents_options, incidents_write
from firstfault.incidents.store import Store


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory, monkeypatch):
    base = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    return base


@pytest.fixture(autouse=True)
def a_later_day(monkeypatch):
    """All days that the tests tell are past, whatever the clock of this machine says."""
    for module in (incidents_write, incidents_options):
        monkeypatch.setattr(module, "today", lambda: date(2040, 1, 1))


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


_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def socket_folder():
    """A running PostgreSQL; the folder of its socket."""
    why = postgres.missing()
    if why:
        pytest.skip(why)
    with postgres.server() as folder:
        yield folder


@pytest.fixture
def empty_database(socket_folder):
    """The address of an empty database."""
    name = f"t{next(_NUMBERS)}"
    postgres.ask(socket_folder, "postgres", f"CREATE DATABASE {name}")
    return postgres.address(socket_folder, name)


@pytest.fixture(scope="session")
def prepared(socket_folder):
    """The name of a database in which the tables are."""
    from firstfault.incidents.server.database import database_at

    postgres.ask(socket_folder, "postgres", "CREATE DATABASE prepared")
    database_at(postgres.address(socket_folder, "prepared")).close()
    return "prepared"


@pytest.fixture
def database(socket_folder, prepared):
    """The address of a database that holds the tables and no record of its own."""
    name = f"t{next(_NUMBERS)}"
    postgres.ask(socket_folder, "postgres", f"CREATE DATABASE {name} TEMPLATE {prepared}")
    return postgres.address(socket_folder, name)
