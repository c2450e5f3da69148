"""Definitions of kernels: Python functions that are rewritten and traced, and source texts."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from millstream import _control, _millstream
from millstream._arrays import KINDS, Array
from millstream._errors import ArgumentError, TraceError
from millstream._rewrite import rewritten
from millstream._statements import Place
from millstream._trace import Builder, current, is_tracing
from millstream._values import Value

__all__ = ["KernelFunction", "Source", "cover", "function", "kernel"]

Threads = int | tuple[int, ...]
Parameter = tuple[str, str, str, int]
Extent = tuple[int, int | None]
Said = tuple[str, list[Parameter], list[Extent], dict[str, str], tuple[int, int, int], int]
F = TypeVar("F", bound=Callable[..., Any])


def _threads(threads: Threads) -> tuple[int, int, int]:
    axes = (threads,) if isinstance(threads, int) else tuple(threads)
    if not 1 <= len(axes) <= 3:
        raise TraceError(f"a cube has threads on 1 to 3 axes, got {axes}")
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z


def _parameter(owner: str, name: str, hint: Any) -> tuple[Parameter, type[Array[Any]] | None, type[Value]]:
    """Reads the annotation of a parameter: its name, kind, type and axes; the class of an array; the element type."""
    origin: Any = typing.get_origin(hint)
    if origin in KINDS:
        (dtype,) = typing.get_args(hint)
        if isinstance(dtype, type) and issubclass(dtype, Value):
            return (name, KINDS[origin], dtype._dtype, origin.ndim), origin, dtype
    if isinstance(hint, type) and issubclass(hint, Value) and hint is not Value:
        return (name, "scalar", hint._dtype, 0), None, hint
    raise TraceError(
        f"kernel `{owner}`: parameter `{name}` needs a type such as `ms.Read[ms.f32]`, `ms.Update[ms.f32]` or "
        f"`ms.f32`, got {hint!r}"
    )


class KernelFunction:
    """A kernel of the IR that was traced from a Python function of one thread. It runs on every backend.

    Prepare it for a device with ``device.kernel(function)``, and launch it with ``stream.launch``.
    """

    def __init__(
        self,
        function: Callable[..., None],
        name: str | None = None,
        threads: Threads = 256,
        checked: bool = False,
        contract: bool = False,
    ) -> None:
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
        self._extents: list[Extent] = []
        self._trace(function, checked, contract)

    def _trace(self, function: Callable[..., None], checked: bool, contract: bool) -> None:
        hints = typing.get_type_hints(function)
        code = function.__code__
        options = [option for option, is_set in (("checked", checked), ("contract", contract)) if is_set]
        builder = Builder(self.name, self.threads, options, Place(code.co_filename, code.co_firstlineno))
        arguments: list[Any] = []
        arrays = []
        for name in inspect.signature(function).parameters:
            parameter, array, dtype = _parameter(self.name, name, hints.get(name))
            self._parameters.append(parameter)
            arrays.append((parameter, array, dtype))
        # The head has the arrays first, then the numbers, then the lengths that the function uses.
        for (name, kind, dtype_name, _), array, _ in arrays:
            if array is not None:
                builder.declare(kind, name, dtype_name, f"{name}_len" if checked else None)
        for (name, kind, dtype_name, _), array, _ in arrays:
            if array is None:
                builder.declare(kind, name, dtype_name)
        if checked:
            for (name, _, _, _), array, _ in arrays:
                if array is not None and builder.extent(name, None, "u64") != f"{name}_len":
                    raise TraceError(f"kernel `{self.name}`: rename parameter `{name}_len`, which is the length of `{name}`")
        with builder:
            for (name, kind, _, _), array, dtype in arrays:
                if array is None:
                    arguments.append(builder.value(dtype, f"scalar {name}"))
                else:
                    arguments.append(array(builder, name, dtype, kind))
            returned: Callable[..., object] | None = None
            if isinstance(function, types.FunctionType):
                returned = rewritten(function, True, _control)
            if returned is None:
                builder.without_source.add(code)
                returned = function
            builder.is_running = True
            result = returned(*arguments)
        if result is not None:
            raise TraceError(f"kernel `{self.name}` returns a value; store results in a `ms.Write` or `ms.Update`")
        names = [name for name, _, _, _ in self._parameters]
        self._extents = [(names.index(name), axis) for name, axis, _ in builder.extents]
        self.ir = builder.text()
        try:
            _millstream.check_function(self.ir)
        except ValueError as error:
            place, why = self._place(builder, str(error))
            raise TraceError(f"{place.file}:{place.line}: kernel `{self.name}`: {why}") from None

    @staticmethod
    def _place(builder: Builder, message: str) -> tuple[Place, str]:
        """Returns the line that a message of the check names, and the rest of the message."""
        file = builder.defined.file
        for line in re.findall(rf"` at {re.escape(file)}:(\d+)", message):
            return Place(file, int(line)), message.replace(f" at {file}:{line}", "")
        for statement in re.findall(r"`([^`]*)`", message):
            if statement in builder.places:
                return builder.places[statement], message
        return builder.defined, message

    def cover(self, shape: int | Sequence[int]) -> tuple[int, int, int]:
        """Returns the number of cubes, along x, y and z, that have a thread for each element of an array.

        :param shape: the shape of the array, such as ``x.shape``, of up to three axes; the last axis is x, as that of
            `ir.position`
        """
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        if not 1 <= len(lengths) <= 3:
            raise ArgumentError(f"a launch has 1 to 3 axes, got the shape {lengths}; pass the size of the array")
        x, y, z = (*lengths[::-1], 1, 1)[:3]
        return cover(x, self.threads[0]), cover(y, self.threads[1]), cover(z, self.threads[2])

    def __millstream_kernel__(self) -> Said:
        return self.name, self._parameters, self._extents, {"ir": self.ir}, self.threads, 0

    def __call__(self, *_: object) -> None:
        raise TypeError(
            f"kernel `{self.name}` runs on a device: stream.launch(device.kernel({self.name}), count, ..)"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(name for name, *_ in self._parameters)})>"


@overload
def kernel(function: Callable[..., None], /) -> KernelFunction: ...
@overload
def kernel(
    *, name: str | None = None, threads: Threads = 256, checked: bool = False, contract: bool = False
) -> Callable[[Callable[..., None]], KernelFunction]: ...
def kernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    name: str | None = None,
    threads: Threads = 256,
    checked: bool = False,
    contract: bool = False,
) -> KernelFunction | Callable[[Callable[..., None]], KernelFunction]:
    """Makes a kernel of a Python function of one thread, which is traced once.

    Each parameter is annotated: ``ms.Read[T]``, ``ms.Write[T]`` and ``ms.Update[T]`` are arrays, ``ms.Read2D[T]`` and
    so on have more axes, ``ms.f32`` and the other element types are numbers. A condition of a thread (``if x[i] > 0:``)
    and ``for i in range(..):`` run on the device; a condition of Python's own values runs while the function is traced.

    :param threads: the threads of a cube, along one to three axes; all together at most 1,024
    :param checked: on a GPU, a load out of bounds gives 0, and a store does nothing. The CPU and the simulator report an
        access out of bounds in any case
    :param contract: a GPU may round a product and the sum that it is a part of once, which is faster; its results then
        differ from those of the CPU by the rounding of the product
    :raises TraceError: if a line cannot become a part of a kernel; the message and the traceback name it
    """
    if function is not None:
        return KernelFunction(function)
    return lambda function: KernelFunction(function, name, threads, checked, contract)


def function(function: F, /) -> F:
    """Makes a function for kernels of a Python function: its ``if``, ``while``, ``for`` and ``return`` are those of the
    device where a kernel calls it. Its statements become a part of the kernel. Elsewhere it is the function that it was.
    """
    new: list[Callable[..., Any]] = []
    is_as_it_was = False

    @functools.wraps(function)
    def traced(*arguments: Any, **named: Any) -> Any:
        nonlocal is_as_it_was
        if not is_tracing():
            return function(*arguments, **named)
        if not new:
            found = rewritten(function, False, _control) if isinstance(function, types.FunctionType) else None
            new.append(found or function)
            is_as_it_was = found is None
        if is_as_it_was:
            current().without_source.add(function.__code__)
        return new[0](*arguments, **named)

    return traced  # type: ignore[return-value]


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

    def __millstream_kernel__(self) -> Said:
        return self.name, self._parameters, [], self._sources, self.threads, self._shared_bytes


def cover(elements: int, per_cube: int = 256) -> int:
    """Returns how many cubes cover this number of elements, at `per_cube` elements each."""
    return -(-elements // max(per_cube, 1))
