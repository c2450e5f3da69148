"""Patterns of graphs that graph compilers are known to get wrong, with random types, lengths and data.

A pattern is a function that adds nodes to a graph and returns the roots; `all_patterns` returns their names. Random
nodes may follow.
"""

import numpy as np

from . import data, shapes, sizes
from .graph import Graph
from .random_graph import Generator, fresh, add_random_nodes
from .shapes import shape_of
from .values import F, FLOATS, LD, SIZE, Reject, is_float

S = sizes.fixed
PATTERNS = {}


def pattern(of):
    PATTERNS[of.__name__] = of
    return of


def two_axes(w, low=1):
    return [S(int(w.rng.integers(low, 6))) for _ in range(2)]


def arithmetic(w):
    return w.one(["f64", "f32", "f16", "bf16", "i64", "i32", "u32", "u8"])


@pattern
def cat_with_a_product(w):
    """Concatenates a product and an input."""
    m, k = two_axes(w)
    dtype = arithmetic(w)
    a, b = w.input(dtype, (m, k)), w.input(dtype, (m, S(int(w.rng.integers(0, 4)))))
    parts = [w.graph.add("matmul_t", a, a), b]
    return [w.graph.add("cat", *(parts if w.chance(0.6) else parts[::-1]), axis=1)]


@pattern
def rows_of_a_cat(w):
    """A softmax of concatenated or stacked rows."""
    dtype, shape = w.one(FLOATS), (*two_axes(w),)
    a, b = w.input(dtype, shape), w.input(dtype, shape)
    joined = w.graph.add("stack", a, b, axis=0) if w.chance(0.5) else w.graph.add("cat", a, b, axis=1)
    return [w.graph.add(w.one(["softmax", "log_softmax"]), joined, axes=[-1])]


@pattern
def set_to_moved_self(w):
    """Stores values that are computed from the base, elementwise or not."""
    graph, shape = w.graph, (*two_axes(w),)
    x = w.input(w.one(FLOATS + ("i32", "i64")), shape)
    square = shape[0] == shape[1]
    moved = w.one(["roll", "t", "sum", "neg", "cumulated"])
    if moved == "t" and square:
        values = graph.add("t", x)
    elif moved == "sum":
        values = graph.add("add", x, graph.add("sum", x, axes=[0]))
    elif moved == "neg":
        values = graph.add("neg", x)
    elif moved == "cumulated":
        values = graph.add("add", x, graph.add("roll", x, axis=1, by=1))
    else:
        values = graph.add("roll", x, axis=0, by=1)
    new = graph.add("set", x, values)
    return w.one([[new], [new, x], [x, new], [graph.add("sub", new, x)]])


@pattern
def set_of_an_unchanged_result(w):
    """A reduction, cast, reshape or broadcast that changes nothing, and then a store into the result: the input is
    unchanged."""
    graph = w.graph
    shape = (S(1), S(int(w.rng.integers(1, 6))))
    dtype = arithmetic(w)
    x, z = w.input(dtype, shape), w.input(dtype, shape)
    what = w.one(["sum", "max", "product", "cast", "reshape", "broadcast_to", "narrow", "permute", "squeeze", "mean", "select"])
    if what in ("sum", "max", "product"):
        same = graph.add(what, x, axes=[0])
    elif what == "mean" and is_float(dtype):
        same = graph.add("mean", x, axes=[0])
    elif what in ("cast", "mean", "select"):
        same = graph.add("cast", x, dtype=dtype)
    elif what in ("reshape", "broadcast_to"):
        same = graph.add(what, x, shape=shape)
    elif what == "narrow":
        same = graph.add("narrow", x, axis=1, start=S(0), len=shape[1])
    elif what == "permute":
        same = graph.add("permute", x, axes=[0, 1])
    else:
        same = graph.add("unsqueeze", graph.add("squeeze", x, axis=0), axis=0)
    new = graph.add("set", same, z)
    return w.one([[new], [new, x], [new, graph.add("neg", x) if not dtype.startswith("u") else x]])


@pattern
def reductions_of_nothing(w):
    """Reductions of transposed axes of length 0."""
    graph, n = w.graph, S(int(w.rng.integers(1, 9)))
    dtype = arithmetic(w)
    shape = w.one([(n, S(0)), (S(0), n)])
    x = w.input(dtype, shape)
    op = w.one(["sum", "product", "max", "min", "argmax", "argmin"])
    axes = w.one([[0], [1], [0, 1], [-1]])
    pick = w.rng.random()
    if pick < 0.4:
        return [graph.add(op, graph.add("t", x), axes=axes)]
    if pick < 0.7:
        y = w.input(dtype, (shape[0], S(1)))
        return [graph.add(op, graph.add("add", x, y), axes=axes)]
    if is_float(dtype):
        rows = graph.add(w.one(["softmax", "log_softmax"]), x, axes=[-1])
        return [graph.add("t", rows)] if w.chance(0.6) else [graph.add(op, graph.add("t", rows), axes=axes)]
    return [graph.add(op, graph.add("t", graph.add("mul", x, x)), axes=axes), graph.add(op, x, axes=axes)]


@pattern
def set_and_scatter(w):
    """Scatters the old version of a buffer into the new one."""
    graph = w.graph
    shape = (*two_axes(w),)
    dtype = w.one(FLOATS + ("i64", "i32", "u8"))
    a, b = w.input(dtype, shape), w.input(dtype, shape)
    index = w.index_for(shape, 0, sizes.known(shape[0]))
    new = graph.add("set", a, b)
    op = "scatter" if dtype in ("f16", "bf16") or w.chance(0.7) else "scatter_add"
    done = graph.add(op, new, index, a, axis=0)
    return w.one([[done], [done, new], [new, done], [done, a]])


@pattern
def mean_of_ones(w):
    """The mean of any number of ones is exactly one."""
    count = int(w.rng.integers(1, 120))
    shape = w.one([(S(count),), (S(2), S(count)), (S(count), S(3))])
    dtype = w.one(FLOATS)
    total = int(np.prod(w.graph.most(shape)))
    x = w.input(dtype, shape, F(np.ones(total, LD)))
    axis = [0] if len(shape) == 1 or shape[0] == S(count) else [1]
    mean = w.graph.add("mean", x, axes=axis)
    return [w.graph.add("floor", mean)] if w.chance(0.3) else [mean]


@pattern
def mean_of_any_number(w):
    """Means over a symbolic length, including 0."""
    if not w.graph.symbols:
        raise Reject("the graph has no symbols")
    shape = (sizes.symbol(0), S(int(w.rng.integers(1, 4))))
    x = w.input(w.one(FLOATS), shape)
    return [w.graph.add(w.one(["mean", "variance"]), x, axes=w.one([[0], [0, 1]]))]


@pattern
def many_reductions_of_one(w):
    graph = w.graph
    x = w.input(w.one(FLOATS + ("i32", "i64")))
    if not graph[x].shape:
        raise Reject("no axes")
    count = int(w.rng.integers(2, 5))
    made = []
    for _ in range(count):
        axes = w.axes(graph[x].shape)
        made.append(graph.add(w.one(["sum", "max", "min", "argmax", "any", "all"]), x, **({} if axes is None else {"axes": axes})))
    return made


@pattern
def siblings_of_one(w):
    """Values over the same elements or rows of one input, some of which depend on another input, or on each other."""
    graph = w.graph
    x = w.input(w.one(FLOATS + ("i32", "i64")))
    node = graph[x]
    if not node.shape:
        raise Reject("no axes")
    y = w.input(node.dtype, node.shape)
    axes = w.axes(node.shape)
    over = {} if axes is None else {"axes": axes}
    like = [x, x, graph.add("mul", x, x), graph.add("sub", x, y)] if w.chance(0.4) else [x, graph.add("mul", x, x)]
    made = []
    for _ in range(int(w.rng.integers(2, 6))):
        of, pick = w.one(like), w.rng.random()
        if pick < 0.55:
            new = graph.add(w.one(["sum", "sum", "max", "min", "argmax", "product"]), of, **over)
        elif pick < 0.7 and is_float(node.dtype):
            new = graph.add(w.one(["softmax", "mean", "variance"]), of, axes=axes or list(range(len(node.shape))))
        else:
            new = graph.add(w.one(["neg", "abs"]), of)
        made.append(new)
        if graph[new].dtype == node.dtype and w.chance(0.5):
            like.append(graph.add(w.one(["sub", "minimum"]), x, new) if w.chance(0.7) else graph.add("abs", new))
    if w.chance(0.3):
        made += [like[-1]]
    if w.chance(0.2):
        made += [graph.add("set", x, graph.add("neg", y))]
    return made


@pattern
def two_versions_of_one(w):
    """Two stores into one version: the second is in a copy."""
    graph, shape = w.graph, (*two_axes(w),)
    dtype = arithmetic(w)
    x, a, b = (w.input(dtype, shape) for _ in range(3))
    first = graph.add("set", x, graph.add("add", x, a))
    second = graph.add("set", x, graph.add("mul", first, b) if w.chance(0.5) else b)
    return w.one([[first, second], [graph.add("add", first, second)], [first, second, x]])


@pattern
def swap(w):
    graph, shape = w.graph, (*two_axes(w),)
    dtype = w.dtype()
    a, b = w.input(dtype, shape), w.input(dtype, shape)
    roots = [graph.add("set", a, b), graph.add("set", b, a)]
    if w.chance(0.3):
        c = w.input(dtype, shape)
        roots = [graph.add("set", a, b), graph.add("set", b, c), graph.add("set", c, a)]
    return roots + w.one([[], [a], [b]])


@pattern
def stored_rows_and_layouts(w):
    """A growing cache, which is read before and after a store."""
    graph = w.graph
    rows, columns = int(w.rng.integers(2, 7)), S(int(w.rng.integers(1, 4)))
    dtype = w.dtype()
    cache, more = w.input(dtype, (S(rows), columns)), w.input(dtype, (S(1), columns))
    start = S(int(w.rng.integers(0, rows)))
    if graph.symbols and graph.symbols[0] < rows:
        start = sizes.symbol(0)
    new = graph.add("set_rows", cache, more, axis=0, start=start)
    second = graph.add("set_layout", new, w.input(dtype, (S(2),)), start=S(0), strides=(S(1),)) if columns != S(1) else new
    return w.one([[second], [second, cache], [new, second], [graph.add("stack", cache, second, axis=0)]])


@pattern
def overlapping_inputs(w):
    """Inputs that are ranges of one handle; at most one of them is stored into."""
    graph = w.graph
    dtype, count = arithmetic(w), int(w.rng.integers(2, 9))
    shift = int(w.rng.integers(0, count + 1))
    raw = data.encode(shapes.numbers(w.rng, dtype, count + shift), dtype)
    handle = graph.handle(raw)
    a = graph.input(dtype, shape_of(count), handle)
    b = graph.input(dtype, shape_of(count), handle, shift * SIZE[dtype])
    both = graph.add("add", a, b)
    if w.chance(0.5):
        return [both]
    values = w.one([both, b, graph.add("roll", b, axis=0, by=1)])
    new = graph.add("set", a, values)
    return w.one([[new], [new, both], [graph.add("mul", new, b)], [new, graph.add("max", b, axes=[0])]])


@pattern
def wide_products(w):
    """Products with broadcast batches, and operations on them."""
    graph = w.graph
    m, k = two_axes(w, 0)
    n = S(int(w.rng.integers(0, 6)))
    dtype = arithmetic(w)
    batch = w.one([(), (S(2),), (S(1),), (S(3), S(1))])
    a, b = w.input(dtype, batch + (m, k)), w.input(dtype, w.one([(), (S(2),)] if batch != (S(3), S(1)) else [(), (S(2),)]) + (k, n))
    product = graph.add("matmul", a, b)
    bias = w.input(dtype, (n,))
    after = graph.add("add", product, bias)
    return w.one([[after], [after, product], [graph.add("max", after, axes=[-1])], [graph.add("cat", after, after, axis=-1)]])


def pattern_graph(rng, name):
    """Returns a graph with a pattern, and in some cases random nodes behind it."""
    for _ in range(60):
        graph = fresh(rng)
        generator = Generator(rng, graph)
        try:
            roots = PATTERNS[name](generator)
        except Reject:
            continue
        if generator.chance(0.4):
            before = len(graph.nodes)
            goal = before + int(rng.integers(1, 6))
            add_random_nodes(generator, 30, lambda: len(graph.nodes) >= goal)
            used = {operand for node in graph.nodes[before:] for operand in node.of}
            roots = roots + [i for i in range(before, len(graph.nodes)) if i not in used and graph[i].op != "input"][-2:]
        graph.roots = list(dict.fromkeys(roots))
        return graph
    raise AssertionError(f"no graph with the pattern {name} is valid")


def all_patterns():
    return list(PATTERNS)


__all__ = ["Graph", "all_patterns", "pattern_graph"]
