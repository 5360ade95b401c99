"""The text that is shown for a point in a bar that is redrawn on one line is the part that was read, though other parts tell the same step."""

import pytest

from firstfault.pipelines.lines import lines_of
from firstfault.pipelines.metrics import metrics_of
from firstfault.readers.open import open_inputs

TQDM = "{p}%|##   | {i}/400 [00:{i:02d}<10:00, 26.1it/s, loss={loss}]"
NEMO = "Epoch 0: {p}%|##  | {i}/400 [1:28:43<9:39:17, 1.00it/s, reduced_train_loss={loss}, global_step={i}.0]"
WORDS = "training step {i} loss {loss}"


@pytest.mark.parametrize("form", [TQDM, NEMO, WORDS])
@pytest.mark.parametrize("step", [1, 3, 17, 59])
def test_the_part_of_the_step_is_shown_with_its_place(tmp_path, form, step):
    parts = [form.format(p=i // 4, i=i, loss=f"{i}.5") for i in range(60)]
    path = tmp_path / "train.log"
    path.write_bytes(("start\n" + "\r".join(parts) + "\nend\n").encode())
    with open_inputs([str(path)]) as opened:
        line = lines_of(opened.store, opened.sources[0].id, [2])[2]
    assert line.text == parts[-1]
    shown = line.at_place(step)
    assert shown.text == parts[step]
    assert path.read_bytes()[shown.offset :].startswith(parts[step].encode())


def test_where_there_is_no_such_part_the_last_one_stays(tmp_path):
    path = tmp_path / "train.log"
    path.write_bytes(b"a 1/9\rb 2/9\nplain 3/9\n")
    with open_inputs([str(path)]) as opened:
        lines = lines_of(opened.store, opened.sources[0].id, [1, 2])
    assert lines[1].at_place(7).text == lines[1].at_place(None).text == "b 2/9"
    assert lines[1].at_place(0).text == "a 1/9"
    assert lines[2].at_place(3) == lines[2]


def test_the_part_is_that_of_the_row_and_not_of_its_number(tmp_path):
    """A resume draws the same steps again, and a bar of an evaluation counts to the same numbers."""
    first = [f"{i // 4}%|##   | {i}/400 [00:{i % 60:02d}<10:00,  1.00s/it, loss=2.5]" for i in range(1, 200)]
    again = [f"{i // 4}%|##   | {i}/400 [00:{i % 60:02d}<10:00,  1.00s/it, loss={'nan' if i > 180 else 2.5}]" for i in range(100, 300)]  # fmt: skip
    path = tmp_path / "train.log"
    path.write_text(
        "\r".join([*first, "Evaluating:  45%|##   | 181/400 [00:02<00:03, 80.1it/s]", *again]) + "\n", newline=""
    )
    (point,) = [p for p in metrics_of([str(path)]).view.points if p.kind == "nan"]
    assert point.step == 181
    assert point.evidence.text == again[81]


def test_lines_that_are_longer_than_a_block_are_found_with_those_around_them(tmp_path):
    path = tmp_path / "train.log"
    long = b"x" * (3 << 20)
    path.write_bytes(b"first\n" + long + b" its end\nthird\n" + long)
    with open_inputs([str(path)]) as opened:
        lines = lines_of(opened.store, opened.sources[0].id, [1, 2, 3, 4])
    assert [lines[n].text[:5] for n in (1, 2, 3, 4)] == ["first", "xxxxx", "third", "xxxxx"]
    assert [lines[n].offset for n in (1, 2, 3, 4)] == [0, 6, 6 + len(long) + 9, 6 + len(long) + 15]
