"""Checks of the variables that NCCL, torch, CUDA and OpenMP read, against the table in `settings.toml`.

The facts stand in the table; nothing about a variable is written here.
"""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from firstfault.preflight.check import Check, Seen, fail, ok, unknown, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from firstfault.preflight.machine import Machine

NEAR = 0.86
"""How alike two names must be for one to be taken for a misspelt other."""
_NUMBER = re.compile(r"\s*-?\d{1,18}\s*")
PREFIXES = ("NCCL_", "TORCH_", "TORCHELASTIC_", "PYTORCH_", "CUDA_", "OMP_", "MKL_", "GLOO_", "UCX_", "FI_", "RDMAV_", "OFI_NCCL_", "RCCL_", "HSA_", "HIP_", "DS_", "ACCELERATE_", "NVTE_", "CUBLAS_", "TRITON_")  # fmt: skip
"""Variables that settings of training begin with."""


@cache
def table() -> dict[str, Any]:
    """The table of variables."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = resources.files("firstfault.preflight").joinpath("settings.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    return found


@cache
def known() -> frozenset[str]:
    """Every name that the table knows, old ones and those that nobody reads too."""
    named = {family["prefix"] + word for family in table()["known"] for word in family["names"].split()}
    return frozenset(named | {r["old"] for r in table()["renamed"]} | {r["name"] for r in table()["unread"]})


@cache
def readable() -> tuple[str, ...]:
    """Names that something reads."""
    unread = {r["name"] for r in table()["unread"]} | {r["old"] for r in table()["renamed"]}
    return tuple(sorted(known() - unread))


def _renamed(machine: Machine) -> Iterator[Seen]:
    env = machine.env
    for row in table()["renamed"]:
        old, new = row["old"], row["new"]
        if old not in env:
            continue
        if row["works"] and new in env and env[new] != env[old]:
            yield warn(f"{old}={env[old]} and {new}={env[new]}: the new name counts", f"Unset {old}.")
        elif row["works"]:
            yield warn(f"{old} is called {new} since {row['since']}; the old name still works", f"Set {new} instead.")
        else:
            yield warn(f"{old} has no effect since {row['since']}", f"Unset it; {new} is what took its place.")
    for row in table()["unread"]:
        if row["name"] in env:
            yield warn(
                f"{row['name']}={env[row['name']]}: neither NCCL nor PyTorch nor CUDA reads that variable", row["fix"]
            )
    if not any(row["old"] in env for row in table()["renamed"]) and not any(
        r["name"] in env for r in table()["unread"]
    ):
        yield ok("no old or unread name is set")


def _misspelt(machine: Machine) -> Iterator[Seen]:
    prefixes = tuple(family["prefix"] for family in table()["known"])
    strange, near = [], 0
    for name in sorted(machine.env):
        if name in known() or not (name.startswith(prefixes) or name.upper().startswith(prefixes)):
            continue
        match = nearest(name)
        if match is None:
            strange.append(name)
            continue
        near += 1
        yield warn(
            f"{name} is not known; did you mean {match}?", f"Set {match}, unless a plugin of yours reads {name}."
        )
    if not near:
        told = f"; not in the table, which may be a plugin's: {', '.join(strange[:8])}" if strange else ""
        yield ok(f"no misspelt name{told}")


def nearest(name: str) -> str | None:
    """The known name that a name is nearly, for one that is not known."""
    upper = name.upper()
    if upper in known():
        return upper
    # Words in another order, or without the prefix of torch.
    for candidate in (f"TORCH_{upper}", upper.removeprefix("TORCH_"), upper.replace("TORCH_NCCL", "NCCL")):
        if candidate in readable():
            return candidate
    words = sorted(upper.split("_"))
    for candidate in readable():
        if sorted(candidate.split("_")) == words or candidate.replace("_", "") == upper.replace("_", ""):
            return candidate
    found = get_close_matches(upper, readable(), n=1, cutoff=NEAR)
    if not found or _numbers_differ(upper, found[0]):
        return None
    return found[0]


def _numbers_differ(one: str, other: str) -> bool:
    """Whether two names differ in whole words, as two settings of one family do: `P2P_DISABLE` and `P2P_ENABLE`."""
    first, second = one.split("_"), other.split("_")
    if len(first) != len(second):
        return abs(len(first) - len(second)) > 1 or not ({*first} <= {*second} or {*second} <= {*first})
    return any(a != b and not get_close_matches(a, [b], n=1, cutoff=0.7) for a, b in zip(first, second, strict=True))


def _values(machine: Machine) -> Iterator[Seen]:
    env, wrong = machine.env, 0
    for row in table()["value"]:
        for name in row["names"]:
            if name in env and not _fits(env[name], row):
                wrong += 1
                yield Seen(row["state"], f"{name}={env[name]!r}: {row['says']}", row["fix"])
    threads = env.get("OMP_NUM_THREADS")
    if threads is not None and not re.fullmatch(r"\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*", threads):
        wrong += 1
        yield warn(f"OMP_NUM_THREADS={threads!r} is no list of numbers from 1: OpenMP passes over it and takes all processors", "Set it to processors of the machine by ranks on it, such as 8.")  # fmt: skip
    if not wrong:
        yield ok("all values are ones that can be read")


def _fits(value: str, row: Mapping[str, Any]) -> bool:
    if "words" in row:
        return (value.lower() if row.get("ignore_case") else value) in {
            w.lower() if row.get("ignore_case") else w for w in row["words"]
        }
    if not _NUMBER.fullmatch(value):
        return False
    return bool(row.get("least", -(1 << 62)) <= int(value) <= row.get("most", 1 << 62))


def _dangerous(machine: Machine) -> Iterator[Seen]:
    env, found = machine.env, 0
    for row in table()["danger"]:
        value = env.get(row["name"])
        if value is None:
            continue
        low = "below" in row and bool(_NUMBER.fullmatch(value)) and int(value) < row["below"]
        if low or ("values" in row and (not row["values"] or value.lower() in {v.lower() for v in row["values"]})):
            found += 1
            yield warn(f"{row['name']}={value}: {row['says']}", row["fix"])
    if not found:
        yield ok("none is set")


def _conflicts(machine: Machine) -> Iterator[Seen]:
    env, found = machine.env, 0
    for row in table()["conflict"]:
        held = [(env.get(row[n]), row[f"{n}_values"]) for n in ("first", "second")]
        if all(v is not None and (not values or v.lower() in {x.lower() for x in values}) for v, values in held):
            found += 1
            yield warn(f"{row['first']}={held[0][0]} and {row['second']}={held[1][0]}: {row['says']}", row["fix"])
    for low, high in (("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")):
        pair = [env.get(low, ""), env.get(high, "")]
        if all(_NUMBER.fullmatch(v) for v in pair) and int(pair[0]) > int(pair[1]):
            found += 1
            yield warn(f"{low}={pair[0]} is more than {high}={pair[1]}", "Make the first the smaller one.")
    if not found:
        yield ok("none against another")


def _allocator(machine: Machine) -> Iterator[Seen]:
    env = machine.env
    names = [n for n in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if n in env]
    if not names:
        yield ok("the caching allocator is not told anything")
        return
    if len(names) == 2 and env[names[0]] != env[names[1]]:
        yield warn(
            f"{names[0]} and {names[1]} say different things; newer versions of PyTorch read the first",
            f"Unset {names[1]}.",
        )
    for name in names:
        yield from _allocator_options(machine, name, env[name])


def _allocator_options(machine: Machine, name: str, text: str) -> Iterator[Seen]:
    since: dict[str, str] = table()["allocator"]["since"]
    version = numbers(machine.torch.get("version", ""))
    wrong = 0
    # A list in brackets holds commas of its own: roundup_power2_divisions:[256:1,512:2].
    for part in filter(None, re.sub(r"\[[^\]]*\]", "[]", text).replace(" ", "").split(",")):
        option, colon, value = part.partition(":")
        if not colon:
            wrong += 1
            yield fail(f"{name}: {part!r} holds no `:`; PyTorch stops at the first use of a GPU", "Write option:value, comma-separated, such as expandable_segments:True.")  # fmt: skip
        elif option not in since:
            near = get_close_matches(option, since, n=1, cutoff=0.75)
            wrong += 1
            yield warn(
                f"{name}: the option {option} is not known" + (f"; did you mean {near[0]}?" if near else ""),
                "PyTorch stops at an unknown option at the first use of a GPU: correct it, or see that this version knows it.",
            )
        elif version and version < numbers(since[option]):
            wrong += 1
            yield fail(
                f"{name}: {option} came with PyTorch {since[option]}, this is {machine.torch['version']}: it stops at the first use of a GPU",
                "Leave the option out.",
            )
        elif option == "expandable_segments" and value not in {"True", "False"}:
            wrong += 1
            yield fail(
                f"{name}: expandable_segments takes True or False, not {value!r}", "Write expandable_segments:True."
            )
        elif option == "max_split_size_mb" and value.isdecimal() and int(value) <= 20:
            wrong += 1
            yield fail(f"{name}: max_split_size_mb must be more than 20, it is {value}", "Set it to 128 or more.")
    if not wrong:
        yield ok(f"{name}={text}")


def numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to be compared; empty where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else ()


def _threads(machine: Machine) -> Seen:
    text = machine.env.get("OMP_NUM_THREADS", "")
    first = text.split(",")[0].strip()
    if not first.isdecimal():
        return ok("OMP_NUM_THREADS is not set") if not text else unknown("OMP_NUM_THREADS cannot be read")
    if int(first) > machine.cpus:
        return warn(
            f"OMP_NUM_THREADS={first}, but this process may use {machine.cpus} processors",
            "Set it to the processors of the rank (--cpus-per-task), or give the rank more.",
        )
    return ok(f"OMP_NUM_THREADS={first} of {machine.cpus} processors")


CHECKS = (
    Check(
        "settings.renamed", "old names, and names that nothing reads", "A setting under an old or wrong name has no effect, and nobody says so.",
        ("torch.deprecated_variable",), _renamed,
    ),
    Check("settings.misspelt", "names that are nearly a known one", "A misspelt setting has no effect, and nobody says so.", (), _misspelt),
    Check(
        "settings.values", "values that can be read", "PyTorch stops at a value that it cannot read; NCCL passes over it.",
        ("nccl.dump_flag_unreadable", "software.process_group"), _values,
    ),
    Check(
        "settings.dangerous", "settings that make a job slow, or a hang endless", "What was set to look for an error is often left in scripts.",
        ("nccl.collective_timeout", "nccl.heartbeat_lost"), _dangerous,
    ),
    Check("settings.conflicts", "settings against each other", "One makes the other void, or NCCL finds no network.", ("nccl.error_invalid_usage",), _conflicts),
    Check(
        "settings.allocator", "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF", "PyTorch stops at an option that it does not know.", ("python.exception_line",), _allocator,
    ),
    Check(
        "settings.threads", "OMP_NUM_THREADS against the processors of the process", "More threads than processors make every step slow.", (), _threads, "rank",
    ),
)  # fmt: skip
