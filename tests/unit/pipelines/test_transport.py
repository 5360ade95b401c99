"""What goes between processes: typed, the same on the other side, and refused where it is anything else."""

from array import array

import pytest
from recorder.faults import FAULTS
from recorder.reading import dumps_of
from recorder.simulate import Form

from firstfault.model.evidence import Event, Span, When, Who
from firstfault.model.recorder import RankDump
from firstfault.pipelines.transport import BrokenMessageError, Transport


def test_events_come_back_as_they_went():
    events = [
        Event(
            signature="a.b",
            span=Span(3, 4, 5, 6, 7),
            text="größer \\xff",
            who=Who(rank=0, host="n1"),
            when=When(1.5, 2.5, "Z"),
            fields={"op": "ALLREDUCE"},
        )
    ]
    transport = Transport(list[Event])
    assert transport.unpack(transport.pack(41, events)) == (41, events)


@pytest.mark.parametrize("fault", ["stopped", "frozen", "other_size"])
def test_dumps_come_back_as_they_went(fault):
    transport = Transport(RankDump | str)
    for number, dump in enumerate(dumps_of(FAULTS[fault]((2, 2, 2), 3), Form())):
        piece, back = transport.unpack(transport.pack(number, dump))
        assert (piece, back) == (number, dump)
        assert repr(back) == repr(dump)
        assert [c.typecode for c in (back.logs[0].entry, back.logs[0].seq)] == ["i", "q"]
    assert transport.unpack(transport.pack(1, "not read")) == (1, "not read")


def test_another_kind_is_refused():
    numbers, texts = Transport(list[int]), Transport(list[str])
    with pytest.raises(BrokenMessageError):
        texts.unpack(numbers.pack(0, [1, 2]))
    with pytest.raises(BrokenMessageError):
        numbers.unpack(b"\x00")
    with pytest.raises(TypeError):
        Transport(object).pack(0, [object()])
    with pytest.raises(BrokenMessageError):
        Transport(array).unpack(bytes(8) + b"\xc4\x03x12")  # no such column
