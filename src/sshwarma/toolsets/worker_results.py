"""What the answers of a worker mean; it may say anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sshwarma.common.limits import MAX_DESCRIPTION_CHARACTERS, MAX_TOOLSET_PRINTED_LINES
from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.provider import ToolResult
from sshwarma.tools.result_check import format_value
from sshwarma.toolsets.bundle import Bundle
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.toolsets.records import ToolInfo
from sshwarma.toolsets.worker_process import WorkerAnswer
from sshwarma.workspaces.runs import RunFiles, describe_files
from sshwarma.world.errors import Invalid

WORKER_STEPS: Final = ("imported", "context set", "called", "returned", "context cleared")
"""What a worker says that it did, in order."""

MAX_WORKER_STEPS: Final = 10
"""Steps that are kept of what a worker says."""


def read_tools(bundle: Bundle, answer: WorkerAnswer) -> list[ToolInfo]:
    """Return the tools of a toolset, as its worker lists them.

    Raises:
        Invalid: if they are not those of the manifest, or one is not as it must be.
    """
    listed = answer.result.get("tools")
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if sorted(str(one.get("name")) for one in found) != sorted(t.id for t in bundle.manifest.tools):
        raise Invalid(f"The tools of {bundle.manifest.id} cannot be read: their list is invalid.")
    return [_read_info(bundle, one) for one in found]


def _read_info(bundle: Bundle, listed: Mapping[str, Any]) -> ToolInfo:
    """Return what a worker says of a tool, and the manifest where it says more.

    Raises:
        Invalid: if it is not as it must be.
    """
    entry = next((tool for tool in bundle.manifest.tools if tool.id == listed.get("name")), None)
    schema = listed.get("inputSchema")
    if entry is None or not isinstance(schema, dict):
        raise Invalid(f"The tools of {bundle.manifest.id} cannot be read: their list is invalid.")
    about = f"{bundle.entrypoints[entry.id].path}: the parameters of {entry.id}"
    names = schema.get("properties", {})
    if isinstance(names, dict) and not all(map(str.isprintable, names)):
        raise Invalid(f"{about} cannot be used: a name is not printable.")
    if problem := find_schema_problem(schema):
        raise Invalid(f"{about} cannot be used: {problem}.")
    title, text = read_text(listed.get("title")), read_text(listed.get("description"))
    meta = listed.get("_meta")
    confirms = meta.get("requires_confirmation") if isinstance(meta, dict) else None
    if entry.requires_confirmation is not None:
        confirms = entry.requires_confirmation
    return ToolInfo(
        entry.id,
        title or None,
        entry.description or text,
        schema,
        bool(confirms),
    )


def read_text(value: object) -> str:
    """Return a text that a worker says, as a manifest may have it."""
    text = value if isinstance(value, str) else ""
    return escape_lines(text)[:MAX_DESCRIPTION_CHARACTERS]


def read_result(answer: WorkerAnswer, files: RunFiles) -> ToolResult:
    """Return the result of a call, with what it changed of the files."""
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
        text = format_value(value, indent=1)
    printed = answer.printed[:MAX_TOOLSET_PRINTED_LINES]
    return make_result(text, value, printed, files, is_error=is_error)


def read_steps(answer: WorkerAnswer) -> list[tuple[str, int]]:
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


def make_result(
    text: str, value: Any, printed: tuple[str, ...], files: RunFiles, *, is_error: bool
) -> ToolResult:
    """Return a result of a text and a value, with what changed of the files.

    It is an error if its changes were not kept: what it says that it wrote is not there.
    """
    notes = "\n".join(describe_files(files))
    return ToolResult(
        "\n".join(filter(None, (text, notes))),
        value,
        is_error=is_error or bool(files.problem),
        printed_lines=printed,
    )
