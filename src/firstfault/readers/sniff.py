"""What a file holds, told from a sample of its bytes; names are a hint only where content cannot tell.

It classifies and draws no conclusions; whatever looks like text that a program printed is a log.
"""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath

from msgspec import Struct

from firstfault.model.evidence import EMPTY
from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind
from firstfault.readers.aistore_lines import read_prefix
from firstfault.readers.gpu_course import table_of
from firstfault.readers.job_object import is_job_object
from firstfault.readers.magic import compression_of
from firstfault.readers.pod_object import is_packed_object, is_pod_object
from firstfault.readers.recorder_tables import holds_tables
from firstfault.readers.unwrap import JSON, ONE_LINE, PAGE, PRINTED, RECORD, ROW, TIME_KEY, form_of

HEAD = 64 * 1024
TAIL = 16 * 1024
PODS_ON_ONE_LINE = "pods in one line of JSON; print them with `kubectl get pod -o yaml`"
WITH_ADVICE = frozenset({PODS_ON_ONE_LINE})
"""Reasons by which a file is not read as it is, though it could be in another form."""

_MAGIC = (
    (b"FFRING", "the heartbeat of a process that records, which its monitor writes out as text"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"%PDF", "a PDF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"RIFF", "a media file"),
    (b"OggS", "a media file"),
    (b"fLaC", "a media file"),
    (b"ID3", "a media file"),
    (b"!<arch>\n", "a library"),
    (b"\x0a\x0d\x0d\x0a", "a packet capture"),
)
_RECORD = b'{"firstfault":"record/'
"""How every file of the recorder begins."""
_PACKAGES = (".whl", ".jar", ".egg", ".docx", ".xlsx", ".pptx", ".odt", ".apk")
_SOURCE_CODE = frozenset(
    {
        ".py",
        ".pyi",
        ".sh",
        ".bash",
        ".c",
        ".cc",
        ".cpp",
        ".cu",
        ".cuh",
        ".h",
        ".hpp",
        ".rs",
        ".go",
        ".js",
        ".ts",
        ".java",
        ".md",
        ".rst",
        ".ipynb",
        ".html",
        ".css",
        ".sbatch",
        ".slurm",
    }
)
_SETTINGS = frozenset({".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".properties"})
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\r\x1b\x08\x0c\x07") + b"\x7f"
_PAIR = lazy(rb"(?:[\xa1-\xa9\xb0-\xf7][\xa1-\xfe])+")
# A search for a newline is ten times as fast as one for the start of any line: these are asked of text behind a newline.
_KERNEL = lazy(rb"\n(?:<\d+>)?(?:\[ *\d+\.\d{6}\] |.{0,60}\bkernel: )")
_KERNEL_TIME = lazy(rb"\n(?:<\d+>)?\[ *\d+\.\d{6}\] ")
_DMESG_T = lazy(rb"\n\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\] ")
_GLOG = lazy(rb"(?m)^[IWE] ?\d\d:\d\d:\d\d\.\d+ ")
_AISTORE = lazy(
    rb"\bais(?:node|target|proxy)?\b|\bstats:|\[[tp]\[\w+\]|\b[tp]\[[A-Za-z0-9]+\]"
    rb"|\bkalive\.ns:\d|\bstate\.flags:\d|\b(?:lcache|moss):\d+ |\d\d [A-Z][a-z]{2} \d\d \d\d:\d\d \S+ ={13}"
)
_AIS_START = lazy(rb"(?:Started up|Rotated) at \d{4}/\d\d/\d\d ")
_RECORD_TIME = lazy(rb"[IWE] ?\d\d:\d\d:\d\d\.\d")
"""What every record of a storage daemon holds, and next to no other line: looked for first, because it is cheap."""
_CLOCK = lazy(rb":\d\d:\d\d\.\d")
_POD_RECORD = lazy(rb"(?m)^[^\n]{1,200}?[IWE] (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6} ")
"""A storage daemon's record behind what a container runtime puts before it."""
_AIS_CRASH = lazy(rb"(?m)^(?:[^\n]{0,120} )?goroutine \d+ \[[^\n]*\]:?")
_STACK = lazy(
    rb"(?m)\n(?:Thread \d+ \(\w+\)|Thread 0x[0-9a-f]+|Current thread 0x[0-9a-f]+|Process \d+:|Python v\d|Traceback for thread|"
    rb'    \S.* \(\S+:\d+\)|  File "[^"\n]+", line \d+(?:,)? in |    \(Python\) File |    \(C\) File |    Arguments:|    Locals:|        |'
    rb"#\d{1,4} +0x[0-9a-f]{6,16}\b|#\d{1,4} +\S.* \(.*\) (?:at|from) \S+$|Thread \d+ \(Thread 0x|Thread \d+ \(LWP |TID \d+:|"
    rb"Unable to locate python frame|\[New LWP |=== Rank \d+: http|    \S.* \([^()\s]+\.so[.\d]*\)$)"
)
_DEBUG_PAGE = lazy(rb"<h1>Torch Distributed Debug Server</h1>")
_STACK_HEAD = lazy(
    rb"\n(?:Thread \d+ \((?:\w+\)|Thread 0x|LWP )|Thread 0x[0-9a-f]+|Current thread 0x[0-9a-f]+|Process \d+:|Traceback for thread|"
    rb'  File "[^"\n]+", line \d+|TID \d+:|#0 +0x[0-9a-f]{6,16} )'
)
_OWN_JSON = lazy(rb'\s*\{\s*"schema"\s*:\s*"firstfault\.')
_OWN_MARKDOWN = lazy(rb"# [^\n]+\n\n\*\*[^\n]+\*\*\n\n- Category: `[a-z_]+`\n- Strength: `[a-z]+`")
_OWN_PAGE = lazy(
    rb'<!doctype html>\n<html[^>]*>\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="firstfault '
)
_OWN_XML = lazy(rb'<\?xml [^>]*>\n<testsuites name="firstfault"')
_OWN_SARIF = lazy(
    rb'\s*\{\s*"\$schema"\s*:\s*"[^"\n]*sarif[^{]*"runs"\s*:[^"]*"tool"[^"]*"driver"[^"]*"name"\s*:\s*"firstfault"'
)
_OWN_TABLE = (
    b"rank,local_rank,node_rank,host,state,part,",
    b"clock,earliest,latest,exact,role,",
    b"job,state,scheduler_state,failed,",
)
_OWN_BATCH = lazy("job {2,}ended {2,}\\S|作业 {2,}结局 {2,}\\S".encode())
_REPORT = lazy(rb"\d\s+of\s+\d+\s+cited\s+lines\s+re-read[^\n]*(?:\n[^\n]+)?\s*\Z")
"""The last words of the reports that this program prints as text."""
_PACKAGE = lazy(rb"Metadata-Version: \d\.\d\r?\n(?:Name|Version): ")
"""The description of a Python package, which lies beside its code."""
_SCHEDULER = lazy(
    rb"(?m)^(?:JobId=\d+ |JobID[|,]| *JobID +|SlurmctldDebug|NodeName=\S+ |PartitionName=| *JOBID +PARTITION|Name: +\S+\nNamespace: |"
    rb"LAST SEEN +TYPE +REASON|NAMESPACE +NAME +READY|NAME +READY +STATUS +RESTARTS)"
)
_JSON_LINE = lazy(
    rb'^\s*\{.*"(?:message|msg|log|text|event|textPayload|MESSAGE|@message|_raw|body)"\s*:|^\s*\{.*"line"\s*:\s*"'
)
_METRIC_LINE = lazy(rb'^\s*\{[^{}\n]*"(?:\w*step\w*|\w*iter\w*|\w*loss\w*|epoch)"\s*:\s*[-\d.]')
_NAME = rb"(?P<%b>(?:[\w.\-@+=,%%~ ]{0,200}/){0,30}[\w.\-@+=,%%~]{1,200}\.(?:log|out|err|txt|stderr|stdout|\d{1,6})|[\w.\-@+=,%%~/]{0,300}/[\w.\-@+=,%%~]{1,200})"
SECTION_HEADER = lazy(
    rb"(?m)^(?:==> " + _NAME % b"tail" + rb" <==|:{14}\r?\n" + _NAME % b"more" + rb"\r?\n:{14})\r?(?:\n|\Z)",
)
"""What `tail`, `head` and `more` write between files that they glue into one."""


class Sniffed(Struct, frozen=True):
    """The kind of a file and, where it is not a text to be read line by line, what it is in words."""

    kind: SourceKind
    note: str = ""
    encoding: str = ""
    """`utf-16-le`, `utf-16-be` (or with 32), `gb18030` where the text has to be turned into UTF-8 first; empty for all else."""
    wrapped: str = ""
    """The form of a document (see `unwrap`) in which a log stands; empty for all else."""


def sniff(head: bytes, tail: bytes, name: str) -> Sniffed:
    """Tells what a file holds.

    Args:
        head: up to `HEAD` first bytes.
        tail: up to `TAIL` last bytes.
        name: shown path.
    """
    if not head:
        return Sniffed(SourceKind.EMPTY, EMPTY)
    if head.startswith(_RECORD):
        return Sniffed(SourceKind.BLACK_BOX)
    encoding = _wide(head)
    if encoding:
        return Sniffed(SourceKind.LOG, encoding=encoding)
    pickled = _pickle(head, tail)
    if pickled is not None:
        return pickled
    for magic, note in _MAGIC:
        if head.startswith(magic):
            return Sniffed(SourceKind.BINARY, note)
    encoding = _chinese(head)
    if encoding:
        return Sniffed(SourceKind.LOG, encoding=encoding)
    if not is_text(head) and not is_text(tail):
        if b"brain.Event:" in head[:64]:
            return Sniffed(SourceKind.METRICS, "TensorBoard events")
        return Sniffed(SourceKind.BINARY, "not text")
    return _text(head, tail, name)


def is_own_report(head: bytes, tail: bytes) -> bool:
    """Whether a file is a report that this program wrote, in any of its forms.

    Args:
        head: its first bytes, at least 1,024 or all.
        tail: its last bytes, at least 512 or all.
    """
    if head.startswith(b"{"):
        return _OWN_JSON.match(head) is not None or _OWN_SARIF.match(head) is not None
    if head.startswith(b"<"):
        return _OWN_PAGE.match(head) is not None or _OWN_XML.match(head) is not None
    if head.startswith(b"# "):
        return _OWN_MARKDOWN.match(head) is not None
    return head.startswith(_OWN_TABLE) or _OWN_BATCH.match(head) is not None or _REPORT.search(tail[-2048:]) is not None


def is_text(sample: bytes) -> bool:
    """Whether a sample reads as text; runs of NUL (holes of a log that was cut while written) do not count against it."""
    rest = sample.replace(b"\0", b"")
    if len(rest) < len(sample) and len(rest) * 8 < len(sample) and sample.count(b"\0\0\0\0") * 4 < len(sample) // 4:
        return False
    if not rest:
        return False
    if len(rest.translate(None, _CONTROL)) < len(rest) * 0.97:
        return False
    high = len(rest) - len(rest.translate(None, bytes(range(128, 256))))
    if high * 10 < len(rest):
        return True
    broken = rest.decode("utf-8", "replace").count("\ufffd")
    return broken * 20 < len(rest)


def _wide(head: bytes) -> str:
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32-le" if head[0] else "utf-32-be"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16-le" if head[0] == 0xFF else "utf-16-be"
    sample = head[: min(len(head), 4096) // 2 * 2]
    if len(sample) < 32:
        return ""
    for name, zeros, letters in (("utf-16-le", sample[1::2], sample[::2]), ("utf-16-be", sample[::2], sample[1::2])):
        if zeros.count(0) > len(zeros) * 0.9 and letters.count(0) == 0 and is_text(letters):
            return name
    return ""


def _chinese(head: bytes) -> str:
    """`gb18030` where a text of the sort that programs print under a Chinese locale is no UTF-8 and reads as that; else empty.

    Two bytes above 0xA0 for each character is what the letters in use look like; letters of Western code pages stand
    alone between ASCII ones.
    """
    high = len(head) - len(head.translate(None, bytes(range(128, 256))))
    if high < 4 or len(head.translate(None, _CONTROL)) < len(head) * 0.97:
        return ""
    read = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    broken = read.count("\ufffd")
    if broken <= sum(character > "\x7f" for character in read) - broken:
        return ""
    pairs = _PAIR.findall(head)
    if sum(map(len, pairs)) < high * 0.9:
        return ""
    try:
        codecs.getincrementaldecoder("gb18030")().decode(head)
    except UnicodeDecodeError:
        return ""
    return "gb18030"


_DUMP_NAME = lazy(r"(?:^|/)(?:nccl|comm_lib|fr)_trace_(?:rank_)?\d+[^/]*$")
_OLD_PICKLE = lazy(rb"[(\]}]?c[\w.]{1,80}\n[\w.]{1,80}\n")
"""The begin of a pickle in the oldest form that asks for an object of a module."""


def _pickle(head: bytes, tail: bytes) -> Sniffed | None:
    if not (head[:1] == b"\x80" and 2 <= head[1:2].ljust(1)[0] <= 5):
        return None
    if b"device_traces" in head or b"device_traces" in tail or (b"segments" in head[:4096] and b"total_size" in head):
        return Sniffed(SourceKind.MEMORY_SNAPSHOT)
    if any(
        word in head or word in tail for word in (b"pg_config", b"collective_seq_id", b"nccl_version", b"pg_status")
    ):
        return Sniffed(SourceKind.FLIGHT_RECORDER)
    if b"entries" in head[:4096] or b"profiling_name" in head:
        return Sniffed(SourceKind.FLIGHT_RECORDER)
    return Sniffed(SourceKind.BINARY, "a pickle of an unknown kind")


def _text(head: bytes, tail: bytes, name: str) -> Sniffed:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if is_own_report(head, tail):
        return Sniffed(SourceKind.CONFIG, "a report of firstfault")
    if is_pod_object(head, tail) or is_job_object(head):
        return Sniffed(SourceKind.SCHEDULER)
    if is_packed_object(start):
        return Sniffed(SourceKind.CONFIG, PODS_ON_ONE_LINE)
    if start[:1] in {b"{", b"["} and _daemon(head, max(1, head.count(b"\n"))):
        return Sniffed(SourceKind.AISTORE)
    if start[:1] in {b"{", b"["}:
        found = _json(start, tail, name)
        if found is not None:
            return found
    if holds_tables(head):
        return Sniffed(SourceKind.FLIGHT_RECORDER)
    suffix = PurePosixPath(name).suffix.lower()
    lines = max(1, head.count(b"\n"))
    kernel = _KERNEL if b"kernel: " in head else _KERNEL_TIME  # the cheaper one where it makes no difference
    begun = b"\n" + head
    if len(kernel.findall(begun)) + len(_DMESG_T.findall(begun)) > lines * 0.5:
        return Sniffed(SourceKind.KERNEL)
    if _AIS_START.match(start) or _daemon(head, lines):
        return Sniffed(SourceKind.AISTORE)
    if _SCHEDULER.match(start):
        return Sniffed(SourceKind.SCHEDULER)
    if _DEBUG_PAGE.search(head) is not None:
        if b"<h1>Stacks</h1>" in head or b"<h1>py-spy Stack Traces</h1>" in head:
            return Sniffed(SourceKind.STACKS)
        return Sniffed(SourceKind.CONFIG, "a page of the debug server without stacks")
    if suffix in _SOURCE_CODE or _PACKAGE.match(start) or (start.startswith(b"#!") and _is_script(suffix, head, tail)):
        return Sniffed(SourceKind.CONFIG, "source code or a document", wrapped=form_of(head, tail, suffix))
    if PAGE.match(start) and (form := form_of(head, tail, suffix)):
        return Sniffed(SourceKind.CONFIG, "a web page", wrapped=form)
    filled = lines - head.count(b"\n\n")
    if _STACK_HEAD.search(begun) and len(_STACK.findall(begun)) > filled * 0.6:
        return Sniffed(SourceKind.STACKS)
    if _DUMP_NAME.search(name) is not None and _OLD_PICKLE.match(start):
        return Sniffed(SourceKind.FLIGHT_RECORDER)  # one that no dump is: its reader refuses it, and says so
    if suffix in _SETTINGS:
        return Sniffed(SourceKind.CONFIG, "settings")
    if _table(start) and not _SPOKEN.search(head) and not _SPOKEN.search(tail) and table_of(head) is None:
        return Sniffed(SourceKind.METRICS)  # the rows of a monitor of cards say where one is lost: that is a log
    return Sniffed(SourceKind.LOG)


_SPOKEN = lazy(
    rb"(?:\A|[\n\r])(?:\[(?:rank|default)\d+\]:|Traceback \(most recent call last\):|[\w.]{1,80}(?:Error|Exception|Interrupt): "
    rb"|slurmstepd: |srun: |[IWEF]\d{4} \d\d:\d\d:)|\] NCCL (?:INFO|WARN) "
)
"""What a program or its launcher says and no row of a table is."""
_NO_JSON = lazy(rb"\n\s{0,8}(?!(?:true|false|null|NaN|Infinity)\b)(?:[A-Za-z]|\[[A-Za-z]|\d{4}-\d\d-)")
"""The begin of a line that is no part of a JSON object."""
_SAID = frozenset({".log", ".out", ".err", ".stdout", ".stderr", ".o", ".e"})


def _is_script(suffix: str, head: bytes, tail: bytes) -> bool:
    """Whether text that begins with `#!` is a script: a job's log may begin with the script that ran, as its prolog shows it."""
    return suffix not in _SAID and not suffix[1:].isdigit() and not (PRINTED.search(head) or PRINTED.search(tail))


def _daemon(head: bytes, lines: int) -> bool:
    """Whether most lines are records of a storage daemon, bare or as a container runtime gives them."""
    if not _holds_record_time(head) or _AISTORE.search(head) is None:
        return False
    bare = len(_GLOG.findall(head))
    if bare > lines * 0.5:
        return True
    found = [m for m in _POD_RECORD.findall(head) if read_prefix(m[: -len(b"I 00:00:00.000000 ")]) is not None]
    records = bare + len(found)
    # A crash prints a stack that is longer than what came before it.
    return records > lines * 0.5 or (records > 2 and _AIS_CRASH.search(head) is not None and b"/aistore/" in head)


def _holds_record_time(head: bytes) -> bool:
    """Whether `_RECORD_TIME` finds anything: its colons are looked for first, because that is three times as fast."""
    return any(_RECORD_TIME.match(head, at) for m in _CLOCK.finditer(head) for at in (m.start() - 3, m.start() - 4))


def _json(start: bytes, tail: bytes, name: str) -> Sniffed | None:
    if (b'"entries"' in start or b'"entries"' in tail) and any(
        word in start or word in tail
        for word in (b'"pg_config"', b'"collective_seq_id"', b'"pg_status"', b'"nccl_version"')
    ):
        return Sniffed(SourceKind.FLIGHT_RECORDER)
    if b'"pg_config"' in start and b'"pg_status"' in start and b'"version"' in start:
        return Sniffed(SourceKind.FLIGHT_RECORDER)  # without entries the list is left out
    if b'"device_traces"' in start[:4096] and b'"segments"' in start:
        return Sniffed(SourceKind.MEMORY_SNAPSHOT)
    if b'"os_thread_id"' in start and b'"frames"' in start:
        return Sniffed(SourceKind.STACKS)
    if _error_file(start, name):
        return Sniffed(SourceKind.ERROR_JSON)
    if ONE_LINE.match(start) is not None and TIME_KEY.search(start) is not None:
        return Sniffed(SourceKind.LOG, wrapped=ROW)
    first = start.split(b"\n", 1)[0]
    if _JSON_LINE.match(first):
        return Sniffed(SourceKind.LOG)
    if _METRIC_LINE.match(first):
        return Sniffed(SourceKind.LOG if _beside_json(start, tail) else SourceKind.METRICS)
    if _RUN_STATE.search(start) is not None and _RUN_REASON.search(start) is not None:
        return Sniffed(SourceKind.LOG)  # a service's record of the run: its reason is a line as any other
    if RECORD.search(start) is not None and TIME_KEY.search(start) is not None:
        return Sniffed(SourceKind.LOG, wrapped=JSON)
    if PurePosixPath(name).suffix.lower() in {".json", ".jsonl", ".ipynb"}:
        return Sniffed(SourceKind.CONFIG, "JSON of an unknown kind")
    return None


def _beside_json(start: bytes, tail: bytes) -> bool:
    """Whether other lines stand beside the objects: a job's log that tells its steps as JSON, and no file of metrics alone."""
    return _NO_JSON.search(start) is not None or _NO_JSON.search(tail) is not None


_RUN_STATE = lazy(
    rb'(?i)"(?:status|state|trainingJobStatus|jobStatus|runStatus)" ?: ?"(?:JOB_STATE_)?(?:failed|stopped|cancell?ed|preempted|expired)"'
)
_RUN_REASON = lazy(rb'(?i)"(?:error|failureReason|statusReason|stopReason|stateMessage|errorMessage)" ?: ?[{"]')
"""How services that run jobs (Azure ML, SageMaker, Vertex AI, AWS Batch) tell the end of one in JSON."""
_MESSAGE = lazy(rb'^\{\s*"(?:message|timestamp)"\s*:')


def _error_file(start: bytes, name: str) -> bool:
    """Whether one JSON object is what a process leaves for its launcher when it fails."""
    if _MESSAGE.match(start) is None or b'"message"' not in start:
        return False
    named = PurePosixPath(name).name.lower().endswith("error.json")
    inside = b'"extraInfo"' in start[:4096] or b'"py_callstack"' in start
    lines = start.split(b"\n", 2)
    several = len(lines) > 1 and lines[1].lstrip().startswith(b"{")
    return (named or inside) and not several


def _table(start: bytes) -> bool:
    """Whether the text is a table of numbers with a header, separated by commas or tabs."""
    rows = start.split(b"\n", 6)[:5]
    if len(rows) < 3:
        return False
    for separator in (b",", b"\t"):
        width = rows[0].count(separator)
        if width == 0 or any(row.count(separator) != width for row in rows[1:]):
            continue
        if any(re.fullmatch(rb"\s*[\d.]+\s*", name) for name in rows[0].split(separator)):
            continue  # no header: `cat -n` puts a number and a tab before every line of a log
        cells = b"\n".join(rows[1:]).replace(separator, b"\n").split(b"\n")
        numbers = sum(1 for cell in cells if re.fullmatch(rb'\s*"?[-+\d.eE:%/ ]*"?\s*', cell))
        return numbers > len(cells) * 0.6
    return False


def container_of(head: bytes, name: str) -> str | None:
    """Name of the compression or archive format by the first 512 bytes; None for anything else."""
    kind = compression_of(head)
    if kind is not None:
        return kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08PK\x03\x04")):
        return None if name.lower().endswith(_PACKAGES) else "zip"
    if head[257:262] == b"ustar" or _old_tar(head):
        return "tar"
    return "sections" if _is_sections(head) else None


def _is_sections(head: bytes) -> bool:
    """Whether a file begins with the header of a section."""
    text = head.lstrip(b"\r\n")
    return text.startswith((b"==> ", b"::::::::::::::")) and SECTION_HEADER.match(text) is not None


def _old_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar header from before `ustar`: its check sum is right."""
    if len(head) < 512 or not head[0]:
        return False
    digits = head[148:156].strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        return False
    return int(digits, 8) == sum(head[:148]) + 8 * 32 + sum(head[156:512])
