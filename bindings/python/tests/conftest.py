"""Fixtures: a device of each backend. `MILLSTREAM_PYTHON_BACKENDS=cpu,vulkan` selects others than those of every machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import millstream as ms
import pytest

BACKENDS = os.environ.get("MILLSTREAM_PYTHON_BACKENDS", "cpu,sim").split(",")


@pytest.fixture(params=BACKENDS)
def device(request: pytest.FixtureRequest) -> Iterator[ms.Device]:
    """A device of each backend. The simulator must find no violation."""
    backend: Any = request.param
    with ms.Device(backend) as opened:
        yield opened
        assert opened.violations() == []


@pytest.fixture
def stream(device: ms.Device) -> ms.Stream:
    """A stream of the device."""
    return device.stream()


@pytest.fixture
def cpu() -> Iterator[ms.Device]:
    """A device of the CPU."""
    with ms.Device("cpu") as opened:
        yield opened
