"""The description of the API in the form of OpenAPI 3.1.

It is made from the declarations of the verbs: requests are the arguments that they declare, and
results their return types, so that nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from pydantic import TypeAdapter

import sshwarma
from sshwarma.common.limits import IDEMPOTENCY_KEY_SECONDS, MAX_IDEMPOTENCY_KEY_CHARACTERS
from sshwarma.common.schema_texts import describe_properties, without_texts
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.events.event_types import EVENT_ADAPTER
from sshwarma.verbs.registry import every_verb
from sshwarma.verbs.verb import Verb
from sshwarma.web.endpoints import API_PREFIX, ENDPOINTS, EVENT_STREAM_TYPE, Endpoint, get_verb
from sshwarma.web.errors import HTTP_STATUSES
from sshwarma.web.event_stream import describe_query
from sshwarma.web.incoming_hooks import HOOK_PATH

_SCHEMA_REF: Final = "#/components/schemas/{model}"

_REFUSALS: Final = {
    401: "The token is missing, unknown, expired or revoked.",
    403: "The agent, or the scope of the token, lacks a right.",
    408: "The body did not arrive in time.",
    404: "There is no such room, verb or thing, or none that the agent may know of.",
    409: "The request clashes with the present state.",
    413: "The body is too large.",
    422: "An argument is missing or wrong; the message names it.",
    429: "Too many requests: `Retry-After` says in how many seconds the next one is accepted.",
    503: "Not possible now, as when the disk is full or the server stops.",
}
"""What each status of a refusal means."""

_EVENT: Final = "Event"

_ROOM: Final = {
    "name": "room",
    "in": "query",
    "description": "Name of the room (default: the agent's last room).",
    "schema": {"type": "string"},
}

_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "A text of the client's choice. A second request with it, within"
        f" {IDEMPOTENCY_KEY_SECONDS // HOUR_SECONDS} hours, runs nothing and has the answer of the"
        " first."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_CHARACTERS},
}

_BYTES: Final = {"type": "string", "format": "binary"}


@cache
def describe_api() -> dict[str, Any]:
    """Return the description of all requests, their results and their refusals."""
    verbs = [verb for verb in every_verb() if not verb.ssh_only]
    results, event, schemas = _describe_results(verbs)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        result = results[get_verb(endpoint.verb).path]
        paths[endpoint.path] = {endpoint.method.lower(): _describe_endpoint(endpoint, result)}
    paths[f"{API_PREFIX}/events"] = {"get": _describe_events()}
    paths[f"{API_PREFIX}/stream"] = {"post": _describe_stream()}
    paths[f"{API_PREFIX}/line"] = {"post": _describe_line()}
    paths[f"{API_PREFIX}/verbs"] = {"get": _describe_list()}
    paths[HOOK_PATH] = {"post": _describe_hook()}
    for verb in verbs:
        described = _describe_verb(verb, results[verb.path])
        paths[f"{API_PREFIX}/verbs/{verb.path}"] = {"post": described}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sshwarma",
            "version": sshwarma.__version__,
            "description": "A request runs in the room of the token's agent, or in `room`.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": section} for section in dict.fromkeys(verb.section for verb in verbs)],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": dict(_describe_refusals()),
            "schemas": schemas | {"Error": _ERROR, _EVENT: event},
        },
    }


_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error", "message", "hint"],
    "properties": {
        "error": {"type": "string", "enum": sorted({*HTTP_STATUSES, "internal"})},
        "message": {"type": "string", "description": "What was wrong."},
        "hint": {"type": "string", "description": "What would be right; may be empty."},
    },
}


def _describe_results(
    verbs: list[Verb],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the schemas of results, by path of the verb, of an event, and of parts."""
    adapters = [(verb.path, "serialization", verb.result_adapter) for verb in verbs]
    adapters.append((_EVENT, "serialization", EVENT_ADAPTER))
    found, definitions = TypeAdapter.json_schemas(adapters, ref_template=_SCHEMA_REF)  # type: ignore[arg-type]
    results = {path: without_texts(schema, "title") for (path, _), schema in found.items()}
    named = without_texts(definitions.get("$defs", {}), "title")
    schemas = {name: describe_properties(schema) for name, schema in named.items()}
    types = results.pop(_EVENT)["anyOf"]
    for event in types:
        schemas[event["$ref"].rpartition("/")[2]]["required"].append("type")
    event = {"oneOf": types, "discriminator": {"propertyName": "type"}}
    return results, event, schemas


def _describe_refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    for status, meaning in _REFUSALS.items():
        described: dict[str, Any] = _describe_json(
            meaning, {"$ref": _SCHEMA_REF.format(model="Error")}
        )
        if status == 429:
            seconds = {"type": "integer", "minimum": 0}
            described["headers"] = {"Retry-After": {"description": "Seconds.", "schema": seconds}}
        yield _name_refusal(status), described


def _name_refusal(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")


def _describe_responses(success: dict[str, Any]) -> dict[str, Any]:
    refusals = {
        str(status): {"$ref": f"#/components/responses/{_name_refusal(status)}"}
        for status in _REFUSALS
    }
    return {"200": success} | refusals


def _describe_endpoint(endpoint: Endpoint, result: dict[str, Any]) -> dict[str, Any]:
    verb = get_verb(endpoint.verb)
    described = _describe_verb(verb, result) | {"operationId": endpoint.name}
    if endpoint.answers_with:
        described["responses"]["200"]["content"] = {endpoint.answers_with: {"schema": _BYTES}}
    if endpoint.method == "GET":
        del described["requestBody"]
        described["parameters"] = [_ROOM, *_describe_query(verb, endpoint)]
        return described
    content = described["requestBody"]["content"]
    if endpoint.takes:
        content[endpoint.takes] = {"schema": _BYTES}
    if endpoint.switched_off_by:
        schema = content["application/json"]["schema"]
        switch = {"type": "boolean", "default": True}
        content["application/json"]["schema"] = schema | {
            "properties": schema.get("properties", {}) | {endpoint.switched_off_by: switch}
        }
    return described


def _describe_stream() -> dict[str, Any]:
    described = _describe_verb(get_verb("say"), {})
    events = {"description": "Server-sent events: said, text, row, status, and end or error."}
    content = {EVENT_STREAM_TYPE: {"schema": {"type": "string"}}}
    return described | {
        "operationId": "stream",
        "summary": "Say something to a room, and read the answers as they are written.",
        "parameters": [_ROOM],
        "responses": _describe_responses(events | {"content": content}),
    }


def _describe_events() -> dict[str, Any]:
    content = {EVENT_STREAM_TYPE: {"schema": {"type": "string"}}}
    about = (
        "Server-sent events. The data of each is the JSON of an `Event`, which is one of the"
        " schemas; the id of a row is a cursor."
    )
    return {
        "operationId": "events",
        "tags": ["Talking"],
        "summary": "Hear what happens in rooms, as it happens.",
        "parameters": describe_query(),
        "responses": _describe_responses({"description": about, "content": content}),
    }


def _describe_list() -> dict[str, Any]:
    verb = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    verbs = {"type": "object", "properties": {"verbs": {"type": "array", "items": verb}}}
    return {
        "operationId": "list_verbs",
        "parameters": [],
        "tags": ["Looking"],
        "summary": "List the verbs, with their rights and the schemas of their arguments.",
        "responses": _describe_responses(_describe_json("The verbs.", verbs)),
    }


def _describe_hook() -> dict[str, Any]:
    secret = {"name": "secret", "in": "path", "required": True, "schema": {"type": "string"}}
    said = {"type": "object", "properties": {"ok": {"type": "boolean"}, "seq": {"type": "integer"}}}
    return {
        "operationId": "post_to_hook",
        "tags": ["Talking"],
        "summary": "Say or note in a room what a hook makes of a post.",
        "description": "The body is JSON, or with its content type a form or a text.",
        "security": [],  # who knows the address may post
        "parameters": [secret, _IDEMPOTENCY_KEY],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {}}},
        },
        "responses": _describe_responses(_describe_json("It was said or noted.", said)),
    }


def _describe_line() -> dict[str, Any]:
    line = {"type": "string", "description": "A line as it is typed, such as /look."}
    schema = {"type": "object", "required": ["line"], "properties": {"line": line}}
    result = {"description": "That of the verb that the line calls."}
    return {
        "operationId": "line",
        "tags": ["Talking"],
        "summary": "Run a line as it is typed.",
        "parameters": [_ROOM, _IDEMPOTENCY_KEY],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _describe_responses(_describe_answer(result)),
    }


def _describe_verb(verb: Verb, result: dict[str, Any]) -> dict[str, Any]:
    schema = verb.input_schema
    body = {"application/json": {"schema": schema}}
    return {
        "operationId": f"verb_{verb.path}",
        "tags": [verb.section],
        "summary": verb.summary,
        "description": verb.program_detail,
        "parameters": [_ROOM, _IDEMPOTENCY_KEY],
        "requestBody": {"required": bool(schema.get("required")), "content": body},
        "responses": _describe_responses(_describe_answer(result)),
    }


def _describe_answer(result: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string", "description": "The result as people read it."}
    schema = {
        "type": "object",
        "required": ["result", "text"],
        "properties": {"result": result, "text": text},
    }
    return _describe_json("The result.", schema)


def _describe_json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _describe_query(verb: Verb, endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    schema, defaults = verb.input_schema, dict(endpoint.defaults)
    for name, described in schema.get("properties", {}).items():
        if name == "room" or name in endpoint.leaves_out:
            continue
        shown = described | ({"default": defaults[name]} if name in defaults else {})
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()) and name not in defaults,
            "description": shown.pop("description", ""),
            "schema": shown,
        }
