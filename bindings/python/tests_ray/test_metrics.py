"""What an actor reports to Ray: with Ray's metrics replaced by records of the calls, and as Prometheus reads it."""

from __future__ import annotations

import asyncio
import importlib.util
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

import millstream as ms
import numpy as np
import pytest
from conftest import LIMIT, Nodes
from millstream.ray import Pool, _cluster, _metrics
from services import ray

TAGS = {"actor", "backend", "device"}


class Recorded:
    """A metric that keeps what it receives."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.tags: dict[str, str] = {}

    def set_default_tags(self, tags: dict[str, str]) -> Recorded:
        self.tags = tags
        return self

    def set(self, value: float, tags: dict[str, str] | None = None) -> None:
        self.values.append(value)

    def inc(self, value: float, tags: dict[str, str] | None = None) -> None:
        assert value > 0, "Ray refuses others"
        self.values.append(value)

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        assert tags is not None and value > 0
        self.values.append(value)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Recorded]]:
    """The metrics that a reporter makes, by name."""
    made: dict[str, Recorded] = {}

    def make(name: str, _: str, *more: object) -> Recorded:
        assert name not in made
        return made.setdefault(name, Recorded())

    def histogram(name: str, about: str, _: Sequence[float], tags: dict[str, str], *keys: str) -> Recorded:
        assert set(tags) == TAGS and keys == ("outcome",)
        return make(name, about)

    monkeypatch.setattr(_cluster, "gauge", make)
    monkeypatch.setattr(_cluster, "counter", make)
    monkeypatch.setattr(_cluster, "histogram", histogram)
    yield made


def test_a_request_arms_one_report_and_an_idle_actor_none(recorded: dict[str, Recorded]) -> None:
    async def main() -> None:
        with ms.Device("cpu") as device:
            reporter = _metrics.Reporter(device, 0.0, "actor")
            stream = device.stream()
            for _ in range(2):
                buffer = stream.zeros(1000, ms.f32)
                await stream.read(buffer)
                for _ in range(3):
                    reporter.ended("answered", 0.001, 1)
                reporter.refused()
                # Until the report has ended, and nothing is armed any more.
                this = asyncio.current_task()
                while others := [task for task in asyncio.all_tasks() if task is not this]:
                    assert len(others) == 1
                    await others[0]
                del buffer

    asyncio.run(main())
    assert recorded["millstream_request_seconds"].values == [0.001] * 6
    assert recorded["millstream_requests_refused"].values == [1, 1]
    assert recorded["millstream_requests_in_flight"].values == [1, 1]
    # The device counts since its opening, and a counter is advanced by what is new.
    tasks = recorded["millstream_device_tasks"].values
    assert len(tasks) == 2 and tasks[0] == tasks[1]
    assert recorded["millstream_device_memory_in_use_bytes"].values == [4096, 4096]
    assert "millstream_device_failures" in recorded and not recorded["millstream_device_failures"].values


def test_a_lost_device_reports_no_figures(recorded: dict[str, Recorded]) -> None:
    async def main() -> None:
        with ms.Device("sim", lost_at_run=1) as device:
            reporter = _metrics.Reporter(device, 0.0, "actor")
            with pytest.raises(ms.DeviceLost):
                await device.stream().read(device.stream().zeros(4, ms.f32))
            with pytest.raises(ms.DeviceLost):
                # A queue has ended before the device's thread learns of it, and may answer until then.
                while True:
                    await device.metrics()
            reporter.ended("withdrawn", 0.001, 0)
            await reporter.report()

    asyncio.run(main())
    assert recorded["millstream_requests_in_flight"].values and not recorded["millstream_device_tasks"].values


@pytest.mark.skipif(
    importlib.util.find_spec("opencensus") is None or importlib.util.find_spec("opentelemetry") is None,
    reason="Ray has an endpoint of metrics only with `pip install 'ray[default]'`",
)
def test_metrics_reach_the_endpoint_of_prometheus(nodes: Nodes, pool: Pool) -> None:
    pool.request("double", np.ones(16, np.float32)).wait(LIMIT)
    node = next(each for each in ray.nodes() if each["Alive"])
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    end, text = time.monotonic() + LIMIT, ""
    while "ray_millstream_device_tasks_total{" not in text:
        assert time.monotonic() < end, f"{url} has no figures of the device: {text}"
        time.sleep(0.2)
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                text = answer.read().decode()
        except urllib.error.URLError:
            continue
    assert 'backend="cpu"' in text and "ray_millstream_request_seconds_count{" in text
