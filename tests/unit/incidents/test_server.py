"""The database of an organisation: how it is made, brought up to date, shared, and what is said where it cannot be used."""

import subprocess
import sys
import threading
from contextlib import closing

import pytest
from incident_text import text_of

import postgres
from firstfault.cli.main import run
from firstfault.incidents import places
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.places import index_at, is_address, shown, store_at
from firstfault.incidents.search import Query, search
from firstfault.incidents.shipped import shipped

server = pytest.mark.server


def found(address, text, **rest):
    with closing(index_at(address)) as index:
        return [hit.record.id for hit in search(index, Query(text=text, **rest)).hits]


def put(address, **parts):
    with closing(store_at(address)) as store:
        return store.create(parts["id"], text_of(**parts))


@server
def test_an_empty_database_is_made_ready_once_by_many_at_once(empty_database):
    wrong = []

    def open_it():
        try:
            assert found(empty_database, "docker pull EOF")[:1] == ["E001"]
        except Exception as error:  # noqa: BLE001 - told below
            wrong.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert wrong == []
    assert len(found(empty_database, "", facts=(("state", "*"),), limit=100)) == len(shipped())


@server
def test_a_database_of_the_first_form_keeps_its_records_and_its_rights(empty_database, socket_folder):
    import sqlalchemy as sa

    from firstfault.incidents.server import schema

    name = empty_database.partition("?")[0].rpartition("/")[2]
    engine = sa.create_engine(empty_database.replace("postgresql://", "postgresql+psycopg://"))
    text = text_of(id="old", cause="Guess: zebra.")
    words = ["zebra:1A", *[""] * 6]
    role = f"reader_{name}"
    with engine.begin() as base:
        schema.STEPS[0](base)
        columns = ", ".join(["DEFAULT", "'old'", "''", "'2026-03-02'", *["%s"] * 8])
        base.exec_driver_sql(f"INSERT INTO firstfault_records VALUES ({columns})", (text, *words))
        base.exec_driver_sql("INSERT INTO firstfault_meta VALUES ('form', '1'), ('words', '1')")
        base.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        base.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    engine.dispose()
    assert found(empty_database, "zebra") == ["old"]
    with closing(store_at(empty_database)) as store:
        assert [r.text for r in store.records()[0]] == [text]
    assert found(postgres.address(socket_folder, name, role), "zebra") == ["old"]


@server
def test_what_shipped_with_earlier_versions_is_forgotten_and_with_later_ones_kept(database, socket_folder):
    import psycopg

    name = database.partition("?")[0].rpartition("/")[2]

    def editions():
        with psycopg.connect(host=socket_folder, user="ff", dbname=name) as base:
            return {str(row[0]).partition(" ")[0] for row in base.execute("SELECT edition FROM firstfault_records")}

    put(database, id="mine")
    spoilt = [f"UPDATE firstfault_{t} SET edition = '0.0.9 x' WHERE edition <> ''" for t in ("records", "said")]
    postgres.ask(socket_folder, name, *spoilt)
    assert found(database, "docker pull EOF")[:1] == ["E001"]  # its own are there again
    assert "0.0.9" not in editions()
    postgres.ask(socket_folder, name, *(s.replace("0.0.9", "99.10.0") for s in spoilt))
    assert found(database, "docker pull EOF")[:1] == ["E001"]
    assert {"", "99.10.0"} < editions()
    assert found(database, "", facts=(("state", "open"),)) == ["mine"]


@server
def test_words_that_were_cut_otherwise_are_made_anew(database, socket_folder, monkeypatch):
    from firstfault.incidents.server import schema

    put(database, id="a", cause="Guess: zebra.")
    name = database.partition("?")[0].rpartition("/")[2]
    spoilt = [
        "UPDATE firstfault_records SET cause = '', date = ''",
        "UPDATE firstfault_said SET said = ''",
        "DELETE FROM firstfault_facts",
        "UPDATE firstfault_meta SET value = '0' WHERE key = 'words'",
    ]
    postgres.ask(socket_folder, name, *spoilt)
    assert found(database, "zebra", fields=("cause",), facts=(("state", "open"),)) == ["a"]
    assert found(database, "docker pull EOF")[:1] == ["E001"]
    monkeypatch.setattr(schema, "WORDS", schema.WORDS + 1)
    postgres.ask(socket_folder, name, "UPDATE firstfault_said SET said = ''")
    assert found(database, "zebra") == ["a"]


@server
def test_a_database_of_an_older_form_gets_the_steps_that_it_lacks_and_keeps_its_records(
    database, socket_folder, monkeypatch
):
    import sqlalchemy as sa

    from firstfault.incidents.server import schema

    put(database, id="a", cause="Guess: zebra.")
    name = database.partition("?")[0].rpartition("/")[2]

    def second(base):
        base.execute(sa.text("ALTER TABLE firstfault_records ADD COLUMN added text NOT NULL DEFAULT 'new'"))

    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, second))
    monkeypatch.setattr(schema, "FORM", schema.FORM + 1)
    assert found(database, "zebra") == ["a"]
    assert found(database, "zebra") == ["a"]
    postgres.ask(socket_folder, name, "SELECT added FROM firstfault_records")
    monkeypatch.undo()
    with pytest.raises(IncidentError, match="later firstfault"):
        store_at(database)


@server
def test_a_step_that_fails_leaves_the_database_as_it_was(database, monkeypatch):
    import sqlalchemy as sa

    from firstfault.incidents.server import schema

    put(database, id="a", cause="Guess: zebra.")

    def broken(base):
        base.execute(sa.text("DELETE FROM firstfault_records"))
        base.execute(sa.text("SELECT no_such_column FROM firstfault_records"))

    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, broken))
        patch.setattr(schema, "FORM", schema.FORM + 1)
        with pytest.raises(IncidentError, match="no_such_column"):
            store_at(database)
    assert found(database, "zebra") == ["a"]


@server
def test_who_may_only_read_searches_and_is_told_why_nothing_can_be_written(database, socket_folder):
    name = database.partition("?")[0].rpartition("/")[2]
    put(database, id="a", cause="Guess: zebra.")
    postgres.ask(
        socket_folder,
        name,
        f"CREATE ROLE reader_{name} LOGIN",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{name}",
        # As after an upgrade of the program: its own records are not there yet.
        "DELETE FROM firstfault_records WHERE edition <> ''",
    )
    reader = postgres.address(socket_folder, name, f"reader_{name}")
    assert found(reader, "zebra") == ["a"]
    with pytest.raises(IncidentError, match="permission denied"):
        put(reader, id="b")


@server
def test_a_killed_writer_leaves_whole_records_only(database):
    code = (
        "import sys; from contextlib import closing; from firstfault.incidents.places import store_at\n"
        "text = sys.stdin.read()\n"
        "with closing(store_at(sys.argv[1])) as store:\n"
        "    for n in range(100000):\n"
        "        store.create(f'k{n}', text.replace('NAME', f'k{n}')); print(n, flush=True)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    writer.stdin.write(text_of(id="NAME"))
    writer.stdin.close()
    for _ in range(3):
        writer.stdout.readline()
    writer.kill()
    writer.wait(timeout=300)
    writer.stdout.close()
    with closing(store_at(database)) as store:
        kept, wrong = store.records()
    assert wrong == []
    assert len(kept) >= 3
    assert set(found(database, "interrupted", limit=1000)) >= {r.id for r in kept}


@server
def test_text_that_the_database_cannot_keep_is_refused_and_a_long_record_is_found(database):
    with pytest.raises(IncidentError, match="no text"):
        put(database, id="a", cause="Guess: \x00.")
    long = " ".join(f"word{n}" for n in range(60_000))
    put(database, id="long", cause=f"Guess: zebra {long} {'x' * 5000} {'again ' * 900}")
    assert found(database, "zebra word77") == ["long"]


@server
def test_another_encoding_is_refused(socket_folder):
    postgres.ask(socket_folder, "postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    with pytest.raises(IncidentError, match="LATIN1"):
        store_at(postgres.address(socket_folder, "latin"))


@server
def test_the_commands_take_an_address_for_a_folder(database, oom, tmp_path, capsys):
    logs = str(oom)
    assert run(["incidents", "new", logs, "--dir", database, "--date", "2026-03-02"]) == 0
    name = capsys.readouterr().out.strip().rpartition("#")[2]
    assert name.startswith("20260302-")
    assert run(["incidents", "search", "--host", "gpu-n017", "--dir", database]) == 0
    assert name in capsys.readouterr().out
    assert run(["incidents", "lint", "--dir", database]) == 0
    assert "1 records read, 0 errors" in capsys.readouterr().out
    assert run(["incidents", "show", name[:12], "--dir", database]) == 0
    assert run(["incidents", "similar", logs, "--dir", database]) == 0
    assert "same fingerprint" in capsys.readouterr().out
    assert run([logs, "--incidents", database]) == 1
    out = capsys.readouterr().out
    assert "Seen before" in out
    assert name in out
    later = tmp_path / "later"
    later.mkdir()
    for file in oom.iterdir():
        (later / file.name).write_text(file.read_text().replace("2026-03-02", "2026-03-04"), encoding="utf-8")
    assert run(["incidents", "verify", name, "--rerun", str(later), "--write", "--dir", database]) == 1
    capsys.readouterr()
    assert run(["incidents", "export", "--format", "jsonl", "--dir", database]) == 0
    assert "recurred" in capsys.readouterr().out


def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path, capsys):
    why = postgres.missing()
    if "not installed" in why and "PostgreSQL" not in why:
        pytest.skip(why)
    place = f"postgresql://ff:s3cretpass@/nothing?host={tmp_path}"
    assert run(["incidents", "search", "x", "--dir", place]) == 2
    said = capsys.readouterr()
    assert "s3cretpass" not in said.out + said.err
    assert "the database of records cannot be used" in said.err


def test_a_port_that_is_no_number_is_told_without_the_password(capsys):
    pytest.importorskip("sqlalchemy")
    assert run(["incidents", "search", "x", "--dir", "postgresql://okada:sesame@db.example:port/records"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no number" in said
    assert "sesame" not in said


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    assert run(["incidents", "search", "x", "--dir", "postgresql://db/x"]) == 2
    assert ".[incidents-server]" in capsys.readouterr().err


def test_a_folder_loads_no_driver(tmp_path):
    code = (
        "import sys; from firstfault.cli.main import run; code = run(['incidents', 'search', 'docker', '--dir', '.'])\n"
        "assert code == 0\nassert not {'sqlalchemy', 'psycopg'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("postgresql://u:p%40ss@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u@h/d?password=abc&sslmode=require", "postgresql://u@h/d?password=***&sslmode=require"),
        ("postgres://h/d", "postgres://h/d"),
        ("postgresql://u:pa/ss@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:p?a#s@s@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@site:secret@h/d", "postgresql://u@site:***@h/d"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
    ],
)
def test_a_password_is_not_shown(place, told):
    assert is_address(place)
    assert shown(place) == told
