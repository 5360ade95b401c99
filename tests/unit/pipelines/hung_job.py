"""A small hung job as files: two nodes of two ranks, rank 2 never entered the collective; every line in the true format."""

TIMEOUT = (
    "[rank{r}]:[E302 14:35:01.{u:06d} ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600031 milliseconds "
    "before timing out."
)
STATE = (
    "[rank{r}]:[E302 14:35:01.{u:06d} ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected "
    "by watchdog at work sequence id: 812 PG status: last enqueued work: 813, last completed work: 811"
)
TOLD = (
    "[rank{r}]:[E302 14:35:02.{u:06d} ProcessGroupNCCL.cpp:1650] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Received a dump "
    "signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL "
    "work: 811, last completed NCCL work: 811."
)
MEMBER = "Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {m}/{world}"
COMM = (
    "{host}:{pid}:{pid} [{local}] NCCL INFO ncclCommInitRank comm 0x55d0{r:04x} rank {r} nranks {world} cudaDev {local} nvmlDev "
    "{local} busId 1b000 commId 0x9f17 - Init COMPLETE"
)


def write(folder, *, ranks=4, late=2, per_node=2):
    """Writes one file for each node; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for node in range(ranks // per_node):
        lines = []
        for rank in range(node * per_node, (node + 1) * per_node):
            local = rank - node * per_node
            lines.append(MEMBER.format(r=rank, m=rank + 1, world=ranks))
            lines.append(COMM.format(host=f"cn-{7 + node:02d}", pid=4700 + rank, local=local, r=rank, world=ranks))
        for rank in range(node * per_node, (node + 1) * per_node):
            lines += [
                f"2026-03-02 14:2{step}:00 [rank{rank}] iteration {100 + step}/ 500 | loss: 2.1" for step in range(2)
            ]
        for rank in range(node * per_node, (node + 1) * per_node):
            if rank == late:
                lines.append(TOLD.format(r=rank, u=7))
            else:
                lines += [TIMEOUT.format(r=rank, u=100 + rank), STATE.format(r=rank, u=200 + rank)]
        (folder / f"error-77-{node}.out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
