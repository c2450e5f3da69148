"""Many threads, one device: a runtime that lets any number of threads share one GPU, or the CPU.

    import millstream as ms
    import numpy as np

    @ms.kernel
    def double(x: ms.Update[ms.f32]) -> None:
        i = ms.position()
        if i < x.size:
            x[i] = 2.0 * x[i]

    with ms.Device("cpu") as device:
        stream = device.stream()
        x = stream.create(np.arange(4, dtype=np.float32))
        stream.launch(device.kernel(double), ms.cover(x.size), x)
        print(stream.read(x).wait())  # or `await stream.read(x)`

Threads add tasks to streams. A stream keeps the order of its tasks, and tasks of different streams that touch the same
bytes are ordered automatically. No call but `Pending.wait` and `Device.close` waits for the device. A call that finds no
room waits until there is some, without the interpreter's lock. A failure travels with the data that the task would have
written: a reader of that data receives a `TaskFailed` with the chain of tasks as its causes.
"""

from __future__ import annotations

from typing import Literal

from millstream import _millstream, ir
from millstream._arrays import *
from millstream._errors import *
from millstream._graph import CompiledSchedule, Graph, GraphCache, Schedule
from millstream._kernels import KernelFunction, Source, cover, function, kernel
from millstream._lazy import LazyBuffer, concatenate, einsum, stack, where
from millstream._millstream import (
    Buffer,
    CancelToken,
    Client,
    GraphScalar,
    Kernel,
    Length,
    MappedBuffer,
    Pending,
    ProfileScope,
    Recorder,
    Recording,
    ScalarParameter,
    Stream,
    SubmissionLog,
    Timeline,
)
from millstream._reports import *
from millstream._tuning import CandidateTimes, TunableSet, Tuner, Tuning
from millstream._types import (
    DTypeLike,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from millstream._values import Value
from millstream.ir import position, static_range

__version__: str = _millstream.__version__

__all__ = [
    "ArgumentError", "Buffer", "Busy", "CancelToken", "CandidateTimes", "Client", "CompileError", "CompiledSchedule",
    "DTypeLike", "DeadlinePassed", "Device", "DeviceClosed", "DeviceForked", "DeviceLost", "Error", "ForeignError",
    "Graph", "GraphCache", "GraphScalar", "Kernel", "KernelError", "KernelFunction", "KernelProfile",
    "LazyBuffer", "Length", "LogError", "MappedBuffer", "OpenError", "OutOfMemory", "Pending", "Profile",
    "ProfileScope", "Read", "Read2D", "Read3D", "Readback", "Recorder", "Recording", "ReopenError", "ReplayError", "Replayed",
    "ScalarParameter", "Schedule", "Source", "Span", "Stream", "SubmissionLog", "TaskCancelled", "TaskFailed",
    "TaskOutOfMemory", "Timeline", "TooLarge", "TraceError", "TunableSet", "TuneError", "Tuner", "Tuning", "Update",
    "Update2D", "Update3D", "Value", "WaitTimeout", "WouldDeadlock", "Write", "Write2D", "Write3D", "bf16", "bool_",
    "concatenate", "cover", "einsum", "f16", "f32", "f64", "function", "i16", "i32", "i64", "i8", "ir", "kernel", "position",
    "stack", "static_range", "u16", "u32", "u64", "u8", "where", "__version__",
]  # fmt: skip

Backend = Literal["cpu", "sim", "cuda", "vulkan"]


class Device(_millstream.Device):
    """A device: one GPU, the CPU, or the simulator. A plain value: there is no global device.

    Use it as a context manager, or call `close`: both wait for the work in flight.

    :param backend: ``"cpu"``, ``"cuda"``, ``"vulkan"``, or ``"sim"``: a simulator for tests, which runs tasks in any
        order that their dependencies permit, chosen by `seed`, and reports races (`violations`)
    :param index: the GPU, in the order of its driver
    :param queues: the number of queues that run tasks; the default is up to the backend
    :param threads: the threads of the CPU backend
    :param memory_limit: device memory, in bytes
    :param seed: the seed of the simulator
    :param mailbox_capacity: messages on their way to the device
    :param max_in_flight: the most tasks in flight on one queue
    :param max_in_flight_time: how long the tasks in flight of one queue take together, in seconds, by measured times; the
        default is 0.005, and ``math.inf`` measures nothing. A GPU runs what is in flight in spite of a cancel
    :param max_held: tasks of one stream that are accepted and not issued
    :param max_upload_bytes: bytes in flight of one client's uploads
    :param sample_latencies: sample the latency of one task in this many; 0 samples none
    :param trace: the number of tasks whose times are kept for `timeline`; beyond it the oldest are dropped
    :param log_submissions: the most bytes, between two calls of `take_log`, of a log of what the device admits, uploads
        included; 0 logs nothing
    :param lost_at_run: the simulator is lost while it runs this task, counted from 1: a test of what your program does
        then (`reopen`)
    :raises OpenError: if the backend is not available on this machine; the message says what is missing
    """

    def __new__(
        cls,
        backend: Backend = "cpu",
        *,
        index: int = 0,
        queues: int | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        seed: int = 0,
        mailbox_capacity: int | None = None,
        max_in_flight: int | None = None,
        max_in_flight_time: float | None = None,
        max_held: int | None = None,
        max_upload_bytes: int | None = None,
        sample_latencies: int = 0,
        trace: int = 0,
        log_submissions: int = 0,
        lost_at_run: int | None = None,
    ) -> Device:
        # All parameters, before any other variable. `super` adds `__class__`.
        options = dict(locals())
        del options["cls"], options["__class__"]
        return super().__new__(cls, options)
