"""Builds cases from lines whose truth is known; for the tests of the analysis."""

from __future__ import annotations

from firstfault.analysis.case import Case, Observations
from firstfault.analysis.scene import build_scene
from firstfault.analysis.state.attempts import Attempts
from firstfault.model.evidence import Event, Failure, ProgressSample, Source, Span, When, Who
from firstfault.model.patterns import Example, Reference, Signature, SignatureFile
from firstfault.model.words import Blame, Category, Mark, Role, SourceKind, Strength, Tier
from firstfault.signatures.library import Library


def signature(name, role=Role.CAUSE, **more):
    spec = {
        "title": name,
        "tier": Tier.KILLER,
        "role": role,
        "patterns": ["x"],
        "meaning": "m.",
        "not_proof": "n.",
        "sources": [Reference("w", "2026-11")],
        "match": [Example("x")],
        "category": Category.SOFTWARE,
    } | more
    return Signature(name, SignatureFile(**spec))


LIBRARY = Library(
    [
        signature("gpu.oom", depth=62, category=Category.GPU_CUDA, blame=Blame.RANK, strength=Strength.ESTABLISHED),
        signature("gpu.out_of_memory", category=Category.GPU_CUDA, marks=[Mark.RUNTIME_WORD]),
        signature("gpu.fell_off", depth=90, category=Category.GPU_CUDA, blame=Blame.HOST),
        signature("host.disk", depth=80, category=Category.STORAGE_IO, blame=Blame.HOST),
        signature("code.crash", depth=50, blame=Blame.RANK, strength=Strength.ESTABLISHED),
        signature("store.target", depth=80, category=Category.STORAGE_IO, blame=Blame.STORE),
        signature("shared.full", depth=80, category=Category.STORAGE_IO),
        signature("net.peer", Role.CAUSE, depth=20, category=Category.NETWORK, blame=Blame.HOST, marks=[Mark.PEER_LOST]),
        signature("slurm.limit", depth=85, category=Category.INFRASTRUCTURE, strength=Strength.ESTABLISHED, marks=[Mark.STOP_SIGNAL]),
        signature("nccl.timeout", Role.EFFECT, depth=10, marks=[Mark.HANG]),
        signature("nccl.abort", Role.TEARDOWN, marks=[Mark.ABORT]),
        signature("run.end", Role.CONTEXT, marks=[Mark.END]),
        signature("run.planned", Role.CONTEXT, marks=[Mark.PLANNED_STOP]),
        signature("run.start", Role.CONTEXT, marks=[Mark.START]),
        signature("run.saved", Role.CONTEXT, marks=[Mark.CHECKPOINT_END]),
        signature("run.restart", Role.CONTEXT, marks=[Mark.ATTEMPT]),
        signature("run.who", Role.CONTEXT, marks=[Mark.IDENTITY]),
        signature("run.member", Role.CONTEXT, marks=[Mark.IDENTITY]),
        signature("run.world", Role.CONTEXT, facts={"world_size": "world", "framework": "=plain", "node_list": "nodes"}),
        signature("run.layout", Role.CONTEXT, facts={"nodes": "nnodes", "ranks_per_node": "nproc"}),
        signature("launcher.exit", Role.EFFECT, depth=30, marks=[Mark.DEATH]),
        signature("slurm.task", Role.EFFECT, depth=30, marks=[Mark.DEATH]),
        signature(
            "launcher.limit", depth=90, category=Category.INFRASTRUCTURE, marks=[Mark.STOP_SIGNAL], strength=Strength.ESTABLISHED
        ),
        signature("launcher.child", Role.TEARDOWN, marks=[Mark.CHILD, Mark.STOP_SIGNAL]),
        signature("launcher.lost", Role.EFFECT, marks=[Mark.CHILD]),
        signature("launcher.stop", Role.TEARDOWN, marks=[Mark.STOP_SIGNAL]),
    ],
    {},
)  # fmt: skip


def event(name, line=1, *, source=0, who=None, rank=None, host=None, at=None, fields=None, count=1, ordinal=0):
    return Event(
        signature=name,
        span=Span(source, line * 100, 10, line, 1),
        text=name,
        who=who or Who(rank=rank, host=host),
        when=When() if at is None else When(earliest=at, latest=at),
        fields=fields or {},
        count=count,
        ordinal=ordinal,
    )


def failure(line=90, *, source=0, rank=None, host=None, code=None, root=False):
    span = Span(source, line * 100, 10, line, 1)
    return Failure(span=span, who=Who(rank=rank, host=host), when=When(), exit_code=code, root=root)


def sample(source, line, step, total=None, at=None):
    when = When() if at is None else When(earliest=at, latest=at)
    return ProgressSample(source, line, line * 100, step=step, total=total, when=when)


def case_of(*events, names=("0.log", "1.log", "2.log"), **more):
    sources = tuple(Source(id=i, path=name, kind=SourceKind.LOG) for i, name in enumerate(names))
    return Case(Observations(sources=sources, events=events, **more), LIBRARY)


def scene_of(*events, number=1, **more):
    case = case_of(*events, **more)
    return build_scene(case, Attempts(case), number)
