"""Rows that were rendered before, used by several threads."""

from __future__ import annotations

import threading

from sshwarma.wrap.layers import ContextMessage
from sshwarma.wrap.render_cache import PART_CHARACTERS, RenderCache


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    cache = RenderCache(max_characters=3 * (PART_CHARACTERS + 4))
    for name in ("a", "b", "a", "c"):
        cache.find(name).store(f"row of {name}", ContextMessage("user", "four"))
    cache.find("d").store("row of d", ContextMessage("user", "four"))
    assert "row of a" in cache.find("a").parts
    assert cache.find("b").parts == {}


def test_threads_count_what_is_held_and_no_more() -> None:
    cache = RenderCache(max_characters=50 * PART_CHARACTERS)

    def work(number: int) -> None:
        for row in range(2_000):
            cache.find(row % 7).store(f"{number}-{row}", None)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = sum(rows.characters for rows in cache._rows.values())
    assert cache._characters == held <= 50 * PART_CHARACTERS
