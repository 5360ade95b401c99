"""What a machine's log tells long after the ranks gave up waiting is not why they waited, whichever machine tells it."""

from datetime import datetime, timedelta

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

GAVE_UP = datetime(2025, 9, 14, 11, 30, 0)  # noqa: DTZ001 - logs tell no zone
LINES = {
    "link": "mlx5_core 0000:41:00.0 ibp65s0: Link down",
    "xid": "NVRM: Xid (PCI:0000:9b:00): 79, pid=9811, name=python, GPU has fallen off the bus.",
    "nfs": "nfs: server 10.0.9.4 not responding, still trying",
}
WORK = "WorkNCCL(SeqNum=500, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000)"


def job(folder, said, at, host):
    """Two machines of two ranks; rank 3 on n1 is silent, the others gave up at half past eleven; a kernel log beside them."""
    stamp = f"[E{GAVE_UP:%m%d %H:%M:%S}.123456789 ProcessGroupNCCL.cpp:629]"
    for node, ranks in (("n0", (0, 1)), ("n1", (2,))):
        (folder / node).mkdir()
        out = [f"{GAVE_UP - timedelta(minutes=20):%Y-%m-%d %H:%M:%S} host {node} starts, world_size=4"]
        out += [
            f"[rank{r}]:{stamp} [Rank {r}] Watchdog caught collective operation timeout: {WORK} ran for 600053 milliseconds "
            "before timing out."
            for r in ranks
        ]
        (folder / node / "job.out").write_text("\n".join(out) + "\n")
    (folder / "kern.log").write_text(f"{at:%b %d %H:%M:%S} {host} kernel: {LINES[said]}\n")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("said", LINES)
@pytest.mark.parametrize("host", ["n0", "n1"])
@pytest.mark.parametrize("late", [30, 47, 90 + 45, 24 * 60 + 30, 48 * 60], ids="{}min".format)
def test_it_is_not_the_reason(tmp_path, said, host, late):
    found = job(tmp_path, said, GAVE_UP + timedelta(minutes=late), host)
    assert found.strength in {Strength.POSSIBLE, Strength.UNKNOWN}
    assert host not in found.culprits.hosts or found.culprits.strength is not Strength.SUPPORTED


@pytest.mark.parametrize("host", ["n0", "n1"])
@pytest.mark.parametrize(("said", "category"), [("link", Category.NETWORK), ("xid", Category.GPU_CUDA)])
def test_within_the_wait_it_is(tmp_path, said, category, host):
    found = job(tmp_path, said, GAVE_UP - timedelta(minutes=9), host)
    assert found.category is category
    assert found.strength in {Strength.SUPPORTED, Strength.ESTABLISHED}
    assert found.culprits.hosts == [host]


@pytest.mark.parametrize("zone", [60, 8 * 60, 5 * 60 + 30], ids="{}min".format)
def test_a_zone_that_exists_may_put_it_into_the_wait_and_then_it_is_no_more_than_possible(tmp_path, zone):
    found = job(tmp_path, "xid", GAVE_UP + timedelta(minutes=zone - 9), "n1")
    assert found.strength in {Strength.POSSIBLE, Strength.UNKNOWN}


@pytest.mark.parametrize("said", LINES)
@pytest.mark.parametrize("hours", [2, 4, 9.3], ids="{}h".format)
def test_hours_before_the_wait_all_ranks_had_gone_on_since(tmp_path, said, hours):
    # n0 is no place of the rank that never came.
    found = job(tmp_path, said, GAVE_UP - timedelta(minutes=10 + 60 * hours), "n0")
    assert found.strength is Strength.UNKNOWN
    assert found.culprits.ranks == [3]
    assert found.culprits.hosts in ([], ["n1"])


@pytest.mark.parametrize("host", ["n0", "n1"])
def test_some_minutes_before_the_wait_it_may_have_kept_a_rank_from_coming(tmp_path, host):
    found = job(tmp_path, "xid", GAVE_UP - timedelta(minutes=10 + 20), host)
    assert found.category is Category.GPU_CUDA
    assert found.culprits.hosts == [host]
