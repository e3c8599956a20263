"""When frames are drawn."""

from __future__ import annotations

from sshwarma.terminal.clock import FRAME_SECONDS, MAX_DRAW_SECONDS, FrameClock
from support.terminal_person import ManualClockLoop


class Drawn:
    """Counts its frames; the first may fail."""

    def __init__(self, fails: bool = False) -> None:
        self.frames = 0
        self.fails = fails

    def frame(self) -> None:
        if self.fails:
            raise OSError("the writer is gone")
        self.frames += 1


def test_first_change_is_drawn_in_the_next_loop_turn(loop: ManualClockLoop) -> None:
    clock, screen = FrameClock(loop), Drawn()
    clock.request_frame(screen)
    assert screen.frames == 0
    loop.turn()
    assert screen.frames == 1


def test_further_changes_are_drawn_once_per_interval(loop: ManualClockLoop) -> None:
    clock, screen = FrameClock(loop), Drawn()
    for _ in range(100):
        clock.request_frame(screen)
        loop.advance(FRAME_SECONDS / 10)
    assert 10 <= screen.frames <= 12


def test_all_screens_share_one_timer(loop: ManualClockLoop) -> None:
    clock = FrameClock(loop)
    screens = [Drawn() for _ in range(200)]
    for _ in range(3):
        for screen in screens:
            clock.request_frame(screen)
        assert len(loop._ready) + len(loop._scheduled) == 1  # type: ignore[attr-defined]
        loop.advance()
    assert {screen.frames for screen in screens} == {3}


def test_failing_screen_is_reported_and_the_others_are_drawn(loop: ManualClockLoop) -> None:
    reported: list[object] = []
    loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    clock = FrameClock(loop)
    screens = [Drawn(fails=number == 2) for number in range(5)]
    for screen in screens:
        clock.request_frame(screen)
    loop.advance()
    loop.advance()
    assert [screen.frames for screen in screens] == [1, 1, 0, 1, 1]
    assert [type(error) for error in reported] == [OSError]


def test_forgotten_screen_is_not_drawn(loop: ManualClockLoop) -> None:
    clock, screen = FrameClock(loop), Drawn()
    clock.request_frame(screen)
    clock.forget(screen)
    loop.advance()
    assert screen.frames == 0


def test_slow_frames_are_spaced_further_apart(loop: ManualClockLoop) -> None:
    class Slow(Drawn):
        def frame(self) -> None:
            super().frame()
            loop.now += 2 * FRAME_SECONDS

    clock, screen = FrameClock(loop), Slow()
    for _ in range(100):
        clock.request_frame(screen)
        loop.advance(FRAME_SECONDS / 10)
    assert 2 <= screen.frames <= 5


def test_frames_that_take_long_are_spread_over_turns(loop: ManualClockLoop) -> None:
    """Between the turns keys are read."""

    class Slow(Drawn):
        def frame(self) -> None:
            super().frame()
            loop.now += MAX_DRAW_SECONDS / 2

    clock, screens = FrameClock(loop), [Slow() for _ in range(10)]
    for screen in screens:
        clock.request_frame(screen)
    drawn = []
    for _ in range(5):
        loop.turn()
        drawn.append(sum(screen.frames for screen in screens))
    assert drawn == [2, 4, 6, 8, 10]
