"""A program that shares buffers of a CUDA GPU with a library that calls the driver: `test_cuda_exchange` runs it on the fake
driver, which checks every access. The argument is a part of it, and a line for each part that has ended is printed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
from dlpack_consumer import READ_ONLY, Taken

LENGTH = 1024
NON_BLOCKING = 1


class Library:
    """A library with a stream of its own, and pinned memory that it copies to."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        stream, host = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        self.call("cuMemHostAlloc", ctypes.byref(host), LENGTH * 4, 0)
        self.stream: int = stream.value or 0
        self._host = host.value or 0

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def read(self, address: int) -> None:
        """Copies the memory, later."""
        self.call(
            "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(self._host), ctypes.c_uint64(address), LENGTH * 4,
            ctypes.c_void_p(self.stream),
        )  # fmt: skip

    def write(self, address: int, value: int) -> None:
        """Fills the memory, later."""
        self.call("cuMemsetD32Async", ctypes.c_uint64(address), value, LENGTH, ctypes.c_void_p(self.stream))

    def synchronize(self) -> None:
        self.call("cuStreamSynchronize", ctypes.c_void_p(self.stream))

    def result(self) -> list[int]:
        self.synchronize()
        return list((ctypes.c_int32 * LENGTH).from_address(self._host))

    def close(self) -> None:
        self.call("cuStreamDestroy_v2", ctypes.c_void_p(self.stream))
        self.call("cuMemFreeHost", ctypes.c_void_p(self._host))
        self.call("cuDevicePrimaryCtxRelease_v2", 0)


def read(device: ms.Device, library: Library, stream: int) -> None:
    """The library reads a buffer, frees the array at once, and a task overwrites the buffer."""
    ours = device.stream()
    buffer = ours.zeros(LENGTH, ms.i32)
    ours.fill(buffer, 7)
    taken = Taken(buffer.__dlpack__(stream=stream, max_version=(1, 0)))
    assert (taken.tensor.device_type, taken.tensor.device_id) == (2, 0) and taken.managed.flags == READ_ONLY
    library.read(taken.tensor.data)
    taken.delete()
    ours.fill(buffer, 9)
    assert ours.read(buffer).wait().tolist() == [9] * LENGTH
    assert library.result() == [7] * LENGTH


def write(device: ms.Device, library: Library) -> None:
    """The library writes a buffer, and a task reads it."""
    ours = device.stream()
    buffer = ours.zeros(LENGTH, ms.i32)
    with buffer.map(writable=True) as mapped:
        taken = Taken(mapped.__dlpack__(stream=library.stream))
        library.write(taken.tensor.data, 5)
    answer = ours.read(buffer)
    assert not answer.done()
    taken.delete()
    assert answer.wait().tolist() == [5] * LENGTH


def reuse(device: ms.Device, library: Library) -> None:
    """The memory of an array whose buffer is gone is not reused."""
    ours = device.stream()
    buffer = ours.zeros(LENGTH, ms.i32)
    ours.fill(buffer, 3)
    taken = Taken(buffer.__dlpack__(stream=library.stream, max_version=(1, 0)))
    del buffer
    for value in range(16):
        ours.fill(ours.empty(LENGTH, ms.i32), value)
    library.read(taken.tensor.data)
    taken.delete()
    for value in range(16):
        ours.fill(ours.empty(LENGTH, ms.i32), value)
    ours.sync().wait()
    assert library.result() == [3] * LENGTH


def interface(device: ms.Device, library: Library) -> None:
    """The CUDA array interface. Its consumer synchronizes its stream before it lets go of the memory."""
    ours = device.stream()
    buffer = ours.zeros((2, LENGTH // 2), ms.i32)
    ours.fill(buffer, 4)
    mapped = buffer.map()
    found = mapped.__cuda_array_interface__
    address, is_read_only = found.pop("data")
    assert found == {"version": 3, "shape": (2, LENGTH // 2), "typestr": "<i4", "strides": None, "stream": None}
    assert is_read_only and not hasattr(mapped, "__array_interface__")
    library.read(address)
    assert library.result() == [4] * LENGTH
    del mapped
    ours.fill(buffer, 1)
    assert ours.read(buffer).wait().sum() == LENGTH


def refused(device: ms.Device) -> None:
    """Requests that cannot be met, and copies on the host."""
    buffer = device.stream().create(np.arange(4.0))
    for stream, why in ((0, "ambiguous"), (2, "default stream of a thread"), (-5, "not a stream")):
        try:
            buffer.__dlpack__(stream=stream, max_version=(1, 0))
            raise AssertionError(stream)
        except BufferError as error:
            assert why in str(error), error
    for exporter in (buffer, buffer.map()):
        try:
            memoryview(exporter)
            raise AssertionError
        except BufferError as error:
            assert "not on the host" in str(error), error
    # It holds back the mapping for writing below.
    del exporter
    assert np.from_dlpack(buffer, device="cpu").tolist() == [0, 1, 2, 3]
    with buffer.map() as mapped:
        assert np.from_dlpack(mapped, device="cpu").tolist() == [0, 1, 2, 3]
    with buffer.map(writable=True) as mapped:
        try:
            np.from_dlpack(mapped, device="cpu")
            raise AssertionError
        except BufferError as error:
            assert "mapped for writing" in str(error), error


def close_early(library: Library) -> None:
    """A device that is closed right after an array was freed waits for the library's work."""
    with ms.Device("cuda") as device:
        buffer = device.stream().zeros(LENGTH, ms.i32)
        taken = Taken(buffer.__dlpack__(stream=library.stream, max_version=(1, 0)))
        library.read(taken.tensor.data)
        taken.delete()
    assert library.result() == [0] * LENGTH


def destroyed(device: ms.Device, library: Library) -> None:
    """The library destroys its streams as soon as it has freed the arrays. Each end is waited for by itself."""
    ours = device.stream()
    streams = [ctypes.c_void_p() for _ in range(8)]
    for number, stream in enumerate(streams):
        library.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        buffer = ours.zeros(LENGTH, ms.i32)
        with buffer.map(writable=True) as mapped:
            taken = Taken(mapped.__dlpack__(stream=stream.value, max_version=(1, 0)))
            library.call("cuMemsetD32Async", ctypes.c_uint64(taken.tensor.data), number, LENGTH, stream)
        taken.delete()
        library.call("cuStreamDestroy_v2", stream)
        assert ours.read(buffer).wait().tolist() == [number] * LENGTH


def unlearned(device: ms.Device, library: Library) -> None:
    """The end of a library's work cannot be learned: in a capture, and if the driver refuses to say. The memory is then never
    written or reused, so the tasks that wait for it do not begin."""
    ours, stream, graph = device.stream(), ctypes.c_void_p(library.stream), ctypes.c_void_p()

    def freed() -> ms.Pending[Any]:
        buffer = ours.zeros(LENGTH, ms.i32)
        with buffer.map(writable=True) as mapped:
            taken = Taken(mapped.__dlpack__(stream=library.stream, max_version=(1, 0)))
        taken.delete()
        return device.stream().read(buffer)

    # Relaxed: the runtime's calls go on, also those on this thread.
    library.call("cuStreamBeginCapture_v2", stream, 2)
    captured = freed()
    library.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    library.call("cuGraphDestroy", graph)
    library.driver.fake_cuda_fault(b"cuEventQuery", ctypes.c_uint64(1), 1)
    refused = freed()
    # What is freed later is found to have ended later.
    assert freed().wait().tolist() == [0] * LENGTH
    device.stream().sync().wait()
    assert not captured.done() and not refused.done()


def releasers() -> int:
    """Returns the number of threads that wait for the streams of consumers."""
    names = [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("millstream-rel") for name in names)


def main(part: str) -> None:
    library = Library()
    if part == "unlearned":
        # The memory that is kept would refuse the close of the device.
        device = ms.Device("cuda")
        unlearned(device, library)
        print("done", flush=True)
        os._exit(0)
    with ms.Device("cuda") as device:
        if part == "unordered":
            # With -1 the consumer says that it takes care of the order itself, and this one does not.
            read(device, library, -1)
        else:
            read(device, library, library.stream)
            write(device, library)
            reuse(device, library)
            interface(device, library)
            refused(device)
            destroyed(device, library)
            # One for all arrays that were freed.
            assert releasers() == 1
    if part == "ordered":
        close_early(library)
    library.close()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
