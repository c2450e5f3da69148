#!/usr/bin/env python3
"""Computes the gradients of tests/graph/gradients_torch.rs with PyTorch, at the corners of each function.

    python3 -m pip install torch
    python3 tests/graph/reference/make_gradients.py

Writes `gradients.txt` to its own folder: a line for each function and type, with fields separated by `|`: the name, the
type, the elements of each argument, and the gradient of the sum by each argument. Written with PyTorch 2.15.0 on a CPU.
"""

import pathlib

import torch
from torch.nn import functional as nn

INF, NAN = float("inf"), float("nan")
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# Zeros, tiny numbers, the ranges of f16, f32 and f64, and both sides of the numbers beyond which the exponential of
# `x`, or that of the argument of `gelu_tanh`, overflows in f16, f32 and f64.
NUMBERS = [
    *(0.0, 1e-300, 1e-40, 1.2e-38, 6e-8, 5e-8, 1e-4, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0),
    *(9.0, 10.05, 10.1, 11.0, 11.2, 16.5, 21.3, 25.0, 88.7, 88.75, 103.0, 709.7, 709.9, 750.0),
    *(60000.0, 1e10, 1.8e19, 2e19, 1e30, 3e38, 1e154, 2e154, 1e300, INF),
]
ONE = [sign * number for number in NUMBERS for sign in (1.0, -1.0)] + [NAN]
FEW = [0.0, -0.0, 1e-30, -1e-30, 0.5, 1.0, -1.0, -2.0, 3.0, 2e19, INF, -INF, NAN]

ONE_ARGUMENT = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "sign": torch.sign,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "square": torch.square,
    "recip": torch.reciprocal,
    "relu": torch.relu,
    "clamp": lambda x: torch.clamp(x, 0.0, 1.0),
    "sigmoid": torch.sigmoid,
    "silu": nn.silu,
    "gelu": nn.gelu,
    "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"),
    "pow 0": lambda x: x**0.0,
    "pow 1": lambda x: x**1.0,
    "pow 2": lambda x: x**2.0,
    "pow 0.5": lambda x: x**0.5,
    "pow -1": lambda x: x**-1.0,
    "2 pow": lambda x: 2.0**x,
    "0 pow": lambda x: 0.0**x,
}
TWO_ARGUMENTS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "rem": torch.fmod,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "select": lambda x, y: torch.where(x < y, x, y),
}
# Functions of rows: the second argument is the weight of each element of the result.
ROWS = [
    [0.0, -0.0, 1.0],
    [1.0, 1.0, -2.0],
    [INF, 1.0, 2.0],
    [-INF, 1.0, 2.0],
    [-INF, -INF, -INF],
    [NAN, 0.0, 1.0],
    [0.0, 0.0, 3.0],
    [0.0, INF, 2.0],
    [88.75, -88.75, 100.0],
    [60000.0, -60000.0, 1.0],
    [1e-8, 2e-8, 0.0],
]
OF_ROWS = {
    "sum": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "variance": lambda x: x.var(-1, correction=0, keepdim=True),
    "product": lambda x: x.prod(-1, keepdim=True),
    "max": lambda x: x.amax(-1, keepdim=True),
    "min": lambda x: x.amin(-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
}

lines = []


def text(values):
    """All numbers, without the digits that a type does not have."""
    digits = {torch.float64: 17, torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}[values.dtype]
    return " ".join(f"{value:.{digits}g}" for value in values.double().flatten().tolist())


def write(name, dtype, arguments, result):
    weights = (torch.arange(result.shape[-1]) % 2 + 1 if name in OF_ROWS else torch.tensor(1)).to(result.dtype)
    zeros = [torch.zeros_like(argument) for argument in arguments]
    if result.requires_grad:
        given = torch.autograd.grad(result, arguments, weights.expand_as(result), allow_unused=True)
        zeros = [zero if grad is None else grad for grad, zero in zip(given, zeros)]
    lines.append("|".join([name, dtype, *map(text, arguments), *map(text, zeros)]))


for dtype, torch_type in TYPES.items():

    def tensor(values):
        made = torch.tensor(values, dtype=torch.float64).to(torch_type)
        return made.requires_grad_()

    # Numbers that this type does not have: subnormal ones may count as zero, large ones are infinite.
    least, most = torch.finfo(torch_type).smallest_normal, torch.finfo(torch_type).max
    one = [x for x in ONE if x == 0 or abs(x) == INF or x != x or least <= abs(x) <= most]
    few = [x for x in FEW if x == 0 or abs(x) == INF or x != x or least <= abs(x) <= most]
    for name, function in ONE_ARGUMENT.items():
        x = tensor(one)
        write(name, dtype, [x], function(x))
    for name, function in TWO_ARGUMENTS.items():
        x, y = tensor([x for x in few for _ in few]), tensor([y for _ in few for y in few])
        write(name, dtype, [x, y], function(x, y))
    for name, function in OF_ROWS.items():
        x = tensor([row for row in ROWS if all(abs(it) <= most or abs(it) == INF or it != it for it in row)])
        write(name, dtype, [x], function(x))

(pathlib.Path(__file__).parent / "gradients.txt").write_text("\n".join(lines) + "\n")
