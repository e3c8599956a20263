"""The journal, as the terminals in a room show it."""

from __future__ import annotations

from collections.abc import Callable

from support.driver import Server


def test_entry_is_shown_once_to_its_author(serve: Callable[..., Server]) -> None:
    server = serve()
    ann, ben = server.person("ann"), server.person("ben", "member")
    hers, his = ann.sit(), ben.sit()
    hers.enter("/note --kind idea cache the route")
    his.wait_for("[idea] ann: cache the route")
    hers.wait_for("[idea] cache the route")
    hers.enter("/journal decision")
    hers.wait_for("is empty")
    assert "[idea] ann:" not in hers.text
