"""Toolsets of a server: installing them, their folders, calls of their tools."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from sshwarma.common.limits import (
    MAX_TOOLSET_PRINTED_LINES,
    TOOLSET_CALL_SECONDS,
    TOOLSET_IMPORT_SECONDS,
)
from sshwarma.sandbox.profile import WORKSPACE
from sshwarma.sandbox.run import SandboxError
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.toolsets.archive import read_archive
from sshwarma.toolsets.bundle import Bundle, read_bundle
from sshwarma.toolsets.code_folders import CodeFolders
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.toolsets.records import (
    TREE_KEY,
    StoredFile,
    ToolInfo,
    check_toolset_id,
    install_toolset,
    list_toolsets,
    read_files,
)
from sshwarma.toolsets.render_plan import RenderContext, make_render_plan
from sshwarma.toolsets.worker_process import (
    TOOLSET_PATH,
    ToolsetCode,
    WorkerAnswer,
    WorkerError,
    WorkerTool,
    ask_worker,
)
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import RunFiles, WorkspaceRuns, describe_files, sandbox_user
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.ids import now_ms
from sshwarma.world.overrides import read_tool_override
from sshwarma.world.reader import Hint
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

DIRECTORY: Final = "toolsets"
"""In the data directory: the files of toolsets, by the hash of all of them."""


WORKER_STEPS: Final = ("imported", "context set", "called", "returned", "context cleared")
"""What a worker says that it did, in order."""

MAX_WORKER_STEPS: Final = 10
"""Steps that are kept of what a worker says."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A toolset that was imported: whether it is new, and how many tools it has."""

    id: str
    name: str
    version: str
    tools: int
    is_new: bool


class Toolsets(ToolProvider):
    """Installs toolsets, and carries out calls of their tools in sandboxes."""

    timeout_seconds = None  # each call has its own

    def __init__(self, world: World, runs: WorkspaceRuns, data_dir: Path) -> None:
        """Use a data directory, where the files of toolsets are copies of contents."""
        self._world = world
        self._runs = runs
        self._folders = CodeFolders(data_dir / DIRECTORY, runs.workspaces.blobs)
        self._installing = asyncio.Lock()

    @classmethod
    async def open(cls, world: World, runs: WorkspaceRuns, data_dir: Path) -> Toolsets:
        """Use a data directory; delete what a server that was killed has left there."""
        toolsets = cls(world, runs, data_dir)
        await toolsets.delete_old_folders()
        return toolsets

    async def delete_old_folders(self) -> None:
        """Delete the folders of toolsets that are not installed, and of old versions.

        Raises:
            OSError: if the disk fails.
        """
        spaces = await self._world.store.read(list_toolsets)
        await self._folders.delete_others(
            {(space.label, str(space.metadata.get(TREE_KEY, ""))) for space in spaces}
        )

    async def install(self, caller: Caller, archive: bytes, source: tuple[str, str]) -> Installed:
        """Install the toolset of a ZIP file, or upgrade the one that has its id.

        Args:
            caller: who installs it.
            archive: the file.
            source: its kind, `zip` or `local`, and where it is from.

        Raises:
            Invalid: if the file, its manifest or a tool is not as it must be; then nothing has
                changed.
            Unavailable: if there is no sandbox to look at the tools in.
        """
        bundle = await asyncio.to_thread(lambda: read_bundle(read_archive(archive)))
        manifest = bundle.manifest
        for field in ("mcp_servers", "requirements"):
            if getattr(manifest, field):
                raise Invalid(f"{field}: toolsets with them cannot be installed by this version.")
        files = {file.path: file.sha256 for file in bundle.files}
        tree = hash_files(files)

        def work(tx: Change) -> tuple[Thing, bool]:
            return install_toolset(tx, bundle, tools, tree=tree, source=source, by=caller.agent.id)

        async with self._installing:
            # Before anything of it is on the disk or runs.
            await self._world.store.read(lambda conn: check_toolset_id(conn, manifest.id))
            try:
                await asyncio.to_thread(self._store_contents, bundle)
                async with self._folders.use(manifest.id, tree, files) as folder:
                    tools = await self._inspect(caller, bundle, folder)
                    _, is_new = await caller.change(work)
            finally:
                await asyncio.shield(self.delete_old_folders())
        return Installed(manifest.id, manifest.name, manifest.version, len(tools), is_new)

    def _store_contents(self, bundle: Bundle) -> None:
        """Store the contents of a bundle, on the disk."""
        blobs = self._runs.workspaces.blobs
        for content in bundle.contents.values():
            blobs.store(content)
        blobs.sync()

    async def _inspect(self, caller: Caller, bundle: Bundle, folder: Path) -> list[ToolInfo]:
        """Let a worker describe the tools, in a sandbox without files of a room.

        Raises:
            Invalid: if one cannot be imported or described.
            Unavailable: if there is no sandbox.
        """
        manifest = bundle.manifest
        tools = tuple(
            WorkerTool(
                tool.id,
                bundle.entrypoints[tool.id].module,
                bundle.entrypoints[tool.id].path,
                bundle.entrypoints[tool.id].function,
                tool.input_schema,
            )
            for tool in manifest.tools
        )
        code = ToolsetCode(manifest.id, manifest.version, folder, tools)
        try:
            answer = await ask_worker(
                self._runs.sandbox,
                code,
                None,
                "",
                "tools/list",
                {},
                TOOLSET_IMPORT_SECONDS,
                sandbox_user(caller),
            )
        except SandboxError as error:
            raise _no_sandbox_error(error) from error
        except WorkerError as error:
            raise Invalid(f"The tools of {manifest.id} cannot be read: {error}.") from error
        except TimeoutError:
            seconds = f"{TOOLSET_IMPORT_SECONDS:.0f} s"
            raise Invalid(f"The tools of {manifest.id} cannot be read in {seconds}.") from None
        return [_read_info(bundle, listed) for listed in _read_list(answer)]

    @override
    def why_unavailable(self, tool: Thing) -> str:
        obstacle = self._runs.sandbox.obstacle
        return "" if obstacle is None else obstacle.reason

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        obstacle = self._runs.sandbox.obstacle
        return "" if obstacle is None else f"An administrator can {obstacle.remedy}."

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        steps: list[tuple[str, int]] = []

        async def work(folder: Path) -> WorkerAnswer | WorkerError | TimeoutError:
            steps.append(("workspace materialized", now_ms()))
            try:
                return await ask_worker(
                    self._runs.sandbox, code, folder, caller.room_id, "tools/call",
                    {"name": tool.name, "arguments": arguments}, TOOLSET_CALL_SECONDS,
                    sandbox_user(caller),
                )  # fmt: skip
            except (WorkerError, TimeoutError) as error:
                return error  # what the tool did to the files until then is kept

        try:
            async with self._open_code(tool) as code:
                answer, files = await self._runs.run(caller, work)
        except SandboxError as error:
            raise _no_sandbox_error(error) from error
        saved_at = now_ms()
        if isinstance(answer, TimeoutError):
            raise TimeoutError(f"The tool was ended after {TOOLSET_CALL_SECONDS:.0f} s.")
        if isinstance(answer, WorkerError):
            return _make_result(f"The tool failed: {answer}.", None, (), files, is_error=True)
        result = _read_result(answer, files)
        plan = await self._make_plan(caller, tool, arguments, result)
        steps += _read_steps(answer)
        steps += [("snapshot made", saved_at), ("render plan made", now_ms())]
        return replace(result, render_plan=plan, steps=tuple(steps))

    async def _make_plan(
        self, caller: Caller, tool: Thing, arguments: dict[str, Any], result: ToolResult
    ) -> dict[str, Any] | None:
        """Return how pages show a result, if the tool has a renderer and did not fail."""
        decided = await self._world.store.read(lambda conn: read_tool_override(conn, tool))
        if decided.renderer is None or result.is_error:
            return None
        context = RenderContext(caller.room_id, WORKSPACE, TOOLSET_PATH)
        renderer: Any = decided.renderer
        return await asyncio.to_thread(
            make_render_plan,
            renderer,
            decided.renderer_config or {},
            arguments,
            result.structured,
            context,
        )

    @contextlib.asynccontextmanager
    async def _open_code(self, tool: Thing) -> AsyncIterator[ToolsetCode]:
        """Keep the folder with the code of a tool; it is made again if it is gone.

        Raises:
            Unavailable: if the toolset is not installed any more.
        """

        def read(conn: Any) -> tuple[Thing, list[StoredFile]]:
            space = things.get_live_thing(conn, tool.parent_id or "")
            return space, read_files(conn, space.label)

        space, files = await self._world.store.read(read)
        hashes = {file.path: file.sha256 for file in files}
        tree = str(space.metadata.get(TREE_KEY, ""))
        if tree != hash_files(hashes):
            raise Unavailable(f"The files of {space.label} are not those that were installed.")
        meta = tool.metadata
        found = WorkerTool(
            tool.name, meta["module"], meta["path"], meta["function"], meta.get("manifest_schema")
        )
        async with self._folders.use(space.label, tree, hashes) as folder:
            version = str(space.metadata.get("version", ""))
            yield ToolsetCode(space.label, version, folder, (found,))

    async def read_contents(self, files: list[StoredFile]) -> dict[str, bytes]:
        """Return the contents of the files of a toolset.

        Raises:
            DamagedBlob: if one is missing or damaged.
        """
        blobs: BlobStore = self._runs.workspaces.blobs
        return await asyncio.to_thread(
            lambda: {file.path: blobs.read(file.sha256) for file in files}
        )


def hash_files(files: Mapping[str, str]) -> str:
    """Return the hash of a toolset's files, given the hash of each."""
    digest = hashlib.sha256()
    for path, sha256 in sorted(files.items()):
        digest.update(os.fsencode(f"{sha256} {path}\n"))
    return digest.hexdigest()


def _no_sandbox_error(error: SandboxError) -> Unavailable:
    return Unavailable(
        f"Tools of toolsets cannot run on this server: {error.obstacle.reason}.",
        hint=f"An administrator can {error.obstacle.remedy}.",
    )


def _read_list(answer: WorkerAnswer) -> list[dict[str, Any]]:
    listed = answer.result.get("tools")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _read_info(bundle: Bundle, listed: Mapping[str, Any]) -> ToolInfo:
    """Return what a worker says of a tool, and the manifest where it says more.

    Raises:
        Invalid: if it is not as it must be.
    """
    entry = next((tool for tool in bundle.manifest.tools if tool.id == listed.get("name")), None)
    schema = listed.get("inputSchema")
    if entry is None or not isinstance(schema, dict):
        raise Invalid(f"The tools of {bundle.manifest.id} cannot be read: their list is invalid.")
    if problem := find_schema_problem(schema):
        raise Invalid(f"The parameters of {entry.id} cannot be used: {problem}.")
    title, text = listed.get("title"), listed.get("description")
    meta = listed.get("_meta")
    confirms = meta.get("requires_confirmation") if isinstance(meta, dict) else None
    if entry.requires_confirmation is not None:
        confirms = entry.requires_confirmation
    return ToolInfo(
        entry.id,
        title if isinstance(title, str) else None,
        entry.description or (text if isinstance(text, str) else ""),
        schema,
        bool(confirms),
    )


def _read_result(answer: WorkerAnswer, files: RunFiles) -> ToolResult:
    result = answer.result
    content = result.get("content")
    texts = [
        one["text"]
        for one in (content if isinstance(content, list) else [])
        if isinstance(one, dict) and isinstance(one.get("text"), str)
    ]
    meta = result.get("_meta")
    value = meta.get("value") if isinstance(meta, dict) else None
    is_error = bool(result.get("isError"))
    text = "\n".join(texts)
    if not is_error and isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False, indent=1)
    printed = answer.printed[:MAX_TOOLSET_PRINTED_LINES]
    return _make_result(text, value, printed, files, is_error=is_error)


def _read_steps(answer: WorkerAnswer) -> list[tuple[str, int]]:
    """Return what a worker says that it did; it may say anything."""
    meta = answer.result.get("_meta")
    steps = meta.get("steps") if isinstance(meta, dict) else None
    return [
        (step[0], step[1])
        for step in (steps[:MAX_WORKER_STEPS] if isinstance(steps, list) else [])
        if isinstance(step, list)
        and len(step) == 2
        and step[0] in WORKER_STEPS
        and isinstance(step[1], int)
    ]


def _make_result(
    text: str, value: Any, printed: tuple[str, ...], files: RunFiles, *, is_error: bool
) -> ToolResult:
    notes = "\n".join(describe_files(files))
    return ToolResult(
        "\n".join(filter(None, (text, notes))), value, is_error=is_error, printed_lines=printed
    )
