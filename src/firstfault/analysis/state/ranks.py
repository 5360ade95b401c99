"""Who is who: joins global rank, local rank, host and pid, only where lines state it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from firstfault.analysis.clocks import steps_of_machines
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.state import files as of_files
from firstfault.analysis.state.exits import count_of, of_a_task, tasks_of, tasks_told
from firstfault.analysis.state.homes import Home, Homes, Stated, by_short_name, children, many, only_of, tasks_speak
from firstfault.analysis.state.joins import process_of, rank_map, size_of_group, world_of_groups
from firstfault.analysis.state.labels import process_far, process_of_label, task_of_label
from firstfault.analysis.state.local_ranks import LocalRanks, labelled
from firstfault.analysis.state.one_machine import Heard, on_one_machine
from firstfault.analysis.state.processes import Processes, only
from firstfault.model.evidence import GlobalRank, LocalRank, Who
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.order import Clock
    from firstfault.analysis.state.joins import Pods
    from firstfault.model.evidence import Event, Failure, SourceId

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1"})


class Roster:
    """The joins of one attempt."""

    filed: set[GlobalRank]  # of steps, and of files whose names alone tell them: members, though no line is theirs
    _started_on: set[str]  # hosts on which a launcher says that it started processes

    def __init__(
        self,
        case: Case,
        events: Iterable[Event],
        failures: Iterable[Failure],
        world: int | None,
        *,
        nodes: int | None = None,
        per_node: int | None = None,
        pods: Pods | None = None,
    ) -> None:
        self.case = case
        self.world = world
        self.pods = pods
        """Where pods run; None where nothing is known of any."""
        self.nodes = nodes
        """The stated number of machines."""
        self.per_node = per_node
        """The stated number of ranks a machine, or that which world and machines give."""
        self.host_of: dict[GlobalRank, str] = {}
        self.local_of: dict[GlobalRank, LocalRank] = {}
        self._processes = Processes()
        self._by_local = LocalRanks()
        self.source_hosts: dict[SourceId, set[str]] = {}
        self.ranks_in: dict[SourceId, set[GlobalRank]] = {}
        """Ranks that lines of each source state as their speaker, or as those of its processes."""
        self._speakers: dict[SourceId, set[tuple[str, int]]] = {}
        """Short host and process of lines that name both."""
        self._named_locals: dict[str, set[LocalRank]] = {}
        """Local ranks whose own lines name each short host."""
        self.seen: set[GlobalRank] = set()
        self.locals_seen: dict[SourceId, set[LocalRank]] = {}
        self._conflicts: set[GlobalRank] = set()
        self._shortest: dict[str, str] = {}
        self._only_of_host: dict[str, GlobalRank] = {}
        self._agreeing: set[int] | None = set()
        """Tasks by which lines are labelled that state a rank of the same number; None where one states another."""
        self._labelled: set[int] = set()
        """Tasks by which lines are labelled."""
        self._told: dict[int, tuple[Event, GlobalRank | None]] = {}
        """What was told of events, which each question asks about again; the event is kept, so that its id is its own."""
        self._complete = False
        kept, listed = tuple(events), tuple(failures)
        self._jax = any(s.startswith("jax.") for s in {e.signature for e in kept})
        self._stated: dict[SourceId, set[str]] = {}
        """Hosts that lines of a source state, other than the one in the name of the file."""
        self._hear(kept, [*((f.who, f.span.source) for f in listed), *many(case)])
        self._host_of_task: dict[int, str] = {}
        told = [e for e in kept if e.signature in case.signatures_with(Mark.IDENTITY)]
        self.whole = world if world is not None else world_of_groups(told)
        """Size of the group of all ranks, as stated or as the groups that processes join show it."""
        self._join(kept, told)
        self._folder_rank = of_files.ranks_of_folders(case, kept, listed, self._by_offset)
        self.seen |= set(self._folder_rank.values())
        self._file_rank = self._named_files() | of_files.ranks_of_files(case, kept, self.ranks_in, world)
        self.tasks_are_ranks = self._tasks_are_ranks()
        self._processes.heard(case, kept)
        self.single_node = self._is_single_node(kept)
        self._homes = Homes(case, self._stated_homes())
        self._complete = True

    def _hear(self, events: Sequence[Event], others: Iterable[tuple[Who, SourceId]]) -> None:
        """Takes in what lines (and `others`, of whom no event is kept) and names of files state about their speakers."""
        told_of = {id(e): (e.who, e.span.source) for e in events if of_a_task(e)}
        # Of thousands of ranks that say ten lines each, one counts; many share their speaker as one object.
        spoken = [*((e.who, e.span.source) for e in events if id(e) not in told_of), *others]
        speakers = list(dict.fromkeys({(id(who), source): (who, source) for who, source in spoken}.values()))
        for who, source in speakers:
            place = self.case.seen.place.get(source)
            name = None if place is None else place.host
            said = who.host
            if name is None or said is None or said == name or said in LOOPBACK:
                continue
            if short_host(said) != short_host(name):
                self._stated.setdefault(source, set()).add(said)
        for who, source in speakers:
            self._learn(who, source)
        named = frozenset(self.source_hosts)  # a scheduler writes of all tasks of the job into the file of one
        for who, source in (t for t in told_of.values() if t[1] not in named):
            self._learn(who, source)
        for sample in self.case.seen.progress:
            if sample.rank is not None:
                self.ranks_in.setdefault(sample.source, set()).add(sample.rank)
        for source, where in self.case.seen.place.items():
            machine = where.host if self.pods is None else where.host or self.pods.node(where.label)
            if machine is not None:
                self.source_hosts.setdefault(source, {machine})
        self.source_hosts |= {s: {h} for s, h in of_files.hosts_of_files(self.case.paths, self.source_hosts).items()}
        self._tables = of_files.hosts_of_tables(self.case.paths, self.source_hosts, self.ranks_in)

    def _join(self, kept: Iterable[Event], told: Sequence[Event]) -> None:
        """Takes in what lines about processes (`told`), steps and exits state of which rank runs where."""
        for event in told:
            self._learn_fields(event)
        self._learn_started(told)
        for told_by in self.case.seen.progress:
            if told_by.rank is not None:
                # A rank that only trains prints nothing but its steps: they tell its process.
                stands = self._host_said(Who(host=told_by.host), told_by.source)
                self._processes.learn(told_by.rank, stands, told_by.pid)
                self._place_rank(told_by.rank, stands)
        deaths = self.case.signatures_with(Mark.DEATH)
        for event in kept:
            if event.signature in deaths:
                self._learn_tasks(event)
        for named in (n for n in self.case.seen.named if n.tasks):
            self._host_of_task |= {n: h for n, (_, _, h) in named.ranks.items() if h and "[" not in h}

    def _named_files(self) -> dict[SourceId, GlobalRank]:
        """Ranks of files whose names alone tell them; all such ranks, and those of steps, are noted as members."""
        named, world = of_files.ranks_of_names(self.case, self.ranks_in, self.world), self.world
        stepped = {p.rank for p in self.case.seen.progress if p.rank is not None and (world is None or p.rank < world)}
        self.filed = stepped.union(named.values())
        return {s: named[path] for s, path in self.case.paths.items() if path in named}

    def _stated_homes(self) -> Stated:
        return Stated(
            host_of=self.host_of,
            conflicts=frozenset(self._conflicts),
            local_of=self.local_of,
            host_of_task=self._host_of_task if self.tasks_are_ranks else {},
            source_hosts=self.source_hosts,
            ranks_in=self.ranks_in,
            speakers=self._speakers,
            one_machine=self.single_node,
            per_node=self.per_node,
        )

    def _host_said(self, who: Who, source: SourceId) -> str | None:
        """The host of a speaker; where the name of the file tells one and its lines state another, the lines count."""
        place = self.case.seen.place.get(source)
        stated = self._stated.get(source)
        if place is None or not stated or who.host != place.host:
            return who.host
        return next(iter(stated)) if len({short_host(h) for h in stated}) == 1 else None

    def _learn(self, who: Who, source: SourceId) -> None:
        said = self._host_said(who, source)
        if said is not None and said not in LOOPBACK:
            self.source_hosts.setdefault(source, set()).add(said)
            process = who.pid if who.pid is not None else who.device if who.device is not None else who.local_rank
            if who.local_rank is not None:
                self._named_locals.setdefault(short_host(said), set()).add(who.local_rank)
            if process is not None:
                self._speakers.setdefault(source, set()).add((short_host(said), process))
        if who.local_rank is not None:
            self.locals_seen.setdefault(source, set()).add(who.local_rank)
        task = task_of_label(who)
        if who.rank is None:
            if task is not None:
                self._labelled.add(task)
            return
        if task is not None and self._agreeing is not None:
            if task == who.rank:
                self._agreeing.add(task)
            else:
                self._agreeing = None
        self.seen.add(who.rank)
        self.ranks_in.setdefault(source, set()).add(who.rank)
        self._place_rank(who.rank, said)
        if who.local_rank is not None:
            self.local_of.setdefault(who.rank, who.local_rank)
            if said is not None:
                self._by_local.add(said, who.local_rank, who.rank)
        if who.pid is not None:
            self._processes.learn(who.rank, None, who.pid)
            if said is not None:
                self._processes.learn(who.rank, said, who.pid)

    def _place_rank(self, rank: GlobalRank, host: str | None) -> None:
        """Notes on which host a rank runs; a second host for it is a contradiction."""
        if host is None or host in LOOPBACK:
            return
        known = self.host_of.setdefault(rank, host)
        if known != host and short_host(known) != short_host(host):
            self._conflicts.add(rank)

    def _learn_fields(self, event: Event) -> None:
        if event.fields.get("pod") is not None and event.fields.get("host") is not None:
            return  # the control plane's word on where a pod runs: its file is of no machine of the job
        stated = count_of(event.fields, "rank")
        rank = self._process_index(event.who) if stated is None else stated
        host = event.fields.get("host") or self._host_said(event.who, event.span.source)
        node, per_node = count_of(event.fields, "node_rank"), count_of(event.fields, "nproc")
        if rank is None and node is not None and per_node == 1:
            # One process a node: the node's number is the rank of all that it says.
            rank = node
            if host is not None:
                self._only_of_host[host] = GlobalRank(node)
        if host is not None and host not in LOOPBACK and rank is None and event.who.rank is None:
            self.source_hosts.setdefault(event.span.source, set()).add(host)
        if rank is None and self.whole is not None and size_of_group(event) == self.whole:
            # A communicator as large as the job: its ranks are the global ones.
            rank = count_of(event.fields, "group_rank")
            pid = count_of(event.fields, "pid")
            if rank is not None:
                self._processes.learn(GlobalRank(rank), host, event.who.pid if pid is None else pid)
        if rank is not None:
            own = GlobalRank(rank)
            self._processes.learn_card(own, host, event.fields.get("pci", ""))
            self.seen.add(own)
            self.ranks_in.setdefault(event.span.source, set()).add(own)
            self._place_rank(own, host)
            if (far := process_far(event.text)) is not None:
                self._processes.learn(own, *far)
            if event.who.local_rank is not None and event.who.label is not None:
                self._by_local.add(labelled(event.who.label), event.who.local_rank, own)

    def _learn_started(self, events: Iterable[Event]) -> None:
        """Joins the map of ranks that a launcher prints with the processes that it says to have started on each host."""
        kept = tuple(events)
        self._started_on = set()
        machines: set[str] = set()
        for event in kept:
            for host, ranks in rank_map(event.fields.get("rank_map", "")).items():
                machines.add(host)
                for local, rank in enumerate(ranks):
                    self._place_rank(rank, host)
                    self._by_local.add(host, LocalRank(local), rank)
        for event in kept:
            started = process_of(event)
            if started is None or event.who.rank is not None:
                continue
            where = self._host_said(event.who, event.span.source)
            label = event.text.lstrip().split(":", maxsplit=1)[0]
            if where is None and label in machines:
                where = label  # a host that the launcher's own map names, in front of the line
            if where is None and len(machines) <= 1:
                where = self.source_host(event.span.source)  # of several machines, an unlabelled line may be any one's
            if where is not None:
                self._started_on.add(where)
            found = None if where is None else only(self._by_local.of(where, started[1]))
            if found is not None:
                self._processes.learn(found, where, started[0])

    def _learn_tasks(self, event: Event) -> None:
        """A scheduler's line about the exit of tasks says on which host they ran."""
        host = event.fields.get("host") or self._host_said(event.who, event.span.source)
        if host is not None and "[" not in host:
            self._host_of_task.update(dict.fromkeys(tasks_of(event), host))

    def _tasks_are_ranks(self) -> bool:
        """Whether the scheduler's tasks are the ranks: as many as ranks, or several on one host (launchers run once a host)."""
        files = self._task_files
        if (
            self.world is not None
            and self.world > 1
            and self._host_of_task
            and set(files.values()) >= set(range(self.world))
        ):
            stated = [s for s in files if s in self.ranks_in]
            if len(stated) > 1 and all(self._one_task(s) for s in stated):
                return True  # a file for each task, and the lines of each speak of the rank with the task's number
        if not self._host_of_task:
            # `srun --label` puts the task before each line: as many as ranks, counted from 0, they are the ranks.
            return self.world is not None and self.world > 1 and self._labelled == set(range(self.world))
        if self.world is not None and self.world > 1:
            agree = self._agreeing is not None and len(self._agreeing) > 1
            agree = agree or max(self._host_of_task) + 1 == self.world
            return agree or tasks_speak(self.case, self._host_of_task, self.source_hosts, self.ranks_in)
        return len(self._host_of_task) > len(set(self._host_of_task.values()))

    def _by_offset(self, folder: str) -> GlobalRank | None:
        """The rank of a process's folder on a host of which some local ranks and their ranks are stated.

        A launcher gives the processes of one machine consecutive ranks, in the order of their local ranks.
        """
        parts = folder.split("/")
        hosts = {short_host(p) for p in parts[:-2]}
        return self._by_local.beside(hosts, int(parts[-1]))

    @cached_property
    def _task_files(self) -> dict[SourceId, int]:
        return of_files.task_numbers(self.case)

    @cached_property
    def _tasks_told(self) -> dict[SourceId, set[int]]:
        return tasks_told(self.case.marked(Mark.DEATH))

    def _one_task(self, source: SourceId) -> bool:
        """Whether a file whose name ends in a number can be one task's: its lines speak of no rank and no task but that one."""
        number = self._task_files.get(source)
        return {*self._tasks_told.get(source, ()), *map(int, self.ranks_in.get(source, ()))} <= {number}

    def _process_index(self, who: Who) -> GlobalRank | None:
        """The rank of a line labelled `[p8]`, as JAX programs label theirs by the process index."""
        return process_of_label(who) if self._jax else None

    def _is_single_node(self, events: Iterable[Event]) -> bool:
        return on_one_machine(
            Heard(
                nodes=self.nodes,
                world=self.world,
                per_node=self.per_node,
                started=children(self.case, events),
                spawned=self.case.marked_spawn,
                hosts={short_host(h) for hs in self.source_hosts.values() for h in hs},
                ranks=self.seen.union(*self.ranks_in.values()),
                local_of=self.local_of,
                labels=self.locals_seen.values(),
                naming=self._named_locals.values(),
            )
        )

    def rank(self, event: Event) -> GlobalRank | None:
        """Global rank that an event is about, by the line or a stated join; None where it cannot be told."""
        if event.who.rank is not None:
            return event.who.rank
        known = self._told.get(id(event))
        if known is not None and known[0] is event:
            return known[1]
        tasks = tasks_of(event) if self.tasks_are_ranks and event.signature.startswith("slurm.") else []
        own = tasks[0] if len(tasks) == 1 else self.rank_of(event.who, event.span.source, event.fields)
        rank = None if own is None else GlobalRank(own)
        if rank is not None and not tasks and self._by_number_alone(event, rank):
            rank = None
        if self._complete:
            self._told[id(event)] = (event, rank)
        return rank

    def _by_number_alone(self, event: Event, rank: GlobalRank) -> bool:
        """Whether the kernel's number of a process alone gives an event that rank, and other lines show that it is not its."""
        pid = count_of(event.fields, "pid")
        bare = {name: told for name, told in event.fields.items() if name != "pid"}
        told = pid is not None and self._processes.refutes(event, self._host_of_line(event), rank)
        return told and self.rank_of(structs.replace(event.who, pid=None), event.span.source, bare) != rank

    def rank_of(self, who: Who, source: SourceId, fields: Mapping[str, str]) -> GlobalRank | None:
        """Global rank of a speaker; `fields` are the named facts of the line."""
        if who.rank is not None:
            return who.rank
        stated = count_of(fields, "rank")
        if stated is not None:
            return GlobalRank(stated)
        task = task_of_label(who)
        if task is not None and self.tasks_are_ranks:
            return GlobalRank(task)
        index = self._process_index(who)
        if index is not None:
            return index
        place = self.case.seen.place.get(source)
        if place is not None and place.rank is not None:
            return place.rank
        if source in self._folder_rank:
            return self._folder_rank[source]
        if self.pods is not None and place is not None and (rank := self.pods.rank(place.label)) is not None:
            return rank
        if source in self._file_rank:
            return self._file_rank[source]
        number = self._task_files.get(source)
        if number is not None and self.tasks_are_ranks and number in self._host_of_task and self._one_task(source):
            return GlobalRank(number)
        local = who.local_rank if who.local_rank is not None else (place.local_rank if place is not None else None)
        host = self._host_said(who, source) or self.file_host(source)
        if local is not None:
            known = None if host is None else self._by_local.of(host, local)
            if (joined := only(known)) is not None:
                return joined
            if who.label is not None and (told := self._by_local.one(labelled(who.label), local)) is not None:
                return told
            if self.single_node:
                return GlobalRank(int(local))
            block = None if host is None or known else self._by_local.beside({short_host(host)}, int(local))
            if block is not None:
                return block
        if host is not None and host in self._only_of_host:
            return self._only_of_host[host]
        pid = who.pid if who.pid is not None else count_of(fields, "pid")
        if pid is None:
            return None
        here = None if host is None else self._processes.of(host, pid)
        if here is not None:
            return here
        return self._processes.anywhere(self._host_said(who, source) or self._tables.get(source), pid, self.host_of)

    def rank_of_process(self, host: str, pid: int) -> GlobalRank | None:
        """The rank of a process on a host, by lines that state both; None where none do, or they differ."""
        return self._processes.of(host, pid)

    def speaks_in(self, source: SourceId) -> bool:
        """Whether any line of a source states a rank as its speaker."""
        return bool(self.ranks_in.get(source))

    def source_host(self, source: SourceId) -> str | None:
        """The one host that lines of a source name; None where there are none or several. It may hold others' lines too."""
        return only_of(self.source_hosts.get(source, ()))

    @cached_property
    def steps(self) -> dict[tuple[str, Clock], dict[int, float]]:
        """When each machine made which step, by short host and clock."""
        return steps_of_machines(self)

    def file_host(self, source: SourceId) -> str | None:
        """The machine whose output a source is; None where it may hold the lines of several, though it names only one."""
        return self._homes.of_file(source) or self._tables.get(source)

    def host(self, event: Event) -> str | None:
        """Host that an event is about: by the line, by its task, by the home of its rank, or by the machine of its file."""
        return self._shown(self._host(event))

    def _shown(self, host: str | None) -> str | None:
        """The shortest form in which lines name a host."""
        if host is not None and host not in self._shortest:
            name = (self.pods.node(host) or self.pods.node(short_host(host)) if self.pods else None) or host
            self._shortest[host] = self._forms.get(short_host(name), name)
        return None if host is None else self._shortest[host]

    @cached_property
    def _forms(self) -> dict[str, str]:
        return by_short_name({*self.host_of.values(), *self._host_of_task.values()}.union(*self.source_hosts.values()))

    def _host_of_line(self, event: Event) -> str | None:
        """The host that a line states, or the name of its file."""
        said = self._host_said(event.who, event.span.source)
        if said is not None and said not in LOOPBACK:
            return said
        stated = event.fields.get("host")
        return None if stated in LOOPBACK else stated

    def _host(self, event: Event) -> str | None:
        stated = self._host_of_line(event)
        if stated is not None:
            return stated
        node = None if self.pods is None else self.pods.node(event.fields.get("pod"))
        if node is not None:
            return node
        task = task_of_label(event.who)
        if task is not None and task in self._host_of_task:
            return self._host_of_task[task]
        rank = self.rank(event)
        home = None if rank is None else self._homes.of(rank)
        return self.file_host(event.span.source) if home is None else home.host

    def home(self, rank: GlobalRank) -> Home | None:
        """Machine of a global rank with the statement by which it is known; None where no mapping is stated."""
        found = self._homes.of(rank)
        return None if found is None else Home(str(self._shown(found.host)), found.by)

    def host_of_rank(self, rank: GlobalRank) -> str | None:
        """Host of a global rank, where a mapping is stated without contradiction (`firstfault.analysis.state.homes`)."""
        return None if (home := self.home(rank)) is None else home.host

    @property
    def machines(self) -> set[str]:
        """Short names of the machines on which ranks, pods or started processes of the job are stated to run."""
        pods = {} if self.pods is None else self.pods.nodes
        return {short_host(h) for h in (*self.host_of.values(), *self._started_on, *pods.values())}

    def ranks_on(self, hosts: Iterable[str]) -> tuple[GlobalRank, ...]:
        """Ranks of which it is stated that they run on some hosts."""
        wanted = {short_host(h) for h in hosts}
        between = (GlobalRank(r) for low, high, _ in self._homes.spans for r in range(low, high + 1))
        known = {*self.seen, *self.host_of, *between}
        return tuple(
            sorted(r for r in known if (home := self._homes.of(r)) is not None and short_host(home.host) in wanted)
        )

    def only_host(self) -> str | None:
        """The only host that any line of the job names; None where there are several or none. No rank need run there."""
        return self._homes.only()
