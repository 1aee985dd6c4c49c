"""Direct I/O for Linux: files, ranges, memory and logs that leave the page cache as it was."""

from . import stripe
from ._dio import Cache, Memory, Wal, WalRecords, __version__, digests
from ._files import BufferedRandom, BufferedReader, BufferedWriter, File, TextFile, open
from ._memory import alloc, empty
from ._ranges import read_ranges, write_ranges
from ._whole import cache, copy, digest, probe, remove

#: The algorithms of `digest`.
DIGESTS = tuple(digests())
del digests

__all__ = [
    "BufferedRandom",
    "BufferedReader",
    "BufferedWriter",
    "Cache",
    "DIGESTS",
    "File",
    "Memory",
    "TextFile",
    "Wal",
    "WalRecords",
    "__version__",
    "alloc",
    "cache",
    "copy",
    "digest",
    "empty",
    "open",
    "probe",
    "read_ranges",
    "remove",
    "stripe",
    "write_ranges",
]


def __getattr__(name):
    """Imports modules such as `dio.numpy`, which need others, when they are first used."""
    if name in ("aio", "fsspec", "numpy", "safetensors"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
