"""The types of elements that checkpoints hold: how wide they are, and which bit patterns are no finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "qint8": 1,
    "quint8": 1,
    "qint32": 4,
}
"""Type of elements, as torch spells it -> bytes of one."""
SAFETENSORS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
"""The same as safetensors spells them."""


class Count(Struct):
    """Elements that are no finite number."""

    nan: int = 0
    inf: int = 0


_MASKS = {
    "float64": ("<u8", 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    "float32": ("<u4", 0x7F800000, 0x007FFFFF),
    "float16": ("<u2", 0x7C00, 0x03FF),
    "bfloat16": ("<u2", 0x7F80, 0x007F),
    "float8_e5m2": ("u1", 0x7C, 0x03),
    "complex128": ("<u8", 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    "complex64": ("<u4", 0x7F800000, 0x007FFFFF),
    "complex32": ("<u2", 0x7C00, 0x03FF),
}
"""Unsigned integer that shows the bits, those of the exponent, those of the fraction."""
_NAN_ALONE = {
    "float8_e4m3fn": (0x7F, 0x7F),
    "float8_e4m3fnuz": (0xFF, 0x80),
    "float8_e5m2fnuz": (0xFF, 0x80),
    "float8_e8m0fnu": (0xFF, 0xFF),
}
"""Types without an infinity: the bits to look at, and what they are in a NaN."""


def count_nonfinite(raw: NDArray[np.uint8], dtype: str, count: Count) -> None:
    """Adds the elements of some bytes that are NaN or infinite; bytes of other types hold none.

    Args:
        raw: whole elements, little endian.
        dtype: type of the elements.
        count: is added to.
    """
    import numpy as np

    alone = _NAN_ALONE.get(dtype)
    if alone is not None:
        count.nan += int(np.count_nonzero((raw & alone[0]) == alone[1]))
        return
    masks = _MASKS.get(dtype)
    if masks is None:
        return
    letters, exponent, fraction = masks
    bits = raw.view(letters)
    kind = bits.dtype.type
    full = (bits & kind(exponent)) == kind(exponent)
    if full.any():
        nan = int(np.count_nonzero(bits[full] & kind(fraction)))
        count.nan += nan
        count.inf += int(np.count_nonzero(full)) - nan
