"""Types, shapes and values of nodes: `evaluate` calls one function for each family of operations."""

import numpy as np

from . import composed, data, elements, integers, rows, sizes, views
from .values import F, LD, NUMPY, UNIT, finish, finite_or, is_float, require, rounded, view


def full_of(dtype, shape, value):
    if is_float(dtype):
        return F(rounded(np.full(shape, LD(value)), dtype))
    return np.full(shape, value, NUMPY[dtype])


def evaluate(graph, attrs):
    op, of = attrs["op"], [graph[index] for index in attrs.get("of", [])]
    count = range(len(graph.runs))
    for family in (leaf, views.view_of, element, row, by_place, stores):
        made = family(graph, op, of, attrs)
        if made is not None:
            dtype, shape, value = made
            return dtype, shape, [value(run) for run in count]
    raise AssertionError(f"unknown operation {op}")


def leaf(graph, op, of, attrs):
    if op == "input":
        spec = graph.inputs[attrs["index"]]
        dtype, shape = spec["dtype"], spec["shape"]

        def value(run):
            lengths = graph.at(shape, run)
            size = int(np.prod(lengths, dtype=np.int64)) * data.SIZE[dtype]
            raw = graph.handles[spec["handle"]][spec["start"] : spec["start"] + size]
            return data.decode(raw, dtype, lengths)

        return dtype, shape, value
    if op == "scalar":
        spec, index = graph.scalars[attrs["index"]], attrs["index"]

        def number(run):
            other = graph.runs[run]["scalars"][index]
            return full_of(spec["dtype"], (), spec["value"] if other is None else other)

        return spec["dtype"], (), number
    if op == "constant":
        return attrs["dtype"], (), lambda run: full_of(attrs["dtype"], (), attrs["value"])
    if op == "full":
        return attrs["dtype"], attrs["shape"], lambda run: full_of(attrs["dtype"], graph.at(attrs["shape"], run), attrs["value"])
    if op == "index":
        axis = views.axis_of(attrs["axis"], len(attrs["shape"]))

        def places(run):
            lengths = graph.at(attrs["shape"], run)
            along = [1] * len(lengths)
            along[axis] = lengths[axis]
            return np.broadcast_to(np.arange(lengths[axis], dtype=np.int64).reshape(along), lengths).copy()

        return "i64", attrs["shape"], places
    if op == "random_bits":
        def bits(run):
            lengths = graph.at(attrs["shape"], run)
            return integers.philox(attrs["seed"], int(np.prod(lengths, dtype=np.int64))).reshape(lengths)

        return "u32", attrs["shape"], bits
    if op == "iota":
        return "i64", (attrs["len"],), lambda run: np.arange(sizes.at(attrs["len"], graph.lengths(run)), dtype=np.int64)
    return None


def expand(graph, node, shape, run):
    lengths = graph.at(shape, run)
    return view(node.values[run], lambda v: np.broadcast_to(v, lengths))


def element(graph, op, of, attrs):
    if op in elements.FLOAT_UNARY or op == "not":
        return of[0].dtype, of[0].shape, lambda run: elements.unary(op, of[0].values[run], of[0].dtype)
    if op == "is_nan":
        require(is_float(of[0].dtype), "integers are not supported")
        return "bool", of[0].shape, lambda run: np.isnan(of[0].values[run].v)
    if op == "cast":
        return attrs["dtype"], of[0].shape, lambda run: elements.cast(of[0].values[run], of[0].dtype, attrs["dtype"])
    if op == "clamp":
        return of[0].dtype, of[0].shape, lambda run: elements.clamp(
            of[0].values[run], attrs["value"], attrs["most"], of[0].dtype
        )
    arithmetic = elements.ARITHMETIC + elements.BITWISE + elements.EITHER + elements.COMPARE + elements.SHIFTS + ("pow", "atan2")
    if op in arithmetic:
        require(of[0].dtype == of[1].dtype, "the types differ")
        shape = views.broadcast(of[0].shape, of[1].shape)
        dtype = "bool" if op in elements.COMPARE else of[0].dtype

        def value(run):
            a, b = (expand(graph, node, shape, run) for node in of)
            return elements.binary(op, a, b, of[0].dtype)

        return dtype, shape, value
    if op == "select":
        require(of[0].dtype == "bool" and of[1].dtype == of[2].dtype, "wrong types for select")
        shape = views.broadcast(views.broadcast(of[0].shape, of[1].shape), of[2].shape)
        return of[1].dtype, shape, lambda run: elements.select(*(expand(graph, node, shape, run) for node in of))
    return None


REDUCTIONS = ("sum", "product", "max", "min", "argmax", "argmin", "any", "all")
OVER_ROWS = ("mean", "variance", "softmax", "log_softmax", "normalize")


def row(graph, op, of, attrs):
    if op not in REDUCTIONS + OVER_ROWS:
        return None
    x, rank = of[0], len(of[0].shape)
    axes = attrs.get("axes")
    axes = tuple(range(rank)) if axes is None else tuple(views.axis_of(axis, rank) for axis in axes)
    require(len(set(axes)) == len(axes), "repeated axis")
    reduced = tuple(sizes.fixed(1) if axis in axes else size for axis, size in enumerate(x.shape))
    if op in REDUCTIONS:
        require(x.dtype != "bool" or op not in ("sum", "product"), "bools are not supported")
        if op in ("any", "all"):
            of_bools = {"any": "max", "all": "min"}[op]
            return "bool", reduced, lambda run: rows.reduce(of_bools, elements.cast(x.values[run], x.dtype, "bool"), axes, "bool")
        dtype = "i64" if op.startswith("arg") else x.dtype
        return dtype, reduced, lambda run: rows.reduce(op, x.values[run], axes, x.dtype)
    require(is_float(x.dtype), "only floats are supported")
    of_rows = {
        "mean": composed.mean, "variance": composed.variance, "softmax": composed.softmax, "log_softmax": composed.log_softmax,
    }
    if op == "normalize":
        return x.dtype, x.shape, lambda run: composed.normalize(x.values[run], axes, x.dtype, attrs["value"])
    shape = reduced if op in ("mean", "variance") else x.shape
    return x.dtype, shape, lambda run: of_rows[op](x.values[run], axes, x.dtype)


def by_place(graph, op, of, attrs):
    if op in ("matmul", "matmul_t"):
        return product(graph, op, of)
    if op in ("gather", "take"):
        return gathered(graph, op, of, attrs)
    if op in ("cat", "stack"):
        return joined(graph, op, of, attrs)
    if op == "pad":
        return padded(graph, of[0], attrs)
    if op == "cumsum":
        x, axis = of[0], views.axis_of(attrs["axis"], len(of[0].shape))
        require(x.dtype != "bool", "bools are not supported")
        return x.dtype, x.shape, lambda run: rows.running(x.values[run], axis, x.dtype)
    if op in ("scatter", "scatter_add"):
        return scattered(graph, op, of, attrs)
    return None


def padded(graph, x, attrs):
    """Adds a value before and after the elements along an axis."""
    axis = views.axis_of(attrs["axis"], len(x.shape))
    ends = [attrs["start"], attrs["len"]]
    require(all(sizes.least(end, graph.symbols) >= 0 for end in ends), "negative padding")
    shape = list(x.shape)
    shape[axis] = sizes.plus(shape[axis], sizes.plus(*ends))

    def value(run):
        width = [(0, 0)] * len(shape)
        width[axis] = tuple(sizes.at(end, graph.lengths(run)) for end in ends)
        old = x.values[run]
        if isinstance(old, F):
            number = rounded(np.full((), LD(attrs["value"])), x.dtype)
            return F(np.pad(old.v, width, constant_values=number), np.pad(old.e, width))
        return np.pad(old, width, constant_values=NUMPY[x.dtype](attrs["value"]))

    return x.dtype, tuple(shape), value


def product(graph, op, of):
    a, b = of
    require(a.dtype == b.dtype and a.dtype != "bool", "wrong types for a product")
    require(len(a.shape) >= 2 and len(b.shape) >= 2, "a product needs matrices")
    other = b.shape[:-2] + (b.shape[-1], b.shape[-2]) if op == "matmul_t" else b.shape
    require(a.shape[-1] == other[-2], "the inner lengths differ")
    shape = views.broadcast(a.shape[:-2], other[:-2]) + (a.shape[-2], other[-1])

    def value(run):
        right = b.values[run]
        if op == "matmul_t":
            right = view(right, lambda v: v.swapaxes(-1, -2))
        return rows.matmul(a.values[run], right, a.dtype)

    return a.dtype, shape, value


def fits(graph, base, index, axis):
    require(index.dtype == "i64" and len(index.shape) == len(base.shape), "wrong type or rank of the index")
    for other, (there, reach) in enumerate(zip(base.shape, index.shape)):
        room = sizes.least(sizes.minus(there, reach), graph.symbols)
        require(other == axis or room >= 0, "the index exceeds its base")


def gathered(graph, op, of, attrs):
    base, index = of
    axis = views.axis_of(attrs["axis"], len(base.shape))
    if op == "take":
        require(index.dtype == "i64" and len(index.shape) == 1, "wrong type or rank of the indices")
        shape = base.shape[:axis] + index.shape + base.shape[axis + 1 :]
    else:
        fits(graph, base, index, axis)
        shape = index.shape

    def value(run):
        places, lengths = index.values[run], graph.at(shape, run)
        if op == "take":
            along = [1] * len(lengths)
            along[axis] = lengths[axis]
            places = np.broadcast_to(places.reshape(along), lengths)
        there = graph.at(base.shape, run)[axis]
        inside = (places >= 0) & (places < there)
        grid = list(np.indices(lengths)) if lengths else []
        grid[axis] = np.where(inside, places, 0)

        def pick(v):
            if v.size == 0:
                return np.zeros(lengths, v.dtype)
            return np.where(inside, v[tuple(grid)], np.zeros((), v.dtype))

        return view(base.values[run], pick)

    return base.dtype, shape, value


def joined(graph, op, of, attrs):
    require(of and all(part.dtype == of[0].dtype for part in of), "the types of the parts differ")
    rank = len(of[0].shape) + (op == "stack")
    axis = views.axis_of(attrs["axis"], rank)
    shapes = [part.shape for part in of]
    if op == "stack":
        shapes = [shape[:axis] + (sizes.fixed(1),) + shape[axis:] for shape in shapes]
    first = shapes[0]
    length = ()
    for shape in shapes:
        require(len(shape) == rank, "the ranks of the parts differ")
        require(all(a == b or i == axis for i, (a, b) in enumerate(zip(first, shape))), "the lengths of the parts differ")
        length = sizes.plus(length, shape[axis])
    shape = first[:axis] + (length,) + first[axis + 1 :]

    def value(run):
        parts = [view(part.values[run], lambda v: v.reshape(graph.at(s, run))) for part, s in zip(of, shapes)]
        if isinstance(parts[0], F):
            return F(np.concatenate([p.v for p in parts], axis), np.concatenate([p.e for p in parts], axis))
        return np.concatenate(parts, axis)

    return of[0].dtype, shape, value


def scattered(graph, op, of, attrs):
    base, index, values = of
    axis = views.axis_of(attrs["axis"], len(base.shape))
    fits(graph, base, index, axis)
    require(values.dtype == base.dtype and values.shape == index.shape, "wrong type or shape of the values")
    adds = op == "scatter_add"
    require(not adds or base.dtype not in ("bool", "f16", "bf16"), "the type is not supported")

    def value(run):
        places, there = index.values[run], graph.at(base.shape, run)[axis]
        old, new = base.values[run], values.values[run]
        floats = isinstance(old, F)
        v = (old.v if floats else old).copy()
        e = old.e.copy() if floats else None
        size = finite_or(np.abs(v), 0) if floats else None
        times = np.zeros(v.shape, np.int64)
        for at in np.ndindex(places.shape):
            to = int(places[at])
            if not 0 <= to < there:
                continue
            goal = at[:axis] + (to,) + at[axis + 1 :]
            with np.errstate(all="ignore"):
                if not adds:
                    v[goal] = new.v[at] if floats else new[at]
                    if floats:
                        e[goal] = new.e[at]
                    continue
                v[goal] += new.v[at] if floats else new[at]
            if floats:
                e[goal] += new.e[at]
                size[goal] += finite_or(np.abs(new.v[at]), 0) + new.e[at]
                times[goal] += 1
        if not floats:
            return v
        if not adds:
            return F(v, e)
        touched = times > 0
        grid = np.all(finite_or(old.v, 0) * rows.GRID % 1 == 0) and np.all(finite_or(new.v, 0) * rows.GRID % 1 == 0)
        exact = (e == 0) & (size * rows.GRID <= LD(2.0) ** rows.BITS[base.dtype]) & grid
        bound = e + np.where(touched, (times + 2) * UNIT[base.dtype] * (size + e), 0)
        done = finish(v, bound, exact, base.dtype)
        return F(done.v, np.where(touched, done.e, old.e))

    return base.dtype, base.shape, value


def stores(graph, op, of, attrs):
    if op not in ("set", "set_rows", "set_layout"):
        return None
    base, values = of
    require(base.dtype == values.dtype, "the types differ")
    # The library returns the buffer itself, and no new version.
    require(attrs["of"][0] != attrs["of"][1], "a store of a buffer into itself")
    if op == "set":
        require(base.shape == values.shape, "the shapes differ")
        views.check_layout(graph, (), views.dense_strides(base.shape), values.shape, sizes.product(base.shape))
        return base.dtype, base.shape, lambda run: values.values[run]
    if op == "set_rows":
        axis = views.axis_of(attrs["axis"], len(base.shape))
        same = all(a == b or i == axis for i, (a, b) in enumerate(zip(base.shape, values.shape)))
        require(len(base.shape) == len(values.shape) and same, "the shapes of the rows differ")
        views.check_range(graph, attrs["start"], values.shape[axis], base.shape[axis])
        # As in the library, a few valid rows are rejected because the polynomials cannot prove them valid.
        strides = views.dense_strides(base.shape)
        first = sizes.times(attrs["start"], strides[axis])
        views.check_layout(graph, first, strides, values.shape, sizes.product(base.shape))

        def rows_set(run):
            start = sizes.at(attrs["start"], graph.lengths(run))
            length = graph.at(values.shape, run)[axis]
            where = (slice(None),) * axis + (slice(start, start + length),)
            return overwritten(base.values[run], values.values[run], lambda v: v, where)

        return base.dtype, base.shape, rows_set
    require(len(attrs["strides"]) == len(values.shape), "wrong number of strides")
    views.check_layout(graph, attrs["start"], attrs["strides"], values.shape, sizes.product(base.shape))

    def laid(run):
        lengths = graph.at(values.shape, run)
        strides = [sizes.at(s, graph.lengths(run)) for s in attrs["strides"]]
        where = np.full(lengths, sizes.at(attrs["start"], graph.lengths(run)), np.int64)
        for axis, stride in enumerate(strides):
            along = [1] * len(lengths)
            along[axis] = lengths[axis]
            where = where + stride * np.arange(lengths[axis]).reshape(along)
        return overwritten(base.values[run], values.values[run], lambda v: v.reshape(-1), (where,))

    return base.dtype, base.shape, laid


def overwritten(base, values, seen, where):
    def of(old, new):
        copy = np.array(old, copy=True, order="C")
        seen(copy)[where] = new
        return copy

    if isinstance(base, F):
        return F(of(base.v, values.v), of(base.e, values.e))
    return of(base, values)
