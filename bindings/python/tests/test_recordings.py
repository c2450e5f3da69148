"""Recordings: tasks that are checked once and replayed."""

from __future__ import annotations

import concurrent.futures

import millstream as ms
import numpy as np
import pytest
from millstream import ir


@ms.kernel
def saxpy(x: ms.Read[ms.f32], y: ms.Update[ms.f32], a: ms.f32, n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        y[i] = a * x[i] + y[i]


def test_a_recording_replays_with_its_own_buffers(device: ms.Device, stream: ms.Stream) -> None:
    prepared = device.kernel(saxpy)
    x, y = stream.create(np.ones(100, np.float32)), stream.zeros(100, ms.f32)
    recorder = stream.recorder()
    recorder.launch(prepared, 1, x, y, 2.0, 100)
    recorder.launch(prepared, 1, x, y, 1.0, 100)
    recording = recorder.finish()
    assert len(recording) == 2
    assert not stream.read(y).wait().any()
    for _ in range(3):
        stream.replay(recording)
    assert (stream.read(y).wait() == 9).all()
    with pytest.raises(ms.ArgumentError, match="the recorder is finished"):
        recorder.finish()


def test_parameters_and_scalars_change_from_replay_to_replay(device: ms.Device, stream: ms.Stream) -> None:
    prepared = device.kernel(saxpy)
    recorder = stream.recorder()
    source, target = recorder.parameter(100, ms.f32), recorder.parameter(100, ms.f32)
    unused = recorder.scalar(ms.u8)
    factor = recorder.scalar(ms.f32)
    temporary = recorder.empty(100, ms.f32)
    assert factor.dtype is ms.f32 and unused.dtype is ms.u8
    recorder.fill(temporary, 1.0)
    recorder.launch(prepared, 1, source, temporary, factor, 100)
    recorder.copy(temporary, target)
    recording = recorder.finish()
    for value in range(5):
        x = stream.create(np.full(100, value, np.float32))
        y = stream.empty(100, ms.f32)
        stream.replay(recording, {source: x, target: y}, {factor: 3.0, unused: 0})
        assert (stream.read(y).wait() == 3 * value + 1).all()


def test_a_recording_keeps_the_lengths_of_its_buffers(device: ms.Device, stream: ms.Stream) -> None:
    @ms.kernel
    def add(x: ms.Update2D[ms.i32], value: ms.i32) -> None:
        i, j = ms.position(2)
        if i < x.shape[0] and j < x.shape[1]:
            x[i, j] = x[i, j] + value

    recorder = stream.recorder()
    target, value = recorder.parameter((3, 4), ms.i32), recorder.scalar(ms.i32)
    recorder.launch(device.kernel(add), add.cover((3, 4)), target, value)
    recording = recorder.finish()
    for shape in ((3, 4), (5, 4)):
        x = stream.zeros(shape, ms.i32)
        stream.replay(recording, {target: x}, {value: -7})
        assert (stream.read(x).wait()[:3] == -7).all() and not stream.read(x).wait()[3:].any()


def test_replays_are_checked(device: ms.Device, stream: ms.Stream) -> None:
    prepared = device.kernel(saxpy)
    recorder, other = stream.recorder(), stream.recorder()
    source, target = recorder.parameter(100, ms.f32), recorder.scratch(100, ms.f32)
    factor, foreign = recorder.scalar(ms.f32), other.scalar(ms.f32)
    with pytest.raises(ms.ArgumentError, match="belongs to another recorder"):
        recorder.launch(prepared, 1, source, target, foreign, 100)
    with pytest.raises(ms.ArgumentError, match="takes a number of i64, got a parameter of f32"):
        recorder.launch(prepared, 1, source, target, 1.0, factor)
    recorder.launch(prepared, 1, source, target, factor, 100)
    recording = recorder.finish()
    with pytest.raises(ms.ArgumentError, match="the recorder is finished"):
        recorder.scalar(ms.f32)
    x, y, small = stream.zeros(100, ms.f32), stream.zeros(100, ms.f32), stream.zeros(50, ms.f32)
    with pytest.raises(ms.ArgumentError, match="scalar parameter 0 has no value"):
        stream.replay(recording, {source: x, target: y})
    with pytest.raises(ms.ArgumentError, match="belongs to another recording"):
        stream.replay(recording, {source: x, target: y}, {foreign: 1.0})
    with pytest.raises(ms.ArgumentError, match="parameter"):
        stream.replay(recording, {source: x}, {factor: 1.0})
    with pytest.raises(ms.ArgumentError, match="parameter"):
        stream.replay(recording, {source: x, target: small}, {factor: 1.0})
    with pytest.raises(ms.ArgumentError, match="no recorded task uses"):
        stream.replay(recording, {x: y}, {factor: 1.0})
    # A parameter has no memory outside of a recording.
    with pytest.raises(ms.TaskFailed, match="a parameter of a recording has no memory"):
        stream.read(source).wait()


def test_threads_replay_one_recording(device: ms.Device) -> None:
    stream = device.stream()
    prepared = device.kernel(saxpy)
    recorder = stream.recorder()
    source, target = recorder.parameter(64, ms.f32), recorder.parameter(64, ms.f32)
    recorder.launch(prepared, 1, source, target, 1.0, 64)
    recording = recorder.finish()

    def body(number: int) -> bool:
        own = device.stream()
        x, y = own.create(np.full(64, number, np.float32)), own.zeros(64, ms.f32)
        for _ in range(30):
            own.replay(recording, {source: x, target: y})
        return bool((own.read(y).wait() == 30 * number).all())

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(body, range(8)))
