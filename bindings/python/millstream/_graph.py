"""Graphs, schedules and their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream import _millstream
from millstream._errors import ArgumentError
from millstream._lazy import LazyBuffer
from millstream._lazy_base import Number
from millstream._lazy_views import Extent, lengths

if TYPE_CHECKING:
    from millstream._millstream import Buffer, Client, Device, GraphScalar, Length, Stream
    from millstream._types import DTypeLike

__all__ = ["CompiledSchedule", "Graph", "GraphCache", "Schedule"]

Shape = Extent | Sequence[Extent]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Graph:
    """Makes lazy buffers. Buffers of different graphs do not mix. Any thread may use it.

        graph = ms.Graph()
        x = graph.input("x", (2, 3), ms.f32)  # bound by each run
        w = graph.buffer(weights)  # a buffer of the device, which is not copied
        y = (x @ w + 1.0).relu()
        compiled = ms.Schedule(y).compile(device)
        (result,) = compiled.run(stream, {x: data})
    """

    def __init__(self) -> None:
        self._arena = _millstream.GraphArena()

    def __len__(self) -> int:
        """Returns the number of nodes."""
        return len(self._arena)

    def __repr__(self) -> str:
        return f"<Graph: {_count(len(self), 'node')}>"

    def input(self, name: str, shape: Shape, dtype: DTypeLike) -> LazyBuffer:
        """Makes an input, which each run binds to a buffer of this shape and type.

        :raises ArgumentError: graphs do not compute with the type (`i8`, `i16`, `u16`)
        """
        return LazyBuffer(self._arena.input(name, lengths("input", [shape]), dtype))

    def buffer(self, buffer: Buffer) -> LazyBuffer:
        """Makes a node of a buffer of a device, without a copy. A run may bind another in its place."""
        return LazyBuffer(self._arena.buffer(buffer))

    def constant(self, value: Number, dtype: DTypeLike) -> LazyBuffer:
        """Makes a number, of shape ``()``."""
        return LazyBuffer(self._constant("constant", value, dtype))

    def _constant(self, op: str, value: Number, dtype: DTypeLike) -> _millstream.LazyNode:
        number: Any = value.item() if isinstance(value, np.generic) else value
        return self._arena.constant(op, number, dtype)

    def full(self, shape: Shape, value: Number, dtype: DTypeLike) -> LazyBuffer:
        """Makes a buffer that is filled with a number."""
        return LazyBuffer(self._constant("full", value, dtype).apply("broadcast_to", lengths("full", [shape])))

    def zeros(self, shape: Shape, dtype: DTypeLike) -> LazyBuffer:
        """Makes a buffer that is filled with zeros."""
        zero = self._constant("zeros", 0, "i64").apply("cast", dtype)
        return LazyBuffer(zero.apply("broadcast_to", lengths("zeros", [shape])))

    def ones(self, shape: Shape, dtype: DTypeLike) -> LazyBuffer:
        """Makes a buffer that is filled with ones."""
        one = self._constant("ones", 1, "i64").apply("cast", dtype)
        return LazyBuffer(one.apply("broadcast_to", lengths("ones", [shape])))

    def arange(self, length: Extent) -> LazyBuffer:
        """Makes the numbers from 0 to `length`, without it, as `i64`."""
        return LazyBuffer(self._arena.index(lengths("arange", [length]), 0))

    def index(self, shape: Shape, axis: int) -> LazyBuffer:
        """Makes the position of each element along an axis, as `i64`."""
        return LazyBuffer(self._arena.index(lengths("index", [shape]), axis))

    def scalar(self, name: str, value: Number, dtype: DTypeLike) -> tuple[GraphScalar, LazyBuffer]:
        """Makes a number that each run may set. Other values compile nothing again.

        :param value: the number of runs that do not set it
        :return: the name of the number in runs, and the number as a lazy buffer of shape ``()``
        """
        number: Any = value.item() if isinstance(value, np.generic) else value
        scalar, node = self._arena.scalar(name, number, dtype)
        return scalar, LazyBuffer(node)

    def length(self, name: str, max: int) -> Length:
        """Makes a length that each run sets, for shapes. Its value is that of the buffers which a run binds.

            n = graph.length("n", 1000)
            x = graph.input("x", (n, 4), ms.f32)

        :param max: the greatest value; temporaries have room for it
        """
        return self._arena.length(name, max)

    def length_value(self, length: Extent) -> LazyBuffer:
        """Makes the value of a length in a run, as `i64` of shape ``()``."""
        return LazyBuffer(self._arena.length_value(length))

    def _random(self, kind: str, shape: Shape, seed: int) -> tuple[GraphScalar, LazyBuffer]:
        scalar, node = self._arena.random(kind, lengths(kind, [shape]), seed)
        return scalar, LazyBuffer(node)

    def random_bits(self, shape: Shape, seed: int) -> tuple[GraphScalar, LazyBuffer]:
        """Makes 32 random bits for each element, as `u32`: Philox4x32-10, the same on every device.

        :return: the seed, which each run may set, and the buffer
        """
        return self._random("random_bits", shape, seed)

    def uniform(self, shape: Shape, seed: int) -> tuple[GraphScalar, LazyBuffer]:
        """Makes random `f32` from 0 to 1, without 1. Returns the seed, which each run may set, and the buffer."""
        return self._random("uniform", shape, seed)

    def normal(self, shape: Shape, seed: int) -> tuple[GraphScalar, LazyBuffer]:
        """Makes random `f32` of the standard normal distribution. Returns the seed, and the buffer."""
        return self._random("normal", shape, seed)


class GraphCache:
    """Compiled kernels, and schedules of equal form, that compilations share. Any thread may use it.

    :param kernels: the most kernels that it keeps
    """

    def __init__(self, kernels: int = 1024) -> None:
        self._cache = _millstream.ScheduleCache(kernels)

    def __repr__(self) -> str:
        return f"<GraphCache: {_count(self.stats()['kernels_compiled'], 'kernel')} compiled>"

    def stats(self) -> dict[str, int]:
        """Returns the numbers of lookups, and of kernels and schedules that were compiled."""
        return self._cache.stats()


class Schedule:
    """The steps that compute some lazy buffers, the roots, fused into few kernels. It needs no device.

    ``str(schedule)`` has one line for each step.

    :param roots: lazy buffers of one graph
    """

    def __init__(self, *roots: LazyBuffer) -> None:
        for root in roots:
            if not isinstance(root, LazyBuffer):
                raise ArgumentError(f"`Schedule` takes lazy buffers, got `{type(root).__name__}`")
        self._steps = _millstream.ScheduleSteps([root._node for root in roots])

    def __len__(self) -> int:
        """Returns the number of steps."""
        return len(self._steps)

    def __str__(self) -> str:
        return str(self._steps)

    def __repr__(self) -> str:
        return f"<Schedule: {_count(len(self), 'step')}>"

    def dot(self) -> str:
        """Returns the schedule as a Graphviz graph."""
        return self._steps.dot()

    def compile(self, target: Device | Client | Stream, cache: GraphCache | None = None) -> CompiledSchedule:
        """Compiles all kernels for a device, plans the memory of temporaries, and records a run. Blocks meanwhile, without
        the interpreter's lock.

        :param target: the device, or a client or stream of it; temporaries count for the limits of its client
        :raises CompileError: the compiler of the device refused a kernel
        :raises ForeignError: the schedule uses buffers of another device
        """
        return CompiledSchedule(self._steps.compile(target, cache._cache if cache is not None else None))


class CompiledSchedule:
    """A schedule that is compiled for a device. Any thread may run it, any number of times, on any stream of the device."""

    def __init__(self, steps: _millstream.CompiledSteps) -> None:
        self._steps = steps

    def __repr__(self) -> str:
        temporaries = _count(self.temporary_bytes, "byte")
        return f"<CompiledSchedule: {_count(self.tasks, 'task')}, {temporaries} of temporaries>"

    def run(
        self,
        stream: Stream,
        inputs: Mapping[LazyBuffer, Buffer] | None = None,
        scalars: Mapping[GraphScalar, Number] | None = None,
        outputs: Mapping[int, Buffer] | None = None,
        lengths: Mapping[Length, int] | None = None,
    ) -> tuple[Buffer, ...]:
        """Submits a run, and returns a buffer for each root. Does not wait for the device.

        :param inputs: the buffers of inputs, and others in place of buffers of the graph; shapes and types are equal
        :param scalars: the values of scalars, and seeds
        :param outputs: the buffers that roots are computed into, by the number of the root; they share no byte with other
            buffers of the run. Other roots get new buffers
        :param lengths: the values of lengths that are not those of an axis of an input
        :raises ArgumentError: an argument is missing, unknown, or does not fit. What fails later is raised by readers of
            the results
        """
        for key in inputs or ():
            if not isinstance(key, LazyBuffer):
                raise ArgumentError(f"`run`: `inputs` maps lazy buffers to buffers, got the key {key!r}")
        bound = [(node._node, buffer) for node, buffer in inputs.items()] if inputs else []
        values: list[tuple[GraphScalar, Any]] = []
        for scalar, value in scalars.items() if scalars else ():
            values.append((scalar, value.item() if isinstance(value, np.generic) else value))
        into = list(outputs.items()) if outputs else []
        return self._steps.run(stream, bound, values, into, list(lengths.items()) if lengths else [])

    def takes(self, buffer: LazyBuffer) -> bool:
        """Returns whether a run binds this input. One that no root needs is not bound."""
        return self._steps.takes(buffer._node)

    @property
    def tasks(self) -> int:
        """The number of tasks of a run."""
        return self._steps.tasks

    @property
    def temporary_bytes(self) -> int:
        """The memory of temporaries of one run. Runs on one queue share it."""
        return self._steps.temporary_bytes

    @property
    def output_bytes(self) -> int:
        """The memory of the results of a run."""
        return self._steps.output_bytes

    @property
    def peak_bytes(self) -> int:
        """The memory of temporaries and results together."""
        return self._steps.peak_bytes
