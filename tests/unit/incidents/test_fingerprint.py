"""Fingerprints stay the same where hosts, ranks, steps and paths are others, and differ where the fault does."""

import msgspec
import pytest

from firstfault.incidents.fingerprint import Traits, fingerprint, same, traits_of
from firstfault.incidents.mask import mask
from firstfault.incidents.origin import Origin
from firstfault.model.diagnosis import Diagnosis
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.incidents import examine
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.redact import redact

OPTIONS = DiagnoseOptions(engine="inline")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 334.00 MiB. GPU 7 has a total",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/alpha/shard-00017.tar'",
            "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/x/y/train_000003.tar'",
        ),
        (
            "connect to 10.0.3.7<41022> failed : No route to host",
            "connect to 192.168.1.9<54263> failed : No route to host",
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen",
            "NVRM: Xid (PCI:0001:dd:00): 79, pid=98, GPU has fallen",
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=7712, name=pt_main_thread, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:dd:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        ),
        (
            "Out of memory: Killed process 7712 (pt_main_thread) total-vm:912345678kB, anon-rss:5kB",
            "Out of memory: Killed process 98 (python3.11) total-vm:12kB, anon-rss:512345678kB",
        ),
        (
            "INFO: task python3:7712 blocked for more than 120 s",
            "INFO: task pt_main_thread:98 blocked for more than 120 s",
        ),
        (
            "gpu012:812:901 [1] misc/socket.cc:57 NCCL WARN Connection closed",
            "lambda-scalar:4:5 [0] misc/socket.cc:61 NCCL WARN Connection closed",
        ),
        # Of a long line only so much is at hand, and the longer its paths are the less is said beside them.
        (
            f"ValueError: cannot write {'/a' * 40}.zarray and {'/b' * 40}: failed to take the lock on {'/c' * 60} [OS error: Invalid argument] of the",
            "ValueError: cannot write /a/x.zarray and /b: failed to take the lock on /c [OS error: Invalid argument] of the file system",
        ),
        ("RuntimeError: size 4096 at 0x7f3a exceeds 8192", "RuntimeError: size 16 at 0x55d0c exceeds 32"),
        ("ranks 3, 7, 12 are late", "ranks 0-4 are late"),
        ("Loading: 13%|██▎       | 12/96 [00:01<00:09]", "Loading: 99%|█████████▉| 95/96 [00:11<00:00]"),
        ("lost s3://alpha-bucket/a/b", "lost s3://beta/c"),
    ],
)
def test_what_differs_from_run_to_run_is_masked(one, other):
    assert mask(one) == mask(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1", "NVRM: Xid (PCI:0000:3b:00): 31, pid=1"),
        ("OSError: [Errno 28] x", "OSError: [Errno 122] x"),
        ("failed (exitcode: -9) local_rank: 0", "failed (exitcode: 1) local_rank: 0"),
        ("HTTP 403", "HTTP 503"),
        ("Killed process 7 (chrome) total-vm:1kB", "Killed process 7 (python3) total-vm:1kB"),
        ("KeyError: 'ema'", "KeyError: 'loss'"),
        ("undefined symbol: _ZN3c104cuda9SetDeviceEab", "undefined symbol: _ZN2at4_ops5zeros4callE"),
        ("cannot open /a/b.tar", "cannot open /a/b.parquet"),
    ],
)
def test_what_names_the_fault_is_kept(one, other):
    assert mask(one) != mask(other)


def test_hosts_that_are_known_are_masked_and_a_mask_is_stable():
    said = mask("node failure on gpu-n017 while 3 ranks ran", ["gpu-n017"])
    assert "gpu-n017" not in said
    assert mask("node failure on cn-004 while 9 ranks ran", ["cn-004"]) == said
    assert mask(said) == said


def test_equality_is_of_kind_and_message_and_of_the_place_where_both_know_it():
    one = Traits(category="gpu_cuda", signature="gpu.out_of_memory", message="x", place="loop.py:step")
    told = fingerprint(one)
    assert told.startswith("ff1:")
    assert same(told, fingerprint(msgspec.structs.replace(one, place="")))
    assert not same(told, fingerprint(msgspec.structs.replace(one, place="other.py:step")))
    assert not same(told, fingerprint(msgspec.structs.replace(one, message="y")))
    assert not same(told, fingerprint(msgspec.structs.replace(one, category="software")))
    assert same(told, fingerprint(msgspec.structs.replace(one, layer="host")))
    assert not same(told, "ff0" + told[3:])
    assert not same("", "")


def test_a_stored_diagnosis_gives_the_kind_and_message_that_the_logs_give(oom):
    diagnosis, traits = examine([str(oom)], OPTIONS)
    assert traits.place == "loop.py:step"
    assert traits.signature == "gpu.out_of_memory"
    stored = msgspec.json.decode(msgspec.json.encode(redact(diagnosis, "secrets").content), type=Diagnosis)
    again = traits_of(stored)
    assert again == msgspec.structs.replace(traits, place="")
    assert same(fingerprint(again), fingerprint(traits))


def test_other_hosts_ranks_paths_and_steps_give_the_same_fingerprint(oom, tmp_path):
    _, before = examine([str(oom)], OPTIONS)
    text = (oom / "gpu-n017.log").read_text(encoding="utf-8")
    for old, new in (
        ("rank1", "rank7"),
        ("rank0", "rank3"),
        ("41/4000", "880/9000"),
        ("/home/okada", "/scratch/team"),
        ("GPU 1", "GPU 7"),
    ):
        assert old in text
        text = text.replace(old, new)
    other = tmp_path / "other"
    other.mkdir()
    (other / "cn-004.log").write_text(text, encoding="utf-8")
    _, after = examine([str(other)], OPTIONS)
    assert fingerprint(after) == fingerprint(before)


def test_another_fault_in_the_same_place_gives_another_fingerprint(oom, tmp_path):
    _, before = examine([str(oom)], OPTIONS)
    text = (oom / "gpu-n017.log").read_text(encoding="utf-8")
    head = text.rsplit("[rank1]: ", 1)[0]
    (oom / "gpu-n017.log").write_text(head + "[rank1]: ValueError: label 17 is out of range\n", encoding="utf-8")
    _, after = examine([str(oom)], OPTIONS)
    assert not same(fingerprint(after), fingerprint(before))


def test_an_origin_does_not_change_what_the_diagnosis_itself_tells(oom):
    diagnosis = diagnose([str(oom)], OPTIONS)
    plain, told = traits_of(diagnosis), traits_of(diagnosis, Origin(signature="gpu.out_of_memory", place="a.py:f"))
    assert msgspec.structs.replace(told, place="") == plain


@pytest.mark.parametrize("text", ["ring broke \x00\ue005 at step 7", "exit code 3 \x00\ue000 twice"])
def test_a_line_with_the_signs_by_which_the_mask_marks_places_is_read(text):
    assert mask(text) == mask(text.replace("\x00", " "))


@pytest.mark.parametrize("label", ["", "[rank1]: ", "1: "])
def test_a_crash_has_the_place_of_the_thread_in_which_it_came(tmp_path, label):
    def crashed(file, function, thread="0x00007f1a00000000"):
        lines = [
            "Fatal Python error: Segmentation fault",
            "",
            "Thread 0x00007f1b00000000 (most recent call first):",
            '  File "/usr/lib/python3.11/threading.py", line 331 in wait',
            '  File "/opt/job/feeder.py", line 12 in feed',
            "",
            f"Current thread {thread} (most recent call first):",
            '  File "/usr/lib/python3.11/site-packages/torch/_ops.py", line 755 in _call_impl',
            f'  File "/opt/job/{file}", line 12 in {function}',
            '  File "/opt/job/train.py", line 90 in main',
            "",
            "Extension modules: numpy.core (total: 1)",
        ]
        path = tmp_path / "job.log"
        path.write_text("".join(f"{label}{line}\n" for line in lines), encoding="utf-8")
        return examine([str(path)], OPTIONS)[1]

    one = crashed("ops.py", "fused")
    assert one.place == "ops.py:fused"
    assert fingerprint(crashed("ops.py", "fused", "0x00007fffa1b2c3d4")) == fingerprint(one)
    assert not same(fingerprint(crashed("loader.py", "decode")), fingerprint(one))


def test_a_crash_without_its_own_thread_has_no_place(tmp_path):
    path = tmp_path / "job.log"
    lines = ["Fatal Python error: Segmentation fault", "", "Thread 0x00007f1b00000000 (most recent call first):"]
    lines += [
        '  File "/opt/job/feeder.py", line 12 in feed',
        "Current thread 0x00007f1a00000000 (most recent call first):",
    ]
    path.write_text("\n".join([*lines, "  <no Python frame>"]) + "\n", encoding="utf-8")
    assert examine([str(path)], OPTIONS)[1].place == ""
