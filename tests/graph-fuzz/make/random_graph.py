"""Random graphs: valid nodes are added until there are enough."""

import numpy as np

from . import elements, shapes, sizes
from .graph import Graph
from .place import OVER_ROWS, REDUCTIONS
from .values import DTYPES, FLOATS, Reject, is_float

S = sizes.fixed
# The weight of each family.
FAMILIES = {
    "unary": 14, "binary": 18, "compare": 4, "select": 3, "cast": 6, "reduce": 12, "rows": 6, "matmul": 6, "gather": 4,
    "take": 3, "scatter": 4, "cat": 6, "roll": 2, "view": 14, "set": 9, "leaf": 5, "clamp": 1, "input": 2,
    "arranged": 5,
}
UNARY = [op for op in elements.FLOAT_UNARY] + ["not"]


def fresh(rng):
    """Returns a graph without nodes, with the lengths of its runs."""
    if rng.random() < 2 / 3:
        return Graph((), [{"lengths": [], "scalars": []} for _ in range(int(rng.integers(1, 3)))])
    count = 1 if rng.random() < 0.7 else 2
    most = [int(rng.integers(2, 6)) for _ in range(count)]
    lengths = [[0] * count, [1] * count, list(most)]
    lengths += [[int(rng.integers(0, m + 1)) for m in most] for _ in range(2)]
    order = rng.permutation(len(lengths))
    return Graph(most, [{"lengths": lengths[i], "scalars": []} for i in order])


class Generator:
    """Adds random nodes to a graph."""

    def __init__(self, rng, graph, dtypes=None):
        self.rng, self.graph = rng, graph
        # Few types, so that nodes of equal types are frequent.
        self.dtypes = dtypes or [str(t) for t in rng.choice(DTYPES, int(rng.integers(1, 4)), replace=False)]

    def chance(self, p):
        return self.rng.random() < p

    def one(self, items):
        return items[int(self.rng.integers(len(items)))]

    def dtype(self):
        return self.one(self.dtypes)

    def input(self, dtype=None, shape=None, values=None):
        dtype = dtype or self.dtype()
        shape = shapes.shape(self.rng, self.graph) if shape is None else shape
        return shapes.random_input(self.rng, self.graph, dtype, shape, values)

    def node(self, fits=lambda node: True):
        """Returns an earlier node that fits, preferably a recent one."""
        found = [i for i, node in enumerate(self.graph.nodes) if fits(node)]
        if not found:
            raise Reject("no node fits")
        return found[-1 - int(min(self.rng.geometric(0.25), len(found)) - 1)] if self.chance(0.6) else self.one(found)

    def axis(self, shape, more=0):
        rank = len(shape) + more
        if rank == 0:
            raise Reject("the node has no axes")
        axis = int(self.rng.integers(rank))
        return axis - rank if self.chance(0.3) else axis

    def axes(self, shape):
        if self.chance(0.2):
            return None
        rank = len(shape)
        if rank == 0:
            raise Reject("no axes")
        count = int(self.rng.integers(1, min(rank, 3) + 1)) if self.chance(0.4) else 1
        return [int(a) for a in self.rng.choice(rank, count, replace=False)]

    def step(self):
        names = list(FAMILIES)
        weights = np.array([FAMILIES[n] for n in names], float)
        family = str(self.rng.choice(names, p=weights / weights.sum()))
        return getattr(self, "add_" + family)()

    # Families.

    def add_input(self):
        return self.input()

    def add_leaf(self):
        graph, rng = self.graph, self.rng
        pick = rng.random()
        if pick < 0.2:
            shape = shapes.shape(rng, graph)
            return graph.add("index", shape=shape, axis=self.axis(shape))
        if pick < 0.25:
            return graph.add("random_bits", shape=shapes.shape(rng, graph), seed=int(rng.integers(0, 1 << 63)))
        if pick < 0.35:
            return graph.add("iota", len=shapes.length(rng, graph))
        dtype = self.dtype()
        if pick < 0.6:
            others = [self.number(dtype) if self.chance(0.5) else None for _ in graph.runs]
            return graph.scalar(dtype, self.number(dtype), others)
        if pick < 0.8:
            return graph.add("constant", dtype=dtype, value=self.number(dtype))
        return graph.add("full", dtype=dtype, shape=shapes.shape(rng, graph), value=self.number(dtype))

    def number(self, dtype):
        if dtype == "bool":
            return bool(self.chance(0.5))
        if is_float(dtype):
            value = float(self.one([0.0, 1.0, 0.5, -2.0, 3.0, 1.5]))
            return float(self.one([np.nan, np.inf, -np.inf])) if self.chance(0.05) else value
        return int(self.rng.integers(0 if dtype.startswith("u") else -5, 8))

    def add_unary(self):
        x = self.node()
        if is_float(self.graph[x].dtype) and self.chance(0.05):
            return self.graph.add("is_nan", x)
        whole = not is_float(self.graph[x].dtype)
        return self.graph.add(self.one(list(elements.WHOLE_UNARY) if whole else UNARY), x)

    def add_clamp(self):
        x = self.node(lambda n: n.dtype != "bool")
        low, high = (-1.0, 2.0) if is_float(self.graph[x].dtype) else (1, 3)
        return self.graph.add("clamp", x, value=low, most=high)

    def add_binary(self):
        a = self.node()
        dtype = self.graph[a].dtype
        ops = list(elements.ARITHMETIC[:3]) * 2 + list(elements.ARITHMETIC[3:] + elements.EITHER)
        ops = ops + ["pow", "atan2"] if is_float(dtype) else ops + list(elements.BITWISE + elements.SHIFTS)
        if dtype == "bool":
            ops = list(elements.BITWISE + elements.EITHER)
        return self.graph.add(self.one(ops), a, self.node(lambda n: n.dtype == dtype))

    def add_compare(self):
        a = self.node()
        return self.graph.add(self.one(elements.COMPARE), a, self.node(lambda n: n.dtype == self.graph[a].dtype))

    def add_select(self):
        yes = self.node()
        no = self.node(lambda n: n.dtype == self.graph[yes].dtype)
        return self.graph.add("select", self.node(lambda n: n.dtype == "bool"), yes, no)

    def add_cast(self):
        return self.graph.add("cast", self.node(), dtype=self.dtype() if self.chance(0.5) else self.one(DTYPES))

    def add_reduce(self):
        x = self.node()
        axes = self.axes(self.graph[x].shape)
        return self.graph.add(self.one(REDUCTIONS), x, **({} if axes is None else {"axes": axes}))

    def add_rows(self):
        x = self.node(lambda n: is_float(n.dtype))
        op, axes = self.one(OVER_ROWS), self.axes(self.graph[x].shape)
        more = {"value": 0.25} if op == "normalize" else {}
        return self.graph.add(op, x, **({} if axes is None else {"axes": axes}), **more)

    def add_matmul(self):
        a = self.node(lambda n: len(n.shape) >= 2 and n.dtype != "bool")
        dtype, inner = self.graph[a].dtype, self.graph[a].shape[-1]
        fits = lambda axis: lambda n: len(n.shape) >= 2 and n.dtype == dtype and n.shape[axis] == inner
        op, axis = ("matmul", -2) if self.chance(0.5) else ("matmul_t", -1)
        if self.chance(0.6):
            return self.graph.add(op, a, self.node(fits(axis)))
        other = shapes.length(self.rng, self.graph)
        shape = (inner, other) if op == "matmul" else (other, inner)
        return self.graph.add(op, a, self.input(dtype, shape))

    def index_for(self, shape, axis, there):
        count = int(np.prod(self.graph.most(shape), dtype=np.int64))
        return self.input("i64", shape, shapes.indices(self.rng, count, there))

    def add_gather(self):
        x = self.node(lambda n: n.shape)
        shape = self.graph[x].shape
        axis = self.axis(shape)
        at = axis % len(shape)
        along = tuple(shapes.length(self.rng, self.graph) if i == at else s for i, s in enumerate(shape))
        if self.chance(0.2):
            same = self.node(lambda n: n.dtype == "i64" and len(n.shape) == len(shape))
            return self.graph.add("gather", x, same, axis=axis)
        return self.graph.add("gather", x, self.index_for(along, at, self.graph.most(shape)[at]), axis=axis)

    def add_take(self):
        x = self.node(lambda n: n.shape)
        shape = self.graph[x].shape
        axis = self.axis(shape)
        if self.chance(0.3):
            return self.graph.add("take", x, self.node(lambda n: n.dtype == "i64" and len(n.shape) == 1), axis=axis)
        there = self.graph.most(shape)[axis]
        length = (shapes.length(self.rng, self.graph),)
        return self.graph.add("take", x, self.index_for(length, 0, there), axis=axis)

    def add_scatter(self):
        x = self.node(lambda n: n.shape)
        node = self.graph[x]
        axis = self.axis(node.shape)
        at = axis % len(node.shape)
        op = "scatter" if self.chance(0.6) else "scatter_add"
        values = self.node(lambda n: n.dtype == node.dtype and len(n.shape) == len(node.shape))
        shape = self.graph[values].shape
        index = self.index_for(shape, at, self.graph.most(node.shape)[at])
        return self.graph.add(op, x, index, values, axis=axis)

    def add_cat(self):
        first = self.node()
        node = self.graph[first]
        fits = lambda n: n.dtype == node.dtype and n.shape == node.shape
        parts = [first] + [self.node(fits) for _ in range(int(self.rng.integers(1, 3)))]
        self.rng.shuffle(parts)
        parts = [int(p) for p in parts]
        if self.chance(0.4):
            return self.graph.add("stack", *parts, axis=self.axis(node.shape, 1))
        return self.graph.add("cat", *parts, axis=self.axis(node.shape))

    def add_roll(self):
        x = self.node(lambda n: n.shape)
        return self.graph.add("roll", x, axis=self.axis(self.graph[x].shape), by=int(self.rng.integers(-4, 5)))

    def add_arranged(self):
        x = self.node(lambda n: n.shape)
        graph, shape = self.graph, self.graph[x].shape
        op, axis = self.one(["flip", "repeat", "pad", "cumsum"]), self.axis(shape)
        if op == "repeat":
            return graph.add(op, x, axis=axis, len=self.one([S(0), S(1), S(2), S(3)] + [sizes.symbol(i) for i in range(len(graph.symbols))]))
        if op == "pad":
            value = self.number(graph[x].dtype)
            return graph.add(op, x, axis=axis, start=S(int(self.rng.integers(0, 3))), len=shapes.length(self.rng, graph), value=value)
        return graph.add(op, x, axis=axis)

    def add_view(self):
        x = self.node()
        shape, graph, rng = self.graph[x].shape, self.graph, self.rng
        op = self.one(["reshape", "split_axis", "merge_axes", "permute", "transpose", "t", "narrow", "broadcast_to", "unsqueeze", "squeeze"])
        rank = len(shape)
        if op == "reshape":
            return graph.add(op, x, shape=self.other_shape(shape))
        if op == "split_axis":
            axis = self.axis(shape)
            return graph.add(op, x, axis=axis, shape=self.factors(shape[axis]))
        if op == "merge_axes":
            first, last = sorted((abs(self.axis(shape)) % rank, abs(self.axis(shape)) % rank))
            return graph.add(op, x, axis=first, other=last)
        if op == "permute":
            return graph.add(op, x, axes=[int(a) for a in rng.permutation(rank)])
        if op == "transpose":
            return graph.add(op, x, axis=self.axis(shape), other=self.axis(shape))
        if op == "narrow":
            axis = self.axis(shape)
            return graph.add(op, x, axis=axis, **self.range_of(shape[axis]))
        if op == "broadcast_to":
            front = tuple(shapes.length(rng, graph) for _ in range(int(rng.integers(0, 2))))
            wide = tuple(shapes.length(rng, graph) if s == S(1) else s for s in shape)
            return graph.add(op, x, shape=front + wide)
        if op == "unsqueeze":
            return graph.add(op, x, axis=self.axis(shape, 1))
        if op == "squeeze":
            ones = [axis for axis, s in enumerate(shape) if s == S(1)]
            if not ones:
                raise Reject("no axis has length 1")
            return graph.add(op, x, axis=self.one(ones))
        return graph.add(op, x)

    def range_of(self, length):
        """Returns a range of an axis."""
        known = sizes.known(length)
        if known is None:
            least = sizes.least(length, self.graph.symbols)
            start = int(self.rng.integers(0, least + 1))
            if self.chance(0.5):
                return {"start": S(start), "len": sizes.minus(length, S(start))}
            return {"start": S(0), "len": S(least)}
        start = int(self.rng.integers(0, known + 1))
        symbols = [sizes.symbol(i) for i, m in enumerate(self.graph.symbols) if m + start <= known]
        if symbols and self.chance(0.5):
            return {"start": S(start), "len": self.one(symbols)}
        if symbols and self.chance(0.3):
            return {"start": self.one(symbols), "len": S(start) if known - start >= start else S(0)}
        return {"start": S(start), "len": S(int(self.rng.integers(0, known - start + 1)))}

    def factors(self, length):
        known = sizes.known(length)
        if known is None:
            return (S(1), length) if self.chance(0.5) else (length, S(1))
        if known == 0:
            return (S(0), S(int(self.rng.integers(0, 4))))
        divisor = self.one([d for d in range(1, known + 1) if known % d == 0])
        return (S(divisor), S(known // divisor))

    def other_shape(self, shape):
        if self.chance(0.2):
            return shape
        out = []
        for size in shape:
            out.extend(self.factors(size) if self.chance(0.4) else (size,))
        if len(out) > 1 and self.chance(0.6):
            at = int(self.rng.integers(len(out) - 1))
            out[at : at + 2] = [sizes.times(out[at], out[at + 1])]
        return tuple(out)

    def add_set(self):
        stored = lambda n: n.op in ("input", "set", "set_rows", "set_layout")
        base = self.node(stored) if self.chance(0.7) else self.node()
        node, graph = self.graph[base], self.graph
        pick = self.rng.random()
        if pick < 0.55:
            fits = lambda n: n.dtype == node.dtype and n.shape == node.shape and n is not node
            return graph.add("set", base, self.node(fits))
        if pick < 0.85:
            axis = self.axis(node.shape)
            found = self.range_of(node.shape[axis])
            at = axis % len(node.shape)
            shape = node.shape[:at] + (found["len"],) + node.shape[at + 1 :]
            fits = lambda n: n.dtype == node.dtype and n.shape == shape
            values = self.node(fits) if self.chance(0.4) else self.input(node.dtype, shape)
            return graph.add("set_rows", base, values, axis=axis, start=found["start"])
        count = sizes.known(sizes.product(node.shape))
        if not count:
            raise Reject("the length of the layout is symbolic or zero")
        length = int(self.rng.integers(1, min(count, 5) + 1))
        stride = int(self.rng.integers(1, max(1, (count - 1) // max(length - 1, 1)) + 1))
        reach = (length - 1) * stride
        start = int(self.rng.integers(0, count - reach)) if count > reach else 0
        return graph.add("set_layout", base, self.input(node.dtype, (S(length),)), start=S(start), strides=(S(stride),))


def add_random_nodes(generator, tries, until):
    """Adds random nodes; rejected ones are undone."""
    for _ in range(tries):
        if until():
            break
        nodes, inputs, handles, scalars = (len(x) for x in (generator.graph.nodes, generator.graph.inputs, generator.graph.handles, generator.graph.scalars))
        try:
            generator.step()
        except Reject:
            # Remove the inputs that were added for the rejected node.
            graph = generator.graph
            del graph.nodes[nodes:], graph.inputs[inputs:], graph.handles[handles:], graph.scalars[scalars:]
            for run in graph.runs:
                del run["scalars"][scalars:]


def choose_roots(generator):
    """Chooses roots: nodes without users, some others, and old versions beside new ones."""
    graph, rng = generator.graph, generator.rng
    used = {operand for node in graph.nodes for operand in node.of}
    ends = [i for i in range(len(graph.nodes)) if i not in used and graph[i].op != "input"]
    roots = [i for i in ends if generator.chance(0.6)] or [len(graph.nodes) - 1]
    for index, node in enumerate(graph.nodes):
        if node.op.startswith("set") and generator.chance(0.3):
            roots += [index] + [node.of[0]] * generator.chance(0.4)
        elif generator.chance(0.05):
            roots.append(index)
    roots = list(dict.fromkeys(roots))[:8]
    if generator.chance(0.4):
        rng.shuffle(roots)
    graph.roots = [int(r) for r in roots]


def random_graph(rng):
    graph = fresh(rng)
    generator = Generator(rng, graph)
    for _ in range(int(rng.integers(1, 5))):
        generator.input()
    if generator.chance(0.5):
        node = graph[generator.node()]
        generator.input(node.dtype, node.shape)
    goal = len(graph.nodes) + int(rng.integers(2, 17))
    add_random_nodes(generator, 120, lambda: len(graph.nodes) >= min(goal, 24))
    choose_roots(generator)
    return graph


__all__ = ["FLOATS", "Generator", "choose_roots", "fresh", "random_graph", "add_random_nodes"]
