"""Whether a run that came to its end went there in one piece: its lines may tell that ranks were lost, or that it began anew.

What began anew failed before, and nobody knows by what: such a run does not show that a fault is gone, of whatever kind it
was. Must not read files or give a result.
"""

from __future__ import annotations

import re

from firstfault.incidents.passed_over import LONGEST
from firstfault.model.lazy import lazy

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


_PART = r"(?:worker|trainer|rank|node|host|process|pod|replica|job|run|training|attempt|launcher|torchrun|srun|mpirun|command|script|try)(?:s|es)?"
_ANEW = lazy(
    rf"{_PART}(?: \S{{1,40}}){{0,4}}? (?:has |have |was |were |is )?(?:failed|crashed|died|lost|dead|killed|hung|stuck|exited|unresponsive)\b"
    r".{0,80}?(?:re-?start|re-?launch|re-?spawn|re-?schedul|re-?submi|re-?queue|retr(?:y|ie)|try(?:ing)? again|replac|swap)"
    rf"|(?<![\w-])(?:re-?start|re-?launch|re-?spawn|re-?schedul|re-?submitt?)(?:ed|ing) (?:the |all |its )*(?:failed |hung |dead |stuck |whole |faulty |entire )*{_PART}\b"
    r"|(?:killing|killed|stopp(?:ed|ing)|terminat(?:ed|ing)) .{0,60}?(?:re-?launch|re-?start|re-?spawn)"
    rf"|{_PART}(?: \S{{1,40}}){{0,4}}? (?:has |have |was |were )?(?:died|crashed|exited|killed|failed) with (?:exit ?)?(?:code|status|signal)[ :]{{1,2}}-?[1-9]"
    r"|(?<![\w-])(?:repeated|re-?started|re-?launched|re-?queued|re-?submitted|resumed|re-?scheduled|recovered) (?:by the|after (?:a|the)|due to|because of) (?:\w+ ){0,2}(?:launcher|agent|supervisor|scheduler|watchdog|crash|fail|fault|error|death|loss)"
    r"|(?:node|host|machine|gpu) \S{1,40} (?:has |was |is )?(?:been )?(?:drained|went down|is down|lost|failed)\b|(?:on|with|from|by) (?:a |the )?(?:hot )?(?:spare|standby)\b"
    rf"|(?<![\w-]){_PART}(?: (?:#|\d|gpu|group)\S{{0,20}}){{0,2}} (?:was |were |is |has been )?(?:re-?started|re-?launched|re-?spawned|re-?submitted|re-?queued)\b"
    r"|(?:in-process|automatic|auto) re-?start|re-?start(?:s|ed)? ?(?:#|no\.? ?|number )\d|\brestart_count=[1-9]"
    r"|re-?launch(?:ed|ing) from|re-?start(?:ed|ing) from (?:the )?(?:last|latest|previous|step|iteration|checkpoint)"
    r"|roll(?:ed|ing|s)? ?back to (?:the )?(?:last|latest|previous|step|iteration|checkpoint|good)"
    r"|(?:lost|no|missed|missing) heartbeats? (?:of|from)|heartbeats? (?:of .{1,40} )?(?:was |were )?(?:lost|missed|timed out)"
    r"|hot-?swap(?:s|ped|ping)\b|(?:left|lost|out of) (?:the )?quorum|(?:replac|swapp)(?:ed|ing) (?:the )?(?:failed |faulty |dead |bad |lost )?(?:nodes?|hosts?|ranks?|workers?)\b"
    r"|no progress (?:for|since|in) .{0,60}?(?:kill|re-?start|re-?launch|abort)"
    r"|(?:自动)?(?:重新)?(?:拉起|重启|重新启动|重新提交)(?:了)?(?:训练|任务|作业|进程|新进程|worker|节点)|第 ?\d+ ?次(?:重启|重试|拉起)|回滚(?:到|至)|(?:已|被)(?:重新)?调度到|替换(?:了)?(?:故障|坏)?节点|换机|心跳(?:丢失|超时)",
    re.IGNORECASE,
)
_COUNT_OF_STARTS = lazy(r"\brestart_count=\d")
"""Of a line whose other numbers may tell it."""
_MAY_BE = lazy(
    r"(?<![\w-])(?:if|when|whenever|in case|unless|would|can be|may be|could be|on failure|not|never|no need|without) |[:=] ?(?:true|false|none|null|never|always)\b|如果|若|未曾|没有",
    re.IGNORECASE,
)
"""What would be done, and what was not."""


def began_anew(line: str) -> bool:
    """Whether a line tells that the job, or a part of it, failed and was begun anew."""
    text = line[:LONGEST]
    return _ANEW.search(text) is not None and _MAY_BE.search(text) is None


PATTERNS = (_FROM_TO, _SMALLER, _ANEW, _COUNT_OF_STARTS)
"""What a line has to hold that may tell either, whatever its numbers are."""


def may_tell(line: str) -> bool:
    """Whether a line may tell either, whatever its numbers are."""
    text = line[:LONGEST]
    return any(pattern.search(text) is not None for pattern in PATTERNS)
