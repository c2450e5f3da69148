"""Every operation on every type that it takes: `python3 -m make.operations > operations.jsonl`.

The data is fixed, so the file is reproducible.
"""

import numpy as np

from . import elements
from .graph import Graph, Reject
from .named import S, given, lengths, part, places, show, some
from .place import REDUCTIONS
from .values import DTYPES, HALVES, is_float


def each(graph, ops, *of, **more):
    """Adds each of these operations that takes the operands, and whose results have bounds."""
    made = []
    for op in ops:
        try:
            made.append(graph.add(op, *of, **more))
        except Reject:
            pass
    return made


def operands(graph, dtype, *axes):
    """Adds an input for each reduction. Sums of halves of both signs have no useful bound. Products of floats are
    neither zero nor out of range; those of integers wrap."""
    at = np.arange(np.prod(axes, dtype=np.int64))
    factors = np.where(at % 130 == 0, 2, np.where(at % 3 == 1, -1, 1)) if is_float(dtype) else at % 7 * 2 + 1
    every = dict.fromkeys(REDUCTIONS, some(graph, dtype, *axes, least=0 if dtype in HALVES else -2))
    return {**every, "product": given(graph, dtype, factors, *axes)}


def elements_of(dtype):
    g = Graph()
    a, b = some(g, dtype, 37), some(g, dtype, 37)
    roots = each(g, [*elements.FLOAT_UNARY, "not", "is_nan"], a)
    roots += each(g, elements.ARITHMETIC + elements.BITWISE + elements.SHIFTS + elements.EITHER + elements.COMPARE + ("pow",), a, b)
    roots += each(g, ["pow"], each(g, ["abs"], a)[0], b) if is_float(dtype) else []
    return g, roots + [g.add("cast", a, dtype=to) for to in DTYPES]


def reductions_of(dtype):
    g = Graph()
    return g, [
        root for op, x in operands(g, dtype, 2, 3, 35).items()
        for axes in ([0], [1], [2], [0, 2], [1, 2], None) for root in each(g, [op], x, axes=axes)
    ]


def products_of(dtype):
    g = Graph()
    a, b, bias = some(g, dtype, 2, 1, 17, 5), some(g, dtype, 2, 5, 7), some(g, dtype, 7)
    product = lambda: g.add("matmul", a, b)
    return g, [product(), g.add("maximum", g.add("add", product(), bias), bias), g.add("matmul", g.add("transpose", b, axis=1, other=2), b)]


def long_rows_of(dtype):
    """One and several rows, of lengths with and without a divisor, long enough for several parts."""
    g = Graph()
    roots = []
    for op, x in operands(g, dtype, 512).items():
        for shape, axis in [((1, 509), 1), ((1, 512), 1), ((2, 131), 1), ((15, 34), 1), ((509, 1), 0), ((131, 2), 0), ((34, 15), 0)]:
            rows = g.add("reshape", part(g, x, 0, 0, shape[0] * shape[1]), shape=lengths(*shape))
            roots += each(g, [op], rows, axes=[axis])
    return g, roots


def moves_of(dtype):
    """Operations that move elements. Some indices are out of range, and some repeat; a scatter adds in any order, so each
    of its numbers is a multiple of 1/4."""
    g = Graph()
    small = np.arange(75) * 5 % 11 / (4 if is_float(dtype) else 1)
    a, b = (given(g, dtype, of % 2 if dtype == "bool" else of, *axes) for of, axes in [(small[:35], (5, 7)), (small[35:56], (3, 7))])
    index = places(g, np.arange(21) * 5 % 7 - 1, 3, 7)
    value = True if dtype == "bool" else 1.5 if is_float(dtype) else 3
    narrow = lambda axis, start, count: part(g, a, axis, start, count)
    roots = each(g, ["scatter", "scatter_add"], a, index, b, axis=0)
    roots += [g.add("gather", a, index, axis=axis) for axis in (0, 1)]
    roots += [g.add("take", a, places(g, [4, -1, 0, 7, 4], 5), axis=axis) for axis in (0, 1)]
    roots += [g.add("pad", a, axis=axis, start=S(1), len=S(2), value=value) for axis in (0, 1)]
    roots += [g.add("flip", a, axis=axis) for axis in (0, 1)] + [g.add("repeat", a, axis=axis, len=S(3)) for axis in (0, 1)]
    roots += [g.add("roll", a, axis=axis, by=-2) for axis in (0, 1)] + each(g, ["cumsum"], a, axis=1)
    roots += [g.add("select", g.add("less", index, g.add("constant", dtype="i64", value=2)), b, narrow(0, 1, 3))]
    roots += [g.add("cat", b, narrow(0, 0, 4), axis=0), g.add("stack", b, narrow(0, 2, 3), axis=1)]
    return g, roots + [narrow(1, 2, 4), g.add("permute", a, axes=[1, 0]), g.add("broadcast_to", narrow(0, 3, 1), shape=lengths(2, 4, 7))]


EVERY = [(of, dtype) for dtype in DTYPES for of in (elements_of, reductions_of, products_of, long_rows_of, moves_of)]

if __name__ == "__main__":
    show({f"{of.__name__}_{dtype}": lambda of=of, dtype=dtype: of(dtype) for of, dtype in EVERY if (of, dtype) != (products_of, "bool")})
