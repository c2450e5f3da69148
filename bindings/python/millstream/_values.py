"""Values of a kernel while it is traced. Each operator adds an operation to the function under construction."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

    from millstream._trace import Builder
    from millstream._types import bool_

    Number = int | float

V = TypeVar("V", bound="Value")

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "left_shift": operator.lshift, "right_shift": operator.rshift, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip


class Value:
    """A value of one thread of a kernel. Kernels receive values and compute with them; programs never make one.

    Operators work as in Python: ``//`` and ``%`` round towards minus infinity, and ``/`` is for floats. A Python number
    takes the type of the value that it meets. Values of two types do not mix: ``ms.f32(i)`` converts.
    """

    _dtype: ClassVar[str]
    itemsize: ClassVar[int]
    """The size of an element, in bytes."""
    dtype: ClassVar[np.dtype[Any]]
    """The type of NumPy: ``numpy.dtype(ms.f32)``."""

    _builder: Builder
    _number: int
    _is_python: ClassVar[bool] = False
    """Whether the value began as a Python number, and takes the type of the value that it meets."""

    def __init__(self, value: Value | Number) -> None:
        """Converts a number or a value to this type, inside of a kernel: ``ms.f32(0)``, ``ms.i32(x[i])``."""
        from millstream._trace import current

        self._builder = current()
        self._number = self._builder.converted(value, type(self))._number

    @classmethod
    def _of(cls, builder: Builder, number: int) -> Self:
        """Returns the value with a number."""
        value = object.__new__(cls)
        value._builder, value._number = builder, number
        return value

    def __init_subclass__(cls, *, name: str | None = None, itemsize: int = 0) -> None:
        super().__init_subclass__()
        # A subclass of an element type, which a program may make, is the same type.
        if name is not None:
            cls._dtype, cls.itemsize = name, itemsize

    def __add__(self, other: Self | Number) -> Self:
        return self._builder.binary("add", type(self), self, other)

    def __radd__(self, other: Number) -> Self:
        return self._builder.binary("add", type(self), other, self)

    def __sub__(self, other: Self | Number) -> Self:
        return self._builder.binary("sub", type(self), self, other)

    def __rsub__(self, other: Number) -> Self:
        return self._builder.binary("sub", type(self), other, self)

    def __mul__(self, other: Self | Number) -> Self:
        return self._builder.binary("mul", type(self), self, other)

    def __rmul__(self, other: Number) -> Self:
        return self._builder.binary("mul", type(self), other, self)

    def __truediv__(self, other: Self | Number) -> Self:
        return self._builder.true_divide(type(self), self, other)

    def __rtruediv__(self, other: Number) -> Self:
        return self._builder.true_divide(type(self), other, self)

    def __floordiv__(self, other: Self | Number) -> Self:
        return self._builder.floor_divide(type(self), self, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return self._builder.floor_divide(type(self), other, self)

    def __mod__(self, other: Self | Number) -> Self:
        return self._builder.modulo(type(self), self, other)

    def __rmod__(self, other: Number) -> Self:
        return self._builder.modulo(type(self), other, self)

    def __pow__(self, other: Self | Number) -> Self:
        return self._builder.binary("pow", type(self), self, other)

    def __rpow__(self, other: Number) -> Self:
        return self._builder.binary("pow", type(self), other, self)

    def __and__(self, other: Self | int) -> Self:
        return self._builder.binary("and", type(self), self, other)

    def __or__(self, other: Self | int) -> Self:
        return self._builder.binary("or", type(self), self, other)

    def __xor__(self, other: Self | int) -> Self:
        return self._builder.binary("xor", type(self), self, other)

    def __lshift__(self, other: Self | int) -> Self:
        return self._builder.binary("shl", type(self), self, other)

    def __rshift__(self, other: Self | int) -> Self:
        return self._builder.binary("shr", type(self), self, other)

    def __neg__(self) -> Self:
        return self._builder.unary("neg", self)

    def __abs__(self) -> Self:
        return self._builder.unary("abs", self)

    def __invert__(self) -> Self:
        return self._builder.unary("not", self)

    def __lt__(self, other: Self | Number) -> bool_:
        return self._builder.compare("lt", self, other)

    def __le__(self, other: Self | Number) -> bool_:
        return self._builder.compare("le", self, other)

    def __gt__(self, other: Self | Number) -> bool_:
        return self._builder.compare("gt", self, other)

    def __ge__(self, other: Self | Number) -> bool_:
        return self._builder.compare("ge", self, other)

    def __eq__(self, other: object) -> bool_:  # type: ignore[override]
        return self._builder.compare("eq", self, other)

    def __ne__(self, other: object) -> bool_:  # type: ignore[override]
        return self._builder.compare("ne", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise self._builder.no_python_value(
            "a value of a thread is not known while the kernel is traced",
            "use `ir.select(condition, a, b)`, or `with ir.when(condition):`, and `&`, `|`, `~` in place of `and`, "
            "`or`, `not`",
        )

    def __index__(self) -> int:
        raise self._builder.no_python_value(
            "a value of a thread is no Python integer", "loop with `for i in range(..):`"
        )

    def __float__(self) -> float:
        raise self._builder.no_python_value(
            "a value of a thread is no Python float", "use the functions of `ir`, and `ms.f32(value)` to convert"
        )

    def __iter__(self) -> Any:
        raise self._builder.error("a value of a thread is a number and cannot be iterated")

    def __len__(self) -> int:
        raise self._builder.error("a value of a thread is a number and has no length")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._builder.error("a value of a thread is no array of NumPy")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # A number of NumPy on the left of an operator comes here.
        operate = _OPERATORS.get(function.__name__)
        if method == "__call__" and operate is not None and not options and len(inputs) == 2:
            return operate(*(value.item() if isinstance(value, np.generic) else value for value in inputs))
        raise self._builder.not_traced(function, method)

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise self._builder.not_traced(function)

    def __format__(self, spec: str) -> str:
        from millstream._say import mark

        return mark(self._builder, self, spec)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} %{self._number} of kernel {self._builder.name}>"


class Untyped(Value):
    """A number that is written without a type, such as ``0.5``, and of which the device decides the value: a variable that
    is 0.5 on one path and 2 on another. It takes the type of the value that it meets first, as a Python number does."""

    _is_python = True
    taken: Callable[[type[Any]], Any]
    """Makes it a value of a type."""
    is_open = False
    """Whether its type is open because the loop around it is traced to find the types of its variables."""

    def take(self, dtype: type[V]) -> V:
        """Returns it as a value of this type."""
        if issubclass(dtype, Untyped):
            return dtype._of(self._builder, 0)
        if isinstance(self, UntypedFloat) and dtype._dtype[0] in "iu":
            raise self._builder.error(f"expected a value of {dtype._dtype}, got a float; convert it, as in `ms.{dtype.__name__}(..)`")
        value: V = self.taken(dtype)
        return value


class UntypedInt(Untyped, name="int"):
    """An integer."""


class UntypedFloat(Untyped, name="float"):
    """A float."""
