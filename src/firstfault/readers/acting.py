"""Names that do something to the machine when a pickle calls them: processes, files, modules, code.

Knows names alone; which of them a pickle calls is `unpickle_torch`'s to see.
"""

from __future__ import annotations

# fmt: off
_MODULES = frozenset({
    "os", "posix", "nt", "subprocess", "_posixsubprocess", "popen2", "pty", "shutil", "sys", "builtins",
    "__builtins__", "socket", "_socket", "ssl", "runpy", "importlib", "imp", "pkgutil", "zipimport", "ctypes",
    "_ctypes", "signal", "_signal", "multiprocessing", "asyncio", "threading", "_thread", "http", "httplib", "urllib",
    "urllib2", "requests", "ftplib", "telnetlib", "smtplib", "xmlrpc", "socketserver", "webbrowser", "antigravity",
    "codeop", "pdb", "bdb", "cProfile", "doctest", "pydoc", "idlelib", "distutils", "setuptools", "pip", "ensurepip",
    "lib2to3", "tempfile", "fileinput", "mmap", "fcntl", "marshal", "shelve", "sqlite3",
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
        "io.open",
        "_io.open",
        "io.FileIO",
        "_io.FileIO",
    }
)
_PLAIN = frozenset(
    {
        "stat_result",
        "statvfs_result",
        "terminal_size",
        "uname_result",
        "CompletedProcess",
        "CalledProcessError",
        "TimeoutExpired",
        "AddressFamily",
        "SocketKind",
        "Signals",
        "Handlers",
        "PickleBuffer",
    }
)
"""Classes of such packages that hold values alone."""


def acts(whole: str) -> bool:
    """Whether calling what a dotted name stands for does more than make a value.

    Args:
        whole: module and name, as `subprocess.Popen` or `torch.os.system`.
    """
    first, *rest = whole.split(".")
    last = rest[-1] if rest else first
    if last in _PLAIN:
        return False
    if first == "builtins" and len(rest) == 1:
        return last in _BUILTIN
    return whole in _SINGLE or first in _MODULES or (bool(rest) and any(part in _WITHIN for part in rest[:-1]))
