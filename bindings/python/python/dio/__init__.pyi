import io
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

from typing_extensions import Buffer

from . import stripe as stripe
from ._dio import Cache as Cache
from ._dio import Memory as Memory
from ._dio import Wal as Wal
from ._dio import WalRecords as WalRecords

__version__: str
DIGESTS: tuple[str, ...]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Direct = Literal["auto", "concurrent", "uncached"] | bool
_AnyFile = File | BufferedReader | BufferedWriter | BufferedRandom | TextFile

class _Beside:
    @property
    def direct(self) -> _Direct: ...
    def sync(self, *, all: bool = False) -> None: ...
    def size(self) -> int: ...
    def readinto_at(self, buffer: Buffer, offset: int, /) -> int: ...
    def read_at(self, size: int, offset: int, /) -> bytes: ...
    def write_at(self, data: Buffer, offset: int, /) -> int: ...
    def allocate(self, offset: int, length: int, *, extend: bool = True) -> None: ...
    def receipt(self) -> dict[str, Any]: ...
    def geometry(self) -> dict[str, int | None]: ...

class File(_Beside, io.RawIOBase): ...
class BufferedReader(_Beside, io.BufferedReader): ...
class BufferedWriter(_Beside, io.BufferedWriter): ...
class BufferedRandom(_Beside, io.BufferedRandom): ...
class TextFile(_Beside, io.TextIOWrapper): ...

@overload
def open(
    path: _Path,
    mode: Literal["rb", "br"] = "rb",
    buffering: Literal[-1] = -1,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> BufferedReader: ...
@overload
def open(
    path: _Path,
    mode: Literal["wb", "bw", "ab", "ba", "xb", "bx"],
    buffering: Literal[-1] = -1,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> BufferedWriter: ...
@overload
def open(
    path: _Path,
    mode: Literal["r+b", "w+b", "a+b", "x+b", "rb+", "wb+", "ab+", "xb+"],
    buffering: Literal[-1] = -1,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> BufferedRandom: ...
@overload
def open(
    path: _Path,
    mode: Literal["r", "w", "a", "x", "rt", "wt", "at", "xt", "r+", "w+", "a+", "x+"],
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> TextFile: ...
@overload
def open(
    path: _Path,
    mode: str = "rb",
    buffering: Literal[0] = ...,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> File: ...
@overload
def open(
    path: _Path,
    mode: str = "rb",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    direct: _Direct = "auto",
    durable: bool = False,
) -> Any: ...
@overload
def read_ranges(
    ranges: Iterable[tuple[_AnyFile, int, int]], into: None = None, *, depth: int = 64
) -> list[memoryview]: ...
@overload
def read_ranges(
    ranges: Iterable[tuple[_AnyFile, int, int]], into: Buffer, *, depth: int = 64
) -> list[int]: ...
@overload
def read_ranges(
    ranges: Iterable[tuple[_AnyFile, int]], into: Sequence[Buffer], *, depth: int = 64
) -> list[int]: ...
@overload
def read_ranges(
    ranges: Iterable[tuple[_AnyFile, int, Buffer]], into: None = None, *, depth: int = 64
) -> list[int]: ...
def write_ranges(ranges: Iterable[tuple[_AnyFile, int, Buffer]], *, depth: int = 64) -> None: ...
def alloc(nbytes: int, /) -> Memory: ...
def empty(shape: int | Sequence[int], dtype: Any = "uint8") -> Memory: ...
def copy(
    source: _Path, target: _Path, *, direct: _Direct = "auto", durable: bool = True
) -> dict[str, Any]: ...
@overload
def digest(paths: _Path, algorithms: str = "sha256", *, direct: _Direct = "auto") -> str: ...
@overload
def digest(
    paths: _Path, algorithms: list[str] | tuple[str, ...], *, direct: _Direct = "auto"
) -> dict[str, str]: ...
@overload
def digest(
    paths: Iterable[_Path], algorithms: str = "sha256", *, direct: _Direct = "auto"
) -> list[str]: ...
@overload
def digest(
    paths: Iterable[_Path], algorithms: list[str] | tuple[str, ...], *, direct: _Direct = "auto"
) -> list[dict[str, str]]: ...
def cache(path: _Path) -> Cache: ...
def probe(path: _Path) -> dict[str, Any]: ...
def remove(path: _Path) -> None: ...
