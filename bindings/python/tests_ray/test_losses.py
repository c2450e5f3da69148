"""Lost processes, devices and nodes: each request has one outcome, and runs at most once."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import millstream as ms
import numpy as np
import pytest
from conftest import LIMIT, Nodes
from millstream.ray import Answer, Busy, Pool, Withdrawn
from services import Service, lost_once

Numbers = Callable[[], int]


def until_answered(pool: Pool, method: str, accept: Callable[[object], bool] = lambda _: True) -> list[ms.Error]:
    """Sends requests until an answer is accepted. Returns the errors of those before."""
    errors: list[ms.Error] = []
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if accept(pool.request(method).wait(LIMIT)):
                return errors
        except (Busy, Withdrawn) as error:
            errors.append(error)
            time.sleep(0.05)
    raise AssertionError(f"no such answer; errors: {errors}")


def test_a_killed_actor_is_restarted_and_its_requests_are_withdrawn(
    pool: Pool, log: Path, numbers: Numbers, tmp_path: Path
) -> None:
    gate, sent = tmp_path / "gate", [numbers() for _ in range(4)]
    answers = [pool.request("gated", number, gate) for number in sent]
    ran: set[int] = set()
    while not set(sent) <= ran:
        ran = set(map(int, log.read_text().split()))
    killed = pool.request("end")
    with pytest.raises(Withdrawn, match="`end` has no answer, it may have run") as caught:
        killed.wait(LIMIT)
    assert caught.value.may_have_run and type(caught.value.__cause__).__module__ == "ray.exceptions"
    # A method that may run twice is sent to the other actor.
    gate.touch()
    outcomes: list[int | type[Exception]] = []
    for answer in answers:
        try:
            outcomes.append(answer.wait(LIMIT))
        except Withdrawn as error:
            assert error.may_have_run
            outcomes.append(Withdrawn)
    assert outcomes.count(Withdrawn) == 2, "those of one actor"
    for number in sent:
        assert log.read_text().split().count(str(number)) == 1, "a withdrawn request is not sent again"
    health = pool.wait_ready(LIMIT)
    assert sorted(each.restarted for each in health) == [False, True]
    back = next(each.pid for each in health if each.restarted)
    until_answered(pool, "pid", lambda pid: pid == back)


def test_an_idempotent_request_is_sent_to_another_actor(pool: Pool, numbers: Numbers, log: Path, tmp_path: Path) -> None:
    gate, number = tmp_path / "gate", numbers()
    # The other actor has room for the requests of the one that ends.
    answers = [pool.idempotent("gated", number, gate) for _ in range(2)]
    while log.read_text().split().count(str(number)) < 2:
        time.sleep(0.01)
    with pytest.raises(Withdrawn):
        pool.request("end").wait(LIMIT)
    gate.touch()
    assert [answer.wait(LIMIT) for answer in answers] == [number, number]
    assert log.read_text().split().count(str(number)) == 3
    pool.wait_ready(LIMIT)


def test_a_lost_device_restarts_its_actor(nodes: Nodes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    device = functools.partial(lost_once, tmp_path / "marker", 40)
    x = np.ones(16, np.float32)
    with Pool.start(Service, log, actors=1, device=device, max_requests=8) as pool:
        (before,) = pool.wait_ready(LIMIT)
        assert before.state == "running" and before.backend == "sim" and not before.restarted
        outcomes: list[object] = []
        sent = 0
        while not any(isinstance(each, Withdrawn) for each in outcomes):
            assert sent < 100, "the device is lost at its 40th task"
            answers: list[Answer[object]] = [pool.request("numbered", sent + more, x) for more in range(4)]
            sent += len(answers)
            for answer in answers:
                try:
                    outcomes.append(answer.wait(LIMIT))
                except Withdrawn as error:
                    outcomes.append(error)
        withdrawn = [each for each in outcomes if isinstance(each, Withdrawn)]
        causes = {type(each.__cause__).__name__ for each in withdrawn}
        assert causes & {"DeviceLost", "TaskFailed"}, causes
        ran = [int(line) for line in log.read_text().split()]
        assert len(ran) == len(set(ran)), "nothing ran twice"
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Withdrawn):
                assert outcome.may_have_run or number not in ran
            else:
                assert number in ran
        (after,) = pool.wait_ready(LIMIT)
        assert after.restarted and after.pid != before.pid
        until_answered(pool, "pid", lambda pid: pid == after.pid)
        assert pool.request("double", x).wait(LIMIT)[0] == 2
        # A close lets requests end.
        gate, number = tmp_path / "gate", sent
        answer = pool.request("gated", number, gate)
        while str(number) not in log.read_text().split():
            time.sleep(0.01)
        closing = threading.Thread(target=pool.close, args=(LIMIT,))
        closing.start()
        with pytest.raises(ms.DeviceClosed):
            until_answered(pool, "pid", lambda _: False)
        gate.touch()
        assert answer.wait(LIMIT) == number
        closing.join()
    with pytest.raises(ms.DeviceClosed, match="the pool was closed"):
        pool.request("pid")


def test_a_service_that_cannot_be_made_ends_its_pool(nodes: Nodes) -> None:
    with Pool.start(Service, actors=1) as pool:  # without its argument
        with pytest.raises(Withdrawn, match="missing 1 required positional argument: 'log'") as caught:
            pool.request("pid").wait(LIMIT)
        assert not caught.value.may_have_run
        with pytest.raises(ms.OpenError, match="missing 1 required positional argument: 'log'"):
            pool.wait_ready(LIMIT)
        end = time.monotonic() + LIMIT
        with pytest.raises(ms.DeviceClosed, match="all 1 actors of the pool have ended"):
            while time.monotonic() < end:
                try:
                    pool.request("pid").wait(LIMIT)
                except (Busy, Withdrawn):
                    time.sleep(0.02)
        assert [each.state for each in pool.health(LIMIT)] == ["ended"]


async def load(pool: Pool, count: int, answered: Callable[[int], None]) -> dict[int, object]:
    """Sends numbered requests from 8 tasks. Returns the outcome of each."""
    outcomes: dict[int, object] = {}
    numbers = iter(range(count))
    x = np.arange(64, dtype=np.float32)

    async def work() -> None:
        for number in numbers:
            try:
                found, array = await pool.request("numbered", number, x)
                assert found == number and np.array_equal(array, 2 * x)
                outcomes[number] = found
                answered(sum(isinstance(each, int) for each in outcomes.values()))
            except (Busy, Withdrawn) as error:
                outcomes[number] = error
                await asyncio.sleep(0.02)

    await asyncio.gather(*(work() for _ in range(8)))
    return outcomes


def check(outcomes: dict[int, object], count: int, log: Path) -> None:
    """Checks that each request has one outcome, and ran at most once, and exactly as its outcome says."""
    assert sorted(outcomes) == list(range(count)), "no request is lost"
    ran = [int(line) for line in log.read_text().split()]
    assert len(ran) == len(set(ran)), "no request ran twice"
    for number, outcome in outcomes.items():
        if isinstance(outcome, int):
            assert number in ran
        elif isinstance(outcome, Busy) or (isinstance(outcome, Withdrawn) and not outcome.may_have_run):
            assert number not in ran


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_pool_over_nodes(nodes: Nodes, count: int, tmp_path: Path) -> None:
    """One actor on each node. With 4 nodes, one is killed under load, and its actor starts again on a spare node."""
    nodes.grow(count)
    actors = count if count < 4 else 3
    log = tmp_path / "log"
    log.touch()
    with Pool.start(Service, log, actors=actors, max_requests=12, options={"num_gpus": 1}) as pool:
        before = pool.wait_ready(LIMIT)
        assert len({each.node for each in before}) == actors
        assert pool.request("gpus").wait(LIMIT) == "0", "Ray shows each actor the GPU that it has"
        victims = [each for each in before if each.node in [node.node_id for node in nodes.more]]
        total, gate = (200 if count == 4 else 64), tmp_path / "gate"
        # Two requests wait at each actor while the others come and go.
        waiting = {total + more: pool.request("gated", total + more, gate) for more in range(2 * actors)}
        while len(log.read_text().split()) < len(waiting):
            time.sleep(0.01)

        def answered(so_far: int) -> None:
            if count == 4 and so_far == 50:
                nodes.kill(victims[0].node, victims[0].pid)

        outcomes = asyncio.run(load(pool, total, answered))
        gate.touch()
        for number, answer in waiting.items():
            try:
                outcomes[number] = answer.wait(LIMIT)
            except Withdrawn as error:
                outcomes[number] = error
        check(outcomes, total + len(waiting), log)
        withdrawn = [each for number in waiting if isinstance(each := outcomes[number], Withdrawn)]
        if count < 4:
            assert all(isinstance(each, int) for each in outcomes.values())
        else:
            assert len(withdrawn) == 2 and all(each.may_have_run for each in withdrawn)
            after = pool.wait_ready(LIMIT)
            assert [each.restarted for each in after].count(True) == 1
            assert len({each.node for each in after}) == actors and victims[0].node not in {each.node for each in after}
            back = next(each.pid for each in after if each.restarted)
            until_answered(pool, "pid", lambda pid: pid == back)
