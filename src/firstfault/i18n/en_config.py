"""English messages of the report about settings; text only, the keys as in `en`."""

from __future__ import annotations

CONFIG_CHECK: dict[str, str] = {
    "config.ok": "NOTHING WRONG FOUND",
    "config.warn": "TO LOOK AT",
    "config.fail": "WOULD FAIL",
    "config.unknown": "NOT CHECKABLE",
    "results.trial": "trial",
    "results.state": "state",
    "results.note": "note",
    "config.files": "files",
    "config.world": "ranks",
    "config.world_from": "{n} (by {source})",
    "config.fails": "What would stop the job or change what it does",
    "config.warns": "To look at",
    "config.not_checkables": "Not checked",
    "config.oks": "Right",
    "config.why": "why: {text}",
    "config.message": "it would say: {text}",
    "config.signature": "in a log: {text}",
    "config.fix": "do: {text}",
    "config.more": "{n} more that are right or could not be checked ({option})",
}
