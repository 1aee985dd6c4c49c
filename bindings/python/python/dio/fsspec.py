"""A file system for `fsspec`: `dio://` and a path, so that pandas, pyarrow, zarr, dask and others
go past the page cache.

    pandas.read_parquet("dio:///data/table.parquet")

The package registers it; nothing has to be imported. It is `fsspec`'s local file system but for the
bytes of files.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid

from fsspec.implementations.local import LocalFileSystem, make_path_posix

import dio

from . import _dio, _files


def _range(size, start, end):
    """Where a range of a file of `size` bytes begins, and its bytes, or None to the end."""
    first = 0 if start is None else start if start >= 0 else max(size + start, 0)
    if end is None:
        return first, None
    last = end if end >= 0 else size + end
    if last < first:
        raise ValueError(f"the range {start}..{end} of {size} bytes ends before it begins")
    return first, max(min(last, size) - first, 0)


class _Size(int):
    """A size as fsspec has it, a number, that can also be called, as the method of dio's files."""

    def __call__(self):
        return int(self)


class _Sized:
    """A file whose size is an attribute, as fsspec's files have it."""

    @property
    def size(self):
        return _Size(super().size())


class _SizedReader(_Sized, _files.BufferedReader):
    pass


class _SizedWriter(_Sized, _files.BufferedWriter):
    pass


class _SizedRandom(_Sized, _files.BufferedRandom):
    pass


_SIZED = {
    _files.BufferedReader: _SizedReader,
    _files.BufferedWriter: _SizedWriter,
    _files.BufferedRandom: _SizedRandom,
}


def _opened(path, mode, **kwargs):
    file = dio.open(path, mode, **kwargs)
    file.__class__ = _SIZED[type(file)]
    return file


class DioFileSystem(LocalFileSystem):
    """Local files, read and written by dio.

    `direct` and `durable` are those of `dio.open`; `auto_mkdir` makes the directories of files that
    are written.
    """

    protocol = ("dio",)
    local_file = True

    def __init__(self, auto_mkdir=False, direct="auto", durable=False, **kwargs):
        super().__init__(auto_mkdir=auto_mkdir, **kwargs)
        self.direct = direct
        self.durable = durable

    @classmethod
    def _strip_protocol(cls, path):
        path = os.fspath(path)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        for prefix in ("dio://", "dio:"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        path = make_path_posix(path)
        return path.rstrip("/") or "/" if path != "/" else path

    def unstrip_protocol(self, name):
        return f"dio://{self._strip_protocol(name)}"

    def _open(self, path, mode="rb", block_size=None, **kwargs):
        path = self._strip_protocol(path)
        if self.auto_mkdir and "r" not in mode:
            self.makedirs(self._parent(path), exist_ok=True)
        if self._intrans and "r" not in mode:
            return self._open_deferred(os.path.realpath(path), mode)
        return _opened(path, mode, direct=self.direct, durable=self.durable)

    def _open_deferred(self, path, mode):
        """A file of a transaction: one of another name, which is given its own when all are
        complete.
        """
        if "x" in mode and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        place, name = os.path.split(path)
        hidden = os.path.join(place, f".{name[:200]}.dio-{uuid.uuid4().hex}")
        if "a" in mode and os.path.exists(path):
            dio.copy(path, hidden, direct=self.direct, durable=False)
        file = _opened(hidden, mode.replace("x", "w"), direct=self.direct, durable=self.durable)

        def commit():
            file.close()
            if "x" not in mode:
                os.replace(hidden, path)
                return
            try:
                os.link(hidden, path)
            finally:
                os.unlink(hidden)

        def discard():
            file.close()
            os.unlink(hidden)

        file.commit, file.discard = commit, discard
        return file

    def info(self, path, **kwargs):
        found = super().info(path, **kwargs)
        # What has the name of a striped file says how it is striped.
        if found["type"] == "file":
            found["size"] = _dio.stat(found["name"])[0]
        return found

    def size(self, path):
        return self.info(path)["size"]

    def rm_file(self, path):
        dio.remove(self._strip_protocol(path))

    def rm(self, path, recursive=False, maxdepth=None):
        for one in path if isinstance(path, (list, tuple, set)) else [path]:
            one = self._strip_protocol(one)
            if not os.path.isdir(one) or os.path.islink(one):
                dio.remove(one)
                continue
            if not recursive:
                raise ValueError(f"{one} is a directory (remove it with recursive=True)")
            if os.path.abspath(one) == os.getcwd():
                raise ValueError("the working directory is not removed")
            for place, directories, names in os.walk(one, topdown=False):
                for name in names:
                    dio.remove(os.path.join(place, name))
                for name in directories:
                    inner = os.path.join(place, name)
                    os.unlink(inner) if os.path.islink(inner) else os.rmdir(inner)
            os.rmdir(one)

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.auto_mkdir:
            self.makedirs(self._parent(path2), exist_ok=True)
        if self.isfile(path1):
            mode = None
            if os.path.exists(path2):
                if os.path.samefile(path1, path2):
                    raise shutil.SameFileError(f"{path1!r} and {path2!r} are the same file")
                # The local file system writes into the existing file.
                mode = os.stat(path2).st_mode & 0o777
            _dio.copy(path1, path2, self.direct, self.durable, mode)
        elif self.isdir(path1):
            self.mkdirs(path2, exist_ok=True)
        else:
            raise FileNotFoundError(path1)

    def cat_file(self, path, start=None, end=None, **kwargs):
        with dio.open(self._strip_protocol(path), direct=self.direct) as file:
            first, count = _range(file.size(), start, end)
            if count is not None:
                return file.read_at(count, first)
            file.seek(first)
            return file.read()

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """Many ranges, all in flight together."""
        if not isinstance(starts, (list, tuple)):
            starts = [starts] * len(paths)
        if not isinstance(ends, (list, tuple)):
            ends = [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends must be as many")
        files, results, ranges, numbers = {}, [None] * len(paths), [], []
        try:
            for number, (path, start, end) in enumerate(zip(paths, starts, ends)):
                try:
                    if path not in files:
                        files[path] = dio.open(
                            self._strip_protocol(path), "rb", 0, direct=self.direct
                        )
                    size = files[path].size()
                    first, count = _range(size, start, end)
                    count = max(size - first, 0) if count is None else count
                except (OSError, ValueError) as error:
                    if on_error != "return":
                        raise
                    results[number] = error
                    continue
                ranges.append((files[path], first, count))
                numbers.append(number)
            for number, view in zip(numbers, dio.read_ranges(ranges)):
                results[number] = bytes(view)
        finally:
            for file in files.values():
                file.close()
        return results

    def get_file(self, path1, path2, callback=None, **kwargs):
        if hasattr(path2, "write"):
            return super().get_file(path1, path2, callback=callback, **kwargs)
        return self.cp_file(path1, path2, **kwargs)

    def put_file(self, path1, path2, callback=None, **kwargs):
        return self.cp_file(path1, path2, **kwargs)
