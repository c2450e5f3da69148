"""Awaiting answers on asyncio and trio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import millstream as ms
import numpy as np
import pytest
from millstream import ir


@ms.kernel
def add(x: ms.Update[ms.i64], value: ms.i64, n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        x[i] = x[i] + value


@ms.kernel(threads=1)
def slow(x: ms.Update[ms.i64], times: ms.i64) -> None:
    for i in ir.range(times):
        x[0] = x[0] + (i & 1)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


@pytest.mark.anyio
async def test_answers_are_awaited(device: ms.Device, stream: ms.Stream, anyio_backend: str) -> None:
    prepared = device.kernel(add)
    x = stream.zeros(100, ms.i64)
    for value in range(10):
        stream.launch(prepared, 1, x, value, 100)
        found = await stream.read(x)
        assert (found == sum(range(value + 1))).all()
    await stream.sync()
    assert (await device.metrics())["launches"] == 10


@pytest.mark.anyio
async def test_many_tasks_await_at_once(device: ms.Device, anyio_backend: str) -> None:
    prepared = device.kernel(add)
    results: dict[int, int] = {}

    async def request(number: int) -> None:
        stream = device.stream()
        x = stream.create(np.full(50, number))
        for _ in range(5):
            stream.launch(prepared, 1, x, 1, 50)
            results[number] = int((await stream.read(x))[49])

    async with anyio.create_task_group() as group:
        for number in range(64):
            group.start_soon(request, number)
    assert results == {number: number + 5 for number in range(64)}


@pytest.mark.anyio
async def test_an_awaited_failure_is_raised(anyio_backend: str) -> None:
    with ms.Device("sim", memory_limit=1 << 20) as device:
        stream = device.stream()
        kept = stream.zeros(150_000, ms.f32)
        with pytest.raises(ms.TaskOutOfMemory):
            await stream.read(stream.empty(150_000, ms.f32))
        assert kept.unique


@pytest.mark.anyio
async def test_cancelling_a_request_withdraws_what_has_not_begun(anyio_backend: str) -> None:
    with ms.Device("cpu", queues=1, max_in_flight=1) as device:
        long, prepared = device.kernel(slow), device.kernel(add)
        stream = device.stream()
        blocker, x = stream.zeros(1, ms.i64), stream.zeros(4, ms.i64)
        await stream.sync()
        stream.launch(long, 1, blocker, 400_000)
        request = stream.request()
        for _ in range(20):
            request.launch(prepared, 1, x, 1, 4)
        with anyio.move_on_after(0.01) as scope:
            await request.read(x)
        assert scope.cancelled_caught
        with pytest.raises(ms.TaskCancelled):
            await stream.read(x)
        # Other tasks of the stream go on.
        assert (await stream.read(blocker))[0] == 200_000


@pytest.mark.anyio
async def test_cancelling_an_await_leaves_the_answer(cpu: ms.Device, anyio_backend: str) -> None:
    stream = cpu.stream()
    x = stream.zeros(1, ms.i64)
    stream.launch(cpu.kernel(slow), 1, x, 200_000)
    pending = stream.read(x)
    with anyio.move_on_after(0.01) as scope:
        await pending
    assert scope.cancelled_caught and not pending.cancel()
    assert (await pending)[0] == 100_000


@pytest.mark.anyio
async def test_an_answer_is_awaited_by_several_tasks_and_a_thread(
    cpu: ms.Device, anyio_backend: str
) -> None:
    stream = cpu.stream()
    x = stream.zeros(1, ms.i64)
    stream.launch(cpu.kernel(slow), 1, x, 200_000)
    pending = stream.read(x)
    found: list[object] = []

    async def wait() -> None:
        found.append(await pending)

    async def wait_on_a_thread() -> None:
        found.append(await anyio.to_thread.run_sync(pending.wait))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(wait)
        for _ in range(3):
            group.start_soon(wait_on_a_thread)
    assert len(found) == 8 and all(each is found[0] for each in found)


def test_loops_of_several_threads_await_one_device(device: ms.Device) -> None:
    prepared = device.kernel(add)
    failures: list[BaseException] = []

    async def work(number: int) -> None:
        stream = device.stream()
        x = stream.create(np.full(10, number))
        for step in range(20):
            stream.launch(prepared, 1, x, 1, 10)
            assert (await stream.read(x))[0] == number + step + 1

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_batch_of_answers_wakes_the_loop_few_times(cpu: ms.Device) -> None:
    async def main() -> tuple[int, int]:
        stream = cpu.stream()
        buffer = stream.create(np.arange(16))
        await stream.read(buffer)
        loop = asyncio.get_running_loop()
        wakes = 0
        from millstream import _async  # pyright: ignore[reportPrivateUsage]

        hub = _async._asyncio_hubs[loop]  # pyright: ignore[reportPrivateUsage]
        drain = hub.drain

        def counted() -> None:
            nonlocal wakes
            wakes += 1
            drain()

        loop.add_reader(hub.wakeups.fileno(), counted)
        rounds = 20
        for _ in range(rounds):
            await asyncio.gather(*[stream.read(buffer) for _ in range(64)])
        return wakes, rounds

    wakes, rounds = asyncio.run(main())
    assert wakes <= rounds * 16, f"{wakes} wakes for {rounds} batches of 64"


def test_a_registration_that_fails_after_a_wake_raises_its_error() -> None:
    from millstream import _async  # pyright: ignore[reportPrivateUsage]

    hub = _async._Hub()  # pyright: ignore[reportPrivateUsage]

    class Woken:
        def _register(self, _wakeups: Any, token: int) -> bool:
            del hub.waiting[token]
            raise ms.DeviceForked("refused")

    pending: Any = Woken()
    with pytest.raises(ms.DeviceForked, match="refused"):
        hub.add(pending, print)
    assert not hub.waiting
