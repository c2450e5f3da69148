"""The device's side: one actor that owns one device, admits requests, and ends when the device is lost.

```text
 request ──► admission ──► method of the service ──► Answered
                │ no room                 │ device lost
                ▼                         ▼
           Busy, a value         Withdrawn, a value; then the process ends, and Ray starts the next one
```

Ray runs calls of an actor as coroutines, at most `MAX_CONCURRENCY` at once, and queues the others. A refusal does not wait
for anything. As at most `MAX_REQUESTS` requests are admitted, a call waits in Ray's queue only behind refusals.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import millstream as ms
from millstream.ray import _cluster
from millstream.ray._metrics import Outcome, Reporter
from millstream.ray._replies import ActorReply, Answered, Busy, Health, Withdrawn, busy, withdrawn

MAX_CONCURRENCY = 1000
"""The calls of an actor that Ray runs at once."""

MAX_REQUESTS = 900
"""The most requests that an actor may admit. The remaining calls are for refusals, health and close."""

DRAIN_SECONDS = 5.0
"""The longest time that requests have to end once their device is lost. Only those that wait for other things need it."""

SEND_SECONDS = 0.2
"""The time that Ray has to send the last replies. A reply that is late is replaced by Ray's error that the actor died."""

MEAN_WEIGHT = 0.1
"""The weight of the newest request in the mean time of requests."""

_log = logging.getLogger("millstream.ray")


class DeviceService:
    """A device and a service that uses it. `DeviceActor` runs it as an actor."""

    def __init__(
        self,
        service: Callable[..., Any],
        *args: Any,
        device: str | Callable[[], ms.Device] = "cpu",
        max_requests: int = 64,
        metrics_seconds: float = 5.0,
    ) -> None:
        if not 1 <= max_requests <= MAX_REQUESTS:
            raise ms.ArgumentError(f"max_requests must be from 1 to {MAX_REQUESTS}, got {max_requests}")
        self._device = _open(device)
        self._service: Any = service(self._device, *args)
        self._node, self._actor, self._is_restarted = _cluster.place()
        self._limit = max_requests
        self._in_flight = 0
        self._mean_seconds = 0.0
        self._is_lost = self._is_closing = False
        self._idle: asyncio.Event | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._reporter = Reporter(self._device, metrics_seconds, self._actor)

    async def request(self, method: str, /, *args: Any, **kwargs: Any) -> ActorReply:
        """Runs a method of the service, if there is room."""
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        if method.startswith("_") or not callable(found := getattr(self._service, method, None)):
            raise ms.ArgumentError(f"the service {type(self._service).__name__} has no method `{method}`")
        outcome: Outcome = "failed"
        start = time.perf_counter()
        self._in_flight += 1
        try:
            answer = found(*args, **kwargs)
            if inspect.isawaitable(answer):
                answer = await answer
            outcome = "answered"
            return Answered(answer, self._in_flight - 1)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as error:
            if self._device.health != "lost":
                raise
            outcome = "withdrawn"
            return self._lost(may_have_run=True, cause=error)
        finally:
            self._end(outcome, time.perf_counter() - start)

    def _refusal(self) -> Busy | Withdrawn | None:
        if self._is_lost or self._device.health == "lost":
            self._leave()
            return self._lost(may_have_run=False, cause=None)
        if self._is_closing:
            return withdrawn("the actor is being closed; the request was not run", False, None)
        if self._in_flight >= self._limit:
            self._reporter.refused()
            message = f"the actor works on {self._in_flight} requests, as many as it admits; retry later"
            return busy(message, self._in_flight, self._limit, self._mean_seconds / self._limit)
        return None

    def _end(self, outcome: Outcome, seconds: float) -> None:
        self._in_flight -= 1
        if outcome == "answered":
            self._mean_seconds += MEAN_WEIGHT * (seconds - self._mean_seconds)
        if self._in_flight == 0 and self._idle is not None:
            self._idle.set()
        self._reporter.ended(outcome, seconds, self._in_flight)
        if self._device.health == "lost":
            # Also if the service has handled the loss: nothing runs on this device any more.
            self._leave()

    # The end of the actor.

    def _lost(self, may_have_run: bool, cause: BaseException | None) -> Withdrawn:
        ran = "the request may have begun" if may_have_run else "the request was not run"
        message = f"the device {self._device.name} of actor {self._actor} was lost, and Ray restarts the actor; {ran}"
        if cause is None:
            cause = ms.DeviceLost(f"the device {self._device.name} was lost before the request")
        return withdrawn(message, may_have_run, cause)

    def _leave(self) -> None:
        """Ends the process once all requests have been replied to. Only an unexpected end makes Ray restart an actor."""
        self._is_lost = True
        if self._leaving is None:
            _log.error("the device %s was lost; the process ends, and Ray restarts it", self._device.name)
            self._leaving = asyncio.get_running_loop().create_task(self._exit())

    async def _exit(self) -> None:
        await self._drain(DRAIN_SECONDS)
        await asyncio.sleep(SEND_SECONDS)
        os._exit(1)

    async def _drain(self, seconds: float | None) -> bool:
        """Waits until no request runs. Returns `False` if some do after this time."""
        if self._in_flight == 0:
            return True
        self._idle = self._idle or asyncio.Event()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def close(self, timeout: float | None = None) -> bool:
        """Refuses further requests, waits for those that run, and closes the device. Returns whether all have ended."""
        self._is_closing = True
        drained = await self._drain(timeout)
        await asyncio.to_thread(self._device.close, timeout)
        return drained

    # What callers may ask.

    async def ready(self) -> Health:
        """Replies once requests can be admitted: never in a process whose device is lost, but in the one after it."""
        if self._is_lost or self._device.health == "lost":
            self._leave()
            await asyncio.Event().wait()
        return await self.health()

    async def health(self) -> Health:
        """Returns the state of the device and the load."""
        state = "lost" if self._is_lost else self._device.health
        if state == "lost":
            self._leave()
        return Health(
            state=state,
            backend=self._device.backend,
            device=self._device.name,
            node=self._node,
            pid=os.getpid(),
            restarted=self._is_restarted,
            in_flight=self._in_flight,
            limit=self._limit,
        )


def _open(device: str | Callable[[], ms.Device]) -> ms.Device:
    if not isinstance(device, str):
        return device()
    backend: Any = device
    return ms.Device(backend)


DeviceActor = _cluster.actor_class(
    DeviceService, max_restarts=-1, max_task_retries=0, max_concurrency=MAX_CONCURRENCY, num_cpus=0
)
"""One device as an actor: ``DeviceActor.options(num_gpus=1).remote(service, *args, device="cuda")``.

Ray restarts it without limit if its process, its node or its device is lost, and runs no request twice.

:param service: makes the service: called in the actor as ``service(device, *args)``. Requests are calls of its methods,
    which return a value or an awaitable, such as ``stream.read(..)``; they share one event loop, so they must not block
:param device: the backend, or a function that opens the device. Of the GPUs of a node, Ray shows an actor its own, so
    ``"cuda"`` opens the right one; for ``"vulkan"`` on a node with several, give a function that chooses the index
:param max_requests: the most requests that are admitted at once; beyond it a request is answered by `Busy`
:param metrics_seconds: the time from a request to the report of the device's figures to Ray
"""
