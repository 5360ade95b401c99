"""No signature takes a line for an event that only quotes its words: in settings, help, a shell trace or a sentence."""

from __future__ import annotations

import pytest

from firstfault.model.words import Role
from firstfault.readers.identity import body_starts
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

LIBRARY = load_library()
BLAMING = [s for s in LIBRARY.signatures if s.spec.role in {Role.CAUSE, Role.EFFECT, Role.TEARDOWN}]
QUOTING = (
    'retry_on: ["{}", "x"]',
    '  - "{}"',
    '--on-error "{}"',
    '    "ignored_errors": ["a", "{}"],',
    'RETRY_ON="{}"',
    "+ grep -q '{}' out.log",
    "[rank3]: skip_patterns: ['{}']",
    "2025-03-04 10:00:02 INFO cfg: retriable_errors=['{}']",
)


def words(signature, matcher):
    """The words by which the examples of a signature are of it; those with quotation marks of their own are left out."""
    for example in signature.spec.match:
        line = example.line.encode()
        found = matcher.find(line, body_starts(line))
        if found:
            text = line[found[0].start : found[0].end].decode()
            if '"' not in text and "'" not in text:
                yield text


@pytest.mark.parametrize("signature", BLAMING, ids=lambda s: s.id)
def test_quoted_words_are_no_event(signature):
    matcher = Matcher(signature.spec)
    for text in words(signature, matcher):
        for form in QUOTING:
            line = form.format(text).encode()
            assert not matcher.find(line, body_starts(line)), line.decode()


@pytest.mark.parametrize(
    "line",
    [
        "preempted: true",
        "  node_failure: restart",
        '  "OOMKilled": false,',
        "time_limit: 24:00:00",
        "args: Namespace(time_limit=3600, oom_killer=False, node_fail='requeue', segfault_handler=True)",
        "  inprocess_restart ............................... False",
        "  --signal=[B:]<sig_num>[@sig_time]  send signal when time limit within time seconds",
        "  --no-requeue  do not requeue the job after NODE FAILURE",
        "#SBATCH --requeue --comment='requeue on NODE_FAIL or CUDA out of memory'",
        "KillOnBadExit           = 0",
        "UnkillableStepTimeout   = 60 sec",
        "declare -x ON_NODE_FAILURE='requeue: Evicted OOMKilled'",
        "SLURM_JOB_COMMENT=was CANCELLED DUE TO TIME LIMIT, OOMKilled",
    ],
)
def test_settings_and_help_are_no_event(line):
    segment = line.encode()
    claimed = [s.id for s in BLAMING if Matcher(s.spec).find(segment, body_starts(segment))]
    assert claimed == []


@pytest.mark.parametrize(
    ("signature", "line"),
    [
        ("storage.no_space", "OSError: [Errno 28] No space left on device: '/ckpt/step_100/rank3.pt' (disk is full)"),
        ("storage.no_space", 'SafetensorError: IoError(Os { code: 28, message: "No space left on device" })'),
        ("storage.no_space", "write failed: OSError(28, 'No space left on device')"),
        ("storage.no_space", 'level=error msg="No space left on device" path=/ckpt/a.pt'),
        ("storage.no_space", '{"level": "error", "message": "No space left on device", "rank": 3}'),
        ("storage.no_space", "couldn't write rank3's part: No space left on device; it's lost"),
        ("kubernetes.oom_killed", '            "OOMKilled": true,'),
        ("kubernetes.oom_killed", "      Reason:       OOMKilled"),
        ("slurm.job_state_preempted", "   JobState=PREEMPTED Reason=None Dependency=(null)"),
    ],
)
def test_what_says_it_is_still_an_event(signature, line):
    segment = line.encode()
    assert Matcher(LIBRARY.by_id[signature]).find(segment, body_starts(segment))
