"""The part of the compiled module for what a device did. Type checkers read it as a part of `millstream._millstream`."""

from os import PathLike
from types import TracebackType
from typing import final

from typing_extensions import Self

from millstream._millstream import Pending
from millstream._reports import Profile, Span

@final
class ProfileScope:
    """A profile that is open: `Stream.profile`, `Client.profile` or `Device.profile`. It ends with its ``with`` block.

    A task belongs to each profile that is open when it is submitted, whenever it runs. Profiles nest and overlap, and any
    thread may end one.
    """

    def end(self) -> Pending[Profile]:
        """Ends the profile, if it is open. The answer arrives once all its tasks have completed."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class Timeline:
    """The tasks that a device has run since the last call of `Device.timeline`, with their times."""

    def __len__(self) -> int: ...
    @property
    def spans(self) -> list[Span]:
        """The tasks, as new objects."""

    def to_json(self) -> str:
        """Returns the timeline in the format of Chrome's trace events, which Perfetto (ui.perfetto.dev) shows."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_json` to a file. ``millstream timeline FILE --picture OUT.svg`` draws it.

        :raises OSError: the file cannot be written
        """

@final
class SubmissionLog:
    """What a device has admitted, in its order: `Device.take_log`. `Device.resubmit` submits it again, on any device."""

    @staticmethod
    def load(path: str | PathLike[str]) -> SubmissionLog:
        """Reads a file that `save` has written.

        :raises OSError: the file cannot be read
        :raises LogError: the file is no log, is damaged, or of another version
        """

    @staticmethod
    def from_bytes(data: bytes) -> SubmissionLog: ...
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the log to a file.

        :raises OSError: the file cannot be written
        """

    def to_bytes(self) -> bytes: ...
    def append(self, following: SubmissionLog) -> None:
        """Appends the part that the next call of `Device.take_log` has returned.

        :raises LogError: it does not follow, or the end of this log is missing
        """

    def accept_cut(self) -> None:
        """Accepts that the last entries are missing, so that the log can be submitted again."""

    @property
    def backend(self) -> str: ...
    @property
    def complete(self) -> bool:
        """Whether no entry is missing at the end: the log of the device was never full."""

    @property
    def parts(self) -> tuple[int, int]:
        """The numbers of the first and the last part of the device's log that this has, from 0."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""

    def __len__(self) -> int:
        """Returns the number of entries."""

    def __eq__(self, other: object) -> bool: ...
