"""Looks at one path and prints what it found as JSON: run as a program of its own, because a dead file system stops who asks.

Standard library only, and nothing of ours: it is started without the site's packages.
"""

import json
import os
import sys
import time


def look(path: str, *, write: bool) -> dict[str, object]:
    """What is true of a path; with `write` a small file is written there and removed."""
    found: dict[str, object] = {"real": os.path.realpath(path)}
    try:
        status = os.stat(path)
    except OSError as error:
        return {**found, "exists": False, "refused": error.strerror}
    is_folder = os.path.isdir(path)
    found |= {
        "exists": True,
        "is_folder": is_folder,
        "device": f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}",
        "readable": os.access(path, os.R_OK | (os.X_OK if is_folder else 0)),
    }
    whole = os.statvfs(path)
    if whole.f_blocks:
        found |= {"free_mb": whole.f_bavail * whole.f_frsize >> 20, "total_mb": whole.f_blocks * whole.f_frsize >> 20}
    if whole.f_files:
        found["free_inodes"] = whole.f_favail
    if not write:
        return found | {"writable": os.access(path, os.W_OK)}
    if not is_folder:
        return found | {"writable": False, "refused": "it is no folder"}
    return found | _written(path)


def _written(folder: str) -> dict[str, object]:
    name = os.path.join(folder, f".firstfault-probe-{os.getpid()}-{time.time_ns()}")
    data = b"firstfault " * 372
    begin = time.monotonic()
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return {"writable": False, "refused": error.strerror}
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
        same = os.pread(descriptor, len(data), 0) == data
    except OSError as error:
        return {"writable": False, "refused": error.strerror}
    finally:
        os.close(descriptor)
        os.unlink(name)
    spent = (time.monotonic() - begin) * 1000
    return {"writable": same, "refused": "" if same else "it gave back other bytes", "write_ms": round(spent, 1)}


if __name__ == "__main__":
    json.dump(look(sys.argv[1], write=sys.argv[2] == "write"), sys.stdout)
