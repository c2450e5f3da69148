"""A graph that is made node by node: each is checked as the library checks it, and evaluated in every run.

`Graph.add` raises `Reject` where the node cannot be, or where what it is cannot be said. What it takes is what a case says of a node.
"""

import numpy as np

from . import data, place, sizes
from .values import DTYPES, F, Reject, SIZE, require

MAX_ELEMENTS = 1 << 13


class Node:
    """What a case says of a node, its type and shape, and what it is in each run."""

    __slots__ = ("said", "dtype", "shape", "values")

    def __init__(self, said, dtype, shape, values):
        self.said, self.dtype, self.shape, self.values = said, dtype, shape, values

    @property
    def op(self):
        return self.said["op"]

    @property
    def of(self):
        return self.said.get("of", [])


class Graph:
    def __init__(self, symbols=(), runs=None):
        # The greatest value of each symbol.
        self.symbols = list(symbols)
        # The lengths and scalars of each run.
        self.runs = runs or [{"lengths": [], "scalars": []}]
        self.scalars = []
        # The bytes of each handle.
        self.handles = []
        self.inputs = []
        self.nodes = []
        self.roots = []

    # What there is without operands.

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
        """An input, as a node."""
        count = int(np.prod(self.most(shape), dtype=np.int64))
        size = count * SIZE[dtype]
        require(start + size <= len(self.handles[handle]), "an input beyond its handle")
        self.inputs.append({"dtype": dtype, "shape": shape, "handle": handle, "start": start, "bytes": size})
        return self.add("input", index=len(self.inputs) - 1)

    def scalar(self, dtype, value, others):
        """A scalar, as a node; `others` is what it is in each run, or None."""
        self.scalars.append({"dtype": dtype, "value": value})
        for run, other in zip(self.runs, others):
            run["scalars"].append(other)
        return self.add("scalar", index=len(self.scalars) - 1)

    # Nodes.

    def add(self, op, *of, **more):
        said = {"op": op, **({"of": list(of)} if of else {}), **more}
        return self.put(said)

    def put(self, said):
        dtype, shape, values = place.evaluate(self, said)
        require(len(shape) <= 8, "too many axes")
        require(all(sizes.least(size, self.symbols) >= 0 for size in shape), "a negative length")
        require(int(np.prod(self.most(shape), dtype=np.int64)) <= MAX_ELEMENTS, "too many elements")
        for run, value in enumerate(values):
            if tuple(value.shape) != self.at(shape, run):
                raise AssertionError(f"{said}: {value.shape} is not {self.at(shape, run)}")
            if not isinstance(value, F) and value.dtype != data.NUMPY[dtype]:
                raise AssertionError(f"{said}: {value.dtype} is not {dtype}")
        self.nodes.append(Node(said, dtype, shape, values))
        return len(self.nodes) - 1

    def __getitem__(self, index):
        return self.nodes[index]

    # The whole.

    def live(self):
        """The nodes that the roots need."""
        seen, pending = set(), list(self.roots)
        while pending:
            index = pending.pop()
            if index not in seen:
                seen.add(index)
                pending.extend(self.nodes[index].of)
        return seen

    def stored(self):
        """For each input that is stored into, the node that its memory is at last: of several versions of one, the first that was
        written is stored in place."""
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
                stored[self.nodes[index].said["index"]] = current
        return stored

    def overlapping(self):
        """Pairs of inputs with common bytes."""
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
            said = {"roots": [data.expected(self.nodes[r].values[index], self.nodes[r].dtype) for r in self.roots]}
            if self.symbols:
                said["lengths"] = run["lengths"]
            if self.scalars:
                said["scalars"] = [word(s) for s in run["scalars"]]
            if stored:
                said["stored"] = [
                    {"input": i, "node": n, "value": data.expected(self.nodes[n].values[index], self.nodes[n].dtype)}
                    for i, n in stored.items()
                ]
            runs.append(said)
        case = {"name": name}
        if self.symbols:
            case["symbols"] = [{"max": most} for most in self.symbols]
        if self.scalars:
            case["scalars"] = [{**s, "value": word(s["value"])} for s in self.scalars]
        case["handles"] = [raw.hex() for raw in self.handles]
        case["inputs"] = [{**i, "shape": shape_json(i["shape"])} for i in self.inputs]
        case["nodes"] = [node_json(node.said) for node in self.nodes]
        case["roots"] = self.roots
        case["runs"] = runs
        return case


def word(value):
    """A number as JSON has it."""
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def shape_json(shape):
    return [sizes.to_json(size) for size in shape]


def node_json(said):
    out = dict(said)
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
