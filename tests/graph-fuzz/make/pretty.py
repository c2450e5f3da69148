"""Prints a case as Rust-like code, for people."""

import numpy as np

from . import data, sizes

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}


def shape_text(shape):
    return "[" + ", ".join(sizes.text(size) for size in shape) + "]"


def rust(graph):
    lines = [f"let {'nm'[i]} = graph.length({'nm'[i]!r}, {most});" for i, most in enumerate(graph.symbols)]
    lines = [line.replace("'", '"') for line in lines]
    for index, node in enumerate(graph.nodes):
        lines.append(f"let v{index} = {expression(graph, node)};  // {node.dtype} {shape_text(node.shape)}")
    lines.append("roots: [" + ", ".join(f"&v{r}" for r in graph.roots) + "]")
    for run in graph.runs:
        if graph.symbols or graph.scalars:
            lines.append(f"run: lengths {run['lengths']}, scalars {run['scalars']}")
    return "\n".join(lines)


def expression(graph, node):
    attrs, of = node.attrs, [f"v{o}" for o in node.of]
    op = attrs["op"]
    if op == "input":
        spec = graph.inputs[attrs["index"]]
        first = graph.handles[spec["handle"]][spec["start"] : spec["start"] + spec["bytes"]]
        count = len(first) // data.SIZE[spec["dtype"]]
        value = data.decode(first, spec["dtype"], (count,))
        value = value.v if hasattr(value, "v") else value
        shown = ", ".join(f"{v:g}" if not isinstance(v, (np.bool_,)) else str(bool(v)) for v in value[:12])
        place = f" handle {spec['handle']} from byte {spec['start']}" if len(graph.handles) < len(graph.inputs) else ""
        return f'graph.input("x{attrs["index"]}", {spec["dtype"]}, {shape_text(spec["shape"])}) /*{place} {shown}{" .." if count > 12 else ""} */'
    if op == "scalar":
        return f"graph.scalar({graph.scalars[attrs['index']]})"
    if op in OPERATORS:
        return f"&{of[0]} {OPERATORS[op]} &{of[1]}"
    if op in ("neg", "not"):
        return ("-" if op == "neg" else "!") + f"&{of[0]}"
    words = []
    for key, value in attrs.items():
        if key in ("shape", "strides"):
            words.append(shape_text(value))
        elif key in ("start", "len"):
            words.append(sizes.text(value))
        elif key not in ("op", "of"):
            words.append(str(value))
    if "axes" not in attrs and op in ("sum", "product", "max", "min", "argmax", "argmin", "any", "all", "mean", "variance", "softmax", "log_softmax", "normalize"):
        words.insert(0, "..")
    if op in ("cat", "stack"):
        return f"LazyBuffer::{op}([{', '.join('&' + o for o in of)}], {', '.join(words)})"
    if not of:
        return f"graph.{op}({', '.join(words)})"
    if op in ("gather", "take", "scatter", "scatter_add", "set_rows"):
        return f"{of[0]}.{op}({', '.join(words + ['&' + o for o in of[1:]])})"
    return f"{of[0]}.{op}({', '.join(['&' + o for o in of[1:]] + words)})"
