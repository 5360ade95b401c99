"""Faults put into a simulated job, each with its truth: who it was, and what may be said of the reason."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from recorder.simulate import MS, Group, Rank, Room, Work, mesh, training


@dataclass(frozen=True)
class Incident:
    """A job that stands still, and why."""

    name: str
    room: Room
    culprits: tuple[int, ...]
    """Who did it; empty where it is nobody's, or cannot be known."""
    categories: tuple[str, ...]
    """What may be said."""
    without: tuple[int, ...] = ()
    """Ranks that left no dump."""
    sure: bool = True
    """Whether the culprits must be named, not only nobody else."""


Shape = tuple[int, int, int]
"""Tensor, pipeline and data parallel size."""


def _job(shape: Shape, steps: int = 4) -> tuple[dict[str, Group], Room]:
    groups = mesh(*shape)
    world = shape[0] * shape[1] * shape[2]
    return groups, Room(groups, training(groups, world, steps))


def _of_last_step(rank: Rank, steps: int = 4) -> int:
    """Index of the first work of the last step of a program."""
    return len(rank.program) // steps * (steps - 1)


def _collectives(rank: Rank, steps: int = 4) -> list[int]:
    """Indexes of the collectives of the last step."""
    begin = _of_last_step(rank, steps)
    return [i for i in range(begin, len(rank.program)) if rank.program[i].peer is None]


def stopped(shape: Shape, seed: int, number: int = 1) -> Incident:
    """Ranks that never issue the first work of the last step."""
    _, room = _job(shape)
    picks = random.Random(seed).sample(range(len(room.ranks)), number)
    for pick in picks:
        room.ranks[pick].stops_at = _of_last_step(room.ranks[pick])
    room.run()
    return Incident("stopped", room, tuple(sorted(picks)), ("data_loading_stall", "unknown"))


def stopped_midway(shape: Shape, seed: int) -> Incident:
    """A rank that stops somewhere in the last step."""
    _, room = _job(shape)
    pick = random.Random(seed).randrange(len(room.ranks))
    rank = room.ranks[pick]
    rank.stops_at = random.Random(seed + 1).randrange(_of_last_step(rank) + 1, len(rank.program))
    room.run()
    return Incident("stopped_midway", room, (pick,), ("data_loading_stall", "unknown"))


def dead(shape: Shape, seed: int) -> Incident:
    """A rank that stops and leaves no dump."""
    found = stopped(shape, seed)
    return replace(found, name="dead", categories=("unknown",), without=found.culprits)


def frozen(shape: Shape, seed: int, number: int = 1) -> Incident:
    """Ranks whose processes see no work end any more, though their devices run on for a while."""
    _, room = _job(shape, steps=6)
    picks = random.Random(seed).sample(range(len(room.ranks)), number)
    for pick in picks:
        rank = room.ranks[pick]
        step = len(rank.program) // 6
        rank.blind_from = 3 * step
        rank.stops_at = 5 * step
    room.run()
    return Incident("frozen", room, tuple(sorted(picks)), ("gpu_cuda", "unknown"))


def halted(shape: Shape, seed: int, number: int = 1) -> Incident:
    """Ranks whose devices stop before a work that their programs have issued: all members of its group are inside."""
    _, room = _job(shape)
    picks = random.Random(seed).sample(range(len(room.ranks)), number)
    for pick in picks:
        rank = room.ranks[pick]
        rank.halts_at = _collectives(rank)[-1]
    room.run()
    return Incident("halted", room, tuple(sorted(picks)), ("network", "gpu_cuda", "unknown"), sure=False)


def _changed(shape: Shape, seed: int, name: str, number: int, **change: object) -> Incident:
    _, room = _job(shape)
    picks = random.Random(seed).sample(range(len(room.ranks)), number)
    for pick in picks:
        program = room.ranks[pick].program
        at = _collectives(room.ranks[pick])[-1]
        program[at] = replace(program[at], **change)
    room.run()
    return Incident(name, room, tuple(sorted(picks)), ("collective_mismatch",))


def other_op(shape: Shape, seed: int, number: int = 1) -> Incident:
    """Ranks that issue another operation than the rest."""
    return _changed(shape, seed, "other_op", number, op="broadcast")


def other_size(shape: Shape, seed: int) -> Incident:
    """A rank that issues another size."""
    return _changed(shape, seed, "other_size", 1, size=(7,))


def other_dtype(shape: Shape, seed: int) -> Incident:
    """A rank that issues another type."""
    return _changed(shape, seed, "other_dtype", 1, dtype="Double")


def late(shape: Shape, seed: int) -> Incident:
    """A rank that comes when the others have given up."""
    _, room = _job(shape)
    pick = random.Random(seed).randrange(len(room.ranks))
    rank = room.ranks[pick]
    rank.sleeps[_collectives(rank)[-1]] = room.timeout + 30_000 * MS
    room.run()
    return Incident("late", room, (pick,), ("data_loading_stall", "unknown"))


def stuck(shape: Shape, seed: int) -> Incident:
    """A collective of all ranks that does not end although all are there."""
    del seed
    _, room = _job(shape)
    room.stuck = lambda work, seq: work.group == "0" and seq == 4
    room.run()
    return Incident("stuck", room, (), ("network", "unknown"))


def circle(shape: Shape, seed: int) -> Incident:
    """Two ranks of one group that issue their collectives of two groups in the other order than their peers."""
    groups, room = _job(shape)
    pick = random.Random(seed).randrange(len(room.ranks))
    rank = room.ranks[pick]
    own = [g for g in groups.values() if pick in g.members]
    small = next(g for g in own if g.name != "0")
    for member in room.ranks:
        begin = _of_last_step(member)
        here = next((g for g in groups.values() if member.number in g.members and g.desc == small.desc), None)
        first, second = Work(here.name if here else "0", "all_reduce"), Work("0", "all_reduce", dtype="Float")
        member.program[begin:] = [second, first] if member is rank else [first, second]
    room.run()
    return Incident("circle", room, (pick,), ("collective_mismatch", "unknown"), sure=False)


def face_to_face(shape: Shape, seed: int) -> Incident:
    """Two neighbours of a pipeline that both receive: the later stage waits for what it was to send."""
    groups, room = _job(shape)
    group = random.Random(seed).choice([g for g in groups.values() if g.desc == "PP_GROUP"])
    before, after = group.members[:2]
    program = room.ranks[after].program
    at = next(
        i
        for i in range(_of_last_step(room.ranks[after]), len(program))
        if program[i].op == "send" and program[i].peer == before
    )
    program[at] = replace(program[at], op="recv")
    room.run()
    return Incident("face_to_face", room, (before, after), ("collective_mismatch", "unknown"), sure=False)


def half_outside(shape: Shape, seed: int) -> Incident:
    """One rank issues one collective more than all others."""
    _, room = _job(shape)
    pick = random.Random(seed).randrange(len(room.ranks))
    room.ranks[pick].program.append(Work("0", "all_reduce", (1,), dtype="Float", where="evaluate"))
    room.run()
    return Incident("half_outside", room, (pick,), ("collective_mismatch", "unknown"), sure=False)


def healthy(shape: Shape, seed: int) -> Incident:
    """A job that came through: everything is completed."""
    del seed
    _, room = _job(shape)
    room.run()
    return Incident("healthy", room, (), ("unknown",))


FAULTS = {
    "stopped": stopped,
    "stopped_midway": stopped_midway,
    "dead": dead,
    "frozen": frozen,
    "halted": halted,
    "other_op": other_op,
    "other_size": other_size,
    "other_dtype": other_dtype,
    "late": late,
    "stuck": stuck,
    "circle": circle,
    "half_outside": half_outside,
    "healthy": healthy,
}
