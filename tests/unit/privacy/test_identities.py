import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.privacy.identities import Identities

GONE = [
    ("node-04:2507:2594 [0] NCCL INFO Connection closed", ["node-04"]),
    ("2023-12-17 16:40:02 10.0.3.21: step", ["10.0.3.21"]),
    ("connect to [fe80::1ff:fe23:4567:890a]:29500 and fe80::1ff:fe23:4567:890a", ["fe80::1ff"]),
    ("/lustre/fsw/proj_secret/users/jdoe/run/train.py", ["proj_secret", "jdoe", "lustre"]),
    ('File "/home/jdoe/env/lib/python3.10/site-packages/torch/x.py", line 3', ["jdoe"]),
    ("mail jane.doe@uni-x.edu please", ["jane.doe", "uni-x"]),
    ("s3://acme-corpus/llm/shard-0001.tar", ["acme-corpus", "llm"]),
    ("https://acme-corpus.s3.us-west-2.amazonaws.com/a", ["acme-corpus"]),
    ("srun: error: gpu-a-17: task 3: Killed", ["gpu-a-17"]),
    ("slurmstepd: error: *** JOB 4711 ON gpu-a-17 CANCELLED AT 2026", ["gpu-a-17"]),
    ("failed to connect to (ip-node3.cluster.local, 29500)", ["ip-node3"]),
    ("HTTPSConnectionPool(host='zeus-store.corp.example', port=443): Max retries exceeded", ["zeus-store"]),
    ("cannot read https://[removed:login in address]@objects.zeus.internal:9000/b/k", ["zeus"]),
    ("endpoint=zeus-objects.lab.io:9000", ["zeus-objects"]),
    ("MASTER_ADDR=trainer0x MASTER_PORT=29500", ["trainer0x"]),
    ("USER=jdoe jdoe's job", ["jdoe"]),
    ("mac aa:bb:cc:dd:ee:0f and GPU-1b2c3d4e-1111-2222-3333-444455556666", ["aa:bb", "1b2c3d4e"]),
    ("Mar  2 14:05:01 gpuhost9 kernel: NVRM: Xid", ["gpuhost9"]),
    ("scancel: job 12 cancelled by alice uid 1001", ["alice", "1001"]),
    ("slurmstepd: error: CANCELLED DUE TO request by uid=20017", ["20017"]),
    ("chown erinb:grp /scratch/x.log", ["erinb"]),
    ("C:\\Users\\dave\\runs\\train.py", ["dave"]),
    ('File "D:\\\\work\\\\acme\\\\train.py", line 3', ["acme"]),
    ("\\\\fileserver01\\share\\secret-project\\x.txt", ["fileserver01", "secret-project"]),
    ("nfs: server nas17 not responding, still trying", ["nas17"]),
    ("mount.nfs: mounting filer:/vol/acme failed", ["filer", "acme"]),
    ("nfs01:/export/acme on /acme-home type nfs", ["nfs01", "acme"]),
    ("//smb-host/acme on /mnt type cifs", ["smb-host"]),
    ("rank 3 runs in /scratch/erinb", ["erinb"]),
    ("~/.cache/torch_extensions/acme and /tmp/nccl_trace_rank_acme, ~/.local/lib/acme", ["acme"]),
    ("open('runs/acme-secret/llm.yaml')", ["acme-secret"]),
    ('File "acme_project/train.py", line 7', ["acme_project"]),
    ("file:///lustre/acme/x.log", ["acme", "lustre"]),
    ("host : gpu-a-17.hpc.uni-x.edu (local_rank: 3)", ["gpu-a-17", "uni-x"]),
    ("SLURM_JOB_NODELIST=pool0-[1790-1791] SLURM_NNODES=2", ["pool0", "1790", "1791"]),
    ("NodeList=zeus[01-16],zeus[20,31-33] BatchHost=zeus01", ["zeus", "31-33"]),
    ("rejected: --exclude=atlas[003,017] while atlas017 drains and atlas003 is up", ["atlas"]),
    ("srun: error: titan-07: task 3: Killed; left titan-[01-06,08]", ["titan", "01-06"]),
    ("No such file or directory: '/mnt/big corp/run 7/model.bin'", ["mnt", "big", "corp", "run 7"]),
    ('File "/data/jane doe/my code/train loop.py", line 8', ["jane", "doe", "my code"]),
]

STAYS = [
    "[rank3]: WorkNCCL(SeqNum=7727, OpType=BROADCAST) at 17:09:08, std::runtime_error c10::Error",
    "torch 2.3.0a0+ebedce2 nccl 2.18.1 took 12.5 s",
    "see https://github.com/pytorch/pytorch and /dev/shm, /tmp",
    "loss 1.2/3.4 and/or 5/10 [00:12<00:30, 3.2it/s]",
    "127.0.0.1:29500 0.0.0.0 ::1",
    "NVRM: Xid (PCI:0000:41:00): 79",
    "torch/distributed/run.py and transport/net_ib.cc:115 and attempt_0/1/stderr.log and logs/rank-3.out",
    "a ratio of 3/4 at uid 0, C: is a drive, step 12:/ and 5100/8000",
    "[default0]:07/12/2025 step 3, [rank3]:2025-01-02",
    "rebuild (~/.cache/torch_extensions); the dumps `/tmp/nccl_trace_rank_*` and ~/.cache/torch/comm_lib_trace_rank_3",
    "loss[3] of args[0-3], tensor[0,1] on gpu0",
    "not '/ and' nor '/dev/shm is full'",
]


@pytest.mark.parametrize(("text", "gone"), GONE, ids=range(len(GONE)))
def test_identities_become_pseudonyms(text, gone):
    people = Identities()
    people.learn(text)
    cleaned = people.clean(text)
    for word in gone:
        assert word not in cleaned, cleaned


@pytest.mark.parametrize("text", STAYS)
def test_ordinary_text_stays(text):
    people = Identities()
    people.learn(text)
    assert people.clean(text) == text


def test_the_names_of_a_list_are_known_where_they_stand_alone():
    people = Identities()
    people.learn("nodelist: gpu[001-004]")
    assert people.clean("gpu003 on gpu0 and gpu1, gpu0031") == "host-1 on gpu0 and gpu1, gpu0031"


def test_a_folder_with_a_blank_in_its_name_is_known_by_the_names_of_the_files():
    people = Identities()
    people.learn_paths(["acme secret/run 7/rank0.log", "a.log"])
    cleaned = people.clean("acme secret/run 7/rank0.log:3 says: run 7 ended")
    assert cleaned == "folder-1/folder-2/rank0.log:3 says: run 7 ended"


def test_a_bucket_is_the_same_with_and_without_what_follows():
    people = Identities()
    cleaned = people.clean("cannot read ais://speech: no such bucket; ais://speech/a.tar")
    assert cleaned == "cannot read ais://bucket-1: no such bucket; ais://bucket-1/a.tar"


def test_one_host_has_one_pseudonym_short_or_long():
    people = Identities()
    people.learn_hosts(["gpu-a-17.hpc.example.edu", "gpu-a-18"])
    assert (
        people.clean("gpu-a-17 and gpu-a-17.hpc.example.edu, gpu-a-18, gpu-a-179")
        == "host-1 and host-1, host-2, gpu-a-179"
    )


def test_a_path_keeps_its_last_part_and_the_installed_part():
    people = Identities()
    cleaned = people.clean("/home/jdoe/p/train.py /home/jdoe/p/data.py /x/lib/python3.10/site-packages/torch/a.py")
    assert cleaned == "/path-1/train.py /path-1/data.py /path-2/lib/python3.10/site-packages/torch/a.py"


def test_a_key_makes_pseudonyms_the_same_across_reports_and_another_key_others():
    one, two, other = Identities(key=b"k"), Identities(key=b"k"), Identities(key=b"l")
    two.pseudonym("host", "b")
    assert one.pseudonym("host", "a") == two.pseudonym("host", "a") != other.pseudonym("host", "a")


@given(st.text(max_size=300))
def test_no_text_makes_it_raise(text):
    people = Identities()
    people.learn(text)
    assert isinstance(people.clean(text), str)


@given(st.lists(st.from_regex(r"\Agpu[a-z]-[0-9]{2}\Z"), min_size=1, max_size=5), st.text(max_size=80))
def test_no_known_host_survives(hosts, text):
    people = Identities()
    people.learn_hosts(hosts)
    cleaned = people.clean(f"{text} {hosts[0]}: {' '.join(hosts)}\n/{hosts[-1]}/x")
    assert not any(f" {h}" in cleaned or f"/{h}" in cleaned for h in hosts)
