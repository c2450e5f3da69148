"""Views: the same elements in another shape; and checks of shapes."""

import numpy as np

from . import sizes
from .values import require, view

ONE = sizes.fixed(1)


def axis_of(axis, rank):
    axis = axis + rank if axis < 0 else axis
    require(0 <= axis < rank, "the axis is out of range")
    return axis


def broadcast(a, b):
    """Returns the shape that both broadcast to."""
    rank = max(len(a), len(b))
    a, b = (ONE,) * (rank - len(a)) + tuple(a), (ONE,) * (rank - len(b)) + tuple(b)
    shape = []
    for x, y in zip(a, b):
        require(x == y or x == ONE or y == ONE, "the shapes cannot be broadcast together")
        shape.append(y if x == ONE else x)
    return tuple(shape)


def check_range(graph, start, length, there):
    for size in (start, length):
        require(sizes.least(size, graph.symbols) >= 0, "negative range")
    left = sizes.minus(there, sizes.plus(start, length))
    require(sizes.least(left, graph.symbols) >= 0, "the range exceeds the axis")


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
    require(all(sizes.least(s, graph.symbols) >= 0 for s in (*strides, offset)), "negative stride or offset")
    require(sizes.least(sizes.minus(elements, reach), graph.symbols) >= 1, "the layout exceeds its base")
    covered = ONE
    for stride, length in sorted(axes, key=lambda axis: sizes.greatest(axis[0], graph.symbols)):
        require(sizes.least(sizes.minus(stride, covered), graph.symbols) >= 0, "the layout writes an element twice")
        covered = sizes.plus(covered, sizes.times(sizes.minus(length, ONE), stride))


def view_of(graph, op, of, attrs):
    if op not in SHAPES:
        return None
    x = of[0]
    shape, how = SHAPES[op](graph, x.shape, attrs)
    return x.dtype, shape, lambda run: view(x.values[run], lambda v: how(v, run))


def reshaped(graph, shape):
    return shape, lambda v, run: v.reshape(graph.at(shape, run))


def reshape(graph, mine, attrs):
    require(sizes.product(mine) == sizes.product(attrs["shape"]), "the numbers of elements differ")
    return reshaped(graph, tuple(attrs["shape"]))


def split_axis(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    require(sizes.product(attrs["shape"]) == mine[axis], "the numbers of elements differ")
    return reshaped(graph, mine[:axis] + tuple(attrs["shape"]) + mine[axis + 1 :])


def merge_axes(graph, mine, attrs):
    first, last = axis_of(attrs["axis"], len(mine)), axis_of(attrs["other"], len(mine))
    require(first <= last, "the axes are reversed")
    return reshaped(graph, mine[:first] + (sizes.product(mine[first : last + 1]),) + mine[last + 1 :])


def unsqueeze(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine) + 1)
    return reshaped(graph, mine[:axis] + (ONE,) + mine[axis:])


def squeeze(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    require(mine[axis] == ONE, "the axis does not have length 1")
    return reshaped(graph, mine[:axis] + mine[axis + 1 :])


def permuted(mine, order):
    return tuple(mine[axis] for axis in order), lambda v, run: v.transpose(order)


def permute(graph, mine, attrs):
    order = [axis_of(axis, len(mine)) for axis in attrs["axes"]]
    require(sorted(order) == list(range(len(mine))), "not all axes are named")
    return permuted(mine, order)


def transpose(graph, mine, attrs):
    first, second = axis_of(attrs["axis"], len(mine)), axis_of(attrs["other"], len(mine))
    order = list(range(len(mine)))
    order[first], order[second] = order[second], order[first]
    return permuted(mine, order)


def t(graph, mine, attrs):
    return transpose(graph, mine, {"axis": -2, "other": -1})


def narrow(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    check_range(graph, attrs["start"], attrs["len"], mine[axis])

    def how(v, run):
        start, length = (sizes.at(attrs[key], graph.lengths(run)) for key in ("start", "len"))
        return v[(slice(None),) * axis + (slice(start, start + length),)]

    return mine[:axis] + (attrs["len"],) + mine[axis + 1 :], how


def broadcast_to(graph, mine, attrs):
    shape = tuple(attrs["shape"])
    require(len(shape) >= len(mine), "too few axes")
    missing = len(shape) - len(mine)
    require(all(a == b or a == ONE for a, b in zip(mine, shape[missing:])), "the shape cannot be broadcast")
    return shape, lambda v, run: np.broadcast_to(v, graph.at(shape, run))


def flip(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    return mine, lambda v, run: np.flip(v, axis)


def repeat(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    require(sizes.least(attrs["len"], graph.symbols) >= 0, "negative number of repetitions")
    shape = mine[:axis] + (sizes.times(mine[axis], attrs["len"]),) + mine[axis + 1 :]
    return shape, lambda v, run: np.repeat(v, sizes.at(attrs["len"], graph.lengths(run)), axis)


def roll(graph, mine, attrs):
    axis = axis_of(attrs["axis"], len(mine))
    return mine, lambda v, run: np.roll(v, attrs["by"], axis)


SHAPES = {
    "reshape": reshape, "split_axis": split_axis, "merge_axes": merge_axes, "unsqueeze": unsqueeze, "squeeze": squeeze,
    "permute": permute, "transpose": transpose, "t": t, "narrow": narrow, "broadcast_to": broadcast_to,
    "flip": flip, "repeat": repeat, "roll": roll,
}
