"""Words by which schedulers say how a job ended, whether a person hands them in or a table in the evidence holds them.

Knows words only: which job a word is about, and what follows from it, is decided elsewhere.
"""

from __future__ import annotations

COMPLETED_STATES = frozenset({"COMPLETED", "CD", "SUCCEEDED", "COMPLETE", "SUCCESS"})
FAILED_STATES = frozenset(
    {"FAILED", "F", "TIMEOUT", "TO", "NODE_FAIL", "NF", "PREEMPTED", "PR", "OUT_OF_MEMORY", "OOM", "CANCELLED", "CA",
     "BOOT_FAIL", "BF", "DEADLINE", "DL", "ERROR", "EVICTED", "OOMKILLED"}
)  # fmt: skip

OPEN_STATES = frozenset(
    {"RUNNING", "R", "PENDING", "PD", "SUSPENDED", "S", "REQUEUED", "RQ", "RESIZING", "RS", "COMPLETING", "CG",
     "CONFIGURING", "CF", "STOPPED", "ST", "SIGNALING", "SI", "STAGE_OUT", "SO", "REVOKED", "RV"}
)  # fmt: skip
"""States that tell of no end."""


def known_state(word: str) -> str | None:
    """A scheduler's state by its whole name; None for a word that no scheduler has.

    Args:
        word: as tables print it: `CANCELLED by 1000`, or cut off, as `OUT_OF_ME+`.
    """
    first_word = word.strip().upper().split()[:1]
    if not first_word:
        return None
    state = first_word[0]
    states = COMPLETED_STATES | FAILED_STATES | OPEN_STATES
    if state.endswith("+"):
        cut = state.rstrip("+")
        return next((s for s in sorted(states) if len(cut) > 2 and s.startswith(cut)), None)
    return state if state in states else None
