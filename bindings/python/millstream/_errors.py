"""The exceptions of millstream. Each message says what happened, to what, and what to do."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ArgumentError", "Busy", "CompileError", "DeadlinePassed", "DeviceClosed", "DeviceForked", "DeviceLost", "Error",
    "ForeignError", "KernelError", "LogError", "OpenError", "OutOfMemory", "ReopenError", "ReplayError",
    "TaskCancelled", "TaskFailed", "TaskOutOfMemory", "TooLarge", "TraceError", "TuneError", "WaitTimeout",
    "WouldDeadlock",
]  # fmt: skip


class Error(Exception):
    """The base of all exceptions of millstream. Pickles keep its attributes and its ``__cause__``."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself, Python drops the cause. An exception sets each entry of its state as an attribute.
        state = dict(self.__dict__)
        if self.__cause__ is not None:
            state["__cause__"] = self.__cause__
        return type(self), self.args, state


class ArgumentError(Error, ValueError):
    """Arguments do not fit a kernel, an operation, or each other. Nothing was submitted."""


class ForeignError(ArgumentError):
    """A buffer, stream or kernel of another device was passed."""


class OpenError(Error):
    """A device cannot be opened."""


class ReopenError(Error):
    """A device cannot be reopened: it is not lost, or only another process can open it again."""


class LogError(Error, ValueError):
    """A submission log cannot be read, or appended to."""


class ReplayError(Error):
    """A submission log cannot be submitted again. If the device refused an entry, its error is the cause."""


class TuneError(Error):
    """No candidate can be chosen: none works, or the key may not be tuned. Also if stored choices cannot be used."""


class OutOfMemory(Error, MemoryError):
    """Memory cannot be reserved: a limit is reached, or the device has none left."""


class TooLarge(OutOfMemory):
    """A buffer can never be reserved: it exceeds the whole limit of its client, or the largest that the device has."""


class KernelError(Error):
    """A kernel cannot be prepared for a device."""


class CompileError(KernelError):
    """The compiler refused the source of a kernel. The message has its output."""


class TraceError(KernelError, TypeError):
    """A Python function cannot become a kernel. The traceback ends in the line that cannot."""


class Busy(Error):
    """There is no room: raised by a stream of `Stream.nowait`, and where waiting cannot help. Nothing was submitted."""

    retry_after: float = 0.0
    """Seconds after which a retry may succeed."""


class DeviceClosed(Error):
    """The device was closed."""


class DeviceForked(Error):
    """The device was opened before this process was forked. Start processes with the method ``spawn``, or open the device
    in the child."""


class DeviceLost(Error):
    """The device was lost, with its memory and all tasks in flight."""

    epoch: int = 0
    """The number of earlier openings of the device."""

    same_process: bool = True
    """Whether this process can open the device again."""


class WouldDeadlock(Error):
    """A call would block a thread that the runtime needs."""


class WaitTimeout(Error, TimeoutError):
    """An answer did not arrive in time. The request goes on: wait for it again."""


class TaskFailed(Error):
    """A task failed, or one of its inputs had failed.

    ``__cause__`` is the task before it in the chain; the innermost cause is the task that failed first.
    """

    task: str = ""
    """The name of the kernel or operation."""

    reason: str = ""
    """Why the first task of the chain failed, such as ``"panicked"`` or ``"refused"``."""

    partial: bool = False
    """Whether the outputs of this task may be partly written."""


class TaskOutOfMemory(TaskFailed, OutOfMemory):
    """The device had no memory when it reached the task."""


class TaskCancelled(TaskFailed):
    """The task was cancelled before it began, or read data of one that was."""


class DeadlinePassed(TaskFailed, TimeoutError):
    """The deadline of the task passed before it began, or that of a task whose data it reads."""


for _name in __all__:
    # Messages and pickles show the public place.
    globals()[_name].__module__ = "millstream"
