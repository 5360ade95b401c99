import pytest

from firstfault.readers.numbering import missing_names


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["error-4711-0.out", "error-4711-2.out"], ("error-4711-1.out",)),
        (["rank1.log", "rank2.log"], ("rank0.log",)),
        (["node1.log", "node2.log"], ()),
        (["error-1-node017.out", "error-1-node019.out"], ("error-1-node018.out",)),
        (["a/attempt_0/0/stderr.log", "a/attempt_0/2/stderr.log"], ("a/attempt_0/1/stderr.log",)),
        (["x/error-5-0.out", "y/error-5-2.out"], ("error-5-1.out",)),
        (["slurm-123.out", "slurm-9000.out"], ()),
        (["log-2025-01-02.txt", "log-2025-01-05.txt"], ()),
        (["train.log"], ()),
        (["r0.log.xz", "r1.log.gz", "r2.log.xz", "r3.log"], ()),
        (["a/r0.log.gz", "a/r1.log", "a/r3.log.gz"], ("a/r2.log.gz",)),
        (["a/r0.log.gz", "b/r1.log", "c/r2.log.gz"], ()),
        ([], ()),
    ],
)
def test_holes(names, missing):
    assert missing_names(names) == missing
    assert missing_names(reversed(names)) == missing
