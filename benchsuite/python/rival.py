"""One run of one way to read or write from Python. Prints what it took as JSON.

    rival.py read WAY FILE            all of a file, in order, 1 MiB at a time where the way lets
    choose rival.py random WAY FILE          100,000 reads of 4 KiB, anywhere rival.py write WAY
    FILE BYTES     a new file, 1 MiB at a time, durable in the end rival.py tensors WAY FILE
    all tensors of a safetensors file rival.py small WAY FILE           200,000 reads of 4 KiB of a
    cached file, one after the other

The time is that of the work alone: not that of starting Python and importing numpy.
"""

import json
import mmap
import os
import random
import sys
import threading
import time

MIB = 1 << 20
RANDOM_READS = 100_000
SMALL_READS = 200_000
DEPTH = 32


def direct(path, flags):
    return os.open(path, flags | os.O_DIRECT, 0o644)


def offsets(path):
    """The same for each way."""
    choose = random.Random(1)
    blocks = os.stat(path).st_size // 4096
    return [choose.randrange(blocks) * 4096 for _ in range(RANDOM_READS)]


def read(way, path):
    size = os.stat(path).st_size
    if way == "dio":
        import dio

        memory = dio.alloc(MIB)
        with begin(), dio.open(path, direct=True) as file:
            while file.readinto(memory):
                pass
    elif way == "dio-bytearray":
        import dio

        memory = bytearray(MIB)
        with begin(), dio.open(path, direct=True) as file:
            while file.readinto(memory):
                pass
    elif way == "dio-numpy":
        import dio.numpy

        with begin():
            assert dio.numpy.fromfile(path, "u1").nbytes == size
    elif way == "readinto":
        memory = bytearray(MIB)
        with begin(), open(path, "rb", 0) as file:
            while file.readinto(memory):
                pass
    elif way == "numpy":
        import numpy

        with begin():
            assert numpy.fromfile(path, "u1").nbytes == size
    elif way == "memmap":
        import numpy

        memory = numpy.empty(MIB, "u1")
        with begin():
            mapped = numpy.memmap(path, "u1", "r")
            for start in range(0, size, MIB):
                part = mapped[start : start + MIB]
                memory[: len(part)] = part
    elif way == "preadv":
        memory = mmap.mmap(-1, MIB)
        with begin():
            file, at = direct(path, os.O_RDONLY), 0
            while count := os.preadv(file, [memory], at):
                at += count
    elif way == "directio":
        import directio

        with begin():
            file = direct(path, os.O_RDONLY)
            while directio.read(file, MIB):
                pass
    else:
        raise SystemExit(f"no such way: {way}")


def random_reads(way, path):
    places = offsets(path)
    if way in ("dio", "dio-used", "dio-bytearray"):
        import dio

        # An array of bytes has been filled with zeros; memory of dio is new until it is stored
        # into.
        size = 4096 * RANDOM_READS
        memory = bytearray(size) if way == "dio-bytearray" else dio.alloc(size)
        if way == "dio-used":
            memoryview(memory)[:] = bytes(size)
        with begin(), dio.open(path, buffering=0, direct=True) as file:
            counts = dio.read_ranges([(file, place, 4096) for place in places], memory, depth=DEPTH)
        assert sum(counts) == 4096 * RANDOM_READS
    elif way == "preadv":
        memory = mmap.mmap(-1, 4096)
        with begin():
            file = direct(path, os.O_RDONLY)
            for place in places[: RANDOM_READS // 10]:
                os.preadv(file, [memory], place)
        return RANDOM_READS // 10
    elif way == "preadv-threads":
        with begin():
            file = direct(path, os.O_RDONLY)

            def work(part):
                memory = mmap.mmap(-1, 4096)
                for place in part:
                    os.preadv(file, [memory], place)

            threads = [
                threading.Thread(target=work, args=(places[number::DEPTH],))
                for number in range(DEPTH)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    elif way == "pread":
        with begin():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            for place in places[: RANDOM_READS // 10]:
                os.pread(file, 4096, place)
        return RANDOM_READS // 10
    else:
        raise SystemExit(f"no such way: {way}")
    return RANDOM_READS


def write(way, path, size):
    data = os.urandom(MIB)
    if way == "dio":
        import dio

        memory = dio.alloc(MIB)
        memoryview(memory)[:] = data
        with begin(), dio.open(path, "wb", direct=True) as file:
            for _ in range(size // MIB):
                file.write(memory)
            file.sync()
    elif way == "write":
        with begin(), open(path, "wb", 0) as file:
            for _ in range(size // MIB):
                file.write(data)
            os.fsync(file.fileno())
    elif way == "pwritev":
        memory = mmap.mmap(-1, MIB)
        memory[:] = data
        with begin():
            file = direct(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for at in range(0, size, MIB):
                os.pwritev(file, [memory], at)
            os.fsync(file)
    elif way == "directio":
        import directio

        with begin():
            file = direct(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for _ in range(size // MIB):
                directio.write(file, data)
            os.fsync(file)
    else:
        raise SystemExit(f"no such way: {way}")


def make_tensors(path, size):
    import numpy
    import safetensors.numpy

    choose = numpy.random.default_rng(1)
    # Sizes as in a transformer: a few large ones, and small ones between them.
    layers = max(size // (64 * MIB), 1)
    tensors = {}
    for layer in range(layers):
        tensors[f"layer.{layer:03}.weight"] = choose.integers(0, 1 << 30, (4096, 4000), "i4").view(
            "f4"
        )
        tensors[f"layer.{layer:03}.bias"] = choose.random(4096, "f4")
        tensors[f"layer.{layer:03}.norm"] = choose.random(1000, "f4")
    safetensors.numpy.save_file(tensors, path)


def tensors(way, path):
    if way == "dio":
        import dio.safetensors

        with begin():
            loaded = dio.safetensors.load_file(path, direct=True)
    elif way == "safetensors":
        import safetensors.numpy

        with begin():
            loaded = safetensors.numpy.load_file(path)
            # What is only mapped has not been read.
            for tensor in loaded.values():
                tensor.reshape(-1)[:: 4096 // tensor.itemsize].sum()
    else:
        raise SystemExit(f"no such way: {way}")
    assert loaded


def small(way, path):
    with open(path, "rb") as file:
        file.read(1 << 20)
    places = [place % (1 << 20) for place in range(0, SMALL_READS * 4096, 4096)]
    if way in ("dio", "dio-direct"):
        import dio

        memory = dio.alloc(4096)
        with dio.open(path, buffering=0, direct=way == "dio-direct") as file, begin():
            call = file.readinto_at
            for place in places if way == "dio" else places[: SMALL_READS // 10]:
                call(memory, place)
        return len(places) if way == "dio" else SMALL_READS // 10
    if way in ("pread", "preadv", "preadv-direct"):
        memory = [mmap.mmap(-1, 4096)]
        file = direct(path, os.O_RDONLY) if way == "preadv-direct" else os.open(path, os.O_RDONLY)
        places = places[: SMALL_READS // 10] if way == "preadv-direct" else places
        with begin():
            if way == "pread":
                for place in places:
                    os.pread(file, 4096, place)
            else:
                for place in places:
                    os.preadv(file, memory, place)
        return len(places)
    raise SystemExit(f"no such way: {way}")


class begin:
    """Measures what is done within it."""

    wall = cpu = 0.0

    def __enter__(self):
        begin.wall, begin.cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_):
        begin.wall, begin.cpu = time.perf_counter() - begin.wall, time.process_time() - begin.cpu


def main():
    what, way, path, *more = sys.argv[1:]
    requests = 0
    if what == "read":
        read(way, path)
    elif what == "random":
        requests = random_reads(way, path)
    elif what == "write":
        write(way, path, int(more[0]))
    elif what == "make-tensors":
        make_tensors(path, int(more[0]))
    elif what == "tensors":
        tensors(way, path)
    elif what == "small":
        requests = small(way, path)
    else:
        raise SystemExit(__doc__)
    print(json.dumps({"wall_seconds": begin.wall, "cpu_seconds": begin.cpu, "requests": requests}))


if __name__ == "__main__":
    main()
