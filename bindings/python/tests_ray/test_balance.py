"""The choice of an actor, without Ray."""

from __future__ import annotations

from collections import Counter

from millstream.ray._balance import Balance, State


def test_requests_go_to_the_least_loaded_actor() -> None:
    balance = Balance(3, max_in_flight=4, seed=1)
    assert Counter(balance.choose() for _ in range(12)) == {0: 4, 1: 4, 2: 4}
    assert balance.choose() is None
    balance.finish(1, load=3)
    assert balance.choose() == 1


def test_ties_are_broken_at_random() -> None:
    first = {Balance(4, max_in_flight=1, seed=seed).choose() for seed in range(40)}
    assert first == {0, 1, 2, 3}


def test_requests_of_others_count_as_load_but_not_as_a_bound() -> None:
    balance = Balance(2, max_in_flight=2, seed=1)
    for _ in range(4):
        balance.choose()
    # Actor 0 works on 10 requests, of which one is ours; actor 1 on ours alone.
    balance.finish(0, load=11)
    balance.finish(1, load=1)
    assert balance.slots[0].others == 10 and balance.slots[1].others == 0
    assert balance.choose() == 1
    # The load of others is old news, so it does not bar an actor that has room for ours.
    assert balance.choose() == 0
    assert balance.choose() is None


def test_a_request_is_not_sent_to_an_actor_twice() -> None:
    balance = Balance(3, max_in_flight=4)
    tried: set[int] = set()
    while (index := balance.choose(tried)) is not None:
        assert index not in tried
        tried.add(index)
    assert tried == {0, 1, 2}


def test_an_actor_that_is_down_gets_one_probe_and_no_request() -> None:
    balance = Balance(2, max_in_flight=4)
    for _ in range(2):
        balance.choose()
    balance.finish(0, load=None)
    balance.lose(0)
    assert balance.choose() == 1 and balance.count(State.DOWN) == 1
    assert balance.to_probe() == [0] and balance.to_probe() == []
    balance.probed(0, State.UP)
    assert balance.choose() == 0 and balance.to_probe() == []


def test_an_actor_that_ended_stays_ended() -> None:
    balance = Balance(1, max_in_flight=4)
    balance.choose()
    balance.finish(0, load=None)
    balance.lose(0)
    assert balance.to_probe() == [0]
    balance.probed(0, State.ENDED)
    # The withdrawal of another request arrives late.
    balance.lose(0)
    assert balance.choose() is None and balance.to_probe() == [] and balance.count(State.ENDED) == 1
