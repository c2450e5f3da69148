"""Profiles, timelines, submission logs, and a lost device that is reopened."""

from __future__ import annotations

import json
import pathlib
import threading
from typing import Any

import millstream as ms
import numpy as np
import pytest
from millstream import ir


@ms.kernel
def double(x: ms.Update[ms.f32], n: ms.i64) -> None:
    i = ir.index()
    with ir.when(i < n):
        x[i] = 2.0 * x[i]


def test_a_profile_has_the_tasks_of_its_block(device: ms.Device, stream: ms.Stream) -> None:
    kernel = device.kernel(double)
    buffer = stream.create(np.ones(1000, np.float32))
    with stream.profile() as scope:
        for _ in range(3):
            stream.launch(kernel, ms.cover(1000), buffer, 1000)
        stream.fill(buffer, 0)
        device.stream().zeros(10, ms.f32)
    stream.fill(buffer, 1)
    profile = scope.end().wait()
    assert profile is scope.end().wait()
    launches, fills = profile.kernel("double"), profile.kernel("fill")
    assert launches is not None and fills is not None and profile.kernel("copy") is None
    assert (profile.tasks, launches.tasks, fills.tasks, profile.failed) == (4, 3, 1, 0)
    assert 0 < launches.min_ns <= launches.mean_ns <= launches.max_ns <= launches.total_ns
    assert 0 < profile.busy_ns <= profile.elapsed_ns and profile.failure is None and not profile.is_cut
    assert "double" in str(profile) and profile.clock in str(profile)


def test_a_profile_is_plain_data(stream: ms.Stream) -> None:
    with stream.profile() as scope:
        stream.zeros(10, ms.f32)
    profile = scope.end().wait()
    data = json.loads(profile.to_json(indent=1))
    assert data == profile.to_dict() and data["kernels"][0]["name"] == "fill" and data["failure"] is None


def test_profiles_of_clients_and_devices_cover_their_streams(device: ms.Device) -> None:
    client = device.client(name="mine")
    of_device, of_client = device.profile(), client.profile()
    for owner in (client, client, device):
        owner.stream().zeros(10, ms.f32)
    assert of_client.end().wait().tasks == 2
    assert of_device.end().wait().tasks == 3
    # One that is dropped ends, and says nothing.
    del of_device
    device.profile()


def test_a_profile_has_the_failure_of_its_tasks(device: ms.Device, stream: ms.Stream) -> None:
    token = ms.CancelToken()
    token.cancel()
    buffer = stream.zeros(4, ms.f32)
    with stream.profile() as scope:
        stream.with_cancel(token).fill(buffer, 1)
    assert scope.end().wait().untimed == 1


def test_any_thread_ends_a_profile(stream: ms.Stream) -> None:
    scope = stream.profile()
    stream.zeros(10, ms.f32)
    found: list[ms.Profile] = []
    thread = threading.Thread(target=lambda: found.append(scope.end().wait()))
    thread.start()
    thread.join()
    assert [profile.tasks for profile in found] == [1]


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_a_timeline_has_the_times_of_tasks(backend: Any, tmp_path: pathlib.Path) -> None:
    with ms.Device(backend, trace=100) as device:
        stream = device.client(name="painter").stream()
        stream.fill(stream.empty(1000, ms.f32), 1)
        device.sync().wait()
        timeline = device.timeline()
        spans = timeline.spans
        assert len(timeline) == len(spans) == 1 and len(device.timeline()) == 0
        assert (spans[0].name, spans[0].client, spans[0].waits) == ("fill", "painter", ())
        assert 0 <= spans[0].start_ns <= spans[0].end_ns
        timeline.save(tmp_path / "timeline.json")
        text = (tmp_path / "timeline.json").read_text()
        assert text == timeline.to_json()
        events = json.loads(text)["traceEvents"]
        names = {event["name"] for event in events if event["ph"] == "X"}
        assert names == {"fill"}
        with pytest.raises(OSError):
            timeline.save(tmp_path / "none" / "timeline.json")


def logged_run(device: ms.Device) -> ms.SubmissionLog:
    stream = device.stream()
    buffer = stream.create(np.arange(4, dtype=np.float32))
    stream.launch(device.kernel(double), ms.cover(4), buffer, 4)
    stream.read(buffer).wait()
    log = device.take_log()
    stream.fill(buffer, 3)
    stream.read(buffer).wait()
    log.append(device.take_log())
    return log


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_a_log_is_submitted_again_on_another_device(backend: Any, tmp_path: pathlib.Path) -> None:
    with ms.Device(backend, log_submissions=1 << 20) as device:
        log = logged_run(device)
    assert log.complete and log.backend == backend and log.parts == (0, 1) and len(log) > 4 and log.nbytes > 16
    log.save(tmp_path / "run.mslog")
    again = ms.SubmissionLog.load(tmp_path / "run.mslog")
    assert again == log and ms.SubmissionLog.from_bytes(log.to_bytes()) == log
    with ms.Device("cpu") as device:
        with pytest.raises(ms.ReplayError, match="kernel `double`, which was not given"):
            device.resubmit(again)
        with pytest.raises(ms.ReplayError, match="tasks, more than the maximum of 1"):
            device.resubmit(again, [device.kernel(double)], max_tasks=1)
        first = device.resubmit(again, [device.kernel(double)])
        second = device.client().resubmit(again, [device.kernel(double)])
    values = [np.frombuffer(readback.data or b"", np.float32).tolist() for readback in first.readbacks]
    assert values == [[0, 2, 4, 6], [3, 3, 3, 3]]
    assert first == second and len(first.digest) == 16


def test_logs_that_cannot_be_used_say_why(device: ms.Device, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ms.Error, match="log_submissions"):
        device.take_log()
    with pytest.raises(FileNotFoundError):
        ms.SubmissionLog.load(tmp_path / "none")
    with pytest.raises(ms.LogError, match="not a submission log"):
        ms.SubmissionLog.from_bytes(b"no log at all")
    with ms.Device("cpu", log_submissions=1) as full:
        full.stream().zeros(1000, ms.f32)
        full.sync().wait()
        log = full.take_log()
        assert not log.complete
        with pytest.raises(ms.ReplayError, match="accept_cut"):
            device.resubmit(log)
        log.accept_cut()
        assert device.resubmit(log).readbacks == ()


def test_a_lost_device_is_reopened() -> None:
    with ms.Device("sim", lost_at_run=3) as device:
        client = device.client(name="survivor")
        answers: list[Any] = []
        while not answers:
            stream = client.stream()
            buffer = stream.create(np.ones(16, np.float32))
            try:
                for value in range(4):
                    stream.fill(buffer, value)
                answers.append(stream.read(buffer).wait())
            except ms.DeviceLost as lost:
                assert (lost.epoch, lost.same_process, device.health) == (0, True, "lost")
                assert device.reopen()["threads_left"] == 0
                assert device.health == "running"
                # What the lost epoch made stays lost.
                with pytest.raises(ms.DeviceLost):
                    stream.read(buffer).wait()
        assert answers[0].tolist() == [3] * 16
        with pytest.raises(ms.ReopenError, match="not lost, it is running"):
            device.reopen()
        assert device.violations() == []
    with pytest.raises(ms.ReopenError, match="closed; open another one"):
        device.reopen()


def test_an_array_outlives_the_loss_of_its_device() -> None:
    with ms.Device("sim", lost_at_run=3) as device:
        stream = device.stream()
        kept = np.from_dlpack(stream.create(np.arange(4.0)))
        with pytest.raises(ms.DeviceLost):
            for _ in range(3):
                stream.read(stream.zeros(4, ms.f32)).wait()
        device.reopen()
        seen = device.stream().zeros(4, ms.f64)
        assert np.asarray(seen).tolist() == [0] * 4 and kept.tolist() == [0, 1, 2, 3]
        del kept
        with pytest.raises(ms.DeviceLost):
            np.from_dlpack(stream.empty(4, ms.f32))


def test_other_backends_are_not_lost_on_request() -> None:
    with pytest.raises(ms.ArgumentError, match="no option `lost_at_run`"):
        ms.Device("cpu", lost_at_run=1)
