"""Reads a manifest, and checks what its parts say of each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError

from sshwarma.common.limits import MAX_SERVER_TOOL_NAME_CHARACTERS
from sshwarma.common.near_names import suggest_near_names
from sshwarma.toolsets.archive import MANIFEST_PATH
from sshwarma.toolsets.manifest import ServerEntry, ToolEntry, ToolOverride, ToolsetManifest
from sshwarma.toolsets.manifest_errors import (
    InvalidManifest,
    describe_problems,
    format_place,
    problems_error,
)
from sshwarma.toolsets.manifest_lines import ManifestLines
from sshwarma.toolsets.renderers import RENDERERS, check_renderer_config
from sshwarma.toolsets.yaml_text import load_yaml

_SERVER_TOOL: Final = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_SERVER_TOOL_NAME_CHARACTERS - 1}}}"
)
"""Names of tools of MCP servers, in which other characters are replaced."""

_REQUIRED: Final = "manifest_version, id, name and version"


def read_manifest(data: bytes) -> ToolsetManifest:
    """Read and check a `toolset.yaml`.

    Args:
        data: the file.

    Raises:
        Invalid: if it is no YAML that a manifest may have; the text names the line.
        InvalidManifest: if a field is wrong; the text names it.
    """
    value = load_yaml(data, MANIFEST_PATH)
    if not isinstance(value, dict):
        raise InvalidManifest(f"{MANIFEST_PATH}: must be an object with {_REQUIRED}.")
    return check_manifest(value, ManifestLines(data).find)


def check_manifest(
    value: Mapping[str, Any], find_line: Callable[[str], int | None] | None = None
) -> ToolsetManifest:
    """Check a manifest that was read, or made from the database.

    Args:
        value: the fields, with values that JSON has.
        find_line: finds the line of a problem in the file, as `ManifestLines.find`.

    Raises:
        InvalidManifest: if a field is wrong; the text names it.
    """
    try:
        manifest = ToolsetManifest.model_validate(dict(value))
    except ValidationError as error:
        described = describe_problems(error, ToolsetManifest)
        raise problems_error(described, find_line) from None
    problems = chain(
        _find_repeated(manifest),
        _find_unknown_targets(manifest),
        _find_renderer_problems(manifest),
    )
    first = next(problems, None)
    if first is not None:
        raise problems_error(chain([first], problems), find_line)
    return manifest


@dataclass(frozen=True, slots=True)
class Renderer:
    """How results of a tool are drawn: `name` is one of RENDERERS."""

    name: str
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EffectiveOverride:
    """What differs for a tool, from `tool_overrides` and `tools[].renderer` together.

    `tool_id` is `TOOLSET:TOOL` or `SERVER:TOOL`; values of None are not overridden.
    """

    tool_id: str
    renderer: Renderer | None = None
    name: str | None = None
    description: str | None = None
    requires_confirmation: bool | None = None
    enabled: bool | None = None


def list_overrides(manifest: ToolsetManifest) -> list[EffectiveOverride]:
    """List the overrides of a checked manifest, one for each tool that has any.

    The renderer of `tool_overrides` counts; that of `tools[]` does where the override has none.
    """
    older = {
        f"{manifest.id}:{tool.id}": _older_renderer(tool)
        for tool in manifest.tools
        if tool.renderer is not None
    }
    overrides = []
    for override in manifest.tool_overrides:
        tool_id = _full_id(manifest, override)
        renderer = older.pop(tool_id, None)
        if override.renderer is not None:
            config = check_renderer_config(override.renderer, override.renderer_config or {})
            renderer = Renderer(override.renderer, config)
        overrides.append(
            EffectiveOverride(
                tool_id,
                renderer,
                override.name_override,
                override.description_override,
                override.requires_confirmation,
                override.enabled,
            )
        )
    overrides += [EffectiveOverride(tool_id, renderer) for tool_id, renderer in older.items()]
    return overrides


def _full_id(manifest: ToolsetManifest, override: ToolOverride) -> str:
    target = override.tool_id
    return target if ":" in target else f"{manifest.id}:{target}"


def _older_renderer(tool: ToolEntry) -> Renderer:
    config = dict(tool.renderer or {})
    name = config.pop("type")
    return Renderer(name, check_renderer_config(name, config))


def _find_repeated(manifest: ToolsetManifest) -> Iterator[str]:
    entries: tuple[tuple[str, Sequence[ToolEntry | ServerEntry]], ...] = (
        ("tools", manifest.tools),
        ("mcp_servers", manifest.mcp_servers),
    )
    for field, parts in entries:
        ids = [part.id for part in parts]
        yield from _describe_repeated(field, "id", ids)
    targets = [_full_id(manifest, override) for override in manifest.tool_overrides]
    yield from _describe_repeated("tool_overrides", "tool_id", targets)


def _describe_repeated(field: str, key: str, names: Sequence[str]) -> Iterator[str]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if first.setdefault(name, index) != index:
            yield f"{field}[{index}].{key}: {name} is {field}[{first[name]}] already"


def _find_unknown_targets(manifest: ToolsetManifest) -> Iterator[str]:
    """Find overrides of tools that the toolset does not have, and ambiguous servers."""
    tools = {f"{manifest.id}:{tool.id}" for tool in manifest.tools}
    servers = {server.id for server in manifest.mcp_servers}
    for index, server in enumerate(manifest.mcp_servers):
        if manifest.tools and server.id == manifest.id:
            # Names of tools are `toolset:tool` and `server:tool`: they could be the same.
            yield f"mcp_servers[{index}].id: must differ from the toolset's, which has tools"
    for index, override in enumerate(manifest.tool_overrides):
        full_id = _full_id(manifest, override)
        if full_id not in tools and full_id.partition(":")[0] not in servers:
            known = [*tools, *(tool.id for tool in manifest.tools)]
            near = suggest_near_names(override.tool_id, known)
            yield (
                f"tool_overrides[{index}].tool_id: {override.tool_id} is neither a tool of this"
                f" toolset nor of its servers{f' ({near[0].lower()}{near[1:]})' if near else ''}"
            )
        elif full_id not in tools and not _SERVER_TOOL.fullmatch(full_id.partition(":")[2]):
            yield (
                f"tool_overrides[{index}].tool_id: a tool of a server has letters, digits, _, . and"
                f" - in its name here, at most {MAX_SERVER_TOOL_NAME_CHARACTERS} (got"
                f" {override.tool_id})"
            )


def _find_renderer_problems(manifest: ToolsetManifest) -> Iterator[str]:
    for index, tool in enumerate(manifest.tools):
        if tool.renderer is not None:
            config = dict(tool.renderer)
            place = ("tools", index, "renderer")
            yield from describe_renderer_problems(
                config.pop("type", None), config, place, (*place, "type")
            )
    for index, override in enumerate(manifest.tool_overrides):
        above = ("tool_overrides", index)
        if override.renderer is not None:
            place = (*above, "renderer_config")
            name = override.renderer
            yield from describe_renderer_problems(
                name, override.renderer_config or {}, place, place
            )
        elif override.renderer_config is not None:
            yield f"{format_place((*above, 'renderer'))} is missing: renderer_config needs it"


def describe_renderer_problems(
    name: Any,
    config: Mapping[str, Any],
    place: Sequence[str | int],
    name_place: Sequence[str | int],
) -> Iterator[str]:
    """Yield what is wrong with a renderer, with the field.

    Args:
        name: of the renderer, which may be any value.
        config: its configuration.
        place: of the configuration.
        name_place: of the name.
    """
    if name is None:
        yield f"{format_place(name_place)} is missing"
    elif not isinstance(name, str) or name not in RENDERERS:
        yield f"{format_place(name_place)}: choose one of: {', '.join(RENDERERS)}"
    else:
        try:
            check_renderer_config(name, config)
        except ValidationError as error:
            yield from describe_problems(error, RENDERERS[name], place)
