"""The part of the compiled module for the exchange of memory with other libraries. Type checkers read it as a part of
`millstream._millstream`."""

from types import TracebackType
from typing import Any, Protocol, final

from typing_extensions import Self

from millstream._millstream import Buffer
from millstream._values import Value

class SupportsDLPack(Protocol):
    """An array of any library."""

    def __dlpack__(self, *, stream: None = ...) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class SupportsArrayInterface(Protocol):
    """An array of any library, in host memory."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class MappedBuffer:
    """Memory of a buffer that Python reads, or writes, in place: `Buffer.map`.

    Arrays are made of it by the buffer protocol (``numpy.asarray``), DLPack (``numpy.from_dlpack``) or the array interface,
    without a copy. On CUDA there are DLPack and the CUDA array interface. Until `release`, and until the last such array is gone, the tasks are held back that would write the
    memory; if it is writable, also those that would read it. `release` is called at the end of a ``with`` block.
    """

    @property
    def buffer(self) -> Buffer: ...
    @property
    def dtype(self) -> type[Value]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def writable(self) -> bool: ...
    @property
    def released(self) -> bool:
        """Whether no further array can be made of it."""

    def release(self) -> None:
        """Ends the mapping. Arrays that were made of it stay valid, and go on to hold tasks back.

        Does nothing once an array interface has been read, since its arrays keep no other reference than to this
        object: the mapping ends with the object then.
        """

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Memory of the host. On other backends the attribute does not exist."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Memory of CUDA, version 3. On other backends the attribute does not exist.

        The consumer's work on the memory must be complete when it lets go of this object.
        """

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
