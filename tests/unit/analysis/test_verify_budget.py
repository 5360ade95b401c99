from firstfault.analysis import verify
from firstfault.analysis.verify import Verifier
from firstfault.model.evidence import Event, SourceId, Span, When, Who

LINE = b"RuntimeError: CUDA error\n"


class Store:
    def __init__(self):
        self.read_bytes = 0

    def read(self, source, offset, length):
        data = (LINE * 200)[offset : offset + length]
        self.read_bytes += len(data)
        return data


def cited(source, number, line):
    span = Span(SourceId(source), number * len(LINE), len(LINE) - 1, line, 1)
    return Event(signature="x.y", span=span, text=LINE.decode().strip(), who=Who(), when=When())


def test_line_numbers_are_counted_again_as_far_as_the_budget_reaches(monkeypatch):
    monkeypatch.setattr(verify, "CHUNK", 100)
    monkeypatch.setattr(verify, "COUNTED_IN_ALL", 3000)
    store = Store()
    verifier = Verifier(store, decode=bytes.decode)
    assert verifier.check(cited(0, 100, 101)) == (True, "")
    assert verifier.check(cited(0, 50, 99)) == (False, "the place is in line 51")  # counted already: costs nothing
    assert verifier.check(cited(1, 150, 7)) == (True, "")  # beyond the budget: only the bytes are compared
    assert store.read_bytes < 3000 + 5 * 100


def test_another_counter_gives_the_same():
    store = Store()
    counted = []
    verifier = Verifier(store, decode=bytes.decode, count=lambda raw: counted.append(raw) or raw.count(b"\n"))
    assert verifier.check(cited(0, 100, 101))[0]
    assert not verifier.check(cited(0, 101, 101))[0]
    assert counted
