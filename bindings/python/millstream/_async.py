"""Awaiting answers on asyncio and trio, and answers as futures of threads.

A hub belongs to one event loop, or to the one thread that completes futures. The runtime writes one byte to its pipe for
a batch of completions; the hub then looks at all of them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from millstream import _millstream
from millstream._millstream import Pending

T = TypeVar("T")


class _Hub:
    """Answers that one loop or thread waits for, by token."""

    def __init__(self) -> None:
        self.wakeups = _millstream.Wakeups()
        self.tokens = itertools.count()
        self.waiting: dict[int, tuple[Pending[Any], Callable[[Pending[Any]], None]]] = {}

    def add(self, pending: Pending[Any], wake: Callable[[Pending[Any]], None]) -> int | None:
        """Calls `wake` once the answer has arrived. Returns a token, or `None` if it has and `wake` is not called."""
        token = next(self.tokens)
        self.waiting[token] = (pending, wake)
        try:
            has_arrived = pending._register(self.wakeups, token)
        except BaseException:
            # A wake that came first has taken it out.
            self.waiting.pop(token, None)
            raise
        # The thread that takes the entry out is the one that wakes.
        return None if has_arrived and self.waiting.pop(token, None) is not None else token

    def remove(self, token: int) -> None:
        """Forgets an answer."""
        entry = self.waiting.pop(token, None)
        if entry is not None:
            entry[0]._unregister(self.wakeups, token)

    def drain(self) -> None:
        """Looks at all answers that have advanced."""
        for token in self.wakeups.drain():
            entry = self.waiting.get(token)
            if entry is None or not entry[0]._poll(self.wakeups, token):
                continue
            taken = self.waiting.pop(token, None)
            if taken is not None:
                pending, wake = taken
                wake(pending)


_asyncio_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub] = weakref.WeakKeyDictionary()


def _asyncio_hub(loop: asyncio.AbstractEventLoop) -> _Hub:
    hub = _asyncio_hubs.get(loop)
    if hub is None:
        hub = _Hub()
        loop.add_reader(hub.wakeups.fileno(), hub.drain)
        _asyncio_hubs[loop] = hub
    return hub


async def _wait_asyncio(pending: Pending[T], loop: asyncio.AbstractEventLoop) -> None:
    future: asyncio.Future[None] = loop.create_future()

    def wake(_: Pending[Any]) -> None:
        if not future.done():
            future.set_result(None)

    hub = _asyncio_hub(loop)
    token = hub.add(pending, wake)
    if token is None:
        return
    try:
        await future
    except asyncio.CancelledError:
        hub.remove(token)
        pending.cancel()
        raise


_trio_hubs: weakref.WeakKeyDictionary[Any, _Hub] = weakref.WeakKeyDictionary()


async def _wait_trio(pending: Pending[T], trio: Any) -> None:
    run = trio.lowlevel.current_trio_token()
    hub = _trio_hubs.get(run)
    if hub is None:
        hub = _Hub()
        _trio_hubs[run] = hub
        trio.lowlevel.spawn_system_task(_drain_trio, hub, trio)
    event = trio.Event()
    token = hub.add(pending, lambda _: event.set())
    if token is None:
        return
    try:
        await event.wait()
    except trio.Cancelled:
        hub.remove(token)
        pending.cancel()
        raise


async def _drain_trio(hub: _Hub, trio: Any) -> None:
    while True:
        await trio.lowlevel.wait_readable(hub.wakeups.fileno())
        hub.drain()


def _running_trio() -> Any:
    trio: Any = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None


async def wait(pending: Pending[T]) -> T:
    """Awaits an answer on the event loop that runs this task."""
    if not pending.done():
        trio = _running_trio()
        if trio is not None:
            await _wait_trio(pending, trio)
        else:
            await _wait_asyncio(pending, asyncio.get_running_loop())
    return pending.result()


class _FutureThread(_Hub):
    """Completes futures on a thread of its own, so that their callbacks run on no thread of the runtime."""

    def __init__(self) -> None:
        super().__init__()
        thread = threading.Thread(target=self._run, name="millstream-futures", daemon=True)
        thread.start()

    def _run(self) -> None:
        while True:
            self.drain()


_future_thread: _FutureThread | None = None
_future_lock = threading.Lock()


def _forget_thread() -> None:
    global _future_thread, _future_lock
    _future_thread = None
    _future_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A child has no threads of its parent.
    os.register_at_fork(after_in_child=_forget_thread)


def future(pending: Pending[T]) -> concurrent.futures.Future[T]:
    """Returns a future of this answer."""
    global _future_thread
    made: concurrent.futures.Future[T] = concurrent.futures.Future()
    made.set_running_or_notify_cancel()

    def wake(done: Pending[Any]) -> None:
        try:
            made.set_result(done.result())
        except BaseException as error:
            made.set_exception(error)

    with _future_lock:
        if _future_thread is None:
            _future_thread = _FutureThread()
        hub = _future_thread
    if hub.add(pending, wake) is None:
        wake(pending)
    return made
