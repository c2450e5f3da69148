"""What a kernel that is written in Python may call: positions, functions of values, control flow, memory of a cube.

The names are those of ``millstream::ir`` in Rust. Indices, lengths and positions are ``i64`` and count elements.

    import millstream as ms
    from millstream import ir

    @ms.kernel
    def saxpy(x: ms.Read[ms.f32], y: ms.Update[ms.f32], a: ms.f32, n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            y[i] = a * x[i] + y[i]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeVar, overload

from millstream._trace import current
from millstream._types import Update, bool_, i64, u32, u64
from millstream._values import Value

__all__ = [
    "Axis", "Var", "barrier", "bits", "cast", "ceil", "constant", "cos", "count", "cube", "cubes", "div", "erf", "exp",
    "floor", "fma", "index", "local", "log", "max", "min", "otherwise", "random", "range", "reduce", "reduce_row", "rem",
    "select", "shared", "sin", "sqrt", "tanh", "thread", "threads", "unrolled", "var", "when", "where",
]  # fmt: skip

V = TypeVar("V", bound=Value)

Axis = Literal["x", "y", "z"]
Reduction = Literal["sum", "prod", "min", "max"]


def thread(axis: Axis = "x") -> i64:
    """Returns the index of the thread in its cube."""
    return current().value(i64, f"thread {axis}")


def threads(axis: Axis = "x") -> i64:
    """Returns the number of threads of a cube."""
    return current().value(i64, f"threads {axis}")


def cube(axis: Axis = "x") -> i64:
    """Returns the index of the thread's cube in the launch."""
    return current().value(i64, f"cube {axis}")


def cubes(axis: Axis = "x") -> i64:
    """Returns the number of cubes of the launch."""
    return current().value(i64, f"cubes {axis}")


def index(axis: Axis = "x") -> i64:
    """Returns the index of the thread in the launch."""
    return cube(axis) * threads(axis) + thread(axis)


def count(axis: Axis = "x") -> i64:
    """Returns the number of threads of the launch: the step of a loop that starts at `index`."""
    return cubes(axis) * threads(axis)


def constant(value: int | float | bool, dtype: type[V]) -> V:
    """Returns a constant of this type."""
    return current().constant(value, dtype)


@overload
def select(condition: bool_, a: V, b: V | float) -> V: ...
@overload
def select(condition: bool_, a: float, b: V) -> V: ...
def select(condition: bool_, a: Any, b: Any) -> Any:
    """Returns `a` if the condition is true, otherwise `b`. Both are computed."""
    builder = current()
    for each in (a, b):
        if isinstance(each, Value):
            return builder.select(type(each), condition, a, b)
    raise builder.error("`select` needs at least one value; give a constant a type with `ir.constant`")


where = select


def cast(value: Value, dtype: type[V]) -> V:
    """Converts a value. Floats become integers by truncation, and are clamped to the range of the type."""
    builder = current()
    if type(value) is dtype:
        return value
    return builder.value(dtype, f"cast %{builder.number_of(value)}")


def bits(value: Value, dtype: type[V]) -> V:
    """Reinterprets the bits of a value as another type of the same size."""
    builder = current()
    if type(value) is dtype:
        return value
    if type(value).itemsize != dtype.itemsize:
        raise builder.error(f"{type(value)._dtype} and {dtype._dtype} differ in size; use `ir.cast`")
    return builder.value(dtype, f"bits %{builder.number_of(value)}")


def sqrt(value: V) -> V:
    """Returns the square root."""
    return current().unary("sqrt", value)


def exp(value: V) -> V:
    """Returns e to the power of the value."""
    return current().unary("exp", value)


def log(value: V) -> V:
    """Returns the natural logarithm."""
    return current().unary("log", value)


def sin(value: V) -> V:
    """Returns the sine of radians."""
    return current().unary("sin", value)


def cos(value: V) -> V:
    """Returns the cosine of radians."""
    return current().unary("cos", value)


def tanh(value: V) -> V:
    """Returns the hyperbolic tangent."""
    return current().unary("tanh", value)


def erf(value: V) -> V:
    """Returns the error function."""
    return current().unary("erf", value)


def floor(value: V) -> V:
    """Rounds a float down."""
    return current().unary("floor", value)


def ceil(value: V) -> V:
    """Rounds a float up."""
    return current().unary("ceil", value)


def min(a: V, b: V | float) -> V:
    """Returns the smaller value; NaN if either is."""
    return current().binary("min", type(a), a, b)


def max(a: V, b: V | float) -> V:
    """Returns the greater value; NaN if either is."""
    return current().binary("max", type(a), a, b)


def div(a: V, b: V | int) -> V:
    """Divides integers, rounding towards zero; by zero the result is 0."""
    return current().binary("div", type(a), a, b)


def rem(a: V, b: V | float) -> V:
    """Returns the remainder with the sign of the dividend; of integers by zero it is 0."""
    return current().binary("rem", type(a), a, b)


def fma(a: V, b: V | float, c: V | float) -> V:
    """Returns ``a * b + c`` of floats, rounded once."""
    builder = current()
    builder.check_takes("sqrt", a)
    factor, summand = builder.operand(b, type(a)), builder.operand(c, type(a))
    numbers = f"%{builder.number_of(a)} %{factor._number} %{summand._number}"
    return builder.value(type(a), f"fma {numbers}")


def random(seed: u64, counter: i64) -> u32:
    """Returns a random number for a counter and a seed: Philox4x32-10."""
    builder = current()
    first, second = builder.operand(seed, u64), builder.operand(counter, i64)
    return builder.value(u32, f"random %{first._number} %{second._number}")


def range(start: i64 | int, end: i64 | int | None = None, step: i64 | int = 1) -> Iterator[i64]:
    """Loops over the indices from `start` on, below `end`: ``for i in ir.range(n):``.

    The body is traced once. It cannot `break`, and values that it computes are not visible after it: use `ir.var`.
    """
    first, last = (0, start) if end is None else (start, end)
    return _loop(first, last, step, "")


def unrolled(times: int) -> Iterator[i64]:
    """As `range`, for a short loop of a constant length that devices unroll."""
    return _loop(0, times, 1, " unroll")


def _loop(start: i64 | int, end: i64 | int, step: i64 | int, suffix: str) -> Iterator[i64]:
    builder = current()
    first, last, stride = (builder.operand(bound, i64)._number for bound in (start, end, step))
    number = builder.fresh()
    left_early = builder.error("a loop of a kernel cannot be left by `break` or `return`")
    builder.begin(f"for %{number} in %{first} .. %{last} step %{stride}{suffix} {{")
    ended = False
    try:
        yield i64(builder, number)
        ended = True
    finally:
        builder.end()
        if not ended and builder.broken is None:
            builder.broken = left_early


@contextmanager
def when(condition: bool_) -> Iterator[None]:
    """The statements of the block run if the condition is true: ``with ir.when(i < n):``."""
    builder = current()
    chosen = builder.operand(condition, bool_)
    builder.begin(f"if %{chosen._number} {{")
    try:
        yield
    finally:
        builder.end()


@contextmanager
def otherwise() -> Iterator[None]:
    """The statements of the block run if the condition of the `when` directly before it is false."""
    builder = current()
    lines = builder.open[-1].lines
    is_after_when = bool(lines) and lines[-1].strip() == "}" and _begins_with_if(lines)
    if not is_after_when:
        raise builder.error("`otherwise` must follow directly after `with ir.when(..):`")
    lines.pop()
    builder.open[-1].lines.append("  " * len(builder.open) + "} else {")
    builder.open.append(type(builder.open[-1])())
    try:
        yield
    finally:
        builder.end()


def _begins_with_if(lines: list[str]) -> bool:
    indent = lines[-1].removesuffix("}")
    for line in reversed(lines[:-1]):
        if line.startswith(indent) and not line.startswith(indent + " "):
            return line.strip().startswith("if ")
    return False


class Var(Generic[V]):
    """A variable of each thread."""

    def __init__(self, name: str, dtype: type[V]) -> None:
        self._builder = current()
        self._name = name
        self._type = dtype

    def get(self) -> V:
        """Loads the variable."""
        return self._builder.value(self._type, f"load {self._name}", pure=False)

    def set(self, value: V | float) -> None:
        """Stores to the variable."""
        number = self._builder.operand(value, self._type)._number
        self._builder.emit(f"store {self._name} = %{number}")


@overload
def var(value: V) -> Var[V]: ...
@overload
def var(value: int | float | bool, dtype: type[V]) -> Var[V]: ...
def var(value: Any, dtype: Any = None) -> Var[Any]:
    """Returns a variable with this initial value. A number needs a type."""
    builder = current()
    found = type(value) if isinstance(value, Value) else dtype
    if found is None:
        raise builder.error(f"`ir.var({value!r})` needs a type, such as `ir.var({value!r}, ms.f32)`")
    variable: Var[Any] = Var(builder.declare("local", "v", found._dtype), found)
    variable.set(value)
    return variable


def local(dtype: type[V], length: int) -> Update[V]:
    """Returns an array of each thread, filled with zeros."""
    return _array("local", "local_", dtype, length)


def shared(dtype: type[V], length: int) -> Update[V]:
    """Returns an array that the threads of a cube share. Its contents are undefined until a thread stores them."""
    return _array("shared", "shared_", dtype, length)


def _array(kind: str, name: str, dtype: type[V], length: int) -> Update[V]:
    builder = current()
    if length < 1:
        raise builder.error(f"an array has at least 1 element, got {length}")
    return Update(builder, builder.declare(kind, name, dtype._dtype, length), dtype, kind)


def barrier() -> None:
    """Waits until all threads of the cube are here, and makes their stores visible."""
    current().emit("barrier")


def reduce(value: V, op: Reduction) -> V:
    """Reduces the values of all threads of the cube; all get the result. All threads must reach it."""
    return _reduce("cube", value, op)


def reduce_row(value: V, op: Reduction) -> V:
    """Reduces the values of the threads that differ along x alone. All threads of the cube must reach it."""
    return _reduce("row", value, op)


def _reduce(scope: str, value: V, op: Reduction) -> V:
    builder = current()
    builder.check_takes("add" if op in ("sum", "prod") else "min", value)
    return builder.value(type(value), f"reduce {scope} {op} %{builder.number_of(value)}", pure=False)


