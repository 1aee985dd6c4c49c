"""A file system for `fsspec`: `dio://` and a path, so that pandas, pyarrow, zarr, dask and others go past the page cache.

    pandas.read_parquet("dio:///data/table.parquet")

The package registers it; nothing has to be imported. It is `fsspec`'s local file system but for the bytes of files.
"""

from __future__ import annotations

import os

from fsspec.implementations.local import LocalFileSystem, make_path_posix

import dio

from . import _dio


class DioFileSystem(LocalFileSystem):
    """Local files, read and written by dio.

    `direct` and `durable` are those of `dio.open`; `auto_mkdir` makes the directories of files that are written.
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
        if self._intrans and "w" in mode:
            # A transaction writes elsewhere, and renames when it is complete.
            return super()._open(path, mode, block_size, **kwargs)
        return dio.open(path, mode, direct=self.direct, durable=self.durable)

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
            dio.copy(path1, path2, direct=self.direct, durable=self.durable)
        elif self.isdir(path1):
            self.mkdirs(path2, exist_ok=True)
        else:
            raise FileNotFoundError(path1)

    def cat_file(self, path, start=None, end=None, **kwargs):
        with self._open(path) as file:
            size = file.size()
            first, last, _ = slice(start, end).indices(size)
            return file.read_at(max(last - first, 0), first)

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
                        files[path] = dio.open(self._strip_protocol(path), "rb", 0, direct=self.direct)
                    first, last, _ = slice(start, end).indices(files[path].size())
                except OSError as error:
                    if on_error != "return":
                        raise
                    results[number] = error
                    continue
                ranges.append((files[path], first, max(last - first, 0)))
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
