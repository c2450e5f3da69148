"""Random inputs: types, shapes with and without symbols, and numbers."""

import numpy as np

from . import data, sizes
from .values import F, LD, NUMPY, is_float, rounded

S = sizes.fixed


def shape_of(*lengths):
    return tuple(length if isinstance(length, tuple) else S(length) for length in lengths)


def length(rng, graph):
    """Returns a random length: mostly small, sometimes 0 or 1, a symbol or a polynomial."""
    if graph.symbols and rng.random() < 0.4:
        n = sizes.symbol(int(rng.integers(len(graph.symbols))))
        pick = rng.random()
        if pick < 0.75:
            return n
        if pick < 0.85:
            return sizes.times(n, S(2))
        if pick < 0.95:
            return sizes.plus(n, S(int(rng.integers(1, 3))))
        return sizes.times(n, sizes.symbol(int(rng.integers(len(graph.symbols)))))
    return S(int(rng.choice([0, 1, 2, 3, 4, 5, 6, 8], p=[0.05, 0.15, 0.2, 0.2, 0.15, 0.1, 0.1, 0.05])))


def shape(rng, graph):
    rank = int(rng.choice([0, 1, 2, 3, 4], p=[0.05, 0.25, 0.4, 0.2, 0.1]))
    if rng.random() < 0.03:
        # Rows that are long enough for several tiles or vectors.
        return shape_of(*[int(rng.integers(1, 4))] * (rank > 1), int(rng.choice([65, 130, 257, 300])))
    while True:
        made = tuple(length(rng, graph) for _ in range(rank))
        if np.prod(graph.most(made), dtype=np.int64) <= 96:
            return made


def numbers(rng, dtype, count):
    """Returns random elements of a type: small round numbers, arbitrary ones, and some special values."""
    if dtype == "bool":
        return rng.random(count) < 0.5
    if not is_float(dtype):
        info = np.iinfo(NUMPY[dtype])
        low = 0 if dtype.startswith("u") else -6
        small = rng.integers(low, 9, count)
        if rng.random() < 0.3:
            whole = rng.integers(info.min, info.max, count, dtype=NUMPY[dtype], endpoint=True)
            ends = rng.choice(np.array([info.min, info.max, 0, 1], NUMPY[dtype]), count)
            pick = rng.random(count)
            return np.where(pick < 0.2, whole, np.where(pick < 0.3, ends, small.astype(NUMPY[dtype]))).astype(NUMPY[dtype])
        return small.astype(NUMPY[dtype])
    kind = rng.random()
    if kind < 0.35:
        v = rng.integers(-6, 9, count) * 1.0
    elif kind < 0.6:
        v = rng.integers(-16, 17, count) / 4.0
    elif kind < 0.65:
        v = np.ones(count)
    else:
        v = rng.uniform(-3, 3, count)
    if rng.random() < 0.12:
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e-5], count)
        v = np.where(rng.random(count) < 0.2, special, v)
    return F(rounded(np.asarray(v, LD), dtype))


def indices(rng, count, there):
    """Returns random indices along an axis, with repetitions, and some of them out of range."""
    low, high = (-2, there + 2) if rng.random() < 0.4 else (0, max(there, 1))
    return rng.integers(low, high, count).astype(np.int64)


def random_input(rng, graph, dtype, of_shape, values=None):
    count = int(np.prod(graph.most(of_shape), dtype=np.int64))
    values = numbers(rng, dtype, count) if values is None else values
    return graph.input(dtype, of_shape, graph.handle(data.encode(values, dtype)))
