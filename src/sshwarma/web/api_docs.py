"""The page `/api/docs`: the description of the API for people, without scripts.

It is made from the OpenAPI description, so that it says nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from typing import Any, Final

from sshwarma.web.openapi import describe_api

DOCS_PATH: Final = "/api/docs"

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1b1b1b}
code,pre{font:14px/1.4 ui-monospace,monospace;background:#f3f3f3;border-radius:3px}
code{padding:0 .2em}pre{padding:.6rem;overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #ddd}
summary{cursor:pointer;padding:.2rem 0}summary code{background:none;font-weight:600}
details{border-bottom:1px solid #eee}details>div{padding:0 0 .8rem 1rem}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}code,pre{background:#262626}
td,th{border-color:#333}details{border-color:#262626}a{color:#8ab4f8}}
"""

_INTRODUCTION: Final = """
<p>Each request has the token of an agent: <code>ssh HOST token new web --scope act</code> makes
one. It runs in the agent's last room, or in <code>?room=NAME</code>.</p>
<pre>curl --header "Authorization: Bearer $TOKEN" --json '{"text": "hello"}' \\
    "$HOST/api/v1/verbs/say?room=lobby"</pre>
<p>An answer is <code>{"result": …, "text": …}</code>, a refusal
<code>{"error": CODE, "message": …, "hint": …}</code>. After status 429, wait as long as the header
<code>Retry-After</code> says. A POST with an <code>Idempotency-Key</code> runs once, however often
it is sent.</p>
<p>The same for programs, as OpenAPI 3.1: <a href="/api/openapi.json">/api/openapi.json</a>.</p>
"""


@cache
def render_docs() -> str:
    """Return the page, as HTML."""
    described = describe_api()
    title = f"The API of sshwarma {escape(described['info']['version'])}"
    body = "".join(_render_body(described))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{_INTRODUCTION}{body}</body></html>"
    )


def _render_body(described: Mapping[str, Any]) -> Iterator[str]:
    sections: dict[str, list[str]] = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            shown = _render_operation(method.upper(), path, operation)
            sections.setdefault(operation["tags"][0], []).append(shown)
    for section, shown_operations in sections.items():
        yield f"<h2>{escape(section)}</h2>{''.join(shown_operations)}"
    yield "<h2>Types</h2>"
    for name, schema in sorted(described["components"]["schemas"].items()):
        about = f"<p>{escape(schema.get('description', ''))}</p>{_render_fields(schema)}"
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        yield f"<div>{about}</div></details>"


def _render_operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = [
        {**one["schema"], "name": one["name"], "place": one["in"], **_about(one)}
        for one in operation["parameters"]
    ]
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    required = schema.get("required", ())
    parameters += [
        {**one, "name": name, "place": "body", "required": name in required}
        for name, one in schema.get("properties", {}).items()
    ]
    others = [kind for kind in content if kind != "application/json"]
    result = operation["responses"]["200"]
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><code>{method}'
        f" {escape(path)}</code> {escape(operation['summary'])}</summary><div>"
        f"<p>{escape(operation.get('description', ''))}</p>"
        + (f"<p>The body may be {escape(', '.join(others))}.</p>" if others else "")
        + _render_parameters(parameters)
        + f"<p>Answers with {_render_result(result)}</p></div></details>"
    )


def _about(parameter: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "description": parameter.get("description", ""),
        "required": parameter.get("required", False),
    }


def _render_parameters(parameters: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{one['place']}</td>"
        f"<td>{name_type(one)}</td><td>{'required. ' if one.get('required') else ''}"
        f"{escape(one.get('description', ''))}</td></tr>"
        for one in parameters
    )
    return f"<table><tr><th>argument</th><th>in</th><th>type</th><th></th></tr>{rows}</table>"


def _render_result(response: Mapping[str, Any]) -> str:
    content = response.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    result = schema.get("properties", {}).get("result")
    if result is None:
        return f"{escape(', '.join(content))}: {escape(response['description'])}"
    return f"{name_type(result)} as <code>result</code>."


def _render_fields(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties", {})
    if not properties:
        return f"<p>{name_type(schema)}</p>"
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{name_type(one)}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for name, one in properties.items()
    )
    return f"<table>{rows}</table>"


def name_type(schema: Mapping[str, Any]) -> str:
    """Return what a schema allows in words, as HTML with links to named types."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(name_type(one) for one in options))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {name_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {name_type(schema['additionalProperties'])}"
    words = {"string": "text", "boolean": "true or false", "null": "null"}
    return escape(words.get(str(kind), str(kind)))
