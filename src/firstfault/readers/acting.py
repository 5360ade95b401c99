"""Names that do something to the machine when a pickle calls them: processes, files, modules, code.

Knows names alone; which of them a pickle calls is `unpickle_torch`'s to see. Of Python's own library the functions that
real objects are made by are known, and every other one counts as acting; its classes, and all of other packages, count
as acting only where they are named here.
"""

from __future__ import annotations

import re
import sys

# fmt: off
_MODULES = frozenset({
    "os", "posix", "nt", "subprocess", "_posixsubprocess", "popen2", "pty", "shutil", "sys", "builtins",
    "__builtins__", "socket", "_socket", "ssl", "runpy", "importlib", "imp", "pkgutil", "zipimport", "ctypes",
    "_ctypes", "signal", "_signal", "multiprocessing", "asyncio", "threading", "_thread", "http", "httplib", "urllib",
    "urllib2", "requests", "ftplib", "telnetlib", "smtplib", "xmlrpc", "socketserver", "webbrowser", "antigravity",
    "codeop", "pdb", "bdb", "cProfile", "doctest", "pydoc", "idlelib", "distutils", "setuptools", "pip", "ensurepip",
    "lib2to3", "tempfile", "fileinput", "mmap", "fcntl", "marshal", "shelve", "sqlite3", "imaplib", "poplib", "nntplib",
    "dbm", "venv", "atexit", "faulthandler", "gc", "_imp", "_winapi", "_testcapi", "nturl2path",
})
# fmt: on
"""Packages whose functions and classes act when they are called; none whose name a project may have, as `code` and `test`."""

_RUNS = ("Popen", "call", "check_call", "check_output", "run", "getoutput", "getstatusoutput")
_WITHIN = frozenset({"os", "sys", "subprocess", "shutil", "socket", "ctypes", "importlib", "builtins", "__builtins__"})
"""Of these, those that other modules carry about, as `torch.os`."""
_BUILTIN = frozenset(
    {"eval", "exec", "execfile", "compile", "open", "file", "__import__", "input", "apply", "breakpoint"}
)
_SINGLE = frozenset(
    {
        "operator.attrgetter",
        "operator.methodcaller",
        "_operator.attrgetter",
        "_operator.methodcaller",
        *(f"commands.{name}" for name in _RUNS),
        "code.interact",
        "code.InteractiveInterpreter",
        "code.InteractiveConsole",
        "profile.run",
        "profile.runctx",
        "timeit.timeit",
        "timeit.repeat",
        "timeit.main",
        "trace.Trace",
        "pickle.load",
        "pickle.loads",
        "_pickle.load",
        "_pickle.loads",
        "dill.load",
        "dill.loads",
        "dill._dill.load",
        "dill._dill.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "joblib.load",
        "types.FunctionType",
        "types.CodeType",
        "types.ModuleType",
        "torch.load",
        "torch.serialization.load",
        "torch.hub.load",
        "torch.hub.load_state_dict_from_url",
        "torch.hub.download_url_to_file",
        "torch.jit.load",
        "torch.ops.load_library",
        "torch.utils.cpp_extension.load",
        "torch.utils.cpp_extension.load_inline",
        "torch.utils.model_zoo.load_url",
        "numpy.load",
        "numpy.save",
        "numpy.savetxt",
        "numpy.fromfile",
        "numpy.memmap",
        "numpy.testing._private.utils.runstring",
        "pandas.read_pickle",
        "logging.config.listen",
        "site.main",
        "profile.Profile.run",
        "profile.Profile.runctx",
        "profile.Profile.runcall",
        "operator.call",
        "_operator.call",
        "dataclasses.make_dataclass",
        "typing.get_type_hints",
        "torch.save",
        "torch.serialization.save",
        "torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression",
        "torch.jit.unsupported_tensor_ops.execWrapper",
        "torch.utils._config_module.load_config",
        "torch._inductor.codecache.compile_file",
        "numpy.ndarray.tofile",
        "numpy.ndarray.dump",
        "numpy.savez",
        "numpy.savez_compressed",
        "numpy.loadtxt",
        "numpy.genfromtxt",
        "pandas.eval",
        "joblib.dump",
        "gzip.GzipFile",
        "bz2.BZ2File",
        "lzma.LZMAFile",
        "zipfile.ZipFile",
        "zipfile.PyZipFile",
        "tarfile.TarFile",
        "logging.FileHandler",
        "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler",
        "logging.handlers.SocketHandler",
        "io.open",
        "_io.open",
        "io.FileIO",
        "_io.FileIO",
    }
)
_BELOW = (
    "numpy.distutils.",
    "numpy.f2py.",
    "numpy.testing.",
    "torch.utils.bottleneck.",
    "torch.utils.collect_env.",
)
"""Parts of other packages that are tools, not models."""
_PLAIN = frozenset(
    {
        "stat_result",
        "statvfs_result",
        "terminal_size",
        "uname_result",
        "times_result",
        "sched_param",
        "version_info",
        "CompletedProcess",
        "AddressFamily",
        "SocketKind",
        "Signals",
        "Handlers",
        "HTTPStatus",
        "HTTPMethod",
        "TLSVersion",
        "VerifyMode",
        "Purpose",
        "PickleBuffer",
        "SharedMemory",
        "_unpickle",
    }
)
"""Classes of such packages that hold values alone, and what makes them again."""
_PLAIN_BELOW = (
    "urllib.parse.",
    "urllib3.util.",
    "requests.structures.",
    "requests.cookies.",
    "requests.models.",
    "http.cookies.",
    "http.cookiejar.",
    "distutils.version.",
    "setuptools._distutils.version.",
    "setuptools._vendor.packaging.",
    "setuptools.extern.packaging.",
    "pip._vendor.packaging.",
    "importlib.metadata.",
    "importlib.machinery.",
    "multiprocessing.context.",
)
"""Parts of such packages whose classes are saved beside models: addresses, versions, answers."""
_FAILS = re.compile(r"(?:Error|Exception|Warning|Interrupt|Expired)\Z|\A(?:error|timeout|gaierror|herror)\Z")
"""Names of exceptions: they are saved as part of a state, and making one does nothing."""
_REACHES = frozenset(
    {"__builtins__", "__closure__", "__code__", "__getattribute__", "__globals__", "__loader__", "__subclasses__"}
)
"""Attributes by which any object leads to functions that act."""
# fmt: off
_SHARED = frozenset({
    "calendar", "chunk", "cmd", "code", "commands", "email", "parser", "platform", "profile", "queue", "secrets", "select",
    "statistics", "symbol", "test", "this", "token", "tokenize", "trace", "types",
})
"""Modules of Python whose name a project's own module may have."""
_MAKERS = frozenset({
    "_abc", "_codecs", "_collections", "_datetime", "_decimal", "_functools", "_operator", "_pydatetime", "_random", "_sre",
    "_struct", "abc", "array", "ast", "base64", "binascii", "bisect", "cmath", "collections", "copyreg", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "ipaddress", "itertools", "json", "math", "numbers", "operator",
    "random", "re", "sre_compile", "string", "struct", "textwrap", "typing", "unicodedata", "zlib", "zoneinfo",
})
"""Modules of Python whose functions make values of others."""
_MAKER = frozenset({
    "codecs.encode", "codecs.decode", "codecs.lookup", "copy.copy", "copy.deepcopy", "grp.struct_group",
    "logging.getLogger", "pwd.struct_passwd", "resource.struct_rusage", "time.struct_time", "weakref.proxy", "weakref.ref",
})
# fmt: on
_HOLD = frozenset(
    {
        "functools.partial",
        "functools.partialmethod",
        "builtins.type",
        "builtins.property",
        "builtins.classmethod",
        "builtins.staticmethod",
        "builtins.slice",
    }
)
"""What keeps a function that it is given, and does not call it."""


def acts(whole: str) -> bool:
    """Whether calling what a dotted name stands for does more than make a value.

    Args:
        whole: module and name, as `subprocess.Popen` or `torch.os.system`.
    """
    first, *rest = whole.split(".")
    last = rest[-1] if rest else first
    if not _REACHES.isdisjoint(rest) or any(part in _WITHIN for part in rest[:-1]):
        return True
    if last in _PLAIN or _FAILS.search(last) or (whole.startswith(_PLAIN_BELOW) and _class(last)):
        return False
    if first == "builtins":
        return bool(rest) and rest[0] in _BUILTIN
    if whole in _SINGLE or first in _MODULES or whole.startswith(_BELOW):
        return True
    return bool(rest) and _standard(first) and not _class(last) and not (first in _MAKERS or _maker(whole, last))


def calls_what_it_gets(whole: str) -> bool:
    """Whether a function of Python's own may call another that it is given, as `builtins.map` does."""
    first, *rest = whole.split(".")
    return bool(rest) and _standard(first) and not _class(rest[-1]) and whole not in _HOLD


def _standard(module: str) -> bool:
    return module in sys.stdlib_module_names and module not in _SHARED


def _maker(whole: str, last: str) -> bool:
    return whole in _MAKER or last in {"__new__", "fromkeys", "_make"} or last.startswith("struct_")


def _class(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()
