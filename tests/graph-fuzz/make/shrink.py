"""Shrinks a failing case: removes everything without which it still fails in the same way."""

import numpy as np

from . import data, sizes
from .graph import Graph
from .values import F, Reject, is_float, rounded

S = sizes.fixed


def mapped_size(size, change):
    """Replaces a symbol of a size by a number, or a number by another."""
    kind, what, value = change
    if kind == "symbol":
        total = ()
        for factors, coefficient in size:
            for factor in factors:
                coefficient *= value if factor == what else 1
            left = tuple(f - (f > what) for f in factors if f != what)
            total = sizes.plus(total, ((left, coefficient),) if coefficient else ())
        return total
    return S(value) if sizes.known(size) == what else size


def mapped(attrs, change):
    out = dict(attrs)
    for key in ("shape", "strides"):
        if key in out:
            out[key] = tuple(mapped_size(size, change) for size in out[key])
    for key in ("start", "len"):
        if key in out and (change[0] == "symbol" or key == "len"):
            out[key] = mapped_size(out[key], change)
    return out


def rebuilt(graph, roots=None, runs=None, instead=None, change=None, plain=None, tidy=False):
    """Returns a graph with only the nodes that its roots need. May change roots, runs, nodes (replaced by another
    node, or by an input with its value), lengths, or the data of an input (`plain`: small integers)."""
    roots = graph.roots if roots is None else roots
    runs = range(len(graph.runs)) if runs is None else runs
    instead = instead or {}
    symbols, kept = list(graph.symbols), [dict(graph.runs[run], scalars=[]) for run in runs]
    if change and change[0] == "symbol":
        symbols.pop(change[1])
        kept = [dict(run, lengths=run["lengths"][: change[1]] + run["lengths"][change[1] + 1 :]) for run in kept]
    made = Graph(symbols, kept)
    placed, handles, scalars = {}, {}, {}
    live = set()
    pending = [instead.get(r, r) if isinstance(instead.get(r, r), int) else r for r in roots]
    while pending:
        index = pending.pop()
        if index in live:
            continue
        live.add(index)
        if instead.get(index) == "input":
            continue
        pending.extend(o if not isinstance(instead.get(o), int) else instead[o] for o in graph[index].of)

    def to(index):
        other = instead.get(index)
        return placed[other if isinstance(other, int) else index]

    for index in sorted(live):
        node = graph[index]
        attrs = mapped(node.attrs, change) if change else dict(node.attrs)
        if instead.get(index) == "input":
            shape = tuple(mapped_size(s, change) for s in node.shape) if change else node.shape
            placed[index] = input_of(made, node.dtype, shape, node.values[runs[0]])
        elif node.op == "input":
            spec = graph.inputs[attrs["index"]]
            shape = tuple(mapped_size(s, change) for s in spec["shape"]) if change else spec["shape"]
            placed[index] = kept_input(graph, made, spec, shape, handles, plain == attrs["index"], change or tidy)
        elif node.op == "scalar":
            spec = graph.scalars[attrs["index"]]
            others = [graph.runs[run]["scalars"][attrs["index"]] for run in runs]
            placed[index] = made.scalar(spec["dtype"], spec["value"], others)
        else:
            if "of" in attrs:
                attrs["of"] = [to(o) for o in attrs["of"]]
            placed[index] = made.put(attrs)
    made.roots = list(dict.fromkeys(to(r) for r in roots))
    return made


def kept_input(graph, made, spec, shape, handles, plain, alone):
    """Adds an input of the same handle, or of a handle of its own."""
    count = int(np.prod(made.most(shape), dtype=np.int64))
    if plain:
        value = np.arange(1, count + 1) % 7
        value = F(value.astype(np.longdouble)) if is_float(spec["dtype"]) else value
        return made.input(spec["dtype"], shape, made.handle(data.encode(value, spec["dtype"])))
    if alone and sum(other["handle"] == spec["handle"] for other in graph.inputs) == 1:
        raw = graph.handles[spec["handle"]][spec["start"] :][: data.bytes_of(count, spec["dtype"])]
        return made.input(spec["dtype"], shape, made.handle(raw))
    if spec["handle"] not in handles:
        handles[spec["handle"]] = made.handle(graph.handles[spec["handle"]])
    return made.input(spec["dtype"], shape, handles[spec["handle"]], spec["start"])


def input_of(made, dtype, shape, value):
    """Adds an input with this array in the only run."""
    if isinstance(value, F):
        value = F(rounded(value.v, dtype))
    raw = data.encode(value, dtype)
    count = int(np.prod(made.most(shape), dtype=np.int64))
    return made.input(dtype, shape, made.handle(raw + bytes(data.bytes_of(count, dtype) - len(raw))))


def candidates(graph):
    """Yields functions that return smaller graphs, the smallest first."""
    roots = graph.roots
    if len(graph.runs) > 1:
        for run in range(len(graph.runs)):
            yield lambda run=run: rebuilt(graph, runs=[run])
        return
    if len(roots) > 1:
        half = len(roots) // 2
        for part in (roots[:half], roots[half:]):
            yield lambda part=part: rebuilt(graph, roots=part)
        for root in range(len(roots)):
            yield lambda root=root: rebuilt(graph, roots=roots[:root] + roots[root + 1 :])
    for index in reversed(range(len(graph.nodes))):
        node = graph[index]
        if node.op == "input":
            continue
        if index in roots:
            for operand in node.of:
                others = [operand if r == index else r for r in roots]
                yield lambda others=others: rebuilt(graph, roots=list(dict.fromkeys(others)))
        for operand in dict.fromkeys(node.of):
            if graph[operand].dtype == node.dtype and graph[operand].shape == node.shape:
                yield lambda index=index, operand=operand: rebuilt(graph, instead={index: operand})
        if index not in roots and node.of:
            yield lambda index=index: rebuilt(graph, instead={index: "input"})
    for index, most in enumerate(graph.symbols):
        for value in dict.fromkeys((graph.runs[0]["lengths"][index], 0, 1)):
            yield lambda index=index, value=value: rebuilt(graph, change=("symbol", index, value))
    lengths = {sizes.known(s) for node in graph.nodes for s in node.shape} - {None}
    for length in sorted(lengths, reverse=True):
        for value in (1, 2, 3, length // 2, length - 1):
            if 0 < value < length:
                yield lambda length=length, value=value: rebuilt(graph, change=("length", length, value))
    for index, spec in enumerate(graph.inputs):
        raw = graph.handles[spec["handle"]]
        alone = sum(other["handle"] == spec["handle"] for other in graph.inputs) == 1
        if alone and len(raw) and not graph_is_plain(spec, raw):
            yield lambda index=index: rebuilt(graph, plain=index)


def graph_is_plain(spec, raw):
    count = len(raw) // data.SIZE[spec["dtype"]]
    value = np.arange(1, count + 1) % 7
    value = F(value.astype(np.longdouble)) if is_float(spec["dtype"]) else value
    return raw == data.encode(value, spec["dtype"])


def shrink(graph, fails, limit=400):
    """Returns the smallest graph found that still fails, after at most `limit` tries."""
    tries, found = 0, True
    try:
        tidied = rebuilt(graph, tidy=True)
        graph = tidied if fails(tidied) else graph
    except Reject:
        pass
    while found and tries < limit:
        found = False
        for make in candidates(graph):
            try:
                smaller = make()
            except (Reject, KeyError, ValueError):
                continue
            tries += 1
            if smaller.roots and fails(smaller):
                graph, found = smaller, True
                break
            if tries >= limit:
                break
    return graph
