"""Failures travel with the data, and exceptions have the chain of their causes."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
import pytest
from millstream import ir

# `python -c` imports from its folder first, so it must not be the one with the sources of the package.
FOLDER = Path(__file__).parent


@ms.kernel
def copy_one(source: ms.Read[ms.f32], target: ms.Update[ms.f32]) -> None:
    with ir.when(ir.index() == 0):
        target[0] = source[0]


def test_a_failure_travels_with_its_data_and_heals() -> None:
    with ms.Device("sim", memory_limit=1 << 20) as device:
        stream = device.stream()
        prepared = device.kernel(copy_one)
        # The device finds that it has no memory only when it reaches the second reservation.
        kept, lost = stream.zeros(150_000, ms.f32), stream.empty(150_000, ms.f32)
        first, second = stream.zeros(1, ms.f32), stream.zeros(1, ms.f32)
        stream.launch(prepared, 1, lost, first)
        stream.launch(prepared, 1, first, second)
        with pytest.raises(ms.TaskFailed) as caught:
            stream.read(second).wait()
        failed = caught.value
        assert isinstance(failed, ms.TaskOutOfMemory) and isinstance(failed, ms.OutOfMemory)
        assert failed.reason == "out of memory" and failed.task == "copy_one"
        chain: list[str] = []
        cause: BaseException | None = failed
        while isinstance(cause, ms.TaskFailed):
            chain.append(cause.task)
            cause = cause.__cause__
        assert chain == ["copy_one", "copy_one", "reserve"]
        assert cause is None
        assert not stream.read(kept).wait().any()
        stream.fill(second, 4.0)
        assert stream.read(second).wait().tolist() == [4.0]


def test_an_answer_keeps_its_exception() -> None:
    with ms.Device("sim", memory_limit=1 << 20) as device:
        stream = device.stream()
        kept = stream.zeros(150_000, ms.f32)
        pending = stream.read(stream.empty(150_000, ms.f32))
        with pytest.raises(ms.TaskOutOfMemory) as first:
            pending.wait()
        with pytest.raises(ms.TaskOutOfMemory) as second:
            pending.result()
        assert pending.done() and kept.unique
        # Each is an exception of its own, so no traceback grows.
        assert first.value is not second.value and str(first.value) == str(second.value)
        assert len(first.traceback) == len(second.traceback) == 1


def test_accesses_out_of_bounds_fail_their_task(cpu: ms.Device) -> None:
    @ms.kernel
    def beyond(x: ms.Update[ms.f32]) -> None:
        x[ir.index() + 100] = 1.0

    stream = cpu.stream()
    x = stream.zeros(10, ms.f32)
    stream.launch(cpu.kernel(beyond), 1, x)
    with pytest.raises(ms.TaskFailed, match="`beyond` failed") as caught:
        stream.read(x).wait()
    failed = caught.value
    assert failed.task == "beyond" and failed.reason == "panicked" and failed.partial and failed.__cause__ is None


def test_cancelled_tasks_do_not_run(cpu: ms.Device) -> None:
    token = ms.CancelToken()
    stream = cpu.stream()
    x = stream.zeros(4, ms.f32)
    token.cancel()
    assert token.cancelled
    stream.with_cancel(token).fill(x, 1.0)
    with pytest.raises(ms.TaskCancelled, match="it was cancelled") as caught:
        stream.read(x).wait()
    assert caught.value.reason == "cancelled"
    assert token.tally()["withdrawn"] == 1


def test_deadlines_withdraw_tasks(cpu: ms.Device) -> None:
    stream = cpu.stream()
    x = stream.zeros(4, ms.f32)
    stream.with_deadline(0.0).fill(x, 1.0)
    with pytest.raises(ms.DeadlinePassed) as caught:
        stream.read(x).wait()
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(ms.ArgumentError, match="no deadline"):
        stream.with_deadline(float("nan"))
    late = stream.with_deadline(3600.0)
    late.fill(x, 2.0)
    assert stream.read(x).wait().tolist() == [2.0] * 4


@ms.kernel(threads=1)
def slow(x: ms.Update[ms.f32], times: ms.i64) -> None:
    total = ir.var(0.0, ms.f32)
    for i in ir.range(times):
        total.set(total.get() + ir.sqrt(ir.cast(i, ms.f32)))
    x[0] = total.get()


def test_a_wait_ends_in_time_and_can_be_repeated(cpu: ms.Device) -> None:
    stream = cpu.stream()
    x = stream.zeros(1, ms.f32)
    stream.launch(cpu.kernel(slow), 1, x, 400_000)
    pending = stream.read(x)
    start = time.monotonic()
    with pytest.raises(ms.WaitTimeout) as caught:
        pending.wait(timeout=0.02)
    assert time.monotonic() - start < 0.5 and isinstance(caught.value, TimeoutError)
    with pytest.raises(ms.WaitTimeout):
        pending.result()
    assert not pending.done()
    assert pending.wait()[0] > 0


def test_exceptions_can_be_pickled() -> None:
    error = ms.TaskFailed("text")
    error.task = "blur"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "text" and again.task == "blur"


def test_a_pickled_failure_keeps_its_causes() -> None:
    error, cause = ms.TaskFailed("outer"), ms.TaskOutOfMemory("inner")
    error.__cause__, error.task, cause.partial = cause, "blur", True
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ms.TaskFailed) and again.task == "blur" and again.__suppress_context__
    inner = again.__cause__
    assert isinstance(inner, ms.TaskOutOfMemory) and str(inner) == "inner" and inner.partial


def run_script(text: str, interrupt_after: str) -> tuple[int, str]:
    """Runs a program, and sends it Ctrl-C once it has printed a line."""
    program = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=FOLDER,
        # A shell starts programs in the background with the signal ignored, which they would inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line.strip() == interrupt_after, line + program.stdout.read()
    time.sleep(0.2)
    program.send_signal(signal.SIGINT)
    output, _ = program.communicate(timeout=60)
    return program.returncode, output


SLOW = """
    import time
    import millstream as ms
    from millstream import ir

    @ms.kernel(threads=1)
    def slow(x: ms.Update[ms.f32], times: ms.i64) -> None:
        total = ir.var(0.0, ms.f32)
        for i in ir.range(times):
            total.set(total.get() + ir.sqrt(ir.cast(i, ms.f32)))
        x[0] = total.get()

    device = ms.Device("cpu")
    stream = device.stream()
    x = stream.zeros(1, ms.f32)
    slow = device.kernel(slow)
"""


def test_ctrl_c_ends_a_wait() -> None:
    text = SLOW + """
    stream.launch(slow, 1, x, 4_000_000)
    pending = stream.read(x)
    print("waits")
    try:
        pending.wait()
    except KeyboardInterrupt:
        print("interrupted", pending.done(), flush=True)
    import os
    os._exit(3)
    """
    code, output = run_script(text, "waits")
    assert code == 3 and output.strip() == "interrupted False"


def test_ctrl_c_ends_a_wait_for_room() -> None:
    text = SLOW + """
    small = device.client(max_tasks=4).stream()
    for _ in range(600):
        small.launch(slow, 1, x, 400_000) if _ else print("submits")
    """
    code, output = run_script(text.replace("device = ms.Device(\"cpu\")", "device = ms.Device(\"cpu\", max_in_flight=2)"), "submits")
    assert code != 0 and "KeyboardInterrupt" in output


def test_a_program_may_end_with_work_in_flight() -> None:
    text = SLOW + """
    stream.launch(slow, 1, x, 100_000)
    future = stream.read(x).future()
    """
    program = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], timeout=60, capture_output=True, text=True, cwd=FOLDER
    )
    assert program.returncode == 0 and program.stderr == ""


def test_a_destructor_may_wait_for_the_answer_that_drops_it_i8(device: ms.Device) -> None:
    class Out(np.ndarray[Any, np.dtype[Any]]):
        """The failed answer has the last reference to it."""

        def __del__(self) -> None:
            try:
                pending.wait(timeout=60)
            except ms.Error as error:
                seen.append(error)

    stream, token = device.stream(), ms.CancelToken()
    token.cancel()
    buffer = stream.zeros(4, ms.f32)
    stream.with_cancel(token).fill(buffer, 1)
    seen: list[ms.Error] = []
    pending = stream.read(buffer, out=np.empty(4, np.float32).view(Out))
    stream.sync().wait()
    while not seen:
        # Any call releases memory that the runtime has finished with.
        assert pending.done()
    assert len(seen) == 1 and isinstance(seen[0], ms.TaskCancelled)
    stream.fill(buffer, 1)
