"""The part of the compiled module for devices. Type checkers read it as a part of `millstream._millstream`."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, final

from typing_extensions import Self

from millstream._millstream import Kernel, Pending, Stream
from millstream._millstream_observe import ProfileScope, SubmissionLog, Timeline
from millstream._reports import Replayed

Priority = Literal["low", "normal", "high"]

class Definition(Protocol):
    """A definition of a kernel: `millstream.KernelFunction` or `millstream.Source`."""

    def __millstream_kernel__(self) -> tuple[str, list[tuple[str, str, str]], dict[str, str], tuple[int, int, int], int]: ...

class Client:
    """Submits under a name, with limits of its own. `Device.client` makes it; a `Device` is one, too, without limits."""

    def stream(self) -> Stream:
        """Makes a stream. Costs one message, so make as many as there are orders of tasks."""

    def kernel(self, definition: Definition) -> Kernel:
        """Prepares a kernel: compiles it for this device. Blocks meanwhile, without the interpreter's lock.

        :raises CompileError: the compiler refused it
        :raises KernelError: the device has no compiler for its sources, or lacks a feature
        """

    def sync(self) -> Pending[None]: ...
    def metrics(self) -> Pending[dict[str, Any]]:
        """Returns everything that the device counts and measures, as plain numbers. Names end with their units."""

    def memory(self) -> Pending[dict[str, int]]:
        """Returns the memory in use, in bytes."""

    def profile(self) -> ProfileScope: ...
    def resubmit(
        self, log: SubmissionLog, kernels: Sequence[Kernel] = (), *, max_tasks: int | None = None
    ) -> Replayed:
        """Submits a log again, and waits for all its readbacks. Ctrl-C does not end this wait.

        :param kernels: the kernels that the log launches, prepared for this device; they are found by their names
        :param max_tasks: nothing is submitted if the log has more tasks; 2**30 by default. A replay counts as the tasks of
            its recording, so that a small log may have very many: choose less for a log that is not trusted
        :raises ReplayError: the log cannot be submitted here; the message says what is missing
        """

    @property
    def name(self) -> str: ...

class Device(Client):
    """See `millstream.Device`."""

    def __new__(cls, options: Mapping[str, Any]) -> Self: ...
    def client(
        self,
        *,
        name: str | None = None,
        hard_limit: int | None = None,
        at_limit: Literal["fail", "wait"] = "fail",
        soft_limit: int | None = None,
        priority: Priority = "normal",
        weight: int = 1,
        max_tasks: int | None = None,
        max_upload_bytes: int | None = None,
    ) -> Client:
        """Makes a client with limits of its own.

        :param name: the name in errors and figures
        :param hard_limit: the most bytes of its buffers; beyond it calls raise `OutOfMemory`, or wait for buffers that
            are no longer used. A buffer above the whole limit raises `TooLarge`
        :param at_limit: what a call does if buffers that are still used leave no room: `"fail"` raises `OutOfMemory`,
            `"wait"` waits in order, at most until the deadline of the stream, and then raises `Busy`, as a `nowait`
            stream does at once
        :param soft_limit: the bytes of its buffers before other clients take precedence
        :param weight: its share among clients of the same priority
        :param max_tasks: tasks that are accepted and not issued; beyond it calls wait
        :param max_upload_bytes: bytes of uploads in flight; beyond it calls wait
        """

    def sync(self) -> Pending[None]:
        """Returns an answer that arrives once everything that was submitted before has completed."""

    def profile(self) -> ProfileScope:
        """Starts a profile of all tasks of the device: see `Stream.profile`."""

    def timeline(self) -> Timeline:
        """Takes the times of the tasks since the last call. Empty unless the device was opened with `trace`. Waits for one
        answer of the device."""

    def take_log(self) -> SubmissionLog:
        """Takes what the device has admitted since the last call. Waits for one answer of the device.

        The parts that several calls return make one log (`SubmissionLog.append`). After a loss one more call returns what
        was admitted until then, before the device is reopened.

        :raises Error: the device was opened without `log_submissions`
        """

    def reopen(self) -> dict[str, Any]:
        """Opens a lost device again, with the same options. Returns what the lost epoch left behind, as `close` does.

        Clients go on. Streams, buffers, kernels and recordings of the lost epoch raise `DeviceLost`: make them anew. Waits
        while the device is opened, and before that for up to a second while user code of the lost epoch runs.

        :raises ReopenError: the device is not lost, or only another process can open it again
        :raises OpenError: it cannot be opened now; try again
        """

    @property
    def backend(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def health(self) -> Literal["running", "lost", "closed"]: ...
    def properties(self) -> dict[str, Any]:
        """Returns the properties and limits of the device; sizes are in bytes."""

    def violations(self) -> list[str]:
        """Returns the races and other violations that the simulator has found; empty for other backends."""

    def close(self, timeout: float | None = None) -> dict[str, Any]:
        """Finishes the accepted work, frees the memory, and ends the threads. Returns what was left after `timeout`.

        :param timeout: seconds to wait for the work in flight, and for the arrays that use memory of the device. What is
            left then ends later; the arrays stay valid.
        :raises BufferError: arrays use memory of the device, and `timeout` is not given
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
