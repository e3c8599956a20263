"""Questions of servers during a call reach only the caller, in their terminal."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.mcp.client import elicitation
from sshwarma.mcp.client.elicitation import parse_field_value
from sshwarma.mcp.client.link import ElicitationField
from sshwarma.tools.call_outcome import CallOutcome
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.events import PersonalNotice
from sshwarma.world.questions import Question
from support.driver.installed import PROGRAMS
from support.hub import Hubbed
from support.people import Someone, do, refused

MODERN = (sys.executable, str(PROGRAMS / "modern.py"), "stdio")


class Terminal:
    """What an agent is asked, and a way to answer."""

    def __init__(self, someone: Someone) -> None:
        self.someone = someone
        self.asked: asyncio.Queue[PersonalNotice] = asyncio.Queue()
        someone.world.bus.on_agent(someone.id, self._heard)

    def _heard(self, event: Any) -> None:
        if isinstance(event, PersonalNotice):
            self.asked.put_nowait(event)

    async def next(self) -> PersonalNotice:
        async with asyncio.timeout(30):
            return await self.asked.get()

    async def answers(self, *texts: str) -> list[PersonalNotice]:
        seen = []
        for text in texts:
            seen.append(await self.next())
            await do(self.someone, f"/answer {text}".strip())
        return seen


def said(outcome: CallOutcome) -> Any:
    return json.loads(outcome.text)


async def test_form_fields_are_asked_one_at_a_time(
    hubbed: Hubbed, alice: Someone, bob: Someone
) -> None:
    await hubbed.poisoned()
    hers, his = Terminal(alice), Terminal(bob)
    call = asyncio.create_task(hubbed.call("evil:ask"))
    seen = await hers.answers("Reykjavík!!", "Oslo", "9", "", "f")
    assert said(await call) == {
        "action": "accept", "content": {"city": "Oslo", "days": 3, "unit": "F"},
    }  # fmt: skip
    assert [asked.sender for asked in seen] == ["evil"] * 5
    assert [asked.text for asked in seen] == [
        "About [1mthe weather.\ncity (Where):",
        "Must be at most 10 characters (got 11). city (Where):",
        "days: a whole number",
        "Must be at most 7 (got 9). days: a whole number",
        "unit: C, F",
    ]
    assert "/answer alone for 3" in seen[2].hint
    assert "leave it out" in seen[4].hint
    assert his.asked.empty(), "nobody else is asked, or sees it"


async def test_decline_ends_the_elicitation(hubbed: Hubbed, alice: Someone) -> None:
    await hubbed.poisoned()
    hers = Terminal(alice)
    call = asyncio.create_task(hubbed.call("evil:ask"))
    await hers.answers("--decline")
    assert said(await call) == {"action": "decline"}
    assert isinstance(await refused(alice, "/answer again"), NotFound)


@pytest.mark.parametrize("protocol", ["older", "newer"])
async def test_cancelled_call_ends_the_elicitation(
    hubbed: Hubbed, alice: Someone, protocol: str
) -> None:
    if protocol == "older":
        await hubbed.poisoned()
        call = asyncio.create_task(hubbed.call("evil:ask"))
    else:
        await hubbed.add("modern", *MODERN)
        call = asyncio.create_task(hubbed.call("modern:weather", question="rain"))
    hers = Terminal(alice)
    await hers.next()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await hers.next()).text == "The call ended; no answer is needed."
    assert isinstance(await refused(alice, "/answer Oslo"), NotFound)


async def test_elicitation_timeout_is_a_decline(
    hubbed: Hubbed, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elicitation, "ELICITATION_TIMEOUT_SECONDS", 2.0)
    await hubbed.poisoned(call_seconds=1.5)
    hers = Terminal(alice)
    # The time of the call stands still while its person is asked.
    assert said(await hubbed.call("evil:ask")) == {"action": "decline"}
    assert (await hers.next()).text.startswith("About")
    assert "No answer in 2 s; the question was declined." in (await hers.next()).text


async def test_three_invalid_answers_are_a_decline(hubbed: Hubbed, alice: Someone) -> None:
    await hubbed.poisoned()
    hers = Terminal(alice)
    call = asyncio.create_task(hubbed.call("evil:ask"))
    await hers.answers("much too long a name", "much too long a name", "much too long a name")
    assert said(await call) == {"action": "decline"}


async def test_url_elicitation_shows_the_host_and_opens_nothing(
    hubbed: Hubbed, alice: Someone
) -> None:
    await hubbed.poisoned()
    hers = Terminal(alice)
    call = asyncio.create_task(hubbed.call("evil:open"))
    (asked,) = await hers.answers("yes")
    assert asked.text == (
        "Sign in.\nOpen this page at login.example.org: https://login.example.org/in?state=1"
    )
    assert said(await call) == {"action": "accept"}


async def test_request_for_a_secret_is_declined(hubbed: Hubbed, alice: Someone) -> None:
    await hubbed.poisoned()
    hers = Terminal(alice)
    assert said(await hubbed.call("evil:secret")) == {"action": "decline"}
    assert "asked for a secret" in (await hers.next()).text


async def test_calls_of_models_and_one_shot_commands_decline(
    hubbed: Hubbed, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    await hubbed.poisoned()
    hers, his = Terminal(alice), Terminal(bob)
    assert said(await hubbed.call("evil:ask", qwen)) == {"action": "decline"}
    bob.connection.door = "exec"
    assert said(await hubbed.call("evil:ask", bob)) == {"action": "decline"}
    assert hers.asked.empty()
    assert his.asked.empty()


async def test_call_of_a_model_asks_the_person_it_answers(
    hubbed: Hubbed, alice: Someone, qwen: Someone
) -> None:
    await hubbed.poisoned()
    hers = Terminal(alice)
    caller = replace(qwen.caller, question=Question(alice.id, max_turns=1))
    call = asyncio.create_task(hubbed.tools.call(caller, "evil:ask", {}))
    await hers.answers("Oslo", "", "")
    assert said(await call)["content"] == {"city": "Oslo", "days": 3}


async def test_ambiguous_caller_is_declined_with_a_reason(
    hubbed: Hubbed, alice: Someone, bob: Someone
) -> None:
    """The older protocol does not say which call a question belongs to."""
    await hubbed.poisoned()
    hers, his = Terminal(alice), Terminal(bob)
    waiting = asyncio.create_task(hubbed.call("evil:stall", bob))
    await hubbed.until(lambda: hubbed.hub.pool.running["mcp_evil"].in_flight)
    assert said(await hubbed.call("evil:ask", alice)) == {"action": "decline"}
    for one in (await hers.next(), await his.next()):
        assert "it is unclear who should answer" in one.text
        assert one.hint == ""
    assert "No question is waiting" in (await refused(alice, "/answer Oslo")).message
    waiting.cancel()


async def test_newer_protocol_routes_questions_to_the_caller(
    hubbed: Hubbed, alice: Someone, bob: Someone
) -> None:
    await hubbed.add("modern", *MODERN)
    hers, his = Terminal(alice), Terminal(bob)
    calls = [
        asyncio.create_task(hubbed.call("modern:weather", who, question=about))
        for who, about in ((alice, "rain"), (bob, "snow"))
    ]
    first = (await hers.answers("Oslo", "2"))[0]
    second = (await his.answers("Rome", ""))[0]
    assert first.text.startswith("About rain: where?")
    assert second.text.startswith("About snow: where?")
    assert [(await call).text for call in calls] == [
        "rain in Oslo for 2 days", "snow in Rome for 3 days",
    ]  # fmt: skip


async def test_concurrent_elicitations_are_asked_in_turn(hubbed: Hubbed, alice: Someone) -> None:
    await hubbed.add("modern", *MODERN)
    hers = Terminal(alice)
    calls = [asyncio.create_task(hubbed.call("modern:weather", question=about)) for about in "ab"]
    first, _, second, _ = await hers.answers("Oslo", "", "Rome", "")
    assert {first.text[:7], second.text[:7]} == {"About a", "About b"}
    assert {(await call).text for call in calls} in (
        {"a in Oslo for 3 days", "b in Rome for 3 days"},
        {"b in Oslo for 3 days", "a in Rome for 3 days"},
    )


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        (ElicitationField("x", "string", "x", True), "two words", "two words"),
        (ElicitationField("x", "integer", "x", True), "-7", -7),
        (ElicitationField("x", "number", "x", True), "1.5", 1.5),
        (ElicitationField("x", "boolean", "x", True), "Yes", True),
        (ElicitationField("x", "boolean", "x", True), "off", False),
        (ElicitationField("x", "string", "x", True, options=(("a", "Apple"),)), "apple", "a"),
        (
            ElicitationField("x", "choices", "x", True, options=(("a", "A"), ("b", "B"))),
            "b, a",
            ["b", "a"],
        ),
    ],
)
def test_parse_field_value_returns_typed_values(
    field: ElicitationField, typed: str, value: Any
) -> None:
    assert parse_field_value(field, typed) == value


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        (ElicitationField("x", "integer", "x", True), "1.5"),
        (ElicitationField("x", "number", "x", True), "many"),
        (ElicitationField("x", "boolean", "x", True), "perhaps"),
        (ElicitationField("x", "string", "x", True, options=(("a", "Apple"),)), "b"),
        (ElicitationField("x", "string", "x", True, limits={"minLength": 3}), "ab"),
        (ElicitationField("x", "integer", "x", True, limits={"minimum": 3}), "2"),
        (
            ElicitationField(
                "x", "choices", "x", True, options=(("a", "A"),), limits={"maxItems": 0}
            ),
            "a",
        ),
    ],
)
def test_parse_field_value_refuses_invalid_input(field: ElicitationField, typed: str) -> None:
    with pytest.raises(Invalid):
        parse_field_value(field, typed)
