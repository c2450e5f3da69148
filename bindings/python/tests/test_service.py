"""The example `service.py`, served by uvicorn and asked by a real HTTP client."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from pencil import Array, draw_by_numpy
from service import Service, Tenant, make_app

TIMEOUT_S = 60.0


class Served:
    """The service, on a free port of this machine."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def __enter__(self) -> Served:
        self.socket.listen()  # connections wait here until the service has started
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(TIMEOUT_S)
        self.socket.close()

    @property
    def service(self) -> Service:
        state: Service = self.app.state.service
        return state

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=TIMEOUT_S)

    def metric(self, name: str, *labels: str) -> float:
        """Returns a sample of the page of metrics, or 0 if it is not there."""
        with self.client() as client:
            page = client.get("/metrics").raise_for_status().text
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        found = [sample.value for sample in samples if (sample.name, *sorted(sample.labels.values())) == (name, *labels)]
        return sum(found)


@pytest.fixture(scope="module", params=["cpu", "sim"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with Served(make_app(request.param)) as running:
        assert running.metric("millstream_up") == 1
        yield running
        assert running.service.device.violations() == []


def photo(number: int, height: int = 40, width: int = 30) -> Array:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3)).astype(np.uint8)


def png(pixels: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def check_drawing(answer: httpx.Response, pixels: Array) -> None:
    assert answer.status_code == 200, answer.text
    drawing = np.asarray(Image.open(io.BytesIO(answer.content)))
    difference = np.abs(drawing.astype(int) - draw_by_numpy(pixels))
    assert drawing.shape == pixels.shape[:2] and difference.max() <= 1


def test_sixteen_requests_at_once_are_answered(served: Served) -> None:
    photos = [photo(number, 40 + number % 3) for number in range(16)]

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", timeout=TIMEOUT_S) as client:
            return await asyncio.gather(*(client.post("/drawings", content=png(pixels)) for pixels in photos))

    before = served.metric("service_answers_total", "200", "shop")
    for answer, pixels in zip(asyncio.run(ask()), photos, strict=True):
        check_drawing(answer, pixels)
    assert served.metric("service_answers_total", "200", "shop") == before + 16
    assert served.metric("service_requests_at_once", "shop") == 0


@pytest.mark.parametrize(
    ("body", "query", "tenant", "status"),
    [
        (b"", "", "shop", 400),
        (b"no picture", "", "shop", 400),
        (png(photo(0))[:200], "", "shop", 400),
        (b"\0" * ((8 << 20) + 1), "", "shop", 413),
        (png(np.zeros((1, 4_000_001, 3), np.uint8)), "", "shop", 413),
        (png(photo(0)), "?deadline_s=0", "shop", 504),
        (png(photo(0)), "?deadline_s=31", "shop", 422),
        (png(photo(0)), "?deadline_s=nan", "shop", 422),
        (png(photo(0)), "?deadline_s=soon", "shop", 422),
        (png(photo(0)), "", "stranger", 403),
    ],
)
def test_what_cannot_be_served_has_a_status(served: Served, body: bytes, query: str, tenant: str, status: int) -> None:
    with served.client() as client:
        answer = client.post(f"/drawings{query}", content=body, headers={"X-Tenant": tenant})
        assert answer.status_code == status, answer.text
        check_drawing(client.post("/drawings", content=png(photo(1))), photo(1))


def test_one_pixel_is_a_photograph(served: Served) -> None:
    with served.client() as client:
        check_drawing(client.post("/drawings", content=png(photo(2, 1, 1))), photo(2, 1, 1))


def test_a_tenant_beyond_its_limits_is_refused_and_others_are_served(served: Served) -> None:
    service = served.service
    service.tenants["full"] = Tenant(service.device.client(name="full"), max_requests=0)
    service.tenants["tiny"] = Tenant(service.device.client(name="tiny", hard_limit=1000), max_requests=4)
    try:
        with served.client() as client:
            for tenant, status in [("full", 429), ("tiny", 413)]:
                answer = client.post("/drawings", content=png(photo(3)), headers={"X-Tenant": tenant})
                assert answer.status_code == status, answer.text
                assert (status == 413) == ("Retry-After" not in answer.headers)
            check_drawing(client.post("/drawings", content=png(photo(3)), headers={"X-Tenant": "trial"}), photo(3))
        assert served.metric("service_answers_total", "413", "tiny") == 1
    finally:
        del service.tenants["full"], service.tenants["tiny"]


def test_work_of_a_caller_that_disconnects_ends(served: Served) -> None:
    body = png(photo(4, 900, 900))
    head = f"POST /drawings HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    answers = ("service_answers_total", "499", "shop")
    before = served.metric(*answers)
    with socket.create_connection(("127.0.0.1", served.port), TIMEOUT_S) as caller:
        caller.sendall(head + body)
    while served.metric(*answers) == before:
        pass  # each page is a round trip; pytest's timeout ends a test that waits in vain
    assert served.metric("service_requests_at_once", "shop") == 0


def test_a_closed_device_is_unavailable() -> None:
    with Served(make_app("cpu")) as served, served.client() as client:
        check_drawing(client.post("/drawings", content=png(photo(5))), photo(5))
        served.service.device.close()
        answer = client.post("/drawings", content=png(photo(5)))
        assert answer.status_code == 503, answer.text
