"""What dio's file objects promise beyond those of io.open."""

import copy
import errno
import gc
import io
import mmap
import os
import pickle
import threading
import time

import dio
import pytest


def test_nothing_stays_in_the_page_cache(here):
    path = here / "file"
    with dio.open(path, "wb") as file:
        file.write(os.urandom(3_000_001))
        file.sync()
        written = file.receipt()
    assert written["write"]["direct"] >= 2_990_000
    assert written["write"]["cached"] == 0
    assert written["reasons"] == {"end of file within a block": written["write"]["uncached"]}
    assert written["requests"]["sync"] == 1
    with dio.open(path) as file:
        assert len(file.read()) == 3_000_001
        read = file.receipt()
    assert read["resident_pages"] == written["resident_pages"] == 0
    assert sum(read["read"].values()) == 3_000_001
    assert read["reads_go"] == "direct" and read["reason"] is None


def test_direct_is_refused_where_it_would_be_buffered(on_tmpfs):
    with pytest.raises(OSError, match="another file system") as caught:
        dio.open(on_tmpfs / "file", "wb", direct=True)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert "another file system" in caught.value.cure
    with dio.open(on_tmpfs / "file", "wb") as file:
        file.write(b"x" * 10_000)
        receipt = file.receipt()
    assert (
        receipt["writes_go"] == "uncached" and receipt["reason"] == "file system has no direct I/O"
    )


def test_direct_is_accepted_where_it_is(here):
    with dio.open(here / "file", "w+b", direct=True) as file:
        file.write(b"x" * 100_001)
        file.seek(0)
        assert file.read() == b"x" * 100_001
        assert file.direct is True


def test_cached_stays_cached(here):
    with dio.open(here / "file", "wb", direct=False) as file:
        file.write(b"x" * 100_000)
        receipt = file.receipt()
    assert receipt["write"]["cached"] == 100_000 and receipt["resident_pages"] > 0


def test_errors_say_what_where_and_how_to_cure(here):
    with pytest.raises(FileNotFoundError) as caught:
        dio.open(here / "absent")
    error = caught.value
    assert (error.errno, error.filename) == (errno.ENOENT, str(here / "absent"))
    with pytest.raises(IsADirectoryError):
        dio.open(here, "wb")
    (here / "file").write_bytes(b"1")
    with (
        dio.open(here / "file", "r+b") as file,
        pytest.raises(OSError, match="at byte 9223372036854775807") as caught,
    ):
        file.write_at(b"22", 2**63 - 1)
    assert caught.value.errno == errno.EFBIG and caught.value.offset == 2**63 - 1
    for direct in ("yes", None, 2):
        with pytest.raises(ValueError, match="direct must be"):
            dio.open(here / "file", direct=direct)


def test_a_file_that_could_not_be_opened_is_forgotten_silently(here, monkeypatch):
    seen = []
    monkeypatch.setattr("sys.unraisablehook", seen.append)
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            dio.open(here / "absent", "r+b")
    gc.collect()
    assert seen == []


def test_a_pipe_is_refused(here):
    os.mkfifo(here / "pipe")
    keep = os.open(here / "pipe", os.O_RDWR)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            dio.open(here / "pipe")
    finally:
        os.close(keep)


@pytest.mark.parametrize(
    "mode,buffering", [("rb", -1), ("rb", 0), ("wb", -1), ("w+b", -1), ("wt", -1)]
)
def test_pickling_and_copying_are_refused(here, mode, buffering):
    (here / "file").write_bytes(b"x")
    with dio.open(here / "file", mode, buffering) as file:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="send its name"):
                attempt(file)


def test_there_is_no_descriptor(here):
    (here / "file").write_bytes(b"x")
    with (
        dio.open(here / "file") as file,
        pytest.raises(io.UnsupportedOperation, match="no descriptor"),
    ):
        file.fileno()


def test_closing_twice_and_a_forgotten_file(here):
    file = dio.open(here / "file", "wb")
    file.write(b"not lost")
    file.close()
    file.close()
    file = dio.open(here / "other", "wb")
    file.write(b"not lost")
    del file
    assert (here / "file").read_bytes() == (here / "other").read_bytes() == b"not lost"


def test_a_second_handle_never_waits_for_the_first(here):
    """Blocks behind one handle are in flight while another one of the same thread reads, writes and
    resizes.
    """
    block = os.urandom(1 << 20)
    with dio.open(here / "file", "wb") as first, dio.open(here / "file", "r+b", 0) as second:
        for number in range(8):
            started = time.monotonic()
            first.write(block)
            first.write(block)
            second.seek(0)
            assert second.read(100) == block[:100]
            second.write_at(b"12345", number * 7)
            second.write_at(block[number * 7 : number * 7 + 5], number * 7)
            second.truncate(second.size() + 1)
            second.truncate(second.size() - 1)
            assert time.monotonic() - started < 5
        first.flush()
        assert second.size() == 16 << 20
        assert second.read_at(16 << 20, 0) == block * 16


def test_what_is_flushed_is_seen_by_others(here):
    with dio.open(here / "file", "w+b") as file:
        for number in range(20):
            file.write(b"%d\n" % number)
            file.flush()
            assert (here / "file").read_bytes().splitlines()[-1] == b"%d" % number


def test_a_growing_file_is_followed(here):
    with open(here / "log", "ab", 0) as log, dio.open(here / "log") as reader:
        for number in range(200):
            line = b"line %d %s\n" % (number, b"x" * (number * 37 % 5000))
            log.write(line)
            assert reader.read() == line
            assert reader.read() == b""


def test_what_others_wrote_is_seen_after_seeking(here):
    (here / "file").write_bytes(b"a" * 1_000_000)
    with (
        dio.open(here / "file", buffering=0) as raw,
        dio.open(here / "file") as file,
        open(here / "file", "r+b", 0) as other,
    ):
        assert file.read(10) == raw.read(10) == b"a" * 10
        other.write(b"b" * 1_000_000)
        os.fsync(other.fileno())
        file.seek(500_000)
        assert file.read(10) == b"b" * 10
        assert raw.read(10) == b"b" * 10


def test_threads_share_a_file(here):
    data = os.urandom(4 << 20)
    (here / "file").write_bytes(data)
    wrong = []
    with dio.open(here / "file", "r+b") as file:

        def work(number):
            memory = bytearray(10_007)
            for round in range(60):
                offset = (number * 1_000_003 + round * 77_777) % (len(data) - len(memory))
                file.readinto_at(memory, offset)
                if memory != data[offset : offset + len(memory)]:
                    wrong.append((number, round))
                file.write_at(data[offset : offset + 999], offset)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert (here / "file").read_bytes() == data


def test_the_lock_of_the_interpreter_is_released(here):
    (here / "file").write_bytes(bytes(64 << 20))
    ticks, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    memory = bytearray(64 << 20)
    with dio.open(here / "file", buffering=0) as file:
        before = ticks[0]
        file.readinto(memory)
        assert ticks[0] > before
    stop.set()
    thread.join()


def test_durable_writes(here):
    with dio.open(here / "file", "wb", 0, durable=True) as file:
        file.write(b"x" * 4096)
    assert (here / "file").read_bytes() == b"x" * 4096


MODES = ["auto", "concurrent", "uncached", False]


@pytest.mark.parametrize("direct", MODES)
def test_seeking_away_and_back_shows_what_others_wrote(everywhere, direct):
    path = everywhere / "file"
    path.write_bytes(b"a" * (4 << 20))
    with dio.open(path, direct=direct) as file:
        for _ in range(16):
            file.read(64 << 10)
        position = file.tell()
        for letter in (b"b", b"c"):
            with open(path, "r+b") as other:
                other.write(letter * (4 << 20))
            file.seek(0, 2)
            file.seek(0)
            file.seek(position)
            assert file.read(5) == file.read_at(5, position) == letter * 5
            file.seek(position)


@pytest.mark.parametrize("direct", MODES)
def test_seeking_shows_what_others_wrote_at_the_same_time(everywhere, direct):
    """The times of a file advance in steps of some milliseconds."""
    path = everywhere / "file"
    for _ in range(50):
        path.write_bytes(b"a" * 200_000)
        with dio.open(path, direct=direct) as file:
            file.read(10)
            with open(path, "r+b") as other:
                other.write(b"b" * 200_000)
            file.seek(0, 2)
            file.seek(100_000)
            assert file.read(1) == b"b"


@pytest.mark.parametrize("direct", MODES)
def test_seeking_shows_what_others_wrote_through_a_mapping(everywhere, direct):
    path, offset = everywhere / "file", 600_000
    path.write_bytes(b"a" * (2 << 20))
    time.sleep(0.05)
    with open(path, "r+b") as other, mmap.mmap(other.fileno(), 0) as mapping:
        mapping[offset : offset + 1] = b"b"
        time.sleep(0.05)
        with dio.open(path, direct=direct) as file:
            for _ in range(16):
                file.read(32 << 10)
            # The page is dirty already, unless reading has written it back: the times of the file
            # stay.
            mapping[offset + 1 : offset + 2] = b"c"
            file.seek(0, 2)
            file.seek(offset)
            assert file.read(3) == b"bca"


def test_sizes_that_cannot_be(here):
    (here / "file").write_bytes(b"x")
    for buffering in (-1, 0):
        with dio.open(here / "file", "r+b", buffering) as file:
            for size in (1 << 63, 1 << 64):
                with pytest.raises(OverflowError):
                    file.read_at(size, 0)
            with pytest.raises(MemoryError):
                file.read_at((1 << 63) - 100, 0)
            with pytest.raises(OSError) as caught:
                file.truncate(-1)
            assert caught.value.errno == errno.EINVAL and file.size() == 1
    with pytest.raises(IsADirectoryError):
        dio.open(here)
