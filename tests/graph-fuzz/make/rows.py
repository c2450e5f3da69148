"""Reductions and matrix products, with bounds for any order of summation."""

import numpy as np

from .values import BITS, F, GREATEST, HALVES, LD, NUMPY, STORED, TINY, UNIT, both_exact, finish, finite_or, require, short

# Small sums of integer multiples of 1 / GRID are exact.
GRID = LD(2.0) ** 8


def total(x, axes, dtype):
    """Computes sums of floats."""
    with np.errstate(all="ignore"):
        v = x.v.sum(axis=axes, keepdims=True)
        size = finite_or(np.abs(x.v), 0)
        mag = (size + x.e).sum(axis=axes, keepdims=True)
        count = np.prod([x.shape[axis] for axis in axes], dtype=float)
        on_grid = np.all((x.e == 0) & (finite_or(x.v, 0) * GRID % 1 == 0), axis=axes, keepdims=True)
    # The sum of one number is the number.
    exact = on_grid & (mag * GRID <= LD(2.0) ** BITS[dtype])
    if count <= 1:
        exact = exact | (x.e.sum(axis=axes, keepdims=True) == 0)
    require(np.all(mag <= GREATEST[dtype]), "the sum may overflow")
    e = x.e.sum(axis=axes, keepdims=True) + mag * ((count + 4) * UNIT[dtype] + 2 * STORED[dtype])
    return finish(v, e, exact, dtype)


def running(x, axis, dtype):
    """Computes running sums along an axis."""
    if not isinstance(x, F):
        with np.errstate(all="ignore"):
            return np.cumsum(x, axis=axis, dtype=NUMPY[dtype])
    length = x.shape[axis]
    require(x.v.size * max(length, 1) <= 1 << 15, "the running sum would take too long")
    last = x.map(lambda v: np.moveaxis(v, axis, -1))
    seen = np.tril(np.ones((length, length), bool))
    spread = last.map(lambda v: np.where(seen, v[..., None, :], 0))
    summed = total(spread, (spread.v.ndim - 1,), dtype)
    return summed.map(lambda v: np.moveaxis(v[..., 0], -1, axis))


def product(x, axes, dtype):
    """Computes products of floats."""
    with np.errstate(all="ignore"):
        v = x.v.prod(axis=axes, keepdims=True)
        size = finite_or(np.abs(x.v), 1)
        top = np.maximum(size + x.e, 1).prod(axis=axes, keepdims=True)
        low = np.where(size > 0, np.minimum(size, 1), 1).prod(axis=axes, keepdims=True)
        require(np.all(top <= GREATEST[dtype]) and np.all(low >= 1e4 * TINY[dtype]), "the product may overflow or underflow")
        special = ~np.isfinite(x.v)
        doubtful = (x.e > 0) & (size <= x.e)
        require(not np.any(special.any(axis=axes) & doubtful.any(axis=axes)), "infinity times what may be zero")
        count = np.prod([x.shape[axis] for axis in axes], dtype=float)
        outer = (size + x.e).prod(axis=axes, keepdims=True)
        inner = size.prod(axis=axes, keepdims=True)
        e = (outer - inner) + outer * (count + 2) * (UNIT[dtype] + STORED[dtype])
        whole = np.all((x.e == 0) & (finite_or(x.v, 0) % 1 == 0), axis=axes, keepdims=True)
    exact = whole & (top <= LD(2.0) ** BITS[dtype])
    return finish(v, e, exact, dtype)


def greatest(x, axes):
    """Computes maxima of floats."""
    with np.errstate(all="ignore"):
        v = x.v.max(axis=axes, keepdims=True, initial=-np.inf)
        widest = x.e.max(axis=axes, keepdims=True, initial=0)
        near = x.v + x.e >= v - widest
        e = np.where(near, x.e, 0).max(axis=axes, keepdims=True, initial=0)
    return F(v, np.where(np.isfinite(v), e, 0))


def place_of_greatest(x, axes):
    """Returns the index of the first maximum, or of the first NaN, over axes in row-major order."""
    values = x.v if isinstance(x, F) else x
    kept = [axis for axis in range(values.ndim) if axis not in axes]
    order = kept + sorted(axes)
    outer = [values.shape[axis] for axis in kept]
    inner = int(np.prod([values.shape[axis] for axis in axes], dtype=np.int64))
    shape = [1 if axis in axes else length for axis, length in enumerate(values.shape)]
    if inner == 0 or 0 in outer:
        return np.zeros(shape, np.int64)
    rows = values.transpose(order).reshape(outer + [inner])
    found = rows.argmax(axis=-1)
    if isinstance(x, F):
        errors = x.e.transpose(order).reshape(rows.shape)
        best = np.take_along_axis(rows, found[..., None], -1)
        error = np.take_along_axis(errors, found[..., None], -1)
        with np.errstate(all="ignore"):
            rival = (np.abs(rows - best) <= 2 * (errors + error)) & ((errors > 0) | (error > 0))
        np.put_along_axis(rival, found[..., None], False, -1)
        require(not np.any(rival & np.isfinite(best)), "the maximum may be at one of two indices")
    return found.astype(np.int64).reshape(shape)


def reduce(op, x, axes, dtype):
    """Reduces an array of any type."""
    axes = tuple(axes)
    if not axes:
        # Each result reduces one value.
        return np.zeros(x.shape, np.int64) if op.startswith("arg") else x
    if op.startswith("arg"):
        if op == "argmin":
            x = F(-x.v, x.e) if isinstance(x, F) else reversed_order(x, dtype)
        return place_of_greatest(x, axes)
    if isinstance(x, F):
        if op == "min":
            top = greatest(F(-x.v, x.e), axes)
            return F(-top.v, top.e)
        return {"sum": total, "product": product}[op](x, axes, dtype) if op != "max" else greatest(x, axes)
    kind = NUMPY[dtype]
    with np.errstate(all="ignore"):
        if op == "sum":
            return x.sum(axis=axes, keepdims=True, dtype=kind)
        if op == "product":
            return x.prod(axis=axes, keepdims=True, dtype=kind)
        low, high = (False, True) if dtype == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
        if op == "max":
            return x.max(axis=axes, keepdims=True, initial=low)
        return x.min(axis=axes, keepdims=True, initial=high)


def reversed_order(x, dtype):
    """Returns integers in reversed order, so that the maximum is the minimum of these."""
    return ~x


def matmul(a, b, dtype):
    """Computes matrix products with broadcast batch axes."""
    if not isinstance(a, F):
        kind = NUMPY[dtype]
        with np.errstate(all="ignore"):
            parts = a[..., :, :, None].astype(kind) * b[..., None, :, :].astype(kind)
            return parts.sum(axis=-2, dtype=kind)
    require(a.v.size * b.shape[-1] <= 1 << 15, "the product would take too long")
    left, right = a.map(lambda v: v[..., :, :, None]), b.map(lambda v: v[..., None, :, :])
    with np.errstate(all="ignore"):
        v = left.v * right.v
        lv, rv = finite_or(np.abs(left.v), 0), finite_or(np.abs(right.v), 0)
        doubtful = (np.isinf(left.v) & (right.e > 0) & (rv <= right.e)) | (np.isinf(right.v) & (left.e > 0) & (lv <= left.e))
        require(not doubtful.any(), "infinity times what may be zero")
        e = lv * right.e + rv * left.e + left.e * right.e
        exact = both_exact(left, right) & short(left.v) & short(right.v)
        e = np.where(np.isfinite(v), np.where(exact, 0, e + UNIT[dtype] * np.abs(finite_or(v, 0)) + TINY[dtype]), 0)
    require(np.all(finite_or(np.abs(v), 0) <= GREATEST[dtype]), "the product may overflow")
    summed = total(F(v, e), (v.ndim - 2,), dtype)
    return summed.map(lambda v: v[..., 0, :])
