"""Kernels that are written in Python, and kernels as source text."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal

import millstream as ms
import numpy as np
import pytest
from millstream import ir

N = 1000


@ms.kernel
def saxpy(x: ms.Read[ms.f32], y: ms.Update[ms.f32], a: ms.f32, n: ms.i64) -> None:
    """y = a x + y."""
    i = ir.index()
    with ir.when(i < n):
        y[i] = a * x[i] + y[i]


def test_a_traced_kernel_computes(device: ms.Device, stream: ms.Stream) -> None:
    x, y = stream.create(np.arange(N, dtype=np.float32)), stream.create(np.ones(N, np.float32))
    prepared = device.kernel(saxpy)
    assert prepared.name == "saxpy" and prepared.parameters == ["x", "y", "a", "n"]
    stream.launch(prepared, ms.cover(N), x, y, 2.0, N)
    assert np.array_equal(stream.read(y).wait(), 2 * np.arange(N, dtype=np.float32) + 1)


def test_a_kernel_is_text_that_can_be_prepared_again(device: ms.Device, stream: ms.Stream) -> None:
    head, file, *parameters = saxpy.ir.splitlines()[:4]
    assert head == "kernel saxpy threads 256 1 1" and file == f'  file "{__file__}"'
    assert parameters == ["  read x: f32", "  update y: f32"]
    assert saxpy.__doc__ == "y = a x + y."
    declared = {"x": ms.Read[ms.f32], "y": ms.Update[ms.f32], "a": ms.f32, "n": ms.i64}
    again = device.kernel(ms.Source("saxpy", declared, ir=saxpy.ir))
    x, y = stream.create([1.0, 2.0], ms.f32), stream.zeros(2, ms.f32)
    stream.launch(again, 1, x, y, 3.0, 2)
    assert stream.read(y).wait().tolist() == [3.0, 6.0]


def apply(device: ms.Device, function: ms.KernelFunction, *inputs: Any, out: Any) -> Any:
    """Runs a kernel of inputs, an output and a length."""
    stream = device.stream()
    output = stream.create(out)
    arrays = [stream.create(each) for each in inputs]
    n = out.size
    stream.launch(device.kernel(function), ms.cover(n), *arrays, output, n)
    return stream.read(output).wait()


FUNCTIONS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (ir.sqrt, np.sqrt), (ir.exp, np.exp), (ir.log, np.log), (ir.sin, np.sin), (ir.cos, np.cos), (ir.tanh, np.tanh),
    (ir.floor, np.floor), (ir.ceil, np.ceil), (abs, np.abs), (lambda v: -v, np.negative),
    (ir.erf, np.vectorize(math.erf)),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(FUNCTIONS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_agree_with_numpy(device: ms.Device, index: int, dtype: Any) -> None:
    ours, theirs = FUNCTIONS[index]

    def body32(x: ms.Read[ms.f32], y: ms.Update[ms.f32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            y[i] = ours(x[i])

    def body64(x: ms.Read[ms.f64], y: ms.Update[ms.f64], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            y[i] = ours(x[i])

    function = ms.kernel(body32 if dtype is np.float32 else body64)
    x = np.linspace(0.1, 5.0, N).astype(dtype)
    found = apply(device, function, x, out=np.zeros(N, dtype))
    np.testing.assert_allclose(found, theirs(x), rtol=1e-5 if dtype is np.float32 else 1e-12)


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a, lambda a, b: a << 3, lambda a, b: a >> 2,
    lambda a, b: 7 - a, lambda a, b: a // 4, lambda a, b: a % 8, lambda a, b: a // 5, lambda a, b: a % -3,
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(OPERATORS)))
def test_integer_operators_agree_with_numpy(device: ms.Device, index: int) -> None:
    operator = OPERATORS[index]

    @ms.kernel
    def body(a: ms.Read[ms.i32], b: ms.Read[ms.i32], y: ms.Update[ms.i32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            y[i] = operator(a[i], b[i])

    random = np.random.default_rng(index)
    a = random.integers(-100, 100, N, dtype=np.int32)
    b = random.integers(1, 9, N, dtype=np.int32) * random.choice(np.array([-1, 1], np.int32), N)
    found = apply(device, body, a, b, out=np.zeros(N, np.int32))
    assert np.array_equal(found, operator(a, b))


def test_float_division_and_modulo_agree_with_numpy(device: ms.Device) -> None:
    @ms.kernel
    def body(
        a: ms.Read[ms.f64], b: ms.Read[ms.f64], quotient: ms.Update[ms.f64], y: ms.Update[ms.f64], n: ms.i64
    ) -> None:
        i = ir.index()
        with ir.when(i < n):
            quotient[i] = a[i] // b[i] + a[i] / b[i]
            y[i] = a[i] % b[i]

    a = np.linspace(-10, 10, N)
    b = np.where(np.arange(N) % 2 == 0, 3.0, -3.0)
    stream = device.stream()
    buffers = [stream.create(a), stream.create(b), stream.zeros(N, ms.f64), stream.zeros(N, ms.f64)]
    stream.launch(device.kernel(body), ms.cover(N), *buffers, N)
    np.testing.assert_allclose(stream.read(buffers[2]).wait(), a // b + a / b)
    np.testing.assert_allclose(stream.read(buffers[3]).wait(), a % b)


def test_select_and_comparisons(device: ms.Device) -> None:
    @ms.kernel
    def clamp(x: ms.Read[ms.f32], y: ms.Update[ms.f32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            value = x[i]
            inside = (value >= 2.0) & (value != 3.0) & ~(value > 8.0)
            y[i] = ir.where(inside, value, -1.0) + ir.min(ir.max(value, 0.5), 1.5)

    x = np.arange(N, dtype=np.float32) % 10
    inside = (x >= 2) & (x != 3) & (x <= 8)
    expected = np.where(inside, x, -1) + np.clip(x, 0.5, 1.5)
    assert np.array_equal(apply(device, clamp, x, out=np.zeros(N, np.float32)), expected)


def test_loops_and_variables(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel(threads=32)
    def row_sums(x: ms.Read[ms.f32], y: ms.Update[ms.f32], rows: ms.i64, columns: ms.i64) -> None:
        for row in ir.range(ir.index(), rows, ir.count()):
            total = ir.var(0.0, ms.f32)
            for column in ir.range(columns):
                total.set(total.get() + x[row * columns + column])
            for times in ir.unrolled(2):
                total.set(total.get() + ir.cast(times, ms.f32))
            y[row] = total.get()

    x = np.arange(70 * 5, dtype=np.float32).reshape(70, 5)
    source, sums = stream.create(x), stream.zeros(70, ms.f32)
    stream.launch(device.kernel(row_sums), 2, source, sums, 70, 5)
    assert np.array_equal(stream.read(sums).wait(), x.sum(axis=1) + 1)


def test_branches(device: ms.Device) -> None:
    @ms.kernel
    def sign(x: ms.Read[ms.i32], y: ms.Update[ms.i32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            with ir.when(x[i] < 0):
                y[i] = -1
            with ir.otherwise():
                with ir.when(x[i] > 0):
                    y[i] = 1
                with ir.otherwise():
                    y[i] = 5

    x = np.arange(-500, 500, dtype=np.int32)
    assert np.array_equal(apply(device, sign, x, out=np.zeros(N, np.int32)), np.where(x == 0, 5, np.sign(x)))


def test_a_launch_has_up_to_three_axes(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel(threads=(4, 2, 2))
    def positions(out: ms.Update[ms.i32], width: ms.i64, height: ms.i64) -> None:
        x, y, z = ir.index("x"), ir.index("y"), ir.index("z")
        out[(z * height + y) * width + x] = ir.cast(x + 100 * y + 10_000 * z, ms.i32)

    out = stream.zeros((4, 6, 8), ms.i32)
    stream.launch(device.kernel(positions), (2, 3, 2), out, 8, 6)
    z, y, x = np.meshgrid(np.arange(4), np.arange(6), np.arange(8), indexing="ij")
    assert np.array_equal(stream.read(out).wait(), x + 100 * y + 10_000 * z)
    with pytest.raises(ms.ArgumentError, match="1 to 3 axes"):
        stream.launch(device.kernel(positions), (1, 1, 1, 1), out, 8, 6)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_cubes_share_memory_and_reduce(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel(threads=64)
    def reverse_and_sum(x: ms.Read[ms.f32], y: ms.Update[ms.f32], sums: ms.Update[ms.f32]) -> None:
        shared = ir.shared(ms.f32, 64)
        t = ir.thread()
        start = ir.cube() * 64
        shared[t] = x[start + t]
        ir.barrier()
        y[start + t] = shared[63 - t]
        total = ir.reduce(x[start + t], "sum")
        with ir.when(t == 0):
            sums[ir.cube()] = total

    x = np.arange(256, dtype=np.float32)
    source, turned, sums = stream.create(x), stream.zeros(256, ms.f32), stream.zeros(4, ms.f32)
    stream.launch(device.kernel(reverse_and_sum), 4, source, turned, sums)
    assert np.array_equal(stream.read(turned).wait(), x.reshape(4, 64)[:, ::-1].ravel())
    assert np.array_equal(stream.read(sums).wait(), x.reshape(4, 64).sum(axis=1))


def test_subgroups_reduce_and_exchange_values(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel(threads=64)
    def exchange(x: ms.Read[ms.i32], y: ms.Update2D[ms.i32]) -> None:
        i = ir.position()
        value = x[i]
        y[0, i] = ir.reduce_subgroup(value, "sum", 8)
        y[1, i] = ir.shuffle(value, 3, 8)
        y[2, i] = ir.shuffle_xor(value, 1, 8)
        y[3, i] = ir.shuffle_down(value, 2, 8)
        y[4, i] = ir.shuffle_up(value, 2, 8)

    x = np.random.default_rng(1).integers(-1000, 1000, 128).astype(np.int32)
    out = stream.zeros((5, 128), ms.i32)
    stream.launch(device.kernel(exchange), 2, stream.create(x), out)
    groups, lane = x.reshape(16, 8), np.arange(8)
    expected = [
        np.repeat(groups.sum(axis=1), 8), np.repeat(groups[:, 3], 8), groups[:, lane ^ 1].ravel(),
        groups[:, np.where(lane < 6, lane + 2, lane)].ravel(), groups[:, np.where(lane < 2, lane, lane - 2)].ravel(),
    ]  # fmt: skip
    assert np.array_equal(stream.read(out).wait(), expected)


@ms.function
def say_far(place: ms.i64, value: ms.f32) -> None:
    print("far:", place, value, sep=" ")


@ms.kernel(threads=4)
def says(x: ms.Read[ms.f32], n: ms.u32) -> None:
    i = ms.position()
    if x[i] > 1.0:
        print(f"{i}: {x[i]:.2f} of {n:>4}, 100%1 {{\"quoted\\}}", x[i] > 1.5)
    elif i == 0:
        say_far(i, x[i])


def test_threads_print_lines(device: ms.Device, stream: ms.Stream) -> None:
    stream.launch(device.kernel(says), 1, stream.create([1.0, 1.25, 2.0, -1.0], ms.f32), 7)
    lines = stream.printed().wait()
    assert [text.split("): ", 1)[1] for text in lines] == [
        "far: 0 1.0", '1: 1.25 of    7, 100%1 {"quoted\\} false', '2: 2.00 of    7, 100%1 {"quoted\\} true',
    ]  # fmt: skip
    assert lines[1].startswith("says thread 1 (") and "test_kernels.py:" in lines[1]
    assert stream.printed().wait() == []


def test_a_print_has_no_file_and_no_end() -> None:
    def partial(x: ms.Read[ms.f32]) -> None:
        print(x[0], end="")

    with pytest.raises(ms.TraceError, match="`print` takes no `end` and no `file`"):
        ms.kernel(partial)


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_a_failed_assertion_names_its_line_and_values(backend: Literal["cpu", "sim"]) -> None:
    @ms.kernel(threads=4)
    def roots(x: ms.Read[ms.f32], y: ms.Update[ms.f32]) -> None:
        i = ms.position()
        assert x.size > 0 and x[i] >= 0.0, f"x[{i}] is {x[i]}"
        y[i] = ir.sqrt(x[i])

    with ms.Device(backend) as device:
        stream, prepared = device.stream(), device.kernel(roots)
        y = stream.zeros(4, ms.f32)
        stream.launch(prepared, 1, stream.create([1.0, 4.0, 9.0, 16.0], ms.f32), y)
        assert stream.read(y).wait().tolist() == [1.0, 2.0, 3.0, 4.0]
        stream.launch(prepared, 1, stream.create([1.0, -4.0, 9.0, 16.0], ms.f32), y)
        with pytest.raises(ms.TaskFailed) as failed:
            stream.read(y).wait()
        assert "assertion `x.size > 0 and x[i] >= 0.0` fails: x[1] is -4.0" in str(failed.value)
        assert "test_kernels.py:" in str(failed.value)


def test_atomic_additions_count(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel
    def histogram(x: ms.Read[ms.u8], bins: ms.Update[ms.u32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            bins.add(x[i], 1)

    x = (np.arange(N) % 7).astype(np.uint8)
    bins = stream.zeros(7, ms.u32)
    stream.launch(device.kernel(histogram), ms.cover(N), stream.create(x), bins, N)
    assert np.array_equal(stream.read(bins).wait(), np.bincount(x))


def test_atomic_operations_return_the_value_before(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel
    def compact(x: ms.Read[ms.i32], kept: ms.Update[ms.i32], ends: ms.Update[ms.i32], n: ms.i64) -> None:
        i = ir.index()
        with ir.when(i < n):
            with ir.when(x[i] < 0):
                kept[ends.add(0, 1)] = x[i]
            ends.min(1, x[i])
            ends.max(2, x[i])
            before = ends.compare_exchange(3, 0, 7)
            with ir.when(before == 0):
                ends.sub(4, before + 5)

    x = np.array([(i * 7919) % N - N // 2 for i in range(N)], dtype=np.int32)
    kept, ends = stream.zeros(N, ms.i32), stream.zeros(5, ms.i32)
    stream.launch(device.kernel(compact), ms.cover(N), stream.create(x), kept, ends, N)
    found, negative = stream.read(ends).wait(), np.sort(x[x < 0])
    assert found.tolist() == [len(negative), x.min(), x.max(), 7, -5]
    assert np.array_equal(np.sort(stream.read(kept).wait()[: found[0]]), negative)


def test_halves_are_cast_and_random_numbers_repeat(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel
    def noise(x: ms.Read[ms.f16], y: ms.Update[ms.f16], bits: ms.Update[ms.u32], seed: ms.u64) -> None:
        i = ir.index()
        y[i] = ir.cast(ir.fma(ir.cast(x[i], ms.f32), 2.0, 1.0), ms.f16)
        bits[i] = ir.random(seed, i)

    x = np.arange(256, dtype=np.float16)
    source, doubled = stream.create(x), stream.zeros(256, ms.f16)
    first, second = stream.zeros(256, ms.u32), stream.zeros(256, ms.u32)
    prepared = device.kernel(noise)
    stream.launch(prepared, 1, source, doubled, first, 42)
    stream.launch(prepared, 1, source, doubled, second, 42)
    assert np.array_equal(stream.read(doubled).wait(), 2 * x + 1)
    one, two = stream.read(first).wait(), stream.read(second).wait()
    assert np.array_equal(one, two) and len(set(one.tolist())) > 250


def line_of(function: Callable[..., Any], text: str) -> str:
    """Returns the file and line of a function where a text stands."""
    lines, start = inspect.getsourcelines(function)
    offset = next(index for index, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(function)}:{start + offset}"


def mixes_types(x: ms.Update[ms.f32], y: ms.Read[ms.i32]) -> None:
    x[0] = x[0] + y[0]  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]


def divides_integers(x: ms.Update[ms.i32]) -> None:
    x[0] = x[0] / 2


def stores_a_float(x: ms.Update[ms.i32]) -> None:
    x[0] = 1.5


def computes_with_halves(x: ms.Update[ms.f16]) -> None:
    x[0] = x[0] + 1.0


def reads_what_it_writes(x: ms.Write[ms.f32]) -> None:
    x[0] = x[1]


def roots_an_integer(x: ms.Update[ms.i32]) -> None:
    x[0] = ir.sqrt(x[0])


def has_a_large_constant(x: ms.Update[ms.u8]) -> None:
    x[0] = x[0] + 256


def diverges(x: ms.Update[ms.f32]) -> None:
    with ir.when(ir.thread() < 3):
        ir.barrier()
    x[0] = 0.0


def uses_a_value_after_its_block(x: ms.Update[ms.f32]) -> None:
    with ir.when(ir.thread() < 3):
        y = x[1]
    x[0] = y


REFUSED: list[tuple[Callable[..., None], str, str]] = [
    (mixes_types, "x[0] + y[0]", "expected a value of f32, got i32"),
    (divides_integers, "x[0] / 2", "`/` takes floats"),
    (stores_a_float, "= 1.5", "1.5 is no i32"),
    (computes_with_halves, "+ 1.0", "f16"),
    (reads_what_it_writes, "x[1]", "declared as Write"),
    (roots_an_integer, "ir.sqrt", "`sqrt` takes f32 or f64, got i32"),
    (has_a_large_constant, "256", "outside of the range of u8, 0 to 255"),
    (diverges, "ir.barrier()", "only some threads of a cube may reach"),
    (uses_a_value_after_its_block, "x[0] = y", "pass it out of a block in a local"),
]


@pytest.mark.parametrize(("function", "line", "why"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_errors_name_the_line(function: Callable[..., None], line: str, why: str) -> None:
    with pytest.raises(ms.TraceError) as caught:
        ms.kernel(function)
    assert why in str(caught.value)
    assert line_of(function, line) in str(caught.value)
    # Another kernel can be traced afterwards.
    assert ms.kernel(saxpy.__wrapped__).ir == saxpy.ir


def test_parameters_need_types() -> None:
    def without(x, n: ms.i64) -> None:  # type: ignore[no-untyped-def] # pyright: ignore
        pass

    with pytest.raises(ms.TraceError, match="parameter `x` needs a type"):
        ms.kernel(without)  # pyright: ignore

    def wrong(x: int) -> None:
        pass

    with pytest.raises(ms.TraceError, match="parameter `x` needs a type"):
        ms.kernel(wrong)


def test_kernels_are_not_called_and_values_are_not_used_outside() -> None:
    with pytest.raises(TypeError, match="runs on a device"):
        saxpy()
    with pytest.raises(ms.TraceError, match="inside of a function"):
        ir.index()


def test_arguments_are_checked(device: ms.Device, stream: ms.Stream) -> None:
    prepared = device.kernel(saxpy)
    x, y = stream.zeros(4, ms.f32), stream.zeros(4, ms.f32)
    with pytest.raises(ms.ArgumentError, match=r"takes 4 arguments \(x, y, a, n\), got 3"):
        stream.launch(prepared, 1, x, y, 2.0)
    with pytest.raises(ms.ArgumentError, match="`x` of kernel `saxpy` is declared as f32, got elements of f64"):
        stream.launch(prepared, 1, stream.zeros(4, ms.f64), y, 2.0, 4)
    with pytest.raises(ms.ArgumentError, match="`x` of kernel `saxpy` takes a Buffer, got float"):
        stream.launch(prepared, 1, 1.0, y, 2.0, 4)
    with pytest.raises(ms.ArgumentError, match="`n` of kernel `saxpy` takes a number of type i64") as caught:
        stream.launch(prepared, 1, x, y, 2.0, "4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises((OverflowError, TypeError)):
        stream.launch(prepared, -1, x, y, 2.0, 4)


def test_numpy_numbers_are_arguments(device: ms.Device, stream: ms.Stream) -> None:
    x, y = stream.create([1.0, 2.0], ms.f32), stream.zeros(2, ms.f32)
    stream.launch(device.kernel(saxpy), np.int64(1), x, y, np.float32(2), np.uint8(2))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert stream.read(y).wait().tolist() == [2.0, 4.0]


def test_a_source_of_another_language_is_refused(device: ms.Device) -> None:
    source = ms.Source("k", {"x": ms.Update[ms.f32]}, cuda='extern "C" __global__ void k(float* x) {}')
    with pytest.raises(ms.KernelError, match="kernel `k` has no source for .*, only CUDA C"):
        device.kernel(source)
    with pytest.raises(ms.ArgumentError, match="kernel `k` is invalid"):
        device.kernel(ms.Source("k", {}, ir="kernel k"))


USES_OF_NUMPY: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda y, n: np.sin(y[n]), r"`numpy.sin` cannot be traced; use `ir.sin`"),
    (lambda y, n: np.arctan2(y[n], 1.0), r"`numpy.arctan2` cannot be traced; use the operators and the functions"),
    (lambda y, n: np.add.reduce(y), r"`numpy.add.reduce` cannot be traced"),
    (lambda y, n: np.sin(y), r"`numpy.sin` cannot be traced.*element by element"),
    (lambda y, n: np.where(y[n] > 0, y[n], 0), r"`numpy.where` cannot be traced"),
    (lambda y, n: np.asarray(y[n]), r"a value of a thread is no array of NumPy"),
    (lambda y, n: np.asarray(y), r"`y` is no array of NumPy"),
    (lambda y, n: len(y), r"`y` has no length while it is traced"),
    (lambda y, n: len(y[n]), r"a value of a thread is a number and has no length"),
    (lambda y, n: bool(y), r"`y` has no length while it is traced"),
]


@pytest.mark.parametrize(("use", "why"), USES_OF_NUMPY)
def test_functions_of_numpy_raise_trace_errors(cpu: ms.Device, use: Any, why: str) -> None:
    def function(y: ms.Update[ms.f32], n: ms.i64) -> None:
        use(y, n)

    with pytest.raises(ms.TraceError, match=why) as raised:
        cpu.kernel(ms.kernel(function))
    assert "test_kernels.py" in str(raised.value) and "kernel `function`" in str(raised.value)


def test_numbers_of_numpy_are_operands(cpu: ms.Device) -> None:
    @ms.kernel
    def mixed(y: ms.Update[ms.f32], n: ms.i64) -> None:
        i = ir.index()
        two: Any = np.float32(2)
        three: Any = np.int64(3)
        with ir.when(i < three * n):
            y[i] = two * y[i] + np.float64(1) - three / y[i]

    stream = cpu.stream()
    y = stream.create(np.array([1, 2, 4], np.float32))
    stream.launch(cpu.kernel(mixed), 1, y, 1)
    assert stream.read(y).wait().tolist() == [0.0, 3.5, 8.25]
