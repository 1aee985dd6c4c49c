"""Forks, threads, interpreters."""

import os
import resource
import subprocess
import sys
import threading
import warnings

import dio
import pytest

warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")


def in_child(work):
    """Runs `work` in the child of a fork, and returns what it returned, or the text of its
    exception.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            text = repr(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return text


@pytest.mark.skipif(os.getuid() != 0, reason="root's threads have no limit")
def test_digests_without_a_thread_are_an_error():
    def work():
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.setuid(65534)
        dio.digest("/etc/passwd")

    text = in_child(work)
    assert text.startswith("BlockingIOError: [Errno 11] cannot start a thread"), text


def test_the_child_of_a_fork_opens_files_of_its_own(here):
    data = os.urandom(3 << 20)
    (here / "file").write_bytes(data)
    parent = dio.open(here / "file", "r+b")
    writer = dio.open(here / "written", "wb")
    parent.read(100)
    writer.write(bytes(5 << 20))
    log = dio.Wal(here / "log")
    log.append(b"x")

    def work():
        with dio.open(here / "file", "r+b") as file:
            same = file.read() == data
            views = dio.read_ranges([(file, number * 512, 600) for number in range(1000)])
            same &= all(view == data[number * 512 :][:600] for number, view in enumerate(views))
            dio.write_ranges([(file, number * 4096, data[:4096]) for number in range(100)])
            same &= file.read_at(4096, 4096) == data[:4096]
            dio.write_ranges(
                [(file, number * 4096, data[number * 4096 :][:4096]) for number in range(100)]
            )
        dio.copy(here / "file", here / "copy")
        return same and (here / "copy").read_bytes() == data

    assert in_child(work) == "True"
    assert "opened before this process was forked" in in_child(lambda: parent.read_at(1, 0))
    assert "opened before this process was forked" in in_child(
        lambda: dio.read_ranges([(parent, 0, 10)])
    )
    assert "opened before this process was forked" in in_child(lambda: log.append(b"y"))
    # The child of a child, too.
    assert in_child(lambda: in_child(work)) == repr("True")
    # The parent's go on.
    assert parent.read() == data[100:]
    writer.write(b"end")
    writer.close()
    assert (here / "written").stat().st_size == (5 << 20) + 3
    log.commit()
    log.close()
    parent.close()


def test_forgetting_the_parents_files_in_a_child_disturbs_nothing(here):
    files = [dio.open(here / "file", "w+b")]
    files[0].write(bytes(8 << 20))
    logs = [dio.Wal(here / "log")]
    logs[0].append(b"record")

    def work():
        import gc

        files.clear()
        logs.clear()
        gc.collect()
        return "done"

    assert in_child(work) == "'done'"
    logs[0].commit()
    files[0].close()
    assert (here / "file").stat().st_size == 8 << 20


def test_a_fork_beside_busy_threads(here):
    (here / "file").write_bytes(os.urandom(1 << 20))
    stop = threading.Event()

    def busy():
        with dio.open(here / "file") as file:
            while not stop.is_set():
                dio.read_ranges([(file, number * 4096, 4096) for number in range(64)])

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert (
                in_child(lambda: dio.open(here / "file").read() == (here / "file").read_bytes())
                == "True"
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_multiprocessing_workers_by_fork_and_by_spawn(here):
    (here / "file").write_bytes(os.urandom(100_000))
    program = """if True:
        import multiprocessing, sys, dio
        def work(path):
            return dio.digest(path)
        if __name__ == "__main__":
            dio.digest(sys.argv[1])
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    assert len(set(pool.map(work, [sys.argv[1]] * 8))) == 1
            print("good")
    """
    (here / "program.py").write_text(program.replace("if True:\n", "if True:\n", 1))
    run = subprocess.run(
        [sys.executable, here / "program.py", here / "file"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    # The module of a program below `if True` is imported by spawned workers as any other.
    assert run.stdout == "good\n", run.stderr


def test_subinterpreters_are_refused():
    try:
        import _interpreters as interpreters
    except ImportError:
        interpreters = pytest.importorskip("_xxsubinterpreters")
    number = interpreters.create()
    program = """if True:
        try:
            import dio
        except ImportError as error:
            assert "subinterpreters" in str(error), error
        else:
            raise AssertionError("dio was imported")
    """
    outcome = interpreters.run_string(number, program)
    assert outcome is None, outcome
    interpreters.destroy(number)


def test_the_end_of_a_program_with_open_files(here):
    program = """if True:
        import sys, dio
        file = dio.open(sys.argv[1], "wb")
        file.write(bytes(3 << 20))
        reader = dio.open(sys.argv[1] + "2", "w+b")
        reader.write(b"x")
        log = dio.Wal(sys.argv[1] + ".log")
        log.commit_later(log.append(b"x"), print)
    """
    run = subprocess.run(
        [sys.executable, "-c", program, here / "file"], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert (here / "file").stat().st_size == 3 << 20 and (here / "file2").read_bytes() == b"x"


# Nothing longer than 1 MiB can be written, as on a disk that is full.
LIMITED = """if True:
    import os, resource, sys, dio
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
"""


@pytest.mark.parametrize("mode", ["wb", "w+b", "w"])
def test_the_end_of_a_program_whose_file_cannot_be_written(here, mode):
    # What cannot be written is less than a request, and tried when the program ends. A failure of
    # an earlier request may be raised by the call of `write` itself.
    program = f"""{LIMITED}
    file = dio.open(sys.argv[1], {mode!r})
    file.write({"'x'" if mode == "w" else "b'x'"} * ((1 << 20) + 100))
    """
    for extra in ([], ["-X", "dev"]):
        command = [sys.executable, *extra, "-c", program, here / "file"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and "panick" not in run.stderr, run.stderr
        if extra:
            assert "OSError: [Errno 27]" in run.stderr and "File too large" in run.stderr


@pytest.mark.parametrize("mode", ["wb", "w+b", "w", "ab"])
def test_a_child_that_ends_with_the_parents_files_is_silent(here, mode):
    program = f"""if True:
        import os, sys, dio
        file, log = dio.open(sys.argv[1], {mode!r}), dio.Wal(sys.argv[1] + ".log")
        file.write({"'x'" if mode == "w" else "b'x'"} * 100)
        log.append(b"x")
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert os.path.getsize(sys.argv[1]) == 0
            file.close()
    """
    command = [sys.executable, "-X", "dev", "-c", program, here / "file"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert (here / "file").read_bytes() == b"x" * 100


def test_closing_the_parents_file_in_a_child_says_so(here):
    with dio.open(here / "file", "wb") as file:
        file.write(b"x")
        assert "opened before this process was forked" in in_child(file.close)
        assert "opened before this process was forked" in in_child(file.flush)
    assert (here / "file").read_bytes() == b"x"


def test_a_child_forgets_a_file_that_a_thread_of_the_parent_uses(here):
    """The lock of Python's buffer is held by a thread that the child does not have."""
    program = """if True:
        import os, sys, threading, dio
        file, stop = dio.open(sys.argv[1], "w+b"), threading.Event()

        def work():
            while not stop.is_set():
                file.write(bytes(1 << 20))
                file.seek(0)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                del file
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
    """
    run = subprocess.run(
        [sys.executable, "-c", program, here / "file"], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
