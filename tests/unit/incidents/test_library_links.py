"""A diagnosis of a log that shows a shipped record names it, in whatever wording; one that shows less does not."""

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

PLAIN = DiagnoseOptions(engine="inline")


def raised(error, *frames):
    """A traceback that ends in an error; the frames as `file:function:code`."""
    rows = ["Traceback (most recent call last):"]
    for frame in frames or ("/app/run.py:main:go()",):
        file, function, code = frame.split(":", 2)
        rows += [f'  File "{file}", line 12, in {function}', f"    {code}"]
    return "\n".join([*rows, error])


DCP = "/opt/venv/lib/python3.12/site-packages/torch/distributed/checkpoint/filesystem.py:__init__:self.stream = current_stream()"
STREAM = (
    "/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:current_stream:return _C._cuda_getCurrentStream(0)"
)
SHOWN = {
    "E001": [
        "ERRO[0042] error pulling image registry.example/nvcr/pytorch:24.10: short read: expected 1203 bytes but got 0: unexpected EOF",
        "24.10-py3: Pulling from nvidia/pytorch\ndocker: unexpected EOF.\nSee 'docker run --help'.",
        'Error response from daemon: Get "https://registry.example/v2/": net/http: TLS handshake timeout',
        "slurmstepd: error: pyxis: failed to import docker image\nslurmstepd: error: pyxis:     [ERROR] Could not download layer: curl: (18) transfer closed with outstanding read data remaining",
        "FATAL:   While making image from oci registry: while building SIF from layers: reading blob sha256:1f2e3d: unexpected EOF",
        "ERROR: failed to solve: registry.example/train:24.10: failed to copy: httpReadSeeker: failed open: unexpected EOF",
        "docker: error pulling image configuration: download failed after attempts=6: EOF.",
        "FATAL:   While making image from oci registry: conveyor failed to get: writing blob: happened during read: unexpected EOF",
    ],
    "E002": [
        "+ pip install -e .\nerror: externally-managed-environment\n\n× This environment is externally managed",
        "error: externally-managed-environment",
        "#12 3.1 error: externally-managed-environment\n#12 3.1 × This environment is externally managed",
        "error: The interpreter at /usr is externally managed, and indicates the following:\n\n  To install Python packages system-wide, try apt install",
    ],
    "E003": [
        raised("deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)"),
        raised("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
        raised("AssertionError: CUDA_HOME does not exist, unable to compile CUDA op(s)"),
        raised("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", "/opt/venv/lib/python3.12/site-packages/deepspeed/ops/op_builder/builder.py:installed_cuda_version:output = subprocess.check_output(command)"),
    ],
    "E004": [
        raised("KeyError: 'grad_norm_mean'"),
        "[rank0]: " + raised("KeyError: 'grad_norm_mean'").replace("\n", "\n[rank0]: "),
        raised("KeyError: 'grad_norm_mean'", "/app/report/render.py:render:row['grad_norm_mean']"),
        raised("KeyError: \"['grad_norm_mean'] not in index\""),
        raised("jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'grad_norm_mean'"),
        raised("pydantic_core._pydantic_core.ValidationError: 1 validation error for Result\ngrad_norm_mean\n  Field required [type=missing, input_value={'loss_mean': 1.2}, input_type=dict]"),
        raised("msgspec.ValidationError: Object missing required field `grad_norm_mean`"),
        raised("polars.exceptions.ColumnNotFoundError: grad_norm_mean"),
    ],
    "E005": [
        "> building dataset index helpers\nmake: Entering directory '/opt/megatron/core/datasets'\nmake: g++: No such file or directory\nmake: *** [Makefile:12: helpers_cpp] Error 127",
        "make: Entering directory '/app/megatron/data'\ng++ -O3 helpers.cpp -o helpers.so\nhelpers.cpp:16:10: fatal error: pybind11/pybind11.h: No such file or directory\nMaking C++ dataset helpers module failed, exiting.",
        raised("ImportError: cannot import name 'helpers_cpp' from 'megatron.core.datasets' (/app/megatron/core/datasets/__init__.py)"),
        raised("subprocess.CalledProcessError: Command '['make', '-C', '/opt/megatron-lm/megatron/core/datasets']' returned non-zero exit status 2."),
        raised("AssertionError: Could not compile megatron dataset C++ helper functions and therefore cannot import helpers python file."),
    ],
    "E006": [
        raised("ModuleNotFoundError: No module named 'transformer_engine'"),
        raised("ModuleNotFoundError: No module named 'apex'"),
        raised("ModuleNotFoundError: No module named 'fused_layer_norm_cuda'"),
        raised("RuntimeError: ColumnParallelLinear was called with gradient_accumulation_fusion set to True but the custom CUDA extension fused_weight_gradient_mlp_cuda module is not found."),
        raised("ImportError: Please install apex from https://git.example/apex to use fp16 or fp32 optimizers."),
        raised("ImportError: TransformerEngine is not installed. Please install it with `pip install transformer-engine`."),
    ],
    "E007": [
        raised("json.decoder.JSONDecodeError: Extra data: line 1 column 9 (char 8)", "/app/env_info.py:read_env:info = json.loads(proc.stdout)"),
        raised("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "/app/env.py:read_probe:return json.loads(out)"),
        raised("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "/app/probe.py:run:return json.loads(out)"),
        raised("json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 9)", "/app/env.py:parse_probe_output:json.loads(out)"),
        raised("orjson.JSONDecodeError: unexpected character: line 1 column 1 (char 0)", "/app/env.py:collect:info = orjson.loads(proc.stdout)"),
    ],
    "E008": [
        raised("RuntimeError: trial 2: process 4711 on GPU 3 does not belong to us"),
        raised("RuntimeError: foreign compute process 4711 on GPU 3 during trial 5, the trial is invalid"),
        raised("GpuOccupiedError: GPU 0 is occupied by another process (pid 31337, 40213 MiB)"),
        raised("RuntimeError: 试验期间 GPU 0 出现外来计算进程 pid 4711，数据无效"),
        raised("RuntimeError: trial 3 is contaminated: a foreign process (pid 4711) uses GPU 2"),
        raised("RuntimeError: exclusive window violated: GPU 0 compute processes changed from [] to [4711]"),
        raised("RuntimeError: 显卡 2 被其他用户的进程 4711 占用，本次试验无效"),
        raised("RuntimeError: GPU was not exclusive during the trial; result marked invalid"),
    ],
    "E009": [
        raised("RuntimeError: topology matrix interrupted: another job took all 8 GPUs"),
        raised("RuntimeError: 拓扑矩阵中断：8 张卡被另一个任务占用"),
        "topology tp4_pp2: running\nslurmstepd: error: *** JOB 4711 ON gpu-n017 CANCELLED AT 2026-03-01T10:00:01 DUE TO PREEMPTION ***",
        raised("MatrixInterrupted: topology matrix incomplete (3/8 trials): another 8-GPU job started on this host"),
        raised("RuntimeError: 拓扑矩阵在第 3 个拓扑处被其他 8 卡任务打断，未发布结果"),
        raised("RuntimeError: 另一个 8 卡作业占用了全部 GPU，拓扑矩阵中断"),
    ],
    "E010": [
        raised("RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!", "/app/check.py:digest_state:total = total * weight"),
        raised("RuntimeError: aten.view.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!", "/app/check.py:state_checksum:t.view(-1)"),
        raised("RuntimeError: aten.cat.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!", "/app/check.py:hash_tensors:torch.cat(all)"),
        raised("AttributeError: 'ShardedTensor' object has no attribute 'numpy'", "/app/digest.py:tensor_sha256:h.update(t.numpy())"),
        raised("NotImplementedError: Operator aten.hash_tensor.default does not have a sharding strategy registered.", "/app/digest.py:state_digest:hash(t)"),
        "continuous and resumed run compared\n" + raised("AssertionError: digest of the sharded state differs: 8a1f != 91c2"),
    ],
    "E011": [
        raised("RuntimeError: CUDA error: out of memory", "/app/test_ckpt.py:test_save:save(state)", DCP, STREAM),
        raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.1 GiB of which 3 MiB is free.", "/app/test_ckpt.py:test_load:load(state)", DCP, STREAM),
        raised("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB", "/app/t.py:test_gloo:dcp.save(s)", DCP, STREAM),
        raised("torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call.", "/app/test_ckpt.py:test_save:save(state)", DCP, STREAM),
    ],
}  # fmt: skip
"""By record: logs of other wordings and versions."""
NEAR = [
    'Successfully pulled image "registry.example/train:1.2" in 12s\n' + raised("EOFError: Ran out of input"),
    raised("EOFError: unexpected EOF while reading shard_0012.tar"),
    'Error: Failed to pull image "registry.example/train:1.2": manifest unknown',
    raised("RuntimeError: this environment is managed externally by the cluster"),
    "ERROR: Could not find a version that satisfies the requirement flash-attn==9.9",
    "error: subprocess-exited-with-error",
    raised("KeyError: 'CUDA_VISIBLE_DEVICES'"),
    raised("RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    raised("KeyError: 'grad_norm'"),
    raised("KeyError: 'loss_mean'"),
    raised("TypeError: grad_norm() missing 1 required positional argument: 'mean'"),
    raised("ModuleNotFoundError: No module named 'helpers'"),
    "make: g++: No such file or directory\nmake: *** [Makefile:3: fast_tokenizer] Error 127",
    raised("ImportError: cannot import name 'GPTModel' from 'megatron.core.models.gpt' (/app/megatron/core/models/gpt/__init__.py)"),
    raised("ModuleNotFoundError: No module named 'transformers'"),
    raised("ModuleNotFoundError: No module named 'apexlib'"),
    raised("RuntimeError: rank 3 does not belong to us: GPU group of another stage"),
    raised("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "/app/data.py:read_config:json.loads(t)"),
    raised("RuntimeError: unexpected process group state"),
    raised("torch.OutOfMemoryError: CUDA out of memory. Process 4711 has 20 GiB memory in use."),
    raised("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    raised("RuntimeError: 主进程 GPU 0 初始化失败"),
    "slurmstepd: error: *** JOB 4711 ON gpu-n017 CANCELLED AT 2026-03-01T10:00:01 DUE TO PREEMPTION ***",
    raised("RuntimeError: another job holds the lock of the sweep file on gpu-n017".replace("the sweep", "this")),
    raised("ValueError: topology file lists 8 GPUs, 4 are there"),
    raised("RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!", "/app/model.py:forward:x * w"),
    raised("RuntimeError: checksum of shard 3 differs"),
    raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "/app/train.py:forward:y = m(x)"),
    raised("RuntimeError: CUDA error: out of memory", "/app/train.py:main:s = torch.cuda.current_stream()"),
    raised("ImportError: cannot import name 'helpers' from 'project.util' (/app/project/util/__init__.py)"),
    raised("KeyError: 'grad_norm_mean_clipped'"),
    raised("AssertionError: grad_norm_mean 3.2 is above the limit 1.0"),
    raised("pydantic_core._pydantic_core.ValidationError: 1 validation error for Result\nloss_mean\n  Field required [type=missing, input_value={}, input_type=dict]"),
    raised("subprocess.CalledProcessError: Command '['make', '-C', '/app/csrc']' returned non-zero exit status 2."),
    raised("AssertionError: apex point of the schedule lies behind its end"),
    raised("ImportError: Please install deepspeed to use the ZeRO optimizer."),
    raised("RuntimeError: topology.json names another job id"),
    raised("RuntimeError: port 29500 is used by another process (pid 4711)"),
    raised("RuntimeError: DTensor redistribute failed", "/app/model.py:forward:y"),
    raised("AttributeError: 'NoneType' object has no attribute 'numpy'", "/app/digest.py:tensor_sha256:h.update(t.numpy())"),
    raised("requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "/app/notify.py:post:return response.json()"),
    raised("RuntimeError: checksum mismatch in sharded checkpoint file __3_0.distcp, the file is damaged"),
    raised("RuntimeError: CUDA error: GPU 0 is not in exclusive process mode"),
    raised("ValueError: the trials of rank 3 took the job of another rank's node map"),
    "训练中断：其他作业抢占了 GPU\n" + raised("RuntimeError: 训练中断"),
    "docker: Error response from daemon: pull access denied for registry.example/train, repository does not exist",
    "curl: (18) transfer closed with outstanding read data remaining\ntar: Unexpected EOF in archive",
]  # fmt: skip
"""Logs that share words with a record and do not show it."""


def named(folder, log):
    """Ids of the records that the diagnosis of a log names."""
    (folder / "run.log").write_text(f"starting\n{log}\n", encoding="utf-8")
    return [one.id for one in diagnose([str(folder / "run.log")], PLAIN).seen_before]


PYTEST = [
    ("E004", "=== FAILURES ===\nE       KeyError: 'grad_norm_mean'\n\nreport/render.py:41: KeyError\n=== short test summary info ===\nFAILED tests/test_report.py::test_zero - KeyError: 'grad_norm_mean'"),
    ("E011", "tests/test_ckpt.py:31: in test_save\n    dcp.save(state)\n/venv/torch/distributed/checkpoint/filesystem.py:145: in __init__\n    self.stream = torch.cuda.current_stream()\nE   torch.OutOfMemoryError: CUDA out of memory.\nFAILED tests/test_ckpt.py::test_save - torch.OutOfMemoryError: CUDA out of memory."),
    ("E010", "___ test_digest ___\ntests/test_digest.py:22: in test_digest\n    one = state_digest(state)\nbench/digest.py:14: in state_digest\n    h.update(total * weight)\nE   RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!\n=== short test summary info ===\nFAILED tests/test_digest.py::test_digest - RuntimeError: aten.mul.Tensor: got mixed"),
    ("E007", "___ test_probe ___\ntests/test_probe.py:9: in test_probe\n    run_probe()\nbench/env_probe.py:31: in run_probe\n    return json.loads(done.stdout)\nE   json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n=== short test summary info ===\nFAILED tests/test_probe.py::test_probe - json.decoder.JSONDecodeError: Expecting value"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "log"), PYTEST)
def test_a_failure_as_pytest_prints_it_links_too(tmp_path, name, log):
    assert named(tmp_path, log) == [name]


INTERRUPTED = [
    "topology dp8: trial 1 done, 812 tokens/s\ntopology dp2tp4: trial 2: all 8 GPUs were taken by another job (pid 88211)\nstopped after 2 of 6, nothing is published",
    "拓扑 dp2tp4 第 2 次试验开始\n八卡任务 88211 占用了全部 GPU，拓扑矩阵中断，已完成 2/6",
    "sweep: tp=2 pp=4 done\nsweep interrupted by another 8-GPU job: 2 of 5 topologies are there",
    "run 3/12 (tp4,pp2) finished\nGPUs 0-7 are now used by job 5521 of user ml3; leaving, 3/12 runs stay in staging/",
]
INTERRUPTED += [
    "cfg 5 of 12 runs\n2026-03-04 11:09:00 ERROR bench: topology 5 of 12 was stopped, a different job has claimed all eight GPUs\n2026-03-04 11:09:01 ERROR bench: sweep aborted after 5 of 12 topologies",
    "[matrix] topology tp4: started\n[matrix] node taken over by an 8-GPU job of another user, stopping\n[matrix] ERROR: interrupted, 3 of 8 topologies complete; nothing published",
    "拓扑矩阵：tp2 完成，tp4 进行中\n错误：另一个 8 卡作业占用了全部 GPU，矩阵中断，已完成 2/6，结果不发布",
    "[matrix] run 3/8\n[matrix] ERROR: someone else's 8-GPU training job grabbed the node, matrix aborted",
]
"""Plain words of a series that stopped: none of them calls itself an error."""
OTHER = [
    raised("RuntimeError: NCCL topology detection failed, other job settings were taken from the environment"),
    raised("ValueError: the sweep's matrix was started with 4 trials, another job file has 5"),
    "INFO 拓扑文件由另一个任务生成\n" + raised("ValueError: 拓扑维度乘积不等于 world size"),
]
"""The words of an interrupted series, in other senses."""
GOES_ON = [
    "step 10/100 loss 2.1\nstep 11/100 loss 2.0",
    "the sweep waits\nanother job holds the queue",
    "topology: 8 GPUs of dgx-7 are visible to this job\nstep 1/10 loss 2.0",
    "sweep interrupted by another 8-GPU job: 2 of 5 topologies are there\n"
    + "\n".join(f"step {n}/100 loss 2.1" for n in range(1, 12)),
]


@pytest.mark.parametrize("log", INTERRUPTED)
def test_a_series_that_stopped_without_an_error_word_links_by_its_last_lines(tmp_path, log):
    assert named(tmp_path, log) == ["E009"]


@pytest.mark.parametrize("log", [*GOES_ON, *OTHER])
def test_a_log_without_a_failure_links_to_nothing_that_its_last_lines_do_not_say(tmp_path, log):
    assert named(tmp_path, log) == []


# All in one test: each has a cache of its own, and to fill it costs more than all these diagnoses.
def test_a_log_that_shows_a_record_links_to_it_and_one_that_shares_its_words_does_not(tmp_path):
    assert {name: len(logs) >= 3 for name, logs in SHOWN.items()} == {f"E{n:03d}": True for n in range(1, 12)}
    found = [(name, log, named(tmp_path, log)) for name, logs in SHOWN.items() for log in logs]
    assert [(log, ids) for name, log, ids in found if ids != [name]] == []
    assert [(log, ids) for log in NEAR if (ids := named(tmp_path, log))] == []
