"""Many ranges in one call, aligned memory, and the variants for asyncio."""

import array
import asyncio
import errno
import gc
import io
import os
import signal
import subprocess
import sys
import time

import dio
import dio.aio
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

DATA = bytes(os.urandom(1 << 20))
offsets = st.one_of(
    st.integers(0, len(DATA) + 5000), st.integers(0, 256).map(lambda block: block * 4096)
)
lengths = st.one_of(st.integers(0, 20_000), st.integers(0, 20).map(lambda block: block * 4096))


@pytest.fixture
def file(everywhere):
    (everywhere / "file").write_bytes(DATA)
    with dio.open(everywhere / "file", "r+b") as file:
        yield file


@settings(max_examples=25)
@given(
    ranges=st.lists(st.tuples(offsets, lengths), max_size=40),
    how=st.sampled_from(["memory", "buffer", "buffers", "triples"]),
    aligned=st.booleans(),
    depth=st.sampled_from([1, 3, 64, 10_000]),
)
def test_ranges_are_read_as_by_pread(file, ranges, how, aligned, depth):
    expected = [DATA[offset : offset + length] for offset, length in ranges]
    make = dio.alloc if aligned else bytearray
    if how == "memory":
        got = dio.read_ranges([(file, *one) for one in ranges], depth=depth)
        assert [bytes(view) for view in got] == expected
    elif how == "buffer":
        memory = make(sum(length for _, length in ranges) + 1)
        counts = dio.read_ranges([(file, *one) for one in ranges], memory, depth=depth)
        view, at = memoryview(memory), 0
        for (_, length), count, wanted in zip(ranges, counts, expected):
            assert (count, bytes(view[at : at + count])) == (len(wanted), wanted)
            at += length
    else:
        memories = [make(length) for _, length in ranges]
        if how == "buffers":
            counts = dio.read_ranges(
                ((file, offset) for offset, _ in ranges), memories, depth=depth
            )
        else:
            counts = dio.read_ranges(
                [(file, offset, memory) for (offset, _), memory in zip(ranges, memories)],
                depth=depth,
            )
        assert [
            bytes(memoryview(memory)[:count]) for memory, count in zip(memories, counts)
        ] == expected


@settings(max_examples=25)
@given(
    ranges=st.lists(st.tuples(offsets, lengths), max_size=30),
    depth=st.sampled_from([1, 3, 64]),
    direct=st.sampled_from(["auto", "concurrent", False]),
)
def test_ranges_are_written_as_by_pwrite(everywhere, ranges, depth, direct):
    model = io.BytesIO(DATA[:300_000])
    (everywhere / "file").write_bytes(model.getvalue())
    apart, wanted = [], []
    for number, (offset, length) in enumerate(ranges, 1):
        if all(offset + length <= other or other + size <= offset for other, size in apart):
            apart.append((offset, length))
            data = bytes([number]) * length
            wanted.append((offset, data))
            if data:
                model.seek(offset)
                model.write(data)
    with dio.open(everywhere / "file", "r+b", direct=direct) as file:
        dio.write_ranges([(file, *one) for one in wanted], depth=depth)
        file.sync()
    assert (everywhere / "file").read_bytes() == model.getvalue()


def test_thousands_of_ranges_of_several_files(here):
    files = []
    for number in range(3):
        (here / str(number)).write_bytes(bytes([number]) * 4096 * 500)
        files.append(dio.open(here / str(number)))
    memory = dio.alloc(4096 * 6000)
    ranges = [(files[number % 3], number * 7919 % 500 * 4096, 4096) for number in range(6000)]
    assert dio.read_ranges(ranges, memory) == [4096] * 6000
    view = memoryview(memory)
    assert all(view[number * 4096] == number % 3 for number in range(6000))
    receipt = files[0].receipt()
    # The pages that were there before stay.
    assert receipt["read"]["direct"] == 2000 * 4096 and receipt["resident_pages"] == 500
    for file in files:
        file.close()


def test_an_error_says_which_range(here):
    with dio.open(here / "file", "w+b") as file, dio.open(here / "file") as only_read:
        dio.write_ranges([(file, 0, bytes(8192))])
        with pytest.raises(
            OSError, match="^\\[Errno 9\\] range 2: cannot write .*reading only"
        ) as caught:
            dio.write_ranges(
                [(file, 0, bytes(4096)), (file, 4096, bytes(4096)), (only_read, 8192, bytes(4096))]
            )
        assert (caught.value.index, caught.value.offset) == (2, 8192)
        assert (caught.value.errno, caught.value.filename) == (errno.EBADF, str(here / "file"))


def test_wrong_ranges_are_refused(here):
    with dio.open(here / "file", "w+b") as file:
        memory = bytearray(100)
        for ranges, kind, text in (
            ([(file, 0)], TypeError, "tuple"),
            ([7], TypeError, "tuple"),
            ([(file, -1, memory)], OverflowError, "negative"),
            ([("name", 0, memory)], TypeError, "dio.open returned"),
            ([(file, 0, b"1234")], TypeError, "read-only"),
            ([(file, 0, memory), (file, 0, memory)], ValueError, "overlap"),
        ):
            with pytest.raises(kind, match=text):
                dio.read_ranges(ranges)
        with pytest.raises(ValueError, match="range 1"):
            dio.read_ranges([(file, 0, 60), (file, 0, 60)], memory)
        with pytest.raises(ValueError):
            dio.read_ranges([(file, 0)], [memory, bytearray(1)])
        assert dio.read_ranges([]) == []
    with pytest.raises(ValueError, match="closed"):
        dio.read_ranges([(file, 0, memory)])


def test_arrays_and_numbers_of_numpy_in_ranges(here):
    np = pytest.importorskip("numpy")
    data = bytes(range(256)) * 64
    (here / "file").write_bytes(data)
    with dio.open(here / "file") as file:
        for array in (np.zeros(100, "u1"), np.zeros(1, "i8"), np.zeros((), "i8")):
            assert dio.read_ranges([(file, 8, array)]) == [array.nbytes]
            assert array.tobytes() == data[8 : 8 + array.nbytes]
            for read in (
                lambda: asyncio.run(dio.aio.readinto_at(file, array, 8)),
                lambda: file.readinto_at(array, 8),
            ):
                array[...] = 0
                assert read() == array.nbytes
                assert array.tobytes() == data[8 : 8 + array.nbytes]
        for kind in ("u1", "i2", "i8", "u8"):
            length = np.dtype(kind).type(200 if kind == "u1" else 9000)
            views = dio.read_ranges([(file, 0, 1), (file, 8, length), (file, 9, 1)])
            assert [bytes(view) for view in views] == [b"\0", data[8 : 8 + int(length)], b"\t"]
        with pytest.raises(TypeError, match="two calls"):
            dio.read_ranges([(file, 0, 10), (file, 0, bytearray(10))])
        with pytest.raises(TypeError, match="two calls"):
            dio.read_ranges([(file, 0, bytearray(10)), (file, 0, 10)])
        frozen = np.zeros(10, "u1")
        frozen.flags.writeable = False
        with pytest.raises(TypeError, match="read-only"):
            dio.read_ranges([(file, 0, frozen)])
    assert np.asarray(dio.empty(np.array([2, 3]), "i4")).shape == (2, 3)
    assert dio.numpy.empty(np.array([2, 3])).shape == (2, 3)


def test_what_was_written_before_is_read(here):
    with dio.open(here / "file", "w+b") as file:
        file.write(b"not flushed yet")
        assert bytes(dio.read_ranges([(file, 4, 7)])[0]) == b"flushed"
        file.seek(0)
        assert file.read(3) == b"not"
        dio.write_ranges([(file, 0, b"all")])
        assert file.read_at(3, 0) == b"all"


def test_memory_goes_straight_to_the_device(here):
    memory = dio.alloc(1 << 20)
    assert memory.ptr % 4096 == 0 and bytes(memory) == bytes(1 << 20)
    with dio.open(here / "file", "w+b", 0) as file:
        file.write(memory)
        assert file.readinto_at(memory, 0) == 1 << 20
        assert file.readinto_at(bytearray((1 << 20) + 1), 0) == 1 << 20
        receipt = file.receipt()
    assert receipt["write"] == {"direct": 1 << 20, "bounced": 0, "uncached": 0, "cached": 0}
    assert receipt["read"]["direct"] >= 1 << 20


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "float32", "float64", "complex64", "bool", "f2", "<i8", float, int]
)
def test_memory_has_shape_and_type(dtype):
    numpy = pytest.importorskip("numpy")
    for shape in (7, (3, 5), (2, 3, 4), (0, 4), ()):
        memory = dio.empty(shape, dtype)
        model = numpy.zeros(shape, dtype)
        for array_of in (
            numpy.asarray,
            lambda memory: numpy.asarray(memoryview(memory)),
            numpy.from_dlpack,
        ):
            if array_of is numpy.from_dlpack and 0 in model.shape:
                continue
            array_ = array_of(memory)
            assert (array_.shape, array_.dtype) == (model.shape, model.dtype), array_of
            assert array_.ctypes.data == memory.ptr
            assert numpy.array_equal(array_, model)
            array_[...] = 1
            assert (numpy.asarray(memory) == 1).all()
            array_[...] = 0
    assert (
        dio.empty((2, 3), numpy.dtype("f4")).shape
        == dio.empty((2, 3), numpy.float32).shape
        == (2, 3)
    )


def test_memory_lives_as_long_as_what_is_made_of_it():
    numpy = pytest.importorskip("numpy")
    for make in (numpy.asarray, memoryview, numpy.from_dlpack, lambda memory: memory.__dlpack__()):
        for _ in range(3):
            kept = make(dio.alloc(3 << 20))
            gc.collect()
            if not hasattr(kept, "__len__"):
                continue
            kept[0] = 5
            assert kept[0] == 5 and kept[-1] == 0
            del kept
    for dtype, kind in (("object", TypeError), (">i4", TypeError), ("float9", TypeError)):
        with pytest.raises(kind):
            dio.empty(3, dtype)
    with pytest.raises(ValueError):
        dio.alloc(-1)
    with pytest.raises((MemoryError, ValueError)):
        dio.alloc(1 << 62)


def test_asyncio_reads_beside_a_loop_that_runs(here):
    (here / "file").write_bytes(DATA)

    async def main():
        ticks, going = 0, True

        async def tick():
            nonlocal ticks
            while going:
                ticks += 1
                await asyncio.sleep(0.0005)

        ticker = asyncio.create_task(tick())
        file = await dio.aio.open(here / "file", "r+b")
        buffers = [bytearray(10_000) for _ in range(50)]
        calls = [
            dio.aio.readinto_at(file, buffer, number * 9_999)
            for number, buffer in enumerate(buffers)
        ]
        assert await asyncio.gather(*calls) == [10_000] * 50
        for number, buffer in enumerate(buffers):
            assert buffer == DATA[number * 9_999 :][:10_000]
        assert await dio.aio.write_at(file, b"12345", 77) == 5
        await dio.aio.sync(file)
        assert bytes(await dio.aio.read_at(file, 7, 76)) == DATA[76:77] + b"12345" + DATA[82:83]
        await dio.aio.close(file)
        going = False
        await ticker
        assert ticks > 2

    asyncio.run(main())


def test_a_cancelled_task_leaves_nothing_in_flight(here):
    (here / "file").write_bytes(bytes(64 << 20))

    async def main():
        file = await dio.aio.open(here / "file")
        memory = dio.alloc(64 << 20)
        ranges = [(file, number * 4096, 4096) for number in range(16384)]
        task = asyncio.create_task(dio.aio.read_ranges(ranges, memory, depth=1))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        requests = file.receipt()["requests"]["read"]
        await asyncio.sleep(0.05)
        assert file.receipt()["requests"]["read"] == requests < 16384

    asyncio.run(main())


@pytest.mark.parametrize("call", ["ranges", "readinto", "write", "digest", "copy"])
def test_an_interrupt_ends_a_long_call(here, call):
    """A program that is in a call of some seconds ends soon after Control-C, and its file is as
    usable as before.
    """
    program = """if True:
        import sys, dio
        path, call = sys.argv[1:]
        with dio.open(path, "w+b", 0) as file:
            file.truncate(6 << 30)
            # What is written fits on the file system, and is written again and again.
            memory = dio.alloc({"ranges": 4096, "write": 512 << 20}.get(call, 2 << 30))
            ranges = [(file, number * 4096, 4096) for number in range(300_000)]
            print("begun", flush=True)
            try:
                while True:
                    if call == "ranges":
                        dio.read_ranges(ranges)
                    elif call == "readinto":
                        file.readinto_at(memory, 0)
                    elif call == "write":
                        file.write_at(memory, 0)
                    elif call == "digest":
                        dio.digest(path)
                    else:
                        file.write_at(bytes(1 << 20), 5 << 30)
                        dio.copy(path, path + "2", durable=False)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            file.truncate(4096)
            assert file.readinto_at(memory, 0) == 4096
    """
    run = subprocess.Popen(
        [sys.executable, "-c", program, here / "file", call], stdout=subprocess.PIPE, text=True
    )
    try:
        assert run.stdout.readline() == "begun\n"
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        started = time.monotonic()
        assert run.stdout.readline() == "interrupted\n"
        assert time.monotonic() - started < 10
        assert run.wait(30) == 0
    finally:
        run.kill()
        run.wait()
    assert not [path for path in here.iterdir() if ".dio-" in path.name]


def test_an_interrupt_handler_may_use_the_same_file(here):
    """Without a buffer of Python's: those refuse what calls them while they run."""
    (here / "file").write_bytes(bytes(32 << 20))
    with dio.open(here / "file", "r+b", 0) as file:
        seen = []

        def handler(*_):
            # A slow call may be interrupted by the next signal, so the place is asked once.
            place = 4096 * len(seen) + 1
            file.write_at(b"handler", place)
            seen.append(file.read_at(7, place))

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.03)
        try:
            deadline = time.monotonic() + 20
            while len(seen) < 3 and time.monotonic() < deadline:
                dio.read_ranges([(file, number * 4096, 4096) for number in range(8192)], depth=2)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(seen) >= 3 and set(seen) == {b"handler"}


def test_arrays_of_python(here):
    with dio.open(here / "file", "w+b") as file:
        numbers = array.array("d", range(1000))
        dio.write_ranges([(file, 0, numbers)])
        back = array.array("d", bytes(8000))
        dio.read_ranges([(file, 0, back)])
        assert back == numbers
