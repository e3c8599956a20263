"""Models that say what a test sets, reply by reply, when the test lets them."""

from __future__ import annotations

import contextlib
import json
import queue
from collections.abc import Iterator
from threading import Event
from typing import Any, TypeAlias

from support.driver.model import Asked, Model

SECONDS = 30.0
"""The longest a reply waits to be there, or to be let go on."""

Call: TypeAlias = tuple[str, dict[str, Any]]


class Script:
    """What each of some models says to one request after another."""

    def __init__(self, *names: str) -> None:
        self._replies: dict[str, queue.Queue[tuple[str | Event | list[Call], ...]]] = {
            name: queue.Queue() for name in names
        }
        self.model = Model(self._answer)

    def will(self, name: str, *reply: str | Event | list[Call]) -> None:
        """Set a model's next reply.

        Texts are sent one by one, an Event is waited for, and a list of tool calls, by their names,
        is sent as such.
        """
        self._replies[name].put(reply)

    @property
    def settings(self) -> str:
        """The setting that gives a server these models."""
        return json.dumps([{**self.model.settings(name), "model": name} for name in self._replies])

    def _answer(self, asked: Asked) -> Iterator[str | dict[str, Any]]:
        for part in self._replies[asked["model"]].get(timeout=SECONDS):
            if isinstance(part, Event):
                part.wait(SECONDS)
            elif isinstance(part, str):
                yield part
            else:
                yield from ({"name": name, "arguments": given} for name, given in part)


@contextlib.contextmanager
def speaking(*names: str) -> Iterator[Script]:
    """Models of these names while a test runs."""
    script = Script(*names)
    try:
        yield script
    finally:
        script.model.close()
