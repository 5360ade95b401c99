"""Who is where: machines, process groups with their true members, and the numbers that each process gives its groups.

Groups are laid out as Megatron does by default: tensor parallel fastest, then data parallel, then pipeline. Nothing here
knows of time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DESCRIPTIONS = {
    "default": "default_pg",
    "dp": "DATA_PARALLEL_GROUP",
    "tp": "TENSOR_MODEL_PARALLEL_GROUP",
    "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
    "ep": "EXPERT_MODEL_PARALLEL_GROUP",
}


@dataclass(frozen=True)
class Group:
    """One process group; `members` are global ranks, sorted, so that the index is the group rank."""

    kind: str
    guid: str
    members: tuple[int, ...]
    places: dict[int, int] = field(compare=False, hash=False, repr=False)

    @property
    def description(self) -> str:
        return DESCRIPTIONS[self.kind]

    @property
    def size(self) -> int:
        return len(self.members)


@dataclass
class Shape:
    """How the job is laid out over machines and groups."""

    world: int
    per_node: int
    tp: int = 1
    pp: int = 1
    ep: int = 1
    named: bool = True
    """Whether groups carry a description (frameworks set it, plain scripts leave it out but for the default group)."""
    hosts: tuple[str, ...] = ()
    by_kind: dict[str, list[Group]] = field(default_factory=dict)
    by_rank: list[dict[str, Group]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.world % self.per_node or self.world % (self.tp * self.pp) or self.dp % self.ep:
            raise ValueError(f"{self} does not divide evenly")
        self.by_rank = [{} for _ in range(self.world)]
        counter = 0
        for kind, groups in self._members():
            self.by_kind[kind] = []
            for members in groups:
                group = Group(kind, str(counter), tuple(members), {rank: place for place, rank in enumerate(members)})
                counter += 1
                self.by_kind[kind].append(group)
                for rank in members:
                    self.by_rank[rank][kind] = group

    @property
    def dp(self) -> int:
        return self.world // (self.tp * self.pp)

    @property
    def nodes(self) -> int:
        return self.world // self.per_node

    @property
    def split(self) -> bool:
        """Whether there are groups besides the default one."""
        return len(self.by_kind) > 1

    def _members(self) -> list[tuple[str, list[list[int]]]]:
        found = [("default", [list(range(self.world))])]
        if self.tp == self.pp == self.ep == 1:
            return found
        span = self.tp * self.dp
        data = [[p * span + d * self.tp + t for d in range(self.dp)] for p in range(self.pp) for t in range(self.tp)]
        found.append(("dp", data))
        if self.tp > 1:
            found.append(("tp", [list(range(first, first + self.tp)) for first in range(0, self.world, self.tp)]))
        if self.pp > 1:
            found.append(("pp", [[p * span + place for p in range(self.pp)] for place in range(span)]))
        if self.ep > 1:
            found.append(("ep", [group[at : at + self.ep] for group in data for at in range(0, self.dp, self.ep)]))
        return found

    def host(self, rank: int) -> str:
        return self.hosts[rank // self.per_node]

    def local(self, rank: int) -> int:
        return rank % self.per_node

    def stage(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return rank // (self.tp * self.dp)

    def number(self, rank: int, kind: str) -> int:
        """PG ID: the place of the group among those of this process, in the order of creation."""
        return list(self.by_rank[rank]).index(kind)


def host_names(nodes: int, style: int) -> tuple[str, ...]:
    """Machine names in one of a few habits of clusters."""
    first = 17 + 31 * style
    width = max(3, len(str(first + nodes)))
    pattern = ("gpu-a{:0{w}d}", "hgx{:0{w}d}", "nd96-{:0{w}d}", "cn-{:0{w}d}")[style % 4]
    return tuple(pattern.format(first + node, w=width) for node in range(nodes))
