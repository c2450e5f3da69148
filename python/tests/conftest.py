"""Fixtures: a device of each backend that every machine has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import millstream as ms
import pytest

Local = Literal["cpu", "sim"]


@pytest.fixture(params=["cpu", "sim"])
def device(request: pytest.FixtureRequest) -> Iterator[ms.Device]:
    """A device of the CPU, and a simulated one that must find no violation."""
    backend: Local = request.param
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
