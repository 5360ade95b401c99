"""Each rule: settings that break it are named with their line, and the nearest settings that keep it are not."""

import json

import pytest

from firstfault.config.check import check
from firstfault.config.facts import seconds_of
from firstfault.config.known_keys import every, table, words
from firstfault.i18n.glossary import WORDS


def found(*files, world=None, step=None, states=("fail", "warn")):
    report = check([(f"f{n}", text) for n, text in enumerate(files)], world_size=world, step_s=step)
    assert {f.check for f in report.findings} <= set(WORDS["settings check"])
    return {(f.check, f.line) for f in report.findings if f.state in states}


def names(*files, **more):
    return {name for name, _ in found(*files, **more)}


ZERO = {"train_micro_batch_size_per_gpu": 4}


def ds(**settings):
    return json.dumps({**ZERO, **settings})


@pytest.mark.parametrize(
    ("settings", "world", "check_name"),
    [
        ({"train_batch_size": 32, "gradient_accumulation_steps": 2}, 8, "deepspeed.batch"),
        ({"train_batch_size": 7}, None, None),
        ({"train_batch_size": 30, "gradient_accumulation_steps": 2}, None, "deepspeed.batch"),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, 8, None),
        ({"train_batch_size": 16}, 8, "deepspeed.batch"),
        ({"train_micro_batch_size_per_gpu": 0}, None, "deepspeed.batch"),
        ({"train_batch_size": 8, "elasticity": {"enabled": True}}, 8, "deepspeed.elastic"),
        ({"zero_optimization": {"stage": 4}}, None, "deepspeed.stage"),
        ({"zero_optimization": {"stage": 3}, "gradient_allreduce_op": "sum"}, None, "deepspeed.stage"),
        ({"zero_optimization": {"stage": 2}, "gradient_allreduce_op": "sum"}, None, None),
        ({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}, None, "deepspeed.offload"),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}, None, None),
        ({"zero_optimization": {"stage": 2, "offload_param": {"device": "none"}}}, None, None),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}}}, None, "deepspeed.offload"),
        ({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}, None, "deepspeed.offload"),
        ({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/x"}}}, None, None),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}, None, "deepspeed.offload"),
        ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, None, "deepspeed.precision"),
        ({"fp16": {"enabled": "auto"}, "bf16": {"enabled": True}}, None, None),
        ({"amp": {"enabled": True}, "zero_optimization": {"stage": 1}}, None, "deepspeed.precision"),
        ({"communication_data_type": "fp61"}, None, "deepspeed.precision"),
        ({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 1}}, None, "deepspeed.optimizer"),
        ({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 0}}, None, None),
        ({"optimizer": {"type": "AdmaW"}}, None, "deepspeed.optimizer"),
        ({"optimizer": {"type": "SGD"}}, None, None),
        ({"scheduler": {"type": "WarmupDecay"}}, None, "deepspeed.scheduler"),
        ({"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 9}}}, None, "deepspeed.scheduler"),
        ({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}}, None, None),
        ({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}}, None, "deepspeed.scheduler"),
        ({"scheduler": {"type": "WarmupLR"}}, None, None),
        ({"scheduler": {"type": "OneCycle", "params": {"cycle_max_lr": 1e-3}}}, None, "deepspeed.scheduler"),
        ({"scheduler": {"type": "CosineAnnealingLR", "params": {"T_max": 9}}}, None, "deepspeed.scheduler"),
        ({"zero_optimisation": {"stage": 2}}, None, "deepspeed.key"),
        ({"my_own_section": {"x": 2}}, None, None),
        ({"zero_optimization": {"stage": 2, "overlap_com": True}}, None, "deepspeed.key"),
        ({"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {}}}, None, "deepspeed.key"),
        ({"zero_optimization": {"stage": 2, "cpu_offload": True}}, None, None),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}, None, None),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 0.5}}, None, "deepspeed.type"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": "big"}}, None, "deepspeed.type"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}, None, None),
        ({"zero_optimization": {"stage": 2, "overlap_comm": "sometimes"}}, None, "deepspeed.type"),
        ({"train_batch_size": "32"}, None, "deepspeed.type"),
    ],
)  # fmt: skip
def test_deepspeed(settings, world, check_name):
    assert names(ds(**settings), world=world) == ({check_name} if check_name else set())


def test_deepspeed_counts_the_ranks_that_megatron_leaves():
    command = (
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 8 --seq-length 64"
        " --max-position-embeddings 64 --micro-batch-size 4 --global-batch-size 32 --tensor-model-parallel-size 2 --no-pipeline-parallel"
        " --deepspeed --deepspeed_config f1"
    )
    assert found(command, ds(train_batch_size=32, gradient_accumulation_steps=2)) == set()
    assert names(command, ds(train_batch_size=64, gradient_accumulation_steps=2)) == {"deepspeed.batch"}


def test_the_same_key_twice_is_refused_by_deepspeed_and_not_by_yaml():
    assert found('{"train_batch_size": 4,\n"train_batch_size": 8}') == {("file.twice", 2)}
    assert ("file.twice", 3) in found(
        "distributed_type: MULTI_GPU\nnum_processes: 2\nnum_processes: 4\n", states=("warn",)
    )


GPT = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --train-iters 1000 --lr 1e-4 --min-lr 1e-5 --mock-data"  # fmt: skip


@pytest.mark.parametrize(
    ("more", "check_name"),
    [
        ("", None),
        ("--tensor-model-parallel-size 16", "megatron.ranks"),
        ("--tensor-model-parallel-size=2 --pipeline-model-parallel-size=8", "megatron.ranks"),
        ("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4", None),
        ("--global-batch-size 60", "megatron.batch"),
        ("--micro-batch-size 0", "megatron.batch"),
        ("--hidden-size 1000", "megatron.heads"),
        ("--hidden-size 1000 --kv-channels 64", None),
        ("--num-attention-heads 4 --tensor-model-parallel-size 8", "megatron.heads"),
        ("--group-query-attention --num-query-groups 5", "megatron.heads"),
        ("--group-query-attention --num-query-groups 8", None),
        ("--num-layers 25 --pipeline-model-parallel-size 2", "megatron.layers"),
        ("--num-layers 25 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 13", None),
        ("--num-layers-per-virtual-pipeline-stage 2", "megatron.layers"),
        ("--num-layers-per-virtual-pipeline-stage 5 --pipeline-model-parallel-size 4", "megatron.layers"),
        ("--num-layers-per-virtual-pipeline-stage 3 --pipeline-model-parallel-size 4", None),
        ("--seq-length 2048", "megatron.sequence"),
        ("--context-parallel-size 2 --seq-length 1022", "megatron.sequence"),
        ("--expert-model-parallel-size 4", "megatron.experts"),
        ("--expert-model-parallel-size 4 --num-experts 6", "megatron.experts"),
        ("--expert-model-parallel-size 4 --num-experts 8", None),
        ("--expert-model-parallel-size 4 --num-experts 8 --pipeline-model-parallel-size 4", "megatron.experts"),
        ("--fp16 --bf16", "megatron.precision"),
        ("--fp16-lm-cross-entropy", "megatron.precision"),
        ("--train-samples 5", "megatron.length"),
        ("--lr-decay-samples 5", "megatron.length"),
        ("--lr-warmup-fraction .1 --lr-warmup-iters 5", "megatron.length"),
        ("--min-lr 1", "megatron.length"),
        ("--save x", "megatron.saving"),
        ("--save x --save-interval 5000", "megatron.saving"),
        ("--overlap-param-gather", "megatron.overlap"),
        ("--batch-size 4", "megatron.gone"),
        ("--tensor-model-paralel-size 2", "megatron.key"),
        ("--my-own-option 2", None),
        ("--num-workers two", "megatron.type"),
        ("--eval-iters 1.5", "megatron.type"),
        ("--rampup-batch-size 4 4 100 --global-batch-size 60", None),
        ("--save $CKPT --save-interval 100 --data-path $A 0.5 $B", None),
        ("--zero-stage 2 --deepspeed", "megatron.pipeline"),
        ("--zero-stage 2 --deepspeed --no-pipeline-parallel", None),
        ("--rampup-batch-size 16 16 5000", None),
        ("--rampup-batch-size 16 32 5000", "megatron.batch"),
        ("--rampup-batch-size 128 16 5000", "megatron.batch"),
        ("--rampup-batch-size $START 32 5000", None),
        ("--recompute-granularity full", "megatron.missing"),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", None),
        ("--recompute-granularity selective", None),
        ("--recompute-granularity full --recompute-layer-ids 1 2", None),
    ],
)  # fmt: skip
def test_megatron(more, check_name):
    assert names(f"{GPT} {more}") == ({check_name} if check_name else set())


def test_megatron_in_an_arguments_file_and_with_ranks_from_outside():
    text = "--num-layers 24\n--hidden-size=1000\n# a remark\n--num-attention-heads 16\n--micro-batch-size 4\n--global-batch-size=30\n"
    assert found(text, world=8) == {("megatron.heads", 2), ("megatron.batch", 6)}


def test_missing_arguments_are_named_only_where_all_words_are_known():
    assert {line for name, line in found("torchrun pretrain_gpt.py --num-layers 2 --hidden-size 8 --micro-batch-size 1") if name == "megatron.missing"}  # fmt: skip
    assert found("torchrun pretrain_gpt.py --num-layers 2 --hidden-size 8 --micro-batch-size 1 $MORE") == set()


TRAIN = {"output_dir": "o", "per_device_train_batch_size": 2}


@pytest.mark.parametrize(
    ("settings", "check_name"),
    [
        ({}, None),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch"}, "trainer.best_model"),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch", "save_strategy": "epoch"}, None),
        ({"load_best_model_at_end": True, "save_strategy": "best"}, None),
        ({"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 300}, "trainer.best_model"),
        ({"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 250}, None),
        ({"fp16": True, "bf16": True}, "trainer.precision"),
        ({"max_steps": 400}, "trainer.saving"),
        ({"max_steps": 400, "save_steps": 100}, None),
        ({"gradient_accumulation_steps": 0}, "trainer.batch"),
        # Arguments of a file are not converted: text stays text, and the optimizer compares it with a number.
        ({"learning_rate": "5e-5"}, "trainer.text"),
        ({"learning_rate": 5e-5}, None),
        ({"learning_rate": "fast"}, "trainer.type"),
        ({"save_total_limit": 1.5}, "trainer.type"),
        ({"do_train": "perhaps"}, "trainer.type"),
        ({"gradient_acumulation_steps": 2}, "trainer.key"),
        ({"lora_rank": 8, "template": "x"}, None),
        ({"save_strategy": "step"}, "trainer.type"),
        ({"save_strategy": "best"}, None),
        ({"eval_strategy": "best"}, "trainer.type"),
        ({"logging_strategy": "epoch"}, None),
        ({"fsdp": "full_shard", "deepspeed": "ds.json"}, "trainer.sharding"),
        ({"fsdp": "", "deepspeed": "ds.json"}, None),
        ({"fsdp": "full_shard", "deepspeed": None}, None),
    ],
)
def test_trainer(settings, check_name):
    assert names(json.dumps({**TRAIN, **settings})) == ({check_name} if check_name else set())


@pytest.mark.parametrize(
    ("theirs", "ours", "bad"),
    [
        ({"gradient_clipping": 0.5}, "", True),
        ({"gradient_clipping": "auto"}, "", False),
        ({"gradient_clipping": 0.5}, "--max_grad_norm 0.5", False),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, "--learning_rate 1e-4", False),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, "--learning_rate 2e-4", True),
        ({"train_micro_batch_size_per_gpu": 8}, "", True),
        ({"train_batch_size": 8}, "", False),
        ({"train_batch_size": 16}, "", True),
        ({"bf16": {"enabled": True}}, "--bf16", False),
        ({"bf16": {"enabled": True}}, "--bf16 True", False),
        ({"bf16": {"enabled": True}}, "--bf16 False", True),
        ({"bf16": {"enabled": True}}, "$PRECISION", False),
    ],
)
def test_the_trainer_against_deepspeed(theirs, ours, bad):
    command = f"deepspeed --num_gpus 4 t.py --deepspeed f1 --output_dir o --per_device_train_batch_size 2 {ours}"
    config = json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 1}, **theirs})
    assert ("trainer.mismatch" in names(command, config)) is bad


ACC = "distributed_type: {kind}\nnum_processes: 4\n{more}"


@pytest.mark.parametrize(
    ("kind", "more", "check_name"),
    [
        ("MULTI_GPU", "", None),
        ("MULTI-GPU", "", "accelerate.type"),
        ("MULTI_GPU", "num_process: 4", "accelerate.key"),
        ("MULTI_GPU", "mixed_precision: no", "accelerate.precision"),
        ("MULTI_GPU", "mixed_precision: 'no'", None),
        ("MULTI_GPU", "mixed_precision: bf61", "accelerate.precision"),
        ("MULTI_GPU", "num_machines: 3\nmain_process_ip: n1", "accelerate.processes"),
        ("MULTI_GPU", "num_machines: 2", "accelerate.machines"),
        ("MULTI_GPU", "num_machines: 2\nmain_process_ip: 127.0.0.1", "accelerate.machines"),
        ("MULTI_GPU", "num_machines: 2\nmachine_rank: 2\nmain_process_ip: n1", "accelerate.machines"),
        ("MULTI_GPU", "deepspeed_config:\n  zero_stage: 2", "accelerate.unused"),
        ("DEEPSPEED", "deepspeed_config:\n  zero_stages: 2", "accelerate.deepspeed_key"),
        ("DEEPSPEED", "deepspeed_config:\n  deepspeed_config_file: x\n  zero_stage: 2", "accelerate.deepspeed_file"),
        ("FSDP", "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_WRAP", "fsdp.choice"),
        ("FSDP", "fsdp_config:\n  fsdp_sharding_strategy: 1", None),
        ("FSDP", "fsdp_config:\n  fsdp_sharding_strategy: 7", "fsdp.choice"),
        ("FSDP", "fsdp_config:\n  fsdp_ofload_params: true", "fsdp.key"),
        ("FSDP", "fsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false", "fsdp.loading"),
        ("FSDP", "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: FULL_SHARD", "fsdp.choice"),
        ("FSDP", "fsdp_config:\n  fsdp_version: 2\n  fsdp_forward_prefetch: true", "fsdp.version"),
        ("FSDP", "fsdp_config:\n  fsdp_version: 2\n  fsdp_use_orig_params: true", "fsdp.version"),
        ("FSDP", "fsdp_config:\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP", "fsdp.wrapping"),
        ("FSDP", "parallelism_config:\n  parallelism_config_tp_size: 3", "accelerate.parallelism"),
        ("FSDP", "parallelism_config:\n  parallelism_config_tp_size: 2\n  parallelism_config_dp_shard_size: 2", None),
    ],
)  # fmt: skip
def test_accelerate(kind, more, check_name):
    assert names(ACC.format(kind=kind, more=more)) == ({check_name} if check_name else set())


def test_a_file_without_a_type_is_refused():
    assert names("compute_environment: LOCAL_MACHINE\nnum_processes: 4\n") == {"accelerate.type"}


def test_checkpointing_twice_is_named():
    fsdp = '{"transformer_layer_cls_to_wrap": "X", "activation_checkpointing": true}'
    assert "trainer.checkpointing" in names(fsdp, json.dumps({**TRAIN, "gradient_checkpointing": True}))
    assert names(fsdp, json.dumps(TRAIN)) == set()


NEMO = "trainer:\n  devices: 8\n  num_nodes: {nodes}\nmodel:\n  micro_batch_size: 4\n  global_batch_size: {whole}\n  tensor_model_parallel_size: {tensor}\n"  # fmt: skip


@pytest.mark.parametrize(
    ("values", "check_name"),
    [
        ({"nodes": 1, "whole": 32, "tensor": 1}, None),
        ({"nodes": 1, "whole": 33, "tensor": 1}, "nemo.batch"),
        ({"nodes": 1, "whole": 32, "tensor": 3}, "nemo.ranks"),
        ({"nodes": "${oc.env:NODES}", "whole": 33, "tensor": 1}, "nemo.batch"),
        ({"nodes": "${oc.env:NODES}", "whole": 36, "tensor": 3}, None),
    ],
)
def test_nemo(values, check_name):
    assert names(NEMO.format(**values)) == ({check_name} if check_name else set())


def test_hydra_overrides_count_and_unknown_ones_need_a_plus():
    text = NEMO.format(nodes=1, whole=32, tensor=1)
    report = [
        ("conf/gpt.yaml", text),
        ("run.sh", "python fit.py --config-name gpt model.tensor_model_parallel_size=3\n"),
    ]
    assert {(f.check, f.file) for f in check(report).findings if f.state == "fail"} == {("nemo.ranks", "run.sh")}
    report[1] = ("run.sh", "python fit.py --config-name=gpt model.micro_batch=2\n")
    assert {(f.check, f.file) for f in check(report).findings if f.state == "fail"} == {("hydra.override", "run.sh")}
    report[1] = ("run.sh", "python fit.py --config-name=gpt +model.micro_batch=2\n")
    assert check(report).state == "ok"


def test_lightning_against_slurm():
    head = "#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node={tasks} --gres=gpu:8\nsrun python fit.py trainer.devices=8 trainer.num_nodes=2\n"
    assert found(head.format(nodes=2, tasks=8)) == set()
    assert names(head.format(nodes=2, tasks=1)) == {"lightning.devices"}
    assert names(head.format(nodes=4, tasks=8)) == {"lightning.nodes"}
    assert names("#!/bin/bash\n#SBATCH --ntasks=8\nsrun python fit.py trainer.devices=8 trainer.num_nodes=1\n") == {"lightning.tasks"}  # fmt: skip


TITAN = "[job]\ndump_folder = 'o'\n[training]\nseq_len = {seq}\nlocal_batch_size = 2\nglobal_batch_size = {whole}\n[parallelism]\ntensor_parallel_degree = {tp}\ncontext_parallel_degree = {cp}\ndata_parallel_shard_degree = {shard}\n"  # fmt: skip


@pytest.mark.parametrize(
    ("values", "check_name"),
    [
        ({"seq": 1024, "whole": -1, "tp": 2, "cp": 1, "shard": -1}, None),
        ({"seq": 1024, "whole": -1, "tp": 3, "cp": 1, "shard": -1}, "torchtitan.sequence torchtitan.ranks"),
        ({"seq": 1024, "whole": -1, "tp": 2, "cp": 1, "shard": 8}, "torchtitan.ranks"),
        ({"seq": 1022, "whole": -1, "tp": 1, "cp": 2, "shard": -1}, "torchtitan.sequence"),
        ({"seq": 1024, "whole": 10, "tp": 2, "cp": 1, "shard": -1}, "torchtitan.batch"),
        ({"seq": 1024, "whole": 16, "tp": 2, "cp": 1, "shard": -1}, None),
        ({"seq": 1024, "whole": -1, "tp": 0, "cp": 1, "shard": -1}, "torchtitan.ranks"),
    ],
)
def test_torchtitan(values, check_name):
    assert names(TITAN.format(**values), world=8) == set((check_name or "").split())


def test_torchtitan_keys_and_the_command_line():
    text = TITAN.format(seq=1024, whole=-1, tp=2, cp=1, shard=-1)
    assert names(text + "pipeline_paralel_degree = 2\n") == {"torchtitan.key"}
    assert names(text, "torchrun --nproc_per_node 8 train.py --parallelism.tensor_parallel_degree 16") == {"torchtitan.ranks"}  # fmt: skip


def slurm(directives, command="srun python x.py"):
    return "#!/bin/bash\n" + "".join(f"#SBATCH {d}\n" for d in directives) + command + "\n"


@pytest.mark.parametrize(
    ("directives", "check_name"),
    [
        (["--nodes=2", "-t 1-00:00:00", "--mem=64G", "--signal=B:USR1@60", "--exclusive", "--array=1-4%2"], None),
        (["--ntask-per-node=2"], "slurm.option"),
        (["--kill-on-bad-exit=1"], "slurm.option"),
        (["--ntasks_per_node=2"], "slurm.option"),
        (["--tasks-per-node=2"], None),
        (["--time"], "slurm.option"),
        (["--time=soon"], "slurm.value"),
        (["--mem=lots"], "slurm.value"),
        (["--cpus-per-task=8x"], "slurm.value"),
        (["--job-name=$NAME"], "slurm.variable"),
        (["--job-name=two words"], "slurm.word"),
        (["--job-name='two words'", "--comment=x # remark"], None),
        (["<OPTIONS> --nodes=2"], None),
        (["--nodes=2", "--ntasks-per-node=4", "--ntasks=6"], "slurm.tasks"),
        (["--nodes=2", "--ntasks-per-node=4", "--gres=gpu:2"], "launch.tasks"),
        (["--nodes=2", "--ntasks-per-node=4", "--gres=gpu:a100:4"], None),
        (["--nodes=2", "--ntasks-per-node=4"], None),
    ],
)
def test_slurm_directives(directives, check_name):
    assert names(slurm(directives)) == ({check_name} if check_name else set())


RUN = "torchrun --nnodes={nodes} --nproc_per_node={each} {more} train.py"


@pytest.mark.parametrize(
    ("directives", "command", "check_name"),
    [
        (["--nodes=2", "--gres=gpu:8"], "srun " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), None),
        (["--nodes=2", "--gres=gpu:8"], "srun " + RUN.format(nodes=4, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), "launch.nodes"),
        (["--nodes=2", "--gres=gpu:4"], "srun " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), "launch.gpus"),
        (["--nodes=2", "--gres=gpu:8", "--ntasks-per-node=8"], "srun " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), "launch.tasks"),
        (["--nodes=2", "--gres=gpu:8", "--ntasks-per-node=8"], "srun --ntasks-per-node=1 " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), None),
        (["--nodes=2", "--gres=gpu:8", "--ntasks-per-node=8"], "srun " + RUN.format(nodes=2, each=1, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), "launch.gpus"),
        (["--nodes=2", "--gres=gpu:8"], RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), "launch.srun"),
        (["--nodes=2", "--ntasks-per-node=4"], "python fit.py --nodes 2", "launch.srun"),
        (["--nodes=2", "--ntasks-per-node=4"], "srun python fit.py --nodes 2", None),
        (["--nodes=2", "--ntasks-per-node=4"], "mpirun -np 8 python fit.py --nodes 2", None),
        (["--nodes=2", "--ntasks-per-node=1"], "python start_ray.py", None),
        (["--nodes=2"], "srun " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint localhost:1"), "launch.address"),
        (["--nodes=2"], "srun " + RUN.format(nodes=2, each=8, more="--node_rank 0 --master_addr $H"), "launch.node_rank"),
        (["--nodes=2"], "srun " + RUN.format(nodes=2, each=8, more="--master_addr $H"), "launch.node_rank"),
        (["--nodes=2"], "srun bash -c '" + RUN.format(nodes=2, each=8, more="--node_rank $SLURM_NODEID --master_addr $H") + "'", None),
        (["--nodes=1", "--gpus=4"], RUN.format(nodes=1, each=4, more="--standalone"), None),
        (["--nodes=2", "--ntasks=2", "--gpus-per-task=8"], "srun " + RUN.format(nodes=2, each=8, more="--rdzv_backend c10d --rdzv_endpoint $H:1"), None),
    ],
)  # fmt: skip
def test_launches_against_slurm(directives, command, check_name):
    assert names(slurm(directives, command)) == ({check_name} if check_name else set())


def test_time_limits():
    run = f"srun --ntasks=8 python {GPT.split('8 ', 1)[1]} --save x --save-interval 500"
    assert names(slurm(["--time=60"], run + " --exit-duration-in-mins 60")) == {"launch.time"}
    assert names(slurm(["--time=60"], run + " --distributed-timeout-minutes 90")) == {"launch.timeout"}
    assert names(slurm(["--time=60"], run), step=8) == {"launch.interval"}
    assert names(slurm(["--time=60"], run), step=5) == {"launch.interval"}
    assert names(slurm(["--time=60"], run), step=2) == set()
    assert "launch.interval" in names(slurm(["--time=60"], run), states=("not_checkable",))
    assert [seconds_of(t) for t in ("90", "1:30", "2:00:00", "1-2", "1-2:30", "x")] == [
        5400,
        90,
        7200,
        93600,
        95400,
        None,
    ]


def test_a_configuration_inside_a_script_is_checked_at_its_line():
    text = '#!/bin/bash\nB=33\ncat <<EOT > ds.json\n{\n "train_batch_size": $B,\n "train_micro_batch_size_per_gpu": 4\n}\nEOT\ntorchrun --nproc_per_node 8 t.py\n'  # fmt: skip
    assert found(text) == {("deepspeed.batch", 5)}
    inner = "#!/bin/bash\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --ntask=2\nsrun python x.py\nEOF\n"
    assert found(inner) == {("slurm.option", 4)}


def test_what_is_not_known_is_said_and_not_judged():
    report = check([("notes.yaml", "a: 1\nb: 2\n")])
    assert report.state == "unknown"
    assert [f.state for f in report.findings] == ["not_checkable"]


def test_the_ranks_come_from_what_is_started():
    assert check([("a", "torchrun --nnodes 2 --nproc_per_node 8 t.py")]).world_size == 16
    assert check([("a", "deepspeed --include localhost:0,1,3 t.py")]).world_size == 3
    assert check([("a", "torchrun --nproc_per_node gpu t.py")]).world_size is None
    assert check([("a", "torchrun --nproc_per_node 8 t.py")], world_size=4).world_size_from == "--world-size"
    assert check([("a", slurm(["--nodes=2", "--ntasks-per-node=4"]))]).world_size == 8


def test_tables_are_whole():
    for name in ("accelerate", "deepspeed", "lightning", "megatron", "sbatch", "torchtitan", "training_arguments"):
        assert table(name)["source"]
        assert table(name)["version"]
    assert len(every("megatron")) > 1500
    assert words("deepspeed", "top") >= {"zero_optimization", "train_batch_size"}
    assert "chdir" in words("sbatch", "value")


def test_findings_are_in_one_order_whatever_the_order_of_rules():
    files = [("b.json", ds(train_batch_size=33)), ("a.sh", "torchrun --nproc_per_node 8 t.py")]
    report = check(files)
    ranks = ["fail", "warn", "not_checkable", "ok"]
    assert [ranks.index(f.state) for f in report.findings] == sorted(ranks.index(f.state) for f in report.findings)
    assert check(files) == report


LEAST = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1"


@pytest.mark.parametrize(
    ("program", "option", "named"),
    [
        ("pretrain_gpt.py", "--num-atention-heads 4", True),
        ("pretrain_gpt.py", "--rotery-base 10000", True),
        ("pretrain_gpt.py", "--train-itres 10", True),
        ("pretrain_gpt.py", "--recompute-granlarity full", True),
        ("pretrain_gpt.py", "--train-iter 10", True),
        # Arguments of forks and of programs of their own, as their public scripts give them.
        ("pretrain_gpt.py", "--pad-vocab-size-to 250880", False),
        ("../qwen/pretrain_qwen.py", "--rotary-scale-factor 40", False),
        ("pretrain_vl.py", "--patch-size 14", False),
        ("../qwen/finetune_qwen.py", "--disable-bias-linear-fc", False),
        ("finetune_llava.py", "--freeze-llm", False),
        ("train_esm2.py", "--train-iter 20", False),
    ],
)
def test_only_slips_of_the_pen_are_taken_for_arguments_of_megatron(program, option, named):
    args = LEAST if "heads" not in option else LEAST.replace("--num-attention-heads 16", "")
    assert ("megatron.key" in names(f"python {program} {args} {option}")) is named


def test_settings_of_other_trainers_are_not_judged():
    axolotl = "base_model: a/b\nmicro_batch_size: 2\nsequence_len: 2048\nlearning_rate: 2e-4\nbf16: auto\ngradient_checkpointing: offload\ngradient_accumulation_steps: 4\noutput_dir: out\n"
    verl = "trainer:\n  nnodes: 1\n  n_gpus_per_node: 8\n  device: cuda\n  logger: [console]\n  total_epochs: 3\nactor_rollout_ref:\n  model:\n    path: a\n"
    for text in (axolotl, verl):
        assert check([("a.yaml", text)]).files[0].kind == "unknown"
        assert names(text) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/bin/bash\n#SBATCH --nodes=1\nsrun python x.py\n", set()),
        ("#!/bin/bash\r\n#SBATCH --nodes=1\r\nsrun python x.py\r\n", {("script.line_ends", 1)}),
        ("\ufeff#!/bin/bash\n#SBATCH --nodes=1\nsrun python x.py\n", {("slurm.interpreter", 1)}),
        ("# mine\n#!/bin/bash\n#SBATCH --nodes=1\nsrun python x.py\n", {("slurm.interpreter", 1)}),
        ("#!/bin/bash\n#SBATCH --nodes=1\u00a0\nsrun python x.py\n", {("script.hard_blank", 2)}),
        ("#!/bin/bash\n#SBATCH --nodes=1\nsrun python x.py\u00a0--lr 1\n", {("script.hard_blank", 3)}),
        # In remarks and in quotes such characters do nothing.
        ("#!/bin/bash\n# a\u3000b\n#SBATCH --nodes=1 # a\u00a0b\necho 'a\u00a0b -c'\nsrun python x.py\n", set()),
    ],
)
def test_the_form_of_a_batch_script(text, expected):
    assert {(n, line) for n, line in found(text) if n.startswith(("script.", "slurm.interp"))} == expected


def test_a_number_that_its_file_holds_as_text_is_named():
    base = "output_dir: out\nper_device_train_batch_size: 1\nlearning_rate: "
    for number, named in (("1e-4", True), ("'1.0e-4'", True), ("1.0e-4", False), ("0.0001", False), ("1.e-4", False)):
        assert ("trainer.text" in names(base + number + "\n")) is named, number


@pytest.mark.parametrize(
    "directives",
    [
        ["--nodes={{ nodes }}", "--ntasks-per-node={{tasks}}", "--account={{ account }}"],
        ["--nodes={nodes}", "--time={time}", "--mem={job.memory}"],
        ["--account=<your account>", "--ntasks=<N>"],
        ["--nodes=@NODES@", "--ntasks=%(tasks)s"],
        ["--nodes=2", "{% if account %}--account={{ account }}{% endif %}"],
    ],
)
def test_places_that_something_else_fills_in_raise_no_alarm(directives):
    text = slurm(directives, "srun python x.py")
    assert found(text) == set()
    assert "slurm.word" in names(text, states=("not_checkable",))


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_parts_of_a_heterogeneous_job_ask_each_for_their_own(word):
    parts = ["--nodes=1 --mem=8G", word, "--nodes=2 --gpus-per-node=8 --mem-per-gpu=80G"]
    assert (
        found(slurm(parts, "srun --het-group=1 torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=$H:1 x.py"))
        == set()
    )
    assert names(slurm([*parts, "--gpu-per-node=8"], "srun python x.py")) == {"slurm.option"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--standalone --nnodes=4", {"launch.nodes"}),
        ("--standalone --nnodes=1", {"launch.nodes"}),
        ("--standalone", {"launch.nodes"}),
        ("--rdzv-backend=c10d --rdzv-endpoint=$HEAD:29500 --nnodes=4", set()),
    ],
)
def test_a_standalone_start_is_of_one_node(options, expected):
    nodes = ["--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=8"]
    assert names(slurm(nodes, f"srun torchrun {options} --nproc_per_node=8 x.py")) == expected
