"""Harmless start-up lines of real frameworks, to put in front of every file of a case.

Each set holds exactly `LINES` lines in the true format of the software that prints them. None of them says anything
about a failure, however much it looks like one; a verdict must be the same with and without them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from casefolder import Case

LINES = 8
"""Lines a set, hence by how much the line numbers of a case move."""

SETS: tuple[tuple[str, ...], ...] = (
    (
        "WARNING: infoROM is corrupted at gpu 0000:3B:00.0",
        "{stamp}.418213: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
        "E0000 00:00:{epoch}.532871   41877 cuda_blas.cc:1418] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered",
        "/opt/conda/lib/python3.10/site-packages/transformers/utils/hub.py:128: FutureWarning: Using `TRANSFORMERS_CACHE` is deprecated and will be removed in v5 of Transformers. Use `HF_HOME` instead.",
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
        "\tTo disable this warning, you can either:",
        "\t\t- Avoid using `tokenizers` before the fork if possible",
        "\t\t- Explicitly set the environment variable TOKENIZERS_PARALLELISM=(true | false)",
    ),
    (
        "[NeMo W {stamp} nemo_logging:361] Apex was not found. Using the lamb or fused_adam optimizer will error out.",
        "[NeMo W {stamp} nemo_logging:361] /usr/local/lib/python3.10/dist-packages/pydub/utils.py:170: RuntimeWarning: Couldn't find ffmpeg or avconv - defaulting to ffmpeg, but may not work",
        '      warn("Couldn\'t find ffmpeg or avconv - defaulting to ffmpeg, but may not work", RuntimeWarning)',
        "    ",
        "Failed to import Triton kernels for fused cross entropy, using the eager path: ImportError: cannot import name 'libdevice' from 'triton.language.math' (/usr/local/lib/python3.10/dist-packages/triton/language/math.py)",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol).",
        "NCCL version 2.21.5+cuda12.4",
        "WARNING: Running pip as the 'root' user can result in broken permissions and conflicting behaviour with the system package manager. It is recommended to use a virtual environment instead: https://pip.pypa.io/warnings/venv",
    ),
    (
        "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ProtocolError('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))': /simple/einops/",
        "Error while downloading from https://hub-mirror.example.net/repos/4f/tokenizer.model: HTTPSConnectionPool(host='hub-mirror.example.net', port=443): Read timed out.",
        "Trying to resume download...",
        "ModuleNotFoundError: No module named 'flash_attn_3' - optional, falling back to scaled_dot_product_attention",
        "/usr/lib/python3/dist-packages/torch/utils/_pytree.py:185: FutureWarning: optree is installed but the version is too old to support PyTorch Dynamo in C++ pytree. C++ pytree support is disabled. Please consider upgrading optree using `python3 -m pip install --upgrade 'optree>=0.13.0'`.",
        "UserWarning: The given NumPy array is not writable; this will raise `RuntimeError: cannot write to a read-only tensor` in a future release (Triggered internally at ../torch/csrc/utils/tensor_numpy.cpp:206.)",
        "STAGE:{stamp} 30412:30412 ActivityProfilerController.cpp:312] Completed Stage: Warm Up",
        "WARNING:{stamp} 30412:30412 init.cpp:178] CUPTI initialization failed - CUDA profiler activities will be missing",
    ),
    (
        "Warning: apex is not installed, fused_layer_norm will use the torch implementation (ImportError: No module named 'amp_C')",
        "/usr/lib/python3.10/multiprocessing/popen_fork.py:66: RuntimeWarning: os.fork() was called. os.fork() is incompatible with multithreaded code, and JAX is multithreaded, so this will likely lead to a deadlock.",
        "  self.pid = os.fork()",
        "[rank0]:[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29400 (errno: 97 - Address family not supported by protocol).",
        "{stamp},771 - INFO - flash-attn is not installed, using the memory efficient kernel; error was: cannot import name 'flash_attn_varlen_func' from 'flash_attn' (unknown location)",
        "/opt/train/launch.py:88: DeprecationWarning: get_event_loop() without a running loop is deprecated; a future version ends with RuntimeError: There is no current event loop in thread 'MainThread'.",
        "NCCL version 2.18.3+cuda12.1",
        "I0000 00:00:{epoch}.118833   50121 gpu_device.cc:2344] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly if you would like to use GPU.",
    ),
)

_STAMP = re.compile(rb"(20\d\d-[01]\d-[0-3]\d)[ T]([0-2]\d:[0-5]\d:[0-5]\d)")
_UNDATED = dt.datetime(2025, 3, 4, 5, 6, 7, tzinfo=dt.timezone.utc)
_BEFORE = dt.timedelta(seconds=60)


def in_front(case: Case, number: int, target: Path) -> tuple[Case, list[Path]]:
    """A copy of `case` below `target` with set `number` (from 1) in front of every file: its truth, and its paths.

    Archives stay as they are; the line numbers of the truth move with the lines.
    """
    start = _start(case)
    front = "".join(
        line.format(stamp=start.strftime("%Y-%m-%d %H:%M:%S"), epoch=int(start.timestamp())) + "\n"
        for line in SETS[number - 1]
    ).encode()
    paths = case.copy(target, lambda name, content: content if _archive(name) else front + content)
    moved = tuple(
        line if "!" in line.file or _archive(line.file) else dataclasses.replace(line, line=line.line + LINES)
        for line in case.expected.trigger
    )
    expected = dataclasses.replace(case.expected, trigger=moved)
    return dataclasses.replace(case, folder=target, expected=expected), paths


def _archive(name: str) -> bool:
    return name.endswith((".gz", ".tgz", ".zst", ".xz", ".bz2", ".zip", ".tar", ".pickle", ".pkl"))


def _start(case: Case) -> dt.datetime:
    """A minute before the first time stamp of the case, so that the lines fit into its story."""
    stamps = sorted(
        b" ".join(found.groups()).decode() for file in case.files() if (found := _STAMP.search(file.read_bytes()))
    )
    if not stamps:
        return _UNDATED
    first = dt.datetime.strptime(stamps[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.timezone.utc)
    return first - _BEFORE
