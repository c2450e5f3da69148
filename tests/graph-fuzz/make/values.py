"""Arrays with error bounds: the values of floats, computed in `longdouble`, and bounds for rounding errors.

An element with bound 0 is exact: it does not depend on fusion or on the order of sums. NaN and infinities are always
exact. An operation that could jump within the bounds of its operands (a comparison, a floor, a division near zero)
raises `Reject`, and the node is not added.
"""

import math

import numpy as np

LD = np.longdouble
FLOATS = ("f64", "f32", "f16", "bf16")
INTS = ("i64", "i32", "u32", "u8")
DTYPES = FLOATS + INTS + ("bool",)
HALVES = ("f16", "bf16")
NUMPY = {"i64": np.int64, "i32": np.int32, "u32": np.uint32, "u8": np.uint8, "bool": np.bool_}
SIZE = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u32": 4, "u8": 1, "bool": 1}
# Half the distance of neighbouring numbers: of the type of computation, and of the stored type, which is wider for
# halves.
UNIT = {"f64": LD(2.0) ** -53, "f32": LD(2.0) ** -24, "f16": LD(2.0) ** -24, "bf16": LD(2.0) ** -24}
STORED = {"f64": LD(0), "f32": LD(0), "f16": LD(2.0) ** -11, "bf16": LD(2.0) ** -8}
GREATEST = {"f64": LD(1e300), "f32": LD(1e37), "f16": LD(6e4), "bf16": LD(1e37)}
# A smaller result may be zero, exact, or the smallest normal number.
TINY = {"f64": LD(4e-308), "f32": LD(3e-38), "f16": LD(2.0) ** -23, "bf16": LD(3e-38)}
# The number of bits of a sum without rounding.
BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


class Reject(Exception):
    """The node is invalid, or its value cannot be bounded."""


def require(condition, why):
    if not condition:
        raise Reject(why)


def is_float(dtype):
    return dtype in FLOATS


class F:
    """An array of floats with error bounds."""

    __slots__ = ("v", "e")

    def __init__(self, v, e=None):
        self.v = np.asarray(v, dtype=LD)
        self.e = np.zeros(self.v.shape, LD) if e is None else np.asarray(e, dtype=LD)

    @property
    def shape(self):
        return self.v.shape

    def map(self, view):
        """Applies a view to values and bounds."""
        return F(view(self.v), view(self.e))


def view(value, of):
    return value.map(of) if isinstance(value, F) else of(value)


def rounded(v, dtype):
    """Rounds to the nearest numbers of a type, as `longdouble`."""
    with np.errstate(all="ignore"):
        if dtype == "f64":
            return v.astype(np.float64).astype(LD)
        if dtype == "f32":
            return v.astype(np.float32).astype(LD)
        if dtype == "f16":
            return v.astype(np.float16).astype(LD)
        single = v.astype(np.float32)
        bits = single.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        half = bits.astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(single), half, single).astype(LD)


def has(v, dtype):
    """Returns where these are exactly numbers of the type."""
    return rounded(v, dtype) == v


def finish(v, e, exact, dtype, sure=True):
    """Finishes the result of an operation: `v` are the values, `e` bounds without the rounding of the result, `exact`
    where values are exact if the type can represent them, `sure` where a non-finite value is certain."""
    v, e = np.asarray(v, LD), np.asarray(e, LD)
    finite = np.isfinite(v)
    require(np.all(finite | sure), "the result may be finite or not")
    size = np.where(finite, np.abs(v), 0)
    e = np.where(finite, e, 0)
    require(np.all(np.isfinite(e)), "the bound is not finite")
    require(np.all(size + e <= GREATEST[dtype]), "the result may overflow")
    exact = (exact & has(v, dtype)) | ~finite
    unit = UNIT[dtype] * 1.01 + STORED[dtype] * 1.01
    e = np.where(exact, 0, e * (1 + 2 * unit) + unit * (size + e) + TINY[dtype])
    slack = 0.3 if dtype in HALVES else 0.02
    require(np.all(e <= slack * np.maximum(size, 1)), "the bound is too wide")
    return F(np.where(finite, v, v), e)


def both_exact(a, b):
    return (a.e == 0) & (b.e == 0)


def short(v):
    """Returns where products are exact in `longdouble`."""
    return has(v, "f32")


def add(a, b, dtype):
    with np.errstate(all="ignore"):
        v = a.v + b.v
        t = v - a.v
        lossless = (a.v - (v - t)) + (b.v - t) == 0
    return finish(v, a.e + b.e, both_exact(a, b) & lossless, dtype)


def neg(a):
    return F(-a.v, a.e)


def sub(a, b, dtype):
    return add(a, neg(b), dtype)


def mul(a, b, dtype):
    with np.errstate(all="ignore"):
        v = a.v * b.v
        av, bv = finite_or(np.abs(a.v), 0), finite_or(np.abs(b.v), 0)
        e = av * b.e + bv * a.e + a.e * b.e
        # Infinity times a number that may be zero, or of either sign.
        unsure = (np.isinf(a.v) & (b.e > 0) & (bv <= b.e)) | (np.isinf(b.v) & (a.e > 0) & (av <= a.e))
    exact = both_exact(a, b) & ((short(a.v) & short(b.v)) | (a.v == 0) | (b.v == 0) | (av == 1) | (bv == 1))
    return finish(v, e, exact, dtype, ~unsure)


def finite_or(v, other):
    return np.where(np.isfinite(v), v, other)


def div(a, b, dtype):
    with np.errstate(all="ignore"):
        v = a.v / b.v
        zero = b.v == 0
        nan = np.isnan(a.v) | np.isnan(b.v)
        require(np.all(nan | (np.abs(b.v) > 4 * b.e) | zero & (b.e == 0)), "the divisor may be zero")
        # The sign of zero is undefined, so a quotient by zero is defined only if it is NaN.
        require(np.all(~zero | nan | ((a.v == 0) & (a.e == 0))), "a division by zero")
        room = np.where(zero | nan, 1, np.abs(b.v) - b.e)
        e = finite_or((a.e + finite_or(np.abs(v), 0) * b.e) / room, 0)
        exact = both_exact(a, b) & short(v) & short(b.v) & (v * b.v == a.v)
        unsure = np.isinf(a.v) & (b.e > 0) & (np.abs(b.v) <= b.e)
        e = np.where(np.isinf(b.v), 0, e)
    quotient = finish(v, e + UNIT[dtype] * finite_or(np.abs(v), 0), exact | np.isinf(b.v), dtype, ~unsure)
    return quotient


def rem(a, b, dtype):
    require(np.all(both_exact(a, b)), "the operands of a remainder are not exact")
    with np.errstate(all="ignore"):
        v = np.fmod(a.v, b.v)
    return finish(v, 0 * a.e, np.ones(v.shape, bool), dtype)


def maximum(a, b, dtype):
    with np.errstate(all="ignore"):
        v = np.maximum(a.v, b.v)
        e = np.maximum(a.e, b.e)
        apart = np.abs(a.v - b.v) > a.e + b.e
        e = np.where(apart, np.where(a.v > b.v, a.e, b.e), e)
        e = np.where(np.isfinite(v), e, 0)
    return F(v, e)


def minimum(a, b, dtype):
    return neg(maximum(neg(a), neg(b), dtype))


def power(a, b, dtype):
    special = ~np.isfinite(a.v) | ~np.isfinite(b.v)
    require(not special.any(), "the operands of a power are not finite")
    require(np.all(a.v > 4 * a.e) and np.all(a.v > 1e-6), "the base of a power may be zero or less")
    with np.errstate(all="ignore"):
        v = a.v ** b.v
        steep = np.abs(np.log(a.v)) + 1
        e = np.abs(v) * (2 * np.abs(b.v) * a.e / a.v + 2 * b.e * steep)
        inner = np.abs(b.v) * steep
        e = e + np.abs(v) * UNIT[dtype] * (16 + 4 * inner)
        relative = 2 * np.abs(b.v) * a.e / a.v + 2 * b.e * steep
        require(np.all(relative < 0.25), "the power is too steep")
    return finish(v, e, (a.e == 0) & (b.e == 0) & ((a.v == 1) | (b.v == 0)), dtype)


def atan2(y, x, dtype):
    """Returns the angle of a point; the sign of zero is ignored."""
    with np.errstate(all="ignore"):
        up, along = y.v + 0, x.v + 0
        nan = np.isnan(up) | np.isnan(along)
        require(np.all(nan | (y.e == 0) | (np.abs(up) > 4 * y.e) | (along > 4 * x.e)), "the angle may be pi or -pi")
        far = np.hypot(finite_or(up, 0), finite_or(along, 0))
        require(np.all(nan | both_exact(y, x) | (far > 4 * (y.e + x.e))), "the point is too close to the origin")
        v = np.where((up == 0) & (along == 0), 0, np.arctan2(np.where(up == 0, 0, up), np.where(along == 0, 0, along)))
        e = np.where(far > 0, 2 * (y.e + x.e) / np.where(far > 0, far, 1), 0)
        # A subnormal coordinate may count as zero, of either sign.
        require(np.all(nan | (up == 0) | (np.abs(up) > 4 * TINY[dtype])) and np.all(nan | (along == 0) | (np.abs(along) > 4 * TINY[dtype])), "subnormal")
    return finish(v, e + UNIT[dtype] * (8 * finite_or(np.abs(v), 0) + 4), both_exact(y, x) & (up == 0) & (along >= 0), dtype)


def smooth(of, slope, units, exact=None):
    """Returns a function with a slope of at most `slope` near an element, given the element and its bound, accurate
    to `units` units."""

    def apply(a, dtype):
        with np.errstate(all="ignore"):
            v = of(a.v)
            e = np.where(np.isfinite(a.v), slope(finite_or(a.v, 0), a.e) * a.e, 0)
            e = finite_or(e, 0) if np.all(a.e == 0) else e
            e = e + units(finite_or(v, 0), finite_or(a.v, 0)) * UNIT[dtype]
            known = (a.e == 0) & (exact(a.v) if exact else False)
        return finish(v, e, known, dtype)

    return apply


def erf_of(v):
    return np.vectorize(lambda x: math.erf(float(x)), otypes=[np.float64])(v).astype(LD) if v.size else v


def sqrt(a, dtype):
    with np.errstate(all="ignore"):
        nan = np.isnan(a.v)
        zero = (a.v == 0) & (a.e == 0)
        require(np.all(nan | zero | (np.abs(a.v) > 2 * a.e)), "the operand of a root may be negative")
        v = np.sqrt(a.v)
        e = np.where(zero | ~np.isfinite(v), 0, a.e / np.where(v > 0, v, 1))
        exact = (a.e == 0) & short(v) & (v * v == a.v)
    return finish(v, e + UNIT[dtype] * finite_or(v, 0), exact, dtype)


def log(a, dtype):
    with np.errstate(all="ignore"):
        nan = np.isnan(a.v)
        zero = (a.v == 0) & (a.e == 0)
        require(np.all(nan | zero | (np.abs(a.v) > 2 * a.e)), "a logarithm near zero")
        # Subnormal numbers may count as zero.
        require(np.all(nan | (a.v <= 0) | (a.v > 4 * TINY[dtype])), "a logarithm of a subnormal number")
        v = np.log(a.v)
        e = np.where(zero | ~np.isfinite(v), 0, 2 * a.e / np.where(a.v > 0, a.v, 1))
    e = e + UNIT[dtype] * (8 * finite_or(np.abs(v), 0) + 4)
    return finish(v, e, (a.e == 0) & (a.v == 1), dtype)


def sine(a, dtype, of):
    """Computes sines and cosines."""
    require(np.all(~np.isfinite(a.v) | (np.abs(a.v) < 100)), "a large angle")
    with np.errstate(all="ignore"):
        v = of(a.v)
    return finish(v, a.e + 8 * UNIT[dtype], (a.e == 0) & (a.v == 0), dtype)


exp = smooth(np.exp, lambda v, e: np.exp(v + e), lambda v, a: np.abs(v) * (8 + 2 * np.abs(a)), lambda v: (v == 0) | (v == -np.inf))
tanh = smooth(np.tanh, lambda v, e: 1 + 0 * v, lambda v, a: 8 * np.abs(v) + 4, lambda v: (v == 0) | np.isinf(v))
erf = smooth(erf_of, lambda v, e: 1.2 + 0 * v, lambda v, a: 8 * np.abs(v) + 8, lambda v: (v == 0) | np.isinf(v))


log1p_of = smooth(np.log1p, lambda v, e: 2 / np.maximum(1 + v, LD(1e-300)), lambda v, a: 8 * np.abs(v) + 4, lambda v: (v == 0) | (v == -1))
expm1 = smooth(np.expm1, lambda v, e: np.exp(v + e), lambda v, a: (np.abs(v) + 1) * (8 + 2 * np.abs(a)), lambda v: (v == 0) | (v == -np.inf))


def log1p(a, dtype):
    with np.errstate(all="ignore"):
        near = (a.e > 0) & (np.abs(1 + a.v) <= 4 * a.e)
        # Next to -1 the result is dominated by the rounding of `1 + x`.
        near = near | ((a.v != -1) & (np.abs(1 + a.v) < 1e-3))
    require(not np.any(near), "a logarithm near zero")
    return log1p_of(a, dtype)


def sign(a, dtype):
    require(np.all((a.e == 0) | (np.abs(a.v) > 2 * a.e)), "the operand of a sign may be zero")
    with np.errstate(all="ignore"):
        return F(np.sign(a.v))


def round_whole(a, dtype, of):
    """Computes floors, ceilings and nearest integers."""
    with np.errstate(all="ignore"):
        v = of(a.v)
        require(np.all((a.e == 0) | ((of(a.v - 2 * a.e) == v) & (of(a.v + 2 * a.e) == v))), "the result may be one of two integers")
    return F(v, np.zeros(v.shape, LD))


def compare(a, b, name):
    if isinstance(a, F):
        with np.errstate(all="ignore"):
            apart = np.abs(a.v - b.v) > 2 * (a.e + b.e)
            special = ~np.isfinite(a.v) | ~np.isfinite(b.v)
            require(np.all(apart | both_exact(a, b) | special), "the operands of a comparison may be equal")
        a, b = a.v, b.v
    of = {
        "equals": np.equal, "differs": np.not_equal, "less": np.less, "less_equal": np.less_equal,
        "greater": np.greater, "greater_equal": np.greater_equal,
    }
    with np.errstate(all="ignore"):
        return of[name](a, b)
