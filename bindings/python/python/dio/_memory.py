"""Aligned memory of a shape and type."""

from __future__ import annotations

import math
import operator
import sys

from . import _dio

_ORDER = "<" if sys.byteorder == "little" else ">"

# Names that numpy and torch use, as kind and bytes of an item.
_NAMES = {
    "bool": "b1",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
    "int": "i8",
    "float": "f8",
}
# Kind and bytes, as the letters of the module struct.
_FORMATS = {
    "b1": "?",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "Zf",
    "c16": "Zd",
}
# Kinds as the type codes of DLPack.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def alloc(nbytes, /):
    """`nbytes` bytes of memory, aligned to a page and filled with zeros.

    The device reads and writes it without a copy. It has the buffer protocol, so that memoryview,
    bytes, numpy, socket, hashlib and the like take it; `__array_interface__`; and DLPack.
    """
    return _dio.Memory([_extent(nbytes)])


def empty(shape, dtype="uint8"):
    """Memory as of `alloc`, of a shape and type: `numpy.asarray(dio.empty((3, 4), "float32"))`.

    `dtype` is a name (`"float32"`), a letter with bytes (`"f4"`), or a type of numpy or torch.
    `dio.numpy.empty` returns an array of numpy.
    """
    shape = [_extent(extent) for extent in extents(shape)]
    kind = _kind_of(dtype)
    itemsize = int(kind[1:])
    order = "|" if itemsize == 1 else _ORDER
    code = _CODES[kind[0]]
    return _dio.Memory(shape, itemsize, _FORMATS[kind], order + kind, (code, itemsize * 8))


def extents(shape):
    """A shape, which may be one number, as a tuple."""
    try:
        # Arrays have `__index__` too, and raise TypeError in it.
        return (operator.index(shape),)
    except TypeError:
        return tuple(shape)


def _extent(value):
    value = operator.index(value)
    if value < 0:
        raise ValueError("memory has no negative size")
    return value


def _kind_of(dtype):
    if isinstance(dtype, type) and dtype in (bool, int, float, complex):
        name = {bool: "b1", int: "i8", float: "f8", complex: "c16"}[dtype]
    elif isinstance(dtype, str):
        name = dtype
    else:
        # numpy.dtype has `str`; the classes of numpy's numbers have a name; torch.float32 has
        # neither.
        name = getattr(dtype, "str", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]
    if name[:1] in "<>=|":
        if name[0] not in ("=", "|", _ORDER):
            raise TypeError(
                f"{dtype!r} has the bytes of its items in the other order (swap them after reading)"
            )
        name = name[1:]
    kind = _NAMES.get(name, name)
    if kind not in _FORMATS:
        raise TypeError(f"{dtype!r} is no type of memory (use one of {', '.join(sorted(_NAMES))})")
    return kind


def total(lengths, align):
    """Bytes of memory for ranges of these lengths that begin at multiples of `align`."""
    return sum(math.ceil(length / align) * align for length in lengths)
