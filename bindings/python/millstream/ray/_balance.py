"""Which actor a request goes to: plain state, without Ray, threads or clocks.

The load of an actor is the number of requests of this pool, which is known, and of other callers, which is as of the last
reply. Only the known number is a bound: the load of others is older, and the actor itself refuses what it has no room for.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Whether requests may go to an actor."""

    UP = "up"
    DOWN = "down"
    """A request was withdrawn, and the actor has not replied since."""
    ENDED = "ended"
    """Ray does not restart the actor."""


@dataclass
class Slot:
    """An actor as this pool knows it."""

    state: State = State.UP
    in_flight: int = 0
    others: int = 0
    """Requests of other callers, as of the last reply."""
    is_probed: bool = False
    """Whether a call is on its way that replies once the actor is up again."""


class Balance:
    """The actors of a pool. The caller serializes the calls."""

    def __init__(self, actors: int, max_in_flight: int, seed: int | None = None) -> None:
        self.slots = [Slot() for _ in range(actors)]
        self.max_in_flight = max_in_flight
        self._random = random.Random(seed)

    def choose(self, tried: Collection[int] = ()) -> int | None:
        """Returns the least loaded actor that is up and has room, and counts a request there. Ties are broken at random:
        pools that know equally little must not agree on one actor."""
        best: list[int] = []
        least = 0
        for index, slot in enumerate(self.slots):
            if index in tried or slot.state is not State.UP or slot.in_flight >= self.max_in_flight:
                continue
            load = slot.in_flight + slot.others
            if not best or load < least:
                best, least = [index], load
            elif load == least:
                best.append(index)
        if not best:
            return None
        chosen = self._random.choice(best)
        self.slots[chosen].in_flight += 1
        return chosen

    def finish(self, index: int, load: int | None) -> None:
        """Counts that a request has ended. `load` is the number of requests that the actor works on, if it replied."""
        slot = self.slots[index]
        assert slot.in_flight > 0, "a request ends once"
        slot.in_flight -= 1
        if load is not None:
            slot.others = max(0, load - slot.in_flight)

    def lose(self, index: int) -> None:
        """Notes that the actor did not answer a request that was sent to it."""
        slot = self.slots[index]
        slot.others = 0
        if slot.state is State.UP:
            slot.state = State.DOWN

    def to_probe(self) -> list[int]:
        """Returns the actors that need a probe, and notes that the caller sends it."""
        found = [index for index, slot in enumerate(self.slots) if slot.state is State.DOWN and not slot.is_probed]
        for index in found:
            self.slots[index].is_probed = True
        return found

    def probed(self, index: int, state: State) -> None:
        """Notes the reply of a probe."""
        self.slots[index].is_probed = False
        self.slots[index].state = state

    def count(self, state: State) -> int:
        """Returns the number of actors in this state."""
        return sum(slot.state is state for slot in self.slots)
