from memory_store import LIBRARY, SOURCE, MemoryStore, events_of, hits_of

from firstfault.model.evidence import LocalRank, When, Who
from firstfault.readers.events import EXCEPTION, START, build_events
from firstfault.readers.identity import profile_source
from firstfault.readers.who import join_fields

OOM = """[rank2]: Traceback (most recent call last):
[rank2]:   File "/app/train.py", line 603, in train_epoch
[rank2]:     loss.backward()
[rank2]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 334.00 MiB. GPU 1 has a total capacity of 79.15 GiB
[rank5]:[E ProcessGroupNCCL.cpp:563] [Rank 5] Watchdog caught collective operation timeout
"""


def test_a_traceback_is_one_event_of_the_signature_that_knows_it():
    (event,) = events_of(OOM)
    assert event.signature == "gpu.out_of_memory"
    assert event.who.rank == 2
    assert event.fields["requested"] == "334.00 MiB"
    assert event.exception is not None
    assert event.exception.user_frame is not None
    assert event.exception.user_frame.line == 603
    assert (event.span.line, event.span.column) == (4, 10)
    assert OOM.encode()[event.span.offset :].startswith(b"torch.cuda.OutOfMemoryError")


def test_one_that_no_signature_knows_is_a_plain_exception():
    (event,) = events_of(
        'Traceback (most recent call last):\n  File "/a.py", line 3, in f\n    g()\nmypkg.errors.ShapeError: 3 != 4\n'
    )
    assert event.signature == EXCEPTION
    assert event.text == "mypkg.errors.ShapeError: 3 != 4"


def test_bare_last_lines_stay_events():
    (event,) = events_of("step 1\nRuntimeError: it broke\n")
    assert (event.signature, event.exception) == ("python.exception_line", None)
    assert event.span.line == 2


def test_the_source_text_of_a_frame_is_no_event():
    (event,) = events_of(
        'Traceback (most recent call last):\n  File "/a.py", line 3, in f\n'
        '    raise MyError("CUDA out of memory. Tried to allocate 1 GiB")\nmypkg.MyError: gone\n',
    )
    assert event.signature == EXCEPTION


def test_a_cut_traceback_stays_as_its_start():
    (event,) = events_of('Traceback (most recent call last):\n  File "/a.py", line 3, in f\n')
    assert event.signature == START
    assert event.exception is not None
    assert not event.exception.complete


def test_an_earlier_exception_of_a_chain_is_told_where_a_signature_knows_it():
    first, second = events_of(
        """Traceback (most recent call last):
  File "/a.py", line 3, in f
    g()
RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total capacity)

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/b.py", line 5, in h
    f()
mypkg.TrainingFailed: epoch 3
""",
    )
    assert (first.signature, first.span.line) == ("gpu.out_of_memory", 4)
    assert (second.signature, second.span.line) == (EXCEPTION, 11)
    assert second.exception is not None
    assert second.exception.chained_from[0].startswith("RuntimeError: CUDA out of memory")


def test_a_swallowed_one_is_marked_through_its_whole_chain():
    found = events_of(
        """2026-02-11 20:02:41,377 WARNING: Error while reading 'x', retrying 1/5
Traceback (most recent call last):
  File "/a.py", line 3, in read
    g()
RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total capacity)

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/b.py", line 5, in h
    f()
mypkg.ReadFailed: x
""",
    )
    assert [e.exception is not None and e.exception.ignored for e in found] == [True, True]


def test_a_line_behind_a_bar_keeps_the_label_of_its_physical_line():
    bar = "[default3]: 1%|#| 1/100 [00:01<01:00, 1.0it/s]\r 2%|#| 2/100 [00:02<01:00, 1.0it/s]"
    (event,) = events_of(
        bar + "RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total)\n"
    )
    assert event.who.local_rank == 3
    assert event.span.line == 1


def test_a_hit_in_a_cut_window_keeps_line_and_speaker():
    data = b"[rank3]: " + b"x" * 500 + b" CUDA out of memory. Tried to allocate 1.00 GiB\n"
    profile = profile_source(data, "x")
    (hit,) = hits_of(data, profile)
    at = hit.match_start - 100
    cut = type(hit)(
        signature=hit.signature, line=1, offset=0, column=hit.column, raw=hit.raw[at:], raw_offset=at,
        match_start=100, match_end=hit.match_end - at, fields=hit.fields,
    )  # fmt: skip
    (event,) = build_events([cut], MemoryStore(data), SOURCE, profile, LIBRARY.by_id)
    assert event.who.rank == 3
    assert data[event.span.offset :].startswith(b"CUDA out of memory")
    assert event.when == When()


def test_reprints_of_a_launcher_are_marked():
    found = events_of(
        """  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 13564)
  traceback : Traceback (most recent call last):
    File "/app/train.py", line 7, in main
      raise ValueError("bad sample at index 42")
  ValueError: bad sample at index 42

""",
    )
    (event,) = found
    assert event.fields["reprinted"] == "banner"
    assert event.exception is not None
    assert event.exception.message == "bad sample at index 42"


def test_attempts_come_from_the_path():
    (event,) = events_of("RuntimeError: it broke\n", path="none_x/attempt_1/3/stderr.log")
    assert (event.attempt, event.who.local_rank) == (2, 3)


def test_fields_complete_a_speaker_without_overruling_it():
    speaker = Who(rank=7, host="node-a", pid=1)
    assert join_fields(speaker, {"rank": "3", "worker": "2"}, about=False) == Who(
        rank=7, host="node-a", pid=1, worker=2
    )
    about = join_fields(speaker, {"local_rank": "3", "pid": "99"}, about=True)
    assert about == Who(local_rank=LocalRank(3), host="node-a", pid=99)
    assert join_fields(speaker, {"exit_code": "1"}, about=True) == speaker
    assert join_fields(speaker, {"pid": "99"}, about=True) == Who(rank=7, host="node-a", pid=99)
    assert join_fields(Who(), {"rank": "0", "pid": "x", "device": "-1", "local_rank": "٣"}, about=False) == Who(rank=0)


def test_undecodable_and_endless_text():
    (event,) = events_of(b"\xff\xfe RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB " + b"y" * 20000)
    assert event.text.startswith("\\xff\\xfe")
    assert len(event.text) == 4096
