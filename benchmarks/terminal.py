"""Terminal cost: CPU per key and line above a prompt, memory per idle person.

    python -m benchmarks.terminal

Targets: under 50 us a key, under 20 us a line above the prompt, under 30 KiB a person, under 5 ms
an answer of a model.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Sequence
from time import process_time

from sshwarma.terminal.clock import FRAME_SECONDS, FrameClock
from sshwarma.terminal.completion import Candidate
from sshwarma.terminal.markdown import MAX_CACHED_TEXTS, highlight_newest_code, render_markdown
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.terminal import Terminal, TerminalCallbacks
from sshwarma.terminal.text import Block, block, line

PEOPLE = 200
COLUMNS = (80, 100, 120, 132, 203)  # widths of the terminals in a room
ROUNDS = 50


class ManualClockLoop(asyncio.SelectorEventLoop):
    """A loop with a manual clock, so that frames cost CPU and no waiting."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def advance(self) -> None:
        self.now += FRAME_SECONDS
        for _ in range(2):
            self.call_soon(self.stop)
            self.run_forever()


async def nothing(text: str, cursor: int) -> Sequence[Candidate]:
    return ()


def ignore(*_: object) -> None:
    """Do nothing, as a callback or writer."""


def seat(clock: FrameClock, columns: int) -> Terminal:
    terminal = Terminal(
        ignore,
        TerminalCallbacks(ignore, ignore, ignore, nothing),
        columns=columns,
        rows=40,
        clock=clock,
    )
    terminal.set_prompt(("prompt", "library> "))
    terminal.set_status(line("library  12 people"))
    terminal.start()
    return terminal


def microseconds(work: Callable[[], object], count: int) -> float:
    """Return the CPU time of `work` per item, in us: the best of three runs."""
    best = float("inf")
    for _ in range(3):
        start = process_time()
        work()
        best = min(best, process_time() - start)
    return best / count * 1e6


def answer(number: int) -> str:
    """Return about 4 KB of Markdown, a fifth of it code, like a model's answer."""
    words = "Here is a **bold** word, `some code`, and the rest of a sentence about it. " * 7
    items = "".join(f"- item {item} with a few words and `x`\n" for item in range(8))
    code = "".join(
        f"def f{line}(a: int, b: str = 'x') -> int:\n    return a + {line} * len(b)\n"
        for line in range(12)
    )
    table = "| a | b |\n|---|--:|\n" + "".join(f"| row {row} | {row} |\n" for row in range(8))
    fenced = f"```python\n{code}```"
    return "\n\n".join((f"# Answer {number}", words, items, fenced, words, table, words, words))


def said(number: int) -> Block:
    return block(
        line(("time", "12:03 "), ("name", "alice"), " ", ("text", f"line {number} said to all")),
    )


def keys(terminal: Terminal, typed: Sequence[bytes], loop: ManualClockLoop, clear: int) -> None:
    for number, key in enumerate(typed):
        if number % clear == 0:
            terminal.feed(b"\x05\x15")
        terminal.feed(key)
        loop.now += 0.001  # a thousand keys a second, under the limit


def main() -> None:
    loop = ManualClockLoop()
    clock = FrameClock(loop)
    alone = seat(clock, 80)
    measure_keys(alone, loop)
    measure_floods(alone, loop)
    alone.close()
    measure_people(clock, loop)
    measure_answers()
    measure_idle_terminals(clock, loop)
    loop.close()


def measure_keys(alone: Terminal, loop: ManualClockLoop) -> None:
    ascii_keys = [bytes([97 + number % 26]) for number in range(6000)]
    print(f"key, end of line, ASCII        {per_key(alone, ascii_keys, loop, 60):8.1f} us")
    print(f"key, end of line, wrapping     {per_key(alone, ascii_keys, loop, 400):8.1f} us")
    wide_keys = ["日本語한국"[number % 5].encode() for number in range(6000)]
    print(f"key, end of line, CJK          {per_key(alone, wide_keys, loop, 30):8.1f} us")
    middle = [b"\x1b[D" if number % 2 else b"x" for number in range(6000)]
    print(f"key, middle of line, ASCII     {per_key(alone, middle, loop, 60):8.1f} us")
    middle = [b"\x1b[D" if number % 2 else "語".encode() for number in range(6000)]
    print(f"key, middle of line, CJK       {per_key(alone, middle, loop, 60):8.1f} us")


def measure_floods(alone: Terminal, loop: ManualClockLoop) -> None:
    alone.feed(b"\x15")
    mebibyte = b"x" * 2**20

    def flood() -> None:
        for at in range(0, len(mebibyte), 32768):
            alone.feed(mebibyte[at : at + 32768])

    print(f"1 MiB without a newline        {microseconds(flood, 1) / 1000:8.1f} ms")
    arrows = b"\x1b[1;5D" * (2**20 // 6)

    def flood_keys() -> None:
        for at in range(0, len(arrows), 32768):
            alone.feed(arrows[at : at + 32768])

    loop.now += 10  # refill the burst limit
    start = process_time()
    flood_keys()
    print(f"1 MiB of arrow keys            {(process_time() - start) * 1000:8.1f} ms")


def measure_people(clock: FrameClock, loop: ManualClockLoop) -> None:
    people = [seat(clock, COLUMNS[number % len(COLUMNS)]) for number in range(PEOPLE)]
    for person in people:
        person.feed(b"half a line")
    loop.advance()

    def single() -> None:
        for number in range(ROUNDS):
            heard = said(number)
            for person in people:
                person.print(heard)
            loop.advance()

    def batched() -> None:
        for number in range(ROUNDS):
            for part in range(10):
                heard = said(number * 10 + part)
                for person in people:
                    person.print(heard)
            loop.advance()

    def streaming() -> None:
        for number in range(ROUNDS):
            reply = block(*[f"row {row} of {number}" for row in range(5)])
            for person in people:
                person.set_live_block("reply", reply)
            loop.advance()

    count = ROUNDS * PEOPLE
    one = microseconds(single, count)
    print(f"line above a prompt, single    {one:8.1f} us   {one * PEOPLE:8.0f} us for {PEOPLE}")
    many = microseconds(batched, count * 10)
    print(f"line above a prompt, batched   {many:8.1f} us   {many * PEOPLE:8.0f} us for {PEOPLE}")
    live = microseconds(streaming, count)
    print(f"live area redrawn              {live:8.1f} us   {live * PEOPLE:8.0f} us for {PEOPLE}")
    for person in people:
        person.close()


def measure_answers() -> None:
    start = process_time()
    highlight_newest_code(answer(0))
    print(f"code in an answer, first time  {(process_time() - start) * 1000:8.1f} ms in a thread")
    texts = [
        answer(number) for number in range(2 * MAX_CACHED_TEXTS)
    ]  # more texts than the cache holds, so that each is drawn again

    def draw() -> None:
        for text in texts:
            render_block(
                Block(tuple(render_markdown(("model", "qwen"), text=text))), DisplayOptions(80)
            )

    drawn = microseconds(draw, len(texts)) / 1000
    print(f"answer of {len(texts[0]) / 1000:.1f} kB, code cached    {drawn:8.1f} ms, once per room")


def measure_idle_terminals(clock: FrameClock, loop: ManualClockLoop) -> None:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    idle = [seat(clock, 80) for _ in range(PEOPLE)]
    for number in range(300):
        heard = said(number)
        for person in idle:
            person.print(heard)
        loop.advance()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"idle terminal                  {used / PEOPLE / 1024:8.1f} KiB (after 300 lines)")


def per_key(terminal: Terminal, typed: Sequence[bytes], loop: ManualClockLoop, clear: int) -> float:
    return microseconds(lambda: keys(terminal, typed, loop, clear), len(typed))


if __name__ == "__main__":
    main()
