"""Direct I/O for Linux: files, ranges, aligned memory and logs that leave the page cache as it was."""

from ._dio import __version__
from ._files import BufferedRandom, BufferedReader, BufferedWriter, File, TextFile, open

__all__ = [
    "BufferedRandom",
    "BufferedReader",
    "BufferedWriter",
    "File",
    "TextFile",
    "__version__",
    "open",
]
