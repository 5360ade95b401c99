"""Names and telephone numbers that notes tell as such are taken out; what only looks like one stays."""

import pytest

from firstfault.incidents.people import NAME, PHONE, without_people


@pytest.mark.parametrize(
    ("page", "after"),
    [
        ("联系 林小雨 更新，林小雨 确认", f"联系 {NAME} 更新，{NAME} 确认"),
        ("负责人：何川，电话 13900139000", f"负责人：{NAME}，电话 {PHONE}"),
        ("Reported by Ann Example, phone: +1 555 010 9999", f"Reported by {NAME}, phone: {PHONE}"),
        ("call +49 30 5550100 99 first", f"call {PHONE} first"),
        ("reseat it, by Ann Example (ann@example.com)", f"reseat it, by {NAME} (ann@example.com)"),
        ("Ann Example (mail-0123456789) found it", f"{NAME} (mail-0123456789) found it"),
        ("Transformer Engine (fused)", "Transformer Engine (fused)"),
        ("联系 存储团队", "联系 存储团队"),
        ("已报修（何川 13900139000），何川 换卡", f"已报修（{NAME} {PHONE}），{NAME} 换卡"),
        ("负责人：何川 13900139000", f"负责人：{NAME} {PHONE}"),
        ("- 值班：何川（+86 139 0013 9000）", f"- 值班：{NAME}（{PHONE}）"),
        ("每个周期 13900139000 ns", "每个周期 13900139000 ns"),
        ("allocated 13900139000 bytes at step 4000", "allocated 13900139000 bytes at step 4000"),
        ("Ask Slurm for more", "Ask Slurm for more"),
        ("called 12 times", "called 12 times"),
    ],
)
def test_people_in_notes(page, after):
    assert without_people(page) == after
