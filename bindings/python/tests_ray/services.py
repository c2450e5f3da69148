"""Services that the tests run in actors, and Ray without its types. Workers import this file by its name."""

from __future__ import annotations

import asyncio
import importlib
import os
import weakref
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
import numpy.typing as npt
from millstream import ir

ray: Any = importlib.import_module("ray")
F32 = npt.NDArray[np.float32]
CUBE = 256


@ms.kernel
def double(x: ms.Update[ms.f32], n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        x[i] = 2.0 * x[i]


@ms.kernel(threads=1)
def slow(x: ms.Update[ms.i64], times: ms.i64) -> None:
    for i in ir.range(times):
        x[0] = x[0] + (i & 1)


class Service:
    """Doubles arrays, and does what tests ask for. `log` is the file where each run of a numbered request leaves a line."""

    def __init__(self, device: ms.Device, log: Path) -> None:
        self.device = device
        self.double_kernel, self.slow_kernel = device.kernel(double), device.kernel(slow)
        self.log = log
        self.kept: list[ms.Pending[Any]] = []

    async def double(self, x: F32) -> F32:
        """Doubles an array, without a copy on the host."""
        stream = self.device.stream().request()
        buffer = stream.create(x, copy=False)
        stream.launch(self.double_kernel, ms.cover(x.size, CUBE), buffer, x.size)
        return await stream.read(buffer)

    async def numbered(self, number: int, x: F32) -> tuple[int, F32]:
        """Is `double` of a request that leaves its number in the log."""
        self._write(number)
        return number, await self.double(x)

    async def gated(self, number: int, gate: Path) -> int:
        """Waits until the file exists."""
        self._write(number)
        while not gate.exists():
            await asyncio.sleep(0.02)
        return number

    def pid(self) -> int:
        """Returns the process of this actor."""
        return os.getpid()

    def gpus(self) -> str:
        """Returns the GPUs that Ray shows this actor."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def end(self) -> None:
        """Ends the process."""
        os._exit(1)

    def received(self, x: F32) -> tuple[str, bool]:
        """Returns what the memory of an argument is mapped from, and whether it may be written."""
        address = x.__array_interface__["data"][0]
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, _, _, _, _, *name = line.split(maxsplit=5)
            start, end = (int(part, 16) for part in place.split("-"))
            if start <= address < end:
                return name[0] if name else "", x.flags.writeable
        raise AssertionError("no mapping has this address")

    async def held(self, x: F32, copy: bool) -> bool:
        """Returns whether the upload holds the memory of an argument itself."""
        stream = self.device.stream()
        view = x[:]
        seen = weakref.ref(view)
        stream.create(view, copy=copy)
        del view
        return seen() is not None

    def keep(self, x: F32) -> None:
        """Begins an upload behind a long task, and replies meanwhile."""
        stream = self.device.stream()
        stream.launch(self.slow_kernel, 1, stream.zeros(1, ms.i64), 200_000)
        self.kept = [stream.read(stream.create(x, copy=False))]

    async def kept_sum(self) -> float:
        """Returns the sum of what `keep` uploaded."""
        return float((await self.kept[0]).sum())

    def fail(self) -> ms.Pending[Any]:
        """Reads what a failed task has written: two tasks of a chain."""
        stream = self.device.stream()
        x, y = stream.zeros(4, ms.f32), stream.zeros(4, ms.f32)
        stream.with_deadline(0.0).fill(x, 1.0)
        stream.copy(x, y)
        return stream.read(y)

    async def cancelled(self, gate: Path) -> None:
        """Waits, and leaves a file once it is cancelled."""
        try:
            self._write(-1)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            gate.touch()
            raise

    def lines(self) -> list[int]:
        """Returns the numbers in the log."""
        return [int(line) for line in self.log.read_text().split()]

    def _write(self, number: int) -> None:
        with self.log.open("a") as file:
            file.write(f"{number}\n")


def lost_once(marker: Path, task: int) -> ms.Device:
    """Opens a simulator that loses its device while it runs a task, the first time; then one that does not."""
    if marker.exists():
        return ms.Device("sim")
    marker.touch()
    return ms.Device("sim", lost_at_run=task)
