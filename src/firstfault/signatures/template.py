"""The commented file with which a new signature starts.

Text only; what it says about fields must agree with `firstfault.model.patterns.SignatureFile`.
"""

from __future__ import annotations

import json
import re

from firstfault.signatures.check import PLACEHOLDER

_VARIABLE = re.compile(r"\d+|0x[0-9a-f]+|/\S+|'[^']*'|\"[^\"]*\"")
_STAMP = re.compile(
    r"^(?:\[rank\d+\]:\s*|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s*|\[?[A-Z]+\]?:?\s+(?=\S)|\d+:\s+)+"
)

_TEXT = """\
# One signature: a kind of log line. Replace every "{hole}", then run `firstfault signatures check` on the folder.
title = "{hole}: what the line says, in a few words"
# killer: the process ends after it; loop: a crash of the training loop; io: data loading and input; context: a fact.
tier = "loop"
# cause: can be the first fault; effect: follows from one elsewhere; teardown: somebody is ending the job;
# context: a fact or progress; noise: looks like an error and is harmless.
role = "cause"
# storage_io, network, gpu_cuda, data, software, infrastructure, data_loading_stall, collective_mismatch, numerical
category = "software"
# config, memory, communication, compute, data, hardware
domain = "config"
# launcher, container, host, runtime, collective, network, storage, checkpoint, report
layer = "runtime"
# Whose fault it is: rank (its own data, process or GPU), host (the machine), store (a storage target), nobody (shared).
blame = "nobody"
# The most that this line alone proves about the cause: established, supported, possible.
strength = "supported"
# Whether the process ends by it. false: it may recover, and progress afterwards acquits it.
fatal = true
# restart, restart_without, fix_and_rerun, collect_more, none
action = "fix_and_rerun"
# How near to the root it lies where no time tells: 90 hardware and kernel, 80 host and shared store, 60 runtime,
# 50 an exception of a program, 30 a launcher's report, 10 a time-out of those who waited.
depth = 50
# Ids of what follows from it, with `*`: these are then effects of it. `python.exception` is any traceback without a
# signature of its own.
explains = []
# Ids of more general signatures that also match these lines and are to be dropped; `signatures check` names them.
refines = []
# A line matches where one of these does. Plain expressions only: no look-around, no back-references, no `$`,
# `^` only as the first character, `[^…\\n]` instead of `[^…]`, at least four fixed characters, no open end.
patterns = [
  {pattern},
]
# Fields are taken by named groups, `(?P<path>/\\S+)`, here or in the patterns; the name says what it is: rank, local_rank,
# host, pid, device, path, exit_code, signal, step, peer_host, target, pci. A name of your own is kept and shown.
extract = []
# A line in which one of these matches is not of this signature.
unless = []
meaning = "{hole}: what it means, in one to three sentences."
not_proof = "{hole}: what it does not prove."
advice = ["{hole}: the first thing to do."]

[[sources]]
what = "{hole}: where you know this from"
date = "2026-01"

# Real lines that must match, with the fields that they must give.
[[match]]
line = {line}

# A line that looks alike and must not match, with the reason.
[[no_match]]
line = "{hole}: a look-alike"
why = "{hole}: why it is another thing"
"""


def fill(line: str | None) -> str:
    """The file for a new signature; a log line becomes its first example and, numbers and paths left out, its pattern."""
    if line is None:
        return _TEXT.format(hole=PLACEHOLDER, pattern=json.dumps(PLACEHOLDER), line=json.dumps(PLACEHOLDER))
    example = line.rstrip("\r\n")
    return _TEXT.format(hole=PLACEHOLDER, pattern=_toml(_pattern(example)), line=_toml(example))


def _pattern(line: str) -> str:
    """The longest piece of a line that holds no number, path or quoted value."""
    body = _STAMP.sub("", line)
    pieces = [p.strip() for p in _VARIABLE.split(body)]
    return re.sub(r"\\([ '\"#,:=/<>&~%@!-])", r"\1", re.escape(max(pieces, key=len)))


def _toml(text: str) -> str:
    """A TOML string: literal where possible, so that backslashes stay readable."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text).replace("\x7f", "\\u007f")
