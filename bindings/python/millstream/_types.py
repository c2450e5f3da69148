"""Element types, which are also the types of values in kernels.

``millstream.f32`` is three things: the element type of a buffer (``stream.empty(16, ms.f32)``), the type of a number
that a kernel takes (``a: ms.f32``), and the type of a value while a kernel is traced (``x[i]`` is an ``ms.f32``).
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import operator
from collections.abc import Iterable
from typing import Any, Union

import numpy as np

from millstream._errors import ArgumentError
from millstream._values import Value

__all__ = [
    "bf16", "bool_", "f16", "f32", "f64", "i16", "i32", "i64", "i8", "u16", "u32", "u64", "u8",
    "DTypeLike", "counter",
]


@functools.cache
def _bfloat16() -> np.dtype[Any] | None:
    """Returns the type of `ml_dtypes` for bf16, if it is installed. JAX and others install it."""
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        return None
    named: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return named


class f64(Value, name="f64", itemsize=8):
    """64-bit float."""


class i64(Value, name="i64", itemsize=8):
    """64-bit signed integer: the type of indices, lengths and positions."""


class u64(Value, name="u64", itemsize=8):
    """64-bit unsigned integer."""


class f32(Value, name="f32", itemsize=4):
    """32-bit float."""


class i32(Value, name="i32", itemsize=4):
    """32-bit signed integer."""


class u32(Value, name="u32", itemsize=4):
    """32-bit unsigned integer."""


class f16(Value, name="f16", itemsize=2):
    """16-bit float, IEEE half. Kernels store and cast it; cast it to ``f32`` to compute."""


class bf16(Value, name="bf16", itemsize=2):
    """16-bit float, bfloat16. Arrays of it are of ``ml_dtypes.bfloat16`` where that package is installed. NumPy itself has
    no such type: without the package, arrays have the bits as ``uint16``."""


class i16(Value, name="i16", itemsize=2):
    """16-bit signed integer."""


class u16(Value, name="u16", itemsize=2):
    """16-bit unsigned integer."""


class i8(Value, name="i8", itemsize=1):
    """8-bit signed integer."""


class u8(Value, name="u8", itemsize=1):
    """8-bit unsigned integer."""


class bool_(Value, name="bool", itemsize=1):
    """A bool in one byte, 0 or 1: the type of comparisons."""


class counter(i64):
    """An integer of Python that became a variable, and the index of a ``for``: an ``i64`` that is converted where it meets
    another type."""

    _is_python = True


CLASSES: dict[str, type[Value]] = {
    class_._dtype: class_
    for class_ in (f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8, bool_)
}

DTypeLike = Union[type[Value], str, "np.dtype[Any]", type[np.generic]]
"""What names an element type: ``ms.f32``, ``"f32"``, ``numpy.float32`` or a ``numpy.dtype``."""

_NUMPY_NAMES = {
    "float64": "f64", "int64": "i64", "uint64": "u64", "float32": "f32", "int32": "i32", "uint32": "u32",
    "float16": "f16", "int16": "i16", "uint16": "u16", "int8": "i8", "uint8": "u8", "bool": "bool",
    "bfloat16": "bf16",
}  # fmt: skip


def numpy_dtype_name(dtype: Any) -> str:
    """Returns the name of a NumPy dtype as an element type; the name itself if there is none."""
    name: str = np.dtype(dtype).name
    return _NUMPY_NAMES.get(name, name)


def numpy_dtype(dtype: type[Value]) -> np.dtype[Any]:
    """Returns the NumPy dtype of arrays with these elements."""
    names = {ours: theirs for theirs, ours in _NUMPY_NAMES.items()}
    return _bfloat16() or np.dtype("uint16") if dtype is bf16 else np.dtype(names[dtype._dtype])


class _NumpyDType:
    """The attribute `dtype` of an element type. NumPy takes a class that has it as a dtype."""

    def __get__(self, instance: object, owner: type[Value]) -> np.dtype[Any]:
        return numpy_dtype(owner)


for _class in CLASSES.values():
    # Not a value, so that `ml_dtypes` is imported only when it is needed.
    _class.dtype = _NumpyDType()  # type: ignore[assignment]


def reshaped(shape: tuple[int, ...], itemsize: int, given: tuple[Any, ...]) -> list[int]:
    """Returns the lengths of as many elements in another shape: of ``x.reshape(2, -1)`` and of ``x.reshape((2, -1))``."""
    first: Any = given[0] if len(given) == 1 else None
    # An array without axes is a number, although it has `__iter__`.
    is_shape = isinstance(first, Iterable) and getattr(first, "ndim", 1) > 0
    asked = tuple(operator.index(length) for length in (first if is_shape else given))
    if any(abs(length) >> 63 for length in asked):
        # Python prints no integer of thousands of digits.
        raise ArgumentError("a shape with a length of 2^63 or more exceeds 2^63 bytes")
    # A length of 0 counts as 1, since consumers read the strides.
    sizes = itertools.accumulate((max(abs(length), 1) for length in asked), operator.mul, initial=itemsize)
    if any(size >> 63 for size in sizes):
        raise ArgumentError(f"elements of {itemsize} bytes of shape {asked} exceed 2^63 bytes")
    lengths, size, known = list(asked), math.prod(shape), math.prod(length for length in asked if length != -1)
    if asked.count(-1) == 1 and known > 0 and size % known == 0:
        lengths[asked.index(-1)] = size // known
    if min(lengths, default=0) < 0 or math.prod(lengths) != size:
        raise ArgumentError(f"cannot reshape {shape}, which has {size} elements, to {asked}")
    return lengths


def bits_of_bf16(array: Any) -> Any:
    """Returns an array of `ml_dtypes.bfloat16` as one of its bits; anything else as it is."""
    is_named = isinstance(array, np.ndarray) and array.dtype == _bfloat16()
    return array.view(np.uint16) if is_named else array


def contiguous(data: Any, dtype: type[Value] | None) -> tuple[np.ndarray[Any, Any], tuple[int, ...], bool]:
    """Returns ``data`` as an array of one axis with these elements, its shape, and whether they are bits of bf16;
    converts it if necessary."""
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        # Without a copy, from any library whose array is in host memory.
        data = np.from_dlpack(data)
    wanted = None if dtype is None else numpy_dtype(dtype)
    if dtype is bf16:
        given = np.asarray(data)
        if given.dtype == np.uint16:
            # The bits.
            data, wanted = given, np.dtype(np.uint16)
        elif wanted == np.uint16:
            raise ArgumentError(
                "bf16 takes an array of `numpy.uint16` with the bits of its elements; to convert numbers, install "
                "`ml_dtypes`"
            )
    array = np.asarray(data, dtype=wanted, order="C")
    is_bf16 = dtype is bf16 or array.dtype == _bfloat16()
    return bits_of_bf16(array).reshape(-1), array.shape, is_bf16
