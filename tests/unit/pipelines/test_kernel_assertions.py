"""The assertion of a kernel is printed by one device; who raised for one of its own tells whether it is that rank's alone."""

from __future__ import annotations

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = "".join(f"[rank{r}]: 2026-03-04 10:00:0{n} INFO step {n}/900 loss 2.{n}\n" for n in range(6) for r in range(4))
ASSERTION = (
    "[rank1]:/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1369: indexSelectLargeIndex: block: [40,0,0], thread: [8,0,0] "
    "Assertion `srcIndex < srcSelectDimSize` failed.\n"
)


def raised(rank):
    lines = (
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 40, in <module>',
        "    main()",
        "RuntimeError: CUDA error: device-side assert triggered",
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def verdict_of(folder, *ranks):
    (folder / "run.log").write_text(STEPS + ASSERTION + "".join(raised(r) for r in ranks))
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


def test_one_rank_alone_is_named(tmp_path):
    verdict = verdict_of(tmp_path, 1)
    assert verdict.category is Category.DATA
    assert verdict.culprits.ranks == [1]


def test_where_others_raised_for_their_own_it_is_no_ranks_own(tmp_path):
    verdict = verdict_of(tmp_path, 1, 0, 2, 3)
    assert verdict.category is Category.DATA
    assert verdict.culprits.ranks == []
    assert "Assertion" in verdict.trigger.text
