"""Warnings of an import, and the place of what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_name, shorten_text
from sshwarma.terminal.escape import escape_lines
from sshwarma.toolsets.archive import MANIFEST_PATH
from sshwarma.toolsets.bundle import Bundle
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.records import ToolInfo
from sshwarma.toolsets.render_plan import ROOTS, UNKNOWN_ROOT, list_expressions
from sshwarma.toolsets.worker_process import WorkerAnswer

MAX_WARNINGS: Final = 20
"""Warnings of one import that are shown."""

_OTHER_PARAMETERS: Final = frozenset({"patternProperties", "$ref", "allOf", "anyOf", "oneOf"})
"""Keywords beside which `properties` may not be all that there is."""


def list_warnings(
    bundle: Bundle, tools: Sequence[ToolInfo], answer: WorkerAnswer
) -> tuple[str, ...]:
    """Return probable mistakes in a toolset, as sentences with file and line.

    It takes up to half a second: the lines of a large manifest are read.
    """
    problems = [
        *_find_equal_names(bundle, tools),
        *_find_undescribed(bundle, tools),
        *_find_lifted_approvals(bundle, tools, answer),
        *_find_odd_expressions(bundle, tools),
    ]
    warnings = list(dict.fromkeys(_read_warnings(answer)))
    rest = len(problems) + len(warnings) - MAX_WARNINGS
    shown = [bundle.describe_problem(problem) for problem in problems[:MAX_WARNINGS]]
    shown += warnings[: MAX_WARNINGS - len(shown)]
    return (*(f"{one}." for one in shown), *([f"{rest} more warnings."] if rest > 0 else []))


def describe_unreadable(bundle: Bundle, reason: str) -> str:
    """Return why tools cannot be read, with the place in the manifest.

    `reason` begins with the id of a tool, if it is about one.
    """
    name, colon, text = reason.partition(": ")
    index = next((n for n, tool in enumerate(bundle.manifest.tools) if tool.id == name), None)
    if not colon or index is None:
        return f"The tools of {bundle.manifest.id} cannot be read: {reason}."
    line = bundle.lines.find(f"tools[{index}].entrypoint")
    where = f"{MANIFEST_PATH}, line {line}" if line is not None else MANIFEST_PATH
    return f"tools[{index}].entrypoint ({where}), the tool {name}, cannot be read: {text}."


def _find_equal_names(bundle: Bundle, tools: Sequence[ToolInfo]) -> Iterator[str]:
    """Yield the tools that people see under the name of another."""
    titles = {info.id: info.title for info in tools}
    renamed = {
        override.tool_id.removeprefix(f"{bundle.manifest.id}:"): override.name_override
        for override in bundle.manifest.tool_overrides
    }
    first: dict[str, int] = {}
    for index, tool in enumerate(bundle.manifest.tools):
        name = renamed.get(tool.id) or tool.name or titles.get(tool.id) or tool.id
        if first.setdefault(name, index) != index:
            place = f"tools[{index}]{'.name' if tool.name else ''}"
            yield f"{place}: {name} is the name of tools[{first[name]}], too"


def _find_undescribed(bundle: Bundle, tools: Sequence[ToolInfo]) -> Iterator[str]:
    """Yield the tools of which models and people read nothing but the name."""
    described = {info.id for info in tools if info.description}
    for index, tool in enumerate(bundle.manifest.tools):
        if tool.id not in described:
            yield (
                f"tools[{index}]: {tool.id} has neither a description nor a docstring, by which"
                " models choose it"
            )


def _find_lifted_approvals(
    bundle: Bundle, tools: Sequence[ToolInfo], answer: WorkerAnswer
) -> Iterator[str]:
    """Yield where the manifest lifts an approval that the code or itself asks for."""
    in_code = set(_list_asking(answer))
    for index, tool in enumerate(bundle.manifest.tools):
        if tool.requires_confirmation is False and tool.id in in_code:
            yield (
                f"tools[{index}].requires_confirmation: false, and the code of {tool.id} asks for"
                " an approval: its calls need none"
            )
    asking = {info.id for info in tools if info.requires_confirmation}
    for index, override in enumerate(bundle.manifest.tool_overrides):
        name = override.tool_id.rpartition(":")[2]
        is_own = override.tool_id in (name, f"{bundle.manifest.id}:{name}")
        if is_own and name in asking and override.requires_confirmation is False:
            yield (
                f"tool_overrides[{index}].requires_confirmation: false, and the tool {name} asks"
                " for an approval: its calls need none"
            )


def _find_odd_expressions(bundle: Bundle, tools: Sequence[ToolInfo]) -> Iterator[str]:
    """Yield the expressions of renderers that no call of their tool can resolve."""
    known = {f"{bundle.manifest.id}:{info.id}": _list_parameters(info) for info in tools}
    for place, tool_id, config in _list_configs(bundle.manifest):
        parameters = known.get(tool_id)
        for one in list_expressions(config, place):
            text = shorten_name(one.text)
            if one.root not in ROOTS:
                yield f"{one.place}: {text} {UNKNOWN_ROOT}"
            elif one.root != "args" or not one.names or parameters is None:
                continue
            elif parameters.isdisjoint(one.names):
                name, tool = shorten_name(one.names[0]), tool_id.partition(":")[2]
                near = suggest_near_names(name, sorted(parameters))
                hint = f" ({near[0].lower()}{near[1:]})" if near else ""
                yield f"{one.place}: {text}: {tool} has no parameter {name}{hint}"


def _list_configs(manifest: ToolsetManifest) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the configuration of each renderer that counts, with its place and tool."""
    replaced = set()
    for index, override in enumerate(manifest.tool_overrides):
        target = override.tool_id
        tool_id = target if ":" in target else f"{manifest.id}:{target}"
        if override.renderer is not None:
            replaced.add(tool_id)
            place = f"tool_overrides[{index}].renderer_config"
            yield place, tool_id, override.renderer_config or {}
    for index, tool in enumerate(manifest.tools):
        tool_id = f"{manifest.id}:{tool.id}"
        if tool.renderer is not None and tool_id not in replaced:
            yield f"tools[{index}].renderer", tool_id, tool.renderer


def _list_parameters(info: ToolInfo) -> frozenset[str] | None:
    """Return the names of all parameters of a tool; None if it may have others."""
    schema = info.input_schema
    properties = schema.get("properties")
    is_open = schema.get("additionalProperties", True) is not False
    if is_open or not isinstance(properties, dict) or not _OTHER_PARAMETERS.isdisjoint(schema):
        return None
    return frozenset(properties)


def _list_asking(answer: WorkerAnswer) -> Iterator[str]:
    """Yield the tools whose code asks for an approval, as a worker says."""
    listed = answer.result.get("tools")
    for one in listed if isinstance(listed, list) else ():
        meta = one.get("_meta") if isinstance(one, dict) else None
        if isinstance(meta, dict) and meta.get("requires_confirmation") is True:
            yield str(one.get("name"))


def _read_warnings(answer: WorkerAnswer) -> Iterator[str]:
    """Yield what a worker warns of; it may say anything."""
    meta = answer.result.get("_meta")
    listed = meta.get("warnings") if isinstance(meta, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, str):
            yield shorten_text(escape_lines(one).replace("\n", " "))
