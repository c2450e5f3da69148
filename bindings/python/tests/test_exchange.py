"""Memory that buffers and arrays of other libraries share: DLPack, the buffer protocol, the array interface."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
import pytest
from dlpack_consumer import IS_COPIED, READ_ONLY, Managed, Producer, Taken

NEW = (1, 0)


def is_held(device: ms.Device, answer: ms.Pending[Any]) -> bool:
    """Whether an answer has not arrived although all work that is not held back has completed."""
    other = device.stream()
    for _ in range(3):
        other.read(other.zeros(4, ms.f32)).wait()
    return not answer.done()


def test_numpy_reads_a_buffer_in_place(stream: ms.Stream) -> None:
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    buffer = stream.create(data)
    seen, again = np.from_dlpack(buffer), np.from_dlpack(buffer)
    assert np.array_equal(seen, data) and seen.dtype == np.float32
    assert not seen.flags.writeable and not seen.flags.owndata
    assert seen.ctypes.data == again.ctypes.data == np.asarray(buffer).ctypes.data
    part = np.from_dlpack(buffer[1:])
    assert part.ctypes.data == seen.ctypes.data + 48 and np.array_equal(part, data[1:])


def test_an_export_has_the_result_of_all_earlier_tasks(device: ms.Device, stream: ms.Stream) -> None:
    buffer = stream.zeros(1000, ms.i32)
    for value in range(20):
        device.stream().fill(buffer, value)
    assert (np.from_dlpack(buffer) == 19).all()


def mapped(buffer: ms.Buffer) -> ms.MappedBuffer:
    return buffer.map()


@pytest.mark.parametrize("export", [np.from_dlpack, memoryview, mapped])
def test_a_write_waits_for_the_consumer(device: ms.Device, stream: ms.Stream, export: Any) -> None:
    buffer = stream.create(np.arange(8, dtype=np.float32))
    view = export(buffer)
    stream.fill(buffer, -1)
    answer = stream.read(buffer)
    assert is_held(device, answer)
    assert np.asarray(view).tolist() == list(range(8))
    del view
    assert answer.wait().tolist() == [-1] * 8


def test_readers_and_writers_of_other_bytes_do_not_wait(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(8, dtype=np.float32))
    view = np.from_dlpack(buffer[:4])
    stream.fill(buffer[4:], -1)
    assert stream.read(buffer).wait().tolist() == [0, 1, 2, 3, -1, -1, -1, -1]
    assert view.tolist() == [0, 1, 2, 3]


def test_memory_with_a_consumer_is_never_reused(device: ms.Device, stream: ms.Stream) -> None:
    kept: list[Any] = []
    for value in range(32):
        buffer = stream.create(np.full(2048, value, np.float32))
        # The array is the only trace of the buffer that is left.
        kept.append(np.from_dlpack(buffer))
        del buffer
        stream.zeros(2048, ms.f32)
    gc.collect()
    for value in range(64):
        stream.fill(stream.empty(2048, ms.f32), value)
    stream.sync().wait()
    assert len({view.ctypes.data for view in kept}) == 32
    assert all((view == value).all() for value, view in enumerate(kept))
    used = device.memory().wait()["in_use_bytes"]
    del kept
    device.sync().wait()
    assert device.memory().wait()["in_use_bytes"] <= used - 32 * 8192


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_checker_finds_nothing_in_any_order(seed: int) -> None:
    with ms.Device("sim", seed=seed, queues=3) as device:
        streams = [device.stream() for _ in range(3)]
        buffers = [streams[0].zeros(256, ms.i32) for _ in range(4)]
        kept: list[tuple[Any, int]] = []
        for step in range(24):
            stream, buffer = streams[step % 3], buffers[step % 4]
            if len(kept) > 2:
                # The oldest array goes, and with it what holds back the next writer of its buffer.
                kept.pop(0)
            stream.fill(buffer, step)
            kept.append((np.from_dlpack(buffer), step))
            assert all((seen == value).all() for seen, value in kept)
        kept.clear()
        device.sync().wait()
        assert device.violations() == []


def test_a_forgotten_array_is_warned_of(cpu: ms.Device) -> None:
    stream = cpu.stream()
    buffer = stream.create(np.arange(4.0))
    seen = np.from_dlpack(buffer)
    stream.fill(buffer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="exports of buffers are in use: 2; they hold back tasks"):
            np.from_dlpack(buffer)
    assert seen.tolist() == [0, 1, 2, 3]
    del seen
    assert np.from_dlpack(buffer).tolist() == [1] * 4


def test_threads_export_while_others_write(device: ms.Device) -> None:
    stream = device.stream()
    buffer = stream.create(np.zeros(512, np.int32))
    torn: list[Any] = []

    def write() -> None:
        mine = device.stream()
        for value in range(20):
            mine.fill(buffer, value)

    def read() -> None:
        for _ in range(20):
            seen = np.from_dlpack(buffer)
            if seen.min() != seen.max():
                torn.append(seen.copy())
            # An array that is still there when the next is exported would hold the writes between the two back.
            del seen

    threads = [threading.Thread(target=body) for body in (write, read, write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []


def test_a_capsule_has_what_the_standard_says(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert buffer.__dlpack_device__() == (1, 0)
    taken = Taken(buffer.__dlpack__(max_version=NEW))
    assert taken.versioned and (taken.managed.major, taken.managed.flags) == (1, READ_ONLY)
    assert (taken.tensor.device_type, taken.tensor.device_id) == (1, 0)
    assert (taken.shape, taken.strides, taken.element) == ([2, 3], [3, 1], (0, 16, 1))
    assert taken.bytes(12) == np.arange(6, dtype=np.int16).tobytes()
    taken.delete()
    stream.fill(buffer, 0)
    assert stream.read(buffer).wait().sum() == 0


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(ms.f64, (2, 64, 1)), (ms.f16, (2, 16, 1)), (ms.bf16, (4, 16, 1)), (ms.u32, (1, 32, 1)), (ms.bool_, (6, 8, 1))],
)
def test_elements_have_the_codes_of_dlpack(stream: ms.Stream, dtype: type[ms.Value], element: Any) -> None:
    buffer = stream.zeros((3,), dtype)
    taken = Taken(buffer.__dlpack__(max_version=NEW))
    assert taken.element == element
    # Kept: it has the tensor, which the upload gives back later.
    producer = Producer(taken.bytes(3 * dtype.itemsize), [3], None, element)
    back = stream.from_dlpack(producer)
    taken.delete()
    assert back.dtype is dtype and stream.read(back).wait().tolist() == [0, 0, 0]


def test_each_element_type_is_another_one_of_dlpack(stream: ms.Stream) -> None:
    all_ = [ms.f64, ms.i64, ms.u64, ms.f32, ms.i32, ms.u32, ms.f16, ms.bf16, ms.i16, ms.u16, ms.i8, ms.u8, ms.bool_]
    elements: set[Any] = set()
    for dtype in all_:
        taken = Taken(stream.zeros((1,), dtype).__dlpack__(max_version=NEW))
        elements.add(taken.element)
        taken.delete()
    assert len(elements) == len(all_)


def test_a_capsule_that_no_consumer_takes_frees_its_export(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(3.0))
    capsule = buffer.__dlpack__(max_version=NEW)
    del capsule
    stream.fill(buffer, 2)
    assert stream.read(buffer).wait().tolist() == [2, 2, 2]


def test_a_deleter_may_run_on_any_thread(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(3.0))
    taken = Taken(buffer.__dlpack__(max_version=NEW))
    thread = threading.Thread(target=taken.delete)
    thread.start()
    thread.join()
    stream.fill(buffer, 2)
    assert stream.read(buffer).wait().tolist() == [2, 2, 2]


def test_consumers_before_dlpack_1_get_a_copy_or_writable_memory(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(3.0))
    for version in (None, (0, 8)):
        copied = Taken(buffer.__dlpack__(max_version=version))
        assert not copied.versioned and copied.bytes(24) == np.arange(3.0).tobytes()
        # It is no export of the memory: a write does not wait for it.
        stream.fill(buffer, 5)
        assert stream.read(buffer).wait().tolist() == [5] * 3 and copied.bytes(24) == np.arange(3.0).tobytes()
        copied.delete()
        stream.write(buffer, np.arange(3.0))
        with pytest.raises(BufferError, match="read-only, which a consumer of DLPack before 1.0 does not know"):
            buffer.__dlpack__(max_version=version, copy=False)
    taken = Taken(buffer.map(writable=True).__dlpack__())
    assert not taken.versioned and taken.bytes(24) == np.arange(3.0).tobytes()
    taken.delete()
    assert Taken(buffer.__dlpack__(copy=True)).versioned is False


def test_jax_takes_a_buffer(stream: ms.Stream) -> None:
    jnp = pytest.importorskip("jax.numpy")
    buffer = stream.create(np.arange(6, dtype=np.float32).reshape(2, 3))
    array = jnp.from_dlpack(buffer)
    assert array.shape == (2, 3) and array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert stream.read(stream.from_dlpack(array)).wait().tolist() == array.tolist()


def mapped_to_write(buffer: ms.Buffer) -> Any:
    return buffer.map(writable=True)


@pytest.mark.parametrize("export", [np.from_dlpack, memoryview, mapped])
def test_a_map_refuses_to_wait_for_a_view_of_its_own_thread(stream: ms.Stream, export: Any) -> None:
    buffer = stream.create(np.arange(8, dtype=np.float32))
    view = export(buffer[2:4])
    with pytest.raises(BufferError, match=r"read-only view of `Buffer\(f32, shape=\(2,\), .*release it first"):
        buffer.map(writable=True)
    # Readers share, and other bytes do not wait.
    assert np.asarray(buffer.map()).tolist() == list(range(8))
    buffer[4:].map(writable=True).release()
    del view
    with buffer.map(writable=True) as held:
        for again in (np.from_dlpack, memoryview, mapped, mapped_to_write):
            with pytest.raises(BufferError, match="a writable view of `Buffer"):
                again(buffer[:1])
        assert held.writable


def test_a_map_waits_for_a_view_of_another_thread(device: ms.Device, stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(4.0))
    views: list[Any] = []
    thread = threading.Thread(target=lambda: views.append(np.from_dlpack(buffer)))
    thread.start()
    thread.join()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(buffer.map(writable=True)))
    waiting.start()
    other = device.stream()
    other.read(other.zeros(4, ms.f32)).wait()
    assert found == []
    views.clear()
    waiting.join()
    found.pop().release()


def test_views_in_a_cycle_do_not_refuse_a_map(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(4.0))
    cycle: list[Any] = [np.from_dlpack(buffer)]
    cycle.append(cycle)
    del cycle
    buffer.map(writable=True).release()


def test_a_device_says_which_views_keep_it_open() -> None:
    kept: list[Any] = []
    with (
        pytest.raises(BufferError, match=r"use: 1: a read-only view of `Buffer\(f64, shape=\(3,\), device='cpu'\)`"),
        ms.Device("cpu") as device,
    ):
        kept.append(np.from_dlpack(device.stream().create(np.arange(3.0))))
    assert not device.closed
    kept.clear()
    assert device.close()["drained"]


def test_strided_arrays_are_not_copied_if_no_copy_is_asked_for(stream: ms.Stream) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    target = stream.zeros((3, 2), ms.f32)
    view: Any = data.T
    for strided in (data.T, memoryview(view), Producer(data.tobytes(), [3, 2], [1, 3], (2, 32, 1))):
        with pytest.raises(BufferError, match="has strides and must be copied"):
            stream.create(strided, copy=False)
        with pytest.raises(BufferError, match="has strides and must be copied"):
            stream.write(target, strided, copy=False)
    assert np.array_equal(stream.read(stream.create(data.T)).wait(), data.T)
    assert np.array_equal(stream.read(stream.create(data[:1].T, copy=False)).wait(), data[:1].T)


def test_arrays_with_lengths_that_overflow_are_refused(stream: ms.Stream) -> None:
    # The product is 2^64 + 4, and 2^64; negative lengths, and strides beyond the address space.
    hostile = [
        Producer(b"abcd", [20, 922337203685477581], None, (1, 8, 1)),
        Producer(b"abcd", [2**32, 2**32], None, (1, 8, 1)),
        Producer(b"abcd", [0, 2**62, 2**62], None, (1, 8, 1)),
        Producer(b"abcd", [-4], None, (1, 8, 1)),
        Producer(b"abcd", [-2, -2], None, (1, 8, 1)),
        Producer(b"abcd", [2, 3], [2**62, 2**62], (0, 64, 1)),
    ]
    for producer in hostile:
        with pytest.raises(ms.ArgumentError, match="not a valid shape"):
            stream.from_dlpack(producer)
        assert producer.deleted == 1


def test_a_copy_is_independent_of_the_buffer(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(4.0))
    copy = np.from_dlpack(buffer, copy=True)
    copy[0] = 7
    stream.fill(buffer, 1)
    assert stream.read(buffer).wait().tolist() == [1] * 4 and copy.tolist() == [7, 1, 2, 3]
    taken = Taken(buffer.__dlpack__(max_version=NEW, copy=True, dl_device=(1, 0)))
    assert taken.managed.flags == IS_COPIED
    taken.delete()


def resident_bytes() -> int:
    """Returns the memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory in use from /proc")
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_copy_is_freed_with_its_capsule(cpu: ms.Device, is_taken: bool) -> None:
    # Memory of this size goes back to the system at once.
    buffer = cpu.stream().zeros(64 << 20, ms.u8)
    for source in (buffer, buffer.map()):
        capsule = source.__dlpack__(max_version=NEW, copy=True)
        taken = Taken(capsule) if is_taken else None
        held = resident_bytes()
        if taken is not None:
            taken.delete()
        del capsule, taken
        # No call of millstream since.
        assert held - resident_bytes() > 60 << 20


def test_requests_that_cannot_be_met_are_refused(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(4.0))
    with pytest.raises(BufferError, match="no streams; pass `stream=None`"):
        buffer.__dlpack__(stream=1, max_version=NEW)
    with pytest.raises(BufferError, match=r"cannot be exported to device \(2, 0\) with `copy=None`"):
        buffer.__dlpack__(max_version=NEW, dl_device=(2, 0))
    with pytest.raises(TypeError, match="not writable"):
        ctypes.c_double.from_buffer(buffer)


def test_failed_data_is_not_exported(device: ms.Device) -> None:
    stream = device.stream()
    token = ms.CancelToken()
    token.cancel()
    buffer = stream.zeros(4, ms.f32)
    stream.with_cancel(token).fill(buffer, 1)
    with pytest.raises(ms.TaskCancelled):
        np.from_dlpack(buffer)
    stream.fill(buffer, 2)
    assert np.from_dlpack(buffer).tolist() == [2] * 4


def test_a_parameter_of_a_recording_is_not_exported(stream: ms.Stream) -> None:
    recorder = stream.recorder()
    with pytest.raises(ms.TaskFailed, match="parameter"):
        np.from_dlpack(recorder.parameter(4, ms.f32))


def test_arrays_without_elements_or_axes_are_shared(stream: ms.Stream) -> None:
    empty = np.from_dlpack(stream.empty((0, 3), ms.f32))
    assert empty.shape == (0, 3)
    scalar = np.from_dlpack(stream.create(np.array(3.5)))
    assert scalar.shape == () and scalar == 3.5
    assert stream.from_dlpack(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_views_of_the_buffer_protocol(stream: ms.Stream) -> None:
    buffer = stream.create(np.arange(6, dtype=np.int32).reshape(2, 3))
    view = memoryview(buffer)
    assert (view.shape, view.strides, view.format, view.readonly) == ((2, 3), (12, 4), "i", True)
    assert np.asarray(view).tolist() == [[0, 1, 2], [3, 4, 5]] and bytes(buffer)[:4] == b"\0\0\0\0"
    view.release()
    target = stream.zeros(6, ms.i32)
    # Another buffer is data like any other; without a copy its memory is kept until the upload has ended.
    stream.write(target, buffer.reshape([6]), copy=False)
    assert stream.read(target).wait().tolist() == list(range(6))


def test_a_mapped_buffer_is_written_in_place(device: ms.Device, stream: ms.Stream) -> None:
    buffer = stream.create(np.zeros((2, 2), np.float32))
    with buffer.map(writable=True) as mapped:
        values = np.asarray(mapped)
        values[1] = [3, 4]
        assert mapped.writable and mapped.shape == (2, 2) and mapped.dtype is ms.f32 and mapped.buffer is buffer
        # Also readers wait: they would see half of what is written.
        answer = stream.read(buffer)
        assert is_held(device, answer)
        assert np.from_dlpack(mapped, copy=True).tolist() == [[0, 0], [3, 4]]
    del values
    assert answer.wait().tolist() == [[0, 0], [3, 4]]
    assert mapped.released and "released" in repr(mapped)
    with pytest.raises(BufferError, match="no longer mapped"):
        np.asarray(mapped)


def test_the_array_interface_keeps_the_mapping(device: ms.Device, stream: ms.Stream) -> None:
    class Holder:
        """An array of a library that knows the array interface only. It keeps the object, as such libraries do."""

        def __init__(self, source: ms.MappedBuffer) -> None:
            self.__array_interface__ = source.__array_interface__
            self.source = source

    buffer = stream.create(np.arange(4, dtype=np.uint8))
    mapped = buffer.map()
    interface = mapped.__array_interface__
    assert (interface["typestr"], interface["shape"], interface["version"]) == ("|u1", (4,), 3)
    assert interface["data"][1] is True and interface["strides"] is None
    seen = np.asarray(Holder(mapped))
    mapped.release()
    stream.fill(buffer, 9)
    answer = stream.read(buffer)
    assert not mapped.released and is_held(device, answer) and seen.tolist() == [0, 1, 2, 3]
    del mapped, seen
    gc.collect()
    assert answer.wait().tolist() == [9] * 4


def test_an_array_interface_and_a_release_are_one_step_each(stream: ms.Stream) -> None:
    # Threads of an interpreter without the lock run both at once; with it this cannot fail.
    buffer = stream.create(np.arange(4, dtype=np.uint8))
    for step in range(200):
        mapped, barrier = buffer.map(), threading.Barrier(2)
        found: list[Any] = []

        def look(mapped: ms.MappedBuffer = mapped, found: list[Any] = found) -> None:
            try:
                found.append(mapped.__array_interface__)
            except BufferError:
                found.append(None)

        def run(each: Callable[[], None], barrier: Any = barrier) -> None:
            barrier.wait()
            each()

        # The thread that comes last to the barrier goes on at once: in turn the one that looks, and the other.
        ours, theirs = (look, mapped.release) if step % 2 else (mapped.release, look)
        thread = threading.Thread(target=run, args=[theirs])
        thread.start()
        run(ours)
        thread.join()
        # A consumer that has the address keeps the memory.
        assert mapped.released == (found == [None])


def test_an_open_export_refuses_a_close(device: ms.Device) -> None:
    seen = np.from_dlpack(device.stream().create(np.arange(3.0)))
    with pytest.raises(BufferError, match="exports of the device's memory in use: 1"):
        device.close()
    assert not device.closed
    del seen


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_memory_outlives_a_device_that_an_exception_closes(backend: Any) -> None:
    kept: list[Any] = []
    with pytest.raises(KeyError), ms.Device(backend) as device:
        stream = device.stream()
        kept.append(np.from_dlpack(stream.create(np.arange(1000.0))))
        raise KeyError
    assert device.closed and kept[0].sum() == 499_500.0
    kept.clear()
    assert device.violations() == []


def test_an_array_of_any_library_is_uploaded_in_place(stream: ms.Stream) -> None:
    data = np.arange(6, dtype=np.float32)
    producer = Producer(data.tobytes(), [2, 3], None, (2, 32, 1))
    buffer = stream.from_dlpack(producer)
    assert buffer.shape == (2, 3) and buffer.dtype is ms.f32
    assert np.array_equal(stream.read(buffer).wait(), data.reshape(2, 3))
    assert producer.options == {"max_version": NEW} and producer.taken == 1
    for _ in range(1000):
        # The runtime has finished with the memory; a later call gives it back.
        stream.sync().wait()
        if producer.deleted:
            break
    assert producer.deleted == 1


@pytest.mark.parametrize("copy", [True, False])
def test_create_takes_arrays_of_any_library(stream: ms.Stream, copy: bool) -> None:
    producer = Producer(b"\x00\x3f\x80\x3f", [2], None, (4, 16, 1))
    buffer = stream.create(producer, copy=copy)
    assert buffer.dtype is ms.bf16 and stream.read(buffer).wait().view(np.uint16).tolist() == [0x3F00, 0x3F80]
    if copy:
        assert producer.deleted == 1
    wide = Producer(np.array([1, 2], np.int16).tobytes(), [2], None, (0, 16, 1))
    assert stream.read(stream.create(wide, ms.f32, copy=copy)).wait().tolist() == [1.0, 2.0]


def test_a_tensor_too_large_to_gather_is_out_of_memory(stream: ms.Stream) -> None:
    # One element, repeated: the elements would fit no memory.
    repeated = Producer(b"\1", [1 << 62], [0], (1, 8, 1))
    with pytest.raises(ms.OutOfMemory, match="no 4611686018427387904 bytes for a copy"):
        stream.from_dlpack(repeated)
    assert repeated.deleted == 1


def test_strides_are_gathered(stream: ms.Stream) -> None:
    data = np.arange(24, dtype=np.int64)
    rows = Producer(data.tobytes(), [3, 2, 2], [2, 12, -1], (0, 64, 1), byte_offset=8)
    expected = np.lib.stride_tricks.as_strided(data[1:], (3, 2, 2), (16, 96, -8))
    assert np.array_equal(stream.read(stream.from_dlpack(rows)).wait(), expected)
    assert rows.deleted == 1
    with pytest.raises(BufferError, match="has strides"):
        stream.from_dlpack(rows, copy=False)
    # An axis of length 1 has no stride that counts.
    line = Producer(data.tobytes(), [1, 24], [999, 1], (0, 64, 1))
    assert stream.read(stream.from_dlpack(line, copy=False)).wait().tolist() == [data.tolist()]
    big = np.arange(1 << 17, dtype=np.float32).reshape(2, -1)
    assert np.array_equal(stream.read(stream.from_dlpack(big.T)).wait(), big.T)


def test_libraries_before_dlpack_1_are_understood(stream: ms.Stream) -> None:
    producer = Producer(b"\1\2", [2], None, (1, 8, 1), kind=Managed, refuses=("max_version",))
    assert stream.read(stream.from_dlpack(producer, copy=True)).wait().tolist() == [1, 2]
    assert producer.options == {} and producer.deleted == 1


def test_arrays_that_cannot_be_read_are_refused(stream: ms.Stream) -> None:
    with pytest.raises(TypeError, match="`__dlpack__` and `__dlpack_device__`, got list"):
        stream.from_dlpack([1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pairs = Producer(b"\0" * 16, [2], None, (5, 64, 1))
    with pytest.raises(ms.ArgumentError, match="type code 5 with 64 bits"):
        stream.from_dlpack(pairs)
    vectors = Producer(b"\0" * 32, [2], None, (2, 32, 4))
    with pytest.raises(ms.ArgumentError, match="4 lanes"):
        stream.create(vectors)
    remote = Producer(b"\0" * 8, [2], None, (2, 32, 1), device=(2, 3))
    with pytest.raises(ms.ArgumentError, match=r"device \(2, 3\), which the host cannot read"):
        stream.from_dlpack(remote)
    # It was asked for a copy on the host, and did not make one.
    assert remote.options["dl_device"] == (1, 0)
    future = Producer(b"\0" * 8, [2], None, (2, 32, 1), major=2)
    with pytest.raises(BufferError, match="expected version 1 of DLPack, got 2"):
        stream.from_dlpack(future)
    assert [p.deleted for p in (pairs, vectors, remote, future)] == [1] * 4


def test_a_read_only_array_is_uploaded(stream: ms.Stream) -> None:
    data = np.arange(4.0)
    data.flags.writeable = False
    references = sys.getrefcount(data)
    assert stream.read(stream.from_dlpack(data)).wait().tolist() == data.tolist()
    for _ in range(1000):
        stream.sync().wait()
        if sys.getrefcount(data) == references:
            break
    assert sys.getrefcount(data) == references


def test_a_buffer_of_one_device_is_data_for_another(stream: ms.Stream) -> None:
    with ms.Device("cpu") as other:
        source = other.stream().create(np.arange(5.0))
        buffer = stream.from_dlpack(source)
        assert stream.read(buffer).wait().tolist() == [0, 1, 2, 3, 4]
        stream.sync().wait()
        del source
        for _ in range(1000):
            stream.sync().wait()
