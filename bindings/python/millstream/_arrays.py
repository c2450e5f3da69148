"""The parameters of kernels that are arrays: ``ms.Read[ms.f32]``, ``ms.Update2D[ms.f32]``."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from millstream._types import i64
from millstream._values import Value

__all__ = ["Read", "Read2D", "Read3D", "Update", "Update2D", "Update3D", "Write", "Write2D", "Write3D"]

V = TypeVar("V", bound=Value)

Index = Value | int
Index2D = tuple[Index, Index]
Index3D = tuple[Index, Index, Index]


Place = TypeVar("Place", bound=Index | tuple[Index, ...])


class Array(Generic[V]):
    """An array that a kernel accesses, while the kernel is traced."""

    ndim: ClassVar[int] = 1
    """The number of axes."""

    def __init__(
        self, builder: Any, name: str, dtype: type[V], kind: str, lengths: tuple[int, ...] | None = None
    ) -> None:
        self._builder = builder
        self._name = name
        self._kind = kind
        self._lengths = lengths
        self.dtype: type[V] = dtype

    @property
    def shape(self) -> tuple[i64, ...]:
        """The lengths of the axes: those of the buffer of a launch. A parameter of one axis takes a buffer of any shape,
        as one axis of all its elements."""
        return tuple(self._extent(axis) for axis in range(self.ndim))

    @property
    def size(self) -> i64:
        """The number of elements."""
        return self._extent(None)

    def _extent(self, axis: int | None) -> i64:
        axis = None if self.ndim == 1 else axis
        if self._lengths is not None:
            length: i64 = self._builder.constant(math.prod(self._lengths) if axis is None else self._lengths[axis], i64)
            return length
        found: i64 = self._builder.value(i64, f"scalar {self._builder.extent(self._name, axis)}")
        return found

    def __iter__(self) -> Any:
        raise self._builder.error(
            f"`{self._name}` is traced, and cannot be iterated; loop with `for i in range({self._name}.size):`"
        )

    def __len__(self) -> int:
        raise self._builder.error(f"`{self._name}` has no length while it is traced; use `{self._name}.size`")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._builder.error(f"`{self._name}` is no array of NumPy while it is traced; `x[i]` loads an element")

    def __array_ufunc__(self, function: Any, method: str, *_: Any, **__: Any) -> NoReturn:
        raise self._builder.not_traced(function, method)

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise self._builder.not_traced(function)


class _Readable(Array[V], Generic[V, Place]):
    def __getitem__(self, index: Place) -> V:
        """Loads the element at an index for each axis: integers, from 0 on."""
        loaded: V = self._builder.load(self, index)
        return loaded


class _Writable(Array[V], Generic[V, Place]):
    def __setitem__(self, index: Place, value: Value | float) -> None:
        """Stores the element at an index for each axis: integers, from 0 on."""
        self._builder.store(self, index, value)


class _Written(_Writable[V, Place]):
    def __getitem__(self, index: Place) -> V:
        raise self._builder.error(f"`{self._name}` is declared as Write; declare it as Update to read it")


class _Updated(_Readable[V, Place], _Writable[V, Place]):
    def add(self, index: Place, value: Value | float) -> V:
        """Adds to an element atomically. Returns what it was before, as all atomic operations do."""
        return self._atomic("add", index, value)

    def sub(self, index: Place, value: Value | float) -> V:
        """Subtracts from an element atomically."""
        return self._atomic("add", index, -self._builder.operand(value, self.dtype))

    def min(self, index: Place, value: Value | float) -> V:
        """Replaces an element atomically by the smaller one of it and a value."""
        return self._atomic("min", index, value)

    def max(self, index: Place, value: Value | float) -> V:
        """Replaces an element atomically by the greater one of it and a value."""
        return self._atomic("max", index, value)

    def swap(self, index: Place, value: Value | float) -> V:
        """Replaces an element atomically."""
        return self._atomic("swap", index, value)

    def compare_exchange(self, index: Place, expected: Value | float, new: Value | float) -> V:
        """Replaces an element atomically by ``new`` if it is ``expected``."""
        return self._atomic("compare_exchange", index, expected, new)

    def _atomic(self, op: str, index: Place, *values: Value | float) -> V:
        before: V = self._builder.atomic(self, op, index, *values)
        return before


class Read(_Readable[V, Index]):
    """A parameter of a kernel: an array that it only reads."""


class Read2D(_Readable[V, Index2D]):
    """A parameter of a kernel: an array of two axes that it only reads: ``x[i, j]``."""

    ndim = 2


class Read3D(_Readable[V, Index3D]):
    """A parameter of a kernel: an array of three axes that it only reads: ``x[i, j, k]``."""

    ndim = 3


class Write(_Written[V, Index]):
    """A parameter of a kernel: an array of which a launch writes every byte and reads none."""


class Write2D(_Written[V, Index2D]):
    """A parameter of a kernel: an array of two axes of which a launch writes every byte and reads none."""

    ndim = 2


class Write3D(_Written[V, Index3D]):
    """A parameter of a kernel: an array of three axes of which a launch writes every byte and reads none."""

    ndim = 3


class Update(_Updated[V, Index]):
    """A parameter of a kernel: an array that is read and written, or written in part."""


class Update2D(_Updated[V, Index2D]):
    """A parameter of a kernel: an array of two axes that is read and written, or written in part."""

    ndim = 2


class Update3D(_Updated[V, Index3D]):
    """A parameter of a kernel: an array of three axes that is read and written, or written in part."""

    ndim = 3


KINDS: dict[Any, str] = {
    Read: "read", Read2D: "read", Read3D: "read", Write: "write", Write2D: "write", Write3D: "write",
    Update: "update", Update2D: "update", Update3D: "update",
}  # fmt: skip
