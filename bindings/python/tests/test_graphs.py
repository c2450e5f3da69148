"""Graphs beside NumPy: operators, functions, reductions, indexing and products, on random shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import millstream as ms
import numpy as np
import pytest

Array = np.ndarray[Any, np.dtype[Any]]
INTEGERS = ["int32", "int64", "uint32", "uint64", "uint8"]


def compute(stream: ms.Stream, *roots: ms.LazyBuffer) -> list[Array]:
    """Computes lazy buffers in one schedule."""
    results = ms.Schedule(*roots).compile(stream).run(stream)
    return [stream.read(result).wait() for result in results]


def check(stream: ms.Stream, pairs: list[tuple[ms.LazyBuffer, Any]], units: float = 0) -> None:
    """Compares lazy buffers with arrays: equal shapes and types, and a difference of at most this many units."""
    for place, (got, (_, expected)) in enumerate(zip(compute(stream, *(lazy for lazy, _ in pairs)), pairs)):
        expected = np.asarray(expected)
        assert got.dtype == expected.dtype and got.shape == expected.shape, (place, got.dtype, got.shape, expected)
        if units and got.dtype.kind == "f":
            unit = np.spacing(np.abs(np.where(np.isfinite(expected), expected, 1))).astype(np.float64)
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))
            with np.errstate(invalid="ignore"):
                far = np.abs(got.astype(np.float64) - expected) > units * unit
            assert not (far & ~same).any(), (place, got, expected)
        else:
            assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f"), (place, got, expected)


def shapes(random: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns two random shapes that broadcast."""
    whole = tuple(random.integers(1, 6, random.integers(0, 4)).tolist())

    def thinned() -> tuple[int, ...]:
        kept = whole[random.integers(0, len(whole) + 1) :] if random.random() < 0.5 else whole
        return tuple(1 if random.random() < 0.3 else length for length in kept)

    return thinned(), thinned()


def integers(random: np.random.Generator, shape: tuple[int, ...], dtype: str, least: int = -9) -> Array:
    least = max(least, 0) if dtype.startswith("u") else least
    return random.integers(least, 10, shape).astype(dtype)


def floats(random: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return (random.standard_normal(shape) * 4).astype(dtype)


def test_operators_of_integers_are_exact(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(1), ms.Graph()
    for dtype in INTEGERS:
        first, second = shapes(random)
        a, b = integers(random, first, dtype), integers(random, second, dtype)
        s = integers(random, second, dtype, 0) % np.dtype(dtype).type(8)
        x, y, t = (graph.buffer(stream.create(array)) for array in (a, b, s))
        with np.errstate(all="ignore"):
            check(
                stream,
                [
                    (x + y, a + b), (x - y, a - b), (x * y, a * b), (x // y, a // b), (x % y, a % b),
                    (x + 3, a + 3), (3 * x, 3 * a), (9 - x, 9 - a), (7 // x, 7 // a), (x // 4, a // 4), (7 % x, 7 % a),
                    (x & y, a & b), (x | y, a | b), (x ^ 5, a ^ 5), (~x, ~a), (x << t, a << s), (x >> t, a >> s),
                    (x**3, a**3), (x**0, a**0), (abs(x), abs(a)), (+x, +a), (-x, np.negative(a)), (x.sign(), np.sign(a)),
                    (x == y, a == b), (x != y, a != b), (x < y, a < b), (x <= 2, a <= 2), (x > y, a > b), (3 >= x, 3 >= a),
                    (x.minimum(y), np.minimum(a, b)), (x.maximum(4), np.maximum(a, 4)), (x.clip(2, 5), a.clip(2, 5)),
                ],
            )  # fmt: skip


def test_operators_of_floats(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(2), ms.Graph()
    for dtype in ["float32", "float64"] * 2:
        first, second = shapes(random)
        a, b = floats(random, first, dtype), floats(random, second, dtype)
        x, y = graph.buffer(stream.create(a)), graph.buffer(stream.create(b))
        check(
            stream,
            [
                (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (1 / x, 1 / a), (2.5 - x, 2.5 - a),
                (x // y, a // b), (x % y, a % b), (x.fmod(y), np.fmod(a, b)), (x // 0.5, a // 0.5), (3.0 % x, 3.0 % a),
                (x**2, a**2), (x == y, a == b), (x < y, a < b), (0.5 >= x, 0.5 >= a), (x != x, a != a),
                (x.minimum(y), np.minimum(a, b)), (x.clip(-1, 1.5), a.clip(-1, 1.5)), (-x, -a), (abs(x), abs(a)),
                (np.float32(2) * x, np.float32(2) * a), (x.round(), a.round()), (x.floor(), np.floor(a)),
            ],
        )  # fmt: skip


def test_floor_quotients_of_floats_are_those_of_numpy(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(11), ms.Graph()
    a, b = (floats(random, (4000,)) * (10 ** random.uniform(-3, most, 4000)).astype(np.float32) for most in (6, 3))
    x, y = graph.buffer(stream.create(a)), graph.buffer(stream.create(b))
    check(stream, [(x // y, a // b), (x % y, a % b), (x.fmod(y), np.fmod(a, b))])


def test_zeros_and_infinities_of_floats(stream: ms.Stream) -> None:
    special = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3.0], np.float32)
    graph = ms.Graph()
    x, y = graph.buffer(stream.create(special[:, None])), graph.buffer(stream.create(special))
    a, b = special[:, None], special
    with np.errstate(all="ignore"):
        check(
            stream,
            [(x / y, a / b), (x % y, a % b), (x // y, a // b), (x.minimum(y), np.minimum(a, b)), (x <= y, a <= b),
             (x.isnan(), np.isnan(a)), (x.sign(), np.sign(a)), (x.max(), a.max()), (x.argmax(), a.argmax())],
        )  # fmt: skip


def test_functions_are_within_four_units(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(3), ms.Graph()
    a = floats(random, (7, 30), "float32")
    x, p = graph.buffer(stream.create(a)), graph.buffer(stream.create(abs(a)))

    def of(function: Callable[[Any], Any], array: Array) -> Array:
        return np.asarray(function(array.astype(np.float64))).astype(np.float32)

    pairs = [(getattr(x, name)(), of(getattr(np, name), a)) for name in ("exp", "expm1", "sin", "cos", "tanh")]
    pairs += [(getattr(p, name)(), of(getattr(np, name), abs(a))) for name in ("sqrt", "log", "log1p")]
    pairs += [(x.erf(), of(np.vectorize(math.erf), a)), (p**0.3, of(lambda v: v**0.3, abs(a)))]
    pairs += [(x.arctan2(p), of(lambda v: np.arctan2(v, abs(v)), a)), (x.sigmoid(), of(lambda v: 1 / (1 + np.exp(-v)), a))]
    # Near zeros of sin and log, the absolute error is what a device limits.
    for (lazy, expected), got in zip(pairs, compute(stream, *(lazy for lazy, _ in pairs))):
        unit = np.maximum(np.spacing(abs(expected)), np.finfo(np.float32).eps / 4)
        assert (abs(got - expected) <= 4 * unit).all(), lazy


def test_functions_of_numpy_take_lazy_buffers(stream: ms.Stream) -> None:
    a = floats(np.random.default_rng(4), (3, 4))
    x: Any = ms.Graph().buffer(stream.create(a))
    check(stream, [(np.add(x, 1), a + 1), (np.multiply(2, x), 2 * a), (np.maximum(0, x), np.maximum(0, a))])
    check(stream, [(np.abs(x), np.abs(a)), (np.square(x), a * a), (np.rint(x), np.rint(a)), (np.matmul(x, x.T), a @ a.T)], 64)
    with pytest.raises(ms.ArgumentError, match="`numpy.arccosh` of f32 .*no such operation"):
        np.arccosh(x)
    with pytest.raises(ms.ArgumentError, match="no such operation"):
        np.add.reduce(x)
    with pytest.raises(ms.ArgumentError, match=r"`add` of f32 \[3, 4\]: an object of `ndarray`.*stream.create"):
        _ = a + x


def test_reductions(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(5), ms.Graph()
    for dtype in [*INTEGERS, "bool"]:
        a = integers(random, (4, 3, 5), dtype)
        x = graph.buffer(stream.create(a))
        axis = [None, 0, -1, (0, 2), (1,)][random.integers(5)]
        keeps = bool(random.integers(2))
        pairs: list[tuple[ms.LazyBuffer, Any]] = [
            (x.sum(axis, keepdims=keeps), a.sum(axis, keepdims=keeps)),
            (x.max(axis, keepdims=keeps), a.max(axis, keepdims=keeps)), (x.min(axis), a.min(axis)),
            (x.any(axis), a.any(axis)), (x.all(axis, keepdims=keeps), a.all(axis, keepdims=keeps)),
            (x.argmax(1), a.argmax(1)), (x.argmin(), a.argmin()), (x.argmax(-1, keepdims=True), a.argmax(-1, keepdims=True)),
            (x.cumsum(1), a.cumsum(1)), (x.sum(0, dtype=ms.f32), a.sum(0, dtype=np.float32)), (x.prod(1), a.prod(1)),
        ]  # fmt: skip
        check(stream, pairs)
        check(stream, [(x.mean(axis, keepdims=keeps), np.asarray(a.mean(axis, keepdims=keeps)))], 2)
    for dtype in ["float32", "float64"]:
        a = floats(random, (6, 50), dtype)
        x = graph.buffer(stream.create(a))
        wide = a.astype(np.float64)
        for lazy, expected in [(x.sum(0), wide.sum(0)), (x.mean(), wide.mean()), (x.var(1), wide.var(1)), (x.std(), wide.std()),
                               (x.softmax(), np.exp(wide) / np.exp(wide).sum(-1, keepdims=True))]:  # fmt: skip
            (got,) = compute(stream, lazy)
            assert got.dtype == a.dtype and np.allclose(got, expected, rtol=64 * np.finfo(a.dtype).eps, atol=64 * np.finfo(a.dtype).eps)
        check(stream, [(x.max(1), a.max(1)), (x.argmin(0), a.argmin(0)), (x.sum(()), a.sum(()))])


def test_basic_indexing(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(6), ms.Graph()
    a = random.integers(-1000, 1000, (6, 5, 7))
    x = graph.buffer(stream.create(a))

    def part(length: int) -> Any:
        kind = random.integers(4)
        if kind == 0:
            return int(random.integers(-length, length))
        start, end = (None if random.random() < 0.3 else int(random.integers(-length - 2, length + 3)) for _ in range(2))
        return slice(start, end, [None, 1, 2, -1, -3][random.integers(5)] if kind > 1 else None)

    pairs: list[tuple[ms.LazyBuffer, Any]] = []
    for _ in range(60):
        index: list[Any] = [part(length) for length in a.shape[: random.integers(4)]]
        for extra in (None, ...):
            if random.random() < 0.3:
                index.insert(int(random.integers(len(index) + 1)) if extra is None else len(index), extra)
        pairs.append((x[tuple(index)], a[tuple(index)]))
    pairs += [(x[2], a[2]), (x[-1, ..., 3], a[-1, ..., 3]), (x[None, 1:3], a[None, 1:3]), (x[...], a), (x[:, ::-1], a[:, ::-1])]
    pairs += [(row, array) for row, array in zip(x, a)]
    check(stream, pairs)
    assert len(x) == 6 and x.ndim == 3 and x.size == 210 and x.shape == a.shape and x.dtype is ms.i64


def test_shapes(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(7), ms.Graph()
    a = random.integers(-1000, 1000, (2, 1, 3, 4)).astype(np.int32)
    x = graph.buffer(stream.create(a))
    flat = graph.buffer(stream.create(a.reshape(-1)))
    check(
        stream,
        [
            (x.reshape(6, -1), a.reshape(6, -1)), (x.reshape((4, 6)), a.reshape(4, 6)), (x.ravel(), a.ravel()), (x.T, a.T),
            (x.transpose(2, 0, 3, 1), a.transpose(2, 0, 3, 1)), (x.mT, a.swapaxes(-1, -2)), (x.swapaxes(0, 2), a.swapaxes(0, 2)),
            (x.squeeze(), a.squeeze()), (x.squeeze(1), a.squeeze(1)), (x.unsqueeze(-1), a[..., None]), (x.flip(2), np.flip(a, 2)),
            (x.broadcast_to((5, 2, 6, 3, 4)), np.broadcast_to(a, (5, 2, 6, 3, 4))), (x.narrow(3, 1, 2), a[..., 1:3]),
            (x.roll(5, 3), np.roll(a, 5, 3)), (flat.repeat(3, 0), a.reshape(-1).repeat(3)), (flat.pad(0, 2, 1, 9), np.pad(a.reshape(-1), (2, 1), constant_values=9)),
            (ms.concatenate([x, x + 1], 2), np.concatenate([a, a + 1], 2)), (ms.stack([x, x], -1), np.stack([a, a], -1)),
            (ms.where(x > 0, x, 0), np.where(a > 0, a, 0)), (ms.where(x > 0, 1, -x), np.where(a > 0, 1, -a)),
        ],
    )  # fmt: skip


def test_elements_by_index(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(8), ms.Graph()
    a, index = floats(random, (5, 6)), random.integers(0, 5, (3, 2))
    x, places = graph.buffer(stream.create(a)), graph.buffer(stream.create(index))
    order = np.argsort(a, 1)
    sorts = graph.buffer(stream.create(order))
    scattered = np.zeros_like(a)
    np.put_along_axis(scattered, order, a, 1)
    counts = np.zeros(5, np.int64)
    np.add.at(counts, index.reshape(-1), 1)
    ones = graph.ones(6, ms.i64)
    check(
        stream,
        [
            (x.take(places, 0), a.take(index, 0)), (x.gather(sorts, 1), np.sort(a, 1)),
            (graph.zeros((5, 6), ms.f32).scatter(sorts, x, 1), scattered),
            (graph.zeros(5, ms.i64).scatter_add(places.ravel(), ones, 0), counts),
            (graph.arange(5) * 2, np.arange(5) * 2), (graph.index((2, 3), 1), np.array([[0, 1, 2]] * 2)),
            (graph.full((2, 2), 1.5, ms.f64), np.full((2, 2), 1.5)), (graph.zeros(3, ms.bool_), np.zeros(3, bool)),
        ],
    )  # fmt: skip


def test_matrix_products(stream: ms.Stream) -> None:
    random, graph = np.random.default_rng(9), ms.Graph()
    for first, second in [((3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 3)), ((2, 3, 4), (4,)), ((4,), (4,)), ((4,), (2, 4, 3))]:
        a, b = integers(random, first, "int32"), integers(random, second, "int32")
        x, y = graph.buffer(stream.create(a)), graph.buffer(stream.create(b))
        check(stream, [(x @ y, a @ b)])
        wide = abs(a).astype(np.float64) + 0.25, abs(b).astype(np.float64) + 0.75
        # Of positive numbers, so that no sum cancels.
        check(stream, [((abs(x).astype(ms.f32) + 0.25) @ (abs(y).astype(ms.f32) + 0.75), (wide[0] @ wide[1]).astype(np.float32))], 8)
    a, b = integers(random, (2, 3, 4), "int64"), integers(random, (2, 5, 4), "int64")
    x, y = graph.buffer(stream.create(a)), graph.buffer(stream.create(b))
    check(stream, [(ms.einsum("bij,bkj->bik", x, y), np.einsum("bij,bkj->bik", a, b))])


def test_conversions(stream: ms.Stream) -> None:
    a = np.array([-1.75, 0.0, 0.5, 200.25, 3e9], np.float32)
    x = ms.Graph().buffer(stream.create(a))
    check(
        stream,
        [(x.astype(ms.i64), a.astype(np.int64)), (x[:4].astype("float16"), a[:4].astype(np.float16)), (x.astype(ms.bool_), a.astype(bool)),
         (x.cast("i32"), np.array([-1, 0, 0, 200, 2**31 - 1], np.int32)), (x.astype(np.float64).sqrt().isnan(), a < 0)],
    )  # fmt: skip
