"""Warnings of an import cost little, however many mistakes a toolset has."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from sshwarma.toolsets.bundle import read_bundle
from sshwarma.toolsets.import_warnings import MAX_WARNINGS, list_warnings
from sshwarma.toolsets.records import ToolInfo
from sshwarma.toolsets.worker_process import WorkerAnswer

TOOL = """
  - id: t{0}
    entrypoint: tools.a:f{0}
    name: Same
"""


def test_manifest_is_read_once_for_all_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    compose = yaml.compose

    def count(*words: Any, **options: Any) -> Any:
        reads.append(words)
        return compose(*words, **options)

    tools = "".join(TOOL.format(number) for number in range(60))
    manifest = f'manifest_version: "1"\nid: kit\nname: Kit\nversion: "1"\ntools:{tools}'
    code = "".join(f"def f{number}(): pass\n" for number in range(60))
    bundle = read_bundle({"toolset.yaml": manifest.encode(), "tools/a.py": code.encode()})
    monkeypatch.setattr(yaml, "compose", count)
    answer = WorkerAnswer({"_meta": {"warnings": ["x is odd"]}}, ())
    *shown, rest = list_warnings(bundle, [], answer)
    assert len(reads) == 1
    assert len(shown) == MAX_WARNINGS and rest == "100 more warnings."
    assert shown[0] == "toolset.yaml: tools[1].name: Same is the name of tools[0], too (line 12)."


def test_tools_that_overrides_rename_have_other_names() -> None:
    manifest = (
        'manifest_version: "1"\nid: kit\nname: Kit\nversion: "1"\n'
        "tools:\n  - {id: a, entrypoint: m:f, description: x}\n"
        "  - {id: b, entrypoint: m:g, description: x, name: a}\n"
        "tool_overrides:\n  - {tool_id: kit:b, name_override: Other}\n"
    )
    code = b"def f(): pass\ndef g(): pass\n"
    bundle = read_bundle({"toolset.yaml": manifest.encode(), "m.py": code})
    described = [ToolInfo(name, None, "x", {"type": "object"}, False) for name in "ab"]
    assert list_warnings(bundle, described, WorkerAnswer({}, ())) == ()


EXPRESSIONS = """manifest_version: "1"
id: kit
name: Kit
version: "1"
tools:
  - id: closed
    entrypoint: m:f
    renderer: {type: code, content: "$foo"}
  - id: open
    entrypoint: m:g
    renderer:
      type: html
      artifact: a.html
      data: {rows: [$args.any, "page $retrun.x of $chat_id"]}
  - id: replaced
    entrypoint: m:h
    renderer: {type: code, content: "$never"}
tool_overrides:
  - tool_id: replaced
    renderer: document
    renderer_config: {file: "out/$args.pth.txt"}
  - tool_id: kit:other
    renderer: code
    renderer_config: {file: $args.path-name, language: "$args.größe"}
  - tool_id: web:search
    renderer: code
    renderer_config: {content: "$args.query", language: $lang}
mcp_servers: [{id: web, command: x}]
"""


def test_expressions_that_no_call_can_resolve_are_named_with_their_line() -> None:
    manifest = EXPRESSIONS.replace(
        "tool_overrides:", "  - id: other\n    entrypoint: m:i\ntool_overrides:"
    )
    bundle = read_bundle({"toolset.yaml": manifest.encode(), "m.py": b"", "a.html": b""})
    closed = {"type": "object", "additionalProperties": False, "properties": {"path": {}}}
    tools = [
        ToolInfo(name, None, "x", {"type": "object"} if name == "open" else closed, False)
        for name in ("closed", "open", "replaced", "other")
    ]
    begin = "expressions begin with $args, $return, $chat_id, $workspace, $toolset"
    assert list_warnings(bundle, tools, WorkerAnswer({}, ())) == (
        "toolset.yaml: tool_overrides[0].renderer_config.file: $args.pth.txt: replaced has no"
        " parameter pth (did you mean path?) (line 23).",
        "toolset.yaml: tool_overrides[1].renderer_config.file: $args.path-name: other has no"
        " parameter path-name (line 26).",
        "toolset.yaml: tool_overrides[1].renderer_config.language: $args.größe: other has no"
        " parameter größe (line 26).",
        f"toolset.yaml: tool_overrides[2].renderer_config.language: $lang is unknown: {begin}"
        " (line 29).",
        f"toolset.yaml: tools[0].renderer.content: $foo is unknown: {begin} (line 8).",
        f"toolset.yaml: tools[1].renderer.data.rows[1]: $retrun.x is unknown: {begin} (line 14).",
    )
