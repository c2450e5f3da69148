"""Conversion of elements to bytes, and to the format of cases."""

import numpy as np

from .values import F, LD, NUMPY, SIZE, is_float, rounded


def encode(value, dtype):
    """Returns the bytes of an array in its type."""
    if not is_float(dtype):
        return np.ascontiguousarray(value, NUMPY[dtype]).tobytes()
    v = rounded(value.v, dtype)
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            return (v.astype(np.float32).ravel().view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return v.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[dtype]).tobytes()


def decode(raw, dtype, shape):
    """Returns the array of these bytes."""
    if not is_float(dtype):
        return np.frombuffer(raw, NUMPY[dtype]).reshape(shape).copy()
    if dtype == "bf16":
        bits = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
        return F(bits.view(np.float32).astype(LD).reshape(shape))
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[dtype]
    return F(np.frombuffer(raw, kind).astype(LD).reshape(shape))


def expected(value, dtype):
    """Returns an expected array in the format of a case."""
    attrs = {"dtype": dtype, "shape": list(value.shape)}
    if not is_float(dtype) or not value.e.any():
        attrs["exact"] = encode(value, dtype).hex()
        return attrs
    with np.errstate(all="ignore"):
        values = value.v.astype(np.float64)
        # Add the rounding error of the conversion to the bound, and round the bound up.
        bound = value.e + np.where(value.e > 0, np.abs(np.where(np.isfinite(value.v), value.v - values.astype(LD), 0)), 0)
        single = bound.astype(np.float32)
        single = np.where(single.astype(LD) < bound, np.nextafter(single, np.float32(np.inf)), single)
    attrs["values"] = values.tobytes().hex()
    attrs["bounds"] = single.astype(np.float32).tobytes().hex()
    return attrs


def bytes_of(count, dtype):
    return count * SIZE[dtype]
