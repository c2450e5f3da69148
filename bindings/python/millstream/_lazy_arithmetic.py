"""Elementwise operations of lazy buffers, with NumPy's operators and names.

Operands are broadcast as in NumPy. A number takes the type of the buffer. The types of two buffers must be equal: where
NumPy would convert, the operation is refused, because a conversion costs memory and time on a device; `astype` converts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream._errors import ArgumentError
from millstream._lazy_base import LazyBase, Number

if TYPE_CHECKING:
    from typing import Self

    from millstream._types import DTypeLike


class Arithmetic(LazyBase):
    """Operators, comparisons and functions of each element."""

    __slots__ = ()

    def _unary(self, op: str) -> Self:
        return self._of(self._node.apply(op))

    def _binary(self, op: str, other: LazyBase | Number) -> Self:
        return self._of(self._node.apply(op, self._operand(op, other)))

    def _reflected(self, op: str, other: Number) -> Self:
        """Returns a number as the left operand."""
        return self._of(self._operand(op, other))

    def __add__(self, other: LazyBase | Number) -> Self:
        return self._binary("add", other)

    def __radd__(self, other: Number) -> Self:
        return self._reflected("add", other) + self

    def __sub__(self, other: LazyBase | Number) -> Self:
        return self._binary("subtract", other)

    def __rsub__(self, other: Number) -> Self:
        return self._reflected("subtract", other) - self

    def __mul__(self, other: LazyBase | Number) -> Self:
        return self._binary("multiply", other)

    def __rmul__(self, other: Number) -> Self:
        return self._reflected("multiply", other) * self

    def __truediv__(self, other: LazyBase | Number) -> Self:
        """Divides floats.

        :raises ArgumentError: integers, which NumPy converts to `f64`: convert them by `astype`, or use ``//``
        """
        if not self._is_float:
            self._refuse("divide", "quotients of integers are floats: `astype` both to `f32` or `f64`, or use `//`")
        return self._binary("divide", other)

    def __rtruediv__(self, other: Number) -> Self:
        if not self._is_float:
            self._refuse("divide", "quotients of integers are floats: `astype` it to `f32` or `f64`, or use `//`")
        return self._reflected("divide", other) / self

    def __floordiv__(self, other: LazyBase | Number) -> Self:
        """Divides and rounds towards minus infinity. An integer divided by zero is 0."""
        divisor = self._of(self._operand("floor_divide", other))
        rest = self._of(self._node.apply("remainder", divisor._node))
        differs = rest._differs_in_sign(divisor)
        if self._is_float:
            # As NumPy: from the remainder, which is exact, rather than from a rounded quotient.
            quotient = (self - rest) / divisor
            quotient = differs._choose(quotient - 1, quotient)
            floor = quotient.floor()
            floor = (quotient - floor > 0.5)._choose(floor + 1, floor)
            return divisor._binary("equal", 0)._choose(self / divisor, floor)
        quotient = self._of(self._node.apply("divide", divisor._node))
        return differs._choose(quotient - 1, quotient)

    def __rfloordiv__(self, other: Number) -> Self:
        return self._reflected("floor_divide", other) // self

    def __mod__(self, other: LazyBase | Number) -> Self:
        """Returns the remainder of ``//``, with the sign of the divisor. That of an integer by zero is 0."""
        divisor = self._of(self._operand("remainder", other))
        rest = self._of(self._node.apply("remainder", divisor._node))
        return rest._differs_in_sign(divisor)._choose(rest + divisor, rest)

    def _differs_in_sign(self, divisor: Self) -> Self:
        """Returns where a remainder is not zero, and has not the sign of the divisor."""
        return self._binary("not_equal", 0) & ((self < 0) != (divisor < 0))

    def __rmod__(self, other: Number) -> Self:
        return self._reflected("remainder", other) % self

    def fmod(self, other: LazyBase | Number) -> Self:
        """Returns the remainder with the sign of the dividend."""
        return self._of(self._node.apply("remainder", self._operand("fmod", other)))

    def __pow__(self, other: LazyBase | Number) -> Self:
        """Raises floats to a power, and integers to a power that is a Python integer of at least 0."""
        if not isinstance(other, LazyBase) and other == 2:
            return self * self
        if self._is_float:
            return self._binary("power", other)
        if isinstance(other, bool) or not isinstance(other, int) or other < 0:
            self._refuse("power", "powers of integers take a Python integer of at least 0: `astype` to `f32` or `f64`")
        result, square = self._of(self._operand("power", 1)), self
        while other:
            if other & 1:
                result = result * square
            other >>= 1
            square = square * square if other else square
        return result._of(result._node.apply("broadcast_to", self.sizes))

    def __rpow__(self, other: Number) -> Self:
        return self._reflected("power", other) ** self

    def __and__(self, other: LazyBase | Number) -> Self:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Number) -> Self:
        return self._reflected("bitwise_and", other) & self

    def __or__(self, other: LazyBase | Number) -> Self:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Number) -> Self:
        return self._reflected("bitwise_or", other) | self

    def __xor__(self, other: LazyBase | Number) -> Self:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Number) -> Self:
        return self._reflected("bitwise_xor", other) ^ self

    def __lshift__(self, other: LazyBase | Number) -> Self:
        return self._binary("left_shift", other)

    def __rlshift__(self, other: Number) -> Self:
        return self._reflected("left_shift", other) << self

    def __rshift__(self, other: LazyBase | Number) -> Self:
        return self._binary("right_shift", other)

    def __rrshift__(self, other: Number) -> Self:
        return self._reflected("right_shift", other) >> self

    def __eq__(self, other: LazyBase | Number) -> Self:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._binary("equal", other)

    def __ne__(self, other: LazyBase | Number) -> Self:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._binary("not_equal", other)

    # A class with `__eq__` has no hash otherwise. Buffers are keys of the inputs of a run, by identity.
    __hash__ = LazyBase.__hash__

    def __lt__(self, other: LazyBase | Number) -> Self:
        return self._binary("less", other)

    def __le__(self, other: LazyBase | Number) -> Self:
        return self._binary("less_equal", other)

    def __gt__(self, other: LazyBase | Number) -> Self:
        return self._binary("greater", other)

    def __ge__(self, other: LazyBase | Number) -> Self:
        return self._binary("greater_equal", other)

    def __neg__(self) -> Self:
        return self._unary("negative")

    def __pos__(self) -> Self:
        return self

    def __invert__(self) -> Self:
        return self._unary("invert")

    def __abs__(self) -> Self:
        return self._unary("abs")

    def minimum(self, other: LazyBase | Number) -> Self:
        """Returns the smaller of two elements; NaN if either is."""
        return self._binary("minimum", other)

    def maximum(self, other: LazyBase | Number) -> Self:
        """Returns the greater of two elements; NaN if either is."""
        return self._binary("maximum", other)

    def clip(self, least: LazyBase | Number, most: LazyBase | Number) -> Self:
        """Limits each element to a range. NaN stays NaN."""
        return self.maximum(least).minimum(most)

    def arctan2(self, x: LazyBase | Number) -> Self:
        """Returns the angle of the point ``(x, self)``, in radians from -pi to pi."""
        return self._binary("arctan2", x)

    def abs(self) -> Self:
        return self._unary("abs")

    def sqrt(self) -> Self:
        return self._unary("sqrt")

    def exp(self) -> Self:
        return self._unary("exp")

    def expm1(self) -> Self:
        return self._unary("expm1")

    def log(self) -> Self:
        return self._unary("log")

    def log1p(self) -> Self:
        return self._unary("log1p")

    def sin(self) -> Self:
        return self._unary("sin")

    def cos(self) -> Self:
        return self._unary("cos")

    def tanh(self) -> Self:
        return self._unary("tanh")

    def erf(self) -> Self:
        """Returns the error function of each element."""
        return self._unary("erf")

    def floor(self) -> Self:
        return self if not self._is_float else self._unary("floor")

    def ceil(self) -> Self:
        return self if not self._is_float else self._unary("ceil")

    def round(self) -> Self:
        """Rounds to the nearest integer; ties go to the even one."""
        return self._unary("round")

    def sign(self) -> Self:
        """Returns -1, 0 or 1, or NaN."""
        return self._unary("sign")

    def square(self) -> Self:
        return self * self

    def isnan(self) -> Self:
        return self._unary("isnan")

    def relu(self) -> Self:
        """Returns each element, or 0 if it is negative."""
        return self._unary("relu")

    def sigmoid(self) -> Self:
        """Returns ``1 / (1 + exp(-x))``."""
        return self._unary("sigmoid")

    def silu(self) -> Self:
        """Returns ``x * sigmoid(x)``."""
        return self._unary("silu")

    def gelu(self) -> Self:
        """Returns ``x / 2 * (1 + erf(x / sqrt(2)))``."""
        return self._unary("gelu")

    def cast(self, dtype: DTypeLike) -> Self:
        """Converts the elements. Floats to integers round towards 0 and saturate, and NaN becomes 0; integers to narrower
        ones keep the low bits; to `bool_` everything but zero is true."""
        return self._of(self._node.apply("cast", dtype))

    def astype(self, dtype: DTypeLike) -> Self:
        """As `cast`."""
        return self.cast(dtype)

    def _choose(self, yes: Self, no: Self) -> Self:
        return self._of(self._node.apply("where", yes._node, no._node))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Makes ``numpy.exp(x)`` a node, and refuses arrays of NumPy as operands."""
        name = UFUNCS.get(ufunc.__name__)
        if name is None or method != "__call__" or options:
            self._refuse(f"numpy.{ufunc.__name__}", "graphs have no such operation")
        first, *others = inputs
        if not isinstance(first, LazyBase):
            first = self._reflected(ufunc.__name__, first)
        return getattr(first, name)(*others)


UFUNCS = {
    "add": "__add__", "subtract": "__sub__", "multiply": "__mul__", "divide": "__truediv__",
    "true_divide": "__truediv__", "floor_divide": "__floordiv__", "remainder": "__mod__", "fmod": "fmod",
    "power": "__pow__", "bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__",
    "left_shift": "__lshift__", "right_shift": "__rshift__", "equal": "__eq__", "not_equal": "__ne__",
    "less": "__lt__", "less_equal": "__le__", "greater": "__gt__", "greater_equal": "__ge__",
    "negative": "__neg__", "positive": "__pos__", "invert": "__invert__", "absolute": "abs", "matmul": "__matmul__",
    "minimum": "minimum", "maximum": "maximum", "arctan2": "arctan2", "sqrt": "sqrt", "exp": "exp", "expm1": "expm1",
    "log": "log", "log1p": "log1p", "sin": "sin", "cos": "cos", "tanh": "tanh", "floor": "floor", "ceil": "ceil",
    "rint": "round", "sign": "sign", "square": "square", "isnan": "isnan",
}  # fmt: skip
"""The functions of NumPy that take lazy buffers, and the methods that they are."""


def choose(condition: LazyBase, yes: LazyBase | Number, no: LazyBase | Number) -> LazyBase:
    """Returns `yes` where the condition is true, and `no` elsewhere."""
    typed = yes if isinstance(yes, LazyBase) else no
    if not isinstance(condition, LazyBase):
        raise ArgumentError("`where`: the condition must be a lazy buffer of bool, such as `x > 0`")
    if not isinstance(typed, LazyBase):
        condition._refuse("where", "two numbers have no type: make one of them a node by `graph.constant(..)`")
    node = condition._node.apply("where", typed._operand("where", yes), typed._operand("where", no))
    return typed._of(node)
