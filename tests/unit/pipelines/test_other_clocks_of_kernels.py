"""A kernel log that states its zone beside logs of a job that state none: what no zone brings near the wait is no reason for it."""

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions


def job(ranks=8):
    text = "".join(f"[rank{rank}] WORLD_SIZE={ranks} host k1 pid {600 + rank}\n" for rank in range(ranks))
    text += "[2025-11-18 08:49:34] iteration 703/50000 | lm loss: 2.1\n"
    for rank in range(ranks):
        head = f"[rank{rank}]:[E1118 09:00:0{rank}.047207545 ProcessGroupNCCL.cpp:"
        work = "WorkNCCL(SeqNum=6201, OpType=ALLREDUCE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000)"
        text += f"{head}632] [Rank {rank}] Watchdog caught collective operation timeout: {work} ran for 600045 milliseconds before timing out.\n"
        text += (
            f"{head}2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 6201 PG status: "
            "last enqueued work: 6201, last completed work: 6200\n"
        )
    return text


FAULTS = [
    "mlx5_core 0000:9a:00.0 eth4: Link down",
    "ixgbe 0000:01:00.1 eno2: NIC Link is Down",
    "LustreError: 167-0: scratch-OST0012-osc-ffff8a: This client was evicted by scratch-OST0012; in progress operations using this service will fail.",
    "NVRM: Xid (PCI:0000:9b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)",
]


def blamed(tmp_path, stamp, fault):
    (tmp_path / "o.log").write_text(job())
    (tmp_path / "k1.kern").write_text(f"{stamp} k1 kernel: {fault}\n")
    return diagnose([str(tmp_path)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize("stamp", ["2025-11-17T08:00:00.000000+00:00", "2025-11-17T08:00:00+0000"])
@pytest.mark.parametrize("fault", FAULTS)
def test_of_the_day_before_it_is_no_reason_on_any_zone(tmp_path, stamp, fault):
    verdict = blamed(tmp_path, stamp, fault)
    assert verdict.culprits.hosts == []
    assert (verdict.trigger is None or verdict.trigger.file) != "k1.kern"


@pytest.mark.parametrize("stamp", ["2025-11-18T08:50:03.000000+00:00", "2025-11-18T00:50:03.000000+00:00"])
@pytest.mark.parametrize("fault", FAULTS[:2])
def test_what_some_zone_puts_into_the_wait_may_be_the_reason(tmp_path, stamp, fault):
    assert blamed(tmp_path, stamp, fault).trigger.file == "k1.kern"
