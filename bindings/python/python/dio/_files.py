"""File objects of Python's own classes over the native file."""

from __future__ import annotations

import io
import os

from . import _dio

# Larger than io.DEFAULT_BUFFER_SIZE, so that a line or a small record seldom calls the native file;
# small enough that a program that reads here and there transfers little that it does not want.
# Read-ahead lies below and is not affected.
READ_BUFFER = 32 << 10
# What a program writes in small pieces is gathered to this; the native file gathers it to whole
# blocks of 1 MiB.
WRITE_BUFFER = 128 << 10


def _refuse_pickle(self, *_):
    raise TypeError(
        f"cannot pickle {type(self).__name__}: an open file belongs to its process "
        "(send its name, and open it on the other side)"
    )


def _is_forgotten_in_child(file, native):
    """Whether a file of the parent of this process is being closed because nobody uses it here any
    more.
    """
    # The classes of io set `_finalizing` when they close what is forgotten.
    return native is not None and getattr(file, "_finalizing", False) and native.is_foreign


class RawFile(io.RawIOBase):
    """A file whose bytes go directly between the device and the caller's memory, where that is
    possible.

    `dio.open(path, mode, buffering=0)` returns it. It takes any offset, length and memory.
    """

    # An object whose opening failed is closed too, when it is forgotten.
    _file = None
    _readable = _writable = _appends = False
    name = mode = direct = None

    def __init__(self, path, mode="r", *, direct="auto", streams=False, durable=False):
        flags = _flags(mode)
        path = os.fsdecode(path)
        self._file = _dio.File(path, *flags[:6], streams, direct, durable)
        self._readable, self._writable, *_, self._appends = flags[:6]
        self.name = path
        self.mode = _shown(flags)
        self.direct = direct
        if self._appends:
            self._file.seek(0, 2)

    def __repr__(self):
        state = "closed" if self.closed else f"mode={self.mode!r} direct={self.direct!r}"
        return f"<dio.RawFile {self.name!r} {state}>"

    __reduce_ex__ = __reduce__ = __getstate__ = _refuse_pickle

    def readable(self):
        self._checked()
        return self._readable

    def writable(self):
        self._checked()
        return self._writable

    def seekable(self):
        self._checked()
        return True

    def isatty(self):
        self._checked()
        return False

    def fileno(self):
        self._checked()
        raise io.UnsupportedOperation(
            "a dio file gives away no descriptor, because bytes that pass by it need alignment "
            "(read and write through the file object, or open the name a second time)"
        )

    def readinto(self, buffer, /):
        if not self._readable:
            self._refuse("readable")
        return self._file.readinto(buffer)

    def read(self, size=-1, /):
        if not self._readable:
            self._refuse("readable")
        if size is None or size < 0:
            return self.readall()
        # More memory than there are bytes would be filled with zeros for nothing.
        if size > READ_BUFFER:
            size = min(size, max(self._file.size() - self._file.tell(), READ_BUFFER))
        return self._file.read(size)

    def readall(self):
        if not self._readable:
            self._refuse("readable")
        parts = []
        while True:
            part = self._file.read(max(self._file.size() - self._file.tell(), READ_BUFFER))
            if not part:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            parts.append(part)

    def write(self, data, /):
        if not self._writable:
            self._refuse("writable")
        return self._file.write(data)

    def seek(self, offset, whence=0, /):
        return self._file.seek(offset, whence)

    def tell(self):
        return self._file.tell()

    def truncate(self, size=None, /):
        if not self._writable:
            self._refuse("writable")
        return self._file.truncate(size)

    def flush(self):
        """Has everything written so far in the file, where others see it.

        It is durable after `sync`.
        """
        super().flush()
        if self._writable:
            self._file.flush()

    def close(self):
        if self.closed or _is_forgotten_in_child(self, self._file):
            return
        try:
            super().close()
        finally:
            if self._file is not None:
                self._file.close()

    def _checked(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _refuse(self, what):
        self._checked()
        raise io.UnsupportedOperation(f"not {what}: the file was opened with mode {self.mode!r}")


class _Beside:
    """What a dio file has beside the methods of its Python class."""

    __reduce_ex__ = __reduce__ = __getstate__ = _refuse_pickle

    def _native(self):
        raise NotImplementedError

    @property
    def _writes(self):
        return self.writable()

    def _current(self):
        """The native file, which has everything that was written through this object."""
        if self._writes:
            self.flush()
        return self._native()

    def sync(self, *, all=False):
        """Makes everything written so far durable; with `all`, also the metadata that reading back
        does not need.
        """
        self._current().sync(all)

    def size(self):
        """Size in bytes, with everything written so far."""
        return self._current().size()

    def readinto_at(self, buffer, offset, /):
        """Reads into `buffer` from `offset` on.

        Returns the bytes read, fewer than asked for only at the end of the file.

        The position of the file object stays as it is. Several threads may read at the same time.
        """
        return self._current().readinto_at(buffer, offset)

    def read_at(self, size, offset, /):
        """Reads at most `size` bytes from `offset` on.

        The position of the file object stays as it is.
        """
        return self._current().read_at(size, offset)

    def write_at(self, data, offset, /):
        """Writes all of `data` at `offset`. The position of the file object stays as it is."""
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        # Flushing has dropped the bytes that the object had read ahead.
        return self._current().write_at(data, offset)

    def allocate(self, offset, length, *, extend=True):
        """Allocates space, so that writing it cannot fail for lack of it.

        Without `extend`, the size stays.
        """
        self._current().allocate(offset, length, extend)

    def receipt(self):
        """What went direct so far, and what did not and why: bytes by class, reasons, requests,
        resident pages.
        """
        return self._current().receipt()

    def geometry(self):
        """Alignments and sizes in bytes that the file has; no caller needs to respect them."""
        return self._native().geometry()


class File(_Beside, RawFile):
    """`RawFile` with the methods of `_Beside`."""

    # Nothing is to be flushed before these, and they are called for small records.
    def readinto_at(self, buffer, offset, /):
        return self._file.readinto_at(buffer, offset)

    def read_at(self, size, offset, /):
        return self._file.read_at(size, offset)

    def _native(self):
        return self._file

    def _current(self):
        return self._file

    @property
    def _writes(self):
        self._checked()
        return self._writable


class _Buffered(_Beside):
    def _native(self):
        return self.raw._file

    @property
    def direct(self):
        return self.raw.direct

    def flush(self):
        # The classes of io flush into the raw file only, which writes behind.
        super().flush()
        self.raw.flush()

    def close(self):
        raw = getattr(self, "raw", None)
        # What is in Python's buffer is the parent's to write, and a thread of the parent may have
        # held its lock.
        if not _is_forgotten_in_child(self, getattr(raw, "_file", None)):
            super().close()


class BufferedReader(_Buffered, io.BufferedReader):
    """A file opened for reading."""


class BufferedWriter(_Buffered, io.BufferedWriter):
    """A file opened for writing."""


class BufferedRandom(_Buffered, io.BufferedRandom):
    """A file opened for reading and writing."""


class TextFile(_Beside, io.TextIOWrapper):
    """A file opened as text."""

    def _native(self):
        return self.buffer._native()

    @property
    def direct(self):
        return self.buffer.direct

    def close(self):
        raw = getattr(getattr(self, "buffer", None), "raw", None)
        if not _is_forgotten_in_child(self, getattr(raw, "_file", None)):
            super().close()

    def write_at(self, data, offset, /):
        """Not there: text that was read ahead would not show it."""
        raise io.UnsupportedOperation(
            "text has no offsets (use write_at of a file that was opened as binary)"
        )


def _flags(mode):
    """Read, write, create, new, truncate, append, binary, text."""
    if not isinstance(mode, str):
        raise TypeError(f"mode must be a string, not {type(mode).__name__}")
    letters = set(mode)
    if (
        len(letters) != len(mode)
        or letters - set("rwxabt+")
        or len(letters & set("rwxa")) != 1
        or {"t", "b"} <= letters
    ):
        raise ValueError(
            f"invalid mode: {mode!r} (one of r, w, x, a, with + to read and write, with b or t)"
        )
    plus = "+" in letters
    read = plus or "r" in letters
    write = plus or "r" not in letters
    return (
        read,
        write,
        "r" not in letters,
        "x" in letters,
        "w" in letters,
        "a" in letters,
        "b" in letters,
        "t" in letters,
    )


def _shown(flags):
    """The mode as `io.FileIO.mode` shows it."""
    read, write, _, new, _, append, *_ = flags
    letter = "x" if new else "a" if append else "r" if read else "w"
    return f"{letter}b{'+' if read and write else ''}"


def open(
    path,
    mode="rb",
    buffering=-1,
    encoding=None,
    errors=None,
    newline=None,
    *,
    direct="auto",
    durable=False,
):
    """Opens a file past the page cache, and returns a file object as `io.open` does.

    `direct` says how bytes travel:

    - `"auto"`: directly between the device and memory; what cannot go direct passes through the
      page cache and is dropped from it at once, which `receipt()` tells.
    - `True`: directly, or `OSError` where the file system would buffer it.
    - `"concurrent"`: as `"auto"`, and this process orders its own overlapping reads and writes, as
      databases do.
    - `"uncached"`: through the page cache, and dropped from it at once.
    - `False`: through the page cache, as `io.open` does.

    Any offset, length and memory is allowed. Reading in order is read ahead, writing is written
    behind, by `buffering=0` neither. With `durable=True` each write is durable when it reaches the
    file; else `sync()` makes everything durable.

    Unlike `io.open`, the default mode is `"rb"`, `path` is a name and no descriptor, and there is
    no `fileno()`.
    """
    flags = _flags(mode)
    text = "b" not in mode
    if isinstance(buffering, bool) or not isinstance(buffering, int):
        raise TypeError("buffering must be a number of bytes")
    if not text:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(
                    f"binary mode doesn't take an {name} argument (leave the b out of the mode)"
                )
    if buffering == 0:
        if text:
            raise ValueError("can't have unbuffered text I/O")
        return File(path, mode, direct=direct, durable=durable)
    line_buffering = buffering == 1 and text
    raw = File(path, mode, direct=direct, streams=True, durable=durable)
    try:
        read, write = flags[:2]
        size = buffering if buffering > 1 else WRITE_BUFFER if write and not read else READ_BUFFER
        kind = BufferedRandom if read and write else BufferedWriter if write else BufferedReader
        result = kind(raw, size)
        if text:
            result = TextFile(result, encoding, errors, newline, line_buffering)
            result.mode = mode
        return result
    except BaseException:
        raw.close()
        raise
