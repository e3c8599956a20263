"""Commands made of data things: which line or script, and with whose rights."""

from __future__ import annotations

import contextlib

import pytest

from lua_tools.equipped_commands import command
from sshwarma.common.limits import MAX_EXPANDED_CHARACTERS
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.completion import complete
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import Forbidden, Invalid, NotFound, WorldError
from sshwarma.world.reader import PERSON
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def test_command_substitutes_its_arguments(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await command(alice, "greet", "/say Hello {1}, {args}! {1} {{2} {0}")
    said = await do(bob, "/greet ann and all")
    assert said.text == "Hello ann, ann and all! ann {and {0}"
    assert said.turns == ()
    refusal = await refused(bob, "/greet ann")
    assert "/greet needs 2 words after it." in refusal.message


async def test_command_text_without_a_slash_is_said(alice: Someone, bob: Someone, den: str) -> None:
    await command(alice, "shrug", "I do not know")
    assert (await do(bob, "/shrug")).text == "I do not know"
    assert (await do(bob, "/shrug either")).text == "I do not know either"
    await command(alice, "path", "//etc/{args}")
    assert (await do(bob, "/path motd")).text == "/etc/motd"


async def test_arguments_are_substituted_once(alice: Someone, den: str) -> None:
    await command(alice, "twice", "/say {1} {args}")
    assert (await do(alice, "/twice {args} {1}")).text == "{args} {args} {1}"


async def test_command_does_not_run_another_command(alice: Someone, den: str) -> None:
    await command(alice, "loop", "/loop again")
    refusal = await refused(alice, "/loop")
    assert isinstance(refusal, NotFound)
    assert "Unknown verb /loop" in refusal.message
    assert refusal.span is None


@pytest.mark.parametrize(
    ("source", "typed", "text"),
    [
        ("-- Shouts.\nreturn args:upper()", "hey you", "HEY YOU"),
        ("return #words .. words[1]", "'two words' x", "2two words"),
        ("local n = 1 return n", "", "1"),
        ("function run(args) return args .. '!' end", "hey", "hey!"),
        ("\n\n  --x\nreturn caller.name", "", "bob"),
        ("return { room = room.name }", "", "room: den"),
    ],
)
async def test_script_command_answers_its_caller(
    world: World, alice: Someone, bob: Someone, den: str, source: str, typed: str, text: str
) -> None:
    await command(alice, "do-it", source)
    before = len(await world.last_rows(den, 100))
    answer = await do(bob, f"/do-it {typed}")
    assert render_plain(draw_result(answer)) == text
    assert len(await world.last_rows(den, 100)) == before


@pytest.mark.parametrize("text", ["returns are due", "function-al", "localhost", "- - x"])
async def test_only_whole_lua_words_make_a_script(alice: Someone, den: str, text: str) -> None:
    await command(alice, "line", text)
    assert (await do(alice, "/line")).text == text


async def test_printed_text_is_shown_with_the_result(alice: Someone, den: str) -> None:
    await command(alice, "p", "-- x\nprint('a') return 'b'")
    assert render_plain(draw_result(await do(alice, "/p"))) == "b\na"
    await command(alice, "q", "-- x\nprint('a')")
    assert render_plain(draw_result(await do(alice, "/q"))) == "a"


async def test_script_error_is_a_refusal_with_its_line(
    alice: Someone, bob: Someone, den: str
) -> None:
    await command(alice, "bad", "-- x\nprint('so far')\nerror('boom')")
    refusal = await refused(bob, "/bad")
    assert refusal.message == "/bad failed: /bad:3: boom"
    assert refusal.hint_for(PERSON) == "It printed: so far"
    await command(alice, "loop", "return (function() while true do end end)()")
    assert "timed out after 1 s" in (await refused(bob, "/loop")).message
    await command(alice, "odd", "-- x\nreturn 1")
    assert isinstance(await refused(bob, "/odd 'open"), Invalid)


async def test_script_command_calls_tools_as_its_caller(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await command(alice, "jot", "return host.call('sshwarma:note', { text = args }).text")
    assert (await do(bob, "/jot remember")).text == "remember"
    rows = [row for row in await world.last_rows(den, 9) if row.kind == "journal.note"]
    assert [(row.author_id, row.content) for row in rows] == [(bob.id, "remember")]
    await do(alice, "/tool new self = return host.call('den:self')")
    await command(alice, "deep", "return host.call('den:self')")
    with pytest.raises(
        WorldError,
        match="/deep → den:self → den:self → den:self → den:self: calls nest at most 4 deep",
    ):
        await do(bob, "/deep")


async def test_verb_takes_precedence_over_a_command(alice: Someone, den: str) -> None:
    await command(alice, "look", "/say not this")
    assert not hasattr(await do(alice, "/look"), "text")
    assert "/look" not in [name for name, _ in (await do(alice, "/help")).commands]
    await command(alice, "l", "/say nor this")
    assert not hasattr(await do(alice, "/l"), "text")


async def test_command_of_another_agent_has_only_the_rights_of_tools(
    alice: Someone, bob: Someone, den: str
) -> None:
    await command(alice, "trap", "/alias look2 = /quit")
    refusal = await refused(bob, "/trap")
    assert isinstance(refusal, Forbidden)
    assert refusal.hint_for(PERSON) == "It stands for '/alias look2 = /quit'."
    for line in ("/room builder bob", "/gc purge --yes", "/tool new x = return 1", "/ban bob",
                 "/quit", "/tell"):  # fmt: skip
        await command(alice, "trap", line)
        with pytest.raises(WorldError):
            await do(bob, "/trap")
    await do(alice, "/tool new dice = return 'rolled'")
    await command(alice, "roll", "/run den:dice")
    assert (await do(bob, "/roll")).text == "rolled"


async def test_command_in_the_own_bag_has_the_rights_of_tools(bob: Someone, den: str) -> None:
    """A script of another may have put it into the bag; an alias is the caller's own."""
    await command(bob, "dark", "/set theme dark", where="me")
    assert isinstance(await refused(bob, "/dark"), Forbidden)
    for line in ("/shell echo x > f", "/toolset disable kit", "/toolset import --encoded = UEs="):
        await command(bob, "dark", line, where="me")
        assert isinstance(await refused(bob, "/dark"), (Forbidden, NotFound)), line
    await do(bob, "/alias night = /set theme dark")
    assert (await do(bob, "/night")).text == "theme is dark."


async def test_command_never_has_the_role_on_the_server(
    alice: Someone, bob: Someone, den: str
) -> None:
    """A member plants it in a room of its own, and who owns the server types it."""
    await do(alice, "/namespace new corp Ours")
    await do(alice, "/skill new style = Be brief.")
    await do(bob, "/create trap")
    for line in ("namespace_set", "namespace_remove", "skill_edit", "put", "equip"):
        await do(alice, f"/equip me sshwarma:{line}")
    await do(alice, "/join trap")
    in_lua = (
        'return host.call("sshwarma:namespace_set",'
        ' {name = "workspace", field = "equip_role", value = "guest"}).content'
    )
    for text in (
        "/namespace set workspace equip_role guest", in_lua,
        "/namespace set corp equip_role guest",  # also what who types it has made
        "/namespace remove corp", "/skill edit style = Be evil.",
        "/equip defaults sshwarma:put",
        "/put home:prompt:style = evil", "/put here = x",  # in rooms of others
    ):  # fmt: skip
        await command(bob, "trap", text)
        with pytest.raises(WorldError, match="no script or custom command of yours"):
            await do(alice, "/trap")
    assert (await do(alice, "/namespace set workspace equip_role guest")).text
    await do(bob, "/room builder alice")
    assert (await do(alice, "/trap")).name == "here", "a role in the room counts"


async def test_audit_of_a_command_says_what_it_ran(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/equip room sshwarma:describe")
    await command(bob, "paint", "/describe {args}", where="me")
    await do(alice, f"/room builder {bob.caller.agent.name}")
    await do(bob, "/paint red walls")
    requests = [row.request for row in (await do(alice, "/audit")).rows]
    assert "/paint runs /describe red walls" in requests
    await command(bob, "paint", "/describe   " + " " * 700 + "blue", where="me")
    await do(bob, "/paint")
    await do(bob, "/equip me sshwarma:note")
    await command(bob, "script", 'host.call("sshwarma:describe", {text = "green"})', where="me")
    await command(
        bob, "script", '-- paints\nhost.call("sshwarma:describe", {text = "green"})', "me"
    )
    await do(bob, "/script")
    await command(bob, "call", "/run sshwarma:describe text=red", where="me")
    await do(bob, "/call")
    await do(bob, "/tool new me:brush = return host.call('sshwarma:describe', {text = 'pink'})")
    await command(bob, "paints", "/run bob:brush", where="me")
    await do(bob, "/paints")
    requests = [row.request for row in (await do(alice, "/audit")).rows]
    assert "/paint runs /describe blue" in requests
    for name, text in (("script", "green"), ("call", "red"), ("paints: bob:brush", "pink")):
        begin = f"/{name} calls /describe"
        assert any(one.startswith(begin) and text in one for one in requests), name


async def test_command_works_only_where_it_is_equipped(
    alice: Someone, bob: Someone, den: str
) -> None:
    await command(alice, "here", "/say here")
    await do(bob, "/join lobby")
    assert isinstance(await refused(bob, "/here"), NotFound)
    await command(bob, "mine", "/say mine", where="me")
    assert (await do(bob, "/mine")).text == "mine"
    await do(bob, "/MINE")
    assert isinstance(await refused(alice, "/mine"), NotFound)


async def test_alias_precedes_room_command_and_room_command_precedes_own(
    alice: Someone, bob: Someone, den: str
) -> None:
    await command(bob, "hi", "/say own", where="me")
    await command(alice, "hi", "/say the room's")
    assert (await do(bob, "/hi")).text == "the room's"
    await do(bob, "/alias hi = /say alias")
    assert (await do(bob, "/hi")).text == "alias"


async def test_piped_text_is_appended_to_the_arguments(alice: Someone, den: str) -> None:
    await command(alice, "count", "return #args")
    assert (await do(alice, "/count", "x" * 5000)).text == "5000"
    assert (await do(alice, "/count ab", "cd")).text == "5"


async def test_expanded_line_is_bounded(alice: Someone, den: str) -> None:
    await command(alice, "big", "/say " + "{args}" * 20)
    assert str(MAX_EXPANDED_CHARACTERS) in (await refused(alice, "/big " + "x" * 5000)).message


async def test_commands_appear_in_help_and_completion(alice: Someone, den: str) -> None:
    await command(alice, "shout", "-- Says it loudly.\nreturn args:upper()")
    await command(alice, "wave", "/me waves")
    index = await do(alice, "/help")
    assert index.commands == (("shout", "Says it loudly."), ("wave", "/me waves"))
    assert "Commands equipped here" in render_plain(draw_result(index))
    for topic in ("shout", "/shout"):
        shown = await do(alice, f"/help {topic}")
        assert (shown.kind, shown.summary) == ("script", "Says it loudly.")
        assert "return args:upper()" in render_plain(draw_result(shown))
    found = await complete(alice.caller, "/sho", 4)
    assert [(candidate.text, candidate.note) for candidate in found] == [
        ("/shout", "Says it loudly.")
    ]
    found = await complete(alice.caller, "/tool show den", 14)
    assert found == []
    await do(alice, "/tool new dice = return 1")
    found = await complete(alice.caller, "/tool show den", 14)
    assert [candidate.text for candidate in found] == ["den:dice"]
    found = await complete(alice.caller, "/run dic", 8)
    assert found == []


@pytest.mark.parametrize("word", ["gc", "mcp", "room", "look"])
async def test_command_cannot_shadow_a_verb_or_a_group(alice: Someone, den: str, word: str) -> None:
    await command(alice, word, "/note somebody else's text")
    before = await alice.world.last_rows(den, 100)
    for line in (f"/{word}", f"/{word} purge", f"/{word} list"):
        with contextlib.suppress(WorldError):
            await do(alice, line)
    added = [row for row in await alice.world.last_rows(den, 100) if row not in before]
    assert not [row for row in added if row.kind.startswith("journal")]
