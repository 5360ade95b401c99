"""What a finding says a program will say is what its signature claims in a log."""

import json

import pytest

from firstfault.config.check import check, signature_of
from firstfault.signatures.check import claims
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher


@pytest.fixture(scope="module")
def said():
    library = load_library()
    matchers = {s.id: Matcher(s.spec) for s in library.signatures}
    return lambda line: set(claims(line, library, matchers))


@pytest.mark.parametrize(
    "files",
    [
        [json.dumps({"train_batch_size": 33, "train_micro_batch_size_per_gpu": 4})],
        [json.dumps({"train_batch_size": 4, "zero_optimization": {"stage": 2, "overlap": 1}})],
        ["deepspeed --num_gpus 8 t.py --deepspeed f1 --output_dir o --per_device_train_batch_size 2", '{"zero_optimization": {"stage": 1}, "gradient_clipping": 3}'],
        ["torchrun --nproc_per_node 8 p.py --num-layers 25 --hidden-size 1000 --num-attention-heads 16 --micro-batch-size 3 --tensor-model-parallel-size 3 --num-workers x"],
        ["#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8\nsrun torchrun --nnodes 2 --nproc_per_node 8 --rdzv_backend c10d t.py"],
        ["trainer:\n  devices: 1\nmodel:\n  micro_batch_size: 1\n", "python f.py --config-name f0 model.micro_batch=2"],
    ],
)  # fmt: skip
def test_the_signature_claims_the_message(files, said):
    report = check([(f"f{n}", text) for n, text in enumerate(files)], world_size=8)
    named = [f for f in report.findings if f.signature]
    assert named
    for finding in named:
        assert any(finding.signature in said(line) for line in finding.message.split("\n")), finding.message


def test_words_without_a_signature_of_their_own_have_none():
    assert signature_of("AttributeError: 'bool' object has no attribute 'lower'") == ""
