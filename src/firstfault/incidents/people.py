"""Names of people and their telephone numbers in notes that people wrote, where a word before them says that it is one.

No log's own form tells them. A name that no such word goes before stays: lint asks a person to look. Must not read files.
"""

from __future__ import annotations

import re

_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金"
    "石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤"
)
_CHINESE = re.compile(
    r"(?:联系人|联系|负责人|责任人|报告人|报障人|处理人|对接人|值班人?|作者|记录人|找|问)[ \t]*[:：是]?[ \t]*"
    rf"(?P<name>[{_SURNAMES}][㐀-鿿]{{1,2}})(?![㐀-鿿])"
)
_LATIN = re.compile(
    r"\b(?:[Cc]ontact|[Rr]eported by|[Ff]ound by|[Ff]ixed by|[Oo]wner|[Oo]wned by|[Aa]ssignee|[Aa]ssigned to|[Aa]uthor|[Oo]n-?call|[Aa]sk(?:ed)?|"
    r"[Tt]hanks to|[Pp]inged|[Cc]alled|[Ww]ritten by)[: \t]{1,3}(?P<name>[A-Z][a-z]{1,20} [A-Z][a-z]{1,20})\b"
)
_CHINESE_NUMBER = re.compile(
    rf"(?<=[(（@])(?P<name>[{_SURNAMES}][㐀-鿿]{{1,2}})[ \t:：,，、(（]{{0,3}}(?P<number>1[3-9]\d{{9}})(?!\d)"
)
"""A name in brackets with the number of a mobile behind it."""
_WITH_ADDRESS = re.compile(
    r"\b(?P<name>[A-Z][a-z]{1,20} [A-Z][a-z]{1,20}) ?[(<（](?:mail-[0-9a-f]|[\w.+-]{1,40}@|\+\d)"
)
"""A name with a mail address or a number behind it."""
_PHONE = re.compile(
    r"(?:电话|手机号?|座机|致电|[Tt]el(?:ephone)?|[Pp]hone|[Mm]obile|[Cc]all(?:ed)?)[.:： \t]{0,4}(?P<number>\+?\(?\d[\d ()-]{5,18}\d)(?!\d)|"
    r"(?<![\d+])(?P<abroad>\+\d{1,3}[ -]?\d[\d -]{6,14}\d)(?!\d)"
)
NAME, PHONE = "[removed:name]", "[removed:phone]"
_BESIDE = re.compile(
    re.escape(NAME) + r"[ \t:：,，、(（/|-]{0,4}(?P<number>(?:\+?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4})(?!\d)"
)
"""The number of a mobile behind a name that was taken out: `负责人：… 139 1234 5678`."""


def without_people(page: str) -> str:
    """The page without the names and numbers that it tells as such; a name is taken out wherever it stands."""
    patterns = (_CHINESE, _LATIN, _WITH_ADDRESS, _CHINESE_NUMBER)
    names = {found["name"] for pattern in patterns for found in pattern.finditer(page)}
    for number in {found["number"] for found in _CHINESE_NUMBER.finditer(page)}:
        page = page.replace(number, PHONE)
    for name in sorted(names, key=len, reverse=True):
        page = page.replace(name, NAME)
    page = _BESIDE.sub(lambda found: found.group().replace(found["number"], PHONE), page)
    return _PHONE.sub(_numbers, page)


def _numbers(found: re.Match[str]) -> str:
    which = "number" if found["number"] is not None else "abroad"
    start, end = (at - found.start() for at in found.span(which))
    return f"{found.group()[:start]}{PHONE}{found.group()[end:]}"
