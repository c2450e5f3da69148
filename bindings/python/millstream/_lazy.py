"""Lazy buffers: expressions that a schedule computes later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from millstream import _millstream
from millstream._errors import ArgumentError
from millstream._lazy_arithmetic import choose
from millstream._lazy_base import Number
from millstream._lazy_views import Extent, Views

if TYPE_CHECKING:
    from millstream._millstream import Stream

__all__ = ["LazyBuffer", "concatenate", "einsum", "stack", "where"]


@final
class LazyBuffer(Views):
    """A node of an expression, made by a `Graph` and by operations on other lazy buffers. Nothing is computed before a run.

    Operators, names, broadcasting and indexing are those of NumPy. Differences:

    - The types of two operands must be equal; `astype` converts. A number takes the type of the buffer.
    - ``/`` is for floats, ``//`` for all.
    - ``==`` compares elements, so buffers are keys of dictionaries by identity; ``bool(x)`` raises.

    An invalid operation raises an `ArgumentError` that names it, the types and the shapes.
    """

    __slots__ = ()

    def take(self, indices: LazyBuffer, axis: int) -> LazyBuffer:
        """Returns the rows along an axis that `indices`, of `i64`, name. An index out of range reads zeros."""
        return LazyBuffer(self._node.apply("take", axis, *_nodes("take", [indices])))

    def gather(self, index: LazyBuffer, axis: int) -> LazyBuffer:
        """Returns the elements ``self[i, index[i, j, ..], ..]`` with the index at `axis`; ``numpy.take_along_axis``.
        An index out of range reads 0."""
        return LazyBuffer(self._node.apply("gather", axis, *_nodes("gather", [index])))

    def scatter(self, index: LazyBuffer, values: LazyBuffer, axis: int) -> LazyBuffer:
        """Returns a copy in which ``copy[i, index[i, j, ..], ..] = values[i, j, ..]``, with the index at `axis`. Of
        several values for one place the last remains; an index out of range is ignored."""
        return LazyBuffer(self._node.apply("scatter", axis, *_nodes("scatter", [index, values])))

    def scatter_add(self, index: LazyBuffer, values: LazyBuffer, axis: int) -> LazyBuffer:
        """As `scatter`, but adds the values to the elements, in order."""
        return LazyBuffer(self._node.apply("scatter_add", axis, *_nodes("scatter_add", [index, values])))

    def set(self, values: LazyBuffer | Number) -> LazyBuffer:
        """Stores values of this shape into the memory of this buffer. The result *is* this buffer, in its new version.

        Expressions that use this version see the old values, wherever they are written. The store happens if the result
        is a root of a schedule, or a root needs it.
        """
        node = self._operand("set", values)
        if not isinstance(values, LazyBuffer):
            node = node.apply("broadcast_to", self.sizes)
        return LazyBuffer(self._node.apply("set", node))

    def set_rows(self, axis: int, start: Extent, values: LazyBuffer) -> LazyBuffer:
        """As `set`, for the rows from `start` on along an axis."""
        rows = self._count("set_rows", start), *_nodes("set_rows", [values])
        return LazyBuffer(self._node.apply("set_rows", axis, *rows))

    def grad(self, of: Sequence[LazyBuffer]) -> list[LazyBuffer]:
        """Returns the gradients of the sum of this buffer with respect to each element of these. If it does not depend on
        one of them, that gradient is zero."""
        return [LazyBuffer(node) for node in self._node.grad(_nodes("grad", of))]

    def detach(self) -> LazyBuffer:
        """Returns the same values, through which no gradient flows."""
        return LazyBuffer(self._node.apply("detach"))

    def eval(self, stream: Stream) -> np.ndarray[Any, np.dtype[Any]]:
        """Schedules, compiles and runs an expression of existing buffers, waits for it, and returns the values.

        If an expression runs more than once, compile it once instead: `Schedule`.
        """
        compiled = _millstream.ScheduleSteps([self._node]).compile(stream)
        (result,) = compiled.run(stream, [], [], [], [])
        return stream.read(result).wait()


def where(condition: LazyBuffer, yes: LazyBuffer | Number, no: LazyBuffer | Number) -> LazyBuffer:
    """Returns `yes` where the condition, of `bool_`, is true, and `no` elsewhere. All three are broadcast."""
    return LazyBuffer(choose(condition, yes, no)._node)


def _nodes(op: str, parts: Sequence[LazyBuffer]) -> list[_millstream.LazyNode]:
    for part in parts:
        if not isinstance(part, LazyBuffer):
            raise ArgumentError(f"`{op}` takes lazy buffers, got `{type(part).__name__}`: make it a node of the graph")
    return [part._node for part in parts]


def concatenate(parts: Sequence[LazyBuffer], axis: int = 0) -> LazyBuffer:
    """Concatenates buffers of one type along an axis. Their other lengths are equal."""
    return LazyBuffer(_millstream.LazyNode.cat("concatenate", _nodes("concatenate", parts), axis))


def stack(parts: Sequence[LazyBuffer], axis: int = 0) -> LazyBuffer:
    """Concatenates buffers of one shape and type along a new axis."""
    return LazyBuffer(_millstream.LazyNode.cat("stack", _nodes("stack", parts), axis))


def einsum(terms: str, *parts: LazyBuffer) -> LazyBuffer:
    """Returns the sum of products over named axes, such as ``einsum("bij,bjk->bik", a, b)``."""
    return LazyBuffer(_millstream.LazyNode.einsum(terms, _nodes("einsum", parts)))
