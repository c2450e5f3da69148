"""What a kernel that is written in Python may call: positions, functions of values, control flow, memory of a cube.

The names are those of ``millstream::ir`` in Rust. Indices, lengths and positions are ``i64`` and count elements.

    import millstream as ms
    from millstream import ir

    @ms.kernel
    def saxpy(x: ms.Read[ms.f32], y: ms.Update[ms.f32], a: ms.f32, n: ms.i64) -> None:
        i = ir.position()
        if i < n:
            y[i] = a * x[i] + y[i]
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeVar, overload

from millstream._arrays import Update, Update2D
from millstream._statements import Block
from millstream._trace import Builder, current
from millstream._types import bool_, i8, i16, i32, i64, u8, u16, u32, u64
from millstream._values import Value

__all__ = [
    "Axis", "Range", "Var", "barrier", "bits", "cast", "ceil", "constant", "cos", "count", "cube", "cubes", "div", "erf",
    "exp", "floor", "fma", "index", "local", "log", "max", "min", "otherwise", "position", "random", "range", "reduce",
    "reduce_subgroup", "rem", "select", "shared", "shuffle", "shuffle_down", "shuffle_up", "shuffle_xor", "sin", "sqrt",
    "static_range", "tanh", "thread", "threads", "unrolled", "var", "when", "where",
]  # fmt: skip

V = TypeVar("V", bound=Value)

Axis = Literal["x", "y", "z"]
Integer = i64 | i32 | u32 | i16 | u16 | i8 | u8 | int
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


@overload
def position() -> i64: ...
@overload
def position(axes: Literal[1]) -> i64: ...
@overload
def position(axes: Literal[2]) -> tuple[i64, i64]: ...
@overload
def position(axes: Literal[3]) -> tuple[i64, i64, i64]: ...
def position(axes: int = 1) -> Any:
    """Returns the index of the thread in the launch, along one to three axes, in the order of an array's:
    ``i, j = ms.position(2)`` is the place of ``x[i, j]``. The last one is the axis x, so that neighbours access neighbours.
    """
    if axes == 1:
        return index("x")
    if axes not in (2, 3):
        raise current().error(f"a launch has 1 to 3 axes, got {axes}")
    last = index("y"), index("x")
    return last if axes == 2 else (index("z"), *last)


def count(axis: Axis = "x") -> i64:
    """Returns the number of threads of the launch: the step of a loop that starts at `index`."""
    return cubes(axis) * threads(axis)


def constant(value: int | float | bool, dtype: type[V]) -> V:
    """Returns a constant of this type: `dtype(value)`."""
    return current().constant(value, dtype)


@overload
def select(condition: bool_, a: V, b: V | float) -> V: ...
@overload
def select(condition: bool_, a: float, b: V) -> V: ...
def select(condition: bool_, a: Any, b: Any) -> Any:
    """Returns `a` if the condition is true, otherwise `b`. Both are computed."""
    builder = current()
    if isinstance(a, Value) or isinstance(b, Value):
        return builder.select(builder.common(a, b), condition, a, b)
    raise builder.error("`select` needs at least one value; give a constant a type with `ir.constant`")


where = select


def cast(value: Value, dtype: type[V]) -> V:
    """Converts a value. Floats become integers by truncation, and are clamped to the range of the type."""
    return current().converted(value, dtype)


def bits(value: Value, dtype: type[V]) -> V:
    """Reinterprets the bits of a value as another type of the same size."""
    builder = current()
    value = builder.settled(value)
    if value._dtype == dtype._dtype:
        return dtype._of(builder, value._number)
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
    return _binary("min", a, b)


def max(a: V, b: V | float) -> V:
    """Returns the greater value; NaN if either is."""
    return _binary("max", a, b)


def div(a: V, b: V | int) -> V:
    """Divides integers, rounding towards zero; by zero the result is 0."""
    return _binary("div", a, b)


def rem(a: V, b: V | float) -> V:
    """Returns the remainder with the sign of the dividend; of integers by zero it is 0."""
    return _binary("rem", a, b)


def _binary(op: str, a: V, b: V | float) -> V:
    builder = current()
    dtype: Any = builder.common(a, b)
    found: V = builder.binary(op, dtype, a, b)
    return found


def fma(a: V, b: V | float, c: V | float) -> V:
    """Returns ``a * b + c`` of floats, rounded once."""
    builder = current()
    a = builder.settled(a)
    builder.check_takes("sqrt", a)
    factor, summand = builder.operand(b, type(a)), builder.operand(c, type(a))
    numbers = f"%{builder.number_of(a)} %{factor._number} %{summand._number}"
    return builder.value(type(a), f"fma {numbers}")


def random(seed: u64, counter: i64) -> u32:
    """Returns a random number for a counter and a seed: Philox4x32-10."""
    builder = current()
    first, second = builder.operand(seed, u64), builder.operand(counter, i64)
    return builder.value(u32, f"random %{first._number} %{second._number}")


class Range:
    """The indices of a loop of the device, for ``for``."""

    def __init__(
        self, start: Integer, end: Integer, step: Integer, dtype: type[i64] = i64, is_unrolled: bool = False
    ) -> None:
        self._bounds = start, end, step
        self._type = dtype
        self._suffix = " unroll" if is_unrolled else ""

    def begun(self, builder: Builder) -> tuple[str, Callable[[], i64]]:
        """Computes the bounds; returns the head of the loop, and what returns the index in its body."""
        start, end, step = self._bounds
        down = -step if isinstance(step, int) and step < 0 else 0
        if isinstance(step, int) and step == 0:
            raise builder.error("the step of a range must not be 0")
        first, last = builder.position(start), builder.position(end)
        bounds = first, last, builder.position(step)
        if down:
            # The IR counts upwards: number the iterations.
            bounds = builder.constant(0, i64), (first - last + (down - 1)) // down, builder.constant(1, i64)
        number = builder.fresh()
        one, two, three = (bound._number for bound in bounds)

        def index() -> i64:
            count = self._type._of(builder, number)
            return self._type._of(builder, (first - count * down)._number) if down else count

        return f"for %{number} in %{one} .. %{two} step %{three}{self._suffix}", index

    def __iter__(self) -> Iterator[i64]:
        """Traces the body of a ``for`` that is Python's."""
        builder = current()
        left_early = builder.error("a loop of a kernel cannot be left by `break` or `return`")
        head, index = self.begun(builder)
        builder.begin(head + " {")
        ended = False
        try:
            yield index()
            ended = True
        finally:
            builder.end()
            if not ended and builder.broken is None:
                builder.broken = left_early


def range(start: Integer, end: Integer | None = None, step: Integer = 1) -> Range:
    """Loops over the indices from `start` on, below `end`: ``for i in ir.range(n):``.

    In a kernel whose source is not available, and in a function without ``@ms.function``, the body is traced once. It
    cannot `break` there, and values that it computes are not visible after it: use `ir.var`.
    """
    first, last = (0, start) if end is None else (start, end)
    return Range(first, last, step)


def unrolled(times: int) -> Range:
    """As `range`, for a short loop of a constant length that devices unroll."""
    return Range(0, times, 1, is_unrolled=True)


def static_range(*arguments: int) -> builtins.range:
    """Returns Python's range: ``for k in ms.static_range(4):`` traces the body four times, with a Python integer."""
    return builtins.range(*arguments)


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
    items = builder.open[-1].items
    last = items[-1] if items else None
    if not isinstance(last, Block) or not last.head.startswith("if ") or last.otherwise is not None:
        raise builder.error("`otherwise` must follow directly after `with ir.when(..):`")
    builder.begin_otherwise(last)
    try:
        yield
    finally:
        builder.end()


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


@overload
def local(dtype: type[V], length: int) -> Update[V]: ...
@overload
def local(dtype: type[V], length: tuple[int, int]) -> Update2D[V]: ...
def local(dtype: type[V], length: Any) -> Any:
    """Returns an array of each thread, filled with zeros. The length may be a shape of two axes."""
    return _array("local", "local_", dtype, length)


@overload
def shared(dtype: type[V], length: int) -> Update[V]: ...
@overload
def shared(dtype: type[V], length: tuple[int, int]) -> Update2D[V]: ...
def shared(dtype: type[V], length: Any) -> Any:
    """Returns an array that the threads of a cube share. Its contents are undefined until a thread stores them. The length
    may be a shape of two axes."""
    return _array("shared", "shared_", dtype, length)


def _array(kind: str, name: str, dtype: type[V], length: int | tuple[int, int]) -> Any:
    builder = current()
    shape = length if isinstance(length, tuple) else (length,)
    elements = math.prod(shape)
    if builtins.min(shape) < 1:
        raise builder.error(f"an array has at least 1 element, got {length}")
    array: Any = Update if len(shape) == 1 else Update2D
    return array(builder, builder.declare(kind, name, dtype._dtype, elements), dtype, kind, shape)


def barrier() -> None:
    """Waits until all threads of the cube are here, and makes their stores visible."""
    current().emit("barrier")


def reduce(value: V, op: Reduction) -> V:
    """Reduces the values of all threads of the cube; all get the result. All threads must reach it."""
    return _reduce("cube", value, op)


def reduce_subgroup(value: V, op: Reduction, width: int = 32) -> V:
    """Reduces the values of a subgroup: of `width` neighbours along x, a power of two up to 32 that divides the threads of
    the cube along x. All threads of the cube must reach it. The results are the same on every device."""
    return _reduce(f"subgroup {width}", value, op)


def _reduce(scope: str, value: V, op: Reduction) -> V:
    builder = current()
    value = builder.settled(value)
    builder.check_takes("add" if op in ("sum", "prod") else "min", value)
    return builder.value(type(value), f"reduce {scope} {op} %{builder.number_of(value)}", pure=False)


def shuffle(value: V, lane: Integer, width: int = 32) -> V:
    """Returns the value of the thread with this number in the subgroup of `width` neighbours along x; the thread's own
    value if there is none. All threads of the cube must reach it."""
    return _shuffle("lane", value, lane, width)


def shuffle_xor(value: V, mask: Integer, width: int = 32) -> V:
    """As `shuffle`, from the thread whose number in the subgroup has these bits flipped."""
    return _shuffle("xor", value, mask, width)


def shuffle_down(value: V, delta: Integer, width: int = 32) -> V:
    """As `shuffle`, from the thread whose number in the subgroup is greater by `delta`."""
    return _shuffle("down", value, delta, width)


def shuffle_up(value: V, delta: Integer, width: int = 32) -> V:
    """As `shuffle`, from the thread whose number in the subgroup is less by `delta`."""
    return _shuffle("up", value, delta, width)


def _shuffle(how: str, value: V, by: Integer, width: int) -> V:
    builder = current()
    value = builder.settled(value)
    numbers = f"%{builder.number_of(value)} %{builder.position(by)._number}"
    return builder.value(type(value), f"shuffle {how} {width} {numbers}", pure=False)
