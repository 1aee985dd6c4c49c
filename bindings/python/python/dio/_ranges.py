"""Many ranges of many files in one call."""

from __future__ import annotations

import operator

from . import _dio
from ._memory import alloc, total

# Enough for every disk that was measured; an array of many disks may take more.
DEPTH = 64
# Where ranges begin in memory of our own, so that no device needs a copy.
_ALIGN = 4096


def read_ranges(ranges, into=None, *, depth=DEPTH, _stop=None):
    """Reads many ranges, with `depth` requests in flight, and without the lock of the interpreter.

    `ranges` are tuples:

    - `(file, offset, buffer)`: each is read into its buffer. The answer is the list of bytes read
      of each, which are fewer than asked for only at the end of a file.
    - `(file, offset, length)` with `into=buffer`: all are read into one buffer, one behind the
      other. The same answer.
    - `(file, offset)` with `into=[buffer, ...]`: each is read into its own buffer. The same answer.
    - `(file, offset, length)`: the answer is a list of memoryviews of aligned memory, each as long
      as what was read.

    Ranges with lengths and ranges with buffers need a call each. An error of a range is an
    `OSError` that says which one: `error.index`, `error.filename`, `error.offset`. Others may have
    been read.
    """
    if into is None:
        ranges = list(ranges)
        thirds = [item[2] for item in ranges if isinstance(item, tuple) and len(item) == 3]
        kinds = {_is_length(third) for third in thirds}
        if len(kinds) == 2:
            raise TypeError(
                "some ranges have a length and others a buffer (read them by two calls)"
            )
        if kinds != {True} or len(thirds) < len(ranges):
            return _dio.read_ranges(ranges, depth, _stop)
        lengths = [operator.index(length) for length in thirds]
        memory = alloc(total(lengths, _ALIGN))
        counts = _dio.read_ranges_into(ranges, memory, _ALIGN, depth, _stop)
        view, at, views = memoryview(memory), 0, []
        for length, count in zip(lengths, counts):
            views.append(view[at : at + count])
            at += -(-length // _ALIGN) * _ALIGN
        return views
    if isinstance(into, (list, tuple)):
        ranges = [(item[0], item[1], buffer) for item, buffer in zip(ranges, into, strict=True)]
        return _dio.read_ranges(ranges, depth, _stop)
    return _dio.read_ranges_into(ranges, into, 1, depth, _stop)


def _is_length(third):
    """Whether the third part of a range is a number and no buffer.

    Arrays of numpy have `__index__` too, and numpy's numbers have memory, which is read-only.
    """
    if isinstance(third, int):
        return True
    if not hasattr(third, "__index__"):
        return False
    try:
        with memoryview(third) as view:
            return view.readonly and view.ndim == 0
    except TypeError:
        return True
    except (BufferError, ValueError):
        return False


def write_ranges(ranges, *, depth=DEPTH, _stop=None):
    """Writes many ranges `(file, offset, buffer)`, with `depth` requests in flight, and without the
    lock of the interpreter.

    The ranges must not overlap. A file that becomes longer is extended first. Ranges that begin or
    end within a block (`file.geometry()["write_align"]`) are written one after the other, behind
    the others. They are durable after `file.sync()`. An error says which range failed, as in
    `read_ranges`; others may have been written.
    """
    _dio.write_ranges(ranges, depth, _stop)
