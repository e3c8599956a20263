"""/tool: where tools are put, what names they may have, who may decide on them."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_TOOLS_PER_PLACE
from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.tools.call import Tools
from sshwarma.verbs.edit_draft import EditDraft
from sshwarma.verbs.examine import ThingDetails
from sshwarma.world import overrides, things
from sshwarma.world.builtin_containers import is_builtin_tool
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.tool_names import mcp_tool_name, model_tool_name
from sshwarma.world.world import World
from support.people import Someone, arrive, do, make, refused, tool_names

DICE = "-- Rolls dice.\n-- @param sides integer=6 Sides\nreturn math.random(args.sides)"


async def has(who: Someone, name: str) -> bool:
    return name in await tool_names(who.world, who.room_id, who.id)


async def names(who: Someone, pattern: str = "") -> list[str]:
    return [tool.name for tool in (await do(who, f"/tool list {pattern}")).tools]


async def test_room_tool_is_available_to_everyone_in_the_room(
    alice: Someone, bob: Someone, qwen: Someone, den: str
) -> None:
    made = await do(alice, "/tool new dice", DICE)
    assert (made.name, made.made, made.description) == ("den:dice", True, "Rolls dice.")
    assert await has(bob, "den:dice")
    assert not await has(qwen, "den:dice")
    await do(qwen, "/join den")
    assert await has(qwen, "den:dice")
    await do(bob, "/join lobby")
    assert not await has(bob, "den:dice")


async def test_own_tool_follows_its_owner(alice: Someone, bob: Someone, den: str) -> None:
    made = await do(bob, "/tool new me:mine = return 'mine'")
    assert made.name == "bob:mine"
    assert not await has(alice, "bob:mine")
    await do(bob, "/join lobby")
    assert (await do(bob, "/run mine")).text == "mine"


async def test_tool_new_replaces_the_script_of_an_existing_tool(
    world: World, alice: Someone, den: str
) -> None:
    await do(alice, "/tool new dice = return 1")
    before = await world.store.read(lambda conn: things.find_by_qualified_name(conn, "den:dice"))
    made = await do(alice, "/tool new dice = -- @param a string\nreturn 2")
    after = await world.store.read(lambda conn: things.find_by_qualified_name(conn, "den:dice"))
    assert before and after and before.id == after.id
    assert (made.made, list(made.input_schema["properties"])) == (False, ["a"])
    notices = [row.content for row in await world.last_rows(den, 9) if row.kind == "notice"]
    assert notices[-2:] == ["made the tool den:dice", "changed the tool den:dice"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/tool new dice = return +", "Lua syntax error: dice:1: unexpected symbol near '+'."),
        ("/tool new dice = return 1\nend", "Lua syntax error: dice:2: "),
        ("/tool new dice = \x1bLua", "Lua syntax error"),
        (
            f"/tool new dice = return {'(' * 300}1{')' * 300}",
            "Lua syntax error: too many brackets, blocks or functions stand in each other.",
        ),
        ("/tool new dice = -- @param x\nreturn 1", "Line 1 of the script"),
        ("/tool new look/x = return 1", "cannot be the name of a tool"),
        ("/tool new " + "x" * 33 + " = return 1", "cannot be the name of a tool"),
        ("/tool new dice = ", "text: must not be empty."),
    ],
)
async def test_invalid_script_is_refused_at_creation(
    alice: Someone, den: str, line: str, words: str
) -> None:
    refusal = await refused(alice, line)
    assert isinstance(refusal, Invalid)
    assert words in str(refusal)


async def test_tool_verbs_check_rights(
    alice: Someone, bob: Someone, guest: Someone, den: str
) -> None:
    await do(alice, "/tool new dice", DICE)
    for line in ("new dice = return 1", "remove dice", "disable dice", "describe dice = x",
                 "test dice", "disable sshwarma:look", "describe sshwarma:look = x"):  # fmt: skip
        assert isinstance(await refused(bob, f"/tool {line}"), Forbidden), line
    await do(alice, "/room builder bob")
    for line in ("new dice = return 1", "test dice", "describe dice = x", "disable dice",
                 "enable dice", "remove dice"):  # fmt: skip
        await do(bob, f"/tool {line}")
    assert isinstance(await refused(bob, "/tool disable sshwarma:look"), Forbidden)
    assert isinstance(await refused(guest, "/tool new me:own = return 1"), Forbidden)
    await do(bob, "/tool new me:own = return 1")
    await do(bob, "/tool disable own")
    assert isinstance(await refused(guest, "/tool show bob:own"), NotFound)
    await do(alice, "/tool enable bob:own")  # an admin may


async def test_disabled_tool_is_unavailable_until_enabled(
    world: World, tools: Tools, alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/tool new dice", DICE)
    await do(bob, "/equip me den:dice")
    await do(alice, "/tool disable dice")
    assert not await has(bob, "den:dice")
    with pytest.raises(Unavailable, match="den:dice is unavailable: disabled"):
        await do(bob, "/run dice")
    listed = {tool.name: tool for tool in (await do(bob, "/tool list")).tools}["den:dice"]
    assert (listed.equipped, listed.obstacle) == (True, "disabled")
    assert (await do(bob, "/examine den:dice")).status == "disabled"
    await do(alice, "/tool new dice = return 'changed'")
    assert not await has(bob, "den:dice"), "another script changes nothing about it"
    await do(alice, "/tool enable den__dice")
    assert (await do(bob, "/run dice")).text == "changed"


async def test_builtin_tool_can_be_disabled(tools: Tools, alice: Someone, bob: Someone) -> None:
    await do(alice, "/tool disable sshwarma:who")
    await do(alice, "/tool disable global:help")
    for name in ("sshwarma:who", "global:help"):
        with pytest.raises(Unavailable, match="disabled"):
            await tools.call(bob.caller, name, {})


async def test_tool_description_can_be_overridden_and_reset(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/tool new dice", DICE)

    async def described() -> str:
        load = await world.loadout(den, bob.id)
        return next(i.thing.description for i in load.tools if i.thing.label == "den:dice")

    await do(alice, "/tool describe dice = Throws\n  cubes.")
    assert await described() == "Throws cubes."
    seen = await do(bob, "/tool show dice")
    assert seen.description == "Throws cubes."
    assert seen.facts["Its own description"] == "Rolls dice."
    await do(alice, "/tool describe dice =")
    assert await described() == "Rolls dice."
    assert "Its own description" not in (await do(bob, "/tool show dice")).facts
    await refused(alice, "/tool describe dice = " + "x" * 1001)


async def test_tool_show_lists_all_details(alice: Someone, bob: Someone, den: str) -> None:
    await do(alice, "/tool new dice", DICE)
    await do(bob, "/run dice sides=20")
    seen = await do(bob, "/tool show dice")
    assert isinstance(seen, ThingDetails)
    assert seen == await do(bob, "/examine dice")
    assert (seen.name, seen.status, seen.content) == ("den:dice", "available", DICE)
    assert seen.parameters == (("sides?", "integer=6", "Sides"),)
    assert (seen.calls_total, seen.calls[0].who, seen.calls[0].ok) == (1, "bob", True)
    assert (seen.facts["Models call it"], seen.facts["MCP"]) == ("den__dice", "den.dice")
    assert seen.facts["SSH"] == "/run den:dice"
    assert seen.input_schema is not None


async def test_tool_test_is_visible_only_to_its_caller(
    world: World, alice: Someone, den: str
) -> None:
    await do(alice, "/tool new dice = -- @param n integer\nprint('tried') return { n = args.n }")
    before = len(await world.last_rows(den, 100))
    trial = await do(alice, "/tool test dice n=3")
    assert (trial.ok, trial.structured, trial.printed) == (True, {"n": 3}, ("tried",))
    assert len(await world.last_rows(den, 100)) == before
    assert (await do(alice, "/tool show dice")).calls_total == 0
    assert "n: required" in (await refused(alice, "/tool test dice")).message
    await do(alice, "/tool disable dice")
    assert (await do(alice, "/tool test dice n=3")).ok, "its maker tries it before it is enabled"


async def test_tool_edit_returns_the_script_as_a_line(alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice = return 1")
    edit = await do(alice, "/tool edit dice")
    assert isinstance(edit, EditDraft)
    assert edit.line == "/tool new dice = return 1"
    assert (await do(alice, edit.line)).made is False
    await do(alice, "/tool new me:own = return 2")
    assert (await do(alice, "/tool edit own")).line == "/tool new me:own = return 2"
    assert (await do(alice, "/tool edit fresh")).line == "/tool new fresh = "
    await refused(alice, "/tool edit sshwarma:look")


async def test_removed_tool_can_be_restored(alice: Someone, bob: Someone, den: str) -> None:
    await do(alice, "/tool new dice", DICE)
    await do(alice, "/tool disable dice")
    await do(alice, "/tool remove dice")
    assert isinstance(await refused(bob, "/run den:dice"), NotFound)
    await do(alice, "/restore dice")
    assert not await has(bob, "den:dice"), "it comes back as it was: disabled"
    await do(alice, "/tool remove dice")
    await do(alice, "/tool new dice = return 'new'")
    assert await has(bob, "den:dice"), "a new tool is not bound by what was decided about another"
    assert isinstance(await refused(alice, "/restore dice"), Conflict)


async def test_tool_names_ambiguous_for_models_are_refused(
    world: World, alice: Someone, den: str
) -> None:
    mcp = await make(world, "mcps", "mcp", "git", qualified_name="git")
    await make(world, mcp.id, "tool", "x", qualified_name="a_b:c")
    assert model_tool_name("a_b:c") == model_tool_name("a.b:c")
    await do(alice, "/create a_b")
    assert (
        "The tool a_b:c already exists." in (await refused(alice, "/tool new c = return 1")).message
    )
    await make(world, mcp.id, "tool", "y", qualified_name="a__b:c__d")
    await do(alice, "/create a")
    refusal = await refused(alice, "/tool new b__c__d = return 1")
    assert "a:b__c__d and a__b:c__d would both be shown as a__b__c__d" in refusal.message
    assert mcp_tool_name("x.y:z") == mcp_tool_name("x:y.z")


async def test_deleted_room_frees_the_names_of_its_tools(alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice = return 'old'")
    await do(alice, "/room delete den")
    alice.world.presence.move(alice.connection, "lobby")
    await do(alice, "/create den")
    await do(alice, "/tool new dice = return 'new'")
    assert (await do(alice, "/run dice")).text == "new"


async def test_fork_copies_tools_with_their_state(alice: Someone, den: str) -> None:
    for name in ("dice", "coin", "card", "chip"):
        await do(alice, f"/tool new {name} = return room.name")
    await do(alice, "/tool disable coin")
    await do(alice, "/unequip room den:card")
    await do(alice, "/equip room den:chip --priority 3")
    await do(alice, "/fork den annex")
    load = await alice.world.loadout(alice.room_id, None)
    forked = {
        i.thing.label: i
        for i in load.tools
        if i.source == "room" and not is_builtin_tool(i.thing.label)
    }
    assert set(forked) == {"annex:dice", "annex:coin", "annex:chip"}
    assert forked["annex:coin"].obstacle == "disabled"
    assert forked["annex:chip"].priority == 3
    assert (await do(alice, "/run dice")).text == "annex"


async def test_clone_copies_tools(alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice = return room.name")
    await do(alice, "/clone den copy")
    assert (await do(alice, "/run copy:dice")).text == "copy"


async def test_tool_in_a_namespace_is_available_where_that_is_loaded(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(bob, "/namespace new git.branch")
    made = await do(bob, "/tool new git.branch:create = return 'made'")
    assert made.name == "git.branch:create"
    assert not await has(bob, "git.branch:create")
    await do(bob, "/load git.branch")
    assert (await do(bob, "/run git_branch__create")).text == "made"
    assert (await do(bob, "/tool edit git.branch:create")).line == (
        "/tool new git.branch:create = return 'made'"
    )
    await do(bob, "/tool test git.branch:create")
    await do(alice, "/tool disable git.branch:create")
    await do(alice, "/room builder bob")
    assert not await has(bob, "git.branch:create")
    carol = await arrive(alice.world, "carol")
    for line in ("new git.branch:x = return 1", "enable git.branch:create",
                 "remove git.branch:create", "new sshwarma:look = return 1",
                 "new global:x = return 1",
                 "new alice:x = return 1"):  # fmt: skip
        await refused(carol, f"/tool {line}")
    assert isinstance(await refused(alice, "/tool new sshwarma:x = return 1"), Invalid)
    await do(bob, "/tool remove git.branch:create")
    assert (await do(bob, "/tool new bob:x = return 1")).name == "bob:x"
    assert (await do(alice, "/tool new den:x = return 1")).name == "den:x"


async def test_tools_per_place_are_limited(alice: Someone, den: str) -> None:
    def many(tx: Change) -> None:
        bag = things.get_live_thing(tx.conn, den)
        for n in range(MAX_TOOLS_PER_PLACE):
            creation.store_tool(tx, bag, f"t{n}", "return 1", parse_declaration(""), alice.id)

    await alice.world.change(many)
    assert "100 tools" in (await refused(alice, "/tool new over = return 1")).message
    await do(alice, "/tool new t1 = return 2")


async def test_tools_in_private_places_are_hidden(alice: Someone, bob: Someone, den: str) -> None:
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(alice, "/tool new secret = return 1")
    await do(alice, "/tool new me:mine = return 1")
    for pattern in ("vault:*", "vault:secret", "alice:*"):
        assert isinstance(await refused(bob, f"/equip me {pattern}"), NotFound)
    assert await names(bob, "vault:*") == []
    assert await names(bob, "alice:*") == []
    inventory = await do(bob, "/inv all")
    assert not [i for i in inventory.available if i.name in ("vault:secret", "alice:mine")]
    for line in ("/run vault:secret", "/tool show vault:secret", "/tool test vault:secret"):
        assert (await refused(bob, line)).message == "Unknown tool vault:secret."
    await do(alice, "/equip me vault:secret")


async def test_tool_list_filters_by_pattern(alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice", DICE)
    await do(alice, "/unequip room den:dice")
    assert "den:dice" in await names(alice)
    assert await names(alice, "den:*") == ["den:dice"]
    assert await names(alice, "dice") == ["den:dice"]
    assert await names(alice, "[den]*") == []
    assert "sshwarma:put" in await names(alice, "sshwarma:*")
    assert "sshwarma:put" not in await names(alice)


async def test_overrides_are_stored_separately(world: World, alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice", DICE)
    await do(alice, "/tool disable dice")
    thing = await world.store.read(lambda conn: things.find_by_qualified_name(conn, "den:dice"))
    assert thing is not None
    assert thing.enabled
    decided = await world.store.read(lambda conn: overrides.read_tool_override(conn, thing))
    assert decided == overrides.Override("den:dice", enabled=False)
    await world.change(
        lambda tx: overrides.set_override(
            tx, thing, name="Dice!", requires_confirmation=True, renderer="code",
            renderer_config={"b": 1, "a": 2},
        )
    )  # fmt: skip
    everything = await world.store.read(overrides.read_overrides)
    assert everything == {
        "den:dice": overrides.Override(
            "den:dice", False, "Dice!", None, True, "code", {"a": 2, "b": 1}
        )
    }
    listed = {tool.name: tool for tool in (await do(alice, "/tool list")).tools}["den:dice"]
    assert listed.title == "Dice!"
    await world.change(lambda tx: overrides.clear_override(tx, thing))
    assert await world.store.read(
        lambda conn: overrides.read_tool_override(conn, thing)
    ) == overrides.Override("den:dice")


async def test_model_cannot_create_tools(tools: Tools, alice: Someone, den: str) -> None:
    eve = await arrive(alice.world, "eve", kind="model", door="model", room=den)
    with pytest.raises(NotFound):
        await tools.call(eve.caller, "sshwarma:tool", {"action": "new"})


async def test_parameters_keep_the_order_in_which_they_are_written(
    alice: Someone, den: str
) -> None:
    source = "-- @param zone string\n-- @param at string?\n-- @param mode string=fast\nreturn 1"
    await do(alice, "/tool new order =", source)
    shown = await do(alice, "/tool show order")
    assert list(shown.input_schema["properties"]) == ["zone", "at", "mode"]


async def test_a_tool_that_is_typed_as_a_verb_is_named(alice: Someone, den: str) -> None:
    await do(alice, "/tool new dice =", "return 4")
    for line in ("/dice", "/den:dice 2"):
        error = await refused(alice, line)
        assert "It is a tool: /run den:dice calls it." in error.text_for(PERSON)
