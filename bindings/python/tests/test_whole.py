"""Calls on whole files: copies, digests, pages, probes, the log, striped files."""

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
import threading

import dio
import dio.aio
import pytest


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 3_000_000])
def test_a_copy_has_the_same_bytes_and_leaves_no_pages(everywhere, size):
    source, target = everywhere / "source", everywhere / "target"
    source.write_bytes(os.urandom(size))
    source.chmod(0o640)
    target.write_bytes(b"old")
    receipt = dio.copy(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert receipt["bytes"] == size
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in everywhere.iterdir()) == ["source", "target"]


def test_a_copy_keeps_holes_and_replaces_what_a_link_leads_to(here):
    with open(here / "sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"x" * 8192)
    (here / "real").write_bytes(b"old")
    (here / "link").symlink_to("real")
    receipt = dio.copy(here / "sparse", here / "link")
    assert receipt["holes"] >= 60 << 20
    assert (here / "link").is_symlink() and (here / "real").stat().st_size == 64 << 20
    assert (here / "real").stat().st_blocks < 1000
    with dio.open(here / "real") as file:
        file.seek(32 << 20)
        assert file.read(8193) == b"x" * 8192 + b"\0"
        assert dio.cache(here / "real").resident == 0


def test_a_copy_that_fails_leaves_the_target(here):
    (here / "target").write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        dio.copy(here / "absent", here / "target")
    with pytest.raises(IsADirectoryError, match="name the file"):
        dio.copy(here / "target", here)
    assert (here / "target").read_bytes() == b"old"
    assert [path.name for path in here.iterdir()] == ["target"]


def test_targets_of_a_copy_that_are_no_file(here):
    (here / "s").write_bytes(b"source")
    (here / "d").mkdir()
    os.mkfifo(here / "fifo")
    for name, to in (("dangling", "nowhere"), ("loop", "loop"), ("linkdir", "d")):
        (here / name).symlink_to(to)
    before = sorted(os.listdir(here))
    for target, number in (
        ("dangling", errno.ENOENT),
        ("loop", errno.ELOOP),
        ("linkdir", errno.EISDIR),
        ("d", errno.EISDIR),
        ("d/", errno.EISDIR),
        ("d/..", errno.EISDIR),
        ("new/", errno.ENOTDIR),
        ("s/", errno.ENOTDIR),
        ("fifo", errno.EINVAL),
        ("absent/new", errno.ENOENT),
    ):
        with pytest.raises(OSError) as caught:
            dio.copy(here / "s", f"{here}/{target}")
        assert caught.value.errno == number, (target, caught.value)
    assert sorted(os.listdir(here)) == before and not os.listdir(here / "d")
    # The longest name that a file can have.
    dio.copy(here / "s", here / ("n" * 255))
    assert (here / ("n" * 255)).read_bytes() == b"source"


def test_a_copy_takes_no_name_of_another_process(here):
    """Processes of several containers have the same numbers and share directories."""
    program = """if True:
        import dio, os, sys
        before = set(os.listdir("."))
        for _ in range(3):
            dio.copy("s", "t", durable=False)
        assert set(os.listdir(".")) == before | {"t"}
    """
    (here / "s").write_bytes(b"source")
    child = "import os\nfor n in range(3): open(f'.t.dio-{os.getpid()}-{n}', 'w').close()\n"
    run = subprocess.run(
        [sys.executable, "-c", child + program], cwd=here, capture_output=True, timeout=100
    )
    assert (run.returncode, run.stderr) == (0, b""), run.stderr.decode()


def test_digests_are_those_of_hashlib(here):
    paths = []
    for number, size in enumerate([0, 1, 5_000_001]):
        paths.append(here / str(number))
        paths[-1].write_bytes(os.urandom(size))
    known = [name for name in dio.DIGESTS if name in hashlib.algorithms_available]
    assert len(known) >= 6
    for path, found in zip(paths, dio.digest(paths, known)):
        assert found == {name: hashlib.new(name, path.read_bytes()).hexdigest() for name in known}
    assert dio.digest(paths[1]) == hashlib.sha256(paths[1].read_bytes()).hexdigest()
    (here / "abc").write_bytes(b"abc")
    assert dio.digest(here / "abc", ["blake3", "crc32c", "xxh3"]) == {
        "blake3": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        "crc32c": "364b3fb7",
        "xxh3": "78af5f94892f3950",
    }
    with pytest.raises(ValueError, match="one of md5"):
        dio.digest(paths, "md6")
    with pytest.raises(FileNotFoundError):
        dio.digest([*paths, here / "absent"])
    with dio.open(paths[2]) as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == dio.digest(paths[2])


def test_a_pipe_has_no_pages(here):
    os.mkfifo(here / "pipe")
    # It does not wait for a writer either.
    assert dio.cache(here / "pipe").pages == 0


def test_pages_that_came_since_are_dropped_and_others_stay(here):
    path = here / "file"
    with dio.open(path, "wb") as file:
        file.write(bytes(1 << 20))
        file.sync()
    with open(path, "rb", 0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        file.read(8192)
        cache = dio.cache(path)
        assert (cache.pages, cache.resident) == (256, 2)
        assert cache.runs() == [[(0, 8192)]]
        with cache:
            file.read()
            assert cache.resident == 256
        assert cache.resident == 2 == cache.resident_before
        assert cache.evict() == 2
        assert (cache.resident, cache.dirty) == (0, 0)


def test_a_probe_tells_what_is_direct(here, on_tmpfs):
    found = dio.probe(here)
    assert found["kind"] == "directory" and found["trials"]["read_direct"] is True
    assert found["geometry"]["write_align"] in (512, 4096)
    found = dio.probe(on_tmpfs)
    assert found["trials"]["read_direct"] is not True and found["reasons"]
    with pytest.raises(FileNotFoundError):
        dio.probe(here / "absent")


def test_a_log_keeps_what_was_committed(here):
    with dio.Wal(here / "log") as log:
        assert log.recovery["records"] == 0
        lsns = [log.append(b"record %d" % number) for number in range(100)]
        log.commit(lsns[-1])
        assert log.flushed > lsns[-1]
        assert list(log) == [(lsn, b"record %d" % number) for number, lsn in enumerate(lsns)]
        with pytest.raises(OSError, match="in use") as caught:
            dio.Wal(here / "log")
        assert caught.value.errno == errno.EBUSY
        log.truncate_before(lsns[50])
        assert [lsn for lsn, _ in log.records()] == lsns[50:]
        with pytest.raises(ValueError, match="truncated"):
            log.records(lsns[3])
    with pytest.raises(ValueError, match="closed"):
        log.append(b"x")
    with dio.Wal(here / "log", method="rwf_dsync") as log:
        assert log.recovery["ended"] and log.start == lsns[50]
    with pytest.raises(ValueError, match="method"):
        dio.Wal(here / "log", method="maybe")


def test_a_log_of_a_process_that_was_killed(here):
    program = """if True:
        import dio, os, signal, sys
        log = dio.Wal(sys.argv[1])
        for number in range(500):
            log.commit(log.append(b"%d" % number))
            print(number, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run(
        [sys.executable, "-c", program, here / "log"], capture_output=True, timeout=100
    )
    assert run.returncode == -9, run.stderr
    acknowledged = len(run.stdout.splitlines())
    with dio.Wal(here / "log") as log:
        assert [data for _, data in log][:acknowledged] == [
            b"%d" % number for number in range(acknowledged)
        ]
    assert acknowledged == 500


def test_many_threads_and_tasks_commit_to_a_log(here):
    with dio.Wal(here / "log") as log:

        def work(number):
            for round in range(20):
                log.commit(log.append(bytes([number, round])))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()

        async def task(number):
            for round in range(20):
                await dio.aio.commit(log, log.append(bytes([number, round])))

        async def main():
            await asyncio.gather(*(task(number) for number in range(100, 120)))
            await dio.aio.commit(log)
            with pytest.raises(ValueError, match="not appended"):
                await dio.aio.commit(log, log.end + 1000)

        asyncio.run(main())
        for thread in threads:
            thread.join()
        assert len(set(data for _, data in log)) == 28 * 20


def test_a_log_with_callbacks_outstanding_is_forgotten(here):
    log = dio.Wal(here / "log")
    called = []
    for _ in range(50):
        log.commit_later(log.append(b"x"), called.append)
    del log
    assert called == [None] * 50


def test_callbacks_use_a_log_that_is_being_closed(here):
    """A child, because what is tested for is a deadlock."""
    program = """if True:
        import dio, faulthandler, sys, threading, time
        faulthandler.dump_traceback_later(60, exit=True)
        said = []
        def says(call):
            try:
                said.append(call())
            except (RuntimeError, ValueError) as error:
                said.append(type(error).__name__)
        # Slow callbacks, so that the log is closed while they run.
        with dio.Wal(sys.argv[1] + "1") as log:
            log.commit_later(log.append(b"x"), lambda _: (time.sleep(.3), says(lambda: log.end)))
        assert said == ["ValueError"], said
        # Closing in a callback is refused, and the log goes on.
        log, done = dio.Wal(sys.argv[1] + "2"), threading.Event()
        log.commit_later(log.append(b"x"), lambda _: (says(log.close), done.set()))
        assert done.wait(50) and said.pop() == "RuntimeError"
        log.commit(log.append(b"y"))
        # A callback commits, and begins another one.
        done.clear()
        def again(_):
            log.commit(log.append(b"z"))
            log.commit_later(log.append(b"z"), lambda _: done.set())
        log.commit_later(log.append(b"x"), again)
        assert done.wait(50)
        # Callbacks in threads that commit, beside one that closes.
        def work():
            try:
                while True:
                    lsn = log.append(b"x")
                    log.commit_later(lsn, lambda _: says(lambda: log.append(b"y")))
                    log.commit(lsn)
            except ValueError:
                pass
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(.3)
        log.close()
        for thread in threads:
            thread.join()
        # The last reference is given up in a callback.
        done.clear()
        logs = [dio.Wal(sys.argv[1] + "3")]
        def forget(_):
            while sys.getrefcount(logs[0]) > 2:
                time.sleep(.01)
            logs.clear()
            done.set()
        logs[0].commit_later(logs[0].append(b"x"), forget)
        assert done.wait(50)
        for _ in range(1000):
            try:
                log = dio.Wal(sys.argv[1] + "3")
                break
            except OSError:
                time.sleep(.01)
        assert [data for _, data in log] == [b"x"]
    """
    run = subprocess.run(
        [sys.executable, "-c", program, here / "log"], capture_output=True, timeout=100
    )
    assert (run.returncode, run.stderr) == (0, b""), run.stderr.decode()


def test_striped_files_are_files(here):
    targets = [here / name for name in "abc"]
    for target in targets:
        target.mkdir()
    dio.stripe.create(here / "striped", targets, stripe=64 << 10)
    data = os.urandom(1_000_003)
    with dio.open(here / "striped", "w+b") as file:
        file.write(data)
        file.seek(77)
        assert file.read() == data[77:]
        assert file.size() == len(data) and file.geometry()["objects"] == 3
        memory = bytearray(300_000)
        assert (
            dio.read_ranges([(file, 100_000, memory)]) == [300_000]
            and memory == data[100_000:400_000]
        )
    found = dio.stripe.inspect(here / "striped")
    assert found["sound"] and found["size"] == len(data) and len(found["objects"]) == 3
    assert dio.stripe.inspect(found["objects"][0]["path"]) is None
    dio.copy(here / "striped", here / "plain")
    assert (here / "plain").read_bytes() == data
    assert dio.digest(here / "striped") == hashlib.sha256(data).hexdigest()
    # The first page of each object says to which file it belongs.
    assert dio.cache(here / "striped").resident <= 3
    with dio.open(here / "striped", "ab") as file:
        file.write(b"more")
        assert file.tell() == len(data) + 4
        # As a plain file that is appended to.
        for write in [
            lambda: file.write_at(b"x", 0),
            lambda: dio.write_ranges([(file, 0, b"x")]),
        ]:
            with pytest.raises(PermissionError, match="appending only"):
                write()
    dio.remove(here / "striped")
    assert [list(target.iterdir()) for target in targets] == [[], [], []]
    with pytest.raises(OSError):
        dio.stripe.create(here / "none", [])


@pytest.mark.parametrize(
    "name", ["/proc/version", "/proc/filesystems", "/sys/kernel/mm/transparent_hugepage/enabled"]
)
def test_files_that_the_kernel_makes_are_copied_to_their_end(everywhere, name):
    receipt = dio.copy(name, everywhere / "copy")
    with open(name, "rb") as file:
        assert (everywhere / "copy").read_bytes() == file.read() != b""
    assert receipt["bytes"] == (everywhere / "copy").stat().st_size and receipt["holes"] == 0


def test_a_log_whose_space_is_used_up_says_so(here):
    program = """if True:
        import errno, resource, sys, dio
        log = dio.Wal(sys.argv[1], segment=1 << 20)
        log.commit(log.append(b"x"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        seen = []
        for _ in range(2):
            try:
                for _ in range(1000):
                    log.commit(log.append(bytes(60_000)))
            except OSError as error:
                seen.append(error.errno)
        assert seen == [errno.EFBIG] * 2, seen
    """
    run = subprocess.run(
        [sys.executable, "-c", program, here / "log"], capture_output=True, text=True, timeout=100
    )
    assert (run.returncode, run.stderr) == (0, "")
