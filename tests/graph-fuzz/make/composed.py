"""Composed operations of the library, composed of the same operations here, so that their bounds follow."""

import math

import numpy as np

from . import rows
from . import values as V
from .values import F, HALVES, LD


def number(x, value, dtype):
    """Returns a number as an array of the same shape, rounded to the type."""
    return F(V.rounded(np.full(x.shape, LD(value)), dtype))


def widened(of):
    """Computes halves in `f32` throughout."""

    def apply(x, axes, dtype, *more):
        if dtype in HALVES:
            wide = of(x, axes, "f32", *more)
            return cast_float(wide, dtype)
        return of(x, axes, dtype, *more)

    return apply


def cast_float(x, dtype):
    return V.finish(x.v, x.e, x.e == 0, dtype)


def mean_of(x, axes, dtype):
    summed = rows.reduce("sum", x, axes, dtype)
    count = math.prod(x.shape[axis] for axis in axes)
    return V.div(summed, number(summed, count, dtype), dtype)


def variance_of(x, axes, dtype):
    apart = V.sub(x, mean_of(x, axes, dtype), dtype)
    return mean_of(V.mul(apart, apart, dtype), axes, dtype)


def normalize_of(x, axes, dtype, epsilon):
    apart = V.sub(x, mean_of(x, axes, dtype), dtype)
    spread = mean_of(V.mul(apart, apart, dtype), axes, dtype)
    return V.div(apart, V.sqrt(V.add(spread, number(spread, epsilon, dtype), dtype), dtype), dtype)


mean, variance, normalize = widened(mean_of), widened(variance_of), widened(normalize_of)


def softmax(x, axes, dtype):
    powers = V.exp(V.sub(x, rows.reduce("max", x, axes, dtype), dtype), dtype)
    return V.div(powers, rows.reduce("sum", powers, axes, dtype), dtype)


def log_softmax(x, axes, dtype):
    apart = V.sub(x, rows.reduce("max", x, axes, dtype), dtype)
    summed = rows.reduce("sum", V.exp(apart, dtype), axes, dtype)
    return V.sub(apart, V.log(summed, dtype), dtype)


def recip(x, dtype):
    return V.div(number(x, 1, dtype), x, dtype)


def square(x, dtype):
    return V.mul(x, x, dtype)


def relu(x, dtype):
    return V.maximum(x, number(x, 0, dtype), dtype)


def sigmoid(x, dtype):
    return recip(one_and_power(x, dtype), dtype)


def silu(x, dtype):
    return V.div(x, one_and_power(x, dtype), dtype)


def one_and_power(x, dtype):
    return V.add(V.exp(V.neg(x), dtype), number(x, 1, dtype), dtype)


def gelu(x, dtype):
    half = V.mul(x, number(x, 0.5, dtype), dtype)
    inner = V.erf(V.mul(x, number(x, 2**-0.5, dtype), dtype), dtype)
    return V.mul(half, V.add(inner, number(x, 1, dtype), dtype), dtype)


def gelu_tanh(x, dtype):
    cube = V.mul(V.mul(x, x, dtype), x, dtype)
    inner = V.add(V.mul(cube, number(x, 0.044715, dtype), dtype), x, dtype)
    power = V.mul(inner, number(x, -2 * (2 / math.pi) ** 0.5, dtype), dtype)
    return V.div(x, V.add(V.exp(power, dtype), number(x, 1, dtype), dtype), dtype)
