"""The calls that wait, for asyncio: none of them blocks the loop.

Each runs in a thread of a pool of its own. A task that is cancelled stops its call: nothing more is
begun, and what is in flight is waited for, because the kernel still fills the buffers.

    await dio.aio.read_ranges([(file, 0, buffer)])
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os

import dio

from . import _dio

# Calls that run at the same time. Each keeps many requests in flight, so few are needed.
_THREADS = 16
_pool: tuple[int, concurrent.futures.ThreadPoolExecutor] | None = None


def _executor():
    global _pool
    # The child of a fork has no threads of its parent's pool.
    if _pool is None or _pool[0] != os.getpid():
        _pool = os.getpid(), concurrent.futures.ThreadPoolExecutor(_THREADS, "dio-aio")
    return _pool[1]


async def _run(call, *args, stop=None, **kwargs):
    future = asyncio.get_running_loop().run_in_executor(
        _executor(), functools.partial(call, *args, **kwargs)
    )
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if stop is not None:
            stop.stop()
        # The call must not use the caller's memory when this returns.
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue
        if not future.cancelled():
            future.exception()
        raise


async def read_ranges(ranges, into=None, *, depth=64):
    """`dio.read_ranges` without blocking the loop."""
    stop = _dio.Stop()
    return await _run(dio.read_ranges, ranges, into, depth=depth, _stop=stop, stop=stop)


async def write_ranges(ranges, *, depth=64):
    """`dio.write_ranges` without blocking the loop."""
    stop = _dio.Stop()
    return await _run(dio.write_ranges, ranges, depth=depth, _stop=stop, stop=stop)


async def readinto_at(file, buffer, offset):
    """`file.readinto_at` without blocking the loop."""
    return (await read_ranges([(file, offset, buffer)]))[0]


async def read_at(file, size, offset):
    """`file.read_at` without blocking the loop. The bytes are in aligned memory."""
    return (await read_ranges([(file, offset, size)]))[0]


async def write_at(file, data, offset):
    """`file.write_at` without blocking the loop."""
    await write_ranges([(file, offset, data)])
    return memoryview(data).nbytes


async def sync(file, *, all=False):
    """`file.sync` without blocking the loop."""
    return await _run(file.sync, all=all)


async def open(path, mode="rb", *args, **kwargs):
    """`dio.open` without blocking the loop. The file object is the same."""
    return await _run(dio.open, path, mode, *args, **kwargs)


async def close(file):
    """`file.close` without blocking the loop."""
    return await _run(file.close)


async def commit(log, lsn=None):
    """`log.commit` of a `dio.Wal` without blocking the loop or a thread."""
    if lsn is None:
        if not log.end:
            return
        lsn = log.end - 1
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def done(error):
        if future.cancelled():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def called(error):
        # The loop may have ended; then nobody waits.
        if not loop.is_closed():
            loop.call_soon_threadsafe(done, error)

    log.commit_later(lsn, called)
    await future
