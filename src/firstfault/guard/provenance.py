"""Under what a trial runs: revision and changes of the source, image, container. Asks git with a time-out and changes nothing."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from firstfault.collect.commands import run
from firstfault.model.trial import Provenance
from firstfault.preflight.container import kind
from firstfault.preflight.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_S = 30.0
DIGEST = re.compile(r"(?:[\w./:-]{1,300}@)?sha256:[0-9a-f]{64}")
"""What names an image for good; a tag does not."""
VARIABLES = ("FIRSTFAULT_IMAGE", "IMAGE_DIGEST")
"""Where a job may say which image it runs in."""


def provenance(
    code: str, env: Mapping[str, str], *, revision: str = "", image: str = "", profile: str = ""
) -> Provenance:
    """Under what a trial runs here.

    Args:
        code: folder of the program's source.
        env: variables of this process.
        revision: of the source, where it is no folder of git.
        image: digest of the container's image; else by a variable.
        profile: digest of the profile.
    """
    machine = Machine(env)
    inside = kind(machine)
    image = image or next((env[n] for n in VARIABLES if DIGEST.fullmatch(env.get(n, ""))), "")
    git = ("git", "--no-optional-locks", "-C", code)
    dirty, changes = None, ""
    head = run((*git, "rev-parse", "HEAD"), LIMIT_S)
    if not head.trouble:
        revision = head.text.decode("ascii", "replace").strip()
        told = run((*git, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--binary"), LIMIT_S)
        if not told.trouble:
            dirty = bool(told.text)
            changes = hashlib.sha256(told.text).hexdigest() if told.text else ""
    elif revision:
        dirty = False
    missing = [] if revision else ["the revision of the source (run it in its repository, or give --revision)"]
    if revision and dirty is None:
        missing.append("whether the source differs from its revision")
    if inside and not image:
        held = next((n for n in VARIABLES if env.get(n)), "")
        missing.append(
            f"the digest of the container's image ({held} holds none: that is sha256: and 64 digits)"
            if held
            else "the digest of the container's image (--image)"
        )
    if not profile:
        missing.append("the profile of the environment")
    return Provenance(
        revision=revision, dirty=dirty, changes=changes, image=image, container=inside, profile=profile, missing=missing
    )
