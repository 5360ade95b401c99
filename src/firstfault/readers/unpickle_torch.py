"""Loads the pickles of checkpoints without running anything of them: tensors become descriptions, classes become husks.

The sibling of `unpickle`, which refuses every class: a checkpoint is full of classes (tensors, named tuples, arguments,
enums), so here each name is answered by a stand-in of ours that keeps what it is given and does nothing. No module of a
stranger is ever imported and no function of one is called. Knows nothing of folders, files or what a checkpoint means.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from firstfault.readers.acting import acts, calls_what_it_gets
from firstfault.readers.husks import Husk, class_husk, handed
from firstfault.readers.pickled_names import (
    IMPORTS,
    LOOKS_UP,
    MAKES_CLASSES,
    MAKES_FUNCTIONS,
    TORCH_STORAGES,
    TORCH_TYPES,
    TYPE_NAMES,
)
from firstfault.readers.unpickle import MOST_BYTES, UnreadablePickleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MOST_NAMES = 20_000
"""Different classes and functions that one pickle may name."""
MOST_BYTEARRAY = 1 << 30


class Storage:
    """The bytes behind one or more tensors, by the key under which the file holds them."""

    __slots__ = ("dtype", "key", "numel", "view")

    def __init__(self, dtype: str, key: str, numel: int, view: tuple[int, int] | None = None) -> None:
        self.dtype = dtype
        self.key = key
        self.numel = numel
        """Elements of `dtype`."""
        self.view = view
        """First element and number of elements inside the storage of that key; None where it is the whole."""


class TensorStub:
    """A tensor without its values."""

    __slots__ = ("dtype", "offset", "shape", "storage", "stride")

    def __init__(
        self, storage: Storage | None, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: str
    ) -> None:
        self.storage = storage
        """None where the tensor never had values (a meta tensor)."""
        self.offset = offset
        """First element inside its storage."""
        self.shape = shape
        self.stride = stride
        """In elements."""
        self.dtype = dtype


class DType(str):
    """The name of a type of elements, as torch spells it."""

    __slots__ = ()


class ArrayStub:
    """A numpy array or scalar by its bytes."""

    __slots__ = ("dtype", "raw", "shape")

    def __init__(self) -> None:
        self.dtype = ""
        self.shape: tuple[int, ...] = ()
        self.raw: object = b""
        """Bytes, or the list of objects of an array of objects."""

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) == 5:
            _, self.shape, kind, _, self.raw = state
            self.dtype = kind.name if isinstance(kind, NumpyType) else ""


class NumpyType:
    """A numpy type by its letters, such as `f8`."""

    __slots__ = ("name",)

    def __init__(self, name: object = "", *_: object) -> None:
        self.name = name if isinstance(name, str) else ""

    def __setstate__(self, state: object) -> None:
        """What it is given says the order of bytes, which the letters keep."""


class OrderedMap(dict[Any, Any]):
    """A map that may carry attributes, as the state of a module does."""


def _map(*args: object) -> OrderedMap:
    made = OrderedMap()
    if args and isinstance(args[0], (list, tuple)):
        for pair in args[0]:
            if isinstance(pair, (list, tuple)) and len(pair) == 2:
                made[pair[0]] = pair[1]
    return made


def _default_map(*_: object) -> OrderedMap:
    return OrderedMap()


def _size(dims: object = ()) -> tuple[int, ...]:
    return _ints(dims)


def _ints(values: object) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)):
        raise pickle.UnpicklingError("a shape that is no list of numbers")
    if not all(isinstance(v, int) for v in values):
        raise pickle.UnpicklingError("a shape that is no list of numbers")
    return tuple(values)


def _tensor(storage: object, offset: object, shape: object, stride: object, *rest: object) -> TensorStub:
    if not isinstance(storage, Storage) or not isinstance(offset, int):
        raise pickle.UnpicklingError("a tensor without a storage")
    dtype = next((r for r in rest if isinstance(r, DType)), None)
    return TensorStub(storage, offset, _ints(shape), _ints(stride), dtype or storage.dtype)


def _quantized(storage: object, offset: object, shape: object, stride: object, *_: object) -> TensorStub:
    return _tensor(storage, offset, shape, stride)


def _meta_tensor(dtype: object, shape: object, stride: object, *_: object) -> TensorStub:
    return TensorStub(None, 0, _ints(shape), _ints(stride), str(dtype))


def _first(value: object = None, *_: object) -> object:
    return value


def _with_state(data: object, _grad: object = None, _hooks: object = None, _state: object = None) -> object:
    return data


def _from_type(function: object, kind: object, args: object, state: object) -> object:
    """A tensor of a class of its own: what its builder gives, or a husk that keeps what it was made of."""
    if isinstance(args, tuple) and any(function is ours for ours in _OURS):
        made = cast("Any", function)(*args)
        if isinstance(made, TensorStub):
            return made
    husk = Husk(*(args if isinstance(args, tuple) else ()))
    husk.__setstate__(state)
    del kind
    return husk


def _array(*_: object) -> ArrayStub:
    return ArrayStub()


def _scalar(kind: object, raw: object = b"", *_: object) -> ArrayStub:
    made = ArrayStub()
    made.dtype = kind.name if isinstance(kind, NumpyType) else ""
    made.raw = raw
    return made


def _buffer(raw: object, kind: object, shape: object, *_: object) -> ArrayStub:
    made = _scalar(kind, raw)
    made.shape = _ints(shape)
    return made


def _encoded(text: object = "", coding: object = "latin1", *_: object) -> bytes:
    if not isinstance(text, str) or coding not in {"latin1", "latin-1", "utf-8"}:
        raise pickle.UnpicklingError("bytes in a coding that is refused")
    return text.encode(str(coding))


def _bytes(value: object = b"", *_: object) -> bytes:
    if isinstance(value, str):
        return value.encode("latin1")
    return bytes(value) if isinstance(value, (bytes, bytearray)) else b""


def _set(values: object = ()) -> list[object]:
    return list(values) if isinstance(values, (list, tuple)) else []


def _complex(real: object = 0, imaginary: object = 0) -> complex:
    numbers = [v if isinstance(v, (int, float)) else 0 for v in (real, imaginary)]
    return complex(*numbers)


def _rebuilt(kind: object, _base: object = None, state: object = None, *_: object) -> object:
    if isinstance(kind, type) and issubclass(kind, Husk):
        made = kind.__new__(kind)
        made.__setstate__(state)
        return made
    return state


_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _map,
    ("collections", "defaultdict"): _default_map,
    ("collections", "Counter"): _map,
    ("torch", "Size"): _size,
    ("torch", "device"): lambda *parts: ":".join(map(str, parts)),
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor,
    ("torch._utils", "_rebuild_qtensor"): _quantized,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _meta_tensor,
    ("torch._utils", "_rebuild_parameter"): _with_state,
    ("torch._utils", "_rebuild_parameter_with_state"): _with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("torch._tensor", "_rebuild_from_type"): _from_type,
    ("torch.serialization", "_get_layout"): _first,
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): _set,
    ("builtins", "list"): _set,
    ("builtins", "tuple"): _set,
    ("builtins", "dict"): _map,
    ("builtins", "complex"): _complex,
    ("builtins", "bytearray"): _bytes,
    ("builtins", "bytes"): _bytes,
    ("_codecs", "encode"): _encoded,
    ("copyreg", "_reconstructor"): _rebuilt,
    ("numpy", "dtype"): NumpyType,
    ("numpy", "ndarray"): ArrayStub,
}
for _package in ("numpy.core", "numpy._core"):
    _KNOWN[f"{_package}.multiarray", "_reconstruct"] = _array
    _KNOWN[f"{_package}.multiarray", "scalar"] = _scalar
    _KNOWN[f"{_package}.numeric", "_frombuffer"] = _buffer
for _name, _type in TORCH_STORAGES.items():
    for _module in ("torch", "torch.storage", "torch.cuda"):
        _KNOWN[_module, _name] = DType(_type)
for _name in (*TORCH_TYPES, *TYPE_NAMES):
    _KNOWN["torch", _name] = DType(TYPE_NAMES.get(_name, _name))
# What Python 2 calls these, in old files.
for _name in ("set", "frozenset", "list", "tuple", "dict", "complex", "bytearray", "bytes"):
    _KNOWN["__builtin__", _name] = _KNOWN["builtins", _name]
_OURS = (_tensor, _quantized, _meta_tensor, _with_state)


class Peekable(Protocol):
    """An open file that shows what comes next."""

    @property
    def read(self) -> Callable[[int], bytes]:
        """Gives the next bytes."""

    @property
    def readline(self) -> Callable[[], bytes]:
        """Gives the next line."""

    @property
    def peek(self) -> Callable[[int], bytes]:
        """Gives bytes without moving on."""


class _NoBuffers:
    """A file without `readinto`, with which the C unpickler complains on stderr where a buffer is cut off."""

    def __init__(self, file: Peekable) -> None:
        self.read = file.read
        self.readline = file.readline
        self.peek = file.peek


class _Inert(pickle.Unpickler):
    """Answers every name with a stand-in."""

    def __init__(self, file: Peekable, outside: Mapping[str, object] | None = None, *, nested: bool = False) -> None:
        super().__init__(_NoBuffers(file), encoding="latin1")
        self._outside = outside
        self._nested = nested
        self.names: dict[tuple[str, str], type[Husk]] = {}
        """Classes and functions that the pickle asked for and that have no stand-in of their own."""
        self.called: dict[str, None] = {}
        """Those of them that it calls and that act on the machine."""
        self.inside: dict[str, tuple[bytes, int]] = {}
        """Key of a storage that lies in the pickle itself -> a value that holds it, and its first byte there."""
        self._looked_up: dict[str, type[Husk]] = {}
        self._made = 0

    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module, name))
        if known is not None:
            return known
        if (module, name) in LOOKS_UP:
            return self._attribute
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return self._from_bytes
        if (module, name) in IMPORTS:
            return lambda of="", *_: self._husk(str(of)[:200])
        husk = self.names.get((module, name))
        if husk is None:
            if len(self.names) >= MOST_NAMES:
                raise pickle.UnpicklingError("it names too many classes")
            husk = self._husk(f"{'builtins' if module == '__builtin__' else module}.{name}"[:200])
            self.names[module, name] = husk
        return husk

    def _husk(self, whole: str) -> type[Husk]:
        does = acts(whole)
        parts: dict[str, object] = {"__firstfault_acts__": does}
        if does:
            parts["__new__"] = self._noted(whole)
        elif whole in MAKES_CLASSES or whole in MAKES_FUNCTIONS:
            parts["__new__"] = self._maker(f"{whole}()", does=whole in MAKES_FUNCTIONS)
        elif calls_what_it_gets(whole):
            parts["__new__"] = handed
        return class_husk(whole, **parts)

    def _noted(self, whole: str) -> Callable[..., Husk]:
        called = self.called

        def made(cls: type[Husk], *args: object, **named: object) -> Husk:
            called.setdefault(whole)
            return Husk.__new__(cls, *args, **named)

        return made

    def _maker(self, whole: str, *, does: bool) -> Callable[..., type[Husk]]:
        def made(_: type[Husk], *_args: object, **_named: object) -> type[Husk]:
            self._made += 1
            if self._made > MOST_NAMES:
                raise pickle.UnpicklingError("it makes too many classes")
            parts: dict[str, object] = {"__new__": self._noted(whole)} if does else {}
            return class_husk(whole, __firstfault_acts__=does, **parts)

        return made

    def _from_bytes(self, raw: object = b"", *_: object) -> object:
        """A storage that `pickle.dump` wrote in place, as a small file of `torch.save`; what else it is stays bytes."""
        raw = _bytes(raw)
        if self._nested:
            return raw
        stream = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(raw)), 1 << 12)
        try:
            if raw[:4] == b"PK\x03\x04":
                with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                    inner = [e for e in archive.infolist() if e.filename.endswith("data.pkl")]
                    if inner and inner[0].file_size <= MOST_BYTES:
                        stream = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(archive.read(inner[0]))))
                return self._next_inside(stream)
            value: object = None
            for _number in range(4):
                value = self._next_inside(stream)
        except (UnreadablePickleError, zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error):
            return raw
        if not isinstance(value, Storage):
            return raw
        with contextlib.suppress(UnreadablePickleError):
            self._next_inside(stream)
        key = f"inside {len(self.inside)}"
        self.inside[key] = (raw, stream.tell() + 8)
        return Storage(value.dtype, key, value.numel)

    def _next_inside(self, stream: Peekable) -> object:
        unpickler = _Inert(stream, nested=True)
        try:
            value = unpickler.load()
        except Exception as error:
            raise UnreadablePickleError(_reason(error)) from error
        finally:
            self.called.update(unpickler.called)
        return value

    def _attribute(self, holder: object = None, name: object = "", *_: object) -> object:
        """A member of an enum, or a method: its name; what is looked up in a module that acts is as if it were named."""
        word = str(name)[:200]
        above = holder if isinstance(holder, type) else type(holder)
        whole = f"{getattr(above, '__firstfault_name__', '')}.{word}"
        husk = self._looked_up.get(whole)
        if husk is None:
            husk = self._husk(whole)
            if len(self._looked_up) < MOST_NAMES:
                self._looked_up[whole] = husk
        # A class within a class is called next; a member of an enum is not, and most are in capitals.
        return husk if husk.__firstfault_acts__ or (word[:1].isupper() and not word.isupper()) else husk(word)

    def persistent_load(self, pid: Any) -> object:
        if self._outside is not None:
            # Files of before 2017 name tensors by a number, and classes beside their source.
            return pid[0] if isinstance(pid, tuple) and pid else self._outside.get(_text(pid))
        if not isinstance(pid, tuple) or len(pid) < 5 or _text(pid[0]) != "storage":
            raise pickle.UnpicklingError("it asks for an object from outside that is no storage")
        kind, key, numel = pid[1], _text(pid[2]), pid[4]
        if not isinstance(numel, int) or numel < 0:
            raise pickle.UnpicklingError("a storage without a length")
        view = pid[5] if len(pid) > 5 else None
        part = (view[1], view[2]) if isinstance(view, tuple) and len(view) == 3 and _numbers(view[1:]) else None
        return Storage(str(kind) if isinstance(kind, DType) else "uint8", key, numel, part)


def _numbers(values: tuple[object, ...]) -> bool:
    return all(isinstance(v, int) and v >= 0 for v in values)


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


class Unpickled:
    """What a pickle held."""

    __slots__ = ("called", "inside", "names", "value")

    def __init__(
        self,
        value: object,
        names: tuple[str, ...],
        called: tuple[str, ...] = (),
        inside: Mapping[str, tuple[bytes, int]] | None = None,
    ) -> None:
        self.value = value
        self.names = names
        """Classes and functions that it named and that were not made, sorted."""
        self.called = called
        """Those of them that loading it would call and that act on the machine, in the order of their calls."""
        self.inside = inside or {}
        """Key of a storage that lies in the pickle itself -> a value that holds it, and its first byte there."""


def load_inert(raw: bytes) -> Unpickled:
    """The value of one pickle, with stand-ins for all that is not plain.

    Raises:
        UnreadablePickleError: it is damaged, cut off or too large.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadablePickleError(f"larger than {MOST_BYTES >> 20} MiB")
    return load_next(io.BufferedReader(cast("io.RawIOBase", io.BytesIO(raw)), 1 << 16))


def load_next(file: Peekable, outside: Mapping[str, object] | None = None) -> Unpickled:
    """The next pickle of an open file, which is left behind its end.

    Args:
        file: open where the pickle begins.
        outside: objects that the pickle names by a key and that lie elsewhere; None where it names storages.

    Raises:
        UnreadablePickleError: it is damaged or cut off.
    """
    unpickler = _Inert(file, outside)
    try:
        value = unpickler.load()
    except Exception as error:
        # An unpickler raises anything at all on damaged input.
        raise UnreadablePickleError(_reason(error)) from error
    return Unpickled(
        value, tuple(sorted(f"{m}.{n}" for m, n in unpickler.names)), tuple(unpickler.called), unpickler.inside
    )


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0][:160]
    if isinstance(error, EOFError) or "truncated" in text or "ran out" in text:
        return "it is cut off"
    return text if isinstance(error, pickle.UnpicklingError) and text else f"{type(error).__name__}: {text}"
