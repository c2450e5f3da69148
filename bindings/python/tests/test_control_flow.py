"""Control flow of kernels as Python has it: compared with the same function, which Python runs for each thread."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import millstream as ms
import numpy as np
import pytest
from millstream import ir

N = 200
SCALE = 3


def evaluate(device: ms.Device, function: ms.KernelFunction, *inputs: Any, out: Any, counts: Any = None) -> Any:
    """Runs a kernel of inputs and an output."""
    stream = device.stream()
    output = stream.create(out)
    arrays = [stream.create(each) for each in inputs]
    stream.launch(device.kernel(function), counts or function.cover(out.shape), *arrays, output)
    return stream.read(output).wait()


# Functions of an integer, which run as they are in Python, and for each element on a device.


def branches(v: Any) -> Any:
    if v < 10:
        a = 1
    elif v % 3 == 0:
        a = v
    else:
        a = -v
        if a > -100:
            a += 1000
    return a


def returns_early(v: Any) -> Any:
    if v < 5:
        return 7
    if v % 2 == 0:
        if v > 50:
            return v * 2
        v = v + 1
    return v


def returns_from_loops(v: Any) -> Any:
    total = 0
    for i in range(v):
        for j in range(i):
            if i * j > 40:
                return total + 10_000
            total += j
        if i > 90:
            return -1
    return total


def breaks_and_continues(v: Any) -> Any:
    total = 0
    for i in range(v):
        if i % 3 == 0:
            continue
        if i > 40:
            break
        total += i
    return total


def collatz(v: Any) -> Any:
    steps = 0
    while v > 1:
        v = 3 * v + 1 if v % 2 == 1 else v // 2
        steps += 1
    return steps


def endless(v: Any) -> Any:
    i = 0
    while True:
        i += 7
        if i > v:
            break
        if i == 77:
            i += 1
            continue
    return i


def endless_return(v: Any) -> Any:
    while True:
        if v > 100:
            return v
        v += 9


def logic(v: Any) -> Any:
    a = v > 3 and v < 90 and v % 2 == 0
    b = not a or v == 4
    c = 5 <= v < 50 != v + 2
    r = 0
    if a and not c or (v == 1 or v == 7):
        r += 1
    if b:
        r += 2
    if c:
        r += 4
    return r


def nested_ternaries(v: Any) -> Any:
    return 1 if v < 10 else 2 if v < 20 else v if v < 30 else -v


def ranges(v: Any) -> Any:
    total = 0
    for i in range(v, 0, -3):
        total += i
    for i in range(2, v, 5):
        total = total * 3 % 1009 + i
    for _ in range(3):
        total += 1
    return total


def swaps(v: Any) -> Any:
    a, b = 0, 1
    for _ in range(v % 40):
        a, b = b, a + b
    return a


def tuples(v: Any) -> Any:
    pair = (v, 1)
    for i in range(v % 7):
        pair = (pair[1] + i, pair[0]) if i % 2 == 0 else (pair[0], pair[1] * 2)
    x, y = pair
    return x * 100 + y


class Point(NamedTuple):
    x: Any
    y: Any


def named_tuples(v: Any) -> Any:
    point = Point(v, 0)
    for i in range(5):
        point = Point(point.y, point.x + i) if point.x > point.y else point._replace(y=point.y + 2)
    return point.x * 1000 + point.y


def python_values(v: Any) -> Any:
    kind = "double"
    factor = None
    if SCALE == 3:
        factor = 2 if kind == "double" else 1
    else:
        raise ValueError("Python decides what is traced")
    for name, weight in {"a": 1, "b": 2}.items():
        if name == "b":
            v = v * weight + factor
    for k in ms.static_range(4):
        if k == 3:
            break
        v += k
    return v


def minimum(v: Any) -> Any:
    return max(min(v, 50), 20, v - 100) + abs(v - 30) + int(v > 3)


def walrus(v: Any) -> Any:
    if (w := v * 3) > 100:
        v = w
    return v


def unassigned_until_later(v: Any) -> Any:
    for i in range(v):
        k = i * 2
        if k > 20:
            v = k
            break
    return v


def odd_names(v: Any) -> Any:
    BODY = 1
    for TARGET in range(v % 5):
        TEST = TARGET + BODY
        VALUE = TEST if TEST > 1 else BODY
        BODY = VALUE + 1  # pyright: ignore[reportConstantRedefinition]
    if v > 3:
        NAME = BODY
    else:
        NAME = v  # pyright: ignore[reportConstantRedefinition]
    return NAME


def divides(v: Any) -> Any:
    i = v - 100
    while i < 90:
        i += 1
        if i % 7 == 3 and i // 4 % 2 == 1:
            break
    return i // -3 + i % 5


FUNCTIONS: list[Callable[[Any], Any]] = [
    branches, returns_early, returns_from_loops, breaks_and_continues, collatz, endless, endless_return, logic,
    nested_ternaries, ranges, swaps, tuples, named_tuples, python_values, minimum, walrus, unassigned_until_later, odd_names, divides,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("dtype", [ms.i64, ms.i32])
def test_a_function_computes_what_python_does(device: ms.Device, function: Callable[[Any], Any], dtype: Any) -> None:
    traced = ms.function(function)

    def body(x: Any, y: Any) -> None:
        i = ms.position()
        if i < y.size:
            y[i] = traced(x[i])

    body.__annotations__.update(x=ms.Read[dtype], y=ms.Update[dtype])
    x = np.arange(N).astype(dtype.dtype)
    expected = [int(function(int(v))) for v in x]
    found = evaluate(device, ms.kernel(body), x, out=np.zeros(N, x.dtype))
    assert found.tolist() == np.array(expected).astype(x.dtype).tolist()
    assert traced(9) == function(9)


def test_types_of_variables_are_found(device: ms.Device) -> None:
    # `total` and `worst` become f64 by what they meet, after two iterations; `count` becomes i32 where it is stored.
    @ms.kernel
    def statistics(x: ms.Read2D[ms.f64], counts: ms.Update[ms.i32], sums: ms.Update[ms.f64]) -> None:
        row = ms.position()
        rows, columns = x.shape
        if row >= rows:
            return
        total: Any = 0.0
        worst: Any = 0
        scale = 1.0 if row % 2 == 0 else -1.0
        count = 0
        half = 0.5
        for column in range(columns):
            value = x[row, column]
            worst = max(worst, value)
            if value > half:
                count += 1
                total = total * half + value
        counts[row] = count
        sums[row] = total * scale + worst

    random = np.random.default_rng(1)
    x = random.random((70, 9))
    expected, counts = np.zeros(70), (x > 0.5).sum(axis=1)
    for row in range(70):
        for value in x[row][x[row] > 0.5]:
            expected[row] = expected[row] * 0.5 + value
    stream = device.stream()
    buffers = [stream.create(x), stream.zeros(70, ms.i32), stream.zeros(70, ms.f64)]
    stream.launch(device.kernel(statistics), statistics.cover(70), *buffers)
    assert stream.read(buffers[1]).wait().tolist() == counts.tolist()
    signs = np.where(np.arange(70) % 2 == 0, 1.0, -1.0)
    np.testing.assert_allclose(stream.read(buffers[2]).wait(), expected * signs + x.max(axis=1), rtol=1e-12)


def test_a_branch_computes_only_what_it_takes(device: ms.Device) -> None:
    # A load out of bounds would fail.
    @ms.kernel
    def neighbours(x: ms.Read[ms.f32], y: ms.Update[ms.f32]) -> None:
        i = ms.position()
        if i < len(x) and x[i] >= 0.0:
            left = x[i - 1] if i > 0 else 0.0
            y[i] = left + (x[i + 1] if 0 <= i + 1 < x.size else 0.0)

    x = np.arange(N, dtype=np.float32)
    padded = np.concatenate([[0], x, [0]])
    assert np.array_equal(evaluate(device, neighbours, x, out=np.zeros(N, np.float32)), padded[:-2] + padded[2:])


def test_barriers_stand_in_loops_that_all_threads_run(device: ms.Device) -> None:
    @ms.kernel(threads=64)
    def reverse_scan(x: ms.Read[ms.f32], y: ms.Update[ms.f32]) -> None:
        shared = ir.shared(ms.f32, 64)
        t = ir.thread()
        shared[t] = x[ir.index()]
        ir.barrier()
        step = 1
        while step < 64:
            other = shared[t + step] if t + step < 64 else 0.0
            ir.barrier()
            shared[t] = shared[t] + other
            ir.barrier()
            step *= 2
        y[ir.index()] = shared[t]

    x = np.arange(128, dtype=np.float32)
    expected = np.cumsum(x.reshape(2, 64)[:, ::-1], axis=1)[:, ::-1].ravel()
    assert np.array_equal(evaluate(device, reverse_scan, x, out=np.zeros(128, np.float32)), expected)


def test_axes(device: ms.Device) -> None:
    @ms.kernel(threads=(8, 4))
    def product(a: ms.Read2D[ms.f32], b: ms.Read2D[ms.f32], c: ms.Update2D[ms.f32]) -> None:
        i, j = ms.position(2)
        if i < c.shape[0] and j < c.shape[1]:
            total = ms.f32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total

    a = np.arange(6 * 5, dtype=np.float32).reshape(6, 5)
    b = np.arange(5 * 11, dtype=np.float32).reshape(5, 11)
    assert product.cover((6, 11)) == (2, 2, 1)
    assert np.array_equal(evaluate(device, product, a, b, out=np.zeros((6, 11), np.float32)), a @ b)
    stream = device.stream()
    flat = stream.zeros(30, ms.f32)
    with pytest.raises(ms.ArgumentError, match=r"`a` of kernel `product` has 2 axes, got a buffer of shape \[30\]"):
        stream.launch(device.kernel(product), 1, flat, flat, flat)


def test_three_axes_and_tiles(device: ms.Device) -> None:
    @ms.kernel(threads=(4, 4, 2))
    def transpose(x: ms.Read3D[ms.i32], y: ms.Write3D[ms.i32], size: ms.Update[ms.i64]) -> None:
        tile = ir.shared(ms.i32, (4, 5))
        plane, i, j = ms.position(3)
        for half in ms.static_range(2):
            if ir.thread("z") == half:
                tile[ir.thread("y"), ir.thread("x")] = x[plane, i, j]
            ir.barrier()
            if ir.thread("z") == half:
                y[plane, i, j] = tile[ir.thread("x"), ir.thread("y")]
            ir.barrier()
        if plane == 0 and i == 0 and j == 0:
            size[0] = x.size + len(x) + tile.size

    x = np.arange(2 * 4 * 4, dtype=np.int32).reshape(2, 4, 4)
    stream = device.stream()
    turned, size = stream.empty((2, 4, 4), ms.i32), stream.zeros(1, ms.i64)
    stream.launch(device.kernel(transpose), transpose.cover(x.shape), stream.create(x), turned, size)
    assert np.array_equal(stream.read(turned).wait(), x.transpose(0, 2, 1))
    assert stream.read(size).wait().tolist() == [32 + 2 + 20]


def test_a_kernel_may_contract(device: ms.Device) -> None:
    @ms.kernel(checked=True, contract=True)
    def squares(x: ms.Update[ms.f32]) -> None:
        i = ms.position()
        if i < len(x):
            x[i] = x[i] * x[i] + 1.0

    assert squares.ir.startswith("kernel squares threads 256 1 1 checked contract\n")
    stream = device.stream()
    x = stream.create(np.arange(10, dtype=np.float32))
    stream.launch(device.kernel(squares), squares.cover(10), x)
    assert stream.read(x).wait().tolist() == [i * i + 1 for i in range(10)]


def test_a_length_is_that_of_the_launch(device: ms.Device) -> None:
    @ms.kernel(checked=True)
    def fill(x: ms.Update[ms.f32], value: ms.f32) -> None:
        i = ms.position()
        if i < x.size:
            x[i] = value

    assert "update x: f32[x_len]" in fill.ir and "scalar x_size: i64" in fill.ir
    stream, prepared = device.stream(), device.kernel(fill)
    for shape in (5, (2, 3), 300):
        x = stream.zeros(shape, ms.f32)
        stream.launch(prepared, fill.cover(x.size), x, 2.5)
        assert (stream.read(x).wait() == 2.5).all()
    assert fill.cover((3, 1000)) == (4, 3, 1)
    with pytest.raises(ms.ArgumentError, match="1 to 3 axes"):
        fill.cover((1, 1, 1, 1))


@ms.function
def horner(v: Any, *coefficients: float, scale: Any = 1.0) -> Any:
    total = 0.0
    for coefficient in coefficients:
        total = total * v + coefficient
    return total * scale


@ms.function
def polar(x: Any, y: Any) -> tuple[Any, Any]:
    if x == 0.0 and y == 0.0:
        return 0.0, 0.0
    return math.sqrt(x * x + y * y), y


def test_functions_are_called_with_numbers_and_return_tuples(device: ms.Device) -> None:
    offset = 10.0

    @ms.kernel
    def compute(x: ms.Read[ms.f32], y: ms.Update[ms.f32]) -> None:
        def shifted(v: ms.f32) -> ms.f32:
            if v > 100.0:
                return v - offset
            return v + offset

        i = ms.position()
        if i < y.size:
            radius, height = polar(x[i], 3.0)
            y[i] = shifted(horner(radius, 1.0, -2.0, 0.5, scale=2)) + height

    x = np.arange(N, dtype=np.float32)
    radius = np.sqrt(x * x + 9)
    value = 2 * (radius * radius - 2 * radius + 0.5)
    expected = np.where(value > 100, value - 10, value + 10) + 3
    np.testing.assert_allclose(evaluate(device, compute, x, out=np.zeros(N, np.float32)), expected, rtol=1e-5)
    assert horner(2.0, 1.0, 1.0) == 3.0 and polar(3.0, 4.0) == (5.0, 4.0)


def test_ir_works_within_control_flow(device: ms.Device) -> None:
    @ms.kernel
    def mixed(x: ms.Read[ms.i32], y: ms.Update[ms.i32]) -> None:
        i = ir.index()
        total = ir.var(0, ms.i32)
        count = 0
        with ir.when(i < y.size):
            for k in ir.range(x[i] % 9):
                if k > 5:
                    break
                total.set(total.get() + ir.cast(k, ms.i32))
                count += 1
            for _ in ir.unrolled(2):
                count += 100
            y[i] = total.get() * 1000 + count

    x = np.arange(N, dtype=np.int32)
    expected = [sum(range(min(v % 9, 6))) * 1000 + min(v % 9, 6) + 200 for v in range(N)]
    assert evaluate(device, mixed, x, out=np.zeros(N, np.int32)).tolist() == expected


def test_a_kernel_without_source_is_traced_as_it_is(cpu: ms.Device) -> None:
    text = """
def kernel(y: ms.Update[ms.f32]) -> None:
    i = ms.position()
    with ir.when(i < y.size):
        y[i] = 1.0 if {0} else 2.0

def helper(v):
    return v if v > 0 else 0
"""
    names: dict[str, Any] = {"ms": ms, "ir": ir}
    exec(text.format("SCALE == 3"), {"SCALE": 3, **names}, names)
    assert evaluate(cpu, ms.kernel(names["kernel"]), out=np.zeros(3, np.float32)).tolist() == [1.0, 1.0, 1.0]
    scope: dict[str, Any] = {"ms": ms, "ir": ir}
    exec(text.format("y[i] > 0.0"), scope)
    with pytest.raises(ms.TraceError, match="the source of `kernel` is not available.*write it to a file, or use `ir.sel"):
        ms.kernel(scope["kernel"])
    helper = ms.function(scope["helper"])

    def calls(y: ms.Update[ms.f32]) -> None:
        y[0] = helper(y[0])

    with pytest.raises(ms.TraceError, match="the source of `helper` is not available"):
        ms.kernel(calls)


def undecorated(v: Any) -> Any:
    return v if v > 0 else 0


def calls_an_undecorated_function(x: ms.Update[ms.f32]) -> None:
    x[0] = undecorated(x[0])


@ms.function
def recursive(v: Any) -> Any:
    return v * recursive(v - 1) if v > 1 else v  # here


def calls_a_recursive_function(x: ms.Update[ms.i32]) -> None:
    x[0] = recursive(x[0])


def asserts_what_does_not_hold(x: ms.Update[ms.f32]) -> None:
    assert len((1, 2)) == 3, "two are not three"  # here


def tries(x: ms.Update[ms.f32]) -> None:
    try:  # here
        x[0] = 1.0
    except ValueError:
        pass


def assigns_a_global(x: ms.Update[ms.f32]) -> None:
    global SCALE  # here
    SCALE = x[0]  # type: ignore[assignment]  # pyright: ignore


def has_an_else_of_a_loop(x: ms.Update[ms.f32]) -> None:
    for i in range(3):
        x[i] = 0.0
    else:
        x[3] = 1.0  # here


def is_undefined_on_a_path(x: ms.Update[ms.f32]) -> None:
    if x[0] > 0.0:
        y = x[1]
    x[2] = y  # here  # pyright: ignore[reportPossiblyUnboundVariable]


def is_undefined_without_iterations(x: ms.Update[ms.f32]) -> None:
    for i in range(x.size):
        y = x[i]
    x[2] = y  # here  # pyright: ignore[reportPossiblyUnboundVariable]


def uses_an_index_behind_its_loop(x: ms.Update[ms.f32]) -> None:
    for i in range(3):
        x[i] = 0.0
    x[i] = 1.0  # here  # pyright: ignore[reportPossiblyUnboundVariable]


def changes_a_type_in_a_branch(x: ms.Update[ms.f32], n: ms.i32) -> None:
    y = x[0]
    if n > 0:  # here
        y = n  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    x[0] = y


def changes_a_type_in_a_loop(x: ms.Update[ms.f32], n: ms.i32) -> None:
    y = x[0]
    for _ in range(4):  # here
        y = n  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    x[0] = y


def chooses_an_array(x: ms.Update[ms.f32], y: ms.Update[ms.f32]) -> None:
    z = x
    if x[0] > 0.0:
        z = y
    z[0] = 1.0  # here


def changes_a_list(x: ms.Update[ms.f32]) -> None:
    sums = [x[0], x[1]]
    for i in range(x.size):  # here
        sums[0] = sums[0] + x[i]
    x[0] = sums[0]


def breaks_a_loop_of_python(x: ms.Update[ms.f32]) -> None:
    for k in ms.static_range(3):
        if x[k] > 0.0:
            break  # here


def returns_a_value(x: ms.Update[ms.f32]) -> float:
    if x[0] > 0.0:
        return 1.0  # here
    return 2.0


def returns_on_one_path(x: ms.Update[ms.f32]) -> None:
    @ms.function
    def maybe(v: Any) -> Any:
        if v > 0.0:
            return v

    x[0] = maybe(x[0])


def never_ends(x: ms.Update[ms.f32]) -> None:
    while True:  # here
        x[0] = 1.0


def waits_for_python(x: ms.Update[ms.f32]) -> None:
    go = SCALE == 3
    while go:  # here
        x[0] = 1.0


def has_two_indices(x: ms.Update[ms.f32]) -> None:
    x[0, 1] = 1.0  # type: ignore[index]  # pyright: ignore  # here


def counts_from_the_end(x: ms.Update[ms.f32]) -> None:
    x[-1] = 1.0  # here


def slices(x: ms.Update[ms.f32]) -> None:
    x[1:3] = 1.0  # type: ignore[index]  # pyright: ignore  # here


def steps_by_zero(x: ms.Update[ms.f32]) -> None:
    for i in range(0, 3, 0):  # here
        x[i] = 1.0


def is_used_as_a_python_integer(x: ms.Update[ms.f32]) -> None:
    weights = [1.0, 2.0]
    for i in range(2):
        x[i] = weights[i]  # here


def takes_a_float(x: ms.Update[ms.f32]) -> None:
    x[0] = float(x[0])  # here


def assigns_where_it_may_not_run(x: ms.Update[ms.f32]) -> None:
    x[0] = 1.0 if x[0] > 0.0 and (y := x[1]) > 0.0 else y  # here  # pyright: ignore


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (calls_an_undecorated_function, "decorate `undecorated` with `@ms.function`, or use `ir.select"),
    (calls_a_recursive_function, "`recursive` calls itself"),
    (asserts_what_does_not_hold, "assertion `len((1, 2)) == 3` fails: two are not three"),
    (tries, "a kernel has no `try`"),
    (assigns_a_global, "cannot assign to a global variable"),
    (has_an_else_of_a_loop, "has no `else`"),
    (is_undefined_on_a_path, "`y` is not assigned on every path of the `if` at line"),
    (is_undefined_without_iterations, "`y` is assigned in the `for` at line"),
    (uses_an_index_behind_its_loop, "`i` is the index of the `for` at line"),
    (changes_a_type_in_a_branch, "`y` is i32 or f32 on the paths of the `if` at line"),
    (changes_a_type_in_a_loop, "`y` is f32 in one iteration of the `for` at line"),
    (chooses_an_array, "`z` is Update on the paths of the `if`"),
    (changes_a_list, "list `sums` changes in a branch or loop of the device"),
    (breaks_a_loop_of_python, "a `break` that a thread decides is in a loop that Python runs"),
    (returns_a_value, "returns a value; store results"),
    (returns_on_one_path, "the result is f32 or None on the paths of the `if` at line"),
    (never_ends, "never ends"),
    (waits_for_python, "never ends"),
    (has_two_indices, "`x` has 1 axes, got 2 indices"),
    (counts_from_the_end, "index -1 is negative"),
    (slices, "got a slice"),
    (steps_by_zero, "step of a range must not be 0"),
    (is_used_as_a_python_integer, "a value of a thread is no Python integer; loop with"),
    (takes_a_float, "a value of a thread is no Python float; use"),
    (assigns_where_it_may_not_run, "cannot assign with `:=`"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_cannot_run_on_a_device_is_refused_with_its_line(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(ms.TraceError) as caught:
        ms.kernel(function)
    message = str(caught.value)
    assert why in message
    lines, start = inspect.getsourcelines(function)
    marked = [start + index for index, line in enumerate(lines) if "# here" in line]
    assert all(f"{__file__}:{line}: " in message for line in marked), message


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_a_failure_of_a_launch_names_the_line(backend: Any) -> None:
    @ms.function
    def read(x: Any, i: Any) -> Any:
        return x[i + 1000]  # here

    @ms.kernel
    def fails(y: ms.Update[ms.f32]) -> None:
        i = ms.position()
        if i == 3:
            y[i] = read(y, i)

    with ms.Device(backend) as device:
        stream = device.stream()
        y = stream.zeros(8, ms.f32)
        stream.launch(device.kernel(fails), 1, y)
        with pytest.raises(ms.TaskFailed) as caught:
            stream.read(y).wait()
    text = Path(__file__).read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if line.endswith("return x[i + 1000]  # here"))
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__
    assert any(f"{__file__}:{line}" in message for message in chain), chain


def test_a_traceback_shows_the_line_of_the_function() -> None:
    def outer(x: ms.Update[ms.f32], n: ms.i32) -> None:
        for i in range(3):
            if n > 1:
                x[i] = mixes(x, n)

    @ms.function
    def mixes(x: Any, n: Any) -> Any:
        return x[0] + n  # the line

    with pytest.raises(ms.TraceError) as caught:
        ms.kernel(outer)
    shown = "".join(traceback.format_exception(caught.value))
    assert "x[i] = mixes(x, n)" in shown and "return x[0] + n  # the line" in shown
