"""Which moments the stamp of a line may mean; what is told of something is no stamp."""

from datetime import datetime, timezone

import pytest

from firstfault.incidents.days import reading

NOON = "2024-12-01 10:03:10"


def at(text):
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(timezone.utc)


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("2024-12-01 10:03:10,123 INFO step 3", NOON, NOON),
        ("[rank0] 2024年12月01日 10:03:10 INFO step 3", NOON, NOON),
        ("2024年12月1日 上午10时03分10秒 开始训练", NOON, NOON),
        ("2024年11月3日 下午3:05 保存检查点", "2024-11-03 15:05:00", "2024-11-03 15:05:00"),
        ("2024年11月3日 训练开始", "2024-11-03 00:00:00", "2024-11-04 00:00:00"),
        ("[rank0] 1733047200.123 INFO step 3", "2024-12-01 10:00:00+00:00", "2024-12-01 10:00:00+00:00"),
        ("1733047200123 INFO step 3", "2024-12-01 10:00:00+00:00", "2024-12-01 10:00:00+00:00"),
        ('{"level": "info", "ts": 1733047200.5, "msg": "step 3"}', "2024-12-01 10:00:00+00:00", "2024-12-01 10:00:00+00:00"),
        ('{"timestamp":"2024-12-01T10:03:10Z","step":3}', "2024-12-01 10:03:10+00:00", "2024-12-01 10:03:10+00:00"),
        ("24/12/01 10:03:10 INFO step 3", NOON, NOON),
        ("24/12/23 10:03:10 INFO step 3", "2023-12-24 10:03:10", "2024-12-23 10:03:10"),
        ("20241201-10:03:10 INFO step 3", NOON, NOON),
        ("20241201T100310 step 3", NOON, NOON),
        ("05/12/2024 10:03:10 step 3", "2024-05-12 10:03:10", "2024-12-05 10:03:10"),
        ("05.12.2024 10:03:10 step 3", "2024-12-05 10:03:10", "2024-12-05 10:03:10"),
        ("25/12/2024 10:03:10 step 3", "2024-12-25 10:03:10", "2024-12-25 10:03:10"),
        ("12/1/2024 10:03:10 PM step 3", "2024-01-12 22:03:10", "2024-12-01 22:03:10"),
        ("Sun Dec  1 10:03:10 2024 step 3", NOON, NOON),
        ("Sun Dec  1 10:03:10 CST 2024 step 3", NOON, NOON),
        ("01/Dec/2024:10:03:10 +0800 step 3", "2024-12-01 10:03:10+08:00", "2024-12-01 10:03:10+08:00"),
        ("[INFO|trainer.py:2058] 2024-12-01 10:03:10,330 >> Loading", NOON, NOON),
        ("node-4: [rank3]: 2024-12-01T10:03:10-1400 step 3", "2024-12-01 10:03:10-14:00", "2024-12-01 10:03:10-14:00"),
    ],
)  # fmt: skip
def test_a_stamp_is_read_in_every_form(line, low, high):
    found = reading(line)
    assert (found.low.replace(microsecond=0), found.high.replace(microsecond=0)) == (at(low), at(high))


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("[rank0] I1201 10:03:10.123456 77 train.py:3] step 3", (12, 1, 10, 3, 10)),
        ("W1201 10:03:10.233000 123 torch/distributed/run.py:3]", (12, 1, 10, 3, 10)),
        ("Dec  1 10:03:10 gpu-n017 trainer: step 3", (12, 1, 10, 3, 10)),
        ("INFO 12-01 10:03:10 [loop.py:3] step 3", (12, 1, 10, 3, 10)),
        ("12月1日 训练开始", (12, 1)),
    ],
)
def test_a_day_without_a_year_has_none(line, day):
    found = reading(line)
    assert (found.low, found.yearless) == (None, day)


@pytest.mark.parametrize(
    "line",
    [
        "Python 3.10.12 (main, Nov 20 2023, 15:14:05) [GCC 11.4.0]",
        "Built on Tue Feb 27 16:19:38 PST 2024",
        "the data was made on 2023-01-02 10:00:00",
        "step 1733047200 loss 1.2",
        "10:03:10 step 3",
        "connected to 192.168.10.12 port 29500",
        "loading /data/2024-12-01/shard_00.tar",
        "seed 20241201, version 1.12.2024",
        "[ 8123.456789] NVRM: Xid",
    ],
)
def test_what_is_told_of_something_is_no_stamp(line):
    assert reading(line) is None
