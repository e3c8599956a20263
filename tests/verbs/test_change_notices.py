"""What the verbs that change a room answer, and that only a change is announced."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.terminal.render import render_plain
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def notices(world: World, room: str = "lobby") -> list[str]:
    return [row.content for row in await world.last_rows(room, 50) if row.kind == "notice"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/nav off", ["turned navigation off"]),
        ("/room member bob", ["made bob member"]),
        ("/tool disable sshwarma:look", ["disabled the tool sshwarma:look"]),
    ],
)
async def test_change_is_announced_once(
    world: World, alice: Someone, bob: Someone, line: str, expected: list[str]
) -> None:
    await do(alice, line)
    assert await notices(world) == expected
    await do(alice, line)
    assert await notices(world) == expected


@pytest.mark.parametrize("line", ["/nav on", "/room open", "/tool enable sshwarma:look"])
async def test_request_that_changes_nothing_is_not_announced(
    world: World, alice: Someone, line: str
) -> None:
    await do(alice, line)
    assert await notices(world) == []


async def test_disabling_a_disabled_tool_says_so(alice: Someone) -> None:
    first = await do(alice, "/tool disable sshwarma:look")
    second = await do(alice, "/tool disable sshwarma:look")
    assert first.text == "sshwarma:look is disabled."
    assert second.text == "sshwarma:look is already disabled."


async def test_removing_a_missing_role_is_refused(alice: Someone, bob: Someone) -> None:
    refusal = await refused(alice, "/room remove bob")
    assert isinstance(refusal, Conflict)
    assert refusal.message == "bob has no role in lobby."
    assert (await refused(alice, "/room remove alice")).message == "alice has no role in lobby."


@pytest.mark.parametrize(
    ("verb", "state"), [("mute", "muted in lobby"), ("ban", "banned from lobby")]
)
async def test_ending_a_missing_mute_or_ban_is_refused(
    alice: Someone, bob: Someone, verb: str, state: str
) -> None:
    assert (await refused(alice, f"/{verb} bob off")).message == f"bob is not {state}."
    assert (await do(alice, f"/{verb} bob 5")).text == f"bob is {state} for 5 min."
    assert (await do(alice, f"/{verb} bob off")).text == f"bob is no longer {state}."
    assert (await refused(alice, f"/{verb} bob off")).message == f"bob is not {state}."


async def test_removing_a_missing_alias_is_refused(alice: Someone) -> None:
    refusal = await refused(alice, "/alias ws = -")
    assert isinstance(refusal, NotFound)
    assert str(refusal) == "You have no alias ws. /alias lists yours."
    await do(alice, "/alias ws = /join workshop")
    assert (await do(alice, "/alias ws = -")).text == "Removed the alias /ws."


async def test_prefix_of_a_name_selects_the_bag(world: World, alice: Someone, bob: Someone) -> None:
    assert (await do(alice, "/put home:z = 1")).bag == "home"
    assert (await do(alice, "/put room:z = 2")).bag == "lobby"
    assert (await do(alice, "/put me:z = 3")).bag == "your bag"
    assert [(await do(alice, f"/examine {bag}:z")).content for bag in ("home", "room", "me")] == [
        "1", "2", "3",
    ]  # fmt: skip
    assert await notices(world) == ["made z"], "the room hears nothing about things put elsewhere"
    assert (await do(alice, "/edit home:z")).line == "/put home:z = 1"
    assert "build right in home" in (await refused(bob, "/put home:z = x")).message
    assert isinstance(await refused(bob, "/edit home:z"), Forbidden)


@pytest.mark.parametrize("line", ["/put me:home:z = 1", "/link home:z https://example.org/"])
async def test_thing_name_with_a_bag_prefix_is_refused(alice: Someone, line: str) -> None:
    refusal = await refused(alice, line)
    assert isinstance(refusal, Invalid)
    assert refusal.message == "home:z cannot be the name of a thing: home: is a bag."


async def test_edit_needs_the_right_to_change(alice: Someone, bob: Someone) -> None:
    await do(alice, "/put note = x")
    for line in ("/edit note", "/edit fresh"):
        assert "build right in lobby" in (await refused(bob, line)).message
    assert (await do(bob, "/edit me:fresh")).line == "/put me:fresh = "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/join dne", "Unknown room dne. Did you mean den?"),
        ("/join nosuch", "Unknown room nosuch. /rooms lists them."),
        ("/tell bbo hi", "Unknown agent bbo. Did you mean bob?"),
        ("/wrap @nosuch", "Unknown model nosuch. /models lists them."),
        ("/stats @qwne", "Unknown model qwne. Did you mean qwen?"),
        ("/retry @bob", "bob is not a model. /models lists them."),
        ("/stop @nosuch", "Unknown model nosuch. /models lists them."),
        ("/skill show rve", "Unknown skill rve. Did you mean rev?"),
        ("/skill show nosuch", "Unknown skill nosuch. /skill lists them."),
        ("/mcp show nosuch", "Unknown MCP server nosuch. /mcp lists them."),
        ("/namespace show nosuch", "Unknown namespace nosuch. /namespaces lists them."),
        ("/run nosuch:x", "Unknown tool nosuch:x. /inv shows what is equipped."),
        ("/drop room nosuch", "Unknown thing nosuch in this room. /inv lists what is there."),
        ("/inv nosuch", "Choose one of: room, me, all, @agent (got nosuch)."),
        ("/equip nosuch sshwarma:look", "Choose one of: room, me, defaults, @agent (got nosuch)."),
        (
            "/history --before x",
            "/history show: --before: must be a whole number (got x)."
            " Usage: /history show [@AGENT] [N] [--before BEFORE] [--at AT] [--row ROW] [--tools]",
        ),
        (
            "/token new a --days 0",
            "/token new: --days: must be at least 1 (got 0)."
            " Usage: /token new LABEL [--scope read|act|build|approve] [--days DAYS]",
        ),
        ("/mute alice", "You cannot mute yourself."),
        (
            "/mute bob 0",
            "/mute: minutes: must be at least 1 or forever (got 0)."
            " Usage: /mute NAME [MINUTES|forever] [REASON…]",
        ),
        ("/namespace set git auto_load maybe", "auto_load: choose one of: on, off (got maybe)."),
        ("/namespace remove sshwarma", "sshwarma is built in and cannot be removed."),
        (
            "/state add Foo",
            "Foo cannot be the name of a state. A name is a lower-case letter, then letters,"
            " digits, . _ or -, such as ci-configured.",
        ),
    ],
)
async def test_refusal_suggests_what_to_do(
    alice: Someone, bob: Someone, qwen: Someone, line: str, expected: str
) -> None:
    for made in ("/create den", "/leave", "/skill new rev = x", "/namespace new git"):
        await do(alice, made)
    assert str(await refused(alice, line)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "/mcp add x https://a.example/ --oauth-client-secret ${S}",
            "--oauth-client-secret needs --oauth-client-id and --oauth-issuer.",
        ),
        (
            "/mcp add x https://a.example/ --oauth-machine",
            "--oauth-machine needs --oauth-client-secret.",
        ),
        (
            "/mcp add x https://a.example/ --oauth-client-secret plain",
            "--oauth-client-secret: put the secret into the environment of the server and write"
            " ${NAME} in its place.",
        ),
        (
            "/mcp add x --allow-private -- cat",
            "--header, --sse and --allow-private need a url, not a command.",
        ),
        ("/mcp add x https://a.example/ --cwd /", "--env and --cwd need a command, not a url."),
        ("/mcp add x --cwd here -- cat", "--cwd: must be an absolute path (got here)."),
        (
            "/mcp add x --cwd /no/such/folder -- cat",
            "--cwd: the directory /no/such/folder does not exist on the server."
            " Create it there first.",
        ),
        (
            "/mcp add x --call-seconds 5000 -- cat",
            "/mcp add: --call-seconds: must be at most 1800 (got 5000).",
        ),
        (
            "/model add x openai m --url ftp://x",
            "--url: must be a URL, such as http://127.0.0.1:8080/v1.",
        ),
        (
            "/model add x openai m --key-env 1bad",
            "--key-env: must be the name of an environment variable, such as OPENAI_API_KEY.",
        ),
        (
            "/model add x openai m --key-env A --key-file /b",
            "give --key-env or --key-file, not both.",
        ),
        ("/set plain maybe", "plain: choose one of: off, on (got maybe)."),
    ],
)
async def test_a_refusal_names_the_flags_as_they_are_typed(
    alice: Someone, line: str, expected: str
) -> None:
    assert str(await refused(alice, line)).startswith(expected)


async def test_a_folder_of_a_command_is_not_created(alice: Someone, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    why = str(await refused(alice, f"/mcp add x --cwd {missing} -- cat"))
    assert "does not exist on the server" in why
    assert not missing.exists()


async def test_a_log_without_rows_says_what_it_lacks(alice: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "hello")
    shown = draw_result(await do(alice, "/history --tools"))
    assert shown.plain().splitlines() == ["No tool was called in den yet."]


async def test_a_refusal_names_the_namespace_as_it_is_typed(alice: Someone, bob: Someone) -> None:
    await do(alice, "/namespace set sshwarma enabled off")
    why = str(await refused(bob, "/run sshwarma:who"))
    assert why.startswith("sshwarma:who is unavailable: namespace sshwarma is disabled.")
    listed = await do(bob, "/inv")
    assert {item.namespace for item in listed.equipped} == {"sshwarma", "global", "memory"}
    shown = draw_result(await do(bob, "/examine sshwarma:who"))
    assert "Location: sshwarma (namespace)" in shown.plain().splitlines()


async def test_garbage_is_listed_with_kinds_that_people_know(alice: Someone) -> None:
    await do(alice, "/namespace new git")
    await do(alice, "/namespace remove git")
    shown = draw_result(await do(alice, "/gc purge 0"))
    assert any("[namespace]" in row for row in shown.plain().splitlines())
    assert not any("toolset" in row for row in shown.plain().splitlines())


async def test_the_equipment_of_new_rooms_is_shown_in_words(alice: Someone) -> None:
    text = draw_result(await do(alice, "/inv defaults")).plain().splitlines()
    assert "Bag of new rooms:" in text
    assert not any("defaults" in row for row in text)


async def test_clearing_notes_removes_no_state(alice: Someone) -> None:
    await do(alice, "/state add dry")
    why = str(await refused(alice, "/state clear dry"))
    assert why.startswith("Unknown model dry.")
    assert "/state remove dry removes the state." in why
    assert (await do(alice, "/state list")).set == ("dry",)


async def test_a_detected_state_is_not_removed_by_hand(alice: Someone) -> None:
    why = str(await refused(alice, "/state remove mcp:x"))
    assert why.startswith("mcp:x is detected and cannot be removed by hand. mcp:NAME is set while")


async def test_only_an_agent_itself_names_a_room_after_it(alice: Someone, bob: Someone) -> None:
    assert str(await refused(alice, "/create bob")) == (
        "Only the agent bob can name a room bob. Choose another name."
    )
    await do(bob, "/create bob")
    why = await refused(alice, "/namespace new alice")
    assert why.message == "The name alice is taken."
    await do(bob, "/room private")
    why = await refused(alice, "/namespace new bob")
    assert why.message == "The name bob is taken."  # not that a private room has it
    await do(alice, "/namespace new git")
    assert (await refused(alice, "/create git")).message == "git is the name of a namespace."


async def test_tools_that_are_equipped_one_by_one_stay_on_and_it_is_said(alice: Someone) -> None:
    await do(alice, "/create den")
    done = await do(alice, "/unload sshwarma room")
    assert done.changed == ()
    assert done.note.startswith(
        "sshwarma is not loaded in this room."
        " Still on, because they are equipped one by one in this room: sshwarma:"
    )
    await do(alice, "/namespace new git")
    await do(alice, "/load git room")
    assert (await do(alice, "/unload git room")).changed == ("git",)


async def test_kinds_have_the_right_article(alice: Someone) -> None:
    await do(alice, "/put lamp = x")
    assert (await refused(alice, "/tool test lamp")).message == "lamp is data, not a tool."


async def test_private_room_is_not_suggested(alice: Someone, bob: Someone) -> None:
    for made in ("/create vault", "/room private"):
        await do(alice, made)
    assert str(await refused(alice, "/join valut")) == "Unknown room valut. Did you mean vault?"
    assert str(await refused(bob, "/join valut")) == "Unknown room valut. /rooms lists them."


async def test_result_says_what_was_changed_and_where(alice: Someone) -> None:
    await do(alice, "/namespace new git")
    await do(alice, "/put style = x")
    for line, expected in (
        ("/load git", "Loaded namespace git on you."),
        ("/load git", "git is already loaded on you."),
        ("/load git room", "Loaded namespace git in this room."),
        ("/unload git room", "Unloaded namespace git from this room."),
        ("/equip me sshwarma:fork", "Equipped sshwarma:fork on you."),
        ("/unequip me sshwarma:fork", "Unequipped sshwarma:fork from you."),
        ("/move style to me", "Moved style to your bag."),
        ("/put style = x", "Made style in lobby (1 byte)."),
        ("/state add dry", "Set the state dry in lobby."),
        ("/state add dry", "The state dry is already set in lobby."),
        ("/state remove dry", "Removed the state dry from lobby."),
        ("/state remove dry", "The state dry is not set in lobby."),
        ("/gc orphans", "Would delete 0 orphans."),
    ):
        shown = render_plain(draw_result(await do(alice, line)))
        assert shown.splitlines()[0] == expected
    shown = render_plain(draw_result(await do(alice, "/examine git")))
    assert "Kind: namespace\nLocation: namespaces\n" in shown
