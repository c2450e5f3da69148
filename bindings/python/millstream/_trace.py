"""Builds a function of the IR as text, while a Python function of one thread runs once: its operations.

The compiled module parses and checks the text, so this has the rules only as far as an error should name the line of
the caller.
"""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from millstream._errors import TraceError
from millstream._statements import Statements
from millstream._values import Untyped, UntypedFloat, UntypedInt, Value

if TYPE_CHECKING:
    from millstream._arrays import Array
    from millstream._types import bool_, i64

V = TypeVar("V", bound=Value)

_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")
_FLOAT_ONLY = frozenset(("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil", "pow"))
_INTEGER_ONLY = frozenset(("shl", "shr"))
_BITWISE = frozenset(("and", "or", "xor", "not"))
_ANY_COMPUTED = frozenset(("min", "max"))


class _State(threading.local):
    builder: Builder | None = None


_state = _State()


def current() -> Builder:
    """Returns the builder of the kernel that this thread traces."""
    if _state.builder is None:
        raise TraceError("this is a function of kernels; call it inside of a function with `@millstream.kernel`")
    return _state.builder


def is_tracing() -> bool:
    """Returns whether this thread traces a kernel."""
    return _state.builder is not None


class Builder(Statements):
    """The function under construction."""

    def __enter__(self) -> Builder:
        if _state.builder is not None:
            raise TraceError(f"kernel `{self.name}` is traced inside of kernel `{_state.builder.name}`")
        _state.builder = self
        return self

    def __exit__(self, *_: object) -> None:
        _state.builder = None

    # Operands.

    def value(self, dtype: type[V], op: str, pure: bool = True) -> V:
        """Returns the value of an operation; an equal one if that is computed already."""
        key = (dtype._dtype, op)
        if pure:
            for block in reversed(self.open):
                if key in block.computed:
                    return dtype._of(self, block.computed[key])
        number = self.fresh()
        self.emit(f"%{number}: {dtype._dtype} = {op}", pure)
        if pure:
            self.open[-1].computed[key] = number
        return dtype._of(self, number)

    def number_of(self, value: Value) -> int:
        """Returns the number of a value of this kernel."""
        if value._builder is not self:
            raise self.error(f"a value of kernel `{value._builder.name}` is used")
        return value._number

    def operand(self, value: object, dtype: type[V]) -> V:
        """Returns a value of this type; a Python number becomes a constant."""
        if isinstance(value, Untyped):
            return value.take(dtype)
        if not isinstance(value, Value):
            return self.constant(value, dtype)
        number = self.number_of(value)
        if value._dtype == dtype._dtype:
            return dtype._of(self, number)
        if value._is_python and dtype._dtype != "bool":
            return self.value(dtype, f"cast %{number}")
        raise self.error(f"expected a value of {dtype._dtype}, got {value._dtype}; convert it, as in `ms.{dtype.__name__}(..)`")

    def common(self, *operands: object) -> type[Value]:
        """Returns the type in which operands meet: that of the first one that has its own. A counter that began as a
        Python number gives way, and one whose type is open gets a type here if no other has any."""
        from millstream._types import bool_, counter, f32

        values = [operand for operand in operands if isinstance(operand, Value)]
        for value in values:
            if not value._is_python:
                return type(value)
        if any(isinstance(value, counter) for value in values):
            return counter
        numbers = [operand for operand in operands if not isinstance(operand, Value)]
        has_float = any(isinstance(each, (float, np.floating)) for each in numbers)
        has_float = has_float or any(isinstance(value, UntypedFloat) for value in values)
        if values and all(isinstance(value, Untyped) and value.is_open for value in values):
            return UntypedFloat if has_float else UntypedInt
        if not values and numbers and all(isinstance(number, (bool, np.bool_)) for number in numbers):
            return bool_
        return f32 if has_float else counter

    def settled(self, value: object) -> Any:
        """Returns a value with a type: the default one if it has none yet."""
        if isinstance(value, Untyped):
            kind = self.common(value)
            return value if issubclass(kind, Untyped) else value.take(kind)
        if not isinstance(value, Value):
            raise self.error(f"expected a value of the kernel, got {value!r}; give it a type: `ms.f32({value!r})`")
        return value

    def meet(self, dtype: type[V], *operands: object) -> type[V]:
        """Returns the type of an operation: `dtype`, unless that of another operand has precedence."""
        return self.common(*operands) if dtype._is_python else dtype  # type: ignore[return-value]

    def open_value(self, dtype: type[V]) -> V:
        """Returns a number whose type is open, while a loop is traced to find it."""
        value = dtype._of(self, 0)
        assert isinstance(value, Untyped)
        value.taken = lambda taken: self.value(taken, "untyped", pure=False)
        value.is_open = True
        return value

    def constant(self, value: object, dtype: type[V]) -> V:
        """Returns a constant of this type."""
        name = dtype._dtype
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            if hasattr(value, "why"):
                raise self.error(value.why)
            raise self.error(f"expected a value or a number of {name}, got {type(value).__name__}")
        if name == "bool":
            if not isinstance(value, bool):
                raise self.error(f"expected a bool, got {value!r}")
            return self.value(dtype, f"const {str(value).lower()}")
        if name in _FLOATS:
            try:
                packed = struct.pack("<f" if name == "f32" else "<d", value)
            except OverflowError:
                packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
            return self.value(dtype, f"const {int.from_bytes(packed, 'little'):#x}")
        if name in _HALVES:
            raise self.error(f"there are no constants of {name}: cast one of f32 to it")
        if not isinstance(value, int):
            raise self.error(f"{value!r} is no {name}; use an integer, or cast the other operand to f32")
        bits = 8 * dtype.itemsize
        low, high = (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= value <= high:
            raise self.error(f"{value} is outside of the range of {name}, {low} to {high}")
        return self.value(dtype, f"const {value % 2**bits:#x}")

    def converted(self, value: object, dtype: type[V]) -> V:
        """Converts a value or a number to a type."""
        if not isinstance(value, Value):
            if dtype._dtype in _HALVES:
                from millstream._types import f32

                value = self.constant(value, f32)
            else:
                return self.constant(value, dtype)
        if isinstance(value, Untyped):
            whole = isinstance(value, UntypedFloat) and dtype._dtype[0] in "iu"
            return self.converted(self.settled(value), dtype) if whole else value.take(dtype)
        number = self.number_of(value)
        return dtype._of(self, number) if value._dtype == dtype._dtype else self.value(dtype, f"cast %{number}")

    # Operations.

    def check_takes(self, op: str, value: Value) -> None:
        """Raises if an operation does not take values of this type."""
        name = type(value)._dtype
        is_float, is_bool = name in _FLOATS, name == "bool"
        if name in _HALVES:
            raise self.error(f"{name} is only stored and cast; use `ir.cast(value, ms.f32)` to compute")
        if op in _FLOAT_ONLY:
            fits, need = is_float, "f32 or f64"
        elif op in _BITWISE:
            fits, need = not is_float, "an integer or a bool"
        elif op in _INTEGER_ONLY:
            fits, need = not is_float and not is_bool, "an integer"
        elif op in _ANY_COMPUTED:
            fits, need = True, ""
        else:
            fits, need = not is_bool, "a number"
        if not fits:
            raise self.error(f"`{op}` takes {need}, got {name}; convert it with `ir.cast`")

    def unary(self, op: str, value: V) -> V:
        """Applies an operation to one value."""
        value = self.settled(value)
        if isinstance(value, Untyped):
            return self.open_value(UntypedFloat if op in _FLOAT_ONLY else type(value))  # type: ignore[return-value]
        self.check_takes(op, value)
        return self.value(type(value), f"{op} %{self.number_of(value)}")

    def binary(self, op: str, dtype: type[V], a: object, b: object) -> V:
        """Applies an operation to two values of a type."""
        dtype = self.meet(dtype, a, b)
        if issubclass(dtype, Untyped):
            return self.open_value(dtype)
        left, right = self.operand(a, dtype), self.operand(b, dtype)
        self.check_takes(op, left)
        return self.value(dtype, f"{op} %{left._number} %{right._number}")

    def compare(self, op: str, value: Value, other: object) -> bool_:
        """Compares two values."""
        from millstream._types import bool_

        dtype = self.meet(type(value), value, other)
        if issubclass(dtype, Untyped):
            return self.value(bool_, "untyped", pure=False)
        left, right = self.operand(value, dtype), self.operand(other, dtype)
        if left._dtype in _HALVES:
            self.check_takes(op, left)
        return self.value(bool_, f"{op} %{left._number} %{right._number}")

    def true_divide(self, dtype: type[V], a: object, b: object) -> V:
        """Divides floats."""
        dtype = self.meet(dtype, a, b)
        if issubclass(dtype, Untyped):
            return self.open_value(UntypedFloat)  # type: ignore[return-value]
        if dtype._dtype not in _FLOATS and dtype._dtype not in _HALVES:
            raise self.error("`/` takes floats; use `//` for integers, or cast them to f32")
        return self.binary("div", dtype, a, b)

    def floor_divide(self, dtype: type[V], a: object, b: object) -> V:
        """Divides, rounding towards minus infinity."""
        dtype = self.meet(dtype, a, b)
        if issubclass(dtype, Untyped):
            return self.open_value(dtype)
        name = dtype._dtype
        if name in _FLOATS:
            return self.unary("floor", self.binary("div", dtype, a, b))
        if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
            return self.binary("shr", dtype, a, b.bit_length() - 1)
        quotient = self.binary("div", dtype, a, b)
        if name.startswith("u"):
            return quotient
        rest = self.binary("rem", dtype, a, b)
        return self.select(dtype, self.signs_differ(rest, b), quotient - 1, quotient)

    def modulo(self, dtype: type[V], a: object, b: object) -> V:
        """Returns the remainder with the sign of the divisor."""
        dtype = self.meet(dtype, a, b)
        if issubclass(dtype, Untyped):
            return self.open_value(dtype)
        name = dtype._dtype
        if name not in _FLOATS and isinstance(b, int) and b > 0 and b & (b - 1) == 0:
            return self.binary("and", dtype, a, b - 1)
        rest = self.binary("rem", dtype, a, b)
        if name.startswith("u"):
            return rest
        return self.select(dtype, self.signs_differ(rest, b), self.binary("add", dtype, rest, b), rest)

    def signs_differ(self, rest: Value, divisor: object) -> bool_:
        """Returns whether a remainder is not zero and has not the sign of the divisor."""
        negative = self.compare("lt", self.operand(divisor, type(rest)), 0)
        return (rest != 0) & ((rest < 0) ^ negative)

    def select(self, dtype: type[V], condition: object, a: object, b: object) -> V:
        """Returns one of two values."""
        from millstream._types import bool_

        dtype = self.meet(dtype, a, b)
        if issubclass(dtype, Untyped):
            return self.open_value(dtype)
        chosen = self.operand(condition, bool_)
        left, right = self.operand(a, dtype), self.operand(b, dtype)
        return self.value(dtype, f"select %{chosen._number} %{left._number} %{right._number}")

    # Memory.

    def position(self, index: object) -> i64:
        """Returns an index or a length: an integer of any type becomes an `i64`."""
        from millstream._types import i64

        if isinstance(index, Value) and index._dtype in ("i32", "u32", "i16", "u16", "i8", "u8", "u64"):
            return self.value(i64, f"cast %{self.number_of(index)}")
        return self.operand(index, i64)

    def index(self, array: Array[Any], index: object) -> str:
        """Returns the text of the index of an element: of one index for each axis."""
        axes = index if isinstance(index, tuple) else (index,)
        if len(axes) != array.ndim:
            raise self.error(f"`{array._name}` has {array.ndim} axes, got {len(axes)} indices")
        for each in axes:
            if isinstance(each, int) and each < 0:
                raise self.error(f"index {each} is negative; count from the end with `{array._name}.shape`")
            if isinstance(each, slice):
                raise self.error("a kernel accesses single elements, got a slice; loop over its indices")
        place: Any = self.position(axes[0])
        for axis in range(1, array.ndim):
            place = place * array._extent(axis) + self.position(axes[axis])
        return f"[%{place._number}]"

    def load(self, array: Array[V], index: object) -> V:
        """Loads an element."""
        return self.value(array.dtype, f"load {array._name}{self.index(array, index)}", pure=False)

    def store(self, array: Array[Any], index: object, value: object) -> None:
        """Stores an element."""
        at = self.index(array, index)
        self.emit(f"store {array._name}{at} = %{self.operand(value, array.dtype)._number}")

    def atomic(self, array: Array[V], op: str, index: object, *values: object) -> V:
        """An atomic operation on an element; returns what the element was before."""
        operands = "".join(f" %{self.operand(value, array.dtype)._number}" for value in values)
        at = self.index(array, index)
        return self.value(array.dtype, f"atomic {op} {array._name}{at}{operands}", pure=False)
