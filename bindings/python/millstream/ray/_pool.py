"""The callers' side: a pool of actors, which spreads requests by load and never queues them without bound.

Ray places actors and restarts them. A pool only chooses among actors that are up. After a withdrawn request, it sends a
probe: a call that Ray itself repeats until the actor has been restarted, so the pool polls nothing.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import millstream as ms
import numpy as np
from millstream.ray import _cluster
from millstream.ray._actor import DeviceActor
from millstream.ray._answer import Answer, Attempt, Reply, Request
from millstream.ray._balance import Balance, State
from millstream.ray._cluster import Actor
from millstream.ray._replies import ActorReply, Answered, Busy, Health, Withdrawn, busy

SHARED_BYTES = 100 * 1024
"""Arrays from this size are put into the object store once, however many actors a request is sent to. Ray itself puts
smaller arguments into the message."""

RESTART_SECONDS = 1.0
"""When to retry if Ray restarts all actors: the start of a process takes about that long."""

CLOSE_SECONDS = 30.0
"""How long a close waits for the requests in flight."""


class Pool:
    """Spreads requests over actors.

    A request goes to the least loaded actor; if it refuses, to the others in turn; if all do, the caller receives `Busy`.
    Any thread and any task of asyncio may use a pool. It can be sent to other tasks and actors of Ray: each copy counts its
    own requests, and learns the load of others from the replies.

    :param actors: handles of `DeviceActor`
    :param max_in_flight: the most requests of this pool at one actor
    """

    def __init__(self, actors: Sequence[Actor], *, max_in_flight: int = 64) -> None:
        if not actors or max_in_flight < 1:
            raise ms.ArgumentError(f"a pool needs an actor and room, got {len(actors)} and {max_in_flight=}")
        self._actors = list(actors)
        self._balance = Balance(len(self._actors), max_in_flight)
        self._lock = threading.Lock()
        self._owns_actors = False
        self._is_closed = False

    @classmethod
    def start(
        cls,
        service: Callable[..., Any],
        *args: Any,
        actors: int = 1,
        device: str | Callable[[], ms.Device] = "cpu",
        max_requests: int = 64,
        metrics_seconds: float = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> Pool:
        """Starts actors and returns their pool, which ends them when it is closed. Does not wait for them: requests do.

        :param service: makes the service in each actor: ``service(device, *args)``; see `DeviceActor` for the others
        :param options: Ray's options of the actors, such as ``{"num_gpus": 1, "scheduling_strategy": "SPREAD"}``
        """
        made = DeviceActor.options(**dict(options or {}))
        named = {"device": device, "max_requests": max_requests, "metrics_seconds": metrics_seconds}
        handles = [made.remote(service, *args, **named) for _ in range(actors)]
        pool = cls(handles, max_in_flight=max_requests)
        pool._owns_actors = True
        return pool

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._actors, self._balance.max_in_flight)

    def request(self, method: str, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """Sends a call of a method of the service, and returns its answer. Does not wait.

        Arrays of NumPy, and references of Ray's, travel through the object store; the method receives read-only arrays in
        the shared memory of its host. If the actor or its device is lost, the request is withdrawn and not sent again,
        unless it was certainly not run.

        :raises Busy: no actor is up and has room; nothing was sent
        :raises millstream.DeviceClosed: all actors have ended
        """
        return self._begin(Request(method, args, kwargs, is_idempotent=False))

    def idempotent(self, method: str, /, *args: Any, **kwargs: Any) -> Answer[Any]:
        """As `request`, for a method that may run twice: if a request is withdrawn, sends it to the other actors in turn."""
        return self._begin(Request(method, args, kwargs, is_idempotent=True))

    def _begin(self, request: Request) -> Answer[Any]:
        request.args = tuple(_shared(each) for each in request.args)
        request.kwargs = {name: _shared(each) for name, each in request.kwargs.items()}
        return Answer(request, self.send(request), self.send)

    def send(self, request: Request) -> Attempt:
        """Sends a request to the best actor that it was not sent to before."""
        with self._lock:
            if self._is_closed:
                raise ms.DeviceClosed("the pool was closed")
            probes = self._balance.to_probe()
            index = self._balance.choose(request.tried)
            refusal = self._no_room() if index is None else None
        for each in probes:
            self._probe(each)
        if refusal is not None or index is None:
            raise refusal or AssertionError("no actor and no reason")
        request.tried.add(index)
        reply: Reply = concurrent.futures.Future()
        # A task that awaits it may be cancelled; the reply still arrives.
        reply.set_running_or_notify_cancel()
        try:
            reference = self._actors[index].request.remote(request.method, *request.args, **request.kwargs)
        except BaseException:
            with self._lock:
                self._balance.finish(index, None)
            raise
        _cluster.on_reply(reference, lambda value, error: self._replied(index, reply, value, error))
        return Attempt(reference, reply)

    def _no_room(self) -> ms.Error:
        balance = self._balance
        up, down = balance.count(State.UP), balance.count(State.DOWN)
        if up + down == 0:
            return ms.DeviceClosed(f"all {len(self._actors)} actors of the pool have ended; start another pool")
        if up == 0:
            return busy(f"Ray restarts {down} actors, and no other is up; retry later", 0, 0, RESTART_SECONDS)
        message = f"{up} actors of {len(self._actors)} are up, each with {balance.max_in_flight} requests of this pool"
        return busy(f"{message}; wait for an answer, or retry later", balance.max_in_flight, balance.max_in_flight, 0.0)

    def _replied(self, index: int, reply: Reply, value: ActorReply | None, error: BaseException | None) -> None:
        """Counts a reply. Runs on a thread of Ray's."""
        load = value.in_flight if isinstance(value, (Answered, Busy)) else None
        is_lost = isinstance(value, Withdrawn) or (error is not None and _cluster.ends_actor(error))
        with self._lock:
            self._balance.finish(index, load)
            if is_lost:
                self._balance.lose(index)
        reply.set_result((value, error))

    def _probe(self, index: int) -> None:
        def replied(_: object, error: BaseException | None) -> None:
            with self._lock:
                self._balance.probed(index, State.UP if error is None else State.ENDED)

        # Ray repeats the call until the actor has been restarted, or is not restarted any more.
        _cluster.on_reply(self._actors[index].ready.options(max_task_retries=-1).remote(), replied)

    # Health and the end.

    def wait_ready(self, timeout: float | None = None) -> list[Health]:
        """Blocks until all actors have opened their devices and made their services.

        :param timeout: seconds
        :raises millstream.WaitTimeout: some have not in this time; they go on
        :raises millstream.OpenError: an actor cannot be started, since its device or its service cannot be made
        """
        calls = [actor.ready.options(max_task_retries=-1).remote() for actor in self._actors]
        found = _cluster.arrived(calls, timeout)
        if len(found) < len(calls):
            raise ms.WaitTimeout(f"{len(found)} of {len(calls)} actors are ready after {timeout} s; wait again")
        try:
            return [_cluster.value_of(each) for each in calls]
        except Exception as error:
            if not _cluster.ends_actor(error):
                raise
            raise ms.OpenError(f"an actor of the pool cannot be started: {error}") from error

    def health(self, timeout: float = 5.0) -> list[Health]:
        """Asks all actors for their states and loads. Blocks, at most for `timeout` seconds."""
        calls = [actor.health.remote() for actor in self._actors]
        found = _cluster.arrived(calls, timeout)
        with self._lock:
            ended = [slot.state is State.ENDED for slot in self._balance.slots]
        return [self._health(call, call in found, has_ended) for call, has_ended in zip(calls, ended, strict=True)]

    @staticmethod
    def _health(call: _cluster.Reference, has_arrived: bool, has_ended: bool) -> Health:
        if has_arrived:
            try:
                health: Health = _cluster.value_of(call)
                return health
            except Exception as error:
                if not _cluster.ends_actor(error):
                    raise
        return Health(state="ended" if has_ended else "unreachable")

    def __len__(self) -> int:
        """The number of actors."""
        return len(self._actors)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Refuses further requests. Ends the actors that `start` made: they finish the requests that they work on.

        :param timeout: seconds that these may take; requests that take longer are withdrawn
        """
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed or not self._owns_actors:
            return
        _cluster.arrived([actor.close.remote(timeout) for actor in self._actors], timeout)
        for actor in self._actors:
            _cluster.kill(actor)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _restore(actors: Sequence[Actor], max_in_flight: int) -> Pool:
    return Pool(actors, max_in_flight=max_in_flight)


def _shared(value: Any) -> Any:
    return _cluster.put(value) if _is_large(value) else value


def _is_large(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.nbytes >= SHARED_BYTES
