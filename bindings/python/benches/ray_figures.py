"""Measures requests through Ray beside the same requests in one process, and where their time goes.

    pip install './python[ray]' && python bindings/python/benches/ray_figures.py

The service uploads an array, copies it on the device and reads it, on the CPU backend: little work, so that the share of
Ray is visible. The ways take turns, since other programs use the machine as well. Prints tables of Markdown.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import millstream as ms
import numpy as np
from millstream.ray import Pool
from millstream.ray._pool import SHARED_BYTES

ray: Any = importlib.import_module("ray")

ROUNDS = 10
# One at a time, and as many as keep every process busy without a refusal.
TASKS = (1, 16)
SIZES = {"1 KiB": 256, "4 MiB": 1 << 20}
REQUESTS = {("1 KiB", 1): 40, ("1 KiB", 16): 160, ("4 MiB", 1): 8, ("4 MiB", 16): 32}

Call = Callable[[Any], Awaitable[Any]]


class Copier:
    """The service."""

    def __init__(self, device: ms.Device) -> None:
        self.device = device

    def begin(self, x: Any) -> ms.Pending[Any]:
        """Begins a request."""
        stream = self.device.stream()
        source, target = stream.create(x, copy=False), stream.empty(x.shape, ms.f32)
        stream.copy(source, target)
        return stream.read(target)

    async def copy(self, x: Any) -> Any:
        """Copies an array on the device."""
        return await self.begin(x)

    async def timed(self, x: Any) -> tuple[Any, float]:
        """Copies an array on the device, and returns the seconds that this took here."""
        start = time.perf_counter()
        found = await self.copy(x)
        return found, time.perf_counter() - start

    async def nothing(self) -> None:
        """Returns at once."""


class Bare:
    """An actor without millstream."""

    async def nothing(self) -> None:
        """Returns at once."""

    async def echo(self, x: Any) -> Any:
        """Returns an array of the same size."""
        return x + x


async def run(call: Call, x: Any, tasks: int, requests: int) -> tuple[float, list[float]]:
    """Returns requests a second, and the seconds of each."""
    latencies: list[float] = []
    numbers = iter(range(requests))

    async def work() -> None:
        for _ in numbers:
            start = time.perf_counter()
            await call(x)
            latencies.append(time.perf_counter() - start)

    begin = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return requests / (time.perf_counter() - begin), latencies


async def compare(ways: dict[str, Call]) -> None:
    """Prints throughput and latencies of all ways."""
    print("| array | tasks | way | requests/s | median, us | p99, us |\n| --- | ---: | --- | ---: | ---: | ---: |")
    for (size, tasks), requests in REQUESTS.items():
        x = np.ones(SIZES[size], np.float32)
        rates: dict[str, list[float]] = {name: [] for name in ways}
        latencies: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, call in ways.items():
                rate, found = await run(call, x, tasks, requests)
                rates[name].append(rate)
                latencies[name].extend(found)
        for name in ways:
            median = statistics.median(latencies[name]) * 1e6
            p99 = statistics.quantiles(latencies[name], n=100)[98] * 1e6
            print(f"| {size} | {tasks} | {name} | {statistics.median(rates[name]):,.0f} | {median:,.0f} | {p99:,.0f} |")


def median_us(call: Callable[[], object], times: int) -> float:
    """Returns the median time of a call in microseconds."""
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1e6


def echo(bare: Any, x: Any) -> Any:
    """Calls an actor without millstream."""
    return ray.get(bare.echo.remote(x))


def run_local(local: Copier, x: Any) -> Any:
    """Runs the service in this process."""
    return local.begin(x).wait()


def breakdown(pool: Pool, bare: Any, local: Copier) -> None:
    """Prints where the time of one request goes, with nothing else in flight."""
    print("\n| part of a request, alone, medians in us | 1 KiB | 4 MiB |\n| --- | ---: | ---: |")
    rows: dict[str, list[float]] = {}
    for size, times in (("1 KiB", 300), ("4 MiB", 60)):
        x = np.ones(SIZES[size], np.float32)
        whole: list[float] = []
        sent: list[float] = []
        inside: list[float] = []
        for _ in range(times):
            start = time.perf_counter()
            answer = pool.request("timed", x)
            sent.append(time.perf_counter() - start)
            inside.append(answer.wait()[1])
            whole.append(time.perf_counter() - start)
        puts = median_us(partial(ray.put, x), times)
        figures = {
            "whole request": statistics.median(whole) * 1e6,
            "`Pool.request`: arguments are stored, the call is sent": statistics.median(sent) * 1e6,
            "of this, `ray.put` of the array": puts if x.nbytes > SHARED_BYTES else 0.0,
            "service in the actor: upload, copy, read": statistics.median(inside) * 1e6,
            "the rest: Ray's messages, wakes, and storing the result": (
                statistics.median(w - s - i for w, s, i in zip(whole, sent, inside, strict=True)) * 1e6
            ),
            "for comparison: empty request of the pool": median_us(lambda: pool.request("nothing").wait(), times),
            "empty call of an actor without millstream": median_us(lambda: ray.get(bare.nothing.remote()), times),
            "call with such an array, which returns another": median_us(partial(echo, bare, x), times),
            "service in one process": median_us(partial(run_local, local, x), times),
        }
        for name, value in figures.items():
            rows.setdefault(name, []).append(value)
    for name, values in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:,.0f}" for value in values) + " |")


def main() -> None:
    """Measures all."""
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=500 << 20, log_to_driver=False, logging_level="warning"
    )
    bare: Any = ray.remote(max_concurrency=100, num_cpus=0)(Bare).remote()
    with (
        ms.Device("cpu") as device,
        Pool.start(Copier, actors=1, max_requests=32) as one,
        Pool.start(Copier, actors=2, max_requests=32) as two,
    ):
        one.wait_ready()
        two.wait_ready()
        local = Copier(device)
        ways: dict[str, Call] = {
            "one process, no Ray": local.copy,
            "Ray, 1 actor": lambda x: one.request("copy", x),
            "Ray, 2 actors": lambda x: two.request("copy", x),
            "Ray without millstream": lambda x: bare.echo.remote(x),
        }
        versions = f"ray {ray.__version__}, Python {platform.python_version()}"
        print(f"{versions}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        asyncio.run(compare(ways))
        breakdown(one, bare, local)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
