"""Integer operations: they wrap, and quotients round towards zero."""

import numpy as np

from .values import NUMPY


def wrapped(numbers, shape, dtype):
    """Truncates integers of any size to the low bits of a type."""
    bits = 8 * np.dtype(NUMPY[dtype]).itemsize
    mask = (1 << bits) - 1
    signed = dtype.startswith("i")

    def low(number):
        number &= mask
        return number - (mask + 1) if signed and number >> (bits - 1) else number

    return np.array([low(int(n)) for n in numbers], NUMPY[dtype]).reshape(shape)


def philox(seed, count):
    """Returns the first words of Philox4x32-10 with the seed as key, for the counters from 0 on."""
    low32 = np.uint64(0xFFFFFFFF)
    a, b, c, d = np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))
    key, other = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (second >> np.uint64(32)) ^ b ^ np.uint64(key), second & low32, (first >> np.uint64(32)) ^ d ^ np.uint64(other), first & low32
        key, other = (key + 0x9E3779B9) & 0xFFFFFFFF, (other + 0xBB67AE85) & 0xFFFFFFFF
    return a.astype(np.uint32)


def quotient(a, b, dtype):
    def of(x, y):
        if y == 0:
            return 0
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    return wrapped([of(x, y) for x, y in pairs], a.shape, dtype)


def shifted(op, a, b, dtype):
    bits = 8 * np.dtype(NUMPY[dtype]).itemsize

    def of(x, y):
        y = y if 0 <= y < bits else 2 * bits
        return x << y if op == "shl" else x >> y

    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    return wrapped([of(x, y) for x, y in pairs], a.shape, dtype)


def remainder(a, b, dtype):
    def of(x, y):
        if y == 0:
            return 0
        return abs(x) % abs(y) * (-1 if x < 0 else 1)

    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    return wrapped([of(x, y) for x, y in pairs], a.shape, dtype)
