"""Tensors of `safetensors` files: the header first, then all tensors in flight together, each into
its own memory.

    tensors = dio.safetensors.load_file("model.safetensors")            # arrays of numpy
    tensors = dio.safetensors.load_file("model.safetensors", "torch")   # tensors of torch
    tensors = dio.safetensors.load_file(["a.safetensors", "b.safetensors"])
"""

from __future__ import annotations

import json
import os
import struct

import dio

from ._memory import alloc

__all__ = ["load_file", "metadata"]

# The format limits headers to 100 MB.
_HEADER_MAX = 100_000_000
# Extents and their products have 64 bits.
_ITEMS_MAX = 2**64 - 1
# Tensors begin at multiples of this in memory, so that a device needs no copy if they do so in the
# file.
_ALIGN = 512
# Type in the header: bytes of an item, type of numpy, type of torch.
_TYPES = {
    "BOOL": (1, "bool", "bool"),
    "U8": (1, "uint8", "uint8"),
    "I8": (1, "int8", "int8"),
    "U16": (2, "uint16", "uint16"),
    "I16": (2, "int16", "int16"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, None, "bfloat16"),
    "U32": (4, "uint32", "uint32"),
    "I32": (4, "int32", "int32"),
    "F32": (4, "float32", "float32"),
    "U64": (8, "uint64", "uint64"),
    "I64": (8, "int64", "int64"),
    "F64": (8, "float64", "float64"),
    "C64": (8, "complex64", "complex64"),
    "F8_E4M3": (1, None, "float8_e4m3fn"),
    "F8_E5M2": (1, None, "float8_e5m2"),
}


class SafetensorError(ValueError):
    """A file is not what a safetensors file has to be."""


def metadata(path, *, direct="auto"):
    """The text under `__metadata__` of a file, as a dictionary."""
    with dio.open(path, "rb", 0, direct=direct) as file:
        return _header(file)[1]


def load_file(path, framework="numpy", *, names=None, direct="auto", depth=64):
    """All tensors of a file, or of several, by name; with `names`, only those.

    `framework` is `"numpy"` or `"torch"`. numpy has no types for BF16 and FP8: use torch, or
    `ml_dtypes`, whose types are taken where it is installed.
    """
    make = {"numpy": _numpy, "torch": _torch}.get(framework)
    if make is None:
        raise ValueError(f'framework must be "numpy" or "torch", not {framework!r}')
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names must be several, not {names!r} (write [{names!r}])")
    names = None if names is None else set(names)
    paths = [path] if isinstance(path, (str, bytes, os.PathLike)) else list(path)
    files, wanted, found = [], [], {}
    try:
        for one in paths:
            file = dio.open(one, "rb", 0, direct=direct)
            files.append(file)
            tensors, _ = _header(file)
            for name, entry in tensors.items():
                if names is None or name in names:
                    if name in found:
                        raise SafetensorError(f"two files have a tensor {name!r}")
                    found[name] = entry
                    wanted.append((file, *entry))
        missing = (names or set()) - found.keys()
        if missing:
            raise KeyError(
                f"no tensor {', '.join(map(repr, sorted(missing)))} in {', '.join(map(str, paths))}"
            )
        views = _read(wanted, depth)
    finally:
        for file in files:
            file.close()
    made = {}
    for (name, (_, _, kind, shape)), view in zip(found.items(), views):
        try:
            made[name] = make(view, kind, shape)
        except (ValueError, OverflowError, RuntimeError) as error:
            raise SafetensorError(
                f"{framework} has no tensor with the shape of {name!r}: {error}"
            ) from None
    return made


def _read(wanted, depth):
    """Memory for each tensor, filled.

    A tensor lies in memory at the same distance from a block as in its file, so that whole blocks
    go to it without a copy.
    """
    places, end = [], 0
    for _, begin, length, *_ in wanted:
        at = end + (begin - end) % _ALIGN
        places.append((at, length))
        end = at + length
    memory = memoryview(alloc(end))
    views = [memory[at : at + length] for at, length in places]
    # Neighbours in the file are neighbours in memory: they are read together.
    ranges = []
    for (file, begin, length, *_), (at, _) in zip(wanted, places):
        last = ranges[-1] if ranges else None
        if last and last[0] is file and last[1] + last[3] == begin and last[2] + last[3] == at:
            last[3] += length
        else:
            ranges.append([file, begin, at, length])
    counts = dio.read_ranges(
        [(file, begin, memory[at : at + length]) for file, begin, at, length in ranges], depth=depth
    )
    for (file, begin, _, length), count in zip(ranges, counts):
        if count < length:
            raise SafetensorError(
                f"{file.name} ends at byte {begin + count}, before its tensors do (it was cut off)"
            )
    return views


def _header(file):
    """Offset, length, type and shape of each tensor, in the order of the file; and the metadata."""

    def wrong(what):
        return SafetensorError(f"{file.name} is no safetensors file: {what}")

    # One read gets most headers whole.
    begin = file.read_at(64 << 10, 0)
    if len(begin) < 8:
        raise wrong("it has no header")
    (length,) = struct.unpack("<Q", begin[:8])
    size = file.size()
    if length > _HEADER_MAX or 8 + length > size:
        raise wrong(f"its header would have {length} bytes")
    text = begin[8 : 8 + length] if length <= len(begin) - 8 else file.read_at(length, 8)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise wrong(f"its header is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise wrong("its header is no object")
    texts = header.pop("__metadata__", None) or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise wrong("its metadata is no dictionary of texts")
    tensors, start = {}, 8 + length
    for name, entry in header.items():
        try:
            kind, shape, (first, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            name.encode()
        except (TypeError, KeyError, ValueError):
            raise wrong(f"the entry of {name!r} is not as it must be") from None
        if not isinstance(kind, str) or kind not in _TYPES:
            raise wrong(f"{name!r} has the type {kind!r:.100}, which is unknown here")
        items = _items(shape)
        sound = items is not None and all(
            type(offset) is int and offset >= 0 for offset in (first, end)
        )
        if not sound or end - first != items * _TYPES[kind][0] or start + end > size:
            raise wrong(f"{name!r} does not lie where its shape or the file has room for it")
        tensors[name] = (start + first, end - first, kind, tuple(shape))
    tensors = dict(sorted(tensors.items(), key=lambda item: item[1][:2]))
    # The format has all bytes behind the header in one tensor each.
    reached = start
    for name, (begin, count, *_) in tensors.items():
        if begin != reached:
            raise wrong(f"{name!r} begins at byte {begin}, and what is before it ends at {reached}")
        reached += count
    if reached != size:
        raise wrong(f"its tensors end at byte {reached}, and the file at {size}")
    return tensors, texts


def _unique(pairs):
    """An object of JSON whose names differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_constant(text):
    raise ValueError(f"{text} is no JSON")


def _items(shape):
    """Number of items, or None if it is no shape."""
    if not isinstance(shape, list):
        return None
    items = 1
    for extent in shape:
        if type(extent) is not int or not 0 <= extent <= _ITEMS_MAX:
            return None
        items *= extent
        if items > _ITEMS_MAX:
            return None
    return items


def _numpy(view, kind, shape):
    import numpy

    _, name, other = _TYPES[kind]
    if name is None:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                f"numpy has no type for {kind} (install ml_dtypes, or load for torch)"
            ) from None
        name = getattr(ml_dtypes, other)
    return numpy.frombuffer(view, name).reshape(shape)


def _torch(view, kind, shape):
    import torch

    dtype = getattr(torch, _TYPES[kind][2])
    if not len(view):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(view, dtype=dtype).reshape(shape)
