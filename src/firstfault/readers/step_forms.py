"""Forms of step lines that two rooms read: the events of MLPerf, bars that a logger writes, steps in Chinese words.

Must not decide what a line is: the signs of progress and the table of steps each do that by themselves.
"""

from __future__ import annotations

from firstfault.model.lazy import lazy

CHINESE_STEPS = (
    "步数",
    "步骤",
    "训练步",
    "训练步数",
    "当前步",
    "当前步数",
    "全局步数",
    "迭代",
    "迭代次数",
    "迭代步数",
    "迭代数",
    "步",
)
"""Names before a step that was done."""
SAMPLES_COUNT = lazy(rb'"samples_count": ?(\d{1,15})\b')
"""Of `:::MLLOG {…, "key": "train_loss", "value": 11.846, "metadata": {"samples_count": 512}}`."""
EVENT_KEY = lazy(rb'"key": ?"(?P<key>\w{1,60})", ?"value": ?"?[-+\dnNiI]')
"""The name of an event that has a number."""
EVENT_STEP = lazy(rb'"(?:step|step_num|iteration|global_step)": ?(\d{1,12})\b')
LOGGED_BAR = lazy(
    rb"(?i)progress on:(?P<of>train|eval|val\w{0,8}) (?P<value>\d{1,6}(?:\.\d{1,3})?)(?P<size>[km]?)it/(?:(?P<total>\d{1,6}(?:\.\d{1,3})?)(?P<total_size>[km]?)it)?"
    rb"(?: rate:(?P<rate>\d{1,9}(?:\.\d{1,6})?)(?P<unit>s/it|it/s))?"
)
"""A bar of tqdm as a logger writes it, as Levanter's: `Progress on:train 1.23kit/10.0kit rate:1.2s/it … postfix:loss=2.34`."""
SIZES = {b"": 1.0, b"k": 1e3, b"m": 1e6}
"""Of the numbers of such a bar."""
COUNTED = lazy(
    "第 ?".encode() + rb"(?P<value>\d{1,12})(?: ?/ ?(?P<total>\d{1,12}))? ?" + "(?P<of>步|轮|次迭代|个?epoch)".encode()
)
"""`第 120 步`, step 120."""
NAMED = lazy(
    rb"(?<![\x80-\xff])(?:"
    + b"|".join(name.encode() for name in sorted(CHINESE_STEPS, key=len, reverse=True))
    + rb")(?: |:|=|\xef\xbc\x9a|\xef\xbc\x9d|\[){1,4}(?P<value>\d{1,12})(?![\d.])(?: ?/ ?(?P<total>\d{1,12}))?"
)
"""`步数：120/4000`; a longer word before it (`总步数`, all steps) makes it another one."""
