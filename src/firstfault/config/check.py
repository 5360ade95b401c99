"""The entrance: texts of the files of one job in, all findings out, in a stable order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.config.accelerate import check_accelerate, check_fsdp
from firstfault.config.deepspeed import check_deepspeed
from firstfault.config.facts import gather
from firstfault.config.kinds import read_document
from firstfault.config.megatron import check_megatron, is_megatron
from firstfault.config.nemo import check_lightning, check_nemo
from firstfault.config.nouns import Problem
from firstfault.config.slurm import check_launch, check_slurm
from firstfault.config.torchtitan import check_torchtitan
from firstfault.config.trainer import check_against_accelerate, check_against_deepspeed, check_trainer
from firstfault.model.config import ConfigCheck, ConfigFile, ConfigFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from firstfault.config.facts import Facts
    from firstfault.config.nouns import Document

_SIGNATURES = (
    (
        re.compile(r"Check batch related|(?:is not|must be|should be) divisible by|Invalid parallel dims"),
        "software.batch_arithmetic",
    ),
    (re.compile(r"Please correct the following DeepSpeed|validation errors? for|is not in struct"), "software.config"),
    (
        re.compile(r"error: (?:argument \S+: (?:invalid|expected)|unrecognized)|not used by the HfArgumentParser"),
        "software.arguments",
    ),
    (re.compile(r"server socket has failed to listen"), "torch.port_in_use"),
)
"""What a program says when it dies -> the signature of such a line; a test holds each against the library."""
_ORDER = {"fail": 0, "warn": 1, "not_checkable": 2, "ok": 3}


def check(files: Sequence[tuple[str, str]], *, world_size: int | None = None, step_s: float | None = None) -> ConfigCheck:  # fmt: skip
    """What is wrong with the settings of one job.

    Args:
        files: name and text of each; a text may be a command line.
        world_size: ranks, where the caller knows; else by what the files start.
        step_s: seconds of one step, where the caller knows.
    """
    documents = [document for name, text in files for document in read_document(name, text)]
    facts = gather(documents, world_size, step_s)
    found = list(_all(facts))
    order = {document.name: count for count, document in enumerate(documents)}
    unique = {(p.check, p.state, p.file, p.line, p.what): p for p in found}
    found = sorted(unique.values(), key=lambda p: (_ORDER[p.state], order.get(p.file, 0), p.line or 0, p.check, p.what))
    return ConfigCheck(
        state=_state(found, documents),
        summary=_summary(found, documents),
        world_size=facts.world,
        world_size_from=facts.world_from,
        files=[ConfigFile(file=d.name, kind=d.kind, written_by=d.embedded) for d in documents],
        findings=[_finding(p) for p in found],
    )


def _finding(problem: Problem) -> ConfigFinding:
    fields = {name: getattr(problem, name) for name in problem.__struct_fields__}
    return ConfigFinding(**fields, signature=signature_of(problem.message))


def signature_of(message: str) -> str:
    """The signature that the words of a program have in a log; empty where they have none of their own."""
    return next((name for said, name in _SIGNATURES if said.search(message)), "")


def _all(facts: Facts) -> Iterator[Problem]:
    for document in facts.documents:
        for problem in _of(document, facts):
            yield _placed(problem, document)
    for started in facts.started:
        yield from check_launch(started, facts)
        yield from check_lightning(started, facts)
        if is_megatron(started.launch.arguments):
            yield from check_megatron(started, facts)
    for arguments in facts.trainers:
        yield from check_trainer(arguments, facts)
        yield from check_against_deepspeed(arguments, facts)
        for document in facts.of_kind("accelerate"):
            yield from check_against_accelerate(arguments, document)


def _of(document: Document, facts: Facts) -> Iterator[Problem]:
    yield from document.problems
    match document.kind:
        case "deepspeed":
            yield from check_deepspeed(document, facts)
        case "accelerate":
            yield from check_accelerate(document, facts)
        case "fsdp" if document.tree is not None:
            yield from check_fsdp(document, "")
        case "nemo":
            yield from check_nemo(document, facts)
        case "torchtitan":
            yield from check_torchtitan(document, facts)
        case "slurm":
            yield from check_slurm(document)
        case "unknown" if not document.problems:
            yield Problem(check="file.kind", state="not_checkable", file=document.name, line=1, what="holds settings of no program that is known", why="known are DeepSpeed, accelerate, FSDP, the Hugging Face Trainer, Megatron, NeMo, torchtitan and SLURM scripts")  # fmt: skip
        case _:
            pass


def _placed(problem: Problem, document: Document) -> Problem:
    """A problem of a file that a script holds, at its place in the script."""
    if not document.embedded or problem.file != document.name:
        return problem
    fields = {name: getattr(problem, name) for name in problem.__struct_fields__ if name != "file"}
    return Problem(**fields, file=document.embedded)


def _state(found: list[Problem], documents: list[Document]) -> Literal["ok", "warn", "fail", "unknown"]:
    states = {p.state for p in found}
    if "fail" in states:
        return "fail"
    if all(d.kind == "unknown" for d in documents):
        return "unknown"
    return "warn" if "warn" in states else "ok"


def _summary(found: list[Problem], documents: list[Document]) -> str:
    wrong = sum(p.state == "fail" for p in found)
    look = sum(p.state == "warn" for p in found)
    files = f"{len(documents)} file{'s' if len(documents) != 1 else ''}"
    if wrong:
        first = next(p for p in found if p.state == "fail")
        return f"{wrong} setting{'s' if wrong != 1 else ''} would stop the job or change what it does; first: {first.what}."
    if all(d.kind == "unknown" for d in documents):
        return f"Nothing in {files} could be checked."
    if look:
        return (
            f"Nothing in {files} would stop the job; {look} setting{'s are' if look != 1 else ' is'} to be looked at."
        )
    return f"Nothing wrong was found in {files}."
