"""Shapes, indexing and reductions of lazy buffers, with NumPy's names. Views cost nothing: kernels read through them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from millstream import _millstream
from millstream._errors import ArgumentError
from millstream._lazy_arithmetic import Arithmetic
from millstream._lazy_base import LazyBase, Number

if TYPE_CHECKING:
    from typing import Self

    from millstream._types import DTypeLike

Axes = Union[int, Sequence[int], None]
"""The axes of a reduction: one, several, or all (``None``). Negative ones count from the end."""
Part = Union[SupportsIndex, slice, EllipsisType, None]


Extent = Union[int, _millstream.Length]
"""A length: a number, or one that each run sets."""


def lengths(op: str, shape: Sequence[Extent | Sequence[Extent]], least: int = 0) -> list[Extent]:
    """Returns the lengths of ``x.reshape(2, 3)``, and of ``x.reshape((2, 3))``."""
    all_: Sequence[Any] = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    found = [length if isinstance(length, _millstream.Length) else operator.index(length) for length in all_]
    if any(isinstance(length, int) and length < least for length in found):
        raise ArgumentError(f"`{op}`: the shape {found} has a negative length")
    return found


class Views(Arithmetic):
    """The same elements in another shape, parts of them, and reductions."""

    __slots__ = ()

    def reshape(self, *shape: Extent | Sequence[Extent]) -> Self:
        """Returns the elements, in row-major order, in another shape. One length may be -1: it is inferred."""
        return self._of(self._node.apply("reshape", lengths("reshape", shape, -1)))

    def ravel(self) -> Self:
        """Returns the elements as one axis."""
        return self.reshape(-1)

    def broadcast_to(self, shape: Extent | Sequence[Extent]) -> Self:
        """Repeats axes of length 1, and adds axes in front."""
        return self._of(self._node.apply("broadcast_to", lengths("broadcast_to", [shape])))

    def unsqueeze(self, axis: int) -> Self:
        """Inserts an axis of length 1; ``numpy.expand_dims``."""
        return self._of(self._node.apply("unsqueeze", axis))

    def squeeze(self, axis: Axes = None) -> Self:
        """Removes axes of length 1: all of them, or these."""
        if axis is None:
            axes = [index for index, length in enumerate(self.sizes) if length == 1]
        else:
            axes = self._axes("squeeze", axis)
        node = self._node
        for index in sorted(axes, reverse=True):
            node = node.apply("squeeze", index)
        return self._of(node)

    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Reorders the axes: axis ``i`` of the result is axis ``axes[i]``. Without arguments it reverses them."""
        order: list[int] = list(reversed(range(self.ndim)))
        if axes:
            order = [operator.index(axis) for axis in (axes[0] if isinstance(axes[0], Sequence) else axes)]  # type: ignore[arg-type]
        return self._of(self._node.apply("permute", order, name="transpose"))

    def swapaxes(self, first: int, second: int) -> Self:
        """Exchanges two axes."""
        (one,), (other,) = self._axes("swapaxes", first), self._axes("swapaxes", second)
        order = list(range(self.ndim))
        order[one], order[other] = other, one
        return self._of(self._node.apply("permute", order, name="swapaxes"))

    @property
    def T(self) -> Self:
        """The axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Self:
        """The last two axes exchanged."""
        return self.swapaxes(-2, -1)

    def narrow(self, axis: int, start: Extent, length: Extent) -> Self:
        """Returns the elements from `start` to ``start + length`` along an axis."""
        return self._of(self._node.apply("narrow", axis, self._count("narrow", start), self._count("narrow", length)))

    def __len__(self) -> int:
        length = self.sizes[0] if self.sizes else None
        if not isinstance(length, int):
            self._refuse("len", "a buffer without axes, or with a length that each run sets, has no length")
        return length

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Part | tuple[Part, ...]) -> Self:
        """Returns a part by NumPy's basic indexing: integers, slices, ``...`` and ``None``.

        Slices of step 1 are views; other steps gather element by element.

        :raises ArgumentError: an index is out of range, or is an array: use `take` or `where`
        """
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if not (part is None or part is Ellipsis or isinstance(part, (slice, SupportsIndex))) or isinstance(part, bool):
                self._refuse("getitem", f"an index is an integer, a slice, `...` or `None`, not `{type(part).__name__}`: "
                             "use `take`, `gather` or `where`")
        named = sum(part is not None and part is not Ellipsis for part in parts)
        gaps = sum(part is Ellipsis for part in parts)
        if gaps > 1 or named > self.ndim:
            self._refuse("getitem", f"{named} indices and {gaps} `...` for {self.ndim} axes")
        rest = [slice(None)] * (self.ndim - named)
        if not gaps:
            parts = (*parts, Ellipsis)
        result, axis = self, 0
        for part in parts:
            if part is Ellipsis:
                axis += len(rest)
            elif part is None:
                result, axis = result.unsqueeze(axis), axis + 1
            elif isinstance(part, slice):
                result, axis = result._sliced(axis, part), axis + 1
            else:
                result = result._row(axis, operator.index(part))
        return result

    def _row(self, axis: int, index: int) -> Self:
        length = self._known(axis)
        place = index + length if index < 0 else index
        if not 0 <= place < length:
            self._refuse("getitem", f"index {index} is out of range for axis {axis} of length {length}")
        return self._of(self._node.apply("narrow", axis, place, 1, name="getitem").apply("squeeze", axis))

    def _known(self, axis: int) -> int:
        length = self.sizes[axis]
        if not isinstance(length, int):
            self._refuse("getitem", f"the length of axis {axis} is set by each run: use `narrow` or `take`")
        return length

    def _sliced(self, axis: int, part: slice) -> Self:
        if part == slice(None):
            return self
        length = self._known(axis)
        places = range(*part.indices(length))
        if places.step == 1 or len(places) <= 1:
            start = places.start if len(places) else 0
            if start == 0 and len(places) == length:
                return self
            return self._of(self._node.apply("narrow", axis, start, len(places), name="getitem"))
        # The index of each element along the axis, from a leaf of the same graph.
        index = self._node.apply("places", len(places), places.start, places.step, name="getitem")
        return self._of(self._node.apply("take", axis, index))

    def _axes(self, op: str, axes: Axes) -> list[int]:
        """Returns axes from the start, each once."""
        if axes is None:
            return list(range(self.ndim))
        found = []
        for axis in [axes] if isinstance(axes, int) else axes:
            place = axis + self.ndim if axis < 0 else axis
            if not 0 <= place < self.ndim or place in found:
                self._refuse(op, f"axis {axis} is out of range for {self.ndim} axes, or repeated")
            found.append(place)
        return found

    def _count(self, op: str, number: Extent) -> Extent:
        if isinstance(number, int) and number < 0:
            self._refuse(op, f"{number} is negative")
        return number

    def _reduce(self, op: str, axis: Axes, keepdims: bool) -> Self:
        return self._of(self._node.apply(op, self._axes(op, axis), keepdims))

    def _wide(self, dtype: DTypeLike | None) -> Self:
        """Returns the operand of a sum: as in NumPy, sums of narrower integers and of bools have 64 bits."""
        if dtype is not None:
            return self.cast(dtype)
        if self._name in ("u8", "u32"):
            return self.cast("u64")
        return self.cast("i64") if self._name in ("bool", "i32") else self

    def sum(self, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """Adds elements. Without elements it is 0.

        :param axis: one axis, several, or all of them
        :param dtype: the type to convert to before. As in NumPy the default is a 64-bit integer for integers and bools
        :param keepdims: whether the axes stay, with length 1
        """
        return self._wide(dtype)._reduce("sum", axis, keepdims)

    def prod(self, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """Multiplies elements. The parameters are those of `sum`; without elements it is 1."""
        return self._wide(dtype)._reduce("prod", axis, keepdims)

    def mean(self, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """Returns means. The parameters are those of `sum`, but the default for integers is `f64`."""
        floats = self if self._is_float and dtype is None else self.cast(dtype or "f64")
        return floats._reduce("mean", axis, keepdims)

    def var(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns variances of floats: the mean squares of distances from the mean."""
        return self._reduce("var", axis, keepdims)

    def std(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns standard deviations of floats."""
        return self.var(axis, keepdims=keepdims).sqrt()

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns the greatest elements; NaN if one is. Without elements it is the least value of the type."""
        return self._reduce("max", axis, keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns the least elements; NaN if one is. Without elements it is the greatest value of the type."""
        return self._reduce("min", axis, keepdims)

    def argmax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns the indices of the first greatest elements, as `i64`; over several axes in row-major order."""
        return self._reduce("argmax", axis, keepdims)

    def argmin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns the indices of the first least elements, as `i64`; over several axes in row-major order."""
        return self._reduce("argmin", axis, keepdims)

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns whether an element is true or not zero."""
        return self._reduce("any", axis, keepdims)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Returns whether all elements are true or not zero."""
        return self._reduce("all", axis, keepdims)

    def softmax(self, axis: Axes = -1) -> Self:
        """Returns ``exp(x - max) / sum(exp(x - max))`` along axes."""
        return self._reduce("softmax", axis, True)

    def log_softmax(self, axis: Axes = -1) -> Self:
        """Returns the logarithm of `softmax`, accurate also for small values."""
        return self._reduce("log_softmax", axis, True)

    def cumsum(self, axis: int, *, dtype: DTypeLike | None = None) -> Self:
        """Returns running sums along an axis; `dtype` is that of `sum`."""
        return self._of(self._wide(dtype)._node.apply("cumsum", axis))

    def flip(self, axis: int) -> Self:
        """Reverses the elements along an axis."""
        return self._of(self._node.apply("flip", axis))

    def roll(self, by: int, axis: int) -> Self:
        """Rotates the elements along an axis by `by` places."""
        return self._of(self._node.apply("roll", axis, by))

    def repeat(self, times: Extent, axis: int) -> Self:
        """Repeats each element along an axis, one after the other."""
        return self._of(self._node.apply("repeat", axis, self._count("repeat", times)))

    def pad(self, axis: int, before: Extent, after: Extent, value: Number = 0) -> Self:
        """Adds elements of a value at both ends of an axis."""
        number = self._operand("pad", value)
        ends = []
        for length in (before, after):
            shape = list(self.sizes)
            shape[self._axes("pad", axis)[0]] = self._count("pad", length)
            ends.append(number.apply("broadcast_to", shape))
        return self._of(self._node.cat("pad", [ends[0], self._node, ends[1]], axis))

    def __matmul__(self, right: LazyBase) -> Self:
        """Returns the product of matrices of shapes ``[.., m, k]`` and ``[.., k, n]``, or of vectors, as NumPy."""
        if not isinstance(right, LazyBase):
            self._operand("matmul", right)
            self._refuse("matmul", "the right operand is a number: use `*`")
        if not self.ndim or not right.ndim:
            self._refuse("matmul", f"an operand has no axes, the other {list(right.sizes)}: use `*`")
        left, other = self._node, right._node
        left = left.apply("unsqueeze", 0) if self.ndim == 1 else left
        other = other.apply("unsqueeze", 1) if right.ndim == 1 else other
        node = left.apply("matmul", other)
        node = node.apply("squeeze", -1) if right.ndim == 1 else node
        if self.ndim == 1:
            node = node.apply("squeeze", -1 if right.ndim == 1 else -2)
        return self._of(node)
