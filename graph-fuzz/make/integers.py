"""Integers: they wrap, and quotients are cut towards zero."""

import numpy as np

from .values import NUMPY


def wrapped(numbers, shape, dtype):
    """Whole numbers of any size as elements of a type, by their low bits."""
    bits = 8 * np.dtype(NUMPY[dtype]).itemsize
    mask = (1 << bits) - 1
    signed = dtype.startswith("i")

    def low(number):
        number &= mask
        return number - (mask + 1) if signed and number >> (bits - 1) else number

    return np.array([low(int(n)) for n in numbers], NUMPY[dtype]).reshape(shape)


def quotient(a, b, dtype):
    def of(x, y):
        if y == 0:
            return 0
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    return wrapped([of(x, y) for x, y in pairs], a.shape, dtype)


def remainder(a, b, dtype):
    def of(x, y):
        if y == 0:
            return 0
        return abs(x) % abs(y) * (-1 if x < 0 else 1)

    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    return wrapped([of(x, y) for x, y in pairs], a.shape, dtype)
