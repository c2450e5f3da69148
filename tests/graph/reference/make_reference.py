#!/usr/bin/env python3
"""Computes the reference values of tests/graph/reference.rs with NumPy.

    python3 -m pip install numpy
    python3 tests/graph/reference/make_reference.py

Writes two files to its own folder: `index.txt` (a line for each array: case, name, type, shape, and start, in
elements) and `arrays.bin` (8 bytes for each element, little-endian: floats as f64, all others as i64). `y` of a case
is the expected result for its other arrays. One seed determines all data: the files are reproducible, except for
rounding differences between NumPy versions.

All results are computed in f64, from inputs that are exact in their types, and rounded only where millstream rounds.
"""

import math
import pathlib

import numpy as np

random = np.random.default_rng(20261122)
index, data = [], bytearray()
here = pathlib.Path(__file__).parent
erf = np.vectorize(math.erf)


def case(name, dtype, y, **inputs):
    """Adds a case: inputs as (type, array), and the result in this type."""
    for key, (kind, array) in [*inputs.items(), ("y", (dtype, y))]:
        array = np.asarray(array)
        is_float = kind in ("f64", "f32", "f16", "bf16")
        shape = "x".join(map(str, array.shape)) or "-"
        index.append(f"{name} {key} {kind} {shape} {len(data) // 8}")
        data.extend(array.astype("<f8" if is_float else "<i8").tobytes())


def floats(*shape, scale=2.0, of=np.float32):
    return random.uniform(-scale, scale, shape).astype(of).astype(np.float64)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


# Rows, with masked elements and elements that would overflow.
x = floats(6, 33, scale=90.0)
x[2, 5:20] = -np.inf
case("softmax", "f32", softmax(x, -1), x=("f32", x))
x = floats(7, 3, 5)
case("log_softmax", "f64", np.log(softmax(x, 0)), x=("f64", x))
x, gain, bias = (floats(5, 64, scale=5.0) + 3.0).astype(np.float32).astype(np.float64), floats(64), floats(64)
normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
case("layer_norm", "f32", normal * gain + bias, x=("f32", x), gain=("f32", gain), bias=("f32", bias))
x = floats(3, 50, scale=6.0)
case("gelu", "f32", x / 2 * (1 + erf(x / math.sqrt(2))), x=("f32", x))
inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
case("gelu_tanh", "f32", x / 2 * (1 + np.tanh(inner)), x=("f32", x))
x = floats(4, 3, 11)
case("mean_variance", "f64", x.mean((0, 2), keepdims=True) + x.var((0, 2), keepdims=True), x=("f64", x))

# Products: broadcast batches, a transposed right side, and an epilogue.
a, b, bias = floats(2, 1, 5, 7), floats(3, 4, 7), floats(4)
y = np.maximum(np.matmul(a, np.swapaxes(b, -1, -2)) + bias, 0.0)
case("matmul_t", "f32", y, a=("f32", a), b=("f32", b), bias=("f32", bias))
a, b = (random.integers(-(2**31), 2**31, shape) for shape in ((6, 9), (9, 5)))
with np.errstate(over="ignore"):
    y = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
case("matmul_wraps", "i32", y, a=("i32", a), b=("i32", b))
q, k, v = floats(2, 9, 8), floats(2, 9, 8), floats(2, 9, 8)
scores = np.matmul(q, np.swapaxes(k, -1, -2)) / math.sqrt(8)
scores = np.where(np.tril(np.ones((9, 9), bool)), scores, -np.inf)
case("attention", "f32", np.matmul(softmax(scores, -1), v), q=("f32", q), k=("f32", k), v=("f32", v))

# Access by index. An index out of range reads zero and stores nothing.
a, b = floats(5, 3), floats(4, 5)
case("cat", "f32", np.concatenate([a.T, b.T[:3, 1:3], a.T], 1), a=("f32", a), b=("f32", b.T[:3].copy()))
x, at = floats(6, 8), random.integers(-3, 11, (6, 5))
inside = (at >= 0) & (at < 8)
y = np.where(inside, np.take_along_axis(x, np.where(inside, at, 0), 1), 0.0)
case("gather", "f32", y, x=("f32", x), at=("i64", at))
at = random.integers(0, 6, 9)
case("take", "f32", x.take(at, 0), x=("f32", x), at=("i64", at))
at, values = random.integers(-2, 8, (7, 8)), floats(7, 8)
put, added = x.copy(), x.copy()
for row in range(7):
    for column in range(8):
        if 0 <= at[row, column] < 6:
            put[at[row, column], column] = values[row, column]
            np.add.at(added, (at[row, column], column), values[row, column])
case("scatter", "f32", put, x=("f32", x), at=("i64", at), values=("f32", values))
case("scatter_add", "f32", added, x=("f32", x), at=("i64", at), values=("f32", values))

# NaN: the first one is maximum and minimum, and propagates.
x = floats(6, 9)
x[1, 4] = x[1, 7] = x[3, 0] = np.nan
x[4] = x[4, 0]
x[5, 2] = np.inf
case("argmax", "i64", x.argmax(1)[:, None], x=("f32", x))
case("argmin", "i64", x.argmin(0)[None, :], x=("f32", x))
case("max", "f32", x.max(1, keepdims=True), x=("f32", x))
case("minimum", "f32", np.minimum(x, x[::-1]), x=("f32", x), other=("f32", x[::-1].copy()))
case("equals", "bool", x == x[4], x=("f32", x), other=("f32", x[4].copy()))

# Integers, including the least one and zero.
least = np.iinfo(np.int64).min
x = np.concatenate([random.integers(-50, 50, 40), [least, least, least, 7, -7, 0]])
by = np.concatenate([random.integers(-6, 6, 40), [-1, 0, 3, 0, 0, 0]])
with np.errstate(all="ignore"):
    floor = np.floor_divide(x, by)
    rest = np.fmod(x, by)
    # Rounds towards zero: without the remainder the division is exact; the least integer divided by -1 wraps.
    trunc = np.floor_divide(x - rest, by)
case("trunc_divide", "i64", trunc, x=("i64", x), by=("i64", by))
case("floor_divide", "i64", floor, x=("i64", x), by=("i64", by))
case("remainder", "i64", rest, x=("i64", x), by=("i64", by))
x, by = floats(40, scale=9.0), floats(40, scale=3.0)
case("remainder_of_floats", "f64", np.fmod(x, by), x=("f64", x), by=("f64", by))
x, places = random.integers(-(2**31), 2**31, 40).astype(np.int32), random.integers(0, 31, 40).astype(np.int32)
power = np.left_shift(np.int32(1), places)
case("shift_left", "i32", np.left_shift(x, places), x=("i32", x), power=("i32", power))
case("shift_right", "i32", np.right_shift(x, places), x=("i32", x), power=("i32", power))
x, power = x.view(np.uint32), power.view(np.uint32)
case("shift_right_unsigned", "u32", np.right_shift(x, places.view(np.uint32)), x=("u32", x), power=("u32", power))
x, other = random.integers(0, 256, (2, 40))
case("bits", "u8", ((x ^ other) & 0xF0) | (~x & 0x0F), x=("u8", x), other=("u8", other))

# Cumulative operations along an axis, as masked triangles.
x = floats(4, 19)
case("cumulative_sum", "f64", np.cumsum(x, 1), x=("f64", x))
x[2, 7] = np.nan
case("cumulative_max", "f64", np.maximum.accumulate(x, 1), x=("f64", x))
x = random.integers(-(2**31), 2**31, (3, 17))
case("cumulative_product", "i32", np.cumprod(x.astype(np.int32), 1, dtype=np.int32), x=("i32", x))

# Casts: floats truncate towards zero and saturate, integers keep their low bits.
x = np.array([0.0, -0.5, 1.5, -2.7, 2.0**31, -(2.0**31) - 5, 1e30, -1e30, np.inf, -np.inf, np.nan, 255.9, 256.0, -1.0])
kept = np.where(np.isnan(x), 0.0, np.trunc(x))
case("cast_to_i32", "i32", np.clip(kept, -(2**31), 2**31 - 1), x=("f64", x))
case("cast_to_u8", "u8", np.clip(kept, 0, 255), x=("f64", x))
case("cast_to_bool", "bool", np.isnan(x) | (x != 0), x=("f64", x))
x = random.integers(least, -least - 1, 30)
case("cast_narrows", "i32", x.astype(np.int32), x=("i64", x))
a, b = floats(4, 40, of=np.float16), floats(40, of=np.float16)
y = (a.astype(np.float32) * b.astype(np.float32)).sum(1, keepdims=True, dtype=np.float32)
case("halves", "f16", y.astype(np.float16), a=("f16", a), b=("f16", b))


def philox(seed, counter):
    """Returns the first word of Philox4x32-10."""
    low = 0xFFFFFFFF
    key = [seed & low, seed >> 32]
    words = [counter & low, counter >> 32, 0, 0]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [second >> 32 ^ words[1] ^ key[0], second & low, first >> 32 ^ words[3] ^ key[1], first & low]
        key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
    return words[0]


# The known answer of Random123.
assert philox(0, 0) == 0x6627E8D5
case("random_bits", "u32", [[philox(0xDEADBEEF12345678, 8 * row + at) for at in range(8)] for row in range(5)])

(here / "index.txt").write_text("\n".join(index) + "\n")
(here / "arrays.bin").write_bytes(data)
print(f"{len(index)} arrays, {len(data)} bytes, NumPy {np.__version__}")
