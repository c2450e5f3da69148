"""Requests, refusals, failures and cancelling, with two actors on one node."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
import pytest
from conftest import LIMIT
from millstream.ray import Answer, Busy, Pool
from services import ray

Numbers = Callable[[], int]
cloudpickle: Any = importlib.import_module("ray.cloudpickle")
# More than Ray sends within the message.
LARGE = 1 << 18


def copy_of(pool: Pool) -> Pool:
    """The pool as another task or actor of Ray receives it."""
    copied: Pool = cloudpickle.loads(cloudpickle.dumps(pool))
    return copied


def until(condition: Callable[[], object]) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "the condition does not come true"
        time.sleep(0.02)


def test_requests_are_answered_to_threads_and_tasks(pool: Pool) -> None:
    x = np.arange(1000, dtype=np.float32)
    assert np.array_equal(pool.request("double", x).wait(LIMIT), 2 * x)
    answers = [pool.request("double", x + number) for number in range(8)]
    for number, answer in enumerate(answers):
        assert np.array_equal(answer.wait(LIMIT), 2 * (x + number))
        assert answer.wait(0) is answer.wait(0), "an answer stays"

    async def main() -> list[Any]:
        return await asyncio.gather(*(pool.request("double", x=x + number) for number in range(8)))

    for number, found in enumerate(asyncio.run(main())):
        assert np.array_equal(found, 2 * (x + number))


def test_requests_are_spread(pool: Pool) -> None:
    rounds = [[pool.request("pid") for _ in range(2)] for _ in range(1)]
    assert len({answer.wait(LIMIT) for answer in rounds[0]}) == 2


def test_large_arrays_are_read_in_the_object_store(pool: Pool) -> None:
    for x in (np.ones(LARGE, np.float32), ray.put(np.ones(LARGE, np.float32))):
        mapped, is_writable = pool.request("received", x).wait(LIMIT)
        assert "plasma" in mapped and not is_writable
        assert pool.request("held", x, copy=False).wait(LIMIT) is True
        assert pool.request("held", x, copy=True).wait(LIMIT) is False
    answer = pool.request("double", np.ones(LARGE, np.float32)).wait(LIMIT)
    assert not answer.flags.writeable and (answer == 2).all()


def test_the_device_keeps_an_argument_until_it_has_read_it(pool: Pool) -> None:
    alone = copy_of(Pool(pool._actors[:1]))  # pyright: ignore[reportPrivateUsage]
    alone.request("keep", np.full(LARGE, 3, np.float32)).wait(LIMIT)
    # Twice as much as the store holds: what is not in use is evicted, and its memory is reused.
    for _ in range(8):
        ray.put(np.zeros(50 << 20, np.uint8))
    assert alone.request("kept_sum").wait(LIMIT) == 3 * LARGE


def test_full_actors_refuse_by_a_value(pool: Pool, log: Path, numbers: Numbers, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    admitted = [numbers() for _ in range(8)]
    answers = [pool.request("gated", number, gate) for number in admitted]
    with pytest.raises(Busy, match="each with 4 requests") as caught:
        pool.request("gated", numbers(), gate)
    assert isinstance(caught.value, ms.Busy)
    until(lambda: set(admitted) <= set(map(int, log.read_text().split())))

    # Another caller does not know of these requests: the actors themselves refuse.
    other, refused = copy_of(pool), [numbers() for _ in range(5)]
    for answer in [other.request("gated", number, gate) for number in refused]:
        with pytest.raises(Busy, match="works on 4 requests") as caught:
            answer.wait(LIMIT)
        assert (caught.value.in_flight, caught.value.limit) == (4, 4)
    assert [each.in_flight for each in pool.health(LIMIT)] == [4, 4]
    gate.touch()
    assert [answer.wait(LIMIT) for answer in answers] == admitted
    assert not set(refused) & set(map(int, log.read_text().split()))
    assert other.request("gated", numbers(), gate).wait(LIMIT)


def test_a_request_goes_to_the_actor_that_has_room(pool: Pool, numbers: Numbers, tmp_path: Path) -> None:
    gate, other = tmp_path / "gate", copy_of(pool)
    first = Pool(pool._actors[:1])  # pyright: ignore[reportPrivateUsage]
    answers = [first.request("gated", numbers(), gate) for _ in range(4)]
    until(lambda: pool.health(LIMIT)[0].in_flight == 4)
    # Whichever of both this is sent to first.
    for _ in range(4):
        assert other.request("pid").wait(LIMIT) == pool.health(LIMIT)[1].pid
    gate.touch()
    for answer in answers:
        answer.wait(LIMIT)


def test_failures_are_those_of_the_actor(pool: Pool) -> None:
    with pytest.raises(ms.TaskFailed, match="deadline") as caught:
        pool.request("fail").wait(LIMIT)
    # Exactly this class, with its attributes and its chain, as in one process.
    assert type(caught.value) is ms.DeadlinePassed and caught.value.task == "copy"
    assert isinstance(caught.value.__cause__, ms.DeadlinePassed) and caught.value.__cause__.task == "fill"
    assert "raised by `fail` in its actor" in caught.value.__notes__[0]
    with pytest.raises(ms.ArgumentError, match="has no method `missing`"):
        pool.request("missing").wait(LIMIT)
    with pytest.raises(ms.ArgumentError, match="has no method `_write`"):
        pool.request("_write", 1).wait(LIMIT)
    with pytest.raises(TypeError, match="unexpected keyword"):
        pool.request("pid", nothing=1).wait(LIMIT)


def test_a_wait_ends_in_time_and_the_request_goes_on(pool: Pool, numbers: Numbers, tmp_path: Path) -> None:
    gate, number = tmp_path / "gate", numbers()
    answer = pool.request("gated", number, gate)
    with pytest.raises(ms.WaitTimeout, match="`gated` was not answered in 0.01 s"):
        answer.wait(0.01)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(answer.wait(LIMIT))) for _ in range(3)]
    for thread in threads:
        thread.start()
    gate.touch()
    for thread in threads:
        thread.join()
    assert found == [number] * 3


def test_cancelling_reaches_the_method(pool: Pool, log: Path, tmp_path: Path) -> None:
    gate = tmp_path / "cancelled"

    async def main() -> None:
        task = asyncio.ensure_future(wrapped(pool.request("cancelled", gate)))
        while "-1" not in log.read_text().split():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def wrapped(answer: Answer[Any]) -> Any:
        return await answer

    asyncio.run(main())
    until(gate.exists)
    gate.unlink()
    answer = pool.request("cancelled", gate)
    until(lambda: log.read_text().split().count("-1") == 2)
    answer.cancel()
    with pytest.raises(ms.TaskCancelled, match="`cancelled` was cancelled"):
        answer.wait(LIMIT)
    until(lambda: sum(each.in_flight for each in pool.health(LIMIT)) == 0)


def test_a_pool_needs_actors() -> None:
    with pytest.raises(ms.ArgumentError, match="needs an actor"):
        Pool([])
