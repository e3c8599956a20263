"""Rate limits, by a clock that the test moves."""

from __future__ import annotations

import pytest

from sshwarma.common.rate_limit import KeyedTokenBuckets, SlidingWindow, TokenBucket
from support.waiting import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_sliding_window_counts_per_key_and_returns_the_wait(clock: Clock) -> None:
    window = SlidingWindow(2, 10, max_keys=100, clock=clock)
    assert window.hit("a") == 0
    clock.now += 4
    assert window.hit("a") == 0
    assert window.hit("a") == 6
    assert window.hit("b") == 0
    clock.now += 6
    assert window.hit("a") == 0
    assert window.hit("a") == 4


def test_rejected_hits_are_not_counted(clock: Clock) -> None:
    window = SlidingWindow(1, 10, max_keys=100, clock=clock)
    assert window.hit() == 0
    for _ in range(50):
        clock.now += 0.1
        assert window.hit() > 0
    clock.now = 1_010.0
    assert window.hit() == 0


def test_limit_of_zero_rejects_everything(clock: Clock) -> None:
    window = SlidingWindow(0, 10, max_keys=100, clock=clock)
    assert window.hit() == 10
    clock.now += 100
    assert window.hit() == 10


def test_sliding_window_evicts_the_least_recently_used_key(clock: Clock) -> None:
    window = SlidingWindow(1, 10, max_keys=2, clock=clock)
    window.hit("a")
    window.hit("b")
    assert window.hit("a") > 0
    window.hit("c")
    assert len(window) == 2
    assert window.hit("a") > 0
    assert window.hit("b") == 0


def test_token_bucket_allows_a_burst_and_then_its_rate(clock: Clock) -> None:
    bucket = TokenBucket(rate=4, burst=16, clock=clock)
    assert [bucket.take() for _ in range(16)] == [0] * 16
    assert bucket.take() == 0.25
    assert bucket.take() == 0.5
    clock.now += 0.5
    assert bucket.take() == 0.25
    clock.now += 1_000
    assert bucket.take(16) == 0
    assert bucket.take(2) == 0.5


def test_try_take_incurs_no_debt(clock: Clock) -> None:
    bucket = TokenBucket(rate=10, burst=2, clock=clock)
    assert bucket.try_take() and bucket.try_take()
    assert not any(bucket.try_take() for _ in range(100))
    clock.now += 0.1
    assert bucket.try_take()
    assert not bucket.try_take()


def test_keyed_buckets_are_separate_and_the_least_recently_used_is_forgotten(clock: Clock) -> None:
    buckets = KeyedTokenBuckets(2, clock)
    for key in ("amber", "birch"):
        assert buckets.get(key, 1, 3).try_take(3)
    assert not buckets.get("amber", 1, 3).try_take()
    assert buckets.get("cedar", 1, 3).try_take(3)
    assert len(buckets) == 2
    assert not buckets.get("amber", 1, 3).try_take()
    assert buckets.get("birch", 1, 3).try_take(3)
