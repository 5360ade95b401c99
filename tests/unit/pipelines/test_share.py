import os
import threading
import time

import pytest

from firstfault.pipelines.share import shared


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_results_are_in_order_however_many_processes_there_are(workers):
    assert shared(lambda piece: piece * piece, 7, workers, int) == [n * n for n in range(7)]
    assert shared(lambda piece: piece, 0, workers, int) == []


@pytest.mark.usefixtures("alone")
def test_copies_share_the_work():
    asked = os.getpid()
    where = shared(lambda piece: (time.sleep(0.01), os.getpid())[1], 6, 2, int)
    assert set(where[::2]) == {asked}
    assert asked not in where[1::2]


def test_a_process_with_threads_makes_no_copies():
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        assert set(shared(lambda _piece: os.getpid(), 6, 2, int)) == {os.getpid()}
    finally:
        ended.set()
        other.join()


@pytest.mark.usefixtures("alone")
def test_what_a_dead_copy_had_to_do_is_done_here():
    asked = os.getpid()

    def work(piece):
        if os.getpid() != asked:
            os._exit(9)
        return piece

    assert shared(work, 5, 3, int) == list(range(5))


@pytest.mark.usefixtures("alone")
def test_an_error_in_a_copy_comes_up_here():
    def work(piece):
        if piece == 1:
            raise ValueError("piece 1")
        return piece

    with pytest.raises(ValueError, match="piece 1"):
        shared(work, 4, 2, int)


def test_an_interrupt_leaves_what_was_done():
    def work(piece):
        if piece == 2:
            raise KeyboardInterrupt
        return piece

    assert shared(work, 5, 1, int, instead=lambda piece: -piece) == [0, 1, -2, -3, -4]
    with pytest.raises(KeyboardInterrupt):
        shared(work, 5, 1, int)


@pytest.mark.usefixtures("alone")
def test_results_of_all_processes_are_told_of():
    told = []
    shared(lambda piece: (time.sleep(0.02), piece)[1], 8, 2, int, done=told.append)
    assert set(told) >= {0, 2, 4, 6}
    assert len(told) == len(set(told))


def test_what_is_kept_is_made_of_every_result():
    assert shared(lambda piece: piece, 5, 2, int, keep=lambda result: -result) == [0, -1, -2, -3, -4]
