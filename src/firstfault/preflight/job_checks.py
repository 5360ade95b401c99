"""The checks that only all reports of a job together can make, as a table: names, why each matters, what it prevents.

Data: `job` answers them.
"""

from __future__ import annotations

from typing import NamedTuple


class JobCheck(NamedTuple):
    """A check that needs all reports."""

    id: str
    title: str
    why: str
    prevents: tuple[str, ...]


JOB_CHECKS = (
    JobCheck(
        "job.reported",
        "whether every rank answered",
        "A machine that does not get as far as this check will not get into the job.",
        ("torch.store_clients_missing", "launcher.rendezvous_timeout", "slurm.launch_failed"),
    ),
    JobCheck(
        "job.ranks",
        "ranks that are there twice, or not at all",
        "Two processes of one rank, or a gap, let the job wait at its start.",
        ("torch.store_clients_missing", "torch.port_in_use"),
    ),
    JobCheck(
        "job.devices",
        "GPUs that two ranks of a machine would take",
        "NCCL refuses two ranks on one GPU, or they share its memory.",
        ("nccl.two_ranks_on_one_gpu", "gpu.out_of_memory"),
    ),
    JobCheck(
        "job.world",
        "WORLD_SIZE and the meeting place on all ranks",
        "Ranks that look for each other elsewhere, or for another number, never meet.",
        ("torch.store_clients_missing", "launcher.rendezvous_timeout"),
    ),
    JobCheck(
        "job.reach",
        "whether every machine reaches that of rank 0",
        "A firewall or the wrong network lets ranks wait for rank 0.",
        ("torch.store_no_server", "network.no_route", "gloo.connect_failed"),
    ),
    JobCheck(
        "job.clocks",
        "clocks of the machines against each other",
        "Clocks apart break torchrun's keep-alive and signed requests, and mix up the order of logs.",
        ("launcher.rendezvous_closed", "launcher.rendezvous_heartbeat", "storage.s3_denied"),
    ),
    JobCheck(
        "job.zones",
        "time zones of the machines",
        "Logs of machines in two zones cannot be put in order without knowing it.",
        (),
    ),
    JobCheck(
        "job.versions",
        "versions on all machines",
        "NCCL and PyTorch of two versions do not talk to each other, or give other results.",
        ("nccl.versions_differ", "software.api_mismatch"),
    ),
    JobCheck(
        "job.gpus",
        "kinds and number of GPUs on all machines",
        "The slowest GPU, or the machine with fewer, sets the pace or stops the job.",
        ("nccl.topology_failed", "gpu.cuda_error_invalid_device"),
    ),
    JobCheck(
        "job.settings",
        "settings on all machines",
        "Ranks that are told different algorithms or networks hang at the first collective.",
        ("nccl.network_in_use", "nccl.collective_timeout"),
    ),
    JobCheck(
        "job.addresses",
        "the addresses that the machines would give each other",
        "An address that two machines have leads each to itself.",
        ("nccl.socket_unreachable", "gloo.loopback_peer"),
    ),
    JobCheck(
        "job.folders",
        "folders that the job writes, on all machines",
        "A folder that is each machine's own holds a part of a checkpoint on each.",
        ("checkpoint.file_missing", "data.index_missing"),
    ),
    JobCheck(
        "job.python",
        "the Python of all machines",
        "Two environments are two programs.",
        ("software.import_error", "nccl.versions_differ"),
    ),
)
"""Checks of a job, in their order."""
