"""The full file system is named by what `df` and `mount` show, with whose it is; nothing is claimed that no table shows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

TRACE = """Traceback (most recent call last):
  File "/app/train.py", line 91, in <module>
    main()
  File "/app/train.py", line 60, in main
    torch.save(state, path)
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 850, in save
    _save(obj, opened_zipfile)
"""
STEPS = "".join(
    f"2026-02-11 09:1{i}:00 INFO train: step {i}/1000 loss={3 - i / 1000:.4f} lr=3.0e-04\n" for i in range(8)
)
HEAD = "Filesystem      Size  Used Avail Use% Mounted on\n"
ROOT = "/dev/nvme0n1p4   99G   61G   39G  62% /\ntmpfs            93G   12K   93G   1% /dev/shm\n"
INODES = "Filesystem      Inodes   IUsed   IFree IUse% Mounted on\n"


def verdict(tmp_path: Path, error: str, *, before: str = "", after: str = "", name: str = "gpu-a14.log") -> Verdict:
    (tmp_path / name).write_text(before + STEPS + TRACE + error + "\n" + after, encoding="utf-8")
    return diagnose([tmp_path]).verdict


def test_a_path_is_followed_to_its_mount_and_a_local_disk_is_its_machines(tmp_path: Path) -> None:
    table = HEAD + ROOT + "/dev/nvme1n1    492G  492G   16M 100% /scratch\n"
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_400.pt'", after=table)
    assert (
        "full file system is /scratch (a checkpoint folder, /dev/nvme1n1, a disk of the machine itself)"
        in found.summary
    )
    assert found.culprits.hosts == ["gpu-a14"]
    assert "df -h /scratch" in found.action.steps[0]


def test_a_shared_file_system_is_nobodys_whatever_its_path_looks_like(tmp_path: Path) -> None:
    table = HEAD + ROOT + "10.0.9.4:/export  58T   58T     0 100% /tmp/shared\n"
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/tmp/shared/run/a.pt'", after=table)
    assert "a file system that machines share" in found.summary
    assert found.culprits.hosts == []


def test_inodes_are_told_from_space(tmp_path: Path) -> None:
    table = HEAD + "/dev/md0  3.5T  1.1T  2.4T  31% /data\n" + INODES + "/dev/md0  1000000 1000000 0  100% /data\n"
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/data/cache/ab/cd.lock'", after=table)
    assert "the inodes of /data" in found.summary
    assert "only 31 % of its space" in found.summary


def test_without_a_path_the_place_last_written_to_counts(tmp_path: Path) -> None:
    table = HEAD + ROOT + "mgs@tcp:/scratch  4.5P  4.5P  1T  99% /lustre\n"
    found = verdict(
        tmp_path,
        "OSError: [Errno 28] No space left on device",
        before="Saving checkpoint to /lustre/run7/ckpt/step_400 ...\n",
        after=table,
    )
    assert (
        "/lustre (a checkpoint folder, mgs@tcp:/scratch, a file system that machines share): 99 % used" in found.summary
    )


def test_without_a_path_the_only_full_one_counts_and_of_two_neither(tmp_path: Path) -> None:
    one = HEAD + ROOT + "/dev/nvme1n1 492G 492G 16M 100% /mnt\n"
    assert "is /mnt" in verdict(tmp_path, "OSError: [Errno 28] No space left on device", after=one).summary
    two = one + "/dev/sdb1 492G 492G 0 100% /opt\n"
    assert "file system is" not in verdict(tmp_path, "OSError: [Errno 28] No space left on device", after=two).summary


def test_types_of_mounts_tell_whose_a_file_system_is(tmp_path: Path) -> None:
    mounts = "fs0 on /proj type gpfs (rw,relatime)\n/dev/md0 on /local type xfs (rw,noatime)\n"
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/proj/a/b.pt'", before=mounts)
    assert "/proj (fs0, a file system that machines share)" in found.summary


def test_a_table_with_types_and_a_wrapped_device_are_read(tmp_path: Path) -> None:
    table = (
        "Filesystem     Type     Size  Used Avail Use% Mounted on\n"
        "a.very.long.name.of.a.server.example:/export/home/of/all\n"
        "               nfs4      58T   41T   18T  70% /home\n"
        "/dev/md0       xfs      3.5T  3.5T     0 100% /local\n"
    )
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/local/x/y.pt'", before=table)
    assert "/local (/dev/md0, a disk of the machine itself): 100 % used" in found.summary


def test_a_quota_is_told_from_a_full_file_system(tmp_path: Path) -> None:
    table = HEAD + "nas2:/volume3/home     58T   41T   18T  70% /home\n"
    found = verdict(tmp_path, "OSError: [Errno 122] Disk quota exceeded: '/home/user/ckpt/a.pt'", before=table)
    assert "The quota is one of /home (a checkpoint folder, nas2:/volume3/home" in found.summary
    assert "the file system itself has room" in found.summary
    assert found.culprits.hosts == []


def test_the_root_alone_proves_nothing_of_what_is_mounted_elsewhere(tmp_path: Path) -> None:
    table = HEAD + "/dev/nvme0n1p4   99G   61G   39G  62% /\n"
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/lustre/a/b.pt'", after=table)
    assert "nvme0n1p4" not in found.summary


def test_another_machines_table_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "gpu-a15.log").write_text(
        STEPS + "RANK: 1 host: gpu-a15\n" + HEAD + ROOT + "/dev/md0 3.5T 3.5T 0 100% /local\n", encoding="utf-8"
    )
    (tmp_path / "hosts.out").write_text(
        "srun: error: gpu-a14: task 0: Exited with exit code 1\nsrun: error: gpu-a15: task 1: Killed\n",
        encoding="utf-8",
    )
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/local/x/y.pt'")
    assert "/dev/md0" not in found.summary


@pytest.mark.parametrize(
    "text", ["Filesystem Size Used Avail Use% Mounted on", HEAD + "no rows here", HEAD + "a b c d % /x"]
)
def test_broken_tables_are_no_tables(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, "OSError: [Errno 28] No space left on device: '/x/y.pt'", after=text + "\n")
    assert "file system is" not in found.summary


@pytest.mark.parametrize(
    "path", ["/mnt/a b/c.pt", "/mnt/x;reboot/c.pt", "/mnt/$(reboot)/c.pt", "/mnt/a|sh/c.pt", "/mnt/&/c.pt"]
)
def test_a_path_is_one_word_of_the_command_whatever_it_holds(tmp_path: Path, path: str) -> None:
    found = verdict(tmp_path, f"OSError: [Errno 28] No space left on device: '{path}'")
    command = found.action.steps[0].split("`")[1]
    assert shlex.split(command) == ["df", "-h", f"{path.rpartition('/')[0]};", "df", "-i", path.rpartition("/")[0]]


@pytest.mark.parametrize("path", ["/mnt/`reboot`/c.pt", "/mnt/\x1b[2J/c.pt", "/mnt/\u202eab/c.pt"])
def test_a_path_that_no_quotes_make_harmless_is_in_no_command(tmp_path: Path, path: str) -> None:
    found = verdict(tmp_path, f"OSError: [Errno 28] No space left on device: '{path}'")
    assert not any("/mnt" in step for step in found.action.steps)


def test_a_mount_point_is_one_word_too(tmp_path: Path) -> None:
    table = HEAD + ROOT + "/dev/nvme1n1    492G  492G   16M 100% /scr;reboot\n"
    found = verdict(
        tmp_path, "OSError: [Errno 28] No space left on device: '/scr;reboot/ckpt/step_400.pt'", after=table
    )
    assert "`df -h '/scr;reboot'; df -i '/scr;reboot'`" in found.action.steps[0]
