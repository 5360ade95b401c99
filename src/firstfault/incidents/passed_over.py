"""Whether a run that went well met a fault of an incident's kind and went on: its lines say so in words of their own.

A program that catches the fault (skips the batch, tries again, begins the group anew) leaves no exception of the usual
form. What is asked is the kind: the class of the exception, its message, or the words of its family, together with words of
catching. A doubt counts: a run with such a line does not show that the fault is gone. Must not read files or give a result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.incidents.record import Record

_MEMORY = (
    r"out[ -]of[ -]memory|(?<![A-Za-z_])oom(?![A-Za-z_=])|OutOfMemory|memory (?:exhausted|allocation (?:failed|failure))|"
    r"(?:failed|unable|could not|cannot) (?:to )?allocate|显存(?:不足|溢出|耗尽)|内存(?:不足|溢出|耗尽)|爆显存"
)
_NOT_FINITE = (
    r"non-?finite|not finite|isnan|isinf|(?<![\w/-])(?:nans?|infs?)(?![\w-])|diverge|非有限|loss 异常|梯度异常"
)
_STORAGE = (
    r"stale (?:nfs )?file|ESTALE|EIO\b|ENOSPC|errno (?:5|28|107|110|116)\b|input/output error|i/o error|no space left|"
    r"transport endpoint|(?:read|write|open|fetch|load|download|upload|stat)(?:ing)? (?:of )?\S{0,80} ?(?:failed|timed out)|"
    r"failed to (?:read|write|open|fetch|load|download|upload|stat|save)|读取失败|写入失败|磁盘(?:已)?满|句柄失效"
)
_WAITING = (
    r"tim(?:ed|es|ing)[ -]out|(?:hit|reached|exceeded|watchdog|collective|nccl|barrier|store|rendezvous) (?:a |the )?time-?out|"
    r"TimeoutError|(?<![A-Za-z])hang(?![A-Za-z])|\bhung\b|\bstall(?:ed|ing)?\b|\bstuck\b|unresponsive|no response from|"
    r"超时|卡住|卡死|挂起|无响应"
)
_LINK = (
    r"connection (?:reset|closed|refused|lost|aborted)|broken pipe|peer (?:is )?(?:gone|lost|closed)|unreachable|"
    r"(?:nccl|network|link|ib|rdma|socket) (?:\w+ )?(?:error|failure|down|flap)|ECONNRESET|连接(?:断开|重置|失败)|网络(?:错误|异常)"
)
_SAMPLES = (
    r"(?:bad|corrupt(?:ed)?|broken|damaged|invalid|malformed|unreadable|truncated) (?:\w+ )?"
    r"(?:samples?|records?|shards?|archives?|files?|images?|batch(?:es)?|rows?|documents?|data)|坏样本|损坏|样本(?:异常|错误)"
)
_DEVICE = (
    r"cuda error|device-side assert|illegal memory access|\bxid\b|\becc\b|fallen off the bus|gpu (?:error|fault|lost)"
)
_SHAPES = (
    r"(?:shape|size|collective|order|sequence) mismatch|mismatched (?:shapes?|sizes?|collectives?)|形状不一致|不匹配"
)

_BY_CATEGORY: dict[str, tuple[str, ...]] = {
    Category.STORAGE_IO: (_STORAGE,),
    Category.NETWORK: (_LINK, _WAITING),
    Category.GPU_CUDA: (_DEVICE,),
    Category.DATA: (_SAMPLES,),
    Category.DATA_LOADING_STALL: (_WAITING,),
    Category.COLLECTIVE_MISMATCH: (_SHAPES, _WAITING),
    Category.NUMERICAL: (_NOT_FINITE,),
}
_FAMILIES = (_MEMORY, _NOT_FINITE, _STORAGE, _WAITING, _LINK, _SAMPLES, _DEVICE, _SHAPES)
_OF_SIGNATURE = (
    (_MEMORY, r"memory|oom"),
    (_NOT_FINITE, r"nan|inf_|finite|overflow|diverg"),
    (_STORAGE, r"^storage|stale|space"),
    (_WAITING, r"time_?out|hang|hung|stall|watchdog|last_words"),
    (_LINK, r"^net|connection|reset|socket"),
    (_SAMPLES, r"^data\."),
)
_CLASS = lazy(r"[A-Z]\w*[a-z][A-Z]\w*(?=:)|\b(?:[A-Z]\w*(?:Error|Exception|Timeout|Fault|Interrupt)|Bad\w+)\b")
_CAUGHT = lazy(
    r"(?<![\w-])(?:skip(?:s|ped|ping)?|ignor(?:e|es|ed|ing)|retr(?:y|ies|ied|ying)|try(?:ing)? again|another try|"
    r"halv(?:e|es|ed|ing)|caught|catch(?:es|ing)?|swallow(?:ed|ing)?|suppress(?:ed|ing)?|handled|continu(?:e|es|ed|ing)|"
    r"carr(?:y|ying) on|go(?:ing)? on|mov(?:e|ing) on|recover(?:s|ed|ing|y)?|re-?init(?:iali[sz]\w*)?|re-?creat\w+|"
    r"re-?build\w*|re-?start(?:s|ed|ing)?|re-?connect\w*|re-?open(?:s|ed|ing)?|re-?load(?:s|ed|ing)?|roll(?:ed|ing)? back|"
    r"fall(?:s|ing)? back|fell back|fallback|drop(?:s|ped|ping)?|discard(?:s|ed|ing)?|reduc(?:e|es|ed|ing)|shrink\w*|"
    r"replac(?:ed|ing)|evict(?:ed|ing)?|mask(?:ed|ing) out|zero(?:ed|ing) out|nan_to_num|work(?:ed|ing) around|"
    r"empt(?:y|ied|ying) (?:the )?cache|attempt \d+)(?![\w=])(?!\s*[=:]\s*(?:0|false|none|no)\b)"
    r"|跳过|忽略|重试|再试|捕获|继续|恢复|减半|重新|重启|重建|重连|丢弃|回滚|降级|绕过",
    re.IGNORECASE,
)
_NOTHING = lazy(
    r"(?:number of )?(?:\w+ )?(?:skipped|nan|inf|retries|retry|ignored|dropped|oom)(?: \w+)?\s*[:=]\s*0+(?:\.0+)?(?![\w.])"
    r"|\b(?:no|0|without(?: any)?) (?:nans?|infs?|ooms?|retries|timeouts?|errors?)\b",
    re.IGNORECASE,
)
"""A count of none: `number of nan iterations: 0` stands in every step line of some programs."""
_SETTING = lazy(r"(?:^|[\s,{(])[\"']?-{0,2}[A-Za-z][\w.-]*[\"']?\s*[=:]\s*[\"']?(?:true|false|none|null|\d[\d.]*)\b", re.IGNORECASE)  # fmt: skip
"""A setting with its value tells what a program would do, not what it did."""
_SERIOUS = lazy(r"(?<![\w-])(?:ERROR|CRITICAL|FATAL)(?![\w-])")
_WORDS = lazy(r"[^\W\d_]+")
LONGEST = 2000
"""Characters of a line that are looked at."""


_SMALLER = lazy(
    r"(?:scal(?:e|ed|es|ing)[ -](?:down|in)|shr(?:ink|ank|unk)\w*|downsiz\w+) .{0,60}?(?:world|ranks?|nodes?|workers?|group)|"
    r"(?:world|ranks|nodes|workers|group)\b.{0,40}?(?:shr(?:ink|ank|unk)\w*|scaled (?:down|in))|"
    r"(?<![\w-])(?:rank|node|worker|host) ?\S{1,40} (?:has |was |is |have |were |been ){0,3}(?:left(?=\W*$|[,;.]| (?:the|at|after|job|group|world)\b)|evicted|excluded|removed|ejected|"
    r"kicked|dropped (?:out|from)|departed|blacklisted|cordoned)\b|"
    r"(?:continu|resum|proceed|restart|carr|go)\w* (?:on )?with (?:only )?(?:the )?(?:remaining )?\d+ (?:of \d+ )?(?:ranks|nodes|workers|gpus)|"
    r"缩容|剔除|踢出|移除(?:节点|故障)|节点[^ ]{0,20}退出",
    re.IGNORECASE,
)
_FROM_TO = lazy(
    r"(?:world|ranks|nodes|workers)\b[^.;\n]{0,30}?(?:from )?\b(\d{1,6}) ?(?:to|->|=>|→|变为|降为|到) ?(\d{1,6})\b",
    re.IGNORECASE,
)


def became_smaller(line: str) -> bool:
    """Whether a line tells that the job went on with fewer ranks than it had."""
    text = line[:LONGEST]
    sizes = _FROM_TO.search(text)
    if sizes is not None:
        return int(sizes[2]) < int(sizes[1])
    return _SMALLER.search(text) is not None


def kind_of(record: Record) -> re.Pattern[str] | None:
    """What a line has to say to be of an incident's kind; None where its record tells no kind."""
    category, signature, message = record.one("category"), record.one("signature"), record.one("message")
    told = f"{signature} {message}"
    parts = [family for family, named in _OF_SIGNATURE if re.search(named, signature, re.IGNORECASE)]
    parts += [family for family in _FAMILIES if re.search(family, told, re.IGNORECASE)]
    parts += [] if parts and category == Category.GPU_CUDA else _BY_CATEGORY.get(category, ())
    if record.one("form") == Form.HUNG:
        parts.append(_WAITING)
    raised = _CLASS.match(message)
    if raised is not None:
        parts.append(rf"(?<!\w){re.escape(raised.group())}(?!\w)")
        parts += _message(message[raised.end() :])
    return re.compile("|".join(dict.fromkeys(parts)), re.IGNORECASE) if parts else None


def _message(text: str) -> list[str]:
    """The words of a message in their order, whatever stands between them; none where they are too few to know it by."""
    words = [word for word in _WORDS.findall(re.sub(r"<\w+>", " ", text)) if len(word) > 1]
    return [r"[\W\d_]+(?:\S+[\W\d_]+)?".join(map(re.escape, words[:8]))] if len(words) > 2 else []


def passed_over(record: Record, lines: Iterable[str]) -> str:
    """The first line that tells of a fault of an incident's kind and of its being passed over; empty where there is none.

    Args:
        record: the incident.
        lines: of the run, in their order.
    """
    kind = kind_of(record)
    if kind is None:
        return ""
    before = ""
    for line in lines:
        text = line[:LONGEST]
        if before and _caught(text):
            return before.strip()
        before = ""
        if kind.search(text) is None:
            continue
        said = _NOTHING.sub(" ", text)
        if kind.search(said) is None:
            continue
        if _SERIOUS.search(said) is not None or _caught(said):
            return text.strip()
        # What became of it is often told on the next line; a setting is no fault.
        before = "" if _SETTING.search(said) is not None else text
    return ""


def _caught(text: str) -> bool:
    said = _NOTHING.sub(" ", _SETTING.sub(" ", text))
    return _CAUGHT.search(said) is not None
