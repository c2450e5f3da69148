"""The tuner: measures several ways to do the same work once for each key, and remembers the fastest.

    blur = ms.TunableSet("blur", lambda stream, length: (stream.zeros(length, ms.f32),))

    @blur.candidate
    def by_rows(stream: ms.Stream, pixels: ms.Buffer) -> None:
        stream.launch(rows, ms.cover(pixels.size, 64), pixels)

    @blur.candidate
    def by_tiles(stream: ms.Stream, pixels: ms.Buffer) -> None:
        stream.launch(tiles, ms.cover(pixels.size, 1024), pixels)

    tuner = ms.Tuner(device, "tuning")  # choices are stored in this folder
    tuner.run(blur, stream, pixels.size, pixels)  # the first call for a key tunes; each later one is a lookup
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from millstream import _millstream
from millstream._errors import ArgumentError

if TYPE_CHECKING:
    from millstream._millstream import Device, Stream

__all__ = ["CandidateTimes", "Policy", "TunableSet", "Tuner", "Tuning"]

Policy = Literal["wait", "default", "frozen", "frozen_default"]
"""What to do for a key that is not known: tune it now; use the first candidate; raise `TuneError`; use the first candidate.
Under the last two a candidate that fails is not forgotten."""

F = TypeVar("F", bound=Callable[..., Any])

_Made = tuple[_millstream.CandidateSet, Callable[..., Any], list[Callable[..., Any]]]
"""The set of the runtime, which has the names of the candidates alone, and the functions."""


class TunableSet:
    """Candidates that all compute the same, each a function of a stream and the arguments of `Tuner.run`.

    A candidate submits its work to this stream and returns; it does not wait. One that raises, or whose work fails, is
    excluded. The first candidate is the default.

    :param name: the name, which is part of each key
    :param inputs: makes the arguments of a measurement, from a stream and the key. Candidates write to them, so they are not
        the caller's. It is called only while a key is tuned.
    :param version: change it if candidates change and keep their names: stored choices become invalid
    """

    def __init__(self, name: str, inputs: Callable[[Stream, Any], tuple[Any, ...]], *, version: int = 0) -> None:
        self.name = name
        self._inputs = inputs
        self._version = version
        self._candidates: dict[str, Callable[..., Any]] = {}
        self._made: _Made | None = None
        self._lock = threading.Lock()

    def candidate(self, function: F) -> F:
        """Adds a candidate under the name of the function: a decorator."""
        self.add(function.__name__, function)
        return function

    def add(self, name: str, function: Callable[..., Any]) -> None:
        """Adds a candidate.

        :raises ArgumentError: there is one of this name
        """
        with self._lock:
            if name in self._candidates:
                raise ArgumentError(f"`{self.name}` has a candidate `{name}`; give the other another name")
            self._candidates[name] = function
            self._made = None

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of the candidates, in order."""
        return tuple(self._candidates)

    def _set(self) -> _Made:
        with self._lock:
            if self._made is None:
                core = _millstream.CandidateSet(self.name, self._version, list(self._candidates))
                self._made = core, self._inputs, list(self._candidates.values())
            return self._made

    def _key(self, key: object) -> str:
        try:
            return json.dumps([self.name, key], sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"a key of `{self.name}` must be a value of JSON, such as a number, a string or a tuple of these: {error}"
            ) from error


@dataclass(frozen=True)
class CandidateTimes:
    """The measurement of a candidate. Times are in nanoseconds."""

    name: str
    samples: int
    median_ns: float | None
    mean_ns: float | None
    min_ns: float | None
    max_ns: float | None
    failure: str | None
    """Why it was excluded; ``None`` if it works."""


@dataclass(frozen=True)
class Tuning:
    """What a tuner knows of a key."""

    winner: str
    """The name of the fastest candidate."""
    clock: str
    """The clock of the times."""
    confidence: float
    """How certain it is that no other candidate is faster by more than the tolerance; 0 if time ran out before."""
    candidates: tuple[CandidateTimes, ...]
    """All that were tried, the fastest first and those that failed last."""


class Tuner:
    """Knows the fastest candidate for each key, and tunes keys that it does not know. Any thread may use it.

    :param device: the device; stored choices are of this device and of this version of millstream alone
    :param folder: where choices are stored, and shared with other processes; without it they are kept in memory
    :param samples: the most samples of a candidate
    :param seconds: the most measured time of all candidates together
    :param tolerance: by how much the winner may be slower than the best, as a fraction
    :param confidence: the confidence of the result, from 0.5 to 0.9999
    :raises TuneError: the folder cannot be read
    """

    def __init__(
        self,
        device: Device,
        folder: str | PathLike[str] | None = None,
        *,
        samples: int | None = None,
        seconds: float | None = None,
        tolerance: float | None = None,
        confidence: float | None = None,
    ) -> None:
        self._core = _millstream.TunerCore(device, folder, samples, seconds, tolerance, confidence)

    def run(self, candidates: TunableSet, stream: Stream, key: object, *args: Any, policy: Policy = "wait") -> Any:
        """Runs the fastest candidate for the key, and returns what it returns.

        A key that is not known is tuned first: that takes up to half a second of device time, or `seconds`. Other threads
        that need the key wait for the same result. Ctrl-C ends a tuning when the next candidate is called. If the winner
        fails, it is forgotten, and the next candidate that works runs in its place.

        :param key: what the choice depends on, such as lengths: a value of JSON
        :param args: the arguments of the candidate, after the stream
        :raises TuneError: no candidate works, and the message has the reason of each; or the policy is ``"frozen"``, and the
            key is not known
        """
        name = candidates._key(key)
        return self._core.run(candidates._set(), stream, (name, key), args, policy, True)

    def choose(self, candidates: TunableSet, stream: Stream, key: object, *args: Any, policy: Policy = "wait") -> str:
        """Returns the name of the candidate to use, and tunes the key as `run` does."""
        name = candidates._key(key)
        index: int = self._core.run(candidates._set(), stream, (name, key), args, policy, False)
        return candidates.candidates[index]

    def tuning(self, candidates: TunableSet, key: object) -> Tuning | None:
        """Returns what is known of a key; ``None`` if it was not tuned. Never waits."""
        found = self._core.outcome(candidates._key(key))
        if found is None:
            return None
        times = tuple(CandidateTimes(**each) for each in found.pop("candidates"))
        return Tuning(**found, candidates=times)

    def forget(self, candidates: TunableSet, key: object) -> None:
        """Forgets a key: its next use tunes it again."""
        self._core.forget(candidates._key(key))

    def save(self) -> None:
        """Writes the choices to the folder. Each tuning has done so; this is for keys that were forgotten.

        :raises TuneError: the folder cannot be written
        """
        self._core.save()

    @property
    def loaded(self) -> int:
        """The number of choices that were stored in the folder."""
        return self._core.loaded[0]

    @property
    def damaged(self) -> int:
        """The number of damaged lines in the folder. Their keys are tuned again."""
        return self._core.loaded[1]
