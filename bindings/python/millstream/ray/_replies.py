"""The replies of actors. A refusal and a withdrawal are values, too, so an actor does not fail by refusing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import millstream as ms

__all__ = ["Busy", "Health", "Withdrawn"]


class Busy(ms.Busy):
    """No actor has room for the request. It was not run: retry after `retry_after` seconds, or shed load."""

    in_flight: int = 0
    """The requests that the last actor that was asked works on; 0 if no actor was asked."""

    limit: int = 0
    """The most requests that it admits."""


class Withdrawn(ms.Error):
    """The request has no answer, since its actor ended, could not be reached, or lost its device.

    ``__cause__`` is the reason: `millstream.DeviceLost`, a failure of a task, or an exception of Ray.
    """

    may_have_run: bool = True
    """Whether the request may have begun, so that sending it again may run it twice."""


@dataclass(frozen=True)
class Answered:
    """What a method returned, and the requests that its actor still works on."""

    value: Any
    in_flight: int


ActorReply = Answered | Busy | Withdrawn


def busy(message: str, in_flight: int, limit: int, retry_after: float) -> Busy:
    """Makes a refusal."""
    made = Busy(message)
    made.in_flight, made.limit, made.retry_after = in_flight, limit, retry_after
    return made


def withdrawn(message: str, may_have_run: bool, cause: BaseException | None) -> Withdrawn:
    """Makes a withdrawal."""
    made = Withdrawn(message)
    made.may_have_run, made.__cause__ = may_have_run, cause
    return made


@dataclass(frozen=True)
class Health:
    """The state of one actor and its device."""

    state: Literal["running", "lost", "closed", "unreachable", "ended"]
    """That of the device; ``"unreachable"`` if the actor did not reply in time, such as while Ray restarts it;
    ``"ended"`` if Ray does not restart it."""

    backend: str = ""
    device: str = ""
    """The name of the device."""

    node: str = ""
    """Ray's id of the node."""

    pid: int = 0
    """The process of the actor."""

    restarted: bool = False
    """Whether Ray has restarted the actor."""

    in_flight: int = 0
    """The requests that the actor works on."""

    limit: int = 0
    """The most requests that the actor admits."""


for _name in __all__:
    # Messages and pickles show the public place.
    globals()[_name].__module__ = "millstream.ray"
