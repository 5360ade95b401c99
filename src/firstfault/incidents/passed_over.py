"""Whether a run that went well met a fault of an incident's kind and went on: its lines say so in words of their own.

A program that catches the fault (skips the batch, tries again, begins the group anew) leaves no exception of the usual
form. What is asked is the kind: the class of the exception, its message, or the words of its family, together with words of
catching, or a counter of it that is no longer zero. A doubt counts: a run with such a line does not show that the fault is
gone. Must not read files or give a result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Form

if TYPE_CHECKING:
    from firstfault.incidents.record import Record

_MEMORY = (
    r"out[ -]of[ -](?:\w+ )?memory|memory (?:\w+ )?(?:error|pressure|fault|shortage|full|exceeded)|(?:hbm|vram) (?:exhausted|full|used up)|ErrorMemoryAllocation|(?<![A-Za-z_])oom(?![A-Za-z_=])|OutOfMemory|memory (?:exhausted|allocation (?:failed|failure))|"
    r"(?:failed|unable|could not|cannot) (?:to )?allocate|oom ?observer|"
    r"(?:not enough|insufficient|due to|because of|for lack of|short of) (?:\w+ )?memory|batch size \d+ failed|"
    r"(?:decreas|reduc|lower|halv|shrink|cut)\w* (?:the )?(?:micro[ -]?|train )?batch[ -]size|"
    r"(?:batch[ -]size|micro-?batch) (?:was |is )?(?:decreased|reduced|lowered|halved|shrunk|cut)|"
    r"too (?:big|large|long) for (?:\w+ )?(?:card|gpu|device|memory)|(?:memory|card|gpu|device|vram|hbm)(?: \d+)? (?:was |is |has |ran |got |went )(?:\w+ )?(?:exhausted|full|used up|too small)|(?:no|not enough|too little) room (?:left )?(?:for|on)|"
    r"(?:does|did|could|can|would|will) ?(?:not|n['’]t) (?:be )?(?:fit|held|allocated)\b|below what .{1,30}? needs|装不下|放不下|不够放|"
    r"(?:显存|内存)[^，。；]{0,6}(?:吃紧|不足|不够|溢出|耗尽|过高|已满|紧张|告警)|爆显存|(?:显存|内存)爆|allocation .{0,40}?(?:did|does) not fit"
)
_NOT_FINITE = (
    r"non[- ]?finite|not finite|isnan|isinf|(?<![\w/-])(?:nans?|infs?)(?![\w-])|diverge|loss spike|overflow|"
    r"bad (?:values?|numbers?|gradients?)|(?:loss|grad\w*|norm|update) (?:is |are |was |were )?(?:not usable|unusable)|(?:to|is|was|became) infinit\w+|infinite (?:loss|grad\w*)|(?:loss|gradients?|norm) (?:blew up|exploded|went wild)|"
    r"非有限|溢出|loss 异常|梯度异常|梯度爆炸|loss 飞|跑飞"
)
_ERRNO = "(?:5|28|107|110|116)"
_STORAGE = (
    r"stale (?:nfs )?(?:file|handle|mount)|ESTALE|EIO\b|ENOSPC|errno "
    rf"{_ERRNO}\b|input/output error|i/o error|no space left|"
    r"transport endpoint|(?:read|write|open|fetch|load|download|upload|stat)(?:ing)? (?:of )?\S{0,80} ?(?:failed|timed out)|"
    r"failed to (?:read|write|open|fetch|load|download|upload|stat|save)|(?:mount|share|volume|file ?system|disk|bucket|store)(?: \S+)? (?:went away|went down|is gone|was gone|disappeared|vanished|dropped)|"
    r"not responding|came (?:up|back) empty|could ?(?:not|n['’]t) be (?:read|opened|written|loaded|fetched)|lost (?:its|the|a) (?:file|mount|handle|share)|(?:盘|存储|挂载)[^，。；]{0,6}(?:闪断|断连|断开|掉线)|读不到|"
    r"(?:读取|写入|打开|下载)[^，。；]{0,80}?(?:失败|出错|超时)|磁盘(?:已)?满|句柄失效"
)
_WAITING = (
    r"tim(?:ed|es|ing)[ -]out|after (?:a |the )?time-?out|took too long|(?:hit|reached|exceeded|watchdog|collective|nccl|barrier|store|rendezvous) (?:a |the )?time-?out|"
    r"(?:did|does|do|has|have) ?(?:not|n['’]t) (?:show up|come|arrive|return|answer|finish|respond|report|join)|never (?:finish|return|arriv|came|come|end|answer|show|join)\w*|"
    r"not responding|unreachable for|pending (?:for|since)|ran dry|卡了 ?\d|(?:no|without a) (?:step|progress|batch|answer|reply) (?:for|in|since|from)\b|(?:was|were|is) given up\b|gave up on|silent (?:for|since)|没有返回|未返回|没返回|无应答|没有响应|没响应|出不了数据|不出数据|"
    r"TimeoutError|(?<![A-Za-z])hang(?![A-Za-z])|\bhung\b|\bstall(?:ed|ing)?\b|\bstuck\b|unresponsive|no response from|"
    r"超时|卡住|卡死|挂起|无响应"
)
_LINK = (
    r"connection (?:reset|closed|refused|lost|aborted)|broken pipe|peer (?:is )?(?:gone|lost|closed)|unreachable|"
    r"(?:nccl|network|link|ib|rdma|socket) (?:\w+ )?(?:error|failure|down|flap)|ECONNRESET|连接(?:断开|重置|失败)|网络(?:错误|异常)"
)
_SAMPLES = (
    r"(?:bad|corrupt(?:ed)?|broken|damaged|invalid|malformed|unreadable|truncated) (?:\w+ )?"
    r"(?:samples?|records?|shards?|archives?|files?|images?|batch(?:es)?|rows?|documents?|data)|坏样本|损坏|样本(?:异常|错误)|"
    r"(?:shards?|tars?|archives?|files?|samples?|members?|records?)\S*(?: \S+){0,2}? (?:was |is |were |are )?(?:cut short|incomplete|damaged|unreadable|broken|corrupt(?:ed)?)|"
    r"(?:crc|checksum|hash|digest)(?: of .{1,40}?)? (?:is |was )?(?:wrong|bad|mismatch\w*|differs?|differ(?:ed|ing))|ended too early|(?:bad|broken|damaged) (?:\w+ )?(?:members?|entr(?:y|ies)|examples?|items?)|读不出来|解不开|坏包|坏文件|"
    r"(?:cannot|can ?not|could not|failed to|unable to) (?:decode|parse|identify)|(?:无法|不能)(?:解码|解析|识别|读取)|(?:解码|解析)失败"
)
_DEVICE = (
    r"(?:gpu|device|card|accelerator)s?(?: #?\d+)? (?:has |have |was |is )?(?:vanished|dropped (?:off|out)|fell off|fallen off|disappeared|lost|gone|died|dead)|掉卡|卡(?:掉|丢)|丢卡|"
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
    r"re-?buil[dt]\w*|re-?join\w*|redo(?:ne|ing)?|spill(?:s|ed|ing)?|offload(?:ed|ing)|switch(?:ed|ing)|split(?:ting)?|re-?start(?:s|ed|ing)?|re-?connect\w*|re-?mount\w*|re-?open(?:s|ed|ing)?|re-?load(?:s|ed|ing)?|roll(?:ed|ing)? back|"
    r"fall(?:s|ing)? back|fell back|fallback|drop(?:s|ped|ping)?|discard(?:s|ed|ing)?|reduc(?:e|es|ed|ing)|shrink\w*|"
    r"replac(?:ed|ing)|evict(?:ed|ing)?|mask(?:ed|ing) out|zero(?:ed|ing) out|nan_to_num|work(?:ed|ing) around|"
    r"empt(?:y|ied|ying) (?:the )?cache|decreas(?:e|es|ed|ing)|lower(?:ed|ing)|repeat(?:ed|ing)|truncating|"
    r"trying (?:batch|with|the next|another|instead)|us(?:e|es|ed|ing) (?:the )?(?:next|another|a? ?replica|fallback)|"
    r"(?:went|gone|going|move[ds]?|moving) (?:ahead|back|down)|without (?:it|them|him|that)\b|took (?:the next|another|over|its place)|take[ns]? over|came back|come back|torn down|"
    r"set up again|(?<!try )again\b|anew\b|new (?:group|one|communicator|process|worker|connection)|throw[ns]?(?: \w+)? away|thr[eo]wn?(?: \w+)? (?:away|out)|left out|leaving (?:it )?out|"
    r"(?:from|by|on|to) (?:a |the |its )?(?:mirror|backup|copy|spare|standby)|spares?\b|(?:second|third|next|another) (?:attempt|time|try)|smaller|with less\b|(?:to|on) (?:the )?cpu\b|kick(?:s|ed)?\b|reset\b|once more\b|repeated\b|dr[ae]w(?:ing|n)? another|put(?:ting)? aside|set aside|omitted|not used\b|resumed\b|caught up\b|cut to\b|still trying|half the\b|"
    r"(?:snapshot|dump)\w* (?:written|saved)|\w*Warning(?=: )|attempt \d+)(?![\w=])(?!\s*[=:]\s*(?:0|false|none|no)\b)"
    r"|跳过|忽略|重试|再试|捕获|继续|恢复|减半|重新|重启|重建|重连|丢弃|丢掉|略过|回滚|降级|绕过|换(?:下)?一|换用|降到|自己好|恢复了|改用|改成|改为|换成|换了|换下|已换|顶上|备用|备份|新起|不更新|不要了|删掉|截断|清空|减小|调小|降低|切换",
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
_ERROR = lazy(
    r"^Traceback \(most recent call last\)|(?:^|[\]:|>] ?)Traceback \(most recent call last\)"
    r"|^(?:\[?[\d:./T ,-]{8,40}\]?\W{0,3})?[EF](?:0[1-9]|1[0-2])[0-3]\d \d\d:\d\d:\d\d"
    r"|\b(?:level|severity|levelname)[\"']?[:=] ?[\"']?(?:error|critical|fatal)\b",
    re.IGNORECASE,
)
"""The same in other forms: a traceback, glog's letter, a field of a record."""
_ERROR_WORD = lazy(
    r"(?:(?<![\w=/-])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm))(?:ERROR|CRITICAL|FATAL)(?![\w=/-])|\[(?:错误|严重)\]|(?:发生|出现|遇到|抛出)了?(?:严重|未知)?(?:错误|异常|故障)|严重(?:错误|故障)"
)
_ADVERSE = lazy(
    r"(?<![\w-])(?:bad|wrong|broken|corrupt(?:ed)?|damaged|invalid|malformed|truncated|incomplete|inconsistent|unexpected(?:ly)?|faulty|unusable|unreadable|garbage|"
    r"fail(?:s|ed|ure|ures|ing)?|mismatch(?:es|ed)?|disagree(?:s|d)?|differs? from|does ?(?:not|n['’]t) (?:match|agree|fit|parse|decode|load)|could ?(?:not|n['’]t)|cannot|unable to|missing|raised|threw|error(?:s|ed)?|exceptions?)(?![\w-])"
    r"|不符|不对|不一致|不匹配|异常|失败|错误|出错|损坏|缺失|坏了|无效|无法|读不|解不",
    re.IGNORECASE,
)
_PASSED = lazy(
    r"(?<![\w-])(?:skip(?:s|ped|ping)|ignored|ignoring|drop(?:s|ped|ping)|discard(?:s|ed|ing)|mov(?:ed|ing) on|carr(?:ied|ying) on|going on|went on|left out|leaving (?:it )?out|thrown (?:away|out)|"
    r"retried|retrying|tr(?:ied|ying) again|substitut(?:ed|ing)|replac(?:ed|ing)|us(?:ed|ing) the (?:next|previous|last)|swallowed|set aside|put aside)(?![\w=-])"
    r"|已跳过|跳过了|并跳过|被跳过|先跳过|直接跳过|已忽略|丢弃|略过|重试|换下一|用上一|继续训练|继续往下",
    re.IGNORECASE,
)
_MILD = lazy(r"(?<![\w-])(?:INFO|DEBUG|TRACE|WARN|WARNING)(?![\w-])")
"""A level that is none of an error's: `INFO … ERROR rate 0`."""
_REPORTER = lazy(r"(?i)\b(?:wandb|tensorboard|mlflow|comet|swanlab|clearml|neptune|aim|nvml|dcgm|prometheus)\b")
"""Who reports on a run: that it loses its server is no fault of the run."""
_WORDS = lazy(r"[^\W\d_]+")
LONGEST = 2000
"""Characters of a line that are looked at."""
_COUNTED = lazy(
    r"(?<![\w-])(?P<label>(?:[A-Za-z_/.-]{1,40} ){0,4}[A-Za-z_/.-]{1,60})['\"]?(?:\s*[:=]\s*|\s)(?P<number>\d{1,9})(?![\w.%/])"
)
_COUNT_WORDS = re.compile(
    r"num|count|total|events?\b|times\b|steps\b|iterations\b|batch(?:es)?\b|retries|skips\b|drops\b|hits\b|occurrences|skipped|dropped|ooms\b|nans\b|infs\b|time-?outs\b|errors\b|failures\b|stalls\b",
    re.IGNORECASE,
)
_COUNT_NAME = re.compile(
    r"(?:^num_?\w+|_count|(?<=[a-z]_)(?:events|ooms|nans|infs|retries|timeouts|errors|failures)|^n_\w+|\bnum_\w+)$",
    re.IGNORECASE,
)
"""The end of a counter's name where nothing but a space stands before its number."""
_LIMIT_WORDS = re.compile(
    r"max|min|limit|threshold|allowed|budget|every|interval|patience|(?<![a-z])per(?![a-z])|before|window|size|id\b|seconds|\bms\b|without|no ",
    re.IGNORECASE,
)
_HEDGED = lazy(
    r"(?<![A-Za-z])(?:no|not|never|without|free of|avoid\w*|prevent\w*|guard\w*|protect\w*|check\w*|monitor\w*|detect(?:or|ion)|handler|watch\w*|if|when|"
    r"unless|would|may|might|could|until|before|threshold|limit|budget|safe|enabled?|disabled?|passed|ok|clean|supported|"
    r"initiali\w+|start\w*|ready|registered|options?|args?|config\w*)(?![A-Za-z])|(?<![A-Za-z])(?:on|off)\W*$|[-_]safe|没有|未|无|避免|防止|检查|如果|设置|启用",
    re.IGNORECASE,
)
"""Words with which a line names a fault that may come, or that did not."""
_MAY_COME = lazy(
    r"(?<![A-Za-z])(?:if|when|whenever|unless|would|will|may|might|should|enabled?|disabled?|checkpoint keys?|unexpected keys?|missing keys?|optimizer state|overflow|loss scale)(?![A-Za-z])"
    r"|\b(?:no|0|without(?: any)?) (?:\w+ )?(?:bad|wrong|broken|corrupt(?:ed)?|damaged|invalid|failed|failures?|errors?|mismatch(?:es)?)\b|(?<![\w.])0(?:\.0+)? ?%"
    r"|如果|若|设置|启用|将会",
    re.IGNORECASE,
)
"""Words of a line that tells what a program would do, or what every run of mixed precision does."""
_SHORT_NAMES = (
    ("oom", _MEMORY),
    ("nan", _NOT_FINITE),
    ("infs", _NOT_FINITE),
    ("timeout", _WAITING),
    ("stale", _STORAGE),
)
"""Parts of the names of counters, and the family that each counts."""


def kind_of(record: Record, *, any_number: bool = False) -> re.Pattern[str] | None:
    """What a line has to say to be of an incident's kind; None where its record tells no kind.

    Args:
        record: the incident.
        any_number: whether another number in the place of one that counts will do.
    """
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
    if any_number:
        parts = [part.replace(_ERRNO, r"\d+") for part in parts]
    return re.compile("|".join(dict.fromkeys(parts)), re.IGNORECASE) if parts else None


def _message(text: str) -> list[str]:
    """The words of a message in their order, whatever stands between them; none where they are too few to know it by."""
    words = [word for word in _WORDS.findall(re.sub(r"<\w+>", " ", text)) if len(word) > 1]
    return [r"[\W\d_]+(?:\S+[\W\d_]+)?".join(map(re.escape, words[:8]))] if len(words) > 2 else []


def is_of_kind(text: str, kind: re.Pattern[str]) -> bool:
    """Whether a line names a fault of a kind, counts of none left out."""
    return kind.search(text) is not None and kind.search(_NOTHING.sub(" ", text)) is not None


def is_caught(text: str) -> bool:
    """Whether a line tells of passing over something."""
    return _CAUGHT.search(_SETTING.sub(" ", _NOTHING.sub(" ", text))) is not None


def is_serious(text: str) -> bool:
    """Whether a line calls itself an error."""
    return _SERIOUS.search(_NOTHING.sub(" ", text)) is not None


def is_error(text: str) -> bool:
    """Whether a line is an error of the run itself, by its level or as the head of a traceback."""
    told = _NOTHING.sub(" ", text)
    found, mild = _ERROR_WORD.search(told) or _ERROR.search(told), _MILD.search(told)
    return found is not None and (mild is None or mild.start() > found.start()) and _REPORTER.search(told) is None


def is_mishap(text: str) -> bool:
    """Whether a line tells, in whatever words, that something was wrong and was passed over; one that may only come is none."""
    if _PASSED.search(text) is None:
        return False
    told = _SETTING.sub(" ", _NOTHING.sub(" ", text))
    return (
        _PASSED.search(told) is not None
        and _ADVERSE.search(told) is not None
        and _MAY_COME.search(told) is None
        and _REPORTER.search(told) is None
    )


def is_hedged(text: str) -> bool:
    """Whether a line may name a fault that did not come."""
    return _HEDGED.search(text) is not None or is_setting(text)


def is_setting(text: str) -> bool:
    """Whether a line tells a setting with its value: no fault, and nothing of one."""
    return _SETTING.search(_NOTHING.sub(" ", text)) is not None


def counters_of(kind: re.Pattern[str]) -> re.Pattern[str]:
    """What a line has to hold that may count faults of a kind."""
    return re.compile(
        "|".join(name for name, family in _SHORT_NAMES if family in kind.pattern) or "(?!)", re.IGNORECASE
    )


def counts_of(text: str, kind: re.Pattern[str]) -> list[tuple[str, int]]:
    """Counters of faults of a kind in a line, each as its text up to the number, and the number: `nan iterations: `, 3."""
    found = []
    for match in _COUNTED.finditer(text):
        label = match["label"]
        if _COUNT_WORDS.search(label) is None or _LIMIT_WORDS.search(label) is not None:
            continue
        low = label.lower()
        if ":" not in match.group() and "=" not in match.group() and _COUNT_NAME.search(label) is None:
            continue
        if kind.search(label) is not None or any(
            name in low and family in kind.pattern for name, family in _SHORT_NAMES
        ):
            found.append((text[match.start("label") : match.start("number")], int(match["number"])))
    return found
