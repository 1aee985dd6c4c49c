"""Direct I/O for Linux: files, ranges, aligned memory and logs that leave the page cache as it was."""

from ._dio import Memory, __version__
from ._files import BufferedRandom, BufferedReader, BufferedWriter, File, TextFile, open
from ._memory import alloc, empty
from ._ranges import read_ranges, write_ranges

__all__ = [
    "BufferedRandom",
    "BufferedReader",
    "BufferedWriter",
    "File",
    "Memory",
    "TextFile",
    "__version__",
    "alloc",
    "empty",
    "open",
    "read_ranges",
    "write_ranges",
]
