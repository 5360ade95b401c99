"""A PostgreSQL of the tests' own: its data in a temporary folder, a socket in it, nothing on the network.

Debian keeps the programs below `/usr/lib/postgresql`; others are found on the PATH. The server refuses to run as root, so
there it runs as the user that the package makes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNERS = ("postgres", "nobody")
"""Users as which it may run where the tests are root."""


def missing() -> str:
    """Why no server can be started here; empty where one can."""
    try:
        import psycopg
        import sqlalchemy
    except ImportError as error:
        return f"{error.name} is not installed"
    del psycopg, sqlalchemy
    return "" if programs() is not None else "PostgreSQL is not installed (Debian: apt-get install postgresql)"


def programs() -> Path | None:
    """The folder that holds `initdb` and `postgres`."""
    kept = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].split(".")[0]))
    found = shutil.which("initdb")
    place = kept[-1] if kept else None if found is None else Path(found).resolve()
    return place.parent if place is not None and (place.parent / "postgres").exists() else None


def _owner() -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    for name in OWNERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no other user here")


def _run(command: list[object], folder: str, owner: pwd.struct_passwd | None) -> None:
    """Runs one of its programs in its folder, as the user that owns the data."""
    as_owner = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    plain = {**os.environ, "LC_ALL": "C"}
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, cwd=folder, env=plain, **as_owner)


@contextmanager
def server() -> Iterator[str]:
    """A running server; the folder of its socket, under which a user `ff` may do everything."""
    binaries, owner = programs(), _owner()
    assert binaries is not None, missing()
    # A path of a socket has at most about 100 bytes: not below pytest's own folders.
    with tempfile.TemporaryDirectory(prefix="ff-pg-", dir="/tmp") as folder:
        if owner is not None:
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = f"{folder}/data"
        make = [binaries / "initdb", "-D", data, "-A", "trust", "-U", "ff", "--encoding", "UTF8", "--no-locale", "-N"]
        _run(make, folder, owner)
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=50"
        control = [binaries / "pg_ctl", "-D", data, "-w", "-t", "120"]
        _run([*control, "-l", f"{folder}/log", "-o", settings, "start"], folder, owner)
        try:
            yield folder
        finally:
            _run([*control, "-m", "immediate", "stop"], folder, owner)


def address(folder: str, name: str, user: str = "ff") -> str:
    """The address of a database of the server."""
    return f"postgresql://{user}@/{name}?host={folder}"


def ask(folder: str, name: str, *statements: str) -> None:
    """Runs statements in a database, each on its own."""
    import psycopg

    with psycopg.connect(host=folder, user="ff", dbname=name, autocommit=True) as base:
        for statement in statements:
            base.execute(statement)
