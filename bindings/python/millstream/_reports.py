"""What a device reports: profiles, spans of timelines, and the results of replayed submission logs. Plain values."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KernelProfile", "Profile", "Readback", "Replayed", "Span"]


@dataclass(frozen=True)
class KernelProfile:
    """All tasks of one name in a profile. Times are in nanoseconds, of the clock of the profile."""

    name: str
    """The name of the kernel, or of the operation, such as ``"fill"``."""
    tasks: int
    """The number of tasks."""
    timed: int
    """The number of tasks with times."""
    total_ns: int
    mean_ns: int
    min_ns: int
    max_ns: int


@dataclass(frozen=True)
class Profile:
    """The time that the tasks took that were submitted while the profile was open.

    A task is what a queue runs: a launch, a copy, a fill, and each of those in a replay. Times are in nanoseconds.
    ``print(profile)`` shows a table.
    """

    elapsed_ns: int
    """The time from the start of the first task to the end of the last."""
    busy_ns: int
    """The time in which at least one task ran."""
    busy_short_ns: int
    """An upper bound of the error by which `busy_ns` may be too small. Mostly 0."""
    calls_ns: int
    """The time between the call that started the profile and the call that ended it, by the host's clock."""
    clock: str
    """The clock of the other times: that of the device if it has one."""
    tasks: int
    """The number of tasks."""
    untimed: int
    """Tasks without times: they failed or were withdrawn before they ran, or the device had no room for their times."""
    failed: int
    """Tasks that failed while they ran, if the device times such tasks."""
    failure: Exception | None
    """The first of these failures."""
    is_cut: bool
    """Whether the profile was full: more tasks may have run."""
    kernels: tuple[KernelProfile, ...]
    """The tasks by name, the longest total first."""
    table: str = field(repr=False)
    """The profile as text."""

    def kernel(self, name: str) -> KernelProfile | None:
        """Returns the tasks of this name; ``None`` if there were none."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain dictionaries, lists, numbers and strings."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields["failure"] = None if self.failure is None else str(self.failure)
        fields["kernels"] = [dataclasses.asdict(kernel) for kernel in self.kernels]
        return fields

    def to_json(self, *, indent: int | None = None) -> str:
        """Returns the profile as JSON: the fields of `to_dict`."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        return self.table


_FIELDS = [each.name for each in dataclasses.fields(Profile) if each.name != "table"]


@dataclass(frozen=True)
class Span:
    """One task of a timeline. Times are in nanoseconds since the device was opened."""

    name: str
    """The name of the kernel, or of the operation."""
    client: str
    """The name of the client."""
    stream: int
    """The number of the stream."""
    queue: int
    """The number of the queue that ran it."""
    cursor: int
    """The position in that queue."""
    start_ns: int
    end_ns: int
    waits: tuple[tuple[int, int], ...]
    """The tasks of other queues that the device waited for before this one: pairs of queue and cursor."""


@dataclass(frozen=True)
class Readback:
    """A readback of a replayed submission log."""

    tag: int | None
    """The tag of the readback, if it had one."""
    data: bytes | None
    """The bytes; ``None`` if it failed, perhaps as it did in the run that was logged."""
    failure: Exception | None


@dataclass(frozen=True)
class Replayed:
    """The result of submitting a log again."""

    readbacks: tuple[Readback, ...]
    """All readbacks, in the order in which they were requested."""
    digest: str
    """A digest of all their bytes. Equal bytes give equal digests on every machine."""
