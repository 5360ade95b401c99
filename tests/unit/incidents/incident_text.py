"""The text of a record for tests: one that claims nothing, and what makes it verified."""

RECORD = """\
---
schema: firstfault.incident/1
id: {id}
title: "{title}"
state: {state}
date: "{date}"
category: gpu_cuda
form: interrupted
signature: gpu.out_of_memory
message: "OutOfMemoryError: CUDA out of memory"
fingerprint: {fingerprint}
signatures:
  - gpu.out_of_memory
hosts:
  - {host}
fix_links:{fix_links}
verifications:{verifications}
---

# {title}

## Symptom

The job was interrupted.

## Diagnosis

One rank asked for more than there was.

## Root cause

{cause}

## Fix

{fix}

## Verification

{verification}

## In one sentence

{sentence}

## Evidence

```text
a.log:1: torch.OutOfMemoryError: CUDA out of memory
```
"""
DEFAULTS = {
    "id": "20260302-aaaaaaaaaa",
    "title": "Out of memory at the first long sample",
    "state": "open",
    "date": "2026-03-02",
    "fingerprint": '"ff1:0123456789:0123456789:-"',
    "host": "host-0a1b2c3d4e",
    "fix_links": "",
    "verifications": "",
    "cause": "Guess: a sample is longer than the others.",
    "fix": "OPEN: what was changed.",
    "verification": "OPEN: the re-run that held.",
    "sentence": "OPEN: one sentence.",
}
PROVED = {
    "state": "verified",
    "fix_links": "\n  - commit 3f2a91c0",
    "verifications": '\n  - "rerun 2026-03-04 held: completed"',
    "cause": "A sample is longer than the others.",
    "fix": "Samples are cut at 8192.",
    "verification": "The re-run came to its end.",
    "sentence": "One long sample needed 2 GiB more than the card holds; cut at 8192 the run completed.",
}
"""What makes a record verified."""


def text_of(**parts):
    """The text of a record, with some parts changed."""
    return RECORD.format(**{**DEFAULTS, **parts})
