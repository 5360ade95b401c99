"""A rank has a host only by a stated mapping; a host that a log names once is that of the process that printed the line."""

import pytest
from incident import event, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.state.homes import Mapped, children
from firstfault.analysis.state.nodes import hosts_of
from firstfault.model.evidence import Who


def home(scene, rank):
    found = scene.roster.home(rank)
    return None if found is None else (found.host, found.by)


def crash(line, **more):
    return event("code.crash", line, **more)


def test_a_line_of_the_rank_that_names_its_host_gives_it_to_that_rank_alone():
    scene = scene_of(crash(1, rank=0, host="cn1"), crash(2, rank=1))
    assert home(scene, 0) == ("cn1", Mapped.LINE)
    assert home(scene, 1) is None
    assert hosts_of(scene, [1, 0]) == {0: "cn1"}


def test_the_launchers_report_of_rank_zero_tells_nothing_of_the_other_ranks():
    report = event("launcher.exit", 90, who=Who(rank=0, local_rank=0, host="n1", pid=4100))
    scene = scene_of(crash(1, rank=6), report)
    assert (home(scene, 0), home(scene, 6), home(scene, 13)) == (("n1", Mapped.LINE), None, None)
    assert scene.roster.host(scene.events[0]) is None


def test_an_error_without_a_rank_in_a_shared_log_has_no_host():
    scene = scene_of(crash(1), event("launcher.exit", 90, who=Who(rank=0, local_rank=0, host="n1")))
    assert scene.roster.host(scene.events[0]) is None


def test_two_hosts_stated_of_one_rank_are_none():
    scene = scene_of(crash(1, rank=0, host="cn1"), crash(2, rank=0, host="cn2"))
    assert home(scene, 0) is None


def test_a_job_of_one_stated_machine_runs_on_the_one_that_is_named():
    layout = event("run.layout", 1, fields={"nnodes": "1", "nproc": "4"})
    scene = scene_of(layout, crash(2, rank=0, host="cn1"), crash(3, rank=3))
    assert home(scene, 3) == ("cn1", Mapped.ONE_MACHINE)


def test_of_two_stated_machines_the_named_one_is_not_that_of_a_rank_of_the_other():
    layout = event("run.layout", 1, fields={"nnodes": "2", "nproc": "4"})
    reports = [event("launcher.exit", 90 + n, who=Who(rank=n, local_rank=n, host="n1")) for n in (0, 1)]
    scene = scene_of(layout, crash(2, rank=3), crash(3, rank=6), *reports)
    assert home(scene, 3) == ("n1", Mapped.BLOCK)
    assert home(scene, 6) is None


def test_rank_zero_as_local_rank_zero_shows_no_blocks():
    layout = event("run.layout", 1, fields={"nnodes": "2", "nproc": "4"})
    scene = scene_of(layout, crash(2, rank=3), event("launcher.exit", 9, who=Who(rank=0, local_rank=0, host="n1")))
    assert home(scene, 3) is None


def test_local_ranks_that_are_dealt_out_in_turn_show_no_blocks():
    layout = event("run.layout", 1, fields={"nnodes": "2", "nproc": "2"})
    said = [event("launcher.exit", 9 + r, who=Who(rank=r, local_rank=r // 2, host=f"n{1 + r % 2}")) for r in (0, 2)]
    scene = scene_of(layout, crash(2, rank=3), crash(3, rank=1), *said)
    assert home(scene, 1) is None


def test_one_log_a_machine_gives_its_host_to_the_ranks_that_speak_in_it():
    first = [crash(1, rank=0), crash(2, source=0, host="n1")]
    second = [crash(1, source=1, rank=4), crash(2, source=1, host="n2")]
    scene = scene_of(*first, *second)
    assert (home(scene, 0), home(scene, 4)) == (("n1", Mapped.FILE), ("n2", Mapped.FILE))


def test_a_rank_that_speaks_in_two_logs_shows_that_they_are_not_one_a_machine():
    first = [crash(1, rank=0), crash(2, rank=4), crash(3, host="n1")]
    second = [crash(1, source=1, rank=4), crash(2, source=1, host="n2")]
    scene = scene_of(*first, *second)
    assert home(scene, 4) is None


def test_steps_show_who_speaks_in_a_log():
    shared = tuple(replace(sample(0, 5 + r, 1), rank=r) for r in range(2))
    scene = scene_of(crash(1, host="n1"), crash(1, source=1, rank=1), crash(2, source=1, host="n2"), progress=shared)
    assert home(scene, 1) is None


def test_a_log_in_which_as_many_processes_name_the_host_as_ranks_speak_is_that_hosts():
    named = [event("run.start", 1 + n, who=Who(host="n1", pid=40 + n)) for n in range(2)]
    both = scene_of(*named, crash(8, rank=0), crash(9, rank=1))
    assert home(both, 1) == ("n1", Mapped.FILE)
    assert home(scene_of(*named, *(crash(8 + r, rank=r) for r in range(4))), 1) is None


def test_the_name_of_a_file_that_is_a_pods_or_a_nodes_makes_the_named_host_that_of_its_ranks():
    events = (crash(1, rank=2), crash(2, host="asr-w-0"))
    for place in (Who(label="worker-0"), Who(node_rank=0)):
        assert home(scene_of(*events, place={0: place}), 2) == ("asr-w-0", Mapped.FILE)
    assert home(scene_of(*events), 2) is None


AGENT = (
    "W0621 02:46:19.874000 {} torch/distributed/elastic/multiprocessing/api.py:851] Sending process {} closing signal"
)
OLD = "[2024-06-21 02:46:19,874] torch.distributed.elastic.multiprocessing.api: [WARNING] Sending process {1} closing signal"


def job(launchers, text=AGENT, ranks=4):
    """Ranks speak, a launcher stops all its processes but one, which is lost, and rank 3 is reported with its host."""
    told = [
        replace(event(name, 50 + n, fields={"pid": str(300 + n)}, count=count), text=text.format(launcher, 300 + n))
        for n, launcher in enumerate(launchers)
        for name, count in [("launcher.lost", 1) if n == 0 else ("launcher.child", len(launchers) - 1)]
    ]
    report = event("launcher.exit", 90, who=Who(rank=3, local_rank=3, host="n1"))
    return scene_of(*(crash(1 + r, rank=r) for r in range(ranks)), *told, report)


def test_one_launcher_that_started_as_many_processes_as_there_are_ranks_started_them_all():
    assert home(job([70211] * 4), 1) == ("n1", Mapped.ONE_MACHINE)


def test_processes_that_each_name_the_machine_by_their_local_rank_are_all_there():
    said = [event("run.start", 1 + n, who=Who(local_rank=n, host="n1")) for n in range(3)]
    assert scene_of(*said).roster.rank(event("run.start", 9, who=Who(local_rank=2))) == 2
    mute = event("run.start", 8, who=Who(local_rank=3))
    assert scene_of(*said, mute).roster.rank(mute) is None


@pytest.mark.parametrize("launchers", [[70211, 70211, 911, 911], [70211] * 3, []])
def test_two_launchers_or_too_few_processes_tell_of_no_single_machine(launchers):
    assert home(job(launchers, ranks=6), 5) is None


def test_of_a_launcher_that_prints_no_process_id_it_cannot_be_told_whether_it_is_alone():
    scene = job([70211] * 4, OLD, ranks=6)
    assert children(scene.case, scene.events) == 0
    assert home(scene, 5) is None


def test_a_rank_that_is_its_own_local_rank_shows_the_first_machine_up_to_it():
    scene = job([], ranks=6)
    assert [home(scene, rank) for rank in range(6)] == [
        *[("n1", Mapped.BLOCK)] * 3, ("n1", Mapped.LINE), None, None
    ]  # fmt: skip
    # Rank 0 is local rank 0 on the first machine of any job: it tells of nobody else.
    alone = scene_of(crash(1, rank=1), event("launcher.exit", 90, who=Who(rank=0, local_rank=0, host="n1")))
    assert home(alone, 1) is None


@pytest.mark.parametrize(
    ("tasks", "found"),
    [(["0-3", "4,6-7"], ("cn2", Mapped.BLOCK)), (["0,2,4,6", "1,3,7"], None)],
    ids=["in blocks", "in turn"],
)
def test_a_task_between_those_of_a_block_runs_where_they_do(tasks, found):
    told = [
        event("launcher.exit", 50 + n, host=f"cn{n + 1}", fields={"tasks": spans, "host": f"cn{n + 1}"})
        for n, spans in enumerate(tasks)
    ]
    world = [event("run.world", 1, fields={"world": "8"}), event("run.layout", 2, fields={"nnodes": "2"})]
    assert home(scene_of(*world, *(crash(9 + r, rank=r) for r in range(8)), *told), 5) == found


def test_a_local_rank_on_a_named_host_follows_from_another_of_that_host():
    said = event("run.start", 1, who=Who(local_rank=1, host="n2"))
    pair = event("run.start", 2, who=Who(rank=7, local_rank=3, host="n2"))
    scene = scene_of(said, pair)
    assert scene.roster.rank(said) == 5
    first = event("run.start", 2, who=Who(rank=0, local_rank=0, host="n2"))
    assert scene_of(said, first).roster.rank(said) is None


def test_ranks_between_two_known_ones_of_a_machine_are_on_it_and_those_beside_them_are_not():
    known = {8: ("n1", 0), 11: ("n1", 3), 17: ("n2", 1), 19: ("n2", 3)}
    reports = [
        event("launcher.exit", 80 + rank, who=Who(rank=rank, local_rank=local, host=host))
        for rank, (host, local) in known.items()
    ]
    scene = scene_of(*reports)
    between = {9: "n1", 10: "n1", 18: "n2"}
    assert hosts_of(scene, range(7, 21)) == {rank: host for rank, (host, _) in known.items()} | between
    assert [home(scene, rank) for rank in (7, 12, 16, 20)] == [None] * 4


def task(line, host, number):
    return event("slurm.task", line, host=host, fields={"host": host, "task": str(number)})


def test_a_file_does_not_move_to_the_machine_of_a_task_of_which_the_scheduler_tells_in_it():
    said = (crash(1, rank=0, host="cn1"), crash(2, rank=1), task(90, "cn2", 1))
    scene = scene_of(*said, place={0: Who(host="cn1")})
    assert home(scene, 0) == ("cn1", Mapped.LINE)
    assert home(scene, 1) == ("cn1", Mapped.FILE)


def test_a_list_of_tasks_in_one_log_does_not_mix_the_logs_of_machines():
    world = event("run.world", 1, fields={"world": "8"})
    own = [crash(9, rank=0, host="cn1"), crash(10, rank=1), crash(9, source=1, rank=4, host="cn2")]
    other = [crash(10, source=1, rank=5), task(90, "cn1", 0), task(91, "cn2", 1)]
    assert hosts_of(scene_of(world, *own, *other), range(8)) == {0: "cn1", 1: "cn1", 4: "cn2", 5: "cn2"}


def test_a_rank_that_says_nothing_is_where_those_around_it_are():
    said = [event("run.start", 1, source=s, host=f"cn{s}") for s in (0, 1)]
    block = [crash(9 + r, source=r // 4, rank=r) for r in range(8) if r not in {1, 7}]
    scene = scene_of(*said, *block)
    assert home(scene, 1) == ("cn0", Mapped.BLOCK)
    assert home(scene, 7) is None  # it may be the first one of a third machine
    in_turn = scene_of(*said, *(crash(9 + r, source=r % 2, rank=r) for r in range(8) if r != 4))
    assert home(in_turn, 4) is None


def test_a_rank_with_another_number_on_its_machine_shows_that_there_are_several():
    """Launchers of two machines print the same number of their thread, and together stop as many as there are ranks."""
    told = [
        replace(event(name, 50 + n, fields={"pid": str(300 + n)}, count=count), text=AGENT.format(1402, 300 + n))
        for n, (name, count) in enumerate([("launcher.lost", 1), ("launcher.child", 3), ("launcher.child", 3), ("launcher.child", 3)])
    ]  # fmt: skip
    report = event("launcher.exit", 90, who=Who(rank=2, local_rank=0, host="n2"))
    world = event("run.world", 1, fields={"world": "4"})
    assert home(scene_of(world, *(crash(2 + r, rank=r) for r in range(4)), *told, report), 1) is None
    alike = event("launcher.exit", 90, who=Who(rank=2, local_rank=2, host="n2"))
    assert home(scene_of(world, *(crash(2 + r, rank=r) for r in range(4)), *told, alike), 1) == (
        "n2",
        Mapped.ONE_MACHINE,
    )
