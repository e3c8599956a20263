"""What Tab offers, by what the argument under the cursor is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_COMPLETIONS
from sshwarma.verbs.completion import _find_position, complete
from sshwarma.verbs.model_completion import _list_values
from sshwarma.verbs.registry import VerbGroup, every_entry, every_verb, find_verb
from sshwarma.world import agents, turns
from support.people import Someone, do, make


async def offered(who: Someone, text: str) -> list[str]:
    """What is offered at the end of the text; each replaces what it completes."""
    found = await complete(who.caller, text, len(text))
    for candidate in found:
        assert candidate.text.lower().startswith(text[candidate.start :].lower())
    return [candidate.text for candidate in found]


async def test_verbs_and_aliases_are_completed(alice: Someone) -> None:
    assert set(await offered(alice, "/")) == {f"/{entry.name}" for entry in every_entry()}
    assert await offered(alice, "/por") == ["/portal"]
    assert await offered(alice, "/POR") == ["/portal"]
    await do(alice, "/alias work = /join")
    assert "/work" in await offered(alice, "/wo")
    assert await offered(alice, "/nothing") == []


async def test_namespaces_fields_and_states_are_completed(alice: Someone, qwen: Someone) -> None:
    await do(alice, "/namespace new git.branch")
    await do(alice, "/namespace new gate")
    await do(alice, "/namespace set gate required_states open-sesame,mcp:none")
    assert await offered(alice, "/load g") == ["gate", "git", "git.branch"]
    await do(alice, "/load git")
    assert await offered(alice, "/load g") == ["gate", "git.branch"]
    assert await offered(alice, "/unload g") == ["git", "global"]
    assert await offered(alice, "/load git ro") == ["room"]
    assert await offered(alice, "/namespace s") == ["show", "set"]
    assert await offered(alice, "/namespace show git.") == ["git.branch"]
    assert "sshwarma:look" in await offered(alice, "/namespace set ssh")
    assert await offered(alice, "/namespace set git load") == ["load_with_parent"]
    assert await offered(alice, "/namespace set git auto_load ") == ["on", "off"]
    assert await offered(alice, "/namespace set git:x leave_out s") == ["SHORT"]
    assert "gate" in await offered(alice, "/namespace set git parent ")
    assert await offered(alice, "/namespace set git keywords a") == []
    assert "remove" in await offered(alice, "/state ")
    assert await offered(alice, "/namespace set git leave_out PARAMS") == ["PARAMS_ONLY"]
    assert await offered(alice, "/namespace set git nothing ") == []
    assert await offered(alice, "/namespace set git leave") == []
    assert await offered(alice, "/namespace set sshwarma:look ") == [
        "keywords", "required_states", "leave_out",
    ]  # fmt: skip
    assert await offered(alice, "/state add ") == ["open-sesame"]
    await do(alice, "/state add open-sesame")
    assert await offered(alice, "/state add ") == []
    assert await offered(alice, "/state remove ") == ["open-sesame"]
    assert await offered(alice, "/state clear ") == ["@qwen"]


async def test_group_actions_and_default_arguments_are_completed(
    alice: Someone, bob: Someone
) -> None:
    for entry in every_entry():
        if isinstance(entry, VerbGroup):
            found = await offered(alice, f"/{entry.name} ")
            assert found[: len(entry.list_words())] == list(entry.list_words())
            assert await offered(alice, f"/{entry.name} nothing-like-it ") == [] or (
                entry.default_takes_words
            )
    assert await offered(alice, "/history s") == ["show", "stats"]
    assert await offered(alice, "/history @") == ["@bob"]
    assert await offered(alice, "/history show @") == ["@bob"]
    assert await offered(alice, "/history @bob --t") == ["--tools"]
    assert await offered(alice, "/history search relay --d") == ["--dropped"]
    assert await offered(alice, "/tool list ") != []
    assert await offered(alice, "/tool sshwarma") == [], (
        "a default takes no words unless it says so"
    )
    assert await offered(alice, "/help tool e") == ["edit", "enable"]
    assert await offered(alice, "/mem project s") == ["set", "search"]
    assert await offered(alice, "/help mem session re") == ["replace", "reindent", "restore"]
    await do(alice, "/mem project set plan = x")
    assert await offered(alice, "/mem project get p") == ["plan"]
    assert await offered(alice, "/mem project get plan --t") == ["--to"]
    await do(alice, "/mem project set other --project /srv/x = x")
    assert await offered(alice, "/mem project get --project /srv/x ") == ["other"]
    assert await offered(bob, "/mem project get --project /srv/x ") == []


async def test_arguments_are_completed_by_their_type(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    await do(alice, "/portal north den")
    await do(alice, "/put note = x")
    await do(alice, "/put me:mine = x")
    assert await offered(alice, "/join d") == ["den"]
    assert await offered(alice, "/go n") == ["north"]
    assert "northwest" in await offered(alice, "/portal no")
    assert "den" in await offered(alice, "/portal north ")
    assert await offered(alice, "/portal north den ") == ["--both"]
    assert await offered(alice, "/tell b") == ["bob"]
    assert await offered(alice, "/tell bob b") == []
    assert await offered(alice, "/examine n") == ["note"]
    assert "mine" in await offered(alice, "/examine ")
    assert "@bob" in await offered(alice, "/examine @")
    assert await offered(alice, "/equip r") == ["room"]
    assert "sshwarma:*" in await offered(alice, "/equip room ssh")
    assert "sshwarma:put" in await offered(alice, "/equip room sshwarma:look,sshwarma:pu")
    assert "sshwarma:put" not in await offered(alice, "/unequip room sshwarma:pu")
    assert "sshwarma:look" in await offered(alice, "/unequip room ssh")
    assert await offered(alice, "/nav o") == ["on", "off"]
    assert await offered(alice, "/gc p") == ["purge"]
    assert await offered(alice, "/set th") == ["theme"]
    assert await offered(alice, "/model te") == ["test"]
    assert await offered(alice, "/model set bob turn_s") == ["turn_steps", "turn_seconds"]
    assert await offered(alice, "/model add x oll") == ["ollama"]
    assert "--key-env" in await offered(alice, "/model add x ollama m --k")
    assert await offered(alice, "/set theme l") == ["light"]
    assert "portal" in await offered(alice, "/help po")
    assert await offered(alice, "/history --b") == ["--before"]
    assert await offered(alice, "/history --before 3 --before") == []
    assert await offered(alice, "/move note to h") == ["home"]


async def test_only_what_the_verb_accepts_is_offered(alice: Someone, bob: Someone) -> None:
    assert await offered(alice, "/room delete ") == []
    await do(alice, "/create den")
    assert await offered(alice, "/room delete ") == ["den"]
    assert await offered(alice, "/schema mes") == ["messages"]
    for line in ("/mute bob ", "/ban bob "):
        assert await offered(alice, line) == ["forever"]
    assert not any(name.startswith("global:") for name in await offered(alice, "/unequip me "))
    await do(alice, "/equip me sshwarma:look")
    assert await offered(alice, "/unequip me ssh") == ["sshwarma:look"]
    for action in ("new", "edit", "test", "remove"):
        assert await offered(alice, f"/tool {action} ") == []
    runs = {"runs": "lua"}
    await make(alice.world, alice.room_id, "tool", "dice", qualified_name="den:dice", metadata=runs)
    for action in ("new", "edit", "test", "remove"):
        assert await offered(alice, f"/tool {action} ") == ["den:dice"]
    assert await offered(alice, "/inv ") == await offered(alice, "/inventory ")
    assert {"defaults", "all", "me", "@bob"} <= set(await offered(alice, "/inv "))


async def test_flags_are_offered_where_they_may_stand(alice: Someone) -> None:
    assert await offered(alice, "/model add ") == []
    assert "--url" in await offered(alice, "/model add --")
    assert "--url" in await offered(alice, "/model add x ollama m ")
    assert "--cwd" in await offered(alice, "/mcp add x --")
    assert await offered(alice, "/mcp add x -- ") == []
    assert await offered(alice, "/mcp add x -- cat --") == []
    assert await offered(alice, "/skill new x = some text --") == []


async def test_turns_skills_and_models_are_completed(alice: Someone) -> None:
    world, room_id = alice.caller.world, alice.caller.room_id
    qwen = await world.change(lambda tx: agents.create_agent(tx, "qwen", kind="model"))
    turn = await world.change(lambda tx: turns.open_turn(tx, room_id, qwen.id, alice.agent.id))
    await do(alice, "/skill new terse = Be brief.")
    for line in ("/message show ", "/message drop ", "/branch switch "):
        assert await offered(alice, line) == [turn.short_id]
    assert await offered(alice, "/message list ") == []
    assert await offered(alice, "/skill activate te") == ["terse"]
    for line in ("/skill show te", "/skill edit te", "/skill rename te", "/skill remove te"):
        assert await offered(alice, line) == ["terse"]
    assert await offered(alice, "/skill new te") == []
    assert await offered(alice, "/skill rename terse te") == []
    assert await offered(alice, "/skill activate terse ") == ["room", "me", "@qwen", "--priority"]
    assert await offered(alice, "/skill activate terse --priority ") == []
    assert await offered(alice, "/message restore ") == [turn.short_id]
    assert await offered(alice, "/state s") == []
    for line in (
        "/notes @q",
        "/notes clear @q",
        "/state @q",
        "/state clear @q",
        "/context rebuild @",
        "/wrap @q",
        "/retry @q",
    ):
        assert await offered(alice, line) == ["@qwen"]
    assert await offered(alice, "/state add q") == []
    assert await offered(alice, "/context window q") == []
    assert await offered(alice, "/model show q") == ["qwen"]
    assert await offered(alice, "/model add q") == []


async def test_mentions_are_completed_in_chat(alice: Someone, bob: Someone) -> None:
    assert await offered(alice, "ask @b") == ["@bob"]
    assert await offered(alice, "ask b") == []
    assert await offered(alice, "//b") == []
    assert await offered(alice, "ask @alice"[:5]) == ["@bob"], "not oneself"


async def test_private_names_are_not_completed(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create vault")
    await do(alice, "/put me:secret = x")
    await do(alice, "/room private")
    assert await offered(bob, "/join v") == []
    assert await offered(bob, "/examine se") == []
    assert await offered(alice, "/join v") == ["vault"]


async def test_things_at_home_are_completed_for_equip(alice: Someone) -> None:
    await make(alice.world, "home", "data", "prompt:common")
    assert await offered(alice, "/equip me home:") == ["home:prompt:common"]


async def test_number_of_completions_is_limited(alice: Someone) -> None:
    def many(tx: object) -> None:
        from sshwarma.world import things

        for n in range(MAX_COMPLETIONS + 20):
            things.create_thing(tx, "rooms", "room", f"r{n}")  # type: ignore[arg-type]

    await alice.world.change(many)
    assert len(await offered(alice, "/join r")) == MAX_COMPLETIONS


@pytest.mark.parametrize("text", ["/ ", "/look\t", "/,", "/x,y ", "/alias ", "/equip  ,", "@", " @",
                                  "/\n", "/say @", '/join "', "/equip room a,b,"])  # fmt: skip
async def test_odd_lines_are_completed_without_an_error(alice: Someone, text: str) -> None:
    for cursor in range(len(text) + 1):
        await complete(alice.caller, text, cursor)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([verb.name for verb in every_verb()]),
    st.lists(st.sampled_from(["a", "to", "=", "--yes", "--both", "--n", "--priority=1", "-"])),
)
def test_parameter_under_the_cursor_belongs_to_the_verb(name: str, given: list[str]) -> None:
    verb = find_verb(name)
    assert verb is not None
    found = _find_position(verb, given)
    assert found.parameter is None or found.parameter in verb.parameters
    assert not found.is_flag_value or found.parameter in verb.flags.values()


async def test_values_of_each_setting_of_a_model_are_completed(alice: Someone) -> None:
    await do(alice, "/create den")
    for field, values in {
        "profile": ["small", "full", "-"],
        "tools": ["all", "few", "none", "-"],
        "rooms": ["den", "home", "lobby", "-"],
        "turn_tokens": ["-"],
        "prompt": ["-"],
        "model": [],
        "nothing": [],
    }.items():
        offers = await offered(alice, f"/model set m1 {field} ")
        assert (sorted(offers[:-1]) + offers[-1:] if field == "rooms" else offers) == values
    assert "ollama" in await offered(alice, "/model set m1 kind ")
    assert "-" not in await offered(alice, "/model set m1 kind ")
    assert await offered(alice, "/model set m1 profile s") == ["small"]
    for line in ("profile - ", "profile small ", "prompt You are "):
        assert await offered(alice, f"/model set m1 {line}") == []
    assert await offered(alice, "/model set m1 rooms den,home ") == ["lobby"]
    assert await offered(alice, "/model set m1 rooms den,l") == ["lobby"]
    assert all(not value for value in map(_list_values, (int, str, float | None)))
    assert _list_values(bool | None) == ["on", "off"]


async def test_keys_of_a_memory_are_completed(alice: Someone) -> None:
    for key in ("plan", "'release plan'"):
        await do(alice, f"/mem project set {key} = x")
        await do(alice, f"/mem session set {key} = x")
    for scope in ("project", "session"):
        assert await offered(alice, f"/mem {scope} get pl") == ["plan"]
        assert {"plan", "'release plan'"} <= set(await offered(alice, f"/mem {scope} get "))
    assert await offered(alice, "/mem project get --project=/srv/none pl") == []
    assert await offered(alice, "/mem project get --project /srv/none pl") == []
