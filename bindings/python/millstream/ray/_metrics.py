"""The figures of an actor and its device, for Ray's dashboard and Prometheus.

A request arms one report, some seconds later, so an idle actor does nothing. Rates come from counters, which are summed by
Ray; the device counts since its opening, so a counter is advanced by the difference to the report before.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import millstream as ms
from millstream.ray import _cluster

Outcome = Literal["answered", "failed", "cancelled", "withdrawn"]

# From an empty request on a CPU to a long one on a GPU.
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

COUNTERS = {
    "tasks": "Tasks that the device has accepted.",
    "launches": "Launches of kernels.",
    "failures": "Tasks that failed.",
    "withdrawn": "Tasks that were cancelled, or whose deadline passed, before they began.",
}
GAUGES = {
    "tasks_held": "Tasks that are accepted and not issued to the device.",
    "mailbox_depth": "Messages on their way to the device.",
    "streams": "Streams that are alive.",
}
MEMORY_GAUGES = {
    "in_use_bytes": "Device memory in use.",
    "reserved_bytes": "Device memory that pools hold, in use or not.",
    "high_water_bytes": "The most device memory that was in use.",
}


class Reporter:
    """Reports what an actor and its device do. Runs on the actor's event loop."""

    def __init__(self, device: ms.Device, seconds: float, actor: str) -> None:
        self._device = device
        self._seconds = seconds
        self._in_flight = 0
        self._is_armed = False
        # The event loop itself keeps no task alive.
        self._report: asyncio.Task[None] | None = None
        tags = {"actor": actor, "backend": device.backend, "device": device.name}
        self._counters = {
            name: _cluster.counter(f"millstream_device_{name}", about, tags) for name, about in COUNTERS.items()
        }
        self._busy = _cluster.counter(
            "millstream_device_busy_seconds", "Time in which queues of the device were busy, summed over queues.", tags
        )
        self._gauges = {name: _cluster.gauge(f"millstream_device_{name}", about, tags) for name, about in GAUGES.items()}
        self._memory = {
            name: _cluster.gauge(f"millstream_device_memory_{name}", about, tags) for name, about in MEMORY_GAUGES.items()
        }
        self._requests = _cluster.gauge("millstream_requests_in_flight", "Requests that the actor works on.", tags)
        self._refusals = _cluster.counter("millstream_requests_refused", "Requests that were answered by Busy.", tags)
        self._seconds_of = _cluster.histogram(
            "millstream_request_seconds", "Time of a request in its actor.", SECONDS, tags, "outcome"
        )
        self._refused = 0
        self._reported: dict[str, int] = {}

    def ended(self, outcome: Outcome, seconds: float, in_flight: int) -> None:
        """Counts a request that was admitted."""
        self._seconds_of.observe(seconds, {"outcome": outcome})
        self._in_flight = in_flight
        self._arm()

    def refused(self) -> None:
        """Counts a request that was not admitted. Refusals must stay cheap, so they are reported together."""
        self._refused += 1
        self._arm()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._report = asyncio.get_running_loop().create_task(self._report_later())

    async def _report_later(self) -> None:
        await asyncio.sleep(self._seconds)
        # First, so that a request that ends meanwhile arms the next report.
        self._is_armed = False
        await self.report()

    async def report(self) -> None:
        """Reports now."""
        if self._refused:
            self._refusals.inc(self._refused)
            self._refused = 0
        self._requests.set(self._in_flight)
        try:
            figures = await self._device.metrics()
        except (ms.DeviceLost, ms.DeviceClosed):
            # Its figures have ended with it.
            return
        self._record(figures)

    def _record(self, figures: dict[str, Any]) -> None:
        for name, counter in self._counters.items():
            self._advance(name, figures[name], counter, 1.0)
        busy = sum(queue["busy_ns"] for queue in figures["queues"])
        self._advance("busy_ns", busy, self._busy, 1e-9)
        for name, gauge in self._gauges.items():
            gauge.set(figures[name])
        for name, gauge in self._memory.items():
            gauge.set(figures["memory"][name])

    def _advance(self, name: str, now: int, counter: _cluster.Metric, unit: float) -> None:
        before = self._reported.get(name, 0)
        if now > before:
            counter.inc((now - before) * unit)
            self._reported[name] = now
