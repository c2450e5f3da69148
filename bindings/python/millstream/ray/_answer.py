"""An answer that arrives later: read from the actor's reply, or asked for again at another actor.

A reply arrives on a thread of Ray, which must not block and sends nothing. So a request goes to another actor on the thread
or task that waits for the answer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import millstream as ms
from millstream.ray import _cluster
from millstream.ray._replies import ActorReply, Answered, Busy, Withdrawn, withdrawn

T = TypeVar("T")


Reply = concurrent.futures.Future[tuple[ActorReply | None, BaseException | None]]
"""The reply of an actor, or its error, as a value: whether anything reads the error does not concern the future."""


@dataclass
class Request:
    """A request, and the actors that it was sent to."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_idempotent: bool
    tried: set[int] = field(default_factory=set[int])


@dataclass
class Attempt:
    """A request on its way to one actor."""

    reference: _cluster.Reference
    reply: Reply


def _result(outcome: concurrent.futures.Future[T]) -> T:
    error = outcome.exception()
    if error is None:
        return outcome.result()
    try:
        # Without the tracebacks of the times before.
        raise error.with_traceback(None)
    finally:
        # The traceback has this frame, and would keep the error in a cycle.
        del error, outcome


class Answer(Generic[T]):
    """The answer of a request. Wait for it, or await it on asyncio; any thread may.

    The answer stays: every call returns the same object, or raises the same exception.
    """

    def __init__(self, request: Request, attempt: Attempt, send: Callable[[Request], Attempt]) -> None:
        self._request = request
        self._send = send
        self._lock = threading.Lock()
        self._attempt = attempt
        self._outcome: concurrent.futures.Future[T] | None = None
        self._is_cancelled = False

    def wait(self, timeout: float | None = None) -> T:
        """Blocks until the answer arrives.

        :param timeout: seconds
        :raises millstream.WaitTimeout: it did not arrive in time. The request goes on: wait for it again
        :raises Busy: all actors that are up refused the request; it was not run
        :raises Withdrawn: the actor or its device was lost before it answered
        :raises millstream.TaskCancelled: the request was cancelled
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            attempt, outcome = self._attempt, self._outcome
            if outcome is not None:
                return _result(outcome)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, _ = concurrent.futures.wait([attempt.reply], left)
            if not done:
                raise ms.WaitTimeout(f"`{self._request.method}` was not answered in {timeout} s; wait for it again")
            self._advance(attempt)

    def __await__(self) -> Generator[Any, None, T]:
        return self._await().__await__()

    async def _await(self) -> T:
        while True:
            attempt, outcome = self._attempt, self._outcome
            if outcome is not None:
                return _result(outcome)
            try:
                await asyncio.wait([asyncio.wrap_future(attempt.reply)])
            except asyncio.CancelledError:
                self.cancel()
                raise
            self._advance(attempt)

    def cancel(self) -> None:
        """Asks the actor to cancel the request: the method receives `asyncio.CancelledError`, and work of a
        ``stream.request()`` that it awaits is withdrawn if it has not begun."""
        with self._lock:
            self._is_cancelled = True
            reference = self._attempt.reference
        _cluster.cancel(reference)

    def _advance(self, attempt: Attempt) -> None:
        """Reads the reply of an attempt: keeps it as the outcome, or sends the request to another actor."""
        with self._lock:
            if self._attempt is not attempt or self._outcome is not None:
                return
            outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
            try:
                outcome.set_result(self._read(attempt))
            except Exception as error:
                again = self._again(error)
                if again is not None:
                    self._attempt = again
                    return
                outcome.set_exception(error)
            self._outcome = outcome

    def _again(self, error: Exception) -> Attempt | None:
        """Sends the request to another actor, if it was not run, or may run twice. `None` if no other has room."""
        is_safe = isinstance(error, Busy) or (
            isinstance(error, Withdrawn) and (self._request.is_idempotent or not error.may_have_run)
        )
        if self._is_cancelled or not is_safe:
            return None
        try:
            return self._send(self._request)
        except (Busy, ms.DeviceClosed):
            return None

    def _read(self, attempt: Attempt) -> T:
        method = self._request.method
        reply, error = attempt.reply.result()
        if isinstance(reply, (Busy, Withdrawn)):
            raise reply
        if isinstance(reply, Answered):
            answer: T = reply.value
            return answer
        assert error is not None, "a reply is a value or an error"
        if _cluster.is_cancelled(error):
            cancelled = ms.TaskCancelled(f"the request `{method}` was cancelled")
            cancelled.task, cancelled.reason = method, "cancelled"
            raise cancelled from error
        raised = _cluster.cause_of(error)
        if raised is not None:
            cause, remote = raised
            cause.add_note(f"raised by `{method}` in its actor:\n{remote}")
            raise cause
        if _cluster.is_raised(error):
            raise error
        may_have_run = not _cluster.never_started(error)
        ran = "it may have run" if may_have_run else "it was not run"
        raise withdrawn(f"the request `{method}` has no answer, {ran}: {error}", may_have_run, error)

