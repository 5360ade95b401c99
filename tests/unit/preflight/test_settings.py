"""Checks of variables: what is renamed, misspelt, unreadable, dangerous or in conflict, and what is none of it."""

import pytest
from made import found, machine, package, states

from firstfault.preflight.settings import known, nearest, readable, table

GOOD = {
    "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5", "NCCL_IB_GID_INDEX": "3", "NCCL_NET_GDR_LEVEL": "PHB", "NCCL_ALGO": "Ring,Tree",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "1800",
    "TORCH_DISTRIBUTED_DEBUG": "INFO", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "1",
    "NCCL_IB_TIMEOUT": "22", "NCCL_P2P_LEVEL": "NVL", "NCCL_NVLS_ENABLE": "0", "CUDA_HOME": "/usr/local/cuda", "TORCH_CUDA_ARCH_LIST": "9.0", "NCCL_CUMEM_ENABLE": "-2",
}  # fmt: skip
PLUGINS = {
    "NCCL_FASTRAK_CTRL_DEV": "eth0", "NCCL_FASTRAK_NUM_FLOWS": "2", "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0", "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE": "/x",
    "NCCL_NET_PLUGIN": "ofi", "NCCL_TUNER_PLUGIN": "libnccl-ofi-tuner.so", "TORCH_NIGHTLY_SOMETHING": "1", "CUDA_PKG_VERSION": "12", "CUDA_CUDART_VERSION": "12.4.99",
    "NCCL_PLUGIN_P2P": "ucx", "NCCL_TESTS_SPLIT": "0", "OMP_TOOL": "enabled", "CUDA_MODULE_LOADING": "LAZY", "CUDA_DRIVER_VERSION": "550.54",
}  # fmt: skip


@pytest.mark.parametrize("env", [GOOD, PLUGINS, {}])
def test_good_settings_and_those_of_plugins_pass(env):
    made = machine(**env)
    for check in ("renamed", "misspelt", "values", "dangerous", "conflicts", "allocator", "threads"):
        assert states(f"settings.{check}", made) == {"ok"}, check


@pytest.mark.parametrize("row", table()["renamed"], ids=lambda r: r["old"])
def test_every_old_name_is_told_with_the_new_one(row):
    (state, text), *_ = found("settings.renamed", machine(**{row["old"]: "1"}))
    assert state == "warn"
    assert row["old"] in text
    assert ("no effect" in text) is not row["works"]


@pytest.mark.parametrize("row", table()["unread"], ids=lambda r: r["name"])
def test_every_name_that_nobody_reads_is_told(row):
    assert states("settings.renamed", machine(**{row["name"]: "1"})) == {"warn"}
    assert row["name"] not in readable()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKT_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IFNAME_SOCKET", "NCCL_SOCKET_IFNAME"),
        ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"),
        ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("CUDA_VISABLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_LAUNCH_BLOCK", "CUDA_LAUNCH_BLOCKING"),
        ("NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"),
        ("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("TORCH_NCCL_DEBUG", "NCCL_DEBUG"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("TORCH_DISTRIBUTED_DEBUGS", "TORCH_DISTRIBUTED_DEBUG"),
        ("GLOO_SOCKET_IFNAMES", "GLOO_SOCKET_IFNAME"),
    ],
)
def test_a_misspelt_name_is_told_with_the_nearest(wrong, right):
    assert wrong not in known()
    assert nearest(wrong) == right
    assert states("settings.misspelt", machine(**{wrong: "1"})) == {"warn"}


def test_every_known_name_is_known():
    assert {"NCCL_SOCKET_IFNAME", "TORCH_NCCL_BLOCKING_WAIT", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"} <= known()
    assert len(known()) > 400


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "3", "fail"),
        ("TORCH_NCCL_BLOCKING_WAIT", "on", "fail"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "true", "fail"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "10min", "fail"),
        ("TORCH_DISTRIBUTED_DEBUG", "debug", "fail"),
        ("NCCL_DEBUG", "DEBUG", "warn"),
        ("NCCL_IB_TIMEOUT", "100", "warn"),
        ("NCCL_IB_DISABLE", "true", "warn"),
        ("NCCL_P2P_LEVEL", "nvl", "warn"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS", "warn"),
        ("OMP_NUM_THREADS", "0", "warn"),
        ("OMP_NUM_THREADS", "eight", "warn"),
        ("NCCL_DEBUG", "info", "ok"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "True", "ok"),
        ("OMP_NUM_THREADS", "4,2", "ok"),
    ],
)
def test_values(name, value, state):
    assert states("settings.values", machine(**{name: value})) == {state}


@pytest.mark.parametrize("row", table()["danger"], ids=lambda r: r["name"] + str(r.get("values", "")))
def test_every_dangerous_value_is_told(row):
    values = row.get("values")
    value = str(row["below"] - 1) if values is None else (values[0] if values else "1")
    assert states("settings.dangerous", machine(**{row["name"]: value})) == {"warn"}
    if values != []:
        assert states("settings.dangerous", machine(**{row["name"]: "479" if values is None else "2"})) == {"ok"}


@pytest.mark.parametrize("row", table()["conflict"], ids=lambda r: r["first"])
def test_every_pair_that_does_not_go_together_is_told(row):
    env = {row["first"]: row["first_values"][0], row["second"]: (row["second_values"] or ["NVL"])[0]}
    assert states("settings.conflicts", machine(**env)) == {"warn"}
    assert states("settings.conflicts", machine(**{row["first"]: row["first_values"][0]})) == {"ok"}


def test_a_smaller_most_than_least():
    assert states("settings.conflicts", machine(NCCL_MIN_NCHANNELS="16", NCCL_MAX_NCHANNELS="8")) == {"warn"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("expandable_segments:True", "ok"),
        ("max_split_size_mb:512,garbage_collection_threshold:0.8", "ok"),
        ("roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:False", "ok"),
        ("expandable_segment:True", "warn"),
        ("expandable_segments:true", "fail"),
        ("expandable_segments=True", "fail"),
        ("max_split_size_mb:16", "fail"),
    ],
)
def test_the_caching_allocator(text, state):
    assert states("settings.allocator", machine(PYTORCH_CUDA_ALLOC_CONF=text)) == {state}


def test_an_option_that_this_pytorch_does_not_know(tmp_path, monkeypatch):
    package(
        tmp_path,
        "torch",
        "2.0.1",
        {"torch/__init__.py": "", "torch/version.py": "__version__ = '2.0.1+cu117'\ncuda = '11.7'\n"},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    answers = found("settings.allocator", machine(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"))
    assert answers == [
        (
            "fail",
            "PYTORCH_CUDA_ALLOC_CONF: expandable_segments came with PyTorch 2.1, this is 2.0.1+cu117: it stops at the first use of a GPU",
        )
    ]


def test_two_allocators_settings():
    env = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:512", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256"}
    assert states("settings.allocator", machine(**env)) == {"warn"}


def test_more_threads_than_processors():
    assert states("settings.threads", machine(OMP_NUM_THREADS="4096")) == {"warn"}
