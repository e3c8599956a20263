"""What Tab offers for things in bags, people to moderate, and arguments of tools."""

from __future__ import annotations

from sshwarma.verbs.completion import complete
from support.people import Someone, do, make


async def offered(who: Someone, text: str) -> list[str]:
    return [candidate.text for candidate in await complete(who.caller, text, len(text))]


async def test_things_are_offered_where_the_verb_takes_them(alice: Someone) -> None:
    for line in (
        "/put note = x",
        "/put me:mine = x",
        "/put home:ours = x",
        "/link page https://example.org",
        "/put old = x",
        "/drop room old",
    ):
        await do(alice, line)
    assert await offered(alice, "/drop room ") == ["note", "page"]
    assert await offered(alice, "/drop me ") == ["mine"]
    assert await offered(alice, "/restore ") == ["old"]
    for verb in ("put", "edit"):
        assert await offered(alice, f"/{verb} ") == ["note", "me:mine", "home:ours"]
    assert await offered(alice, "/link ") == ["page"]
    assert await offered(alice, "/move ") == ["note", "page", "mine", "home:ours"]
    assert await offered(alice, "/look n") == ["note"]


async def test_people_are_offered_where_they_can_be_moderated(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    assert await offered(alice, "/kick ") == []
    await do(bob, "/join lobby")
    assert await offered(alice, "/kick ") == ["bob"]
    assert await offered(alice, "/unmute ") == []
    await do(alice, "/mute bob 5")
    assert await offered(alice, "/unmute ") == ["bob"]
    assert await offered(alice, "/unban ") == []
    await do(alice, "/room builder bob")
    assert "bob" in await offered(alice, "/room remove ")


async def test_arguments_of_a_tool_are_offered(alice: Someone) -> None:
    schema = {
        "type": "object",
        "properties": {
            "sides": {"type": "integer", "description": "number of sides"},
            "colour": {"enum": ["red", "green", "two words"]},
            "loud": {"type": "boolean"},
            "bad name": {"type": "string"},
        },
        "required": ["colour"],
    }
    await make(
        alice.world,
        alice.room_id,
        "tool",
        "dice",
        qualified_name="den:dice",
        metadata={"runs": "lua", "input_schema": schema},
    )
    await do(alice, "/equip room den:dice")
    for verb in ("run", "tool test"):
        assert await offered(alice, f"/{verb} den:dice ") == ["colour=", "sides=", "loud="]
    candidates = await complete(alice.caller, "/run den:dice s", 15)
    assert [(c.text, c.space, c.note) for c in candidates] == [
        ("sides=", False, "integer, optional, number of sides")
    ]
    assert await offered(alice, "/run den:dice colour=r") == ["colour=red"]
    assert await offered(alice, "/run den:dice colour=t") == []
    assert await offered(alice, "/run den:dice loud=") == ["loud=true", "loud=false"]
    assert await offered(alice, "/run den:dice colour=red ") == ["sides=", "loud="]
    assert await offered(alice, "/run den:dice {") == []
    assert await offered(alice, "/run den:nothing ") == []
    assert "name=" not in await offered(alice, "/run sshwarma:say ")
    assert await offered(alice, "/run sshwarma:say ") == ["text="]


async def test_parameters_of_a_tool_are_offered_with_types_and_values(alice: Someone) -> None:
    """Schemas of enumerations and optional values are those that pydantic writes."""
    colour = {"$ref": "#/$defs/Colour"}
    schema = {
        "$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}},
        "type": "object",
        "properties": {
            "colour": {**colour, "default": "red"},
            "other": {"anyOf": [colour, {"type": "null"}], "default": None},
            "mode": {"const": "new", "type": "string"},
            "loud": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "sizes": {"type": "array", "items": {"type": "integer"}},
        },
    }
    values = {"runs": "lua", "input_schema": schema}
    await make(
        alice.world, alice.room_id, "tool", "dice", qualified_name="den:dice", metadata=values
    )
    await do(alice, "/equip room den:dice")
    candidates = await complete(alice.caller, "/run den:dice ", 14)
    assert {one.text: one.note for one in candidates} == {
        "colour=": "red|green, optional",
        "other=": "red|green, optional",
        "mode=": "new, optional",
        "loud=": "boolean, optional",
        "sizes=": "integer[], optional",
    }
    for name in ("colour", "other"):
        expected = [f"{name}=red", f"{name}=green"]
        assert await offered(alice, f"/run den:dice {name}=") == expected
    assert await offered(alice, "/run den:dice mode=") == ["mode=new"]
    assert await offered(alice, "/run den:dice loud=") == ["loud=true", "loud=false"]


async def test_disabled_tool_is_not_offered_to_be_called(alice: Someone) -> None:
    await make(
        alice.world, alice.room_id, "tool", "dice", qualified_name="den:dice",
        metadata={"runs": "lua"},
    )  # fmt: skip
    await do(alice, "/equip room den:dice")
    assert await offered(alice, "/run den:") == ["den:dice"]
    await do(alice, "/tool disable den:dice")
    assert await offered(alice, "/run den:") == []
    assert await offered(alice, "/tool enable den:") == ["den:dice"]
