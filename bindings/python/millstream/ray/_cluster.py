"""Every use of Ray, typed. Ray's own annotations do not describe actors, so other modules see these protocols instead.

Ray is imported by name, not by an import statement: type checkers give the same result whether Ray is installed or not.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

try:
    _ray: Any = importlib.import_module("ray")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("millstream.ray needs Ray: pip install 'millstream[ray]'", name="ray") from error
_exceptions: Any = importlib.import_module("ray.exceptions")
_metrics: Any = importlib.import_module("ray.util.metrics")

Reference = Any
"""Ray's reference to an object that may not exist yet."""


class Method(Protocol):
    """A method of an actor."""

    def remote(self, *args: Any, **kwargs: Any) -> Reference: ...
    def options(self, **options: Any) -> Method: ...


class Actor(Protocol):
    """Ray's handle of a `DeviceActor`. It can be sent to other tasks and actors."""

    @property
    def request(self) -> Method: ...
    @property
    def ready(self) -> Method: ...
    @property
    def health(self) -> Method: ...
    @property
    def close(self) -> Method: ...


class ActorClass(Protocol):
    """A class whose instances run as actors."""

    def remote(self, *args: Any, **kwargs: Any) -> Actor: ...
    def options(self, **options: Any) -> ActorClass: ...


class Metric(Protocol):
    """A gauge, counter or histogram of `ray.util.metrics`."""

    def set_default_tags(self, tags: dict[str, str]) -> Metric: ...
    def set(self, value: float, tags: dict[str, str] | None = None) -> None: ...
    def inc(self, value: float, tags: dict[str, str] | None = None) -> None: ...
    def observe(self, value: float, tags: dict[str, str] | None = None) -> None: ...


def actor_class(service: type[Any], **options: Any) -> ActorClass:
    """Makes a class whose instances run as actors, with these options by default."""
    made: ActorClass = _ray.remote(**options)(service)
    return made


def put(value: object) -> Reference:
    """Copies an object into the object store of this host."""
    return _ray.put(value)


def is_reference(value: object) -> bool:
    """Returns whether a value is a reference to an object of Ray's."""
    return isinstance(value, _ray.ObjectRef)


def on_reply(reference: Reference, call: Callable[[Any, BaseException | None], None]) -> None:
    """Calls `call` with the reply or its exception, once it has arrived, on a thread of Ray: `call` must not block."""

    def done(future: Any) -> None:
        error = future.exception()
        call(None if error is not None else future.result(), error)

    reference.future().add_done_callback(done)


def arrived(references: Sequence[Reference], timeout: float | None) -> set[Reference]:
    """Waits for all, at most `timeout` seconds. Returns those that have arrived, as values or as errors."""
    if not references:
        return set()
    ready, _ = _ray.wait(list(references), num_returns=len(references), timeout=timeout)
    return set(ready)


def value_of(reference: Reference) -> Any:
    """Returns the value of a reference, or raises its exception."""
    return _ray.get(reference)


def cancel(reference: Reference) -> None:
    """Asks the actor to cancel a call: its coroutine receives `asyncio.CancelledError`."""
    _ray.cancel(reference, recursive=False)


def kill(actor: Actor) -> None:
    """Ends an actor for good."""
    _ray.kill(actor, no_restart=True)


def is_raised(error: BaseException) -> bool:
    """Returns whether code of an actor raised the error."""
    return isinstance(error, _exceptions.RayTaskError)


def cause_of(error: BaseException) -> tuple[Exception, str] | None:
    """Returns what code of an actor raised, and the traceback there; `None` if only its text could be sent.

    Ray raises a mixture of its own exception and that of the actor, which has defaults for the attributes of the latter.
    """
    if is_raised(error):
        known: Any = error
        if isinstance(known.cause, Exception) and not isinstance(known.cause, _exceptions.RayError):
            return known.cause, re.sub(r"\x1b\[\d+m", "", str(error))
    return None


def is_cancelled(error: BaseException) -> bool:
    """Returns whether a call ended since it was cancelled."""
    # The cancel of a coroutine that runs is an error that its code has raised.
    return isinstance(error, _exceptions.TaskCancelledError) or (
        is_raised(error) and isinstance(getattr(error, "cause", None), _exceptions.TaskCancelledError)
    )


def ends_actor(error: BaseException) -> bool:
    """Returns whether the actor ended before the call did, or cannot be reached."""
    kinds = (_exceptions.RayActorError, _exceptions.WorkerCrashedError, _exceptions.NodeDiedError)
    return isinstance(error, (*kinds, _exceptions.OutOfMemoryError))


def never_started(error: BaseException) -> bool:
    """Returns whether the constructor of the actor failed, so that no call of it has run."""
    return isinstance(error, _exceptions.RayActorError) and bool(getattr(error, "actor_init_failed", False))


def place() -> tuple[str, str, bool]:
    """Returns the node and the actor that run this code, and whether Ray has restarted the actor."""
    context = _ray.get_runtime_context()
    with warnings.catch_warnings():
        # `was_current_actor_reconstructed` itself uses a deprecated property.
        warnings.simplefilter("ignore")
        is_restarted = bool(context.was_current_actor_reconstructed)
    return context.get_node_id(), context.get_actor_id() or "", is_restarted


def gauge(name: str, description: str, tags: Mapping[str, str]) -> Metric:
    """Makes a gauge."""
    made: Metric = _metrics.Gauge(name, description=description, tag_keys=tuple(tags))
    return made.set_default_tags(dict(tags))


def counter(name: str, description: str, tags: Mapping[str, str]) -> Metric:
    """Makes a counter."""
    made: Metric = _metrics.Counter(name, description=description, tag_keys=tuple(tags))
    return made.set_default_tags(dict(tags))


def histogram(name: str, description: str, bounds: Sequence[float], tags: Mapping[str, str], *more: str) -> Metric:
    """Makes a histogram. `more` are the keys of tags that each observation gives."""
    keys = (*tags, *more)
    made: Metric = _metrics.Histogram(name, description=description, boundaries=list(bounds), tag_keys=keys)
    return made.set_default_tags(dict(tags))
