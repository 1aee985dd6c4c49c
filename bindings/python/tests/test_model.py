"""dio's file objects beside those of io.open: the same calls give the same results and the same
file.
"""

import array
import io
import mmap
import os

import dio
import hypothesis.strategies as st
import pytest
from dio import _files
from hypothesis import given, settings

END = 300_000
offsets = st.one_of(
    st.integers(0, END),
    st.builds(
        lambda power, times, by: max(0, (times << power) + by),
        st.integers(9, 17),
        st.integers(0, 4),
        st.integers(-2, 2),
    ),
)
lengths = st.one_of(
    st.integers(0, 9000), st.sampled_from([0, 1, 511, 512, 513, 4096, 65536, 65537, 200_000])
)
steps = st.one_of(
    st.tuples(st.just("read"), lengths),
    st.tuples(st.just("readinto"), lengths),
    st.tuples(st.just("readline"), lengths),
    st.tuples(st.just("write"), lengths),
    st.tuples(st.just("seek"), offsets),
    st.tuples(st.just("seek_by"), st.integers(-5000, 5000)),
    st.tuples(st.just("seek_end"), st.integers(-5000, 5000)),
    st.tuples(st.just("truncate"), offsets),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("readinto_at"), st.tuples(offsets, lengths)),
    st.tuples(st.just("write_at"), st.tuples(offsets, lengths)),
    st.tuples(st.just("size"), st.none()),
)


def content(length, seed):
    """Bytes with lines in them that differ from those of other seeds."""
    line = b"%d: the quick brown fox jumps over the lazy dog\n" % seed
    return (line * (length // len(line) + 1))[:length]


def step(file, is_dio, what, argument, number):
    """Does one step and returns what a caller sees of it."""
    match what:
        case "read":
            return file.read(argument)
        case "readinto":
            # Memory at an odd address.
            memory = bytearray(argument + 1)
            count = file.readinto(memoryview(memory)[1:])
            return count, bytes(memory[1 : 1 + count])
        case "readline":
            return file.readline(argument)
        case "write":
            return file.write(content(argument, number))
        case "seek":
            return file.seek(argument)
        case "seek_by":
            try:
                return file.seek(argument, 1)
            except OSError as error:
                return error.errno
        case "seek_end":
            try:
                return file.seek(argument, 2)
            except OSError as error:
                return error.errno
        case "truncate":
            return file.truncate(argument), file.tell()
        case "flush":
            return file.flush()
        case "sync":
            return file.sync() if is_dio else None
        case "size":
            file.flush()
            return file.size() if is_dio else os.fstat(file.fileno()).st_size
        case "readinto_at":
            offset, length = argument
            if is_dio:
                memory = bytearray(length)
                return bytes(memory[: file.readinto_at(memory, offset)])
            file.flush()
            return os.pread(file.fileno(), length, offset)
        case "write_at":
            offset, length = argument
            if is_dio:
                return file.write_at(content(length, number), offset)
            file.flush()
            return os.pwrite(file.fileno(), content(length, number), offset)
    raise AssertionError(what)


@pytest.mark.parametrize("direct", ["auto", "concurrent", "uncached", False])
@pytest.mark.parametrize("buffering", [0, -1, 700])
@settings(max_examples=12)
@given(
    mode=st.sampled_from(["r+b", "w+b", "a+b"]), initial=lengths, todo=st.lists(steps, max_size=25)
)
def test_any_calls_do_as_a_plain_file_does(everywhere, direct, buffering, mode, initial, todo):
    ours, plain = everywhere / "ours", everywhere / "plain"
    for path in (ours, plain):
        path.write_bytes(content(initial, 0))
    # What is still in Python's own buffer decides where the position is after appending.
    size = _files.READ_BUFFER if buffering < 0 else buffering
    with dio.open(ours, mode, buffering, direct=direct) as a, io.open(plain, mode, size) as b:
        for number, (what, argument) in enumerate(todo, 1):
            # pwrite(2) of Linux appends to a file that was opened for appending; write_at refuses
            # it.
            if mode == "a+b" and what == "write_at":
                continue
            assert step(a, True, what, argument, number) == step(
                b, False, what, argument, number
            ), what
            if what == "readline" or buffering == 0:
                assert a.tell() == b.tell()
    assert ours.read_bytes() == plain.read_bytes()


@settings(max_examples=30)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=3000),
    newline=st.sampled_from([None, "", "\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]),
)
def test_text_does_as_a_plain_file_does(here, text, newline, encoding):
    results = []
    for name, opener in (("ours", dio.open), ("plain", io.open)):
        with opener(here / name, "wt", encoding=encoding, newline=newline) as file:
            file.write(text)
        with opener(here / name, "rt", encoding=encoding, newline=newline) as file:
            results.append((list(file), (here / name).read_bytes()))
        with opener(here / name, "a+t", encoding=encoding, newline=newline) as file:
            file.write("more\n")
            file.seek(0)
            results[-1] += (file.read(),)
    assert results[0] == results[1]


def memories(data):
    """The same bytes in memory of every kind that can be written from."""
    yield data
    yield bytearray(data)
    yield memoryview(b"x" + data)[1:]
    yield array.array("B", data)
    mapped = mmap.mmap(-1, max(len(data), 1))
    mapped[: len(data)] = data
    yield memoryview(mapped)[: len(data)]
    numpy = pytest.importorskip("numpy")
    yield numpy.frombuffer(data, "u1")
    yield numpy.frombuffer(data, "<u4")


def test_any_memory_is_written_and_read_into(everywhere):
    data = os.urandom(70_000)
    for number, memory in enumerate(memories(data)):
        path = everywhere / str(number)
        with dio.open(path, "wb") as file:
            assert file.write(memory) == len(data)
        with dio.open(path, "wb", 0) as file:
            assert file.write(memory) == len(data)
        assert path.read_bytes() == data
    with dio.open(path, "rb", 0) as file:
        for memory in (bytearray(70_000), array.array("d", bytes(70_000)), mmap.mmap(-1, 70_000)):
            file.seek(0)
            assert file.readinto(memory) == 70_000
            assert bytes(memory) == data
        with pytest.raises(TypeError, match="read-only"):
            file.readinto(b"1234")
        numpy = pytest.importorskip("numpy")
        with pytest.raises((BufferError, ValueError)):
            file.readinto(numpy.zeros((100, 100), "u1")[:, ::2])


@pytest.mark.parametrize(
    "mode", ["rb", "wb", "ab", "xb", "r+b", "w+b", "a+b", "x+b", "r", "w", "rt", "wt", "a", "x"]
)
def test_modes_are_those_of_open(here, mode):
    seen = []
    for name, opener in (("ours", dio.open), ("plain", io.open)):
        path = here / name
        if "x" not in mode:
            path.write_bytes(b"old contents\n")
        with opener(path, mode, **({} if "b" in mode else {"encoding": "utf-8"})) as file:
            at = file.tell()
            kind = next(base for base in type(file).__mro__ if base.__module__ in ("io", "_io"))
            seen.append(
                (
                    at,
                    file.readable(),
                    file.writable(),
                    file.seekable(),
                    file.isatty(),
                    kind,
                    file.mode,
                )
            )
            for attempt in (
                lambda: file.read(3),
                lambda: file.write(b"new" if "b" in mode else "new"),
            ):
                try:
                    seen[-1] += (attempt(),)
                except io.UnsupportedOperation:
                    seen[-1] += ("unsupported",)
        seen[-1] += (path.read_bytes(), file.closed)
        with pytest.raises(ValueError):
            file.read()
    assert seen[0] == seen[1]
    if "x" in mode:
        with pytest.raises(FileExistsError):
            dio.open(here / "ours", mode)


@pytest.mark.parametrize("mode", ["", "q", "rw", "rb+t", "rr", "b", "+"])
def test_wrong_modes_are_refused_as_by_open(here, mode):
    with pytest.raises(ValueError):
        io.open(here / "x", mode)
    with pytest.raises(ValueError):
        dio.open(here / "x", mode)
    assert not (here / "x").exists()
