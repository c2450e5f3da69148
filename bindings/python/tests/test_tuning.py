"""The tuner."""

from __future__ import annotations

import gc
import pathlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, Literal

import millstream as ms
import numpy as np
import pytest


class Fills:
    """Ways to fill a buffer, which count their calls."""

    def __init__(self, version: int = 0) -> None:
        self.calls: dict[str, int] = {"inputs": 0, "whole": 0, "often": 0}
        self.set = ms.TunableSet("fill", self.inputs, version=version)
        self.set.add("whole", self.whole)
        self.set.add("often", self.often)

    def inputs(self, stream: ms.Stream, key: Any) -> tuple[Any, ...]:
        self.calls["inputs"] += 1
        assert key == 4096
        return (stream.zeros(key, ms.f32), 0)

    def whole(self, stream: ms.Stream, buffer: ms.Buffer, value: float) -> str:
        self.calls["whole"] += 1
        stream.fill(buffer, value)
        return "whole"

    def often(self, stream: ms.Stream, buffer: ms.Buffer, value: float) -> str:
        self.calls["often"] += 1
        for _ in range(64):
            stream.fill(buffer, value)
        return "often"


def quick(device: ms.Device, folder: pathlib.Path | None = None) -> ms.Tuner:
    return ms.Tuner(device, folder, samples=5, seconds=0.01)


def test_a_key_is_tuned_once(device: ms.Device, stream: ms.Stream) -> None:
    fills, tuner = Fills(), quick(device)
    buffer = stream.zeros(4096, ms.f32)
    assert tuner.tuning(fills.set, 4096) is None
    winner = tuner.run(fills.set, stream, 4096, buffer, 7)
    assert stream.read(buffer).wait().tolist() == [7] * 4096
    tuning = tuner.tuning(fills.set, 4096)
    assert tuning is not None and tuning.winner == winner and len(tuning.candidates) == 2
    times = {each.name: each for each in tuning.candidates}
    assert all(each.samples > 0 and each.failure is None for each in times.values())
    if device.backend == "sim":
        # Only virtual time is the same on every machine.
        assert winner == "whole" and (times["whole"].median_ns or 0) < (times["often"].median_ns or 0)
    before = dict(fills.calls)
    assert tuner.run(fills.set, stream, 4096, buffer, 8) == winner
    assert tuner.choose(fills.set, stream, 4096, buffer, 8) == winner
    assert fills.calls == before | {winner: before[winner] + 1} and fills.calls["inputs"] == 1


def test_a_set_that_its_candidates_know_is_collected(cpu: ms.Device) -> None:
    fills, stream = Fills(), cpu.stream()
    quick(cpu).run(fills.set, stream, 4096, stream.zeros(4096, ms.f32), 1)
    known = weakref.ref(fills.set)
    # The candidates are methods of the object that has the set.
    del fills
    gc.collect()
    assert known() is None


def test_choices_are_stored(cpu: ms.Device, tmp_path: pathlib.Path) -> None:
    stream = cpu.stream()
    buffer = stream.zeros(4096, ms.f32)
    winner = quick(cpu, tmp_path).run(Fills().set, stream, 4096, buffer, 1)
    tuner, fills = quick(cpu, tmp_path), Fills()
    assert (tuner.loaded, tuner.damaged) == (1, 0)
    assert tuner.run(fills.set, stream, 4096, buffer, 1, policy="frozen") == winner
    assert fills.calls == {"inputs": 0, "whole": 0, "often": 0} | {winner: 1}
    # A choice of another version of the candidates does not count.
    with pytest.raises(ms.TuneError, match="tuning is frozen"):
        tuner.run(Fills(version=1).set, stream, 4096, buffer, 1, policy="frozen")
    tuner.forget(fills.set, 4096)
    tuner.save()
    assert quick(cpu, tmp_path).loaded == 0


def test_a_damaged_file_is_tuned_again(cpu: ms.Device, tmp_path: pathlib.Path) -> None:
    stream = cpu.stream()
    quick(cpu, tmp_path).run(Fills().set, stream, 4096, stream.zeros(4096, ms.f32), 1)
    (stored,) = tmp_path.glob("*.tune")
    lines = stored.read_bytes().splitlines(keepends=True)
    stored.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"often", b"after")]))
    tuner = quick(cpu, tmp_path)
    assert (tuner.loaded, tuner.damaged) == (0, 1)


def test_policies_for_keys_that_are_not_known(cpu: ms.Device) -> None:
    fills, tuner, stream = Fills(), quick(cpu), cpu.stream()
    buffer = stream.zeros(4096, ms.f32)
    policies: tuple[Literal["default", "frozen_default"], ...] = ("default", "frozen_default")
    for policy in policies:
        assert tuner.choose(fills.set, stream, 4096, buffer, 1, policy=policy) == "whole"
    with pytest.raises(ms.TuneError, match="was not tuned, and tuning is frozen"):
        tuner.run(fills.set, stream, 4096, buffer, 1, policy="frozen")
    assert set(fills.calls.values()) == {0}
    with pytest.raises(ms.ArgumentError, match="policy must be"):
        tuner.run(fills.set, stream, 4096, buffer, 1, policy="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ms.ArgumentError, match="must be a value of JSON"):
        tuner.run(fills.set, stream, object(), buffer, 1)


def test_candidates_that_fail_are_excluded(device: ms.Device, stream: ms.Stream) -> None:
    def raises(_stream: ms.Stream, _buffer: ms.Buffer) -> None:
        raise ValueError("no such way")

    def fails(stream: ms.Stream, buffer: ms.Buffer) -> None:
        token = ms.CancelToken()
        token.cancel()
        stream.with_cancel(token).fill(buffer, 1)

    def inputs(stream: ms.Stream, key: Any) -> tuple[Any, ...]:
        return (stream.zeros(key, ms.f32),)

    candidates = ms.TunableSet("few", inputs)
    candidates.add("raises", raises)
    candidates.add("fails", fails)
    buffer = stream.zeros(8, ms.f32)
    with pytest.raises(ms.TuneError, match="no candidate of `few` works .* `raises` ValueError: no such way") as raised:
        quick(device).run(candidates, stream, 8, buffer)
    assert isinstance(raised.value.__cause__, ValueError)

    @candidates.candidate
    def works(stream: ms.Stream, buffer: ms.Buffer) -> int:
        stream.fill(buffer, 3)
        return buffer.size

    tuner = quick(device)
    assert candidates.candidates == ("raises", "fails", "works") and works.__name__ == "works"
    assert tuner.run(candidates, stream, 8, buffer) == 8 and stream.read(buffer).wait()[0] == 3
    tuning = tuner.tuning(candidates, 8)
    assert tuning is not None and tuning.winner == "works"
    failures = {each.name: each.failure for each in tuning.candidates}
    assert failures["works"] is None and "no such way" in (failures["raises"] or "") and failures["fails"]
    with pytest.raises(ms.ArgumentError, match="has a candidate `works`"):
        candidates.candidate(works)


def test_inputs_that_fail_are_reported(cpu: ms.Device) -> None:
    def inputs(stream: ms.Stream, key: Any) -> tuple[Any, ...]:
        raise LookupError(f"no inputs for {key}")

    candidates = ms.TunableSet("none", inputs)

    def candidate(stream: ms.Stream) -> None:
        stream.zeros(1, ms.f32)

    for name in ("one", "other"):
        candidates.add(name, candidate)
    with pytest.raises(ms.TuneError, match="its inputs: LookupError: no inputs for 1"):
        quick(cpu).run(candidates, cpu.stream(), 1)


def test_an_interrupt_ends_a_tuning(cpu: ms.Device) -> None:
    calls: list[str] = []

    def interrupted(_stream: ms.Stream) -> None:
        calls.append("interrupted")
        raise KeyboardInterrupt

    candidates = ms.TunableSet("interrupted", lambda _stream, _key: ())
    candidates.add("first", interrupted)
    candidates.add("second", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quick(cpu).run(candidates, cpu.stream(), 1)
    assert calls == ["interrupted"]


def test_threads_share_a_tuning(cpu: ms.Device) -> None:
    fills, tuner = Fills(), quick(cpu)
    results: list[Any] = []

    def body() -> None:
        stream = cpu.stream()
        results.append(tuner.run(fills.set, stream, 4096, stream.zeros(4096, ms.f32), 1))

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1 and fills.calls["inputs"] == 1


def test_a_tuner_chooses_a_kernel(device: ms.Device, stream: ms.Stream) -> None:
    def step(x: ms.Update[ms.f32], n: ms.i64) -> None:
        i = ms.ir.index()
        with ms.ir.when(i < n):
            x[i] = x[i] + 1.0

    def inputs(stream: ms.Stream, key: Any) -> tuple[Any, ...]:
        return (stream.zeros(key, ms.f32),)

    def with_threads(threads: int) -> Callable[[ms.Stream, ms.Buffer], None]:
        prepared = device.kernel(ms.kernel(threads=threads)(step))

        def launch(stream: ms.Stream, x: ms.Buffer) -> None:
            stream.launch(prepared, ms.cover(x.size, threads), x, x.size)

        return launch

    widths = ms.TunableSet("widths", inputs)
    for threads in (32, 256):
        widths.add(f"{threads} threads", with_threads(threads))
    x = stream.zeros(300, ms.f32)
    # The trials run on other memory.
    quick(device).run(widths, stream, 300, x)
    assert np.asarray(x).tolist() == [1] * 300
