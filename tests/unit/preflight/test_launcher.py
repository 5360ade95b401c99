"""Checks of what starts the ranks: each bad state is made, and good ones of every launcher pass."""

import socket

import pytest
from made import DOCKER, ETH, LO, found, machine, states

from firstfault.preflight.who import who_is

SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "3",
    "SLURM_NTASKS": "16",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_NNODES": "2",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_WORLD_SIZE": "2",
}
MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (SLURM, (3, 3, 16, "SLURM", 3, 3, 16, 2)),
        (TORCHRUN, (9, 1, 16, "torchrun", 9, 1, 16, 2)),
        # torchrun inside of srun: the worker's numbers count, the agent's task is another thing.
        ({**SLURM, **TORCHRUN, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (9, 1, 16, "torchrun", 9, 1, 16, 2)),
        (MPI, (1, 1, 4, "Open MPI", 1, 1, 4, 2)),
        # mpirun in a batch job: what SLURM says is of the daemon that started the ranks.
        ({**MPI, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_NNODES": "2"}, (1, 1, 4, "Open MPI", 1, 1, 4, 2)),
        ({}, (None, None, None, "", None, None, None, None)),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, (0, 0, 2, "", 0, 0, 2, 1)),
    ],
)
def test_who_it_is_by_each_launcher(env, expected):
    assert tuple(who_is(env)) == expected


@pytest.mark.parametrize("env", [SLURM, TORCHRUN, MPI, {}, {"RANK": "0", "WORLD_SIZE": "1"}])
@pytest.mark.parametrize("check", ["launcher.numbers", "launcher.scheduler", "launcher.local_rank", "launcher.devices"])
def test_what_launchers_set_is_in_order(env, check):
    assert states(check, machine(**env)) == {"ok"}


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"RANK": "8", "WORLD_SIZE": "8"}, "ranks go from 0 to 7"),
        ({"RANK": "two", "WORLD_SIZE": "8"}, "'two' is no whole number"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "a world of 0 ranks"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK=4"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "4"}, "more than WORLD_SIZE"),
        ({"WORLD_SIZE": "4"}, "nothing says which rank"),
        ({"RANK": "3"}, "WORLD_SIZE is not set"),
        ({"RANK": "0", "MASTER_ADDR": "node-01"}, "WORLD_SIZE is not set"),
    ],
)
def test_numbers_that_do_not_fit(env, says):
    answers = found("launcher.numbers", machine(**env))
    assert {s for s, _ in answers} == {"fail"}
    assert any(says in text for _, text in answers)


def test_rank_0_alone_may_be_left_over():
    assert states("launcher.numbers", machine(RANK="0")) == {"warn"}


def test_a_rank_that_was_set_before_the_tasks_were_started():
    # `export RANK=$SLURM_PROCID` in the batch script: 0 for all of them.
    (state, text), *_ = found("launcher.scheduler", machine(**SLURM, RANK="0", WORLD_SIZE="16"))
    assert state == "fail"
    assert "all of them would be rank 0" in text


def test_a_world_of_another_size_than_the_tasks():
    assert states("launcher.scheduler", machine(**SLURM, WORLD_SIZE="32")) == {"fail"}
    agents = {**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    # One task a machine, which will start eight ranks: as many torchrun recipes do.
    assert states("launcher.scheduler", machine(**agents, WORLD_SIZE="16")) == {"ok"}
    assert states("launcher.scheduler", machine(**agents, WORLD_SIZE="16", RANK="0")) == {"ok"}


def test_a_local_rank_that_is_not_the_tasks_own():
    assert states("launcher.local_rank", machine(**SLURM, LOCAL_RANK="0")) == {"fail"}
    assert states("launcher.local_rank", machine(**SLURM, LOCAL_RANK="3")) == {"ok"}


@pytest.mark.parametrize(
    ("visible", "state"),
    [("0,1,2,3", "ok"), ("0", "warn"), ("0,1", "fail"), ("", "ok"), ("-1", "ok"), ("GPU-a,GPU-b,GPU-c,GPU-d", "ok")],
)
def test_the_local_rank_against_the_gpus_given(visible, state):
    assert states("launcher.devices", machine(**SLURM, CUDA_VISIBLE_DEVICES=visible)) == {state}


def test_the_meeting_place_is_not_set():
    assert states("launcher.master", machine(RANK="0", WORLD_SIZE="2")) == {"fail"}
    assert states("launcher.master", machine()) == {"ok"}
    # Under a scheduler alone the script may set it itself.
    assert states("launcher.master", machine(**SLURM)) == {"not_checkable"}


def test_the_meeting_place_has_no_address():
    answers = found(
        "launcher.master", machine(RANK="1", WORLD_SIZE="2", MASTER_ADDR="no-such-machine.invalid", MASTER_PORT="29500")
    )
    assert answers[0][0] == "fail"
    assert "no-such-machine.invalid cannot be resolved" in answers[0][1]


@pytest.mark.parametrize("port", ["abc", "99999", ""])
def test_a_port_that_is_none(port):
    assert states("launcher.master", machine(RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)) == {
        "fail"
    }


def test_a_loopback_address_for_several_machines():
    env = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    assert states("launcher.master", machine(**env)) == {"fail"}
    assert states("launcher.master", machine(**{**env, "LOCAL_WORLD_SIZE": "2"})) == {"ok"}


def test_a_machines_own_name_may_be_a_loopback_there():
    env = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "node-1.cluster", "MASTER_PORT": "29500"}
    for rank, host, state in (("0", "node-1", "ok"), ("1", "node-2", "fail")):
        made = machine(host=host, RANK=rank, **env)
        made.resolve = lambda name: (("127.0.1.1",), "")
        assert states("launcher.master", made) == {state}


def test_the_address_of_another_machine_than_that_of_rank_0(tmp_path):
    env = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "29500"}
    assert states("launcher.master", machine(tmp_path, **env)) == {"fail"}
    # The address of a service may lead to this pod.
    assert states("launcher.master", machine(tmp_path, KUBERNETES_SERVICE_HOST="10.0.0.1", **env)) == {"warn"}
    assert states("launcher.master", machine(**{**env, "MASTER_ADDR": "10.0.0.4"})) == {"ok"}
    assert states("launcher.master", machine(**{**env, "RANK": "1"})) == {"ok"}


def test_a_port_that_somebody_holds():
    with socket.create_server(("127.0.0.1", 0)) as held:
        env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.getsockname()[1])}
        answers = found("launcher.port", machine(**env))
        assert [s for s, _ in answers] == ["fail"]
        assert "Address already in use" in answers[0][1]
        # It is not this rank's to listen there, and under torchrun the launcher does.
        assert states("launcher.port", machine(**{**env, "RANK": "1"})) == {"ok"}
        assert states("launcher.port", machine(**env, TORCHELASTIC_USE_AGENT_STORE="True")) == {"ok"}
    assert states("launcher.port", machine(**env)) == {"ok"}


def test_a_meeting_place_that_cannot_be_reached():
    env = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    # Nobody may connect to the address of all machines: the kernel refuses at once.
    assert states("launcher.reach", machine(**env, MASTER_ADDR="255.255.255.255")) == {"fail"}
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        assert states("launcher.reach", machine(**{**env, "MASTER_PORT": port}, MASTER_ADDR="127.0.0.1")) == {"ok"}
    answers = found("launcher.reach", machine(**{**env, "MASTER_PORT": port}, MASTER_ADDR="127.0.0.1"))
    assert answers == [("ok", f"127.0.0.1:{port}: the machine answers")]


def test_a_name_of_this_machine_that_leads_to_itself():
    two = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    assert states("launcher.hostname", machine(host="localhost", **two)) == {"warn"}
    assert states("launcher.hostname", machine(host="no-such-machine.invalid", **two)) == {"warn"}
    assert states("launcher.hostname", machine(host="localhost", GLOO_SOCKET_IFNAME="eth0", **two)) == {"ok"}
    assert states("launcher.hostname", machine(host="localhost")) == {"ok"}


def test_torchruns_variables():
    assert states("launcher.rendezvous", machine(PET_NNODES="4", SLURM_NNODES="2")) == {"fail"}
    assert states("launcher.rendezvous", machine(PET_RDZV_ENDPOINT="tcp://node-1:29400")) == {"fail"}
    assert states("launcher.rendezvous", machine(PET_RDZV_BACKEND="c10", PET_NNODES="2")) == {"warn"}
    assert states(
        "launcher.rendezvous",
        machine(PET_RDZV_BACKEND="c10d", PET_NNODES="1:2", SLURM_NNODES="2", PET_RDZV_ENDPOINT="node-1:29400"),
    ) == {"ok"}


def test_interfaces_of_the_machine_are_told_by_the_kernel():
    from firstfault.preflight.interfaces import interfaces

    named = {i.name: i for i in interfaces()}
    assert "127.0.0.1" in named["lo"].addresses
    assert named["lo"].loopback
    assert not DOCKER.loopback
    assert ETH.usable
    assert not LO.usable
