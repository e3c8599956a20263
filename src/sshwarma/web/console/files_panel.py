"""The panel of a room's files: their tree, a search, and each file."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_CONSOLE_FILES, MAX_EDITED_BYTES, MAX_WORKSPACE_ENTRIES
from sshwarma.verbs.dispatch import check_may_change_files, invoke
from sshwarma.verbs.file_search import summarize_matches
from sshwarma.verbs.file_version_views import FileHistory
from sshwarma.verbs.file_views import FileList, FileListItem, FileText, format_size
from sshwarma.web.console.file_drawings import FileDrawings
from sshwarma.web.console.file_tree import build_tree, make_file_node
from sshwarma.web.console.file_version_pages import FileVersionPages, describe_version
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.kept_texts import list_kept, read_kept
from sshwarma.web.console.picture_drawings import PictureDrawings
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.room_page import RoomPages
from sshwarma.workspaces.languages import guess_language
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.glob_patterns import is_glob


class FilesPanel:
    """The panel `files`, and the pages of files in it."""

    def __init__(
        self, requests: ConsoleRequests, rooms: RoomPages, pictures: PictureDrawings
    ) -> None:
        self._requests = requests
        self._rooms = rooms
        self._drawings = FileDrawings(pictures)
        self._versions = FileVersionPages(requests)

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        show = self._requests.page(self._show)
        return [
            Route("/room/{room}/files", show),
            Route("/room/{room}/files/{path:path}", show),
        ]

    async def _show(self, request: Request) -> Response:
        """Show what the path and the query of an address ask for."""
        caller, _ = await self._requests.find_caller(request)
        path, query = request.path_params.get("path", ""), request.query_params
        at = query.get("at") or None
        if "download" in query:
            return await _download(caller, path, at)
        if since := query.get("changed-since"):
            return await self._show_change(caller, path, since)
        common = await self._describe_room(caller)
        name, values = await self._choose(caller, path, at, request)
        html = await asyncio.to_thread(self._requests.frames.render, name, **common | values)
        return await self._rooms.show_panel(request, caller, "files", html)

    async def _choose(
        self, caller: Caller, path: str, at: str | None, request: Request
    ) -> tuple[str, dict[str, Any]]:
        """Return the template that an address asks for, and what it shows."""
        query = request.query_params
        if "old" in query or "new" in query:
            return await self._versions.compare(caller, path, query)
        if "versions" in query:
            return await self._versions.list(caller, path, query)
        if version := query.get("version"):
            return await self._versions.show(caller, version)
        if pattern := query.get("search"):
            any_case = bool(query.get("any-case"))
            return await self._search(caller, path, pattern, any_case=any_case)
        if "edit" in query or query.get("make"):
            return await self._edit(caller, path or query.get("make", ""), query.get("join", ""))
        listed = await _list_files(caller)
        item = next((one for one in listed.files if one.path == path), None)
        is_folder = item is None and any(one.path.startswith(f"{path}/") for one in listed.files)
        if at is None and (not path or is_folder or (item is not None and item.kind == "folder")):
            return await _show_tree(caller, listed, path, query.get("match", ""))
        offset = max(1, read_number(query.get("offset")))
        return await self._show_file(caller, listed, path, at, offset, raw="raw" in query)

    async def _describe_room(self, caller: Caller) -> dict[str, Any]:
        """Return the room, and why its files may not be changed, or ""."""
        room, obstacle = await caller.room(), ""
        try:
            await check_may_change_files(caller)
        except WorldError as error:
            obstacle = error.message
        return {"room": room, "base": room_path(room.name, "files"), "obstacle": obstacle}

    async def _search(
        self, caller: Caller, path: str, pattern: str, *, any_case: bool
    ) -> tuple[str, dict[str, Any]]:
        arguments = {"pattern": f"(?i){pattern}" if any_case else pattern}
        found = await invoke(caller, "file search", arguments | ({"path": path} if path else {}))
        by_path: dict[str, list[Any]] = {}
        for match in found.matches:
            by_path.setdefault(match.path, []).append(match)
        return "file_search.html", {
            "pattern": pattern, "any_case": any_case, "path": path, "found": by_path,
            "summary": summarize_matches(found),
        }  # fmt: skip

    async def _show_file(
        self, caller: Caller, listed: FileList, path: str, at: str | None, offset: int, *, raw: bool
    ) -> tuple[str, dict[str, Any]]:
        arguments = {"path": path, "offset": offset} | ({"at": at} if at else {})
        text: FileText = await invoke(caller, "file show", arguments)
        last = await _find_last_change(caller, text.path) if at is None else ""
        item = next((one for one in listed.files if one.path == text.path), None)
        drawn = await self._drawings.draw(caller, text, at, raw=raw)
        return "file.html", {
            "file": text, "at": at, "drawn": drawn.html, "is_markdown": drawn.is_markdown,
            "raw": raw, "node": make_file_node(item) if item and at is None else None,
            "size": format_size(text.size),
            "last": last,
            "conflict": await self._find_conflict(caller, listed, text.path) if not at else None,
            "can_edit": text.kind == "text" and text.size <= MAX_EDITED_BYTES,
            "folder": text.path.rpartition("/")[0],
        }  # fmt: skip

    async def _find_conflict(
        self, caller: Caller, listed: FileList, path: str
    ) -> dict[str, Any] | None:
        """Return the two texts of a file that two people have changed at the same lines."""
        paths = {one.path for one in listed.files if one.kind != "folder"}
        kept = read_kept(caller, path, paths)
        if kept is None:
            others = list_kept(caller, path, paths)
            return {"kept": None, "others": others} if others else None
        differing = await invoke(caller, "file diff", {"path": kept.of, "other": path})
        diff = await self._requests.draw(caller, differing)
        other = await self._draw_other(caller, kept.of)
        return {"kept": kept, "diff": diff, "other": other}

    async def _draw_other(self, caller: Caller, path: str) -> Markup:
        text: FileText = await invoke(caller, "file show", {"path": path})
        return (await self._drawings.draw(caller, text, None, raw=True)).html

    async def _edit(self, caller: Caller, path: str, joined: str) -> tuple[str, dict[str, Any]]:
        """Return the editor of a text; that of a new file is empty.

        Args:
            caller: who edits it.
            path: the file.
            joined: a text that was kept beside it, to join with it; "" for none.
        """
        listed = await _list_files(caller)
        paths = {one.path for one in listed.files}
        is_new, content, problem = path not in paths, "", ""
        if not is_new:
            path, content, problem = await _read_text(caller, path, listed.version)
        kept, kept_content = None, ""
        if joined in paths and not problem:
            kept = read_kept(caller, joined, (path,))
        if kept is not None:
            _, kept_content, problem = await _read_text(caller, joined, listed.version)
        return "file_edit.html", {
            "path": path, "content": content, "version": listed.version or "", "is_new": is_new,
            "problem": problem, "language": guess_language(path) or "text",
            "kept": kept, "kept_content": kept_content, "joined": joined,
        }  # fmt: skip

    async def _show_change(self, caller: Caller, path: str, since: str) -> Response:
        """Say that a file has changed since a version; nothing if it has not."""
        differing = await invoke(caller, "file diff", {"path": path, "old": since})
        if not differing.count:
            return Response(status_code=204)
        change = differing.files[0].change
        by = await _find_last_change(caller, path)
        room = await caller.room()
        return self._requests.frames.show(
            "file_changed.html", room=room, path=path, since=since, change=change, by=by
        )


async def _read_text(caller: Caller, path: str, version: str | None) -> tuple[str, str, str]:
    """Return the path of a file, its text, and why it is not edited here, or ""."""
    shown: FileText = await invoke(caller, "file show", {"path": path, "limit": 1})
    if shown.kind == "binary":
        return shown.path, "", f"{shown.path} is a binary file."
    if shown.size > MAX_EDITED_BYTES:
        limit = f"of more than {MAX_EDITED_BYTES:,} bytes"
        return shown.path, "", f"{shown.path} is a text {limit}, which is not edited here."
    at = {"at": version} if version else {}
    data = await invoke(caller, "file get", {"path": shown.path} | at)
    return shown.path, decode_file(base64.b64decode(data.data)) or "", ""


async def _list_files(caller: Caller) -> FileList:
    """Return all files of the room, with who changed them."""
    listed: FileList = await invoke(caller, "files", {"n": MAX_WORKSPACE_ENTRIES, "who": True})
    return listed


async def _show_tree(
    caller: Caller, listed: FileList, folder: str, match: str
) -> tuple[str, dict[str, Any]]:
    """Return the tree of a folder, or of the files whose names match."""
    items: list[FileListItem] = [
        one for one in listed.files if not folder or one.path.startswith(f"{folder}/")
    ]
    if match:
        pattern = match if is_glob(match, has_sets=True) else f"*{match}*"
        found = await invoke(caller, "files", {"path": pattern, "n": MAX_WORKSPACE_ENTRIES})
        paths = {one.path for one in found.files}
        items = [one for one in items if one.path in paths]
    shown = items[:MAX_CONSOLE_FILES]
    return "files.html", {
        "listed": listed, "size": format_size(listed.size), "folder": folder, "match": match,
        "tree": build_tree(shown, folder), "left": len(items) - len(shown),
        "above": folder.rpartition("/")[0],
        "removed": [one for one in listed.removed if not folder or one.startswith(f"{folder}/")],
    }  # fmt: skip


async def _download(caller: Caller, path: str, at: str | None) -> Response:
    """Send the bytes of a file, which a browser stores and never shows."""
    arguments = {"path": path} | ({"at": at} if at else {})
    found = await invoke(replace(caller, wants_bytes=True), "file get", arguments)
    return FileResponse(
        found.blob,
        media_type="application/octet-stream",
        filename=found.path.rpartition("/")[2],
        headers={"ETag": f'"{found.sha256}"'},
    )


async def _find_last_change(caller: Caller, path: str) -> str:
    """Return who changed a file last, when and how; "" if nothing is known of it."""
    found: FileHistory = await invoke(caller, "file history", {"path": path, "n": 1})
    if not found.versions:
        return ""
    last = describe_version(caller, found.versions[0])
    return f"{last.by}, {last.at} ({last.source})"
