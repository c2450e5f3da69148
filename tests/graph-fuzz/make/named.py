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


def some(graph, dtype, *axes, least=-2):
    """Adds an input of numbers that are neither round nor large, of both signs if the type has them."""
    x = (np.arange(np.prod(axes, dtype=np.int64)) * 0.6180339887 + len(graph.inputs) * 0.37) % 1
    if is_float(dtype):
        return given(graph, dtype, 4 * x + least, *axes)
    whole = (x * 23).astype(np.int64)
    return given(graph, dtype, whole % 2 if dtype == "bool" else whole - (11 if dtype.startswith("i") else 0), *axes)


def given(graph, dtype, numbers, *axes):
    numbers = np.asarray(numbers)
    value = F(numbers.astype(LD)) if is_float(dtype) else numbers.astype(NUMPY[dtype])
    return graph.input(dtype, lengths(*axes), graph.handle(data.encode(value, dtype)))


def ones(graph, dtype, count):
    shape = lengths(count)
    return graph.input(dtype, shape, graph.handle(data.encode(F(np.ones(graph.most(shape))), dtype)))


def places(graph, numbers, *axes):
    return graph.input("i64", lengths(*axes), graph.handle(np.array(numbers, np.int64).tobytes()))


def part(graph, of, axis, start, count):
    return graph.add("narrow", of, axis=axis, start=S(start), len=count if isinstance(count, tuple) else S(count))


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


@named
def part_of_a_product():
    g = Graph()
    product = lambda: g.add("matmul", an(g, "f32", 4, 6), an(g, "f32", 6, 5))
    batch = g.add("matmul", an(g, "f32", 3, 4, 6), an(g, "f32", 3, 6, 5))
    columns, rows = part(g, product(), 1, 0, 2), g.add("exp", part(g, product(), 0, 0, 3))
    return g, [columns, rows, part(g, product(), 0, 0, 1), part(g, part(g, batch, 0, 0, 2), 2, 0, 3)]


@named
def integers_beyond_the_floats():
    g = Graph()
    numbers = [(1 << 53) + 1, -(1 << 53) - 1, (1 << 53) + 2, (1 << 63) - 1, -(1 << 63), 3]
    x, y = places(g, numbers, 6), places(g, [1, 0, 2, 1, -1, 0], 6)
    reduced = [g.add(op, x, axes=[0]) for op in ("max", "min", "sum", "argmax")]
    return g, reduced + [g.add("max", part(g, x, 0, 0, 3), axes=[0])] + [g.add(op, x, y) for op in ("add", "mul", "div", "rem")]


@named
def empty_operands():
    g = Graph()
    x, y = an(g, "f32", 0, 4), an(g, "f32", 4, 0)
    return g, [g.add("add", x, x), g.add("sum", x, axes=[0]), g.add("sum", x, axes=[1]), g.add("matmul", y, x), g.add("reshape", x, shape=lengths(0))]


@named
def reductions_of_empty_views():
    g = Graph()
    wide, tall, column, deep = an(g, "f32", 0, 8), an(g, "f32", 3, 0), an(g, "f32", 3, 1), an(g, "f32", 2, 0, 3)
    t = lambda x: g.add("t", x)
    roots = [g.add("sum", t(wide), axes=[1]), g.add("max", g.add("add", tall, column), axes=[1]), t(g.add("softmax", t(tall), axes=[-1]))]
    roots += [g.add("sum", t(g.add("softmax", t(wide), axes=[-1])), axes=[0]), g.add("sum", g.add("permute", deep, axes=[2, 0, 1]), axes=[1, 2])]
    roots += [g.add("product", g.add("permute", deep, axes=[1, 2, 0]), axes=[0]), g.add("sum", g.add("transpose", deep, axis=0, other=2), axes=[0])]
    return g, roots


@named
def rows_of_a_symbolic_number():
    g = symbolic(8, 0, 5, 8)
    rows, nothing = an(g, "f32", 8, 20), an(g, "f32", 3, 0)
    no_rows = g.add("broadcast_to", g.add("reshape", nothing, shape=lengths(0, 3)), shape=lengths(9, 0, 3))
    return g, [g.add("sum", part(g, rows, 0, 0, sizes.symbol(0)), axes=[1]), g.add("sum", nothing, axes=[1]), g.add("sum", no_rows, axes=[0])]


@named
def mean_of_ones_is_one_for_any_length():
    # Lengths whose reciprocal is rounded, so that the product of both is not 1.
    inexact = [n for n in range(1, 200) if np.float32(n) * (np.float32(1) / np.float32(n)) != 1]
    g = symbolic(199, 0, 1, *inexact)
    return g, [g.add("mean", ones(g, "f32", sizes.symbol(0)), axes=[0])]


@named
def side_of_a_product_in_its_epilogue():
    g = Graph()
    row = g.add("reshape", an(g, "f32", 4), shape=lengths(1, 4))
    none = an(g, "f32", 2, 0, 0)
    flat = g.add("merge_axes", none, axis=0, other=1)
    return g, [g.add("mul", g.add("matmul", an(g, "f32", 1, 1), row), row), g.add("mul", g.add("matmul", none, flat), flat)]


@named
def reductions_of_lengths_of_zero():
    g = Graph([6, 5], [{"lengths": list(run), "scalars": []} for run in [(6, 5), (0, 5), (6, 0), (0, 0), (1, 1), (4, 3)]])
    x = part(g, part(g, an(g, "f32", 6, 5), 0, 0, sizes.symbol(0)), 1, 0, sizes.symbol(1))
    return g, [g.add("sum", x, axes=[-1]), g.add("max", x, axes=[-1]), g.add("sum", g.add("mul", x, x), axes=[-1]), g.add("softmax", x, axes=[-1])]


@named
def store_after_all_readers_of_the_old_version():
    g = Graph()
    x = an(g, "f32", 2, 3)
    total, most = g.add("sum", x, axes=[1]), g.add("max", x, axes=[1])
    new = g.add("set", x, g.add("sub", x, total))
    return g, [total, new, most] + [g.add(op, new, axes=[1]) for op in ("sum", "max")] + [g.add("sum", g.add("add", new, x), axes=[1])]


@named
def version_of_a_version():
    g = Graph()
    x = an(g, "f32", 4)
    new = g.add("set", x, g.add("add", x, g.add("constant", dtype="f32", value=1.0)))
    both = g.add("add", x, g.add("mul", new, g.add("constant", dtype="f32", value=64.0)))
    return g, [g.add("neg", x), new, both, g.add("set_rows", new, part(g, new, 0, 0, 2), axis=0, start=S(1))]


@named
def set_of_a_buffer_to_its_own_transpose():
    g = Graph()
    x = an(g, "f32", 6, 6)
    turned = g.add("t", x)
    return g, [g.add("set", x, g.add("add", turned, turned))]


@named
def three_buffers_in_a_cycle():
    g = Graph()
    x = [an(g, "f32", 3) for _ in range(3)]
    return g, [g.add("set", x[at], g.add("add", x[at], x[(at + 1) % 3])) for at in range(3)]


@named
def poison_stays_in_its_softmax():
    g = Graph()
    a, b, c = (an(g, "f32", 4, 4) for _ in range(3))
    stacked = g.add("stack", c, g.add("add", c, c), axis=0)
    return g, [g.add("softmax", g.add("cat", a, b, axis=0), axes=[0]), g.add("softmax", stacked, axes=[1])]


@named
def rows_of_any_number_and_length():
    g = Graph()
    x, roots = some(g, "f32", 4000, least=0), []
    for rows, columns in [(100, 40), (40, 100), (3, 1000), (1, 33), (70, 1), (129, 31)]:
        table = g.add("reshape", part(g, x, 0, 0, rows * columns), shape=lengths(rows, columns))
        roots += [g.add("sum", table, axes=[1]), g.add("max", table, axes=[0]), g.add("sum", g.add("softmax", table, axes=[1]), axes=[0])]
    return g, roots


@named
def sum_of_twenty_buffers():
    g = Graph()
    total = some(g, "f32", 5, 7)
    for _ in range(19):
        total = g.add("add", total, some(g, "f32", 5, 7))
    return g, [total]


@named
def nan_and_infinities():
    g = Graph()
    odd, roots = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1.5, 60, -70], []
    for dtype in ("f32", "f64"):
        x = given(g, dtype, odd * 5, 5, 9)
        tame, huge = part(g, x, 1, 6, 3), part(g, x, 1, 0, 6)
        roots += [g.add(op, x) for op in ("neg", "abs", "sqrt", "log", "exp", "tanh", "erf", "floor", "ceil", "is_nan")]
        roots += [g.add(op, of) for op in ("sin", "cos") for of in (tame, part(g, x, 1, 0, 5))]
        roots += [g.add("max", x, axes=[1]), g.add("argmin", x, axes=[1]), g.add("sum", part(g, x, 1, 1, 2), axes=[1]), g.add("differs", x, x)]
        roots += [g.add("cast", x, dtype=to) for to in ("i32", "u8", "bool")] + [g.add("maximum", tame, part(g, huge, 1, 0, 3))]
    return g, roots


@named
def three_reductions_of_one_pass():
    g = Graph()
    x = some(g, "f32", 9, 20)
    square = lambda: g.add("mul", x, x)
    return g, [root for axes in ([1], [0], [0, 1]) for root in (g.add("sum", x, axes=axes), g.add("max", x, axes=axes), g.add("sum", square(), axes=axes))]


@named
def three_values_of_two_inputs():
    g = Graph()
    x, y = some(g, "f32", 9, 17), some(g, "f32", 9, 17)
    return g, [g.add("exp", g.add("mul", x, y)), g.add("add", x, y), g.add("less", x, y)]


@named
def value_of_another_output():
    g = Graph()
    x = some(g, "f32", 8, 20)
    top = g.add("max", x, axes=[1])
    powers = g.add("exp", g.add("sub", x, g.add("broadcast_to", top, shape=lengths(8, 20))))
    return g, [top, powers, g.add("neg", powers), g.add("sum", powers, axes=[1])]


@named
def outputs_of_different_types():
    g, roots = Graph(), []
    for dtype in ("f16", "bf16", "f64", "i32", "u8"):
        x = some(g, dtype, 5, 33, least=0)
        roots += [g.add("sum", x, axes=[1]), g.add("argmax", x, axes=[1]), g.add("min", g.add("cast", x, dtype="f32"), axes=[1])]
        roots += [g.add("greater", x, g.add("min", x, axes=[0]))]
    return g, roots


@named
def groups_around_a_product():
    g = Graph()
    x = some(g, "f32", 8, 8)
    first = g.add("exp", x)
    between = g.add("matmul", first, x)
    return g, [first, g.add("add", x, between), g.add("mul", x, between)]


@named
def outputs_in_the_memory_of_a_product():
    g = Graph()
    x = given(g, "f32", np.arange(256) * 7 % 5 - 2, 16, 16)
    product = g.add("matmul", x, x)
    return g, [g.add("matmul", g.add("mul", product, product), x), g.add("matmul", g.add("neg", product), x)]


@named
def sums_of_sixteen_powers():
    g = Graph()
    x = some(g, "f32", 6, 20)
    powers = [x]
    for _ in range(15):
        powers.append(g.add("mul", powers[-1], x))
    return g, [g.add("sum", power, axes=[1]) for power in powers]


@named
def reductions_of_expressions():
    """Rows over several axes, with views, fused operands and fused readers."""
    g = Graph()
    a, b, lines, tall = some(g, "f32", 13, 3, 41), some(g, "f32", 41), some(g, "f32", 64, 10, least=0), some(g, "f32", 1031, 3)
    fed = g.add("abs", g.add("mul", a, b))
    shaped = lambda x, *to: g.add("reshape", x, shape=lengths(*to))
    turned = shaped(g.add("permute", fed, axes=[1, 0, 2]), 3, 41, 13)
    views = [(fed, [0, 1, 2]), (fed, [0, 2]), (g.add("permute", fed, axes=[2, 1, 0]), [0, 2]), (part(g, fed, 2, 1, 37), [0, 2])]
    views += [(shaped(fed, 1599), [0]), (shaped(fed, 13, 123), [1]), (shaped(fed, 39, 41), [0]), (turned, [1, 2]), (shaped(fed, 41, 39), [0])]
    roots = [g.add(op, x, axes=axes) for op in ("sum", "max", "argmin") for x, axes in views]
    total = g.add("sum", fed)
    roots += [g.add("add", g.add("sqrt", total), total), g.add("mul", b, shaped(total, 1)), g.add("sum", g.add("div", a, total), axes=[0])]
    roots += [g.add("sub", part(g, lines, 1, 0, 1), g.add("sum", lines))]
    powers = g.add("exp", tall)
    roots += [g.add("sum", powers), g.add("max", powers), g.add("sum", powers, axes=[0])]
    return g, roots + [part(g, g.add("softmax", shaped(a, 1599), axes=[0]), 0, 700, 20)]


@named
def first_of_equal_values_in_any_part():
    g, roots = Graph(), []
    every = range(509)
    odd = [(np.nan, [300]), (np.nan, [508, 77, 78, 400]), (9, [63, 64, 200, 508]), (-9, [7, 8, 9, 15, 16]), (np.inf, [508]), (-np.inf, every), (np.nan, every)]
    table = np.tile(np.arange(509) % 11 / 8, (len(odd), 1))
    for row, (value, at) in zip(table, odd):
        row[list(at)] = value
    rows = [given(g, "bf16", table, *table.shape), given(g, "i32", [-(1 << 31)] * 1018, 2, 509)]
    # A NaN in one part poisons the sum of its row, and no other.
    one = given(g, "bf16", [1, 1, 1, np.nan] + [1] * 1014, 2, 509)
    roots = [g.add(op, x, axes=[1]) for x in rows for op in ("max", "min", "argmax", "argmin")]
    return g, roots + [g.add(op, g.add("cast", one, dtype="f32"), axes=[1]) for op in ("sum", "product")]


@named
def running_sums():
    g, roots = Graph(), []
    for length in (0, 1, 63, 64, 65, 128, 129, 4000):
        rows = g.add("t", g.add("reshape", g.add("iota", len=S(2 * length)), shape=lengths(2, length)))
        sums = g.add("cumsum", rows, axis=0)
        roots += [part(g, sums, 0, max(length - 70, 0), min(length, 70)), g.add("max", sums, axes=[0])]
    spread = given(g, "f32", [np.inf if at == 100 else 1 for at in range(150)], 150)
    return g, roots + [g.add("cumsum", spread, axis=0)]


@named
def shifts_by_any_number():
    g = Graph()
    by, x = given(g, "i32", [0, 1, 31, 32, 33, -1, -(1 << 31)], 7), given(g, "i32", [-5, 5], 2, 1)
    bits, small = given(g, "u8", [200, 9], 2), given(g, "u8", [1, 3, 9], 3, 1)
    return g, [g.add(op, a, b) for op in ("shl", "shr") for a, b in [(x, by), (bits, small)]]


@named
def moves_of_a_symbolic_length():
    g = symbolic(4, *range(5))
    x = g.add("iota", len=sizes.symbol(0))
    twice = g.add("repeat", x, axis=0, len=S(2))
    pairs = g.add("sum", g.add("reshape", twice, shape=(sizes.symbol(0), S(2))), axes=[1])
    return g, [g.add("roll", x, axis=0, by=1), g.add("roll", x, axis=0, by=-5), g.add("flip", x, axis=0), g.add("cumsum", x, axis=0), pairs]


@named
def sum_of_independent_branches():
    g = Graph()
    x, *weights = [some(g, "f32", 12, 12) for _ in range(5)]
    branches = [g.add("matmul", g.add("softmax", g.add("matmul", x, w), axes=[-1]), w) for w in weights]
    total = branches[0]
    for branch in branches[1:]:
        total = g.add("add", total, branch)
    return g, [total]


def results_are_new_buffers(*shape):
    def of():
        g = Graph()
        whole = {"cast": {"dtype": "f32"}, "reshape": {"shape": lengths(*shape)}, "broadcast_to": {"shape": lengths(*shape)}}
        whole |= {"split_axis": {"axis": 1, "shape": lengths(shape[1])}, "narrow": {"axis": 0, "start": S(0), "len": S(shape[0])}, "permute": {"axes": [0, 1]}}
        made = [g.add(op, an(g, "f32", *shape), **more) for op, more in whole.items()]
        made += [g.add(op, an(g, "f32", *shape), axes=axes) for op, axes in [("sum", [0]), ("sum", []), ("max", [0]), ("mean", [0])]]
        return g, [g.add("set", base, g.add("full", dtype="f32", shape=g[base].shape, value=7.0)) for base in made]

    return of


for shape in [(1, 4), (3, 4), (1, 1)]:
    NAMED[f"results_are_new_buffers_{shape[0]}_{shape[1]}"] = results_are_new_buffers(*shape)


def show(cases):
    for name, of in cases.items():
        graph, roots = of()
        graph.roots = roots
        print(json.dumps(graph.to_case(name), separators=(",", ":")))


if __name__ == "__main__":
    show(NAMED)
