"""The description of the API: valid, complete, and true of what is answered."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any, get_args

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import OpenAPIV31SpecValidator

from sshwarma.events.event_types import (
    EVENT_ADAPTER,
    EndEvent,
    HeardEvent,
    PresenceEvent,
    Reply,
    RowEvent,
    Speaker,
    TurnsEvent,
)
from sshwarma.verbs.registry import every_verb
from sshwarma.web.api_docs import render_docs
from sshwarma.web.event_stream import encode_event
from sshwarma.web.openapi import describe_api
from support.driver import Person, Server
from support.http_api import Api

CALLS: dict[str, dict[str, Any]] = {
    "look": {},
    "history_show": {"n": 3},
    "rooms": {},
    "who": {},
    "inv_show": {},
    "journal": {},
    "say": {"text": "hello"},
    "me": {"text": "waves"},
    "note": {"text": "hello"},
    "version": {},
    "mem_project_list": {},
    "tool_list": {},
    "models": {},
    "exits": {},
    "tools_info": {},
    "mem_session_set": {"key": "k", "value": "v"},
    "mem_session_get": {"key": "k"},
}
"""Calls whose results must be as the description of their verb says."""


def test_description_is_valid() -> None:
    OpenAPIV31SpecValidator(describe_api()).validate()


def test_every_verb_says_what_it_answers() -> None:
    paths = describe_api()["paths"]
    for verb in every_verb():
        if verb.ssh_only:
            continue
        responses = paths[f"/api/v1/verbs/{verb.path}"]["post"]["responses"]
        answer = responses["200"]["content"]["application/json"]["schema"]
        assert answer["properties"]["result"], verb.name
        assert {"401", "403", "404", "409", "413", "422", "429", "503"} <= responses.keys()


def test_every_path_of_the_api_is_described() -> None:
    described = describe_api()["paths"]
    assert {
        "/api/v1/verbs",
        "/api/v1/line",
        "/api/v1/events",
        "/hooks/{secret}",
    } <= described.keys()


def test_results_are_as_described(world: Server, bob: Person) -> None:
    described = describe_api()
    token = world.operate("token_new", name=bob.name, scope="build")["token"]
    api = Api(world, token, "lobby")
    for path, arguments in CALLS.items():
        operation = described["paths"][f"/api/v1/verbs/{path}"]["post"]
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        status, data = api.post(f"verbs/{path}", **arguments)
        assert status == 200, (path, data)
        schema = answer | {"components": described["components"]}
        Draft202012Validator(schema).validate(data)
        refused, error = api.post(f"verbs/{path}", nothing_like_it=1)
        assert refused == 422, path
        schema = described["components"]["schemas"]["Error"]
        Draft202012Validator(schema).validate(error)


class _Page(HTMLParser):
    """The addresses that a page links to, and the places that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and value and value.startswith("#"):
                self.links.add(value[1:])
            elif name == "id" and value:
                self.places.add(value)


def test_page_for_people_has_all_that_it_links_to() -> None:
    page = _Page()
    page.feed(render_docs())
    assert page.links and page.links <= page.places
    assert not re.search(r"<script|<link|src=", render_docs())


def test_events_are_as_described() -> None:
    schemas = describe_api()["components"]["schemas"]
    whole = schemas["Event"] | {"components": {"schemas": schemas}}
    validator = Draft202012Validator(whole)
    heard: list[HeardEvent] = [
        RowEvent(
            id="r:1,me:1", room="lobby", seq=1, at=1, kind="chat", text="hi", to_you=False,
            speaker=Speaker("bob", "person"), mention=True, reply=Reply("say", {}, "lobby"),
        ),
        RowEvent(
            id="r:1,me:1", seq=1, at=1, kind="tool.call", text="\u00e9\"\n", to_you=True,
            speaker=Speaker("qwen", "model"), mention=False, turn="t", tool="a:b", approval=3,
        ),
        EndEvent(None, "No room is left that you may hear.", again=False),
        PresenceEvent("lobby", ("bob",)),
        TurnsEvent("lobby", 1, (2,), ()),
    ]  # fmt: skip
    for event in heard:
        validator.validate(json.loads(EVENT_ADAPTER.dump_json(event)))
        data = encode_event(event).decode().rpartition("data: ")[2]
        assert json.loads(data) == json.loads(EVENT_ADAPTER.dump_json(event))
    assert list(validator.iter_errors({"type": "row", "room": "lobby"}))
    assert len(schemas["Event"]["oneOf"]) == len(get_args(HeardEvent))


def test_fields_of_results_are_described() -> None:
    schemas = describe_api()["components"]["schemas"]
    assert schemas["RowEvent"]["properties"]["room"]["description"] == (
        "the room; null for a message to you alone."
    )
    for name, schema in schemas.items():
        assert "Attributes:" not in schema.get("description", ""), name
