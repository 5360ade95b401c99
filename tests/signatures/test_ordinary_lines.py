"""Lines that every healthy run prints: no signature may take them for an event.

Step lines come by the million; a hit on one would cost time and drown what matters. Harmless lines that hold words of an
error may be claimed as noise or context only.
"""

from __future__ import annotations

import pytest

from firstfault.model.words import Role
from firstfault.readers.identity import body_starts
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

LIBRARY = load_library()
MATCHERS = {s.id: Matcher(s.spec) for s in LIBRARY.signatures}

STEP_LINES = [
    (
        " [2026-08-22 15:22:22.123456] iteration      100/  500000 | consumed samples:        25600 | elapsed time per"
        " iteration (ms): 1234.5 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 2.345678E+00 | loss scale:"
        " 1.0 | grad norm: 0.987 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    ),
    (
        "Training epoch 0, iteration 527/999 | lr: 0.0001758 | global_batch_size: 32 | global_step: 527 |"
        " reduced_train_loss: 2.792 | train_step_timing in s: 2.389"
    ),
    "{'loss': nan, 'grad_norm': nan, 'learning_rate': 2.04e-06, 'epoch': 0.01}",
    "{'loss': '1.143', 'grad_norm': '1.931', 'learning_rate': '4e-05', 'epoch': '0.3125'}",
    "Epoch 0:  12%|#2        | 1234/10000 [1:02:03<7:22:01, 3.02s/it, v_num=3, train_step_timing in s=2.91]",
    "[titan] 2026-05-09 21:41:33,123 - root - INFO - step: 10  loss:  7.1234  grad_norm:  1.2345  memory: 40.21GiB(50.80%)",
    "2020-08-01 12:24:16 | INFO | train_inner | epoch 001:   1202 / 6535 loss=0.511, wps=82559, loss_scale=128, wall=452",
    "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
    "(WorkerDict pid=101224) step:12 - actor/entropy:0.31 - actor/grad_norm:0.2 - timing_s/step:31.2",
    "I 14:06:18.785102 nvme3n1: 54MiB/s, 119KiB, 25MiB/s, 21KiB, 26%",
]

HARMLESS_LINES = [
    "[NeMo W 2026-02-11 18:02:14 nemo_logging:405] Megatron num_microbatches_calculator not found, using Apex version.",
    "/opt/venv/lib/python3.12/site-packages/x/y.py:34: UserWarning: ReadError('unexpected end of data')",
    "/opt/venv/lib/python3.12/site-packages/x/y.py:3: FutureWarning: RuntimeError: Error(s) in loading state_dict for Net:",
    "WARNING:root:[Suppressed AudioLoadingError] Error message: Reading audio from '/data/a/u0007.mp3' failed. Details:",
    "WARNING:urllib3.connectionpool:Connection pool is full, discarding connection: store.example. Connection pool size: 10",
    "2026-02-11 20:02:41,377 WARNING: Error while reading 'objects/asr/shards/audio_0734.tar', retrying 1/5",
    "Got disconnected from remote data host. Retrying in 5sec [1/20]",
    "wandb: Network error (ReadTimeout), entering retry loop.",
    "OSError: [Errno 16] Device or resource busy: '.nfs8b2479d03841bd4400015e16'",
    "WARNING: apex not available: ModuleNotFoundError: No module named 'apex'",
    "[default2]:07/01/2024 10:00:00 [WARNING|DP=2|PP=0|TP=0|gpu-a14]: Repo card metadata block was not found.",
    "2025-01-01 10:00:00.1: E external/xla/cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory",
    "Exception ignored in: <function Pool.__del__ at 0x7f2d6c1e0dc0>",
    "[rank3]:     raise AISBatchLoaderError(",
    "[rank3]:     raise RepositoryNotFoundError(message, response) from e",
    "decode error in /data/clips/000412.mp4: moov atom not found, sample replaced",
]


def claims(line: str) -> set[str]:
    segment = line.encode()
    return {name for name, m in MATCHERS.items() if m.find(segment, body_starts(segment))}


@pytest.mark.parametrize("line", STEP_LINES)
def test_no_signature_claims_a_step_line(line):
    assert claims(line) == set()


@pytest.mark.parametrize("line", HARMLESS_LINES)
def test_harmless_lines_are_no_cause(line):
    kept = claims(line)
    refined = {general for name in kept for general in LIBRARY.by_id[name].refines}
    if any(not LIBRARY.by_id[name].generic for name in kept):
        refined |= {name for name in kept if LIBRARY.by_id[name].generic}
    wrong = {n for n in kept - refined if LIBRARY.by_id[n].role in {Role.CAUSE, Role.EFFECT, Role.TEARDOWN}}
    assert not wrong
