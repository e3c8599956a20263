"""What the audit keeps of a request that a verb has replaced."""

from __future__ import annotations

from sshwarma.world.audit import AuditFilter, read_audit
from support.people import Someone, alice, bob, qwen, world

__all__ = ["alice", "bob", "qwen", "world"]


async def test_replaced_line_replaces_named_arguments_too(alice: Someone) -> None:
    """As `/mcp login` and `/answer` do, whose arguments are secret at every door."""
    called = alice.caller.with_verb("mcp login", "/mcp login", {"address": "c0de"})
    await called.with_verb("mcp login", "/mcp login holler").change(lambda tx: None)
    await called.change(lambda tx: None)
    replaced, whole = await alice.world.store.read(lambda conn: read_audit(conn, AuditFilter(), 9))
    assert replaced.request == "/mcp login holler"
    assert whole.request == '/mcp login {"address": "c0de"}'
