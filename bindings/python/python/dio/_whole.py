"""Calls on whole files."""

from __future__ import annotations

import os

from . import _dio


def copy(source, target, *, direct="auto", durable=True):
    """Copies a file past the page cache. Its holes stay holes.

    The target has its old contents until the new ones are complete and, unless `durable` is false,
    durable. It gets the permissions of the source, less the umask. A symbolic link is followed to
    the regular file that is replaced; one that leads nowhere is an error, as are a directory and a
    new name that ends with a slash. The answer is a receipt: `bytes`, `holes`, and what went direct
    of `source` and `target`.
    """
    return _dio.copy(os.fsdecode(source), os.fsdecode(target), direct, durable)


def digest(paths, algorithms="sha256", *, direct="auto"):
    """Digests of files, in hexadecimal digits, read past the page cache, several files at a time.

    With one path and one algorithm the answer is a string; with several algorithms, a dictionary of
    them; with several paths, a list of these. `dio.DIGESTS` has the names.
    """
    one_path = isinstance(paths, (str, bytes, os.PathLike))
    one_algorithm = isinstance(algorithms, str)
    names = [algorithms] if one_algorithm else list(algorithms)
    listed = [os.fsdecode(path) for path in ([paths] if one_path else paths)]
    rows = _dio.digest(listed, names, direct)
    results = [row[0] if one_algorithm else dict(zip(names, row)) for row in rows]
    return results[0] if one_path else results


def cache(path):
    """The pages of a file that are in the page cache.

    The object knows which were there when it was made, so that it can drop those that came since:

        with dio.cache("weights.bin"):
            load("weights.bin")      # by any library
    """
    return _dio.Cache(os.fsdecode(path))


def probe(path):
    """How I/O to a file, directory or device behaves, found out by trials: alignments, what goes
    direct, the device.

    An answer that is not True has its reason in `reasons`. In a directory this takes half a second
    and writes some MiB.
    """
    return _dio.probe(os.fsdecode(path))


def remove(path):
    """Removes a file. Of a striped file, the objects are removed too, which `os.remove` leaves."""
    _dio.remove(os.fsdecode(path))
