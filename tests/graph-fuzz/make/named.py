"""One case for each known error of graph compilers, by name: `python3 -m make.named > named.jsonl`.

The data is fixed, so the file is reproducible.
"""

import json

import numpy as np

from . import data, sizes
from .graph import Graph
from .values import F, LD, NUMPY, SIZE, is_float

S = sizes.fixed
NAMED = {}


def named(of):
    NAMED[of.__name__] = of
    return of


def lengths(*axes):
    return tuple(axis if isinstance(axis, tuple) else S(axis) for axis in axes)


def an(graph, dtype, *axes):
    """Adds an input with distinct numbers."""
    shape = lengths(*axes)
    count = int(np.prod(graph.most(shape), dtype=np.int64))
    salt = len(graph.inputs)
    numbers = (np.arange(count) * 5 + salt * 3) % 11 - (5 if not dtype.startswith("u") else 0)
    value = F((numbers / 4).astype(LD)) if is_float(dtype) else numbers.astype(NUMPY[dtype])
    return graph.input(dtype, shape, graph.handle(data.encode(value, dtype)))


def ones(graph, dtype, count):
    return graph.input(dtype, lengths(count), graph.handle(data.encode(F(np.ones(count)), dtype)))


def places(graph, numbers, *axes):
    return graph.input("i64", lengths(*axes), graph.handle(np.array(numbers, np.int64).tobytes()))


def symbolic(most, *values):
    return Graph([most], [{"lengths": [v], "scalars": []} for v in values])


@named
def product_as_a_part_of_a_cat():
    g = Graph()
    a, b = an(g, "f32", 3, 2), an(g, "f32", 3, 3)
    return g, [g.add("cat", g.add("matmul_t", a, a), b, axis=1)]


@named
def softmax_over_a_cat():
    g = Graph()
    a, b = an(g, "f32", 2, 5), an(g, "f32", 2, 5)
    return g, [g.add("softmax", g.add("cat", a, b, axis=1), axes=[-1]), g.add("softmax", g.add("stack", a, b, axis=0), axes=[-1])]


@named
def set_of_a_buffer_to_its_own_roll():
    g = Graph()
    a = an(g, "f32", 5, 2)
    return g, [g.add("set", a, g.add("roll", a, axis=0, by=1))]


@named
def sum_over_an_axis_of_length_1_is_a_new_buffer():
    g = Graph()
    x, z = an(g, "f32", 1, 3), an(g, "f32", 1, 3)
    return g, [g.add("set", g.add("sum", x, axes=[0]), z), x]


@named
def cast_to_the_same_type_is_a_new_buffer():
    g = Graph()
    x, z = an(g, "f32", 3), an(g, "f32", 3)
    return g, [g.add("set", g.add("cast", x, dtype="f32"), z)]


@named
def reshape_to_the_same_shape_is_a_new_buffer():
    g = Graph()
    x, z = an(g, "i32", 3), an(g, "i32", 3)
    return g, [g.add("set", g.add("reshape", x, shape=lengths(3)), z)]


@named
def broadcast_to_the_same_shape_is_a_new_buffer():
    g = Graph()
    x, z = an(g, "u8", 3), an(g, "u8", 3)
    return g, [g.add("set", g.add("broadcast_to", x, shape=lengths(3)), z)]


@named
def reduction_of_a_transposed_empty_buffer():
    g = Graph()
    return g, [g.add("sum", g.add("t", an(g, "f32", 0, 8)), axes=[0, 1]), g.add("max", g.add("t", an(g, "i32", 0, 8)), axes=[1])]


@named
def sum_over_two_axes_of_an_empty_buffer():
    g = Graph()
    return g, [g.add("sum", g.add("add", an(g, "f32", 3, 0), an(g, "f32", 3, 1)), axes=[0, 1])]


@named
def transposed_softmax_of_an_empty_buffer():
    g = Graph()
    return g, [g.add("t", g.add("softmax", an(g, "f32", 0, 6), axes=[-1]))]


@named
def reduction_over_a_symbolic_length_of_0():
    g = symbolic(4, 0, 1, 4)
    x = an(g, "u32", 1, 2, sizes.symbol(0))
    return g, [g.add("max", g.add("t", x), axes=[0, 2, 1])]


@named
def scatter_of_the_old_version_into_the_new_one():
    g = Graph()
    a, b, ix = an(g, "f32", 2, 2), an(g, "f32", 2, 2), places(g, [0, 1, 1, 0], 2, 2)
    return g, [g.add("scatter", g.add("set", a, b), ix, a, axis=0)]


@named
def mean_of_nothing_is_nan():
    g = symbolic(4, 0, 1, 4, 0)
    x = an(g, "f32", sizes.symbol(0), 2)
    return g, [g.add("mean", x, axes=[0]), g.add("variance", x, axes=[0])]


@named
def mean_of_ones_is_one():
    g = Graph()
    return g, [g.add("mean", ones(g, dtype, count), axes=[0]) for dtype, count in [("f32", 41), ("f64", 49), ("f32", 107), ("f16", 3)]]


@named
def several_reductions_of_one_input():
    g = Graph()
    x = an(g, "f32", 4, 5)
    return g, [g.add("sum", x, axes=[0]), g.add("max", x, axes=[0]), g.add("argmin", x, axes=[1]), g.add("sum", x)]


@named
def poison_follows_dependencies_in_merged_groups():
    g = symbolic(5, 5, 0, 3)
    a, b = an(g, "f32", 4, sizes.symbol(0)), an(g, "f32", 4, sizes.symbol(0))
    total = g.add("sum", a, axes=[1])
    apart = g.add("sub", a, total)
    roots = [g.add("sum", g.add("mul", a, b), axes=[1]), total, g.add("max", g.add("add", a, b), axes=[1]), g.add("max", a, axes=[1])]
    return g, roots + [g.add("max", apart, axes=[1]), g.add("max", g.add("sub", b, total), axes=[1]), g.add("set", a, apart)]


@named
def set_of_a_whole_buffer():
    g = Graph()
    a, b = an(g, "f32", 3), an(g, "f32", 3)
    return g, [g.add("set", a, b)]


@named
def poison_does_not_spread_through_reused_memory():
    g = Graph()
    x, y = an(g, "u8", 2, 2), an(g, "u32", 4, 3, 2, 3)
    apart = g.add("sub", x, g.add("stack", x, x, x, axis=0))
    return g, [apart, g.add("product", g.add("cat", y, y, axis=3), axes=[3])]


@named
def store_without_readers_happens():
    g = Graph()
    x, z = an(g, "i64", 1, 1), an(g, "i64", 1, 1)
    return g, [g.add("argmin", g.add("set", x, z), axes=[0])]


@named
def two_stores_into_one_version():
    g = Graph()
    x, a, b = an(g, "f32", 4), an(g, "f32", 4), an(g, "f32", 4)
    first = g.add("set", x, g.add("add", x, a))
    return g, [first, g.add("set", x, g.add("mul", first, b))]


@named
def two_stores_with_reversed_roots():
    g = Graph()
    x, a, b = an(g, "f32", 4), an(g, "f32", 4), an(g, "f32", 4)
    first, second = g.add("set", x, a), g.add("set", x, b)
    return g, [second, first]


@named
def two_buffers_are_swapped():
    g = Graph()
    a, b = an(g, "i64", 3), an(g, "i64", 3)
    return g, [g.add("set", a, b), g.add("set", b, a)]


@named
def old_and_new_version_as_roots():
    g = Graph()
    x = an(g, "f32", 4)
    new = g.add("set", x, g.add("neg", x))
    return g, [x, new, g.add("sub", new, x)]


@named
def growing_cache():
    g = symbolic(4, 0, 1, 4, 2)
    cache, row = an(g, "f16", 5, 2), an(g, "f16", 1, 2)
    new = g.add("set_rows", cache, row, axis=0, start=sizes.symbol(0))
    return g, [new, g.add("sum", new, axes=[0]), cache]


@named
def store_into_a_range_that_overlaps_another_input():
    g = Graph()
    raw = g.handle(np.arange(5, dtype=np.float64).tobytes())
    a, b = g.input("f64", lengths(3), raw), g.input("f64", lengths(3), raw, 2 * SIZE["f64"])
    new = g.add("set", a, b)
    return g, [new, g.add("mul", new, b)]


@named
def input_of_zero_bytes():
    g = Graph()
    x, w = an(g, "f32", 0, 4), an(g, "f32", 4, 4)
    return g, [g.add("matmul", g.add("matmul", x, w), w), g.add("matmul_t", g.add("t", x), g.add("t", x))]


def main():
    for name, of in NAMED.items():
        graph, roots = of()
        graph.roots = roots
        print(json.dumps(graph.to_case(name), separators=(",", ":")))


if __name__ == "__main__":
    main()
