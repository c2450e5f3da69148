"""Elements as bytes, and as they are written into cases."""

import numpy as np

from .values import F, LD, NUMPY, SIZE, is_float, rounded


def encode(value, dtype):
    """The bytes of an array that its type has."""
    if not is_float(dtype):
        return np.ascontiguousarray(value, NUMPY[dtype]).tobytes()
    v = rounded(value.v, dtype)
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            return (v.astype(np.float32).ravel().view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return v.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[dtype]).tobytes()


def decode(raw, dtype, shape):
    """An array of bytes."""
    if not is_float(dtype):
        return np.frombuffer(raw, NUMPY[dtype]).reshape(shape).copy()
    if dtype == "bf16":
        bits = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
        return F(bits.view(np.float32).astype(LD).reshape(shape))
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[dtype]
    return F(np.frombuffer(raw, kind).astype(LD).reshape(shape))


def expected(value, dtype):
    """What must come out, as a case says it."""
    said = {"dtype": dtype, "shape": list(value.shape)}
    if not is_float(dtype) or not value.e.any():
        said["exact"] = encode(value, dtype).hex()
        return said
    with np.errstate(all="ignore"):
        values = value.v.astype(np.float64)
        # What is cut off here is added to the bound, and that is rounded up.
        bound = value.e + np.where(value.e > 0, np.abs(np.where(np.isfinite(value.v), value.v - values.astype(LD), 0)), 0)
        single = bound.astype(np.float32)
        single = np.where(single.astype(LD) < bound, np.nextafter(single, np.float32(np.inf)), single)
    said["values"] = values.tobytes().hex()
    said["bounds"] = single.astype(np.float32).tobytes().hex()
    return said


def bytes_of(count, dtype):
    return count * SIZE[dtype]
