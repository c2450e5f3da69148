"""What the statements call that `_rewrite` makes of a function: control flow, variables, and functions of Python that have
another meaning for values of the device.

A condition that Python knows while the function is traced chooses a path there and then. A condition of a thread becomes a
branch of the device, and both paths are traced, one after the other. A `while`, and a `for` over `range`, is a loop of the
device in any case; a `for` over another iterable is Python's.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

from millstream._arrays import Array
from millstream._branches import and_, branch, chain, choose, not_, or_
from millstream._frames import Frame
from millstream._join import truth, undefined, use
from millstream._loops import For, While, range_
from millstream._say import assertion, say_values
from millstream._trace import current
from millstream._types import counter
from millstream._values import Value

__all__ = [
    "For", "Frame", "While", "and_", "assert_", "branch", "call", "chain", "choose", "not_", "or_", "range_", "typed",
    "undefined", "use",
]  # fmt: skip


def typed(annotation: Callable[[], Any], value: Any) -> Any:
    """Returns the value of ``name: annotation = value``: a number gets the type, if it is one of the device."""
    try:
        dtype = annotation()
    except NameError:
        # It is for type checkers only.
        return value
    if isinstance(dtype, type) and issubclass(dtype, Value) and dtype is not Value:
        return current().operand(value, dtype)
    return value


def _is_traced(*values: Any) -> bool:
    return any(isinstance(value, Value) for value in values)


def _extreme(op: str, function: Any) -> Callable[..., Any]:
    def extreme(*values: Any, **options: Any) -> Any:
        given = values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
        if options or not _is_traced(*given):
            return function(*values, **options)
        builder = current()
        return functools.reduce(lambda a, b: builder.binary(op, builder.common(a, b), a, b), given)

    return extreme


def _len(value: Any) -> Any:
    return value.shape[0] if isinstance(value, Array) else len(value)


def _int(*values: Any, **options: Any) -> Any:
    return current().converted(values[0], counter) if _is_traced(*values) else int(*values, **options)


def _bool(*values: Any) -> Any:
    return truth(values[0]) if _is_traced(*values) else bool(*values)


def _unary(op: str, function: Any) -> Callable[..., Any]:
    return lambda *values: current().unary(op, values[0]) if _is_traced(*values[:1]) else function(*values)


def _print(*values: Any, **options: Any) -> None:
    say_values(current(), values, **options)


def assert_(condition: Any, message: Callable[[], Any] | None, text: str) -> None:
    """``assert condition, message``."""
    assertion(current(), condition, message, text)


def _pow(a: Any, b: Any) -> Any:
    return a**b if _is_traced(a, b) else math.pow(a, b)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    builtins.min: _extreme("min", builtins.min), builtins.max: _extreme("max", builtins.max), len: _len, int: _int,
    bool: _bool, print: _print, math.pow: _pow, math.fabs: _unary("abs", math.fabs),
    **{
        getattr(math, name): _unary(name, getattr(math, name))
        for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil")
    },
}  # fmt: skip


def call(function: Any) -> Any:
    """Returns what a call of a function calls: for some functions of Python one that takes values of the device."""
    is_python = isinstance(function, (type, type(len)))
    return _FUNCTIONS.get(function, function) if is_python else function
