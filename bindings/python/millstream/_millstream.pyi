"""The compiled module. Its classes are exported by `millstream`."""

from collections.abc import Awaitable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as SupportsBuffer
from typing_extensions import Self

from millstream._millstream_device import *
from millstream._millstream_exchange import *
from millstream._millstream_graph import *
from millstream._millstream_observe import *
from millstream._millstream_tuning import *
from millstream._types import DTypeLike
from millstream._values import Value

T_co = TypeVar("T_co", covariant=True)
Shape = int | Sequence[int]
Count = int | tuple[int] | tuple[int, int] | tuple[int, int, int]
AnyArray = np.ndarray[Any, np.dtype[Any]]

Data = npt.ArrayLike | SupportsBuffer | SupportsDLPack | SupportsArrayInterface

__version__: str

def check_function(text: str) -> None: ...

@final
class Stream:
    """An order of tasks that any thread may add to.

    A call returns once its task is accepted, and does not wait for the device. Tasks of different streams overlap, unless
    they touch the same bytes. If there is no room, a call waits for it without the interpreter's lock; Ctrl-C ends that
    wait.
    """

    def create(self, data: Data, dtype: DTypeLike | None = None, *, copy: bool = True) -> Buffer:
        """Allocates device memory with a copy of `data`.

        A C-contiguous array of the right type is read in place; anything else NumPy converts first.

        :param data: an object with the buffer protocol, such as an array of NumPy, or with DLPack; or what `numpy.asarray`
            takes
        :param dtype: the element type; the default is that of `data`
        :param copy: if false, `data` is not copied by this call but read until the upload has ended: the caller must not
            change it before a later answer of the stream has arrived. Elements that NumPy converts are read from the
            result. Elements with strides are refused.
        :raises BufferError: `copy` is false, and the elements are not contiguous
        :raises OutOfMemory: the limit of the client, or of the device, is exceeded
        """

    def from_dlpack(self, x: SupportsDLPack, /, *, copy: bool | None = None) -> Buffer:
        """Allocates device memory with the elements of an array of any library with DLPack, of NumPy for example.

        :param x: an array in host memory, or one whose library copies it there on request
        :param copy: if true, the elements are read within this call. Otherwise they are read in place until the upload has
            ended, as with `create(.., copy=False)`: the caller must not change them before a later answer of the stream has
            arrived. Elements with strides are copied within this call, unless `copy` is false.
        :raises BufferError: `copy` is false, and the elements are not contiguous
        :raises ArgumentError: the memory, or the element type, cannot be read
        """

    def empty(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Allocates device memory with undefined contents.

        :param shape: a number of elements, or the lengths of all axes
        """

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Allocates device memory that is filled with zeros."""

    def fill(self, buffer: Buffer, value: complex | bool | np.generic) -> None:
        """Sets every element to a value."""

    def write(self, buffer: Buffer, data: Data, *, copy: bool = True) -> None:
        """Overwrites a buffer with an array of as many elements. `copy` is as in `create`."""

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Copies a buffer to another of the same size in bytes."""

    @overload
    def read(self, buffer: Buffer) -> Pending[AnyArray]: ...
    @overload
    def read(self, buffer: Buffer, *, out: npt.NDArray[Any]) -> Pending[AnyArray]:
        """Reads a buffer after all tasks added so far. The answer is an array of its shape, without a further copy.

        :param out: a contiguous, writable array of this type and size that receives the elements, and is the answer. It
            is written at any time until the answer arrives, also if the answer is dropped.
        """

    def launch(self, kernel: Kernel, count: Count, *args: Buffer | complex | bool | np.generic) -> None:
        """Runs a kernel.

        :param count: the number of cubes, along one to three axes; `millstream.cover` computes it
        :param args: the arguments of the kernel, in order: buffers and numbers
        :raises ArgumentError: the arguments do not fit; what fails later is raised by readers of what the launch writes
        """

    def replay(
        self,
        recording: Recording,
        buffers: Mapping[Buffer, Buffer] | None = None,
        values: Mapping[ScalarParameter, float | int] | None = None,
    ) -> None:
        """Replays a recording as one task.

        :param buffers: the buffers that take the places of parameters
        :param values: the numbers that take the places of scalar parameters
        """

    def recorder(self) -> Recorder:
        """Starts a recording. Nothing runs."""

    def sync(self) -> Pending[None]:
        """Returns an answer that arrives once all tasks added so far have completed."""

    def profile(self) -> ProfileScope:
        """Starts a profile of all tasks that any thread submits to this stream, until it is ended.

            with stream.profile() as profile:
                stream.fill(buffer, 0)
            print(profile.end().wait())  # or `await profile.end()`
        """

    def flush(self) -> None:
        """Submits the tasks that the stream batches; it does so itself when the device is idle."""

    def with_cancel(self, token: CancelToken) -> Stream:
        """Returns the same stream, with tasks that the token can withdraw until they begin."""

    def with_deadline(self, seconds: float) -> Stream:
        """Returns the same stream, with tasks that are withdrawn if they have not begun in this time."""

    def nowait(self) -> Stream:
        """Returns the same stream with calls that never wait: if there is no room they raise `Busy`, and nothing is
        submitted. For event loops, and for services that refuse requests instead of queueing them."""

    def request(self) -> Stream:
        """Returns the same stream for one request: cancelling a task that awaits one of its answers withdraws all tasks
        of the request that have not begun."""

    def cancel(self) -> bool:
        """Withdraws the tasks of a `request` that have not begun. Returns `False` if the stream is no request."""

@final
class CancelToken:
    """Withdraws tasks that have not begun: `Stream.with_cancel`."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...
    def tally(self) -> dict[str, int]:
        """Returns how many tasks were accepted, withdrawn, finished, are running, and run on after the cancel."""

@final
class Buffer:
    """A typed view of device memory, with a shape.

    The memory is freed once its last view is gone and the last task that uses it has completed.
    """

    @property
    def dtype(self) -> type[Value]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""

    @property
    def unique(self) -> bool:
        """Whether this is the only view of its memory."""

    def __len__(self) -> int:
        """Returns the length of the first axis."""

    def __getitem__(self, index: int | slice | np.integer[Any], /) -> Buffer:
        """Returns a view of a range of the first axis, or of one of its rows without that axis. Copies nothing.

        :raises IndexError: the first axis has no such row
        """

    @overload
    def reshape(self, shape: Sequence[int], /) -> Buffer: ...
    @overload
    def reshape(self, *shape: int) -> Buffer:
        """Returns a view with another shape of as many elements: ``reshape(4, -1)`` or ``reshape((4, -1))``.

        :param shape: the lengths; one of them may be -1 and is that which fits
        """

    def view(self, dtype: DTypeLike) -> Buffer:
        """Returns a view of the same bytes as elements of another type."""

    def map(self, *, writable: bool = False) -> MappedBuffer:
        """Waits for the tasks that write the buffer, and returns its memory.

        Tasks that would write the buffer are held back as long as the memory is in use. If it is writable, also tasks that
        would read it are waited for and held back.

        :raises BufferError: the memory is of Vulkan, which no consumer can use: use `Stream.read`; or this thread has a
            view of the same bytes, for whose end the call would wait for ever
        :raises TaskFailed: a task failed that writes the buffer
        """

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Exports the buffer by DLPack, for ``numpy.from_dlpack`` and functions like it, and waits as `map` does.

        The memory itself is exported read-only, until the consumer frees it; meanwhile tasks that would write it are held
        back. With ``copy=True``, and on GPUs with ``dl_device=(1, 0)``, a copy on the host is exported, which is writable.

        :param stream: of CUDA alone: the stream by which the consumer uses the memory, which it keeps until it has freed the
            array; 1, or ``None``, is the legacy default stream. It need not wait for a task, since all earlier tasks are
            complete. Once the array is freed, later tasks wait for the work that the stream has then. With -1 they do not:
            the consumer's work on the memory must be complete when it frees the array.
        A consumer of DLPack before 1.0, which knows no read-only memory, gets a copy of memory of the host;
        ``buffer.map(writable=True)`` shares it.

        :raises BufferError: the request cannot be met; or this thread has a writable view of the same bytes, for whose end
            the call would wait for ever
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview:
        """Returns a read-only view, and waits and holds tasks back as `map` does: ``numpy.asarray(buffer)``."""

@final
class Kernel:
    """A kernel that is prepared for a device: `Device.kernel`."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[str]: ...

@final
class Pending(Awaitable[T_co], Generic[T_co]):
    """An answer that arrives later. Wait for it, await it on asyncio or trio, or take its future.

    The answer stays: every call returns the same object, or raises the same exception. Any thread may use it.
    """

    def wait(self, timeout: float | None = None) -> T_co:
        """Blocks until the answer arrives, without the interpreter's lock. Ctrl-C ends the wait.

        :param timeout: seconds
        :raises WaitTimeout: it did not arrive in time; wait for it again
        :raises TaskFailed: a task failed whose data this reads
        """

    def done(self) -> bool:
        """Returns whether the answer has arrived. Never blocks."""

    def result(self) -> T_co:
        """Returns the answer if it has arrived. Never blocks.

        :raises WaitTimeout: it has not arrived
        """

    def future(self) -> Future[T_co]:
        """Returns a future of the answer. Its callbacks run on one thread that belongs to Python alone."""

    def cancel(self) -> bool:
        """Withdraws the tasks of its `Stream.request` that have not begun. Returns `False` if it belongs to none."""

    def __await__(self) -> Generator[Any, None, T_co]: ...
    def _register(self, wakeups: Wakeups, token: int) -> bool: ...
    def _poll(self, wakeups: Wakeups, token: int) -> bool: ...
    def _unregister(self, wakeups: Wakeups, token: int) -> None: ...

@final
class Recorder:
    """Records tasks instead of submitting them: `Stream.recorder`."""

    def parameter(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Makes a buffer without memory, which each replay binds to one with."""

    def scratch(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """As `parameter`, for memory whose previous contents no replay needs."""

    def empty(self, shape: Shape, dtype: DTypeLike) -> Buffer:
        """Allocates memory that belongs to the recording."""

    def scalar(self, dtype: DTypeLike) -> ScalarParameter:
        """Makes a number that each replay sets."""

    def fill(self, buffer: Buffer, value: complex | bool | np.generic) -> None: ...
    def copy(self, source: Buffer, target: Buffer) -> None: ...
    def launch(
        self, kernel: Kernel, count: Count, *args: Buffer | ScalarParameter | complex | bool | np.generic
    ) -> None: ...
    def finish(self) -> Recording:
        """Ends the recording. The recorder cannot be used any more."""

@final
class ScalarParameter:
    """A number of a recording that each replay sets."""

    @property
    def dtype(self) -> type[Value]: ...

@final
class Recording:
    """Tasks that were checked once, and can be replayed any number of times, on any stream of the device."""

    def __len__(self) -> int: ...

@final
class Wakeups:
    """Tokens of answers that have arrived, for one event loop."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[int]: ...
