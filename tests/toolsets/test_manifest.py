"""The manifest: refusals by field, and overrides in both forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sshwarma.toolsets.manifest_errors import InvalidManifest
from sshwarma.toolsets.manifest_reading import (
    EffectiveOverride,
    Renderer,
    check_manifest,
    list_overrides,
    read_manifest,
)
from sshwarma.world.errors import Invalid
from toolsets.manifests import Manifest, refusal_of, whole, with_value


def test_whole_manifest_is_read() -> None:
    manifest = read_manifest(json.dumps(whole()).encode())
    assert [tool.id for tool in manifest.tools] == ["write_file", "plot"]
    assert [server.kind for server in manifest.mcp_servers] == ["stdio", "sse"]
    assert manifest.mcp_servers[0].args == ("-y", "pkg")
    assert check_manifest(manifest.model_dump()) == manifest


def test_least_manifest_is_read() -> None:
    least = {key: whole()[key] for key in ("manifest_version", "id", "name", "version")}
    manifest = check_manifest(least)
    assert not manifest.tools and not manifest.mcp_servers


@pytest.mark.parametrize("key", ["manifest_version", "id", "name", "version"])
def test_missing_field_is_named(key: str) -> None:
    manifest = whole()
    del manifest[key]
    assert refusal_of(manifest) == f"toolset.yaml: {key} is missing."


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("tools.0.id", "tools[0].id"),
        ("tools.1.entrypoint", "tools[1].entrypoint"),
        ("tool_overrides.1.tool_id", "tool_overrides[1].tool_id"),
        ("mcp_servers.0.id", "mcp_servers[0].id"),
        ("tools.0.renderer.type", "tools[0].renderer.type"),
        ("tool_overrides.0.renderer", "tool_overrides[0].renderer"),
        ("tool_overrides.0.renderer_config.artifact", "tool_overrides[0].renderer_config.artifact"),
    ],
)
def test_missing_field_of_a_part_is_named(path: str, named: str) -> None:
    manifest = whole()
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = manifest
    for part in above:
        target = target[part]
    del target[last]
    assert f"{named} is missing" in refusal_of(manifest)


BAD_ENTRYPOINTS = (
    "", "tools.files", "tools/files:run", "..x:y", ".x:y", "x.:y", "x:y.z", "x:y()", "x y:z",
    "x:y:z", ":y", "x:", "1x:y", "x:1y", "../x:y", "x\n:y", "é:y", "a." * 200 + "b:c", 5, None,
)  # fmt: skip


@pytest.mark.parametrize("value", BAD_ENTRYPOINTS, ids=lambda value: repr(value)[:20])
def test_wrong_entrypoint_is_refused(value: object) -> None:
    text = refusal_of(with_value("tools.1.entrypoint", value))
    assert text.startswith("toolset.yaml: tools[1].entrypoint: must ")


WRONG: list[tuple[str, Any, str]] = [
    ("manifest_version", 1, 'manifest_version: must be "1", in quotes (got 1)'),
    ("manifest_version", "2", 'manifest_version: must be "1", in quotes (got 2)'),
    ("manifest_version", True, 'manifest_version: must be "1"'),
    ("name", "", "name: must not be empty"),
    ("name", " x", "name: must not be blank"),
    ("name", "x" * 61, "name: must have at most 60 characters (got 61)"),
    ("name", "a\nb", "name: must not contain U+000A"),
    ("name", "a\u202eb", "name: must not contain U+202E"),
    ("name", 5, "name: must be a text in quotes (got 5)"),
    ("version", 1.0, "version: must be a text in quotes (got 1)"),
    ("version", "", "version: must have 1 to 64"),
    ("version", "../1", "version: must have 1 to 64"),
    ("version", "1" * 65, "version: must have 1 to 64"),
    ("description", ["x"], "description: must be a text in quotes"),
    ("description", "x" * 4_001, "description: must have at most 4000 characters"),
    ("tools", 5, "tools: must be a list (got 5)"),
    ("tools", {"a": 1}, "tools: must be a list"),
    ("tools", ["x"], "tools[0]: must be an object"),
    ("tools", [{}] * 201, "tools: must have at most 200 entries"),
    ("tools.0.name", "", "tools[0].name: must not be empty"),
    ("tools.0.description", 5, "tools[0].description: must be a text"),
    ("tools.0.input_schema", "x", "tools[0].input_schema: must be an object"),
    ("tools.0.requires_confirmation", "yes", "requires_confirmation: must be true or false"),
    ("tools.0.requires_confirmation", 1, "requires_confirmation: must be true or false"),
    ("tools.0.renderer", "code", "tools[0].renderer: must be an object"),
    ("tools.0.renderer.type", "pdf", "renderer.type: choose one of: code, document, html, frame"),
    ("tools.0.renderer.type", ["code"], "renderer.type: choose one of"),
    ("tools.0.renderer.colour", "x", "tools[0].renderer.colour: unknown field"),
    ("tools.0.renderer.langage", "x", "langage: unknown field (did you mean language?)"),
    ("tools.0.renderer.editable", "yes", "tools[0].renderer.editable: must be true or false"),
    ("tools.0.renderer.language", 5, "tools[0].renderer.language: must be a text"),
    ("tools.0.renderer.language", "", "tools[0].renderer.language: must not be empty"),
    ("tools.0.renderer.file", ["x"], "tools[0].renderer.file: must be a text"),
    ("tools.0.renderer.content", "x", "tools[0].renderer: must have one of file and content"),
    ("tools.0.entry_point", "x:y", "tools[0].entry_point: unknown field (did you mean entrypoint"),
    ("tools.0.leave_out", "MAYBE", "[0].leave_out: choose one of: KEEP, SHORT, PARAMS_ONLY, OMIT"),
    ("tools.0.leave_out", "SHORT x", "OMIT (SHORT takes a number of characters, at most 60000"),
    ("tools.0.leave_out", 500, "tools[0].leave_out: must be a text"),
    ("tools.0.leave_out_per_action", {"get": "NO"}, "leave_out_per_action.get: choose one of"),
    ("tools.0.leave_out_per_action", {"a b": "KEEP"}, "an action has letters, digits, _, . and -"),
    ("tools.1.id", "write_file", "tools[1].id: write_file is tools[0] already"),
    ("tool_overrides", "x", "tool_overrides: must be a list"),
    ("tool_overrides.0.tool_id", "plat", "tool_overrides[0].tool_id: plat is neither a tool"),
    ("tool_overrides.0.tool_id", "other:plot", "other:plot is neither a tool"),
    ("tool_overrides.0.tool_id", "web:a/b", "[0].tool_id: a tool of a server has letters, digits"),
    ("tool_overrides.0.tool_id", "web:" + "a" * 65, "in its name here, at most 64 (got web:aaa"),
    ("tool_overrides.0.tool_id", "a b", "tool_id: must be TOOL, TOOLSET:TOOL or SERVER:TOOL"),
    ("tool_overrides.0.tool_id", "a:b:c", "tool_id: must be TOOL, TOOLSET:TOOL or SERVER:TOOL"),
    ("tool_overrides.0.tool_id", 5, "tool_overrides[0].tool_id: must be a text"),
    ("tool_overrides.0.renderer", "pdf", "renderer: choose one of: code, document, html, frame"),
    ("tool_overrides.0.renderer_config", "x", "renderer_config: must be an object"),
    ("tool_overrides.0.renderer_config.url", "x", "renderer_config.url: unknown field"),
    ("tool_overrides.0.renderer_config.artifact", "../x", "artifact: must not leave the toolset"),
    ("tool_overrides.0.renderer_config.artifact", "/x", "artifact: must be relative"),
    ("tool_overrides.0.renderer_config.artifact", "C:/x", "artifact: must not contain a colon"),
    ("tool_overrides.0.renderer_config.artifact", "$args.x", "artifact: must be the path"),
    ("tool_overrides.0.renderer_config.artifact", 5, "artifact: must be a text"),
    ("tool_overrides.0.enabled", "no", "enabled: must be true or false"),
    ("tool_overrides.0.name_override", "", "name_override: must not be empty"),
    ("tool_overrides.2", {"tool_id": "demo:plot"}, "demo:plot is tool_overrides[0] already"),
    ("mcp_servers", {"web": {}}, "mcp_servers: must be a list"),
    ("mcp_servers.1.id", "web", "mcp_servers[1].id: web is mcp_servers[0] already"),
    ("mcp_servers.1.id", "demo", "mcp_servers[1].id: must differ from the toolset's"),
    ("mcp_servers.0.command", "", "mcp_servers[0].command: must not be empty"),
    ("mcp_servers.0.command", "npx -y x", "command: must be one program"),
    ("mcp_servers.0.args", "-y", "mcp_servers[0].args: must be a list"),
    ("mcp_servers.0.args", [1], "mcp_servers[0].args[0]: must be a text in quotes"),
    ("mcp_servers.0.args", ["x"] * 101, "mcp_servers[0].args: must have at most 100 entries"),
    ("mcp_servers.0.env", ["A=1"], "mcp_servers[0].env: must be an object"),
    ("mcp_servers.0.env", {"A": 1}, "mcp_servers[0].env.A: must be a text in quotes"),
    ("mcp_servers.0.env", {"A B": "x"}, "mcp_servers[0].env: A B is no name of a variable"),
    ("mcp_servers.0.url", "https://x.example", "must have one of command and url"),
    ("mcp_servers.0.headers", {"A": "b"}, "headers belong to a server with a url"),
    ("mcp_servers.0.network", "yes", "mcp_servers[0].network: must be true or false"),
    ("mcp_servers.0.server_type", "sse", "server_type must be stdio with a command"),
    ("mcp_servers.0.server_type", "ssh", "server_type: choose one of: stdio, sse, streamable"),
    ("mcp_servers.1.server_type", "stdio", "sse or streamable-http with a url"),
    ("mcp_servers.1.url", "ftp://x", "mcp_servers[1].url: must be an address"),
    ("mcp_servers.1.url", "file:///etc/passwd", "mcp_servers[1].url: must be an address"),
    ("mcp_servers.1.url", "https://", "mcp_servers[1].url: must be an address"),
    ("mcp_servers.1.url", "https://u:p@x.example/", "without a user name"),
    ("mcp_servers.1.url", "https://x/" + "a" * 2_000, "url: must have at most 2000"),
    ("mcp_servers.1.headers", {"A:": "b"}, "is no name of a header"),
    ("mcp_servers.1.headers", {"A": "b\r\nC: d"}, "the value of A must be one line"),
    ("mcp_servers.1.env", {"A": "b"}, "args, env and network belong to a server with a command"),
    ("mcp_servers.1.network", True, "belong to a server with a command"),
    ("requirements", "humanize==1", "requirements: must be a list"),
    ("requirements.0", "humanize", "requirements[0]: must be exact, such as"),
    ("requirements.0", "humanize>=1", "requirements[0]: must be exact"),
    ("requirements.0", "humanize==1.*", "requirements[0]: must be exact"),
    ("requirements.0", "humanize===1", "requirements[0]: must be exact"),
    ("requirements.0", "humanize==1,<2", "requirements[0]: must be exact"),
    ("requirements.0", "humanize == 1", "requirements[0]: must be exact"),
    ("requirements.0", "humanize==1 ; python_version<'3'", "requirements[0]: must be exact"),
    ("requirements.0", "humanize @ https://x.example/h.whl", "requirements[0]: must be exact"),
    ("requirements.0", "git+https://x.example/h", "requirements[0]: must be exact"),
    ("requirements.0", "--index-url=https://x.example", "requirements[0]: must be exact"),
    ("requirements.0", "-r other.txt", "requirements[0]: must be exact"),
    ("requirements.0", "./local", "requirements[0]: must be exact"),
    ("requirements.2", "Humanize==2", "requirements: humanize is there twice"),
    ("requirements", ["a==1"] * 65, "requirements: must have at most 64 entries"),
    ("descripton", "x", "descripton: unknown field (did you mean description?)"),
    ("colour", "x", "colour: unknown field"),
]


@pytest.mark.parametrize(
    ("path", "value", "words"), WRONG, ids=[f"{a}={b!r}"[:60] for a, b, _ in WRONG]
)
def test_wrong_value_is_refused_by_name(path: str, value: Any, words: str) -> None:
    text = refusal_of(with_value(path, value))
    assert text.startswith("toolset.yaml: ")
    assert words in text
    assert text.isprintable() and len(text) < 600


@pytest.mark.parametrize(
    "change",
    [
        lambda server: server.update(env={"KEY": 123456789}),
        lambda server: server.update(args=[123456789]),
        lambda server: server.update(command="npx 123456789"),
    ],
)
def test_refusal_does_not_repeat_what_may_be_a_key(change: Callable[[Manifest], None]) -> None:
    manifest = whole()
    change(manifest["mcp_servers"][0])
    assert "123456789" not in refusal_of(manifest)


@pytest.mark.parametrize("text", ["", "5", "[]", "x"])
def test_manifest_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidManifest, match="must be an object with manifest_version"):
        read_manifest(text.encode())


def test_line_of_each_problem_is_named() -> None:
    text = """manifest_version: "1"
id: demo
name: Demo
version: "1.0"
tools:
  - id: write
    entrypoint: tools.files:write
  - id: plot
    renderer:
      type: code
      file: $args.path
      kind: x
colour: red
tool_overrides:
  - {tool_id: wrte, enabled: false}
"""
    with pytest.raises(InvalidManifest) as refusal:
        read_manifest(text.encode())
    assert str(refusal.value) == (
        "toolset.yaml: tools[1].entrypoint is missing (line 8); colour: unknown field (line 13)."
    )
    text = text.replace("colour: red\n", "").replace("plot\n", "plot\n    entrypoint: plot:run\n")
    with pytest.raises(InvalidManifest) as refusal:
        read_manifest(text.encode())
    assert str(refusal.value) == (
        "toolset.yaml: tool_overrides[0].tool_id: wrte is neither a tool of this toolset nor of its"
        " servers (did you mean write?) (line 15); tools[1].renderer.kind: unknown field (line 13)."
    )


def test_problems_beyond_the_first_are_left_out() -> None:
    manifest = whole() | {f"x{number}": 1 for number in range(5)}
    assert refusal_of(manifest).endswith("x2: unknown field (line 1); and more.")


def test_yaml_that_is_refused_names_its_line() -> None:
    with pytest.raises(Invalid, match="line 2, column 1: 'id' is there twice"):
        read_manifest(b"id: a\nid: b\n")


@pytest.mark.parametrize(
    ("name", "config", "is_valid"),
    [
        ("code", {"content": "$return.output"}, True),
        ("code", {"file": "$args.path", "editable": True}, True),
        ("code", {}, False),
        ("document", {"file": "README.md"}, True),
        ("document", {"file": "a", "language": "x"}, False),
        ("html", {"artifact": "a.html"}, True),
        ("html", {"artifact": "a.html", "data": {"rows": ["$return.rows", 1, None]}}, True),
        ("html", {"data": "$return"}, False),
        ("frame", {"url": "http://localhost:$return.port"}, True),
        ("frame", {"port": "$return.port"}, True),
        ("frame", {"port": 8080}, True),
        ("frame", {"port": 0}, False),
        ("frame", {"port": 65_536}, False),
        ("frame", {"port": True}, False),
        ("frame", {"port": "8080"}, False),
        ("frame", {"port": 1, "url": "http://localhost"}, False),
        ("frame", {}, False),
    ],
)
def test_both_forms_of_a_renderer_have_the_same_rules(
    name: str, config: Manifest, is_valid: bool
) -> None:
    older = with_value("tools.1.renderer", {"type": name, **config}) | {"tool_overrides": []}
    newer = with_value(
        "tool_overrides.0", {"tool_id": "plot", "renderer": name, "renderer_config": config}
    )
    if is_valid:
        (from_tool,) = (o for o in list_overrides(check_manifest(older)) if "plot" in o.tool_id)
        (from_override,) = (o for o in list_overrides(check_manifest(newer)) if "plot" in o.tool_id)
        assert from_tool == from_override == EffectiveOverride("demo:plot", Renderer(name, config))
    else:
        assert "tools[1].renderer" in refusal_of(older)
        assert "tool_overrides[0].renderer_config" in refusal_of(newer)


def test_canonical_override_wins() -> None:
    manifest = with_value("tools.1.renderer", {"type": "document", "file": "x"})
    overrides = {o.tool_id: o for o in list_overrides(check_manifest(manifest))}
    assert list(overrides) == ["demo:plot", "web:search", "demo:write_file"]
    assert overrides["demo:plot"].renderer == Renderer(
        "html", {"artifact": "artifacts/plot.html", "data": "$return"}
    )


def test_older_renderer_counts_where_the_override_has_none() -> None:
    manifest = with_value("tools.1.renderer", {"type": "document", "file": "x"})
    manifest["tool_overrides"][0] = {"tool_id": "demo:plot", "name_override": "Plot"}
    plot = list_overrides(check_manifest(manifest))[0]
    assert (plot.name, plot.renderer) == ("Plot", Renderer("document", {"file": "x"}))
