"""Fixtures: `loop`, with a clock moved by hand, and `sit`, a person's terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.terminal_person import ManualClockLoop, Person


@pytest.fixture
def loop() -> Iterator[ManualClockLoop]:
    hand = ManualClockLoop()
    yield hand
    hand.close()


@pytest.fixture
def sit(loop: ManualClockLoop) -> Callable[..., Person]:
    def seat(**options: object) -> Person:
        return Person(loop, **options)  # type: ignore[arg-type]

    return seat
