"""Carrying out what was typed: rights, navigation, aliases, pipes, rate, and nothing half done."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.verbs import (
    arguments,
    equip,
    help,
    inventory,
    namespaces,
    skills,
    state,
    turns,
)
from sshwarma.verbs.dispatch import invoke, run_line
from sshwarma.verbs.grammar import find_typed, split_verb
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import Parameter, every_verb, tool_specs
from sshwarma.verbs.set import complete_setting_values, complete_settings
from sshwarma.verbs.views import draw_result
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable, WorldError
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, arrive, do, everything, refused


async def said(world: World, room: str = "lobby") -> list[tuple[str, str]]:
    return [(row.kind, row.content) for row in await world.last_rows(room, 50)]


async def test_plain_text_is_said(world: World, bob: Someone) -> None:
    await do(bob, "hello there")
    await do(bob, "//shrug")
    await do(bob, "/say /look")
    await do(bob, " /look")
    await do(bob, "two\nlines\n")
    assert [text for _, text in await said(world)] == [
        "hello there", "/shrug", "/look", " /look", "two\nlines",
    ]  # fmt: skip
    for nothing in ("", "  ", "\n", "//".replace("/", " ")):
        await refused(bob, nothing)


async def test_line_length_is_limited(bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"line_bytes": 256, "stdin_bytes": 300})
    await do(bob, "é" * 128)
    assert "at most 256" in (await refused(bob, "é" * 128 + "x")).message
    for line in ("/me ", "/tell bob ", "/note "):
        await refused(bob, line + "x" * 257)
    bob.link.door = "exec"
    await do(bob, "x" * 300)
    assert "at most 300" in (await refused(bob, "x" * 301)).message


async def test_invalid_unicode_is_refused(bob: Someone) -> None:
    for line in ("hello \ud800", "/put me:a = \udfff", "/join \ud83d", "/\ud800", "/help \udc00"):
        await refused(bob, line)


NEEDS = {
    # Something that guests, who are in an open room, may not do: the right, where, who grants it.
    "/vibe calm": ("build right in lobby", "Ask alice."),
    "/describe a room": ("build right in lobby", "Ask alice."),
    "/put note = x": ("build right in lobby", "Ask alice."),
    "/drop room note": ("build right in lobby", "Ask alice."),
    "/equip room sshwarma:put": ("build right in lobby", "Ask alice."),
    "/nav off": ("build right in lobby", "Ask alice."),
    "/nav on": ("build right in lobby", "Ask alice."),
    "/portal north home": ("build right in lobby", "Ask alice."),
    "/unportal north": ("build right in lobby", "Ask alice."),
    "/link a https://example.org/": ("build right in lobby", "Ask alice."),
    "/kick bob": ("moderate right in lobby", "Ask alice."),
    "/mute bob": ("moderate right in lobby", "Ask alice."),
    "/ban bob": ("moderate right in lobby", "Ask alice."),
    "/room private": ("moderate right in lobby", "Ask alice."),
    "/room open": ("moderate right in lobby", "Ask alice."),
    "/room invite": ("moderate right in lobby", "Ask alice."),
    "/room owner bob": ("moderate right in lobby", "Ask alice."),
    "/room builder bob": ("moderate right in lobby", "Ask alice."),
    "/room member bob": ("moderate right in lobby", "Ask alice."),
    "/room remove bob": ("moderate right in lobby", "Ask alice."),
    "/room delete lobby": ("moderate right in lobby", "Ask alice."),
    "/create den": ("create right on this server", "Ask alice"),
    "/fork lobby": ("create right on this server", "Ask alice"),
    "/clone lobby": ("create right on this server", "Ask alice"),
    "/gc orphans": ("admin right on this server", "Ask alice"),
    "/model list": ("own right on this server", "Ask alice"),
    "/model show qwen": ("own right on this server", "Ask alice"),
    "/model add qwen ollama qwen3:8b": ("own right on this server", "Ask alice"),
    "/model set qwen prompt x": ("own right on this server", "Ask alice"),
    "/model remove qwen": ("own right on this server", "Ask alice"),
    "/model on qwen": ("own right on this server", "Ask alice"),
    "/model off qwen": ("own right on this server", "Ask alice"),
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
    "/skill add tidy = x": ("create right on this server", "Ask alice"),
    "/namespace new git": ("create right on this server", "Ask alice"),
    "/context window 5": ("build right in lobby", "Ask alice."),
    "/context rebuild qwen": ("build right in lobby", "Ask alice."),
    "/state clear qwen": ("build right in lobby", "Ask alice."),
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
    "/skill edit rev = x", "/skill rename rev x", "/skill delete rev", "/namespace set git name x",
    "/namespace remove git", "/namespace set global auto_load off", "/stats --all",
    "/tool new dice = return 1", "/tool edit dice", "/tool test dice", "/tool enable dice",
    "/tool disable dice", "/tool describe dice = x", "/tool remove dice",
    "/tool new git:log = return 1", "/tool disable sshwarma:look",
)  # fmt: skip


@pytest.mark.parametrize("line", [*NEEDS, *REFUSED_IN_A_WORLD_OF_OTHERS])
async def test_help_names_the_right_that_a_refusal_names(
    world: World, alice: Someone, bob: Someone, guest: Someone, qwen: Someone, line: str
) -> None:
    """No refusal names a right that /help VERB does not."""
    for made in ("/skill add rev = Look for bugs.", "/namespace new git", "/put note = x",
                 "/put gone = x", "/drop room gone"):  # fmt: skip
        await do(alice, made)
    await make_lua_tool(alice, "dice")
    await do(guest, "/put me:mine = x")
    refusal = await refused(guest, line)
    found = re.search(r"needs the (\w+) right", refusal.message)
    right = found[1] if found else "admin"  # of what somebody else made
    assert isinstance(refusal, Forbidden)
    verb, _ = split_verb(line)
    assert re.search(rf"\b{right}\b", verb.rights), verb.rights


@pytest.mark.parametrize("line", NEEDS)
async def test_refusal_names_the_missing_right_and_who_grants_it(
    alice: Someone, bob: Someone, guest: Someone, line: str
) -> None:
    right, granter = NEEDS[line]
    refusal = await refused(guest, line)
    assert isinstance(refusal, Forbidden)
    assert right in refusal.message
    assert granter in refusal.hint_for(PERSON)


def test_every_right_needed_by_a_verb_is_tested() -> None:
    tried = {split_verb(line)[0].name for line in NEEDS}
    for verb in every_verb():
        if verb.needs not in (None, Right.ENTER, Right.TALK):
            assert verb.name in tried, f"/{verb.name} needs {verb.needs}"


async def test_hint_for_a_missing_right_names_the_room_owner(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    carol = await arrive(bob.world, "carol", room=bob.room_id)
    assert (await refused(carol, "/vibe mine")).hint_for(PERSON) == "Ask bob."
    await do(bob, "/room builder carol")
    await do(carol, "/vibe mine")


async def test_banned_agent_cannot_act_in_the_room(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(bob, "/join den")
    await do(alice, "/ban bob 5 spam")
    for line in ("hi", "/look", "/history", "/journal", "/exits", "/inv"):
        assert "banned from den for another 5 min: spam" in (await refused(bob, line)).message


async def test_ban_and_mute_use_the_same_words(alice: Someone, bob: Someone) -> None:
    said = await do(alice, "/ban bob 5")
    assert said.text == "bob is banned from lobby for 5 min."
    assert (await do(alice, "/ban bob off")).text == "bob is no longer banned from lobby."
    assert (await do(alice, "/mute bob forever")).text == "bob is muted in lobby forever."
    assert (await do(alice, "/mute bob off")).text == "bob is no longer muted in lobby."
    history = await do(alice, "/history")
    assert [(entry.who, entry.text) for entry in history.entries if entry.kind == "notice"] == [
        ("sshwarma", "alice banned bob"),
        ("alice", "unbanned bob"),
        ("sshwarma", "alice muted bob"),
        ("alice", "unmuted bob"),
    ]
    for line, message in (
        ("/mute bob off", "bob is not muted in lobby."),
        ("/ban bob off", "bob is not banned from lobby."),
        ("/mute alice", "You cannot mute yourself."),
        ("/ban alice", "You cannot ban yourself."),
        ("/kick alice", "You cannot kick yourself."),
        ("/mute bob 0", "/mute: minutes: must be at least 1, forever or off (got 0)."),
        (
            "/ban bob 6000000",
            "/ban: minutes: must be at most 5256000, forever or off (got 6000000).",
        ),
    ):
        assert (await refused(alice, line)).message == message


async def test_mention_of_an_unknown_agent_is_noted_to_the_sender(
    alice: Someone, bob: Someone, qwen: Someone
) -> None:
    for line, note in (
        ("@nobody hi", "Unknown agent nobody: nobody was called."),
        ("@q hi", "@q is too short: type at least 3 letters of qwen."),
        ("@bob hi", ""),
        ("mail@nobody.example", ""),
        ("@bob and @nobody", ""),
    ):
        assert (await do(alice, line)).note == note
    await do(alice, "hello")


async def test_nav_off_confines_models_but_not_people(
    world: World, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    await do(alice, "/create den")
    await do(alice, "/portal out lobby")
    for who in (bob, qwen):
        await do(who, "/join den")
    await do(alice, "/nav off")
    for line in ("/go out", "/leave", "/join lobby", "/create x", "/fork lobby y"):
        refusal = await refused(qwen, line)
        assert refusal.message == (
            "Navigation is off in this room: models and agents cannot leave it."
        )
    with pytest.raises(Forbidden, match="Navigation is off"):
        await invoke(qwen.caller, "go", {"direction": "out"})
    await do(qwen, "/look")
    await do(bob, "/go out")
    assert bob.room_id == "lobby"
    await do(alice, "/nav on")
    await do(qwen, "/go out")
    assert qwen.room_id == "lobby"


async def test_aliases_expand_once(alice: Someone) -> None:
    await do(alice, "/alias ws = /join home")
    await do(alice, "/alias greet = hello to")
    await do(alice, "/alias again = /ws")
    await do(alice, "/alias p = /put")
    await do(alice, "/greet all of you")
    await do(alice, "/p note = x")
    assert (await do(alice, "/examine note")).content == "x"
    assert ("chat", "hello to all of you") in await said(alice.world)
    assert isinstance(await refused(alice, "/again"), NotFound)
    await do(alice, "/WS")
    assert alice.room_id == "home"
    await do(alice, "/alias ws = -")
    await refused(alice, "/ws")


async def test_invalid_aliases_are_refused(alice: Someone) -> None:
    assert "is a verb already" in (await refused(alice, "/alias look = /who")).message
    assert "The meaning of /xx must not be empty." in (await refused(alice, "/alias xx =")).message
    assert "no alias xx" in (await refused(alice, "/alias xx")).message
    for name in ("é", "x" * 33, "a/b", "\x1b", '"a b"'):
        assert "letters and digits" in (await refused(alice, f"/alias {name} = y")).message
    for n in range(100):
        await do(alice, f"/alias n{n} = hello")
    assert "100 aliases" in (await refused(alice, "/alias over = hello")).message
    await do(alice, "/alias n1 = changed")


async def test_piped_text_becomes_the_text_argument(alice: Someone, bob: Someone) -> None:
    await do(alice, "/put note", "from\na file\n")
    assert (await do(alice, "/examine note")).content == "from\na file\n"
    await do(alice, "/put note =", "again")
    assert (await do(alice, "/examine note")).content.strip() == "again"
    await do(alice, "what failed?", "line 1\nline 2\n")
    await do(alice, "/tell bob see this", "piped")
    assert ("chat", "what failed?\nline 1\nline 2") in await said(alice.world)
    assert (await do(bob, "/history @alice")).entries[-1].text == "see this\npiped"
    assert "takes no text from a pipe" in (await refused(alice, "/look", "x")).message


async def test_invoke_takes_arguments_by_name(alice: Someone) -> None:
    await invoke(alice.caller, "put", {"name": "note", "text": "x"})
    for wrong in ({"name": "note"}, {"name": "note", "text": "x", "y": 1}, {"name": 1}):
        with pytest.raises(Invalid):
            await invoke(alice.caller, "put", wrong)
    with pytest.raises(NotFound):
        await invoke(alice.caller, "pot", {})


async def test_change_leaves_an_audit_row(alice: Someone) -> None:
    await do(alice, "/put note = secret sauce")
    stored = (await everything(alice.world))["audit"]
    assert len(stored) == 1
    for part in (alice.id, "lobby", "ssh", "put", "/put note = secret sauce"):
        assert repr(part) in stored[0]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_line_rate_is_limited_per_agent() -> None:
    clock = Clock()
    rate = LineRateLimiter(3, clock=clock.monotonic)
    for _ in range(3):
        rate.check("alice")
        clock.now += 1
    with pytest.raises(Unavailable, match="more than 3 lines in 10 seconds") as caught:
        rate.check("alice")
    assert "Wait 7 s" in caught.value.hint_for(PERSON)
    rate.check("bob")
    clock.now += 7.1
    rate.check("alice")  # what was refused was not counted
    with pytest.raises(Unavailable):
        rate.check("alice")


def test_line_rate_limiter_remembers_a_bounded_number_of_agents() -> None:
    rate = LineRateLimiter(1, max_agents=5)
    for n in range(50):
        rate.check(str(n))
    assert len(rate) == 5
    with pytest.raises(Unavailable):
        rate.check("49")


REFUSALS = """
/run nothing:here
/stop
/stop @nobody
/expand 9
/expand nine
/attachment
/attachment 9
/wrap @nobody
/wrap
/context show @nobody
/context window many
/context rebuild bob
/context rebuild
/state clear
/state gone
/state show gone
/state list all
/message show
/message drop ffffff
/message list 0
/message restore ffffff
/undo
/retry
/branch list all
/branch switch
/branch switch ffffff
/clone nowhere
/clone lobby lobby
/load
/load nowhere
/unload nowhere
/namespaces too many
/namespace list all
/namespace show nowhere
/namespace new Über
/namespace set global keywords
/namespace set nowhere keywords a
/namespace set global nothing a
/namespace remove global
/state add Über
/state remove
/state directory relative
/skill list all
/skill show
/skill show nothing
/skill add Über = x
/skill add empty
/skill activate nothing
/skill edit nothing
/skill rename nothing new
/skill delete nothing
/skill deactivate nothing
/wrap bob
/models too many
/model list all
/model show
/model show qwen
/model add
/model add qwen ollama
/model add alice ollama qwen3:8b
/model set bob
/model set bob prompt
/model set bob prompt You are terse.
/model remove bob
/model on bob
/model off bob
/model test bob
/model found too
/model nonsense
/mcp list too
/mcp nonsense
/mcp add
/mcp add holler
/mcp list --sse
/mcp show
/mcp show holler
/mcp show holler too
/mcp remove holler
/mcp refresh holler
/mcp enable holler
/mcp disable holler
/mcp approve holler
/mcp log holler
/mcp login holler
/mcp logout holler
/answer
/answer --decline
/answer me
/stats too many
/stats @nobody
/schema nothing
/schema too many
/sql
/sql DROP TABLE rows
/sql SELECT * FROM agent_keys
/sql SELECT 1; SELECT 2
/sql SELECT nothing FROM messages
/history 20 words
/history search
/history search !!
/look nowhere
/examine @nobody
/examine home:nothing
/join nowhere
/join lobby
/leave
/go north
/create lobby
/create Über
/create system
/fork nowhere
/fork lobby lobby
/route nowhere
/nav sideways
/nav show me
/nav on off
/nav off now
/exits here
/portal north nowhere
/portal n!rth home
/portal hatch home --both
/unportal north
/tool sing
/tool show
/tool show nothing
/tool show lobby
/tool new dice
/tool new dice =
/tool new Dice = return 1
/tool new dice = -- @param sides die How many
/tool edit sshwarma:look
/tool test sshwarma:look
/tool enable nothing
/tool disable nothing
/tool list two patterns
/tool describe sshwarma:look
/tool remove sshwarma:look
/put
/put bad/name = x
/put note
/edit @bob
/edit sshwarma:look
/link note
/link note nothing
/drop room nothing
/drop home nothing
/restore nothing
/move nothing home
/move @bob home
/move sshwarma:look me
/equip room
/equip chair sshwarma:look
/equip @nobody sshwarma:look
/equip room nothing:*
/unequip room nothing
/unequip room global:help
/inv chair
/inv @nobody
/say
/me
/tell nobody hi
/tell alice to myself
/reply hi
/note
/idea
/milestone
/decide  
/journal gossip
/journal note 0
/history 0
/history @nobody
/history @bob
/history --row 99
/search
/search !!
/room show lobby
/room builder
/room builder nobody
/room owner
/room owner nobody
/room member
/room member nobody
/room remove
/room remove nobody
/room open bob
/room invite
/room private
/room delete
/room delete other
/room delete lobby
/kick nobody
/kick alice
/kick bob
/mute alice
/mute bob soon
/ban nobody
/gc everything
/gc purge -1
/gc orphans now
/gc stale -1
/help nothing-like-it
/set nothing on
/set plain maybe
/alias look = x
/alias nothing
/version 2
/quit now
/who me
/rooms all
/vibe %(long)s
/describe %(long)s
/token list mine
/token new
/token new ""
/token revoke
/token revoke ""
/token revoke nothing
/token sideways
/nonsense
""".strip().split("\n")  # fmt: skip # noqa: W291


@pytest.mark.parametrize("line", REFUSALS)
@pytest.mark.process
async def test_refusal_changes_nothing(alice: Someone, bob: Someone, line: str) -> None:
    refusal = await refused(alice, line.replace("%(long)s", "x" * 4001))
    assert refusal.message.endswith((".", "?", "!")), refusal.message
    assert refusal.message.isprintable()


def test_every_verb_has_a_refusal_test() -> None:
    tried = {typed[0].name for line in REFUSALS if (typed := find_typed(line)) is not None}
    # Any words are a query of /find, so it is refused by rights alone: see the next test.
    assert {verb.name for verb in every_verb()} - tried == {"find"}, (
        "add a line that the verb refuses to REFUSALS; a verb that refuses nothing goes beside find"
    )


async def test_find_needs_the_enter_right(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/room private")
    with pytest.raises(Forbidden):
        await run_line(bob.caller.with_room(alice.room_id), "/find clouds")


NAMES = ["lobby", "den", "home", "note", "prompt:style", "sshwarma:look", "global:help", "skill:a"]
SPACES = ["kit", "kit.inner", "global", "sshwarma", "lobby", "sshwarma:look", "nowhere"]
STATES = ["dry", "mcp:none", "@bob", "project-loaded"]
PEOPLE = ["alice", "bob", "@bob", "qwen", "@nobody"]
TURNS = ["ffffff", "1"]
SENSIBLE: dict[Any, list[str]] = {
    arguments.complete_rooms: ["lobby", "den", "home", "nowhere"],
    arguments.complete_directions: ["north", "n", "up", "hatch"],
    arguments.complete_exits: ["north", "n", "up", "hatch"],
    arguments.complete_agents: [*PEOPLE, "5"],
    arguments.complete_mentions: [*PEOPLE, "5"],
    arguments.complete_models: PEOPLE,
    arguments.complete_model_mentions: [*PEOPLE, "dry"],
    arguments.complete_things: [
        *NAMES,
        "me:note",
        "home:note",
        "room:note",
        "@bob",
        "me",
        "room",
        "directs",
        "world",
    ],
    equip.complete_to_equip: [*NAMES, "sshwarma:*", "*", "home:*", "sshwarma:join,go", "[a]"],
    equip.complete_equipped: [*NAMES, "sshwarma:*", "*", "home:*", "sshwarma:join,go", "?"],
    arguments.complete_tools: [*NAMES, "look", "dice", "me:dice", "*", "sshwarma__look"],
    inventory.complete_inventory: ["room", "me", "all", "@bob", "defaults"],
    arguments.complete_contexts: ["room", "me", "all", "@bob", "defaults"],
    help.complete_topics: ["look", "start", "keys", "tool new"],
    complete_settings: ["plain", "start"],
    complete_setting_values: ["on", "off", "20", "x"],
    namespaces.complete_namespaces: SPACES,
    namespaces.complete_loaded: SPACES,
    namespaces.complete_unloaded: SPACES,
    namespaces.complete_settable: SPACES,
    namespaces.complete_fields: [*namespaces.FIELD_EXAMPLES, "nothing"],
    namespaces.complete_field_values: ["on", "off", "-", "git", "SHORT 5", "OMIT"],
    state.complete_needed_states: STATES,
    state.complete_held_states: STATES,
    skills.complete_skills: ["a", "1", "skill:a", "b"],
    turns.complete_turns: TURNS,
}
"""Words of the right sort, by what Tab would offer."""

BY_KIND = {
    "number": ["1", "20", "0.5", "0"],
    "word": [*NAMES, "me", "room", "on", "off", "https://example.org/"],
    "command": ["https://example.org/mcp", "-- true --x", "--"],
    "text": ["words", "- ", '"a phrase" and more', "look look"],
}
"""Words of the right sort, where Tab offers nothing."""

ODD = ["", "=", "-", "--", "--n", "-1", "1e400", "nan", "inf", "9" * 25, "9" * 5000, "x" * 300, '"',
       "'", "\\", "\x00", "\x1b[2J", "\u202e", "é", "²", "https://[", "%", "a\nb"]  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A verb with arguments that are mostly of the right sort and sometimes anything."""
    verb = draw(
        st.sampled_from([verb for verb in every_verb() if verb.name not in ("ban", "mute")])
    )

    def word(parameter: Parameter) -> str:
        sensible = parameter.choices or SENSIBLE.get(
            parameter.arg.complete, BY_KIND[parameter.arg.kind]
        )
        source = draw(st.sampled_from([sensible, sensible, sensible, ODD, None]))
        return draw(st.sampled_from(source) if source else st.text(max_size=6))

    parts = [word(p) for p in verb.positional if p.required or draw(st.booleans())]
    for option, parameter in verb.flags.items():
        if draw(st.booleans()):
            parts.insert(0, f"--{option}" if parameter.boolean else f"--{option} {word(parameter)}")
    return " ".join([f"/{verb.name}", *parts])


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def crowd(
    runner: asyncio.Runner, newborn: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Someone]]:
    """Three people in a world that many lines are tried on."""
    path = tmp_path_factory.mktemp("fuzz") / "world.db"
    shutil.copyfile(newborn, path)

    async def begin() -> list[Someone]:
        world = await World.open(path, tool_specs())
        return [
            await arrive(world, "alice", role="owner"),
            await arrive(world, "bob"),
            await arrive(world, "qwen", kind="model", role="guest"),
        ]

    people = runner.run(begin())
    yield people
    runner.run(people[0].world.close())


@pytest.mark.long
@settings(
    max_examples=1000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(who=st.integers(0, 2), line=lines())
def test_any_line_is_executed_or_refused(
    runner: asyncio.Runner, crowd: list[Someone], who: int, line: str
) -> None:
    """Nothing that anybody types is ever an error of the program, and every result can be drawn."""

    async def typed() -> None:
        person = crowd[who]
        if not await stands(person):
            person.world.presence.move(person.link, "lobby")
        try:
            result = await do(person, line)
        except WorldError as refused:
            assert refused.message
        else:
            assert draw_result(result) is not None

    runner.run(typed())


async def stands(person: Someone) -> bool:
    try:
        await person.world.room(person.room_id)
    except NotFound:
        return False
    return True


async def test_concurrent_identical_requests_create_once(alice: Someone) -> None:
    """One of two identical requests finds what the other made."""
    results = await asyncio.gather(
        *(do(alice, "/put note = x") for _ in range(5)),
        *(do(alice, "/create den") for _ in range(2)),
        return_exceptions=True,
    )
    assert sorted(result.made for result in results[:5]) == [False, False, False, False, True]
    assert any(isinstance(result, Conflict) for result in results[5:])


async def test_concurrent_requests_take_a_thing_once(alice: Someone, bob: Someone) -> None:
    await do(alice, "/put note = x")
    results = await asyncio.gather(
        do(alice, "/move note to me"), do(alice, "/drop room note"), return_exceptions=True
    )
    done = [result for result in results if not isinstance(result, Exception)]
    assert len(done) == 1, "the second one finds nothing there"
    await do(alice, "/put third = x")
    await do(alice, "/room builder bob")
    results = await asyncio.gather(
        do(alice, "/move third to me"), do(bob, "/move third to me"), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Confirmation", "NotFound"]
    await do(alice, "/put other = x")
    results = await asyncio.gather(
        *(do(alice, "/drop room other") for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == [
        "Confirmation",
        "NotFound",
        "NotFound",
    ]
