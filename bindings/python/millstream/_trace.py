"""Builds a function of the IR as text, while a Python function of one thread runs once.

The compiled module parses and checks the text, so this has the rules only as far as an error should name the line of
the caller. Every statement remembers its line, for the errors of the check.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from millstream._errors import TraceError
from millstream._values import Value

if TYPE_CHECKING:
    from millstream._types import Array, bool_

V = TypeVar("V", bound=Value)

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")
_FLOAT_ONLY = frozenset(("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil", "pow"))
_INTEGER_ONLY = frozenset(("shl", "shr"))
_BITWISE = frozenset(("and", "or", "xor", "not"))
_ANY_COMPUTED = frozenset(("min", "max"))


class _Block:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.computed: dict[tuple[str, str], int] = {}


class _State(threading.local):
    builder: Builder | None = None


_state = _State()


def current() -> Builder:
    """Returns the builder of the kernel that this thread traces."""
    if _state.builder is None:
        raise TraceError("this is a function of kernels; call it inside of a function with `@millstream.kernel`")
    return _state.builder


class Builder:
    """The function under construction."""

    def __init__(self, name: str, threads: tuple[int, int, int]) -> None:
        self.name = name
        self.threads = threads
        self.head: list[str] = []
        self.names: set[str] = set()
        self.open: list[_Block] = [_Block()]
        self.number = 0
        self.places: dict[str, str] = {}
        self.broken: TraceError | None = None
        self.condition: Value | None = None

    def __enter__(self) -> Builder:
        if _state.builder is not None:
            raise TraceError(f"kernel `{self.name}` is traced inside of kernel `{_state.builder.name}`")
        _state.builder = self
        return self

    def __exit__(self, *_: object) -> None:
        _state.builder = None

    # Errors.

    def place(self) -> str:
        """Returns the file and line of the caller outside of this package."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def error(self, why: str) -> TraceError:
        """Returns an error that names the caller's line."""
        return TraceError(f"{self.place()}: kernel `{self.name}`: {why}")

    def not_traced(self, function: Any, method: str = "__call__") -> TraceError:
        """Returns the error for a function of NumPy that was called with a value or an array of the kernel."""
        from millstream import ir

        name = function.__name__
        called = f"numpy.{name}" if method == "__call__" else f"numpy.{name}.{method}"
        use = f"use `ir.{name}`" if name in ir.__all__ else "use the operators and the functions of `ir`"
        return self.error(f"`{called}` cannot be traced; {use}, element by element")

    # Text.

    def text(self) -> str:
        """Returns the whole function."""
        if self.broken is not None:
            raise self.broken
        x, y, z = self.threads
        head = "".join(f"  {line}\n" for line in self.head)
        body = "\n".join(self.open[0].lines)
        return f"kernel {self.name} threads {x} {y} {z}\n{head}{{\n{body}\n}}\n"

    def declare(self, kind: str, name: str, dtype: str, length: int | None = None) -> str:
        """Adds a line of the head; appends a number to a name that is taken."""
        unique, count = name, 1
        while unique in self.names:
            count += 1
            unique = f"{name}_{count}"
        self.names.add(unique)
        suffix = "" if length is None else f"[{length}]"
        self.head.append(f"{kind} {unique}: {dtype}{suffix}")
        return unique

    def emit(self, line: str) -> None:
        """Adds a statement, or the first line of one."""
        self.places.setdefault(line.removesuffix(" {"), self.place())
        self.open[-1].lines.append("  " * len(self.open) + line)

    def begin(self, line: str) -> None:
        """Begins a statement with a block."""
        self.emit(line)
        self.open.append(_Block())

    def end(self) -> None:
        """Ends the innermost block."""
        block = self.open.pop()
        self.open[-1].lines.extend(block.lines)
        self.open[-1].lines.append("  " * len(self.open) + "}")

    def value(self, dtype: type[V], op: str, pure: bool = True) -> V:
        """Returns the value of an operation; an equal one if that is computed already."""
        key = (dtype._dtype, op)
        if pure:
            for block in reversed(self.open):
                if key in block.computed:
                    return dtype(self, block.computed[key])
        number = self.fresh()
        self.emit(f"%{number}: {dtype._dtype} = {op}")
        if pure:
            self.open[-1].computed[key] = number
        return dtype(self, number)

    def fresh(self) -> int:
        """Returns the number of a new value."""
        self.number += 1
        return self.number - 1

    # Operands.

    def number_of(self, value: Value) -> int:
        """Returns the number of a value of this kernel."""
        if value._builder is not self:
            raise self.error(f"a value of kernel `{value._builder.name}` is used")
        return value._number

    def operand(self, value: object, dtype: type[V]) -> V:
        """Returns a value of this type; a Python number becomes a constant."""
        if isinstance(value, Value):
            if type(value) is not dtype:
                given = type(value)._dtype
                raise self.error(f"expected a value of {dtype._dtype}, got {given}; convert it with `ir.cast`")
            self.number_of(value)
            return value
        return self.constant(value, dtype)

    def constant(self, value: object, dtype: type[V]) -> V:
        """Returns a constant of this type."""
        name = dtype._dtype
        if isinstance(value, np.generic):
            value = value.item()
        if name == "bool":
            if not isinstance(value, bool):
                raise self.error(f"expected a bool, got {value!r}")
            return self.value(dtype, f"const {str(value).lower()}")
        if not isinstance(value, (int, float)):
            raise self.error(f"expected a value or a number of {name}, got {type(value).__name__}")
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
        self.check_takes(op, value)
        return self.value(type(value), f"{op} %{self.number_of(value)}")

    def binary(self, op: str, dtype: type[V], a: object, b: object) -> V:
        """Applies an operation to two values of a type."""
        left, right = self.operand(a, dtype), self.operand(b, dtype)
        self.check_takes(op, left)
        return self.value(dtype, f"{op} %{left._number} %{right._number}")

    def compare(self, op: str, value: V, other: object) -> bool_:
        """Compares two values."""
        from millstream._types import bool_

        right = self.operand(other, type(value))
        if value._dtype in _HALVES:
            self.check_takes(op, value)
        return self.value(bool_, f"{op} %{self.number_of(value)} %{right._number}")

    def true_divide(self, dtype: type[V], a: object, b: object) -> V:
        """Divides floats."""
        if dtype._dtype not in _FLOATS and dtype._dtype not in _HALVES:
            raise self.error("`/` takes floats; use `//` for integers, or cast them to f32")
        return self.binary("div", dtype, a, b)

    def floor_divide(self, dtype: type[V], a: object, b: object) -> V:
        """Divides, rounding towards minus infinity."""
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

        chosen = self.operand(condition, bool_)
        left, right = self.operand(a, dtype), self.operand(b, dtype)
        return self.value(dtype, f"select %{chosen._number} %{left._number} %{right._number}")

    # Memory.

    def index(self, index: object) -> str:
        """Returns the text of an index: an integer of any type becomes an `i64`."""
        from millstream._types import i64

        if isinstance(index, Value) and type(index)._dtype in ("i32", "u32", "i16", "u16", "i8", "u8", "u64"):
            index = self.value(i64, f"cast %{self.number_of(index)}")
        return f"[%{self.operand(index, i64)._number}]"

    def load(self, array: Array[V], index: object) -> V:
        """Loads an element."""
        return self.value(array.dtype, f"load {array._name}{self.index(index)}", pure=False)

    def store(self, array: Array[Any], index: object, value: object) -> None:
        """Stores an element."""
        at = self.index(index)
        self.emit(f"store {array._name}{at} = %{self.operand(value, array.dtype)._number}")

    def atomic_add(self, array: Array[Any], index: object, value: object) -> None:
        """Adds to an element atomically."""
        at = self.index(index)
        self.emit(f"add {array._name}{at} += %{self.operand(value, array.dtype)._number}")
