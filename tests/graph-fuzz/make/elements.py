"""Elementwise operations on arrays of any type: `unary`, `binary`, `select` and `cast`."""

import numpy as np

from . import composed, integers
from . import values as V
from .values import F, LD, NUMPY, is_float, require

FLOAT_UNARY = {
    "abs": lambda x, t: F(np.abs(x.v), x.e),
    "neg": lambda x, t: V.neg(x),
    "sqrt": V.sqrt,
    "exp": V.exp,
    "log": V.log,
    "sin": lambda x, t: V.sine(x, t, np.sin),
    "cos": lambda x, t: V.sine(x, t, np.cos),
    "tanh": V.tanh,
    "erf": V.erf,
    "floor": lambda x, t: V.round_whole(x, t, np.floor),
    "ceil": lambda x, t: V.round_whole(x, t, np.ceil),
    "round": lambda x, t: V.round_whole(x, t, np.rint),
    "sign": V.sign,
    "log1p": V.log1p,
    "expm1": V.expm1,
    "square": composed.square,
    "recip": composed.recip,
    "relu": composed.relu,
    "sigmoid": composed.sigmoid,
    "silu": composed.silu,
    "gelu": composed.gelu,
    "gelu_tanh": composed.gelu_tanh,
}
WHOLE_UNARY = ("neg", "abs", "not", "square", "relu", "recip", "sign", "round")
ARITHMETIC = ("add", "sub", "mul", "div", "rem")
BITWISE = ("and", "or", "xor")
SHIFTS = ("shl", "shr")
EITHER = ("minimum", "maximum")
COMPARE = ("equals", "differs", "less", "less_equal", "greater", "greater_equal")


def unary(op, x, dtype):
    if is_float(dtype):
        require(op in FLOAT_UNARY, "floats are not supported")
        return FLOAT_UNARY[op](x, dtype)
    if dtype == "bool":
        require(op == "not", "bools are not supported")
        return ~x
    require(op in WHOLE_UNARY, "integers are not supported")
    with np.errstate(all="ignore"):
        if op == "not":
            return ~x
        if op == "neg":
            return (np.zeros_like(x) - x).astype(x.dtype)
        if op == "abs":
            return x if dtype.startswith("u") else np.where(x < 0, np.zeros_like(x) - x, x).astype(x.dtype)
        if op == "square":
            return (x * x).astype(x.dtype)
        if op == "sign":
            return np.sign(x).astype(x.dtype)
        if op == "round":
            return x
        if op == "recip":
            return integers.quotient(np.ones_like(x), x, dtype)
        return np.maximum(x, np.zeros_like(x))


def binary(op, a, b, dtype):
    if op in COMPARE:
        return V.compare(a, b, op)
    if is_float(dtype):
        of = {
            "add": V.add, "sub": V.sub, "mul": V.mul, "div": V.div, "rem": V.rem,
            "minimum": V.minimum, "maximum": V.maximum, "pow": V.power,
            "atan2": V.atan2,
        }
        require(op in of, "floats are not supported")
        return of[op](a, b, dtype)
    require(op in BITWISE + EITHER or op in ARITHMETIC + SHIFTS and dtype != "bool", "the type is not supported")
    with np.errstate(all="ignore"):
        if op == "div":
            return integers.quotient(a, b, dtype)
        if op == "rem":
            return integers.remainder(a, b, dtype)
        if op in SHIFTS:
            return integers.shifted(op, a, b, dtype)
        of = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
            "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        }
        return of[op](a, b).astype(a.dtype)


def select(condition, yes, no):
    if isinstance(yes, F):
        return F(np.where(condition, yes.v, no.v), np.where(condition, yes.e, no.e))
    return np.where(condition, yes, no).astype(yes.dtype)


def clamp(x, least, most, dtype):
    """Limits elements to a range of numbers that the type can represent."""
    if is_float(dtype):
        low, high = composed.number(x, least, dtype), composed.number(x, most, dtype)
        return V.minimum(V.maximum(x, low, dtype), high, dtype)
    return np.minimum(np.maximum(x, NUMPY[dtype](least)), NUMPY[dtype](most))


def cast(x, of, to):
    if of == to:
        return x
    if isinstance(x, F):
        if is_float(to):
            return composed.cast_float(x, to)
        if to == "bool":
            require(np.all((x.e == 0) | (np.abs(x.v) > x.e)), "the value may be zero")
            return x.v != 0
        return truncate(x, to)
    if is_float(to):
        v = x.astype(LD)
        return V.finish(v, np.zeros(v.shape, LD), np.ones(v.shape, bool), to)
    if to == "bool":
        return x != 0
    return integers.wrapped(x.ravel().tolist(), x.shape, to)


def truncate(x, to):
    """Casts floats to integers: truncates towards zero, saturates, and maps NaN to 0."""
    info = np.iinfo(NUMPY[to])

    def of(value):
        if np.isnan(value):
            return 0
        if np.isinf(value):
            return info.max if value > 0 else info.min
        return max(info.min, min(info.max, int(value)))

    least, middle, most = ([of(v) for v in array.ravel()] for array in (x.v - 2 * x.e, x.v, x.v + 2 * x.e))
    require(least == middle == most, "the value may truncate to one of two integers")
    return np.array(middle, NUMPY[to]).reshape(x.shape)
