"""What all operations on lazy buffers share: their node, and the conversion of operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from millstream import _millstream
from millstream._errors import ArgumentError

if TYPE_CHECKING:
    from typing import Self

    from millstream._values import Value

Number = Union[bool, int, float, "np.generic"]
"""A number of an expression. It takes the type of the buffer that it meets, as a Python number does in NumPy."""

FLOATS = ("f16", "bf16", "f32", "f64")


class LazyBase:
    """A node of an expression, and the conversion of operands."""

    __slots__ = ("__weakref__", "_node")

    def __init__(self, node: _millstream.LazyNode) -> None:
        self._node = node

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes, slowest first.

        :raises ArgumentError: a length is set by each run: use `sizes`
        """
        known = tuple(length for length in self._node.shape if isinstance(length, int))
        if len(known) != len(self._node.shape):
            self._refuse("shape", "a length is set by each run: use `sizes`")
        return known

    @property
    def sizes(self) -> tuple[int | _millstream.Length, ...]:
        """The lengths of the axes, slowest first, each a number or a `Length`."""
        return self._node.shape

    @property
    def dtype(self) -> type[Value]:
        """The element type."""
        return self._node.dtype

    @property
    def ndim(self) -> int:
        """The number of axes; at most 8."""
        return len(self.sizes)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def _name(self) -> str:
        return self._node.dtype._dtype

    @property
    def _is_float(self) -> bool:
        return self._name in FLOATS

    def _of(self, node: _millstream.LazyNode) -> Self:
        return type(self)(node)

    def _operand(self, op: str, other: LazyBase | Number) -> _millstream.LazyNode:
        """Returns an operand as a node; a number takes the type of this buffer."""
        if isinstance(other, LazyBase):
            return other._node
        if not isinstance(other, (bool, int, float, np.generic)):
            self._refuse(op, f"{_described(other)} is no operand: {_advice(other)}")
        number: Any = other.item() if isinstance(other, np.generic) else other
        name = self._name
        if not isinstance(number, (bool, int, float)):
            self._refuse(op, f"graphs have no numbers such as {number!r}")
        if name == "bool" and not isinstance(number, bool):
            self._refuse(op, f"the number {number!r} is not bool: `astype` the buffer to the type of the result first")
        if name not in FLOATS and isinstance(number, float):
            self._refuse(op, f"{name} cannot represent the float {number!r}: `astype` the buffer to `f32` or `f64` first")
        if isinstance(number, bool) and name != "bool":
            number = int(number)
        return self._node.apply("number", number, name=op)

    def _refuse(self, op: str, why: str) -> NoReturn:
        raise ArgumentError(f"`{op}` of {self._name} {list(self.sizes)}: {why}")

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __bool__(self) -> bool:
        self._refuse("bool", "a lazy buffer has no value before a run: select with `where`, or compute it by `eval`")

    def __float__(self) -> float:
        self._refuse("float", "a lazy buffer has no value before a run: compute it by `eval`")

    def __int__(self) -> int:
        self._refuse("int", "a lazy buffer has no value before a run: compute it by `eval`")

    def __array__(self, *_options: Any, **_more: Any) -> Any:
        self._refuse("numpy.asarray", "a lazy buffer has no values before a run: compute them by `eval`")

    def __repr__(self) -> str:
        return f"LazyBuffer({self._name}, shape={self.sizes})"


def _described(other: Any) -> str:
    return f"an object of `{type(other).__name__}`"


def _advice(other: Any) -> str:
    if isinstance(other, _millstream.Buffer):
        return "make it a node by `graph.buffer(..)`, or bind it to a `graph.input(..)`"
    if isinstance(other, (np.ndarray, list, tuple)):
        return "create a buffer by `stream.create(..)`, and make it a node by `graph.buffer(..)`"
    return "pass a lazy buffer of the same graph, or a number"
