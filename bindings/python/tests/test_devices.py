"""Opening and closing devices, clients, limits and figures."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import multiprocessing
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import millstream as ms
import numpy as np
import pytest


def test_a_device_closes_at_the_end_of_its_block() -> None:
    with ms.Device("cpu") as device:
        assert device.backend == "cpu" and device.health == "running" and not device.closed
        stream = device.stream()
        buffer = stream.create([1.0, 2.0])
    assert device.closed and device.health == "closed"
    with pytest.raises(ms.DeviceClosed, match="the device is closed"):
        stream.read(buffer).wait()
    with pytest.raises(ms.DeviceClosed):
        device.stream().create([1.0])


def test_close_reports_what_it_did() -> None:
    device = ms.Device("sim", seed=7)
    device.stream().zeros(100, ms.f32)
    report = device.close(timeout=5.0)
    assert report["drained"] is True and report["tasks_left"] == 0
    assert device.close()["tasks_left"] == 0


def test_two_devices_are_independent() -> None:
    with ms.Device("cpu") as one, ms.Device("sim") as other:
        buffer = one.stream().create([1])
        with pytest.raises(ms.ForeignError, match="belongs to another device"):
            other.stream().read(buffer).wait()


def test_a_device_that_is_dropped_closes_on_another_thread() -> None:
    device = ms.Device("cpu")
    reference = weakref.ref(device)
    device.stream().zeros(1 << 20, ms.f32)
    del device
    gc.collect()
    assert reference() is None


def test_unknown_backends_and_options_are_refused() -> None:
    with pytest.raises(ms.ArgumentError, match="backend must be"):
        ms.Device("tpu")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(ms.ArgumentError, match='backend "cpu" has no option `seed`'):
        ms.Device("cpu", seed=3)
    with pytest.raises(ms.OpenError, match="mailbox_capacity"):
        ms.Device("cpu", mailbox_capacity=0)


@pytest.mark.parametrize("backend", ["cuda", "vulkan"])
def test_a_backend_without_its_driver_says_what_is_missing(backend: str) -> None:
    try:
        device = ms.Device(backend)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except ms.OpenError as error:
        assert f"`{backend}` cannot be opened" in str(error)
    else:
        device.close()


def test_a_hard_limit_raises_out_of_memory(device: ms.Device) -> None:
    client = device.client(name="small", hard_limit=4096)
    assert client.name == "small"
    stream = client.stream()
    kept = stream.zeros(1000, ms.f32)
    with pytest.raises(ms.OutOfMemory, match="client `small`") as caught:
        stream.empty(1000, ms.f32)
    assert isinstance(caught.value, MemoryError)
    del kept
    assert stream.read(stream.zeros(1000, ms.f32)).wait().sum() == 0


def test_calls_wait_at_a_hard_limit_for_their_turn(cpu: ms.Device) -> None:
    client = cpu.client(name="waits", hard_limit=3 * 40_000, at_limit="wait")

    def request(number: int) -> float:
        stream = client.stream()
        buffer = stream.create(np.full(10_000, number, np.float32))
        return float(stream.read(buffer[:1]).wait()[0])

    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(request, range(32))) == list(range(32))
    stream = client.stream()
    with pytest.raises(ms.TooLarge, match="more than its hard limit"):
        stream.zeros(40_000, ms.f32)
    kept = stream.zeros(20_000, ms.f32)
    with pytest.raises(ms.Busy):
        stream.with_deadline(0.05).zeros(20_000, ms.f32)
    with pytest.raises(ms.Busy):
        stream.nowait().zeros(20_000, ms.f32)
    del kept
    with pytest.raises(ms.ArgumentError, match="at_limit"):
        cpu.client(at_limit="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_limit_of_tasks_makes_calls_wait_without_the_lock(cpu: ms.Device) -> None:
    client = cpu.client(max_tasks=2)
    stream = client.stream()
    buffer = stream.zeros(1 << 16, ms.f32)
    for value in range(300):
        stream.fill(buffer, value)
    assert stream.read(buffer[:4]).wait().tolist() == [299.0] * 4


def test_nowait_raises_busy_and_submits_nothing_i8(cpu: ms.Device) -> None:
    stream = cpu.client(max_tasks=2).stream()
    buffer = stream.zeros(1 << 20, ms.i32)
    for nowait in [stream.nowait(), stream.request().nowait(), stream.nowait().with_deadline(60)]:
        accepted = 0
        with pytest.raises(ms.Busy, match="holds 2 of at most 2 tasks") as caught:
            while True:  # filling 4 MiB takes longer than three calls
                nowait.fill(buffer, accepted + 1)
                accepted += 1
        assert caught.value.retry_after > 0
        with pytest.raises(ms.Busy):
            for _ in range(100_000):
                nowait.read(buffer[:1])
        stream.sync().wait()
        assert nowait.read(buffer[:1]).wait().tolist() == [accepted]


def test_priorities_are_checked(cpu: ms.Device) -> None:
    assert "high" in repr(cpu.client(name="high", priority="high"))
    with pytest.raises(ms.ArgumentError, match="priority must be"):
        cpu.client(priority="urgent")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_metrics_are_plain_numbers() -> None:
    with ms.Device("cpu", sample_latencies=1) as device:
        client = device.client(name="service")
        stream = client.stream()
        buffer = stream.zeros(10, ms.f32)
        stream.read(buffer).wait()
        metrics = client.metrics().wait()
        assert metrics["tasks"] >= 2 and metrics["mailbox_capacity"] == 256
        assert metrics["clients"]["service"]["streams"] == 1
        assert metrics["faults"]["panicked"] == 0
        assert metrics["latencies"]["runs_ns"]["count"] >= 1
        assert device.memory().wait()["live_slices"] >= 1


def test_properties_have_units(device: ms.Device) -> None:
    properties = device.properties()
    assert properties["alignment_bytes"] >= 8
    assert len(properties["max_cube_count"]) == 3


def test_a_close_waits_for_accepted_work_while_other_threads_run() -> None:
    steps = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal steps
        while not stop.is_set():
            steps += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    with ms.Device("cpu") as device:
        stream = device.stream()
        buffer = stream.create(np.ones(1 << 20, np.float32))
        for _ in range(50):
            stream.fill(buffer, 1.0)
        before = steps
    stop.set()
    counter.join()
    assert steps > before


def test_objects_say_what_they_are(device: ms.Device, stream: ms.Stream) -> None:
    backend = device.backend
    buffer = stream.zeros((2, 3), ms.f32)
    assert repr(buffer) == f"Buffer(f32, shape=(2, 3), device='{backend}')"
    assert repr(buffer[0][:1]) == f"Buffer(f32, shape=(1,), device='{backend}')"
    assert repr(buffer[0][0]) == f"Buffer(f32, shape=(), device='{backend}')"
    assert repr(device.client(name="renderer").stream()).startswith("Stream(")
    assert "renderer" in repr(device.client(name="renderer").stream()) and backend in repr(stream)
    graph = ms.Graph()
    x = graph.input("x", 3, ms.f32)
    schedule = ms.Schedule(x + 1.0)
    compiled = schedule.compile(device)
    assert repr(graph) == "<Graph: 1 node>" and repr(schedule) == "<Schedule: 1 step>"
    assert repr(compiled) == "<CompiledSchedule: 1 task, 0 bytes of temporaries>"
    assert repr(ms.GraphCache()) == "<GraphCache: 0 kernels compiled>"


def test_the_package_has_a_version() -> None:
    assert ms.__version__ == importlib.metadata.version("millstream")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_gets_an_error_instead_of_waiting_for_ever() -> None:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with ms.Device("cpu") as device:
        stream = device.stream()
        buffer = stream.create([1.0])
        arrived = stream.read(buffer)
        while not arrived.done():
            time.sleep(0)
        # A view holds the task that writes the buffer back, and so this answer.
        view = buffer.map()
        stream.fill(buffer, 2)
        late = stream.read(buffer)
        # It has the lock of the answer most of the time, for ever in a child.
        waiting = threading.Thread(target=late.wait)
        waiting.start()

        async def awaited() -> object:
            return await late

        def child() -> None:
            # An answer that has arrived needs neither the device nor a lock of another thread.
            found = [str(arrived.wait(5).tolist()), str(arrived.result().tolist())]
            calls: list[Callable[[], object]] = [
                lambda: stream.create([2.0]), lambda: stream.read(buffer).wait(), device.sync,
                late.wait, lambda: asyncio.run(awaited()), lambda: late.future().result(),
            ]  # fmt: skip
            for call in calls:
                try:
                    pending = call()
                    if isinstance(pending, ms.Pending):
                        pending.wait()
                    found.append("no error")
                except ms.Error as error:
                    found.append(f"{type(error).__name__}: {error}")
            sender.send(found)

        process = context.Process(target=child)
        process.start()
        assert receiver.poll(60), "a call of the child waits"
        found = receiver.recv()
        process.join(60)
        assert process.exitcode == 0 and len(found) == 8 and found[:2] == ["[1.0]"] * 2, found
        assert all(text.startswith("DeviceForked: ") and "spawn" in text for text in found[2:]), found
        view.release()
        waiting.join()
        assert late.wait().tolist() == stream.read(buffer).wait().tolist() == [2.0]
