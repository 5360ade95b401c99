"""Which words in the name of a log tell of nobody: those of tools, of launchers and of every job.

People put their own names and those of machines into the names of files, where no form tells them from other words; so what is
not known to be everybody's is taken for a name. Standard library only; it must not raise on any text.
"""

from __future__ import annotations

from firstfault.model.lazy import lazy

_CODE = lazy(r"(?i).*\.(?:py[ix]?|c|cc|cpp|cxx|cu|cuh|h|hpp|so(?:\.\d+)*|rs|go|js|ts|ipynb)")
"""Names of sources: a report is of no use without them, and they name what they hold."""
_PIECES = lazy(r"[^._+@=~#,;()\[\]{}\s]+")
_NUMBERED = lazy(r"(?i)([a-z]*)\d*(?:of|x)?\d*([a-z]?)")
_DATED = lazy(r"(?i)\d+(?:t\d+)?(?:[-:]?\d+)*z?|v\d+")
_WORDS = """
file files log logs out err error errors stderr stdout std output txt text md csv tsv json jsonl ndjson yaml yml toml
cfg conf ini config configs xml html gz xz bz zst tar tgz zip pickle pkl pt pth ckpt bin npz npy parquet tfevents
events event dump dumps trace traces snapshot snapshots stack stacks core tb part old bak tmp temp orig history report
reports summary listing table list meta metadata manifest index readme note notes screen terminal paste session

slurm slurmctld slurmd sbatch srun sacct squeue scontrol sinfo lsf bsub pbs qsub sge flux mpi mpirun mpiexec orterun
horovod horovodrun torchrun elastic torchelastic torch pytorch accelerate deepspeed ds lightning megatron nemo ray
raylet gcs server serve kubectl kubernetes k8s kubelet pod pods container docker describe get volcano kubeflow xla tpu
jax libtpu composer mosaic axolotl llamafactory trl verl openrlhf vllm sglang torchtitan titan torchtune unsloth
fairseq espnet funasr wenet nanotron litgpt gpt neox mmengine detectron tensorboard pdsh clush dsh wandb mlflow comet
neptune clearml nccl gloo ucc hccl rccl npu ascend mindspore msrun oneccl dmesg kern kernel syslog messages journal
journalctl systemd nvidia smi nvsmi dcgm dcgmi nvlink fabricmanager ibstat ibv ib ras fr flight recorder torchfrtrace
pyspy py spy pystack gdb faulthandler gcore strace lsof ps top free df mount nvml prometheus grafana aistore ais
aistarget aisproxy aisnode minio ceph lustre nfs beegfs weka gpfs storage firstfault box heartbeat pulse node manager
agent nohup console driver launcher launch controller scheduler monitor watchdog supervisor daemon

job jobs run runs task tasks array batch step steps iter iters iteration epoch attempt attempts restart restarts retry
replica replicas trial rank ranks local global world group nodes host hosts worker workers workerlog workload master
main chief leader head target proxy client gpu gpus cuda rocm cpu device devices process processes proc pid thread
threads stage shard shards role default all merged combined full whole raw tail first last latest final best before
after begin end start stop new current previous prev live

train trainer training trainlog pretrain pretraining finetune finetuning ft sft dpo grpo ppo rlhf rm rl lora qlora
reward rollout eval evaluation evaluate valid validation val test tests infer inference predict warmup resume resumed
bench benchmark debug info warn warning warnings fatal crash crashed hang hung timeout oom memory mem kill killed nan
loss metric metrics scalars curve curves progress result results stat stats status state usage util utilization
counters perf profile profiler throughput speed lr checkpoint checkpoints save load data dataset datasets loader
dataloader sampler tokenizer model models optimizer params param args arguments env environment hparams setup init
install version versions net network fabric dist distributed ddp fsdp tp pp dp ep cp moe zero multi single small large
base mini tiny demo example sample smoke llm vlm vit bert llama qwen mistral mixtral gemma phi falcon opt bloom a and
at by for from in is no not of on or per the to with
"""
"""What a file is, who writes it, what it is of, and what it tells: one paragraph each."""
_EVERYBODYS = frozenset(_WORDS.split())


def names_in(name: str) -> list[str]:
    """Pieces of a file's name that are nobody else's words, in their order; none in the name of a source.

    Args:
        name: the last part of a path.
    """
    if _CODE.fullmatch(name):
        return []
    return [piece for piece in _PIECES.findall(name) if not _is_everybodys(piece)]


def _is_everybodys(piece: str) -> bool:
    if _DATED.fullmatch(piece):
        return True
    return all(_is_word(part) for part in piece.split("-"))


def _is_word(part: str) -> bool:
    """Whether a part is everybody's word with a number or without, or a number."""
    if part.lower() in _EVERYBODYS:
        return True
    found = _NUMBERED.fullmatch(part)
    return found is not None and len(part) < 20 and (not found[1] or found[1].lower() in _EVERYBODYS)
