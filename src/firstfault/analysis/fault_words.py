"""Families of faults that plain words tell: those of the operating system and of any logger, not of one program.

A family is what an expert sees in a line that he never saw before; it is a possibility at most. Decides nothing about a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Domain, Layer

if TYPE_CHECKING:
    import re  # noqa: TC004 - the type of a field that nothing resolves


class Family(Struct, frozen=True, kw_only=True):
    """A kind of fault that plain words tell."""

    title: str
    words: re.Pattern[str]
    category: Category
    domain: Domain
    layer: Layer
    beside: re.Pattern[str] | None = None
    """What must stand in the same line, where the words alone are of many kinds."""
    root: bool = True
    """False where it mostly follows from something else: it counts only where no other family is told."""
    strict: bool = False
    """The words are common ones: the line must itself be of an error's level or say that all is over."""
    soft: bool = False
    """Programs often go on after it: alone at the end of a log it does not tell that the program failed."""
    own: bool = True
    """Whether it is the speaker's own matter, so that the rank may be named."""

    @property
    def said(self) -> str:
        """Its title as the second half of a sentence."""
        return f"{self.title[0].lower()}{self.title[1:]}"


_DEVICE = lazy(
    r"\b(?:[gG][pP][uU]s?|CUDA|cuda|HIP|XPU|xpu|NPU|npu|HPU|hpu|MLU|TPU|tpu|HBM|VRAM|[dD]evice memory|on DEVICE|on device|NRT|TDRV|NCs?|"
    r"[nN]euron(?:[cC]ore)?|[aA]ccelerator|[lL]evel.?[zZ]ero|AICore|aicore)\b|\b(?:NRT|TDRV|CUDA|HIP|ACL)_"
)
_PATH = lazy(r"(?:^|[\s'\"(=:])(?:/[\w.+-]+){2,}|\b(?:s3|gs|ais|hdfs)://|\b(?:stripe|shard|bucket|mount|volume)\b")
FAMILIES = (
    Family(
        title="The memory of a device did not suffice",
        words=lazy(r"(?i)out of (?:\w+ )?memory|failed to alloc\w*|alloc\w* (?:has )?failed|RESOURCE_EXHAUSTED|cannot alloc\w*|could not alloc\w*"),
        beside=_DEVICE,
        category=Category.GPU_CUDA, domain=Domain.MEMORY, layer=Layer.RUNTIME,
    ),
    Family(
        title="A device failed",
        words=lazy(r"(?i)\buncorrect(?:able|ed)|\bECC\b|device (?:is |was )?lost|fell off|hardware error|HW_ERR|illegal (?:memory )?(?:access|address)|unrecoverable|device fault|MTE error|aicore exception"),
        beside=_DEVICE,
        category=Category.GPU_CUDA, domain=Domain.HARDWARE, layer=Layer.RUNTIME,
    ),
    Family(
        title="A file system had no room or took no writes",
        words=lazy(r"(?i)no space left|quota exceeded|\b(?:ENOSPC|EDQUOT|EROFS)\b|file ?system (?:is )?full|disk (?:is )?full|read-only file system"),
        category=Category.STORAGE_IO, domain=Domain.DATA, layer=Layer.STORAGE, own=False,
    ),
    Family(
        title="A read or write of storage failed",
        words=lazy(r"(?i)input/output error|\b(?:EIO|ESTALE|EREMOTEIO)\b|stale (?:nfs )?file handle|remote I/O error|communication error on send|structure needs cleaning"),
        category=Category.STORAGE_IO, domain=Domain.DATA, layer=Layer.STORAGE, own=False,
    ),
    Family(
        title="A server of storage did not answer",
        words=lazy(r"\b(?:ENOTCONN|ECONNRE(?:SET|FUSED)|ETIMEDOUT|EHOSTUNREACH|ESHUTDOWN)\b|(?i:transport endpoint is not connected)"),
        beside=_PATH,
        category=Category.STORAGE_IO, domain=Domain.DATA, layer=Layer.STORAGE, own=False,
    ),
    Family(
        title="The memory of a host, or a limit on it, did not suffice",
        words=lazy(r"(?i)out of memory|cannot allocate memory|\bENOMEM\b|insufficient (?:virtual |system |host )?memory|(?:exceed\w*|over) (?:its |the |their )?(?:\w+ )?memory|memory (?:limit|allotment|quota)\b|OutOfMemory|\boom[- ]?kill\w*|memory allocation failed|failed to allocate|bad_alloc"),
        category=Category.INFRASTRUCTURE, domain=Domain.MEMORY, layer=Layer.HOST,
    ),
    Family(
        title="Access was refused",
        words=lazy(r"(?i)permission denied|operation not permitted|\b(?:EACCES|EPERM)\b|access ?denied"),
        category=Category.SOFTWARE, domain=Domain.CONFIG, layer=Layer.STORAGE, soft=True,
    ),
    Family(
        title="A program that was to be run is not there",
        words=lazy(r"(?i)\b(?:g?make(?:\[\d{1,3}\])?|sh|bash|dash|env|sudo|nohup|xargs|exec|execvp|execve|execv)(?:: (?:line )?\d{1,6})?:? [^\n]{0,80}?: (?:no such file or directory|(?:command )?not found)"),
        beside=lazy(r"(?i)^(?![^\n]{0,40}\b(?:source|cd): )"),
        category=Category.SOFTWARE, domain=Domain.CONFIG, layer=Layer.CONTAINER, soft=True,
    ),
    Family(
        title="A file that was asked for is not there",
        words=lazy(r"(?i)no such file or directory|\bENOENT\b|file not found|(?:cannot|can't|could not) (?:open|find) (?:the )?file"),
        category=Category.DATA, domain=Domain.DATA, layer=Layer.STORAGE, soft=True,
    ),
    Family(
        title="Numbers that are none ended the run",
        words=lazy(r"\b(?:[nN]a[nN]s?|NANs?|[iI]nf|INF|[nN]on-?finite)\b|\bdiverged\b"),
        strict=True, soft=True,
        category=Category.NUMERICAL, domain=Domain.COMPUTE, layer=Layer.RUNTIME,
    ),
    Family(
        title="A check of the program's own failed, or it crashed",
        words=lazy(r"(?i)assertion (?:`[^`\n]{1,80}` )?failed|invariant \S{0,40} ?(?:violated|broken)|segmentation fault|\bsegfault\b|core dumped|illegal instruction|\bpanicked at\b|stack overflow|double free|bus error"),
        category=Category.SOFTWARE, domain=Domain.CONFIG, layer=Layer.RUNTIME, root=False,
    ),
    Family(
        title="The job's place was taken from it",
        words=lazy(r"(?i)\b(?:preempted|evicted|wall ?(?:clock )?time (?:limit )?(?:exceeded|reached)|time limit (?:exceeded|reached))\b|\bnode(?: has)? (?:failed|failure|lost|died)\b|\bOOM killed\b"),
        category=Category.INFRASTRUCTURE, domain=Domain.CONFIG, layer=Layer.LAUNCHER, own=False,
    ),
    Family(
        title="A connection could not be made or fell silent",
        words=lazy(r"(?i)connection (?:refused|timed out)|\b(?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\b|no route to host|network (?:is )?unreachable|host (?:is )?unreachable"),
        category=Category.NETWORK, domain=Domain.COMMUNICATION, layer=Layer.NETWORK, root=False, own=False, soft=True,
    ),
    Family(
        title="An exception that the log names ended the run",
        words=lazy(r"\b[A-Z]\w{2,60}(?:Error|Exception): \S"),
        category=Category.SOFTWARE, domain=Domain.CONFIG, layer=Layer.RUNTIME, root=False, soft=True,
    ),
)  # fmt: skip
"""In the order in which one line is asked: the more particular first."""


def family_of(text: str) -> Family | None:
    """The family of fault that a line's words tell; None where they tell none."""
    for family in FAMILIES:
        if family.words.search(text) is not None and (family.beside is None or family.beside.search(text) is not None):
            return family
    return None


_ABOVE = lazy(
    r"(?i)\b(?:inner |previous |original |actual )?(?:error|exception|failure|reason|cause|message|log)s?\b[^\n]{0,40}"
    r"\b(?:(?:is|are|was|were|as) )?(?:reported|printed|shown|listed|logged|given) (?:as )?above\b"
    r"|\bsee (?:the )?(?:error|exception|message|log|output)s?\b[^\n]{0,20}\babove\b"
)


COMMON = frozenset({"RuntimeError", "Exception"})
"""Classes of exceptions that say nothing: what is the matter, the message alone tells."""


def refers_back(message: str) -> bool:
    """Whether an exception says itself that the error is one that was printed before it."""
    return _ABOVE.search(message) is not None


def device_family(message: str) -> Family | None:
    """The family of fault of a device that the words of an exception tell, where its class is a common one; else None."""
    family = family_of(message)
    return family if family is not None and family.category is Category.GPU_CUDA else None
