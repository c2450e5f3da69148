"""Runs of compiled graphs: bindings, stores, threads, caches, errors."""

from __future__ import annotations

import concurrent.futures
import gc
from collections.abc import Callable
from typing import Any

import millstream as ms
import numpy as np
import pytest


def test_a_compiled_schedule_runs_many_times(device: ms.Device, stream: ms.Stream) -> None:
    graph = ms.Graph()
    x = graph.input("x", (4, 3), ms.f32)
    rate, rate_now = graph.scalar("rate", 2.0, ms.f32)
    y = (x * rate_now).sum(1)
    schedule = ms.Schedule(y, x + 1)
    assert len(schedule) == 2 and "sum(" in str(schedule) and schedule.dot().startswith("digraph")
    compiled = schedule.compile(device)
    assert compiled.tasks == 2 and compiled.takes(x) and not compiled.takes(graph.input("z", 1, ms.f32))
    assert compiled.output_bytes >= 64 and compiled.peak_bytes >= compiled.output_bytes + compiled.temporary_bytes
    assert rate.name == "rate" and rate.dtype is ms.f32
    target = stream.empty(4, ms.f32)
    for run in range(4):
        a = np.full((4, 3), run, np.float32)
        sums, plus = compiled.run(stream, {x: stream.create(a)})
        assert sums.shape == (4,) and sums.dtype is ms.f32 and plus.shape == (4, 3)
        assert np.array_equal(stream.read(sums).wait(), 2 * a.sum(1)) and np.array_equal(stream.read(plus).wait(), a + 1)
        compiled.run(stream, {x: stream.create(a)}, {rate: np.float32(0.5)}, {0: target})
        assert np.array_equal(stream.read(target).wait(), 0.5 * a.sum(1))


def test_buffers_are_bound_without_copies(device: ms.Device, stream: ms.Stream) -> None:
    graph = ms.Graph()
    a = stream.create(np.arange(6, dtype=np.float32))
    w = graph.buffer(a)
    compiled = ms.Schedule(w + w).compile(device)
    assert stream.read(*compiled.run(stream)).wait().tolist() == [0, 2, 4, 6, 8, 10]
    # The next run sees what a task of the stream wrote into the buffer; a run may bind another in its place.
    stream.fill(a, 1.0)
    assert stream.read(*compiled.run(stream)).wait().tolist() == [2] * 6
    assert stream.read(*compiled.run(stream, {w: stream.zeros(6, ms.f32)})).wait().tolist() == [0] * 6
    assert not a.unique
    del w, compiled, graph
    gc.collect()
    stream.sync().wait()
    assert a.unique


def test_stores_are_in_place_and_old_versions_stay(device: ms.Device, stream: ms.Stream) -> None:
    handle = stream.create(np.arange(8, dtype=np.int32).reshape(4, 2))
    graph = ms.Graph()
    x = graph.buffer(handle)
    new = x.set(x * 10)
    compiled = ms.Schedule(new - x, new).compile(device)
    change, same = compiled.run(stream)
    assert np.array_equal(stream.read(change).wait(), 9 * np.arange(8).reshape(4, 2))
    assert np.array_equal(stream.read(handle).wait(), 10 * np.arange(8).reshape(4, 2))
    assert np.array_equal(stream.read(same).wait(), stream.read(handle).wait())
    rows = ms.Schedule(x.set_rows(0, 1, graph.full((2, 2), 7, ms.i32))).compile(device)
    rows.run(stream)
    assert stream.read(handle).wait().tolist() == [[0, 10], [7, 7], [7, 7], [60, 70]]
    ms.Schedule(x.set(0)).compile(device).run(stream)
    assert not stream.read(handle).wait().any()


def test_random_numbers_depend_on_the_seed(device: ms.Device, stream: ms.Stream) -> None:
    graph = ms.Graph()
    seed, uniform = graph.uniform((1000,), 7)
    _, normal = graph.normal((1000,), 8)
    compiled = ms.Schedule(uniform, normal).compile(device)
    values, bell = (stream.read(result).wait() for result in compiled.run(stream))
    again = stream.read(compiled.run(stream)[0]).wait()
    other = stream.read(compiled.run(stream, None, {seed: 9})[0]).wait()
    assert np.array_equal(values, again) and not np.array_equal(values, other)
    assert 0 <= values.min() and values.max() < 1 and abs(values.mean() - 0.5) < 0.05 and abs(bell.std() - 1) < 0.1
    assert graph.random_bits(4, 1)[1].eval(stream).dtype == np.uint32


def test_threads_run_one_compiled_schedule(device: ms.Device) -> None:
    setup = device.stream()
    graph = ms.Graph()
    x, w = graph.input("x", (16, 8), ms.f32), graph.buffer(setup.create(np.eye(8, dtype=np.float32) * 2))
    compiled = ms.Schedule((x @ w).softmax() + (x.exp() @ w).sum(1, keepdims=True)).compile(device)

    def body(number: int) -> bool:
        stream = device.stream()
        a = np.random.default_rng(number).random((16, 8), np.float32)
        source = stream.create(a)
        powers = np.exp(2 * a)
        expected = powers / powers.sum(1, keepdims=True) + 2 * np.exp(a).sum(1, keepdims=True)
        results = [compiled.run(stream, {x: source})[0] for _ in range(20)]
        return all(np.allclose(stream.read(result).wait(), expected, rtol=1e-5) for result in results)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(body, range(4)))


def test_runs_wait_for_room_one_submission_at_a_time() -> None:
    # A run with three new outputs is four submissions, each of which finds room, also if there is room for one only.
    for options, max_tasks in [({"mailbox_capacity": 1}, None), ({"max_in_flight": 1, "max_held": 2}, 2)]:
        with ms.Device("cpu", **options) as device:
            stream, graph = device.client(max_tasks=max_tasks).stream(), ms.Graph()
            x = graph.input("x", 100, ms.f32)
            compiled = ms.Schedule(x * 2, x.sum(), (x + 1).exp()).compile(stream)
            source = stream.create(np.ones(100, np.float32))

            def body(_: int) -> bool:
                results = [compiled.run(stream, {x: source}) for _ in range(20)]
                return all(stream.read(double).wait()[0] == 2 and stream.read(total).wait() == 100 for double, total, _ in results)

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                assert all(pool.map(body, range(4)))


def test_threads_build_and_compile_with_one_cache(device: ms.Device) -> None:
    cache, graph = ms.GraphCache(), ms.Graph()

    def body(number: int) -> list[float]:
        stream = device.stream()
        x = graph.buffer(stream.create(np.full(5, number, np.float32)))
        compiled = ms.Schedule((x + 1) * 2).compile(stream, cache)
        return [float(value) for value in stream.read(*compiled.run(stream)).wait()]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(body, range(12))) == [[2.0 * number + 2] * 5 for number in range(12)]
    stats = cache.stats()
    assert stats["schedule_lookups"] == 12 and 1 <= stats["schedules_recorded"] <= 4 and stats["cached_kernels"] == 1
    gc.collect()
    assert len(graph) == 0


def test_lengths_are_those_of_the_bound_buffers(device: ms.Device, stream: ms.Stream) -> None:
    random, graph, cache = np.random.default_rng(10), ms.Graph(), ms.GraphCache()
    n = graph.length("n", 50)
    x, y = graph.input("x", (n, 4), ms.f32), graph.input("y", (n, 4), ms.f32)
    assert x.sizes == (n, 4) and n.max == 50 and str(2 * n + 1) == "2*n + 1" and x.T.sizes == (4, n)
    both = ms.concatenate([x, y * 2]).mean(0)
    compiled = ms.Schedule(x.sum(1), both, x.reshape(n * 4) + 1, graph.length_value(n), x.mT @ y).compile(device, cache)
    for length in (3, 50, 1):
        a, b = (random.integers(-9, 9, (length, 4)).astype(np.float32) for _ in range(2))
        results = compiled.run(stream, {x: stream.create(a), y: stream.create(b)})
        expected = [a.sum(1), np.concatenate([a, b * 2]).mean(0), a.reshape(-1) + 1, np.int64(length), a.T @ b]
        for got, wanted in zip(results, expected):
            assert got.shape == wanted.shape and np.allclose(stream.read(got).wait(), wanted, atol=1e-6)
    assert cache.stats()["schedules_recorded"] == 1
    with pytest.raises(ms.ArgumentError, match=r"`y` f32 \[n, 4\]\) takes a buffer of f32 \[n, 4\], got f32 \[2, 4\]"):
        compiled.run(stream, {x: stream.zeros((3, 4), ms.f32), y: stream.zeros((2, 4), ms.f32)})
    with pytest.raises(ms.ArgumentError, match="the length `n` must be at most 50, got 51"):
        compiled.run(stream, {x: stream.zeros((51, 4), ms.f32), y: stream.zeros((51, 4), ms.f32)})
    with pytest.raises(ms.ArgumentError, match="`shape` of f32 .*use `sizes`"):
        _ = x.shape
    with pytest.raises(ms.ArgumentError, match="`getitem` of f32 .*length of axis 0 is set by each run"):
        _ = x[1:]
    counts = ms.Schedule(graph.arange(n)).compile(device)
    assert stream.read(*counts.run(stream, lengths={n: 3})).wait().tolist() == [0, 1, 2]
    with pytest.raises(ms.ArgumentError, match="the length `n` is not bound"):
        counts.run(stream)
    with pytest.raises(ms.ArgumentError, match="the length `n` must be at most 50, got 1099511627776"):
        counts.run(stream, lengths={n: 2**40})
    with pytest.raises(ms.ArgumentError, match="is computed from lengths"):
        counts.run(stream, lengths={n + 1: 3})


def test_gradients(device: ms.Device, stream: ms.Stream) -> None:
    a = np.array([0.5, -1.0, 2.0], np.float32)
    x = ms.Graph().buffer(stream.create(a))
    (slope,) = (x**2 * 3 + x.detach() * x).sum().grad([x])
    assert np.allclose(slope.eval(stream), 7 * a)


def test_failures_travel_through_runs(cpu: ms.Device) -> None:
    stream, graph = cpu.stream(), ms.Graph()
    x = graph.input("x", 4, ms.f32)
    compiled = ms.Schedule(x + 1).compile(cpu)
    a = stream.zeros(4, ms.f32)
    stream.with_deadline(0.0).fill(a, 1.0)
    (lost,) = compiled.run(stream, {x: a})
    with pytest.raises(ms.DeadlinePassed) as caught:
        stream.read(lost).wait()
    assert caught.value.__cause__ is not None
    stream.fill(a, 1.0)
    assert stream.read(*compiled.run(stream, {x: a})).wait().tolist() == [2.0] * 4



REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: v.f + v.g, r"`add` of f32 \[2, 3\] and f32 \[4\]: the shapes cannot be broadcast"),
    (lambda v: v.f * v.n, r"`multiply` of f32 \[2, 3\] and i32 \[2, 3\]: the types differ: `cast` one"),
    (lambda v: v.n + 1.5, r"`add` of i32 \[2, 3\]: i32 cannot represent the float 1.5: `astype` the buffer"),
    (lambda v: v.n + 2**40, "`add`: i32 cannot represent 1099511627776"),
    (lambda v: v.n / 2, "`divide` of i32 .*quotients of integers are floats.*`//`"),
    (lambda v: 1 / v.n, "`divide` of i32 .*`astype`"),
    (lambda v: v.b + 1, "`add` of bool .*the number 1 is not bool"),
    (lambda v: v.b + v.b, r"`add` of bool \[2, 3\] and bool \[2, 3\]: bool is not supported here"),
    (lambda v: v.f & v.f, "`bitwise_and` of f32 .*f32 is not supported here"),
    (lambda v: v.n.sqrt(), r"`sqrt` of i32 \[2, 3\]: i32 is not supported here"),
    (lambda v: v.n**-1, "`power` of i32 .*integer of at least 0"),
    (lambda v: v.f @ v.g, r"`matmul` of f32 \[2, 3\] and f32 \[4, 1\]: the inner lengths 3 and 4 differ"),
    (lambda v: v.f @ 2.0, "`matmul` of f32 .*use `\\*`"),
    (lambda v: v.f.sum(2), "`sum` of f32 .*axis 2 is out of range for 2 axes"),
    (lambda v: v.f.max((0, -2)), "`max` of f32 .*axis -2 is out of range for 2 axes, or repeated"),
    (lambda v: v.f.reshape(4, 2), r"`reshape` of f32 \[2, 3\]: \[4, 2\] has 8 elements, expected 6"),
    (lambda v: v.f.transpose(0, 0), "`transpose` of f32 .*repeat one"),
    (lambda v: v.f[2], "`getitem` of f32 .*index 2 is out of range for axis 0 of length 2"),
    (lambda v: v.f[0, 0, 0], "`getitem` of f32 .*3 indices and 0 `...` for 2 axes"),
    (lambda v: v.f[v.n], "`getitem` of f32 .*not `LazyBuffer`: use `take`"),
    (lambda v: v.f + np.ones(3), "`add` of f32 .*`ndarray` is no operand: create a buffer"),
    (lambda v: v.f + [1], "`add` of f32 .*`list` is no operand"),
    (lambda v: v.f + v.buffer, "`add` of f32 .*`Buffer` is no operand: make it a node by `graph.buffer"),
    (lambda v: v.f == None, "`equal` of f32 .*`NoneType` is no operand"),  # noqa: E711
    (lambda v: v.f + ms.Graph().zeros((), ms.f32), "`add` of f32 .*belong to different graphs"),
    (lambda v: bool(v.f > 0), "`bool` of bool .*has no value before a run"),
    (lambda v: float(v.f), "`float` of f32 .*compute it by `eval`"),
    (lambda v: np.asarray(v.f), "`numpy.asarray` of f32 .*by `eval`"),
    (lambda v: ms.where(v.f, v.f, v.f), "`where` of f32 .*the condition must be bool, got f32"),
    (lambda v: ms.where(v.b, 1, 2), "`where` of bool .*two numbers have no type"),
    (lambda v: ms.concatenate([v.f, v.n]), "`concatenate` of f32 .* and i32 .*the types differ"),
    (lambda v: ms.stack([]), "`stack`: expected at least one buffer, got none"),
    (lambda v: v.f.take(v.n, 0), "`take` of f32 .*the index must be i64, got i32"),
    (lambda v: v.f.set(v.g), "`set` of f32 .*the shapes differ"),
    (lambda v: v.graph.input("x", 3, ms.i16), r"`input` of i16 \[3\]: i16 is not supported here"),
    (lambda v: v.graph.full(3, 1.5, ms.i32), "`full`: i32 cannot represent 1.5"),
    (lambda v: v.n.softmax(), "`softmax` of i32 .*not supported"),
    (lambda v: v.graph.zeros((2, -1), ms.f32), r"`zeros`: the shape \[2, -1\] has a negative length"),
    (lambda v: v.f.narrow(0, -1, 1), "`narrow` of f32 .*-1 is negative"),
    (lambda v: v.f.gather(np.zeros(2, int), 0), "`gather` takes lazy buffers, got `ndarray`"),
    (lambda v: ms.Schedule(), "expected at least one root, got none"),
]
"""Invalid operations, and what their errors say."""


@pytest.mark.parametrize(("expression", "message"), REFUSED)
def test_invalid_operations_name_themselves(cpu: ms.Device, expression: Callable[[Any], Any], message: str) -> None:
    class V:
        graph = ms.Graph()
        f, n = graph.input("f", (2, 3), ms.f32), graph.input("n", (2, 3), ms.i32)
        g, b = graph.input("g", 4, ms.f32), graph.input("b", (2, 3), ms.bool_)
        buffer = cpu.stream().zeros((2, 3), ms.f32)

    with pytest.raises(ms.ArgumentError, match=message):
        expression(V)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.flip("0"), "argument `axis` of `flip`: 'str' object"),
    (lambda x: x.roll("1", 0), "argument `by` of `roll`: 'str' object"),
    (lambda x: x._node.apply("permute", 7, name="transpose"), "argument `axes` of `transpose`: "),
    (lambda x: x._node.apply("add", 1), "argument `other` of `add`: "),
    (lambda x: x._node.apply("add"), r"`add` takes 1 arguments \(other\), got 0"),
    (lambda x: x._node.apply("add", x._node, 1), r"`add` takes 1 arguments \(other\), got 2"),
    (lambda x: x._node.apply("exp", 1), r"`exp` takes 0 arguments \(\), got 1"),
]
"""Arguments of wrong types or number, and what their errors say."""


@pytest.mark.parametrize(("expression", "message"), WRONG)
def test_wrong_arguments_are_named(expression: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        expression(ms.Graph().input("x", (2, 3), ms.f32))


def test_runs_are_checked(cpu: ms.Device) -> None:
    stream, graph = cpu.stream(), ms.Graph()
    x, unused = graph.input("x", (2, 3), ms.f32), graph.input("unused", 1, ms.f32)
    stray, _ = graph.scalar("stray", 1.0, ms.f32)
    compiled = ms.Schedule(x + 1).compile(cpu.client(name="tenant"))
    a = stream.zeros((2, 3), ms.f32)
    with pytest.raises(ms.ArgumentError, match="the input `x` is not bound"):
        compiled.run(stream)
    with pytest.raises(ms.ArgumentError, match=r"`x` f32 \[2, 3\]\) takes a buffer of f32 \[2, 3\], got f32 \[3, 2\]"):
        compiled.run(stream, {x: a.reshape((3, 2))})
    with pytest.raises(ms.ArgumentError, match=r"takes a buffer of f32 \[2, 3\], got i32 \[2, 3\]"):
        compiled.run(stream, {x: a.view(ms.i32)})
    with pytest.raises(ms.ArgumentError, match="`inputs` maps lazy buffers to buffers, got the key 'x'"):
        compiled.run(stream, {"x": a})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ms.ArgumentError, match="the schedule has no input .*unused"):
        compiled.run(stream, {x: a, unused: stream.zeros(1, ms.f32)})
    with pytest.raises(ms.ArgumentError, match="the schedule has no scalar stray"):
        compiled.run(stream, {x: a}, {stray: 1.0})
    with pytest.raises(ms.ArgumentError, match="the schedule has no output root 1"):
        compiled.run(stream, {x: a}, None, {1: a})
    with pytest.raises(ms.ArgumentError, match=r"the output of root 0 takes a buffer of f32 \[2, 3\], got f32 \[6\]"):
        compiled.run(stream, {x: a}, None, {0: stream.zeros(6, ms.f32)})
    with pytest.raises(ms.ArgumentError, match="root 0 overlaps an input"):
        compiled.run(stream, {x: a}, None, {0: a})
    with pytest.raises(ms.ArgumentError, match="takes a Device, a Client or a Stream"):
        ms.Schedule(x).compile("cpu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with ms.Device("cpu") as other:
        foreign = other.stream().zeros((2, 3), ms.f32)
        with pytest.raises(ms.ForeignError):
            compiled.run(stream, {x: foreign})
        with pytest.raises(ms.ForeignError, match="another device"):
            ms.Schedule(graph.buffer(foreign) + 1).compile(cpu)
