"""`sshwarma info`: what a world contains, and what takes how much disk."""

from __future__ import annotations

from typing import Any, Final

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.printed_lines import align_columns
from sshwarma.common.units import MIB

SIZES: Final = (
    ("database", "database"),
    ("attachments", "  of it, images and other attachments"),
    ("unused", "  of it, unused: sshwarma vacuum"),
    ("log", "its log of new changes"),
    ("blobs", "files of rooms, all versions"),
    ("copies", "copies of the database, by upgrades and restores"),
    ("backups", "backups that the server makes"),
    ("models", "models that were downloaded"),
    ("mcp", "directories of MCP servers"),
    ("disk_free", "free on the disk"),
)


@click.command()
@with_invocation
def info(invocation: Invocation) -> int:
    """Show what the world contains, and what takes how much disk.

    With --json sizes are in bytes.
    """
    facts = invocation.operate("info")
    agents = ", ".join(f"{count} {kind}" for kind, count in sorted(facts["agents"].items()))
    counts = [
        ("version", f"{facts['version']}, schema {facts['schema']}"),
        ("agents", agents or "none"),
        ("rooms", f"{facts['rooms']}"),
        ("things", f"{facts['things']}"),
        *([("database", facts["database"])] if "database" in facts else []),
        ("rows of talk", f"{facts['rows']}"),
        ("rows of the audit", f"{facts['audit_rows']}"),
        ("attachments", f"{facts['attachments']}"),
    ]
    if facts.get("draining_until"):
        counts.append(("draining", f"restarts at {facts['draining_until']} at the latest"))
    return invocation.show(facts, *align_columns(counts), *_draw_sizes(facts["bytes"]))


def _draw_sizes(sizes: dict[str, Any]) -> list[str]:
    shown = [(f"{sizes[key] / MIB:,.1f} MiB", text) for key, text in SIZES if key in sizes]
    width = max(len(size) for size, _ in shown)
    return [f"{size:>{width}}  {text}" for size, text in shown]
