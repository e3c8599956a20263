"""Requests that are not in the words of their caller."""

from __future__ import annotations

from sshwarma.world.caller import Caller


def is_of_script(caller: Caller) -> bool:
    """Return whether a script or a custom command makes a request."""
    stack = caller.call_stack
    return caller.is_scripted or (stack is not None and stack.is_nested)
