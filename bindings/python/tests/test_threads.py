"""Many threads share a device: submission, waiting, futures, a mixed load."""

from __future__ import annotations

import concurrent.futures
import gc
import random
import threading
import time
from typing import Any

import millstream as ms
import numpy as np
import pytest
from millstream import ir

THREADS = 8


@ms.kernel
def add(x: ms.Update[ms.i64], value: ms.i64, n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        x[i] = x[i] + value


def run_threads(count: int, body: object) -> None:
    """Runs a function of a number on this many threads at once, and raises the first exception."""
    assert callable(body)
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        body(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for finished in [pool.submit(run, number) for number in range(count)]:
            finished.result(timeout=120)


def test_threads_share_a_buffer_in_one_order(device: ms.Device) -> None:
    prepared = device.kernel(add)
    total = device.stream().zeros(16, ms.i64)

    def body(number: int) -> None:
        stream = device.stream()
        for _ in range(50):
            stream.launch(prepared, 1, total, number + 1, 16)

    run_threads(THREADS, body)
    expected = 50 * sum(range(1, THREADS + 1))
    assert device.stream().read(total).wait().tolist() == [expected] * 16


def test_threads_share_a_stream(device: ms.Device, stream: ms.Stream) -> None:
    prepared = device.kernel(add)

    def body(number: int) -> None:
        own = stream.create(np.full(300, number, np.int64))
        for _ in range(20):
            stream.launch(prepared, ms.cover(300), own, 1, 300)
        assert (stream.read(own).wait() == number + 20).all()

    run_threads(THREADS, body)


def test_a_full_stream_lets_other_python_threads_run() -> None:
    with ms.Device("cpu", mailbox_capacity=4, max_in_flight=2, max_held=4) as device:
        prepared = device.kernel(add)

        def body(number: int) -> None:
            stream = device.stream()
            own = stream.zeros(1000, ms.i64)
            for _ in range(200):
                stream.launch(prepared, ms.cover(1000), own, number, 1000)
            assert (stream.read(own).wait() == 200 * number).all()

        run_threads(THREADS, body)


def test_uploads_beyond_their_limit_wait() -> None:
    with ms.Device("cpu", max_upload_bytes=1 << 16) as device:

        def body(number: int) -> None:
            stream = device.stream()
            for _ in range(10):
                data = np.full(1 << 14, number, np.float64)
                assert (stream.read(stream.create(data, copy=number % 2 == 0)).wait() == number).all()

        run_threads(THREADS, body)


def test_a_wait_lets_other_python_threads_run(cpu: ms.Device) -> None:
    @ms.kernel(threads=1)
    def slow(x: ms.Update[ms.f32], times: ms.i64) -> None:
        for i in ir.range(times):
            x[0] = x[0] + ir.sqrt(ir.cast(i, ms.f32))

    stream = cpu.stream()
    x = stream.zeros(1, ms.f32)
    stream.launch(cpu.kernel(slow), 1, x, 200_000)
    ended = threading.Event()
    steps = 0

    def count() -> None:
        nonlocal steps
        while not ended.is_set():
            steps += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    before = steps
    stream.read(x).wait()
    ended.set()
    counter.join()
    assert steps > before


def test_one_answer_is_given_to_all_threads_that_wait(device: ms.Device, stream: ms.Stream) -> None:
    pending = stream.read(stream.create(np.arange(100)))
    found: list[object] = [None] * THREADS

    def body(number: int) -> None:
        found[number] = pending.wait() if number % 2 else pending.future().result()

    run_threads(THREADS, body)
    assert all(each is found[0] for each in found)


def test_futures_call_back_on_one_thread_of_python(device: ms.Device, stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(8))
    threads: set[str] = set()
    futures = [stream.read(buffer).future() for _ in range(200)]
    for future in futures:
        future.add_done_callback(lambda _: threads.add(threading.current_thread().name))
    done, rest = concurrent.futures.wait(futures, timeout=60)
    assert len(done) == 200 and not rest
    assert all(future.result()[3] == 3 for future in futures)
    assert threads <= {"millstream-futures", "MainThread"}


def test_a_future_has_the_exception() -> None:
    with ms.Device("sim", memory_limit=1 << 20) as device:
        stream = device.stream()
        kept = stream.zeros(150_000, ms.f32)
        future = stream.read(stream.empty(150_000, ms.f32)).future()
        assert isinstance(future.exception(timeout=60), ms.TaskOutOfMemory)
        assert kept.unique


@pytest.mark.parametrize("seed", range(3))
def test_a_mixed_load_keeps_its_data(device: ms.Device, seed: int) -> None:
    prepared = device.kernel(add)

    def body(number: int) -> None:
        choose = random.Random(1000 * seed + number)
        client = device.client(name=f"client {number}", weight=number + 1)
        stream, other = client.stream(), client.stream()
        n = choose.randrange(1, 2000)
        expected = np.zeros(n, np.int64)
        buffer = stream.zeros(n, ms.i64)
        out = np.empty(n, np.int64)
        for step in range(60):
            on = choose.choice((stream, other))
            match choose.randrange(7):
                case 0:
                    on.launch(prepared, ms.cover(n), buffer, step, n)
                    expected = expected + step
                case 1:
                    on.fill(buffer, step)
                    expected = np.full(n, step)
                case 2:
                    data = np.arange(n) * step
                    on.write(buffer, data, copy=choose.random() < 0.5)
                    expected = data
                case 3:
                    fresh = on.empty(n, ms.i64)
                    on.copy(buffer, fresh)
                    buffer = fresh
                case 4:
                    assert np.array_equal(on.read(buffer).wait(), expected)
                case 5:
                    assert np.array_equal(on.read(buffer, out=out).wait(), expected)
                case _:
                    pending = on.read(buffer)
                    if choose.random() < 0.5:
                        assert np.array_equal(pending.future().result(timeout=60), expected)
        assert np.array_equal(stream.read(buffer).wait(), expected)

    run_threads(THREADS, body)
    gc.collect()
    device.sync().wait()


def test_code_that_makes_an_answer_may_use_the_answer(stream: ms.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    # Making the object runs code of Python, and with it finalizers and whatever replaces its functions.
    with stream.profile() as scope:
        stream.zeros(3, ms.f32)
    pending = scope.end()
    inner: list[Any] = []
    make: Any = ms.Profile

    def reentrant(**fields: Any) -> Any:
        if not inner:
            inner.append(None)
            inner[0] = pending.wait()
        return make(**fields)

    monkeypatch.setattr("millstream._reports.Profile", reentrant)
    outer = pending.wait()
    assert outer is inner[0] is pending.result() and outer.tasks == 1


def test_all_threads_get_the_same_object(stream: ms.Stream) -> None:
    for _ in range(20):
        pending, barrier = stream.read(stream.zeros(10, ms.f32)), threading.Barrier(4)
        found: list[Any] = []

        def wait(pending: ms.Pending[Any] = pending, found: list[Any] = found, barrier: Any = barrier) -> None:
            barrier.wait()
            found.append(pending.wait())

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(array) for array in found}) == 1 and len(found) == 4
