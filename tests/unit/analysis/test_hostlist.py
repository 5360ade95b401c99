import pytest

from firstfault.analysis.hostlist import compress, short_host


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["node003", "node001", "node002"], "node[001-003]"),
        (["node1", "node3"], "node[1,3]"),
        (["gpu-a-07"], "gpu-a-07"),
        (["login", "node9", "node10"], "node9,node10,login"),
        (["node001.example.com", "node002.example.com"], "node[001-002]"),
        (["10.0.0.4"], "10.0.0.4"),
        ([], ""),
    ],
)
def test_hostlist(hosts, expected):
    assert compress(hosts) == expected


def test_a_name_loses_its_domain_and_an_address_nothing():
    assert [short_host(h) for h in ("cn-07.hpc.example", "cn-07", "10.1.2.3", "fe80::1")] == [
        "cn-07",
        "cn-07",
        "10.1.2.3",
        "fe80::1",
    ]
