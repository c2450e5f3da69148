"""An HTTP service on one device: it draws photographs in pencil (`pencil.py`) for several tenants at once.

    pip install millstream fastapi uvicorn pillow prometheus-client
    uvicorn --factory service:make_app --app-dir examples

    curl --data-binary @photo.jpg -H "X-Tenant: trial" localhost:8000/drawings -o drawing.png
    curl localhost:8000/metrics

Each tenant is a client of the device, with limits of its own. Requests that do not fit beside others of the tenant wait for
them, on threads of the tenant. One that finds no room until its deadline is refused (429), and so is one beyond the number
of requests; one that never fits is too large (413). A request that has not begun at its deadline is withdrawn (504), and so
is the work of a caller that has disconnected. Handlers await answers of the device: no thread waits for them, and no call
of the event loop waits for room.

`MILLSTREAM_BACKEND` names the backend: `cpu`, `cuda` or `vulkan`.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections import Counter
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import millstream as ms
import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from PIL import Image, UnidentifiedImageError
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pencil import Pencil

MAX_BODY_BYTES = 8 << 20
MAX_PIXELS = 4_000_000
MAX_DEADLINE_S = 30.0
MAX_FILTERS = 32
"""The filters that are kept, one for each size of photograph."""


class Refused(Exception):
    """The answer to a request that is not served."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {} if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}


@dataclass
class Tenant:
    """A tenant: a client of the device, and the requests that it may have at once."""

    client: ms.Client
    max_requests: int
    requests: int = 0
    threads: ThreadPoolExecutor = field(init=False)
    """They submit its requests, and wait for room."""

    def __post_init__(self) -> None:
        self.threads = ThreadPoolExecutor(max(1, self.max_requests))


@dataclass
class Service:
    """The state of the service. Only the event loop uses it."""

    device: ms.Device
    tenants: dict[str, Tenant]
    filters: dict[tuple[int, int], asyncio.Task[Pencil]] = field(default_factory=dict[tuple[int, int], asyncio.Task[Pencil]])
    outcomes: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    async def answer(self, tenant_name: str, body: bytes, deadline_s: float) -> bytes:
        """Returns the drawing of a photograph, as PNG."""
        tenant = self.tenants.get(tenant_name)
        if tenant is None:
            raise Refused(403, f"unknown tenant `{tenant_name}`")
        if tenant.requests >= tenant.max_requests:
            raise Refused(429, f"`{tenant_name}` has {tenant.requests} requests at once: try again later", 1)
        tenant.requests += 1
        try:
            return await self.draw(tenant, body, deadline_s)
        except ms.TooLarge as error:
            raise Refused(413, str(error)) from error
        except (ms.Busy, ms.OutOfMemory) as error:
            raise Refused(429, str(error), getattr(error, "retry_after", 1)) from error
        except ms.DeadlinePassed as error:
            raise Refused(504, f"not begun within {deadline_s} s") from error
        except (ms.DeviceLost, ms.DeviceClosed) as error:
            raise Refused(503, str(error), 5) from error
        finally:
            tenant.requests -= 1

    async def draw(self, tenant: Tenant, body: bytes, deadline_s: float) -> bytes:
        # `request`: if this handler is cancelled, what the device has not begun is withdrawn.
        stream = tenant.client.stream().request().with_deadline(deadline_s)
        photo = await asyncio.to_thread(decode, body)
        pencil = await self.filter_of(photo.shape[0], photo.shape[1])
        # Calls wait for room at most until the deadline, and then raise `Busy`: not on the thread of the event loop.
        drawing = await asyncio.get_running_loop().run_in_executor(tenant.threads, pencil, stream, photo)
        return await asyncio.to_thread(encode, await drawing)

    async def filter_of(self, height: int, width: int) -> Pencil:
        """Returns the filter for photographs of this size. Requests that wait for the same one compile it once."""
        task = self.filters.pop((height, width), None)
        if task is None or (task.done() and task.exception()):
            task = asyncio.create_task(asyncio.to_thread(Pencil, self.device, height, width))
        self.filters[height, width] = task  # last, since used last
        while len(self.filters) > MAX_FILTERS:
            del self.filters[next(iter(self.filters))]
        return await asyncio.shield(task)

    async def page(self) -> bytes:
        """Returns the metrics in the text format of Prometheus."""
        metrics = await self.device.metrics()
        return generate_latest(Snapshot(self, metrics))


class Snapshot(Collector):
    """Metrics of one moment, for `prometheus_client`."""

    def __init__(self, service: Service, metrics: dict[str, Any]) -> None:
        self.service, self.metrics = service, metrics

    def collect(self) -> list[Metric]:
        up = GaugeMetricFamily("millstream_up", "Whether the device runs: 1 if it does, else 0.")
        up.add_metric([], self.service.device.health == "running")
        tasks = CounterMetricFamily("millstream_tasks", "Tasks that were issued to the device.")
        tasks.add_metric([], self.metrics["tasks"])
        withdrawn = CounterMetricFamily("millstream_withdrawn", "Tasks that were cancelled or too late.")
        withdrawn.add_metric([], self.metrics["withdrawn"])
        memory = GaugeMetricFamily("millstream_memory_bytes", "Device memory in use.", labels=["tenant"])
        requests = GaugeMetricFamily("service_requests_at_once", "Requests that are being answered.", labels=["tenant"])
        for name, tenant in self.service.tenants.items():
            used = self.metrics["clients"].get(name, {})  # absent before its first task
            memory.add_metric([name], used.get("memory_in_use_bytes", 0))
            requests.add_metric([name], tenant.requests)
        answers = CounterMetricFamily("service_answers", "Answers, by tenant and status.", labels=["tenant", "status"])
        for (name, status), count in self.service.outcomes.items():
            answers.add_metric([name, str(status)], count)
        return [up, tasks, withdrawn, memory, requests, answers]


def decode(body: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    try:
        with Image.open(io.BytesIO(body), formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Refused(413, f"a photograph has at most {MAX_PIXELS} pixels")
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise Refused(400, f"not a photograph in PNG or JPEG: {error}") from error


def encode(drawing: np.ndarray[Any, np.dtype[Any]]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(drawing).save(file, "PNG", compress_level=1)
    return file.getvalue()


async def read_body(request: Request) -> bytes:
    """Reads the body. It ends as soon as the body is too long, whatever its header says."""
    parts, length = list[bytes](), 0
    async for part in request.stream():
        parts.append(part)
        length += len(part)
        if length > MAX_BODY_BYTES:
            raise Refused(413, f"a photograph has at most {MAX_BODY_BYTES} bytes")
    return b"".join(parts)


async def until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(request: Request, answer: asyncio.Task[bytes]) -> bytes:
    """Awaits an answer, and cancels it if the caller disconnects."""
    gone = asyncio.create_task(until_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise Refused(499, "the caller has disconnected")
        return await answer
    finally:
        gone.cancel()
        answer.cancel()


def make_app(backend: Any = None) -> FastAPI:
    """Makes the service. The device is opened when it starts, and closed when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        name: Any = backend or os.environ.get("MILLSTREAM_BACKEND", "cpu")
        with ms.Device(name) as device:
            shop = device.client(name="shop", priority="high", hard_limit=1 << 30, at_limit="wait")
            trial = device.client(name="trial", priority="low", hard_limit=64 << 20, at_limit="wait", max_tasks=64)
            app.state.service = Service(device, {"shop": Tenant(shop, 64), "trial": Tenant(trial, 4)})
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/drawings")
    async def drawings(request: Request, deadline_s: float = 10.0) -> Response:
        service: Service = request.app.state.service
        tenant = request.headers.get("X-Tenant", "shop")
        try:
            if not 0 <= deadline_s <= MAX_DEADLINE_S:
                raise Refused(422, f"`deadline_s` is from 0 to {MAX_DEADLINE_S}, got {deadline_s}")
            body = await read_body(request)
            answer = asyncio.create_task(service.answer(tenant, body, deadline_s))
            response = Response(await unless_disconnected(request, answer), media_type="image/png")
        except Refused as error:
            response = PlainTextResponse(f"{error}\n", error.status, error.headers)
        service.outcomes[tenant if tenant in service.tenants else "unknown", response.status_code] += 1
        return response

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        service: Service = request.app.state.service
        return Response(await service.page(), media_type="text/plain; version=0.0.4")

    return app
