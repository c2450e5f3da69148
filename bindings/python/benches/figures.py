"""Measures what a call costs from Python. Use a wheel that is built with optimization, on an idle machine:

    pip install ./python && python bindings/python/benches/figures.py

Prints minima: other programs only ever add to a time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import millstream as ms
import numpy as np
from millstream import ir

# Fewer than a device's mailbox holds, so that no launch waits for room.
BURST = 100
ROUNDS = 300
MIB = 1 << 20


@ms.kernel
def saxpy(x: ms.Read[ms.f32], y: ms.Read[ms.f32], z: ms.Update[ms.f32], a: ms.f32, n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        z[i] = a * x[i] + y[i]


def least(call: Callable[[], object], after: Callable[[], object], times: int = BURST, rounds: int = ROUNDS) -> float:
    """Returns the least time of a call in nanoseconds. Calls `after` between rounds, without its time."""
    found = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(times):
            call()
        found = min(found, (time.perf_counter_ns() - start) / times)
        after()
    return found


def calls(device: ms.Device) -> None:
    """Launches beside an empty method call."""
    stream = device.stream()
    prepared = device.kernel(saxpy)
    x, y, z = (stream.zeros(64, ms.f32) for _ in range(3))
    done = stream.sync()
    done.wait()

    def sync() -> None:
        stream.sync().wait()

    empty = least(done.cancel, sync)
    launch = least(lambda: stream.launch(prepared, 1, x, y, z, 2.0, 64), sync)
    nothing = least(lambda: done.cancel(), sync)
    print(f"empty method call                        {empty:8.0f} ns")
    print(f"launch, 3 buffers and 2 numbers          {launch - (nothing - empty):8.0f} ns")
    print(f"launch and wait for the stream           {least(lambda: (stream.launch(prepared, 1, x, y, z, 2.0, 64), sync()), sync, 20):8.0f} ns")
    print(f"read of 8 bytes, and wait                {least(lambda: stream.read(x[:2]).wait(), sync, 20):8.0f} ns")


def copies(device: ms.Device) -> None:
    """Arrays there and back, beside a copy by NumPy."""
    stream = device.stream()
    for mib in (1, 16):
        data, out = np.ones(mib * MIB // 4, np.float32), np.ones(mib * MIB // 4, np.float32)
        buffer = stream.create(data)

        def write(copy: bool) -> None:
            stream.write(buffer, data, copy=copy)
            stream.sync().wait()

        def nothing() -> None:
            pass

        rounds = 60 // mib + 10
        memcpy = least(lambda: np.copyto(out, data), nothing, 1, rounds) / 1000
        copied = least(lambda: write(True), nothing, 1, rounds) / 1000
        in_place = least(lambda: write(False), nothing, 1, rounds) / 1000
        back = least(lambda: stream.read(buffer, out=out).wait(), nothing, 1, rounds) / 1000
        fresh = least(lambda: stream.read(buffer).wait(), nothing, 1, rounds) / 1000
        print(
            f"{mib:2} MiB: copyto {memcpy:.0f} us, write {copied:.0f}, write(copy=False) {in_place:.0f}, "
            f"read(out=) {back:.0f}, read {fresh:.0f}"
        )


def awaits(device: ms.Device) -> None:
    """Awaited answers, alone and 64 at once."""

    async def main() -> None:
        stream = device.stream()
        buffer = stream.zeros(64, ms.f32)
        for number in (1, 64):
            found = float("inf")
            for _ in range(200):
                start = time.perf_counter()
                await asyncio.gather(*[stream.read(buffer) for _ in range(number)])
                found = min(found, (time.perf_counter() - start) / number)
            print(f"await of {number:2} reads at once                {found * 1e9:8.0f} ns each")

    asyncio.run(main())


def throughput(device: ms.Device) -> None:
    """Launches of threads that start together, with back-pressure, from the first begin to the last end. A launch of no
    cubes occupies the device for less time than it takes to submit, so that the threads are the limit."""
    prepared = device.kernel(saxpy)
    for count in (1, 2, 8):
        best = 0.0
        for _ in range(5):
            total = 400_000
            start = threading.Barrier(count)
            times: list[float] = []

            def run(launches: int = total // count, start: threading.Barrier = start, times: list[float] = times) -> None:
                stream = device.stream()
                x, y, z = (stream.zeros(64, ms.f32) for _ in range(3))
                start.wait()
                times.append(time.perf_counter())
                for _ in range(launches):
                    stream.launch(prepared, 0, x, y, z, 2.0, 64)
                times.append(time.perf_counter())

            threads = [threading.Thread(target=run) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            best = max(best, total / (max(times) - min(times)))
            device.sync().wait()
        print(f"launches of {count} threads                    {best / 1e6:8.2f} M/s")


if __name__ == "__main__":
    print(sys.version.split()[0])
    with ms.Device("cpu") as opened:
        calls(opened)
        copies(opened)
        awaits(opened)
        throughput(opened)
