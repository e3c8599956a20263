"""Rights of verbs: what they refuse, what help says, when dispatch checks them."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio

from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.registry import every_verb
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.errors import Forbidden
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, arrive, do, refused

NEEDS = {
    # Something that guests, who are in an open room, may not do: the right, where, who grants it.
    "/vibe calm": ("build right in lobby", "Ask alice."),
    "/describe a room": ("build right in lobby", "Ask alice."),
    "/put note = x": ("build right in lobby", "Ask alice."),
    "/drop room note": ("build right in lobby", "Ask alice."),
    "/equip room sshwarma:put": ("build right in lobby", "Ask alice."),
    "/toolset import = x": ("admin right on this server", "Ask alice"),
    "/toolset export kit": ("admin right on this server", "Ask alice"),
    "/toolset enable kit": ("admin right on this server", "Ask alice"),
    "/toolset disable kit": ("admin right on this server", "Ask alice"),
    "/toolset uninstall kit": ("admin right on this server", "Ask alice"),
    "/plugins reload": ("admin right on this server", "Ask alice"),
    "/toolset link /kit": ("own right on this server", "Ask alice"),
    "/mem project set a = x": ("create right on this server", "Ask alice"),
    "/mem project delete a": ("create right on this server", "Ask alice"),
    "/mem project member bob member": ("admin right on this server", "Ask alice"),
    "/mem project restore a": ("create right on this server", "Ask alice"),
    "/mem project edit a": ("create right on this server", "Ask alice"),
    "/mem session restore a": ("create right on this server", "Ask alice"),
    "/mem session edit a": ("create right on this server", "Ask alice"),
    "/mem session set a = x": ("create right on this server", "Ask alice"),
    "/mem session delete a": ("create right on this server", "Ask alice"),
    "/mem session append a = x": ("create right on this server", "Ask alice"),
    "/mem session concat a b c": ("create right on this server", "Ask alice"),
    "/mem session copy a b": ("create right on this server", "Ask alice"),
    "/mem session insert a 1 = x": ("create right on this server", "Ask alice"),
    "/mem session replace a 1 1 = x": ("create right on this server", "Ask alice"),
    "/mem session cut a 1 1": ("create right on this server", "Ask alice"),
    "/mem session patch a = x": ("create right on this server", "Ask alice"),
    "/mem session normalize a lf": ("create right on this server", "Ask alice"),
    "/mem session reindent a tabs": ("create right on this server", "Ask alice"),
    "/shell make": ("create right on this server", "Ask alice"),
    "/file put a = x": ("create right on this server", "Ask alice"),
    "/file replace a x y": ("create right on this server", "Ask alice"),
    "/file edit a": ("create right on this server", "Ask alice"),
    "/file patch = x": ("create right on this server", "Ask alice"),
    "/file rm a": ("create right on this server", "Ask alice"),
    "/file mv a b": ("create right on this server", "Ask alice"),
    "/file mkdir a": ("create right on this server", "Ask alice"),
    "/file restore a": ("create right on this server", "Ask alice"),
    "/hook add a http://127.0.0.1/ --on row": ("build right in lobby", "Ask alice."),
    "/hook in a": ("build right in lobby", "Ask alice."),
    "/hook test a": ("build right in lobby", "Ask alice."),
    "/hook on a": ("build right in lobby", "Ask alice."),
    "/hook off a": ("build right in lobby", "Ask alice."),
    "/hook remove a": ("build right in lobby", "Ask alice."),
    "/trigger new a = -- @on row": ("build right in lobby", "Ask alice."),
    "/trigger edit a": ("build right in lobby", "Ask alice."),
    "/trigger test a": ("build right in lobby", "Ask alice."),
    "/trigger on a": ("build right in lobby", "Ask alice."),
    "/trigger off a": ("build right in lobby", "Ask alice."),
    "/trigger remove a": ("build right in lobby", "Ask alice."),
    "/rename room hall": ("moderate right in lobby", "Ask alice."),
    "/lua 1": ("build right in lobby", "Ask alice."),
    "/dig north cellar": ("build right in lobby", "Ask alice."),
    "/nav off": ("build right in lobby", "Ask alice."),
    "/nav on": ("build right in lobby", "Ask alice."),
    "/portal north home": ("build right in lobby", "Ask alice."),
    "/unportal north": ("build right in lobby", "Ask alice."),
    "/link a https://example.org/": ("build right in lobby", "Ask alice."),
    "/kick bob": ("moderate right in lobby", "Ask alice."),
    "/mute bob": ("moderate right in lobby", "Ask alice."),
    "/unmute bob": ("moderate right in lobby", "Ask alice."),
    "/unban bob": ("moderate right in lobby", "Ask alice."),
    "/ban bob": ("moderate right in lobby", "Ask alice."),
    "/room private": ("moderate right in lobby", "Ask alice."),
    "/room open": ("moderate right in lobby", "Ask alice."),
    "/room invite": ("moderate right in lobby", "Ask alice."),
    "/room owner bob": ("moderate right in lobby", "Ask alice."),
    "/room builder bob": ("moderate right in lobby", "Ask alice."),
    "/room member bob": ("moderate right in lobby", "Ask alice."),
    "/room remove bob": ("moderate right in lobby", "Ask alice."),
    "/room models none": ("moderate right in lobby", "Ask alice."),
    "/audit": ("own right on this server", "Ask alice"),
    "/invite": ("admin right on this server", "Ask alice"),
    "/invite --role admin": ("admin right on this server", "Ask alice"),
    "/invite list": ("admin right on this server", "Ask alice"),
    "/invite revoke 0199": ("admin right on this server", "Ask alice"),
    "/room delete lobby": ("moderate right in lobby", "Ask alice."),
    "/create den": ("create right on this server", "Ask alice"),
    "/fork lobby": ("create right on this server", "Ask alice"),
    "/clone lobby": ("create right on this server", "Ask alice"),
    "/broadcast hello": ("admin right on this server", "Ask alice"),
    "/gc list": ("admin right on this server", "Ask alice"),
    "/gc orphans": ("admin right on this server", "Ask alice"),
    "/gc files": ("admin right on this server", "Ask alice"),
    "/model list": ("own right on this server", "Ask alice"),
    "/model show qwen": ("own right on this server", "Ask alice"),
    "/model add qwen ollama qwen3:8b": ("own right on this server", "Ask alice"),
    "/model set qwen prompt x": ("own right on this server", "Ask alice"),
    "/model remove qwen": ("own right on this server", "Ask alice"),
    "/model enable qwen": ("own right on this server", "Ask alice"),
    "/model disable qwen": ("own right on this server", "Ask alice"),
    "/model test qwen": ("own right on this server", "Ask alice"),
    "/model found": ("own right on this server", "Ask alice"),
    "/mcp add holler -- true": ("own right on this server", "Ask alice"),
    "/mcp remove holler": ("own right on this server", "Ask alice"),
    "/mcp login holler": ("own right on this server", "Ask alice"),
    "/mcp logout holler": ("own right on this server", "Ask alice"),
    "/mcp refresh holler": ("admin right on this server", "Ask alice"),
    "/mcp enable holler": ("admin right on this server", "Ask alice"),
    "/mcp disable holler": ("admin right on this server", "Ask alice"),
    "/mcp approve holler": ("admin right on this server", "Ask alice"),
    "/mcp log holler": ("admin right on this server", "Ask alice"),
    "/gc stale": ("admin right on this server", "Ask alice"),
    "/gc purge": ("admin right on this server", "Ask alice"),
    "/skill new tidy = x": ("create right on this server", "Ask alice"),
    "/namespace new git": ("create right on this server", "Ask alice"),
    "/context window 5": ("build right in lobby", "Ask alice."),
    "/context rebuild qwen": ("build right in lobby", "Ask alice."),
    "/notes clear qwen": ("build right in lobby", "Ask alice."),
    "/state add dry": ("build right in lobby", "Ask alice."),
    "/state remove dry": ("build right in lobby", "Ask alice."),
    "/state directory": ("own right on this server", "Ask alice"),
    "/inv defaults": ("admin right on this server", "Ask alice"),
}


async def make_lua_tool(by: Someone, name: str) -> None:
    """A tool written in Lua, in the room of its maker."""
    source = "return 1"

    def store(tx: Change) -> None:
        bag = things.get_live_thing(tx.conn, by.room_id)
        declaration = parse_declaration(source)
        creation.store_tool(
            tx, bag=bag, name=name, source=source, declaration=declaration, by=by.id
        )

    await by.world.change(store)


REFUSED_IN_A_WORLD_OF_OTHERS = (
    # What needs more of guests than the verb does of everybody.
    "/edit note", "/restore gone", "/move note to me", "/move me:mine to home",
    "/unequip room sshwarma:look", "/equip @bob sshwarma:look", "/load git room",
    "/unload git room", "/load git @bob", "/skill activate rev", "/skill activate rev @bob",
    "/skill deactivate rev",
    "/skill edit rev = x", "/skill rename rev x", "/skill remove rev", "/namespace set git name x",
    "/namespace remove git", "/namespace set global auto_load off", "/stats --all",
    "/tool new dice = return 1", "/tool edit dice", "/tool test dice", "/tool enable dice",
    "/tool disable dice", "/tool describe dice = x", "/tool remove dice",
    "/tool set dice approval off", "/tool state dice",
    "/tool new git:log = return 1", "/tool disable sshwarma:look", "/tool new new:log = return 1",
    "/namespace set git parent code", "/namespace set git auto_load on", "/token new mine",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def visitor(shared_world: World) -> Someone:
    """A guest in a world with things of others."""
    owner = await arrive(shared_world, "alice", role="owner")
    await arrive(shared_world, "bob")
    await arrive(shared_world, "qwen", kind="model", door="model")
    for made in ("/skill new rev = Look for bugs.", "/namespace new git", "/put note = x",
                 "/put gone = x", "/drop room gone"):  # fmt: skip
        await do(owner, made)
    await make_lua_tool(owner, "dice")
    guest = await arrive(shared_world, "gast", role="guest")
    await do(guest, "/put me:mine = x")
    return guest


@pytest.mark.parametrize("line", [*NEEDS, *REFUSED_IN_A_WORLD_OF_OTHERS])
@pytest.mark.asyncio(loop_scope="module")
async def test_help_names_the_right_that_a_refusal_names(visitor: Someone, line: str) -> None:
    """No refusal names a right that /help VERB does not."""
    refusal = await refused(visitor, line)
    found = re.search(r"needs the (\w+) right", refusal.message)
    right = found[1] if found else "admin"  # of what somebody else made
    assert isinstance(refusal, Forbidden)
    verb, _ = split_verb(line)
    assert re.search(rf"\b{right}\b", verb.rights), verb.rights


@pytest.mark.parametrize("line", NEEDS)
@pytest.mark.asyncio(loop_scope="module")
async def test_refusal_names_the_missing_right_and_who_grants_it(
    visitor: Someone, line: str
) -> None:
    right, granter = NEEDS[line]
    refusal = await refused(visitor, line)
    assert isinstance(refusal, Forbidden)
    assert right in refusal.message
    assert granter in refusal.hint_for(PERSON)


def test_every_right_needed_by_a_verb_is_tested() -> None:
    tried = {split_verb(line)[0].name for line in NEEDS}
    for verb in every_verb():
        if verb.needs not in (None, Right.ENTER, Right.TALK):
            assert verb.name in tried, f"/{verb.name} needs {verb.needs}"


def test_every_right_of_an_argument_is_tested() -> None:
    tried = {split_verb(line)[0].name for line in (*NEEDS, *REFUSED_IN_A_WORLD_OF_OTHERS)}
    in_other_files = {
        "branch switch", "build", "mem project get", "message drop", "message restore", "revert",
        "room restore", "stop", "undo",
    }  # fmt: skip
    declared = {verb.name for verb in every_verb() if verb.also_needs}
    assert declared - tried == in_other_files


async def test_who_is_muted_reads_memory_and_copies_nothing(alice: Someone, bob: Someone) -> None:
    await do(alice, "/mem project set k = x")
    await do(alice, "/mute bob")
    assert (await do(bob, "/mem project get k")).value == "x"
    assert isinstance(await refused(bob, "/mem project get k --to s"), Forbidden)


async def test_argument_right_is_needed_only_with_its_argument(
    world: World, alice: Someone, bob: Someone, guest: Someone
) -> None:
    for shows, changes in (
        ("/vibe", "/vibe calm"),
        ("/describe", "/describe a room"),
        ("/context window", "/context window 5"),
        ("/stats", "/stats --all"),
        ("/equip me sshwarma:look", "/equip room sshwarma:look"),
        ("/put me:note = x", "/put note = x"),
    ):
        await do(guest, shows)
        assert isinstance(await refused(guest, changes), Forbidden)


async def test_way_back_needs_the_right_to_build_there(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    await do(alice, "/create attic")
    await do(alice, "/join lobby")
    refusal = await refused(bob, "/portal up attic --both")
    assert "needs the build right in attic" in refusal.message
    await do(bob, "/portal up attic")


async def test_hint_for_a_missing_right_names_the_room_owner(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    carol = await arrive(bob.world, "carol", room=bob.room_id)
    assert (await refused(carol, "/vibe mine")).hint_for(PERSON) == "Ask bob."
    await do(bob, "/room builder carol")
    await do(carol, "/vibe mine")


@pytest.mark.parametrize("verb", ["kick", "mute", "unmute", "ban", "unban"])
async def test_moderator_acts_only_on_agents_with_fewer_rights(
    alice: Someone, bob: Someone, guest: Someone, verb: str
) -> None:
    await do(alice, "/room owner bob")
    refusal = await refused(bob, f"/{verb} {alice.name}")
    assert "needs the own right" in refusal.message
    assert f"to {verb} alice, an owner of this server" in refusal.message
    assert "own for an admin or owner of the server" in (await do(bob, f"/help {verb}")).rights
    await do(alice, f"/room owner {guest.name}")
    refusal = await refused(bob, f"/{verb} {guest.name}")
    assert "needs the admin right" in refusal.message
    assert f"You cannot {verb} yourself" in (await refused(bob, f"/{verb} bob")).message
    if not verb.startswith("un"):
        return
    await do(alice, f"/{verb.removeprefix('un')} {guest.name}")
    refusal = await refused(bob, f"/{verb} {guest.name}")
    assert "needs the admin right" in refusal.message, "a sanction is not a lower rank"


async def test_name_of_a_private_room_is_taken_and_nothing_else_said(
    alice: Someone, bob: Someone
) -> None:
    await do(alice, "/create vault")
    assert "Enter it with /join vault." in str(await refused(bob, "/create vault"))
    await do(alice, "/room private")
    assert str(await refused(bob, "/create vault")) == "The name vault is taken."
    assert "A room named vault already exists." in str(await refused(alice, "/create vault"))
