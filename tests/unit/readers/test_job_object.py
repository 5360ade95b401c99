"""Jobs that SLURM's tools print as JSON tell state, reason and end in the forms of several versions; damage never raises."""

import random

import pytest

from firstfault.model.words import SourceKind
from firstfault.readers.job_object import job_objects
from firstfault.readers.sniff import sniff

SCONTROL = b"""{
  "jobs": [
    {
      "account": "asr",
      "job_id": 481516,
      "end_time": {
        "set": true,
        "infinite": false,
        "number": 1768487482
      },
      "job_state": [
        "TIMEOUT"
      ],
      "state_reason": "TimeLimit"
    }
  ],
  "warnings": []
}
"""
OLD = b"""{
   "meta": {
     "plugin": {
       "type": "openapi\\/dbv0.0.37"
     }
   },
   "jobs": [
     {
       "job_id": 77,
       "state": {
         "current": "NODE_FAIL",
         "reason": "NodeDown"
       },
       "steps": [
         {
           "state": "CANCELLED"
         }
       ],
       "time": {
         "end": 1768487482
       }
     },
     {
       "job_id": 78,
       "state": {
         "current": [
           "COMPLETED"
         ],
         "reason": "None"
       }
     }
   ]
}
"""


def test_a_job_of_scontrol_tells_its_end():
    (job,) = job_objects(SCONTROL)
    assert (job.id, job.state, job.reason, job.end.earliest) == ("481516", "TIMEOUT", "TimeLimit", 1768487482.0)
    assert SCONTROL.split(b"\n")[job.line.line - 1] == b'        "TIMEOUT"'


def test_jobs_of_sacct_in_an_old_and_a_new_form():
    assert [(j.id, j.state, j.reason) for j in job_objects(OLD)] == [
        ("77", "NODE_FAIL", "NodeDown"),
        ("78", "COMPLETED", "None"),
    ]


def test_a_list_in_one_line_is_read_too():
    packed = SCONTROL.replace(b'[\n        "TIMEOUT"\n      ]', b'["TIMEOUT"]')
    assert [j.state for j in job_objects(packed)] == ["TIMEOUT"]


@pytest.mark.parametrize("data", [SCONTROL, OLD])
def test_such_files_are_the_schedulers(data):
    assert sniff(data, data, "job.json").kind is SourceKind.SCHEDULER


def test_damage_never_raises():
    rng = random.Random(3)
    for _ in range(400):
        broken = bytearray(OLD[: rng.randrange(len(OLD))])
        for _ in range(rng.randrange(5)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        for job in job_objects(bytes(broken)):
            assert bytes(broken).split(b"\n")[job.line.line - 1].startswith(job.line.text)
