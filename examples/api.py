"""Diagnoses a folder from Python and prints who, what and the line that shows it.

Run it with `python examples/api.py [PATH]`; without a path it takes the bundled incident.
"""

from __future__ import annotations

import sys
from pathlib import Path

import firstfault

paths = sys.argv[1:] or [str(Path(__file__).parent / "incident" / "logs")]
diagnosis = firstfault.diagnose(*paths)

verdict = diagnosis.verdict
print(f"{verdict.category} ({verdict.strength}): {verdict.summary}")
print(f"culprits: ranks {verdict.culprits.ranks}, hosts {verdict.culprits.hosts}")
print(f"first failed: ranks {verdict.first_failed.ranks}")
if verdict.trigger is not None:
    print(f"{verdict.trigger.file}:{verdict.trigger.line}: {verdict.trigger.text}")

# Text has no secrets in it; with `share` it has no names either.
size = len(diagnosis.report("json", share=True))
print(f"as JSON without names: {size} characters")
