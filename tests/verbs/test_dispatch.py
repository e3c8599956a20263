"""Execution of typed lines: rights, navigation, aliases, pipes, rate.

Nothing is done in part.
"""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.services import services_of
from sshwarma.tools.call import Tools
from sshwarma.verbs.dispatch import invoke, run_line
from sshwarma.verbs.line_rate import LineRateLimiter, is_read_line
from sshwarma.verbs.unknown_verb import UnknownVerb
from sshwarma.world import things
from sshwarma.world.doors import Door
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, RateLimited, Unavailable
from sshwarma.world.reader import PERSON, reader_at
from sshwarma.world.world import World
from support.people import Someone, do, everything, refused
from support.waiting import Clock


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


@pytest.mark.parametrize("door", ["ssh", "exec", "api", "mcp"])
async def test_message_length_has_one_limit_at_every_door(bob: Someone, door: Door) -> None:
    bob.connection.door = door
    bob.limits = bob.limits.model_copy(update={"line_bytes": 256, "stdin_bytes": 300})
    await do(bob, "é" * 128)
    assert "at most 256" in (await refused(bob, "é" * 128 + "x")).message
    for line in ("/me ", "/tell bob ", "/note "):
        await refused(bob, line + "x" * 257)
    assert "at most 256" in (await refused(bob, "/say x", "y" * 256)).message


async def test_stored_text_of_an_agent_is_limited_by_the_hour(bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"text_mib_per_hour": 1})
    for _ in range(64):
        await do(bob, "x" * 16_000)
    error = await refused(bob, "/put me:big = " + "x" * 30_000)
    assert isinstance(error, RateLimited)
    assert error.message == "You can store at most 1 MiB of text in an hour."
    assert 1 <= error.retry_after_seconds <= 60
    await do(bob, "short")


async def test_invalid_unicode_is_refused(bob: Someone) -> None:
    for line in ("hello \ud800", "/put me:a = \udfff", "/join \ud83d", "/\ud800", "/help \udc00"):
        await refused(bob, line)


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
    for line, said in (
        ("/mute bob off", "bob is not muted in lobby."),
        ("/ban bob off", "bob is not banned from lobby."),
        ("/mute alice", "You cannot mute yourself."),
        ("/ban alice", "You cannot ban yourself."),
        ("/kick alice", "You cannot kick yourself."),
        ("/mute bob 0", "/mute: minutes: must be at least 1 or forever (got 0)."),
        (
            "/ban bob 6000000",
            "/ban: minutes: must be at most 5256000 or forever (got 6000000).",
        ),
    ):
        assert (await refused(alice, line)).message == said


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
            "Permission denied: navigation is off in den, so models and external agents cannot"
            " leave it; switching it on needs the build right in den."
        )
    with pytest.raises(Forbidden, match=r"navigation is off.* Ask alice\."):
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
    assert "meaning: must not be empty." in (await refused(alice, "/alias xx =")).message
    assert "no alias xx" in (await refused(alice, "/alias xx")).message
    for name in ("é", "x" * 33, "a/b", "\x1b", '"a b"'):
        assert "letters, digits, - or _" in (await refused(alice, f"/alias {name} = y")).message
    too_long = await refused(alice, f"/alias xx = {'y' * 1001}")
    assert too_long.message == "meaning: must have at most 1000 characters (got 1001)."
    await do(alice, "/alias a-b_1 = " + "y" * 1000)
    await do(alice, "/alias a-b_1 = -")
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


@pytest.mark.parametrize(
    ("door", "given", "message", "hint"),
    [
        ("ssh", "jion", "Unknown verb /jion.", "Did you mean /join?"),
        ("ssh", "mcp_list", "Unknown verb /mcp_list.", "Did you mean /mcp list?"),
        ("ssh", "zzzzz", "Unknown verb /zzzzz.", "/help lists the verbs."),
        ("model", "jion", "Unknown verb jion.", "Did you mean join?"),
        ("mcp", "inventory_equp", "Unknown verb inventory_equp.", "Did you mean inventory_equip"),
        ("api", "skill_ne", "Unknown verb skill_ne.", "Did you mean skill_new or"),
        ("api", "zzzzz", "Unknown verb zzzzz.", "help lists the verbs."),
    ],
)
async def test_unknown_verb_is_refused_in_the_words_of_its_reader(
    alice: Someone, door: Door, given: str, message: str, hint: str
) -> None:
    alice.connection.door = door
    with pytest.raises(UnknownVerb) as caught:
        if door == "ssh":
            await run_line(alice.caller, f"/{given}")
        else:
            await invoke(alice.caller, given, {})
    assert caught.value.message == message
    assert caught.value.hint_for(reader_at(door)).startswith(hint)


async def test_change_leaves_an_audit_row(alice: Someone) -> None:
    await do(alice, "/put note = secret sauce")
    stored = (await everything(alice.world))["audit"]
    assert len(stored) == 1
    for part in (alice.id, "lobby", "ssh", "put", "/put note = secret sauce"):
        assert repr(part) in stored[0]


def test_line_rate_is_limited_per_agent() -> None:
    clock = Clock()
    rate = LineRateLimiter(3, clock=clock)
    for _ in range(3):
        rate.check("alice")
        clock.now += 1
    with pytest.raises(Unavailable, match="At most 3 lines in 10 seconds") as caught:
        rate.check("alice")
    assert "Wait 7 s" in caught.value.hint_for(PERSON)
    rate.check("bob")
    clock.now += 7.1
    rate.check("alice")  # what was refused was not counted
    with pytest.raises(Unavailable):
        rate.check("alice")


async def test_reads_over_their_pace_wait_and_are_not_refused() -> None:
    rate = LineRateLimiter(1, reads=2)
    for _ in range(2):
        await rate.admit("alice", is_read=True)
    third = asyncio.ensure_future(rate.admit("alice", is_read=True))
    await rate.admit("bob", is_read=True)
    assert not third.done()
    third.cancel()
    await rate.admit("alice", is_read=False)
    with pytest.raises(RateLimited):
        await rate.admit("alice", is_read=False)


async def test_read_after_the_burst_waits_for_a_share_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many clients give up after 5 s, so no request may wait for a whole window."""
    waits: list[float] = []

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", record)
    rate = LineRateLimiter(1, reads=400, clock=Clock())
    for _ in range(402):
        await rate.admit("alice", is_read=True)
    assert waits == pytest.approx([1 / 40, 2 / 40])


def test_only_lines_that_just_show_something_are_reads() -> None:
    for line in ("/look", "/history 5", "/inv all", "/mcp list", "/help say"):
        assert is_read_line(line, ())
    for line in ("look", "hello", "/say hi", "/model test x", "/nonsense", "/run x", "/"):
        assert not is_read_line(line, ())
    assert not is_read_line("/look", {"look"}), "an alias may mean anything"


def test_line_rate_limiter_remembers_a_bounded_number_of_agents() -> None:
    rate = LineRateLimiter(1, max_agents=5)
    for n in range(50):
        rate.check(str(n))
    assert len(rate) == 5
    with pytest.raises(Unavailable):
        rate.check("49")


async def test_find_needs_the_enter_right(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/room private")
    with pytest.raises(Forbidden):
        await run_line(bob.caller.with_room(alice.room_id), "/find clouds")


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


async def test_call_without_a_provider_says_what_to_do(world: World, alice: Someone) -> None:
    outcome = await Tools(world, {}).call(alice.caller, "sshwarma:look", {})
    assert outcome.text == (
        "sshwarma:look is unavailable: no tool provider is registered for its namespace."
        " Details: /examine sshwarma:look"
    )


async def test_call_of_a_server_that_does_not_run_says_what_to_do(
    world: World, alice: Someone
) -> None:
    tool = await world.store.read(lambda conn: things.get_live_thing(conn, "tool_look"))
    with pytest.raises(Unavailable) as refusal:
        await services_of(alice.caller).hub.run(alice.caller, tool, {})
    assert refusal.value.text_for(alice.caller.reader) == (
        "sshwarma:look is unavailable: its server is not running. Details: /mcp show sshwarma"
    )
