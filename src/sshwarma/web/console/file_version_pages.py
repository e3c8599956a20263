"""Versions of a room's files: their list, one of them, the difference of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sshwarma.common.limits import (
    DEFAULT_LISTED_VERSIONS,
    MAX_CONSOLE_FILES,
    MAX_WORKSPACE_ENTRIES,
)
from sshwarma.common.shorten import join_with_rest
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.file_version_views import (
    FileHistory,
    FileVersionItem,
    describe_source,
    format_version_time,
)
from sshwarma.verbs.file_views import FileList, format_size
from sshwarma.web.console.file_tree import build_tree
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version in a list, in words."""

    id: str
    short: str
    at: str
    by: str
    source: str
    row: int | None
    changes: str


class FileVersionPages:
    """Each method returns the template of a page and what it shows."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    async def list(
        self, caller: Caller, path: str, query: Mapping[str, str]
    ) -> tuple[str, dict[str, Any]]:
        """List the versions of all files, or of one."""
        before = query.get("before")
        arguments = {"path": path} if path else {}
        arguments |= {"before": before} if before else {}
        found: FileHistory = await invoke(caller, "file history", arguments)
        versions = [describe_version(caller, one) for one in found.versions]
        return "file_versions.html", {
            "path": path, "versions": versions, "before": before,
            "has_more": len(versions) == DEFAULT_LISTED_VERSIONS,
        }  # fmt: skip

    async def show(self, caller: Caller, version: str) -> tuple[str, dict[str, Any]]:
        """Show a version with its files."""
        found = await invoke(caller, "file version", {"version": version})
        arguments = {"at": found.version.id, "n": MAX_WORKSPACE_ENTRIES}
        listed: FileList = await invoke(caller, "files", arguments)
        shown = listed.files[:MAX_CONSOLE_FILES]
        return "file_version.html", {
            "version": describe_version(caller, found.version), "parent": found.parent_id or "",
            "tree": build_tree(shown), "left": listed.count - len(shown), "listed": listed,
            "size": format_size(listed.size),
        }  # fmt: skip

    async def compare(
        self, caller: Caller, path: str, query: Mapping[str, str]
    ) -> tuple[str, dict[str, Any]]:
        """Show the difference of two versions, of all files or one."""
        given = {name: value for name in ("old", "new") if (value := query.get(name))}
        found = await invoke(caller, "file diff", given | ({"path": path} if path else {}))
        return "file_diff.html", {
            "path": path, "diff": await self._requests.draw(caller, found),
            "old": found.old, "new": found.new,
            "old_short": shorten_id(found.old), "new_short": shorten_id(found.new),
        }  # fmt: skip


def describe_version(caller: Caller, item: FileVersionItem) -> ListedVersion:
    """Return what a page says of a version."""
    named = [f"{item.changes[path]} {path}" for path in item.paths]
    changes = join_with_rest(named, len(named), total=item.changed) if named else "no change"
    if item.removed:
        changes = "removed"
    return ListedVersion(
        item.id,
        shorten_id(item.id),
        format_version_time(item.at),
        item.by,
        describe_source(item.source, item.source_ref, caller.reader.name_tool(item.tool)),
        item.row,
        changes,
    )
