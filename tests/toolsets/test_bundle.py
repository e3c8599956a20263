"""Bundles: kinds of files, entrypoints, artifacts and schemas of arguments."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from sshwarma.toolsets.bundle import Bundle, Entrypoint, find_entrypoint, find_kind, read_bundle
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.toolsets.manifest_errors import InvalidManifest

BASE: dict[str, Any] = {"manifest_version": "1", "id": "demo", "name": "Demo", "version": "1.0.0"}

APP_BUILDER = """
manifest_version: "1"

id: app-builder
name: App Builder
version: "1.0.0"
description: Build and preview web applications

tools:
  - id: write_file
    name: Write File
    description: Write content to a file in the workspace
    entrypoint: tools.files:write_file
    input_schema:
      type: object
      properties:
        path:
          type: string
          description: File path relative to workspace
        content:
          type: string
          description: File content
      required: [path, content]
    renderer:
      type: code
      file: "$args.path"
      language: auto
      editable: true

  - id: run_command
    name: Run Command
    description: Run a shell command in the workspace
    entrypoint: tools.shell:run_command
    input_schema:
      type: object
      properties:
        command:
          type: string
      required: [command]
    requires_confirmation: true
    renderer:
      type: code
      content: "$return.output"
      language: shell
"""


def bundle_of(*tools: dict[str, Any], files: dict[str, bytes], **fields: Any) -> Bundle:
    manifest = BASE | {"tools": list(tools)} | fields
    return read_bundle({"toolset.yaml": json.dumps(manifest).encode(), **files})


def refusal_of(*tools: dict[str, Any], files: dict[str, bytes], **fields: Any) -> str:
    with pytest.raises(InvalidManifest) as refusal:
        bundle_of(*tools, files=files, **fields)
    return str(refusal.value)


def test_usual_bundle_is_read() -> None:
    files = {"toolset.yaml": APP_BUILDER.encode(), "tools/files.py": b"", "tools/shell.py": b"x"}
    bundle = read_bundle(files)
    assert bundle.contents == files
    assert bundle.entrypoints["write_file"] == Entrypoint(
        "tools.files", "tools/files.py", "write_file"
    )
    assert [(file.path, file.kind, file.size) for file in bundle.files] == [
        ("tools/files.py", "python", 0),
        ("tools/shell.py", "python", 1),
        ("toolset.yaml", "config", len(APP_BUILDER)),
    ]
    assert bundle.files[1].sha256 == hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("toolset.yaml", "config"),
        ("tools/a.py", "python"),
        ("lib/b.py", "python"),
        ("a.py", "python"),
        ("artifacts/x.html", "artifact"),
        ("artifacts/x.py", "artifact"),
        ("assets/template.py", "asset"),
        ("assets/default.json", "asset"),
        ("config/x.json", "config"),
        ("settings.toml", "config"),
        ("README.md", "asset"),
        ("artifacts", "asset"),
        ("pages/named.html", "artifact"),
    ],
)
def test_kind_of_file_comes_from_its_path(path: str, kind: str) -> None:
    assert find_kind(path, frozenset({"pages/named.html"})) == kind


@pytest.mark.parametrize(
    ("entrypoint", "paths", "module", "path"),
    [
        ("tools.files:run", ["tools/files.py"], "tools.files", "tools/files.py"),
        ("files:run", ["tools/files.py"], "tools.files", "tools/files.py"),
        ("files:run", ["files.py", "tools/files.py"], "files", "files.py"),
        ("tools.a:run", ["tools/a.py", "tools/tools/a.py"], "tools.a", "tools/a.py"),
        ("tools.a:run", ["tools/tools/a.py"], "tools.tools.a", "tools/tools/a.py"),
        ("a.b.c:run", ["a/b/c.py"], "a.b.c", "a/b/c.py"),
        ("a:run", ["a/__init__.py", "a.py"], "a", "a/__init__.py"),
        ("tools:run", ["tools/__init__.py"], "tools", "tools/__init__.py"),
        ("os:system", ["tools/os.py"], "tools.os", "tools/os.py"),
        ("a.b:run", ["a/b.py", "a.py", "a/__init__.py"], "a.b", "a/b.py"),
    ],
)
def test_entrypoint_is_from_the_top_or_from_tools(
    entrypoint: str, paths: list[str], module: str, path: str
) -> None:
    files = dict.fromkeys(paths, b"")
    assert find_entrypoint(entrypoint, files) == Entrypoint(
        module, path, "run" if ":run" in entrypoint else "system"
    )


def test_module_is_the_one_that_python_finds(tmp_path: Path) -> None:
    """The file of an entrypoint is that which Python imports from the top."""
    files = dict.fromkeys(["tools/a.py", "tools/a/__init__.py", "tools/a/b.py", "tools/b.py"], b"")
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    for entrypoint in ("a:run", "tools.a.b:run", "b:run"):
        found = find_entrypoint(entrypoint, files)
        assert isinstance(found, Entrypoint)
        folder = tmp_path.joinpath(*found.module.split(".")[:-1])
        spec = PathFinder.find_spec(found.module, [str(folder)])
        assert spec is not None
        assert spec.origin == str(tmp_path / found.path)


@pytest.mark.parametrize(
    ("entrypoint", "paths", "words"),
    [
        ("os:system", [], "neither os.py nor tools/os.py is in the toolset"),
        ("tools.fils:run", ["tools/files.py"], "did you mean tools/files.py?"),
        ("files:run", ["lib/files.py"], "neither files.py nor tools/files.py is in the toolset"),
        ("a.b:run", ["a/b.py", "a.py"], "a.py hides a/b.py"),
        ("tools.a:run", ["tools/a.txt"], "tools/a.py is not in the toolset"),
    ],
)
def test_entrypoint_without_a_module_is_refused(
    entrypoint: str, paths: list[str], words: str
) -> None:
    text = refusal_of({"id": "a", "entrypoint": entrypoint}, files=dict.fromkeys(paths, b""))
    assert text.startswith("toolset.yaml: tools[0].entrypoint: ")
    assert words in text


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "toolset.yaml is missing"),
        ({"toolset.yml": b""}, "There is toolset.yml."),
        ({"a/b/toolset.yaml": b"", "c": b""}, "There is a/b/toolset.yaml."),
        ({"Toolset.yaml": b""}, "There is Toolset.yaml."),
    ],
)
def test_missing_manifest_is_named(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(InvalidManifest, match="must be at the top") as refusal:
        read_bundle(files)
    assert words in str(refusal.value)


HTML = {"type": "html", "artifact": "./pages/x.html"}


def test_page_of_a_renderer_must_be_in_the_bundle() -> None:
    tool = {"id": "a", "entrypoint": "a:run", "renderer": HTML}
    files = {"a.py": b""}
    text = refusal_of(tool, files=files)
    assert "tools[0].renderer.artifact: pages/x.html is not in the toolset" in text
    override = {"tool_id": "a", "renderer": "html", "renderer_config": {"artifact": "y.html"}}
    text = refusal_of(tool, files=files, tool_overrides=[override])
    assert "tool_overrides[0].renderer_config.artifact: y.html is not" in text
    named = {"tool_id": "a", "name_override": "A"}
    text = refusal_of(tool, files=files, tool_overrides=[named])
    assert "tools[0].renderer.artifact: pages/x.html" in text
    bundle = bundle_of(tool, files={**files, "pages/x.html": b"<p>"})
    assert {file.path: file.kind for file in bundle.files}["pages/x.html"] == "artifact"


def test_page_that_a_canonical_override_replaces_may_be_missing() -> None:
    override = {"tool_id": "a", "renderer": "code", "renderer_config": {"content": "x"}}
    tool = {"id": "a", "entrypoint": "a:run", "renderer": HTML}
    assert bundle_of(tool, files={"a.py": b""}, tool_overrides=[override])


GOOD_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "null"}},
    },
    {"type": "object", "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x~1y~0"}}, "$defs": {"x/y~": True}},
    {"type": "object", "allOf": [{"minProperties": 1}], "not": {"$ref": "#/allOf/0"}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
]


@pytest.mark.parametrize("schema", GOOD_SCHEMAS, ids=str)
def test_valid_schema_is_accepted(schema: dict[str, Any]) -> None:
    assert find_schema_problem(schema) == ""


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "type must be object"),
        ({"type": "string"}, "type must be object"),
        ({"type": ["object"]}, "type must be object"),
        ({"type": "object", "$ref": "https://x.example/s"}, "must begin with #/"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "must begin"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json#/x"}}}, "must begin"),
        ({"type": "object", "properties": {"a": {"$ref": "#name"}}}, "must begin with #/"),
        ({"type": "object", "properties": {"a": {"$dynamicRef": "x"}}}, "must begin with #/"),
        ({"type": "object", "$defs": {"x": {"items": {"$ref": "//x"}}}}, "must begin with #/"),
        ({"type": "object", "not": {"$ref": "#/$defs/none"}}, "leads to no part"),
        ({"type": "object", "not": {"$ref": "#/allOf/5"}, "allOf": [True]}, "leads to no part"),
        ({"type": "object", "not": {"$ref": "#/type"}}, "leads to no part"),
        ({"type": "object", "$id": "https://x.example/s"}, "must have no $id"),
        ({"type": "object", "properties": {"a": {"$id": "b"}}}, "must have no $id"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "properties.a.type: "),
        ({"type": "object", "properties": ["a"]}, "properties: "),
        ({"type": "object", "required": "a"}, "required: "),
        ({"type": "object", "properties": {"a": 5}}, "properties.a: "),
        ({"type": "object", "properties": {"a": {"$ref": 5}}}, "properties.a.$ref: "),
        ({"type": "object", "description": "x" * 65_536}, "at most 65536 bytes"),
    ],
)
def test_invalid_schema_is_refused(schema: dict[str, Any], words: str) -> None:
    assert words in find_schema_problem(schema)
    tool = {"id": "a", "entrypoint": "a:run", "input_schema": schema}
    text = refusal_of(tool, files={"a.py": b""})
    assert re.match(r"toolset\.yaml: tools\[0\]\.input_schema: ", text)
    assert len(text) < 800
