"""Views: the same elements in another shape; and what shapes must be for each other."""

import numpy as np

from . import sizes
from .values import require, view

ONE = sizes.fixed(1)


def axis_of(axis, rank):
    axis = axis + rank if axis < 0 else axis
    require(0 <= axis < rank, "no such axis")
    return axis


def broadcast(a, b):
    """The shape that both are broadcast to."""
    rank = max(len(a), len(b))
    a, b = (ONE,) * (rank - len(a)) + tuple(a), (ONE,) * (rank - len(b)) + tuple(b)
    shape = []
    for x, y in zip(a, b):
        require(x == y or x == ONE or y == ONE, "shapes that do not broadcast")
        shape.append(y if x == ONE else x)
    return tuple(shape)


def check_range(graph, start, length, there):
    for size in (start, length):
        require(sizes.least(size, graph.symbols) >= 0, "a negative range")
    left = sizes.minus(there, sizes.plus(start, length))
    require(sizes.least(left, graph.symbols) >= 0, "a range beyond the axis")


def dense_strides(shape):
    strides = [ONE] * len(shape)
    for axis in reversed(range(1, len(shape))):
        strides[axis - 1] = sizes.times(strides[axis], shape[axis])
    return strides


def check_layout(graph, offset, strides, shape, elements):
    reach, axes = offset, []
    for stride, length in zip(strides, shape):
        if length == ():
            return
        reach = sizes.plus(reach, sizes.times(sizes.minus(length, ONE), stride))
        if length != ONE:
            axes.append((stride, length))
    require(all(sizes.least(s, graph.symbols) >= 0 for s in (*strides, offset)), "a negative stride")
    require(sizes.least(sizes.minus(elements, reach), graph.symbols) >= 1, "a layout beyond its base")
    covered = ONE
    for stride, length in sorted(axes, key=lambda axis: sizes.greatest(axis[0], graph.symbols)):
        require(sizes.least(sizes.minus(stride, covered), graph.symbols) >= 0, "a layout that writes twice")
        covered = sizes.plus(covered, sizes.times(sizes.minus(length, ONE), stride))


def view_of(graph, op, of, said):
    if op not in SHAPES:
        return None
    x = of[0]
    shape, how = SHAPES[op](graph, x.shape, said)
    return x.dtype, shape, lambda run: view(x.values[run], lambda v: how(v, run))


def reshaped(graph, shape):
    return shape, lambda v, run: v.reshape(graph.at(shape, run))


def reshape(graph, mine, said):
    require(sizes.product(mine) == sizes.product(said["shape"]), "other elements")
    return reshaped(graph, tuple(said["shape"]))


def split_axis(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    require(sizes.product(said["shape"]) == mine[axis], "other elements")
    return reshaped(graph, mine[:axis] + tuple(said["shape"]) + mine[axis + 1 :])


def merge_axes(graph, mine, said):
    first, last = axis_of(said["axis"], len(mine)), axis_of(said["other"], len(mine))
    require(first <= last, "axes the other way round")
    return reshaped(graph, mine[:first] + (sizes.product(mine[first : last + 1]),) + mine[last + 1 :])


def unsqueeze(graph, mine, said):
    axis = axis_of(said["axis"], len(mine) + 1)
    return reshaped(graph, mine[:axis] + (ONE,) + mine[axis:])


def squeeze(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    require(mine[axis] == ONE, "an axis of another length")
    return reshaped(graph, mine[:axis] + mine[axis + 1 :])


def permuted(mine, order):
    return tuple(mine[axis] for axis in order), lambda v, run: v.transpose(order)


def permute(graph, mine, said):
    order = [axis_of(axis, len(mine)) for axis in said["axes"]]
    require(sorted(order) == list(range(len(mine))), "not all axes")
    return permuted(mine, order)


def transpose(graph, mine, said):
    first, second = axis_of(said["axis"], len(mine)), axis_of(said["other"], len(mine))
    order = list(range(len(mine)))
    order[first], order[second] = order[second], order[first]
    return permuted(mine, order)


def t(graph, mine, said):
    return transpose(graph, mine, {"axis": -2, "other": -1})


def narrow(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    check_range(graph, said["start"], said["len"], mine[axis])

    def how(v, run):
        start, length = (sizes.at(said[key], graph.lengths(run)) for key in ("start", "len"))
        return v[(slice(None),) * axis + (slice(start, start + length),)]

    return mine[:axis] + (said["len"],) + mine[axis + 1 :], how


def broadcast_to(graph, mine, said):
    shape = tuple(said["shape"])
    require(len(shape) >= len(mine), "fewer axes")
    missing = len(shape) - len(mine)
    require(all(a == b or a == ONE for a, b in zip(mine, shape[missing:])), "shapes that do not broadcast")
    return shape, lambda v, run: np.broadcast_to(v, graph.at(shape, run))


def flip(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    return mine, lambda v, run: np.flip(v, axis)


def repeat(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    require(sizes.least(said["len"], graph.symbols) >= 0, "less than no times")
    shape = mine[:axis] + (sizes.times(mine[axis], said["len"]),) + mine[axis + 1 :]
    return shape, lambda v, run: np.repeat(v, sizes.at(said["len"], graph.lengths(run)), axis)


def roll(graph, mine, said):
    axis = axis_of(said["axis"], len(mine))
    return mine, lambda v, run: np.roll(v, said["by"], axis)


SHAPES = {
    "reshape": reshape, "split_axis": split_axis, "merge_axes": merge_axes, "unsqueeze": unsqueeze, "squeeze": squeeze,
    "permute": permute, "transpose": transpose, "t": t, "narrow": narrow, "broadcast_to": broadcast_to,
    "flip": flip, "repeat": repeat, "roll": roll,
}
