"""Names of classes and functions that pickles of checkpoints ask for, by what is made of them. Data alone."""

from __future__ import annotations

TORCH_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QInt32Storage": "int32",
    "UntypedStorage": "uint8",
    "TypedStorage": "uint8",
}
"""Class of a storage -> type of its elements; an untyped one counts bytes."""
TORCH_TYPES = frozenset(
    [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex32",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn_x2",
        "qint8",
        "quint8",
        "qint32",
    ]
)
TYPE_NAMES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
LOOKS_UP = frozenset({("builtins", "getattr"), ("__builtin__", "getattr"), ("dill._dill", "_get_attr")})
IMPORTS = frozenset(
    {("dill._dill", "_import_module"), ("cloudpickle.cloudpickle", "subimport"), ("cloudpickle", "subimport")}
)
MAKES_CLASSES = frozenset(
    {
        "builtins.type",
        "collections.namedtuple",
        "types.new_class",
        "dill._dill._create_type",
        "dill._dill._create_namedtuple",
        "dill._dill._load_type",
        "cloudpickle.cloudpickle._make_skeleton_class",
        "cloudpickle.cloudpickle._make_skeleton_enum",
        "cloudpickle.cloudpickle._lookup_class_or_track",
        "cloudpickle.cloudpickle._builtin_type",
    }
)
"""Functions whose result a pickle goes on to make objects of."""
MAKES_FUNCTIONS = frozenset(
    {
        "dill._dill._create_function",
        "cloudpickle.cloudpickle._make_function",
        "cloudpickle.cloudpickle_fast._function_reduce",
    }
)
"""Those whose result is code that the pickle itself holds."""
