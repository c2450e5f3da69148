"""Every operation on every type that it takes: `python3 -m make.operations > operations.jsonl`.

The data is fixed, so the file is reproducible.
"""

import numpy as np

from . import elements
from .graph import Graph, Reject
from .named import given, lengths, part, show, some
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


EVERY = [(of, dtype) for dtype in DTYPES for of in (elements_of, reductions_of, products_of, long_rows_of)]

if __name__ == "__main__":
    show({f"{of.__name__}_{dtype}": lambda of=of, dtype=dtype: of(dtype) for of, dtype in EVERY if (of, dtype) != (products_of, "bool")})
