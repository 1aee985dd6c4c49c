"""Arrays of numpy, read and written past the page cache, straight from and into their memory."""

from __future__ import annotations

import io
import os

import numpy as np

import dio

from ._memory import alloc, extents

__all__ = ["empty", "fromfile", "load", "save", "tofile"]


def empty(shape, dtype=float, order="C"):
    """As `numpy.zeros`, in memory that the device reads and writes without a copy."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(
            f"{dtype} holds Python objects, which have no bytes of their own (use another dtype)"
        )
    shape = extents(shape)
    items = int(np.prod(shape, dtype=object)) if shape else 1
    memory = alloc(items * dtype.itemsize)
    return np.ndarray(shape, dtype, memory, order=order)


def fromfile(file, dtype=float, count=-1, offset=0, *, direct="auto"):
    """As `numpy.fromfile` without `sep`: the items that a file holds from byte `offset` on.

    `file` is a name, or a file object of dio, of which the position decides where reading begins,
    and moves.
    """
    dtype = np.dtype(dtype)
    if not _is_name(file):
        start = file.tell() + offset
        array = _read(file, start, dtype, count)
        file.seek(start + array.nbytes)
        return array
    with dio.open(file, "rb", 0, direct=direct) as opened:
        return _read(opened, offset, dtype, count)


def _read(file, offset, dtype, count):
    if not dtype.itemsize and count < 0:
        raise ValueError(
            f"items of {dtype} have no bytes, so a file does not tell how many there are "
            "(give a count)"
        )
    there = max(file.size() - offset, 0) // dtype.itemsize if dtype.itemsize else count
    array = empty(there if count < 0 else min(count, there), dtype)
    if array.nbytes:
        read = file.readinto_at(array.view(np.uint8), offset)
        if read < array.nbytes:
            array = array[: read // dtype.itemsize]
    return array


def tofile(array, file, *, direct="auto", durable=False):
    """As `array.tofile` without `sep`: the items in C order, as they lie in memory.

    `file` is a name, of which the file is replaced, or a file object. With `durable`, they are
    durable.
    """
    data = _bytes(array)
    if not _is_name(file):
        sync = _syncs(file) if durable else None
        file.write(data)
        if sync:
            sync()
        return
    with dio.open(file, "wb", 0, direct=direct) as opened:
        opened.write(data)
        if durable:
            opened.sync()


def _syncs(file):
    """The call that makes durable what was written to a file object."""
    if callable(getattr(file, "sync", None)):
        return file.sync
    if not isinstance(getattr(file, "raw", file), io.FileIO):
        raise ValueError(
            f"what is written to {type(file).__name__} cannot be made durable here "
            "(leave out durable)"
        )

    def sync():
        file.flush()
        os.fsync(file.fileno())

    return sync


def _refuse_mask(array):
    if isinstance(array, np.ma.MaskedArray):
        raise NotImplementedError(
            "the mask of an array has no bytes in the file (write array.filled() or array.data)"
        )


def _bytes(array):
    array = np.asanyarray(array)
    _refuse_mask(array)
    if array.dtype.hasobject:
        raise TypeError(
            f"{array.dtype} holds Python objects, which have no bytes of their own "
            "(use another dtype)"
        )
    if not array.nbytes:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def save(file, array, *, direct="auto", durable=False):
    """As `numpy.save`, in numpy's own format, `.npy`. The name gets that ending if it has none."""
    array = np.asanyarray(array)
    _refuse_mask(array)
    if array.dtype.hasobject:
        raise TypeError(
            f"{array.dtype} holds Python objects, which would have to be pickled (use numpy.save)"
        )
    # Whatever may fail is done before an existing file is emptied.
    facts = np.lib.format.header_data_from_array_1_0(array)
    header = _header(facts)
    data = _bytes(array.T if facts["fortran_order"] else array)
    if _is_name(file):
        name = os.fsdecode(file)
        name = name if name.endswith(".npy") else name + ".npy"
        with dio.open(name, "wb", direct=direct) as opened:
            opened.write(header)
            opened.write(data)
            if durable:
                opened.sync()
    else:
        sync = _syncs(file) if durable else None
        file.write(header)
        file.write(data)
        if sync:
            sync()


def _header(facts):
    """The header of a `.npy` file, of the oldest version of the format that can say it.

    Its length is a multiple of 64, so the items lie off any block.
    """
    made = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(made, facts)
        return made.getvalue()
    except UnicodeEncodeError:
        pass
    except ValueError:
        # It is longer than 64 KiB.
        made = io.BytesIO()
        try:
            np.lib.format.write_array_header_2_0(made, facts)
            return made.getvalue()
        except UnicodeEncodeError:
            pass
    # Version 3.0 is 2.0 with text in UTF-8. numpy has no public function that writes it.
    fields = "".join(f"{name!r}: {value!r}, " for name, value in sorted(facts.items()))
    text = f"{{{fields}}}".encode()
    magic = np.lib.format.magic(3, 0)
    text += b" " * (-(len(magic) + 4 + len(text) + 1) % 64) + b"\n"
    return magic + len(text).to_bytes(4, "little") + text


def load(file, *, direct="auto"):
    """As `numpy.load` for `.npy` files; the arrays of an `.npz` archive are returned as a
    dictionary.

    What would have to be unpickled is refused.
    """
    if _is_name(file):
        with dio.open(file, "rb", direct=direct) as opened:
            return load(opened)
    start = file.tell()
    magic = file.read(4)
    file.seek(start)
    if magic == b"PK\x03\x04":
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        file.seek(start)
        return np.load(file, allow_pickle=False)
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError(
            "the array holds pickled objects, which are not loaded "
            "(use numpy.load if you trust the file)"
        )
    offset, needed = file.tell(), dtype.itemsize
    for extent in shape:
        if extent < 0:
            raise ValueError(f"the array would have the shape {shape} (the file is damaged)")
        needed *= extent
    if needed > max(file.size() - offset, 0):
        missing = needed - max(file.size() - offset, 0)
        raise ValueError(f"the file ends {missing} bytes before its array does (it was cut off)")
    array = empty(shape[::-1] if fortran else shape, dtype)
    read = file.readinto_at(array.reshape(-1).view(np.uint8), offset) if array.nbytes else 0
    if read < array.nbytes:
        raise ValueError(
            f"the file ends {array.nbytes - read} bytes before its array does (it was cut off)"
        )
    file.seek(offset + array.nbytes)
    return array.T if fortran else array


def _is_name(file):
    return isinstance(file, (str, bytes, os.PathLike))
