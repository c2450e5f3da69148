"""The part of the compiled module for the tuner. Type checkers read it as a part of `millstream._millstream`."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

from typing_extensions import Self

from millstream._millstream import Device, Stream

@final
class CandidateSet:
    """See `millstream.TunableSet`."""

    def __new__(
        cls,
        name: str,
        version: int,
        inputs: Callable[[Stream, Any], tuple[Any, ...]],
        candidates: Sequence[tuple[str, Callable[..., Any]]],
    ) -> Self: ...

@final
class TunerCore:
    """See `millstream.Tuner`."""

    def __new__(
        cls,
        device: Device,
        folder: str | PathLike[str] | None,
        samples: int | None,
        seconds: float | None,
        tolerance: float | None,
        confidence: float | None,
    ) -> Self: ...
    def run(
        self, set: CandidateSet, stream: Stream, key: tuple[str, object], arguments: tuple[Any, ...], policy: str
    ) -> Any: ...
    def choose(
        self, set: CandidateSet, stream: Stream, key: tuple[str, object], arguments: tuple[Any, ...], policy: str
    ) -> int: ...
    def outcome(self, key: str) -> dict[str, Any] | None: ...
    def forget(self, key: str) -> None: ...
    def save(self) -> None: ...
    @property
    def loaded(self) -> tuple[int, int]: ...
