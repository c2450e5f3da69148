"""A graph under construction: each node is checked as the library checks it, and evaluated for every run.

`Graph.add` raises `Reject` if the node is invalid, or if its value cannot be bounded. Its arguments are the
attributes of a node in a case.
"""

import numpy as np

from . import data, place, sizes
from .values import DTYPES, F, Reject, SIZE, require

MAX_ELEMENTS = 1 << 13


class Node:
    """The attributes of a node, its type and shape, and its value in each run."""

    __slots__ = ("attrs", "dtype", "shape", "values")

    def __init__(self, attrs, dtype, shape, values):
        self.attrs, self.dtype, self.shape, self.values = attrs, dtype, shape, values

    @property
    def op(self):
        return self.attrs["op"]

    @property
    def of(self):
        return self.attrs.get("of", [])


class Graph:
    def __init__(self, symbols=(), runs=None):
        # The maximum of each symbol.
        self.symbols = list(symbols)
        # The lengths and scalars of each run.
        self.runs = runs or [{"lengths": [], "scalars": []}]
        self.scalars = []
        # The bytes of each handle.
        self.handles = []
        self.inputs = []
        self.nodes = []
        self.roots = []

    # Nodes without operands.

    def lengths(self, run):
        return self.runs[run]["lengths"]

    def at(self, shape, run):
        return tuple(sizes.at(size, self.lengths(run)) for size in shape)

    def most(self, shape):
        return tuple(sizes.greatest(size, self.symbols) for size in shape)

    def handle(self, raw):
        self.handles.append(bytes(raw))
        return len(self.handles) - 1

    def input(self, dtype, shape, handle, start=0):
        """Adds an input, and returns its node."""
        count = int(np.prod(self.most(shape), dtype=np.int64))
        size = count * SIZE[dtype]
        require(start + size <= len(self.handles[handle]), "the input exceeds its handle")
        self.inputs.append({"dtype": dtype, "shape": shape, "handle": handle, "start": start, "bytes": size})
        return self.add("input", index=len(self.inputs) - 1)

    def scalar(self, dtype, value, others):
        """Adds a scalar, and returns its node; `others` is its value in each run, or None for the default."""
        self.scalars.append({"dtype": dtype, "value": value})
        for run, other in zip(self.runs, others):
            run["scalars"].append(other)
        return self.add("scalar", index=len(self.scalars) - 1)

    # Nodes.

    def add(self, op, *of, **more):
        attrs = {"op": op, **({"of": list(of)} if of else {}), **more}
        return self.put(attrs)

    def put(self, attrs):
        dtype, shape, values = place.evaluate(self, attrs)
        require(len(shape) <= 8, "too many axes")
        require(all(sizes.least(size, self.symbols) >= 0 for size in shape), "negative length")
        require(int(np.prod(self.most(shape), dtype=np.int64)) <= MAX_ELEMENTS, "too many elements")
        for run, value in enumerate(values):
            if tuple(value.shape) != self.at(shape, run):
                raise AssertionError(f"{attrs}: {value.shape} is not {self.at(shape, run)}")
            if not isinstance(value, F) and value.dtype != data.NUMPY[dtype]:
                raise AssertionError(f"{attrs}: {value.dtype} is not {dtype}")
        self.nodes.append(Node(attrs, dtype, shape, values))
        return len(self.nodes) - 1

    def __getitem__(self, index):
        return self.nodes[index]

    # The whole graph.

    def live(self):
        """Returns the nodes that the roots need."""
        seen, pending = set(), list(self.roots)
        while pending:
            index = pending.pop()
            if index not in seen:
                seen.add(index)
                pending.extend(self.nodes[index].of)
        return seen

    def stored(self):
        """Returns, for each input that is stored into, the last version in its memory: of several stores into one
        version, the first that was added is in place."""
        live = sorted(self.live())
        stored = {}
        for index in live:
            if self.nodes[index].op != "input":
                continue
            current = index
            while True:
                stores = (n for n in live if self.nodes[n].op.startswith("set") and self.nodes[n].of[0] == current)
                version = next(stores, None)
                if version is None:
                    break
                current = version
            if current != index:
                stored[self.nodes[index].attrs["index"]] = current
        return stored

    def overlapping(self):
        """Returns the pairs of inputs with common bytes."""
        pairs = []
        for i, a in enumerate(self.inputs):
            for j, b in enumerate(self.inputs[:i]):
                ends = a["start"] < b["start"] + b["bytes"] and b["start"] < a["start"] + a["bytes"]
                if a["handle"] == b["handle"] and ends:
                    pairs.append((j, i))
        return pairs

    def to_case(self, name):
        stored = self.stored()
        runs = []
        for index, run in enumerate(self.runs):
            attrs = {"roots": [data.expected(self.nodes[r].values[index], self.nodes[r].dtype) for r in self.roots]}
            if self.symbols:
                attrs["lengths"] = run["lengths"]
            if self.scalars:
                attrs["scalars"] = [word(s) for s in run["scalars"]]
            if stored:
                attrs["stored"] = [
                    {"input": i, "node": n, "value": data.expected(self.nodes[n].values[index], self.nodes[n].dtype)}
                    for i, n in stored.items()
                ]
            runs.append(attrs)
        case = {"name": name}
        if self.symbols:
            case["symbols"] = [{"max": most} for most in self.symbols]
        if self.scalars:
            case["scalars"] = [{**s, "value": word(s["value"])} for s in self.scalars]
        case["handles"] = [raw.hex() for raw in self.handles]
        case["inputs"] = [{**i, "shape": shape_json(i["shape"])} for i in self.inputs]
        case["nodes"] = [node_json(node.attrs) for node in self.nodes]
        case["roots"] = self.roots
        case["runs"] = runs
        return case


def word(value):
    """Returns a number as JSON; infinities and NaN are words."""
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def shape_json(shape):
    return [sizes.to_json(size) for size in shape]


def node_json(attrs):
    out = dict(attrs)
    for key in ("shape", "strides"):
        if key in out:
            out[key] = shape_json(out[key])
    for key in ("start", "len"):
        if key in out:
            out[key] = sizes.to_json(out[key])
    for key in ("value", "most"):
        if key in out:
            out[key] = word(out[key])
    return out


__all__ = ["DTYPES", "Graph", "Node", "Reject"]
