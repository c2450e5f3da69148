"""Definitions of kernels: Python functions that are traced, and source texts."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, overload

from millstream import _millstream
from millstream._errors import TraceError
from millstream._trace import Builder
from millstream._types import Array, Read, Update, Write
from millstream._values import Value

__all__ = ["KernelFunction", "Source", "cover", "kernel"]

Threads = int | tuple[int, ...]
Parameter = tuple[str, str, str]


def _threads(threads: Threads) -> tuple[int, int, int]:
    axes = (threads,) if isinstance(threads, int) else tuple(threads)
    if not 1 <= len(axes) <= 3:
        raise TraceError(f"a cube has threads on 1 to 3 axes, got {axes}")
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z


def _parameter(owner: str, name: str, hint: Any) -> tuple[Parameter, type[Array[Any]] | None, type[Value]]:
    """Reads the annotation of a parameter: its name, kind and type; the class of an array; the element type."""
    kinds: dict[Any, str] = {Read: "read", Write: "write", Update: "update"}
    origin = typing.get_origin(hint)
    if origin in kinds:
        (dtype,) = typing.get_args(hint)
        if isinstance(dtype, type) and issubclass(dtype, Value):
            return (name, kinds[origin], dtype._dtype), origin, dtype
    if isinstance(hint, type) and issubclass(hint, Value) and hint is not Value:
        return (name, "scalar", hint._dtype), None, hint
    raise TraceError(
        f"kernel `{owner}`: parameter `{name}` needs a type such as `ms.Read[ms.f32]`, `ms.Update[ms.f32]` or "
        f"`ms.f32`, got {hint!r}"
    )


class KernelFunction:
    """A kernel of the IR that was traced from a Python function of one thread. It runs on every backend.

    Prepare it for a device with ``device.kernel(function)``, and launch it with ``stream.launch``.
    """

    def __init__(self, function: Callable[..., None], name: str | None, threads: Threads) -> None:
        self.name: str = name or function.__name__
        """The name, which failures and timelines display."""
        self.threads: tuple[int, int, int] = _threads(threads)
        """The threads of a cube, along x, y and z."""
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.__name__ = self.name
        self.ir: str
        """The function of the IR, as text."""
        self._parameters: list[Parameter] = []
        self._trace(function)

    def _trace(self, function: Callable[..., None]) -> None:
        hints = typing.get_type_hints(function)
        builder = Builder(self.name, self.threads)
        arguments: list[Any] = []
        arrays = []
        for name in inspect.signature(function).parameters:
            parameter, array, dtype = _parameter(self.name, name, hints.get(name))
            self._parameters.append(parameter)
            arrays.append((parameter, array, dtype))
        # The head has the arrays first, then the numbers.
        for (name, kind, dtype_name), array, _ in arrays:
            if array is not None:
                builder.declare(kind, name, dtype_name)
        for (name, kind, dtype_name), array, _ in arrays:
            if array is None:
                builder.declare(kind, name, dtype_name)
        with builder:
            for (name, kind, _), array, dtype in arrays:
                if array is None:
                    arguments.append(builder.value(dtype, f"scalar {name}"))
                else:
                    arguments.append(array(builder, name, dtype, kind))
            returned: Callable[..., object] = function
            result = returned(*arguments)
        if result is not None:
            raise TraceError(f"kernel `{self.name}` returns a value; store results in a `ms.Write` or `ms.Update`")
        self.ir = builder.text()
        try:
            _millstream.check_function(self.ir)
        except ValueError as error:
            place = self._place(builder, str(error), function)
            raise TraceError(f"{place}: kernel `{self.name}`: {error}") from None

    @staticmethod
    def _place(builder: Builder, message: str, function: Callable[..., None]) -> str:
        for statement in re.findall(r"`([^`]*)`", message):
            if statement in builder.places:
                return builder.places[statement]
        return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"

    def __millstream_kernel__(self) -> tuple[str, list[Parameter], dict[str, str], tuple[int, int, int], int]:
        return self.name, self._parameters, {"ir": self.ir}, self.threads, 0

    def __call__(self, *_: object) -> None:
        raise TypeError(
            f"kernel `{self.name}` runs on a device: stream.launch(device.kernel({self.name}), count, ..)"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(name for name, _, _ in self._parameters)})>"


@overload
def kernel(function: Callable[..., None], /) -> KernelFunction: ...
@overload
def kernel(*, name: str | None = None, threads: Threads = 256) -> Callable[[Callable[..., None]], KernelFunction]: ...
def kernel(
    function: Callable[..., None] | None = None, /, *, name: str | None = None, threads: Threads = 256
) -> KernelFunction | Callable[[Callable[..., None]], KernelFunction]:
    """Makes a kernel of a Python function of one thread, which is traced once.

    Each parameter is annotated: ``ms.Read[T]``, ``ms.Write[T]`` and ``ms.Update[T]`` are arrays, ``ms.f32`` and the
    other element types are numbers. Python's ``if`` and ``for`` run while the function is traced; `millstream.ir` has
    those that run on the device.

    :param threads: the threads of a cube, along one to three axes; all together at most 1,024
    :raises TraceError: if a line cannot become a part of a kernel; the message and the traceback name it
    """
    if function is not None:
        return KernelFunction(function, name, threads)
    return lambda function: KernelFunction(function, name, threads)


class Source:
    """A kernel as source text: CUDA C or PTX for `cuda`, WGSL for `vulkan`, the IR as text for every backend.

    :param name: the name of the entry point
    :param parameters: the arguments by name, in order, such as ``{"x": ms.Read[ms.f32], "a": ms.f32}``
    :param threads: the threads of a cube; the IR's text has its own
    :param shared_bytes: shared memory of a cube beyond what the source declares, in bytes
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        *,
        cuda: str | None = None,
        ptx: str | None = None,
        wgsl: str | None = None,
        ir: str | None = None,
        threads: Threads = 256,
        shared_bytes: int = 0,
    ) -> None:
        self.name = name
        self.threads = _threads(threads)
        self._shared_bytes = shared_bytes
        texts = {"cuda": cuda, "ptx": ptx, "wgsl": wgsl, "ir": ir}
        self._sources = {language: text for language, text in texts.items() if text is not None}
        self._parameters = [_parameter(name, each, hint)[0] for each, hint in parameters.items()]

    def __millstream_kernel__(self) -> tuple[str, list[Parameter], dict[str, str], tuple[int, int, int], int]:
        return self.name, self._parameters, self._sources, self.threads, self._shared_bytes


def cover(elements: int, per_cube: int = 256) -> int:
    """Returns how many cubes cover this number of elements, at `per_cube` elements each."""
    return -(-elements // max(per_cube, 1))
