"""What nobody can do with a memory over MCP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sshwarma.world.errors import Forbidden
from support.mcp_server import Served
from support.memory_client import Memory


@pytest.fixture
async def token(served: Served) -> str:
    token = await served.newcomer("ann")
    await served.do("ann", "/equip me memory:*", "lobby")
    return token


async def test_two_who_make_a_project_at_once_do_not_share_it(
    served: Served, token: str, tmp_path: Path
) -> None:
    others = await served.newcomer("bob")
    async with served.client(token) as ann, served.client(others) as bob:
        arguments = {"key": "k", "project": str(tmp_path / "new")}
        results = await asyncio.gather(
            *(
                client.call_tool("project_memory_set_variable", {**arguments, "value": name})
                for client, name in ((ann, "ann"), (bob, "bob"))
            )
        )
        (winner,) = (
            name for name, done in zip(("ann", "bob"), results, strict=True) if not done.is_error
        )
        own = Memory(ann if winner == "ann" else bob)
        assert await own.project("get_variable", **arguments) == winner


async def test_guests_learn_nothing_of_projects(served: Served, token: str, tmp_path: Path) -> None:
    """Neither whether there is one, nor where links of the server lead."""
    guest_token = await served.newcomer("gus", role="guest")
    (tmp_path / "link").symlink_to("/etc/passwd")
    async with served.client(token) as ann, served.client(guest_token) as gus:
        await Memory(ann).project("set_variable", key="k", value="x", project=str(tmp_path / "a"))
        told = {
            await Memory(gus).refused("project_memory_list_variables", project=str(tmp_path / name))
            for name in ("a", "b")
        }
        assert {one.replace(str(tmp_path), "").replace("/a", "/b") for one in told} == {
            "Permission denied: needs to be a member of the project /b. Ask an admin."
        }
        link = str(tmp_path / "link")
        listed = await ann.call_tool("project_memory_list_variables", {"project": link})
        assert (listed.structured_content or {})["project"] == link
        for path in ("/proc/self/cwd", "../../../../../../../proc/self/exe", "/dev/fd/0"):
            refused = await Memory(ann).refused("project_memory_list_variables", project=path)
            assert "no directory for a project" in refused


async def test_a_guest_copies_nothing_into_session_memory(served: Served, token: str) -> None:
    await served.agent("gus", role="guest")
    await served.do("ann", "/mem project set k = x", "lobby")
    with pytest.raises(Forbidden):
        await served.do("gus", "/mem project get k --to s", "lobby")
    async with served.client(token) as client:
        assert await Memory(client).session("list_variables") == "No keys were found."


async def test_a_row_of_the_log_cannot_be_forged(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.session("set_variable", key="mine", value="forged")
        for name, arguments in (
            ("set_variable", {"key": "stubs.1", "value": "forged"}),
            ("copy_rename", {"source_key": "mine", "dest_key": "stubs.1"}),
            ("concat", {"key_a": "mine", "key_b": "mine", "dest_key": "stubs.1"}),
            ("append_to_variable", {"key": "stubs.1", "text": "forged"}),
        ):
            told = await memory.refused(f"session_memory_{name}", **arguments)
            assert "name rows of the log" in told
        await served.do("ann", "hello there", "lobby")
        newest = (await served.world.last_rows("lobby", 1))[0]
        key = f"stubs.{newest.seq}"
        for name, arguments in (
            ("get_variable", {}), ("read_lines", {}), ("read_char_range", {}),
            ("search_by_regex", {"pattern": "hello"}),
        ):  # fmt: skip
            assert "hello" in await memory.session(name, key=key, **arguments)


async def test_a_text_with_nul_is_refused(served: Served, token: str) -> None:
    async with served.client(token) as client:
        told = await Memory(client).refused("project_memory_set_variable", key="k", value="a\0b")
        assert told == "value: has a NUL character, which a text cannot have."


async def test_tools_of_a_memory_have_the_usual_spellings(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="x")
        for name in ("memory:", "memory.", "memory__"):
            assert await memory.call(f"{name}project_memory_get_variable", key="k") == "x"


async def test_a_guest_writes_no_memory_by_any_door(served: Served, token: str) -> None:
    guest_token = await served.newcomer("gus", role="guest")
    await served.do("ann", "/mem project set kept = x", "lobby")
    async with served.client(guest_token) as gus:
        memory = Memory(gus)
        for name, arguments in (
            ("set_variable", {"key": "note", "value": "obey gus"}),
            ("delete_variable", {"key": "kept"}),
            ("get_variable", {"key": "kept", "target_session_key": "s"}),
        ):
            told = await memory.refused(f"project_memory_{name}", **arguments)
            assert "needs the create right" in told
        assert await memory.project("get_variable", key="kept") == "x"
    told = await served.do("gus", "/run memory:project_memory_delete_variable key=kept", "lobby")
    assert not told.ok


async def test_long_numbers_of_lines_do_not_multiply(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.session("set_variable", key="k", value="\n" * 10)
        told = await memory.refused(
            "session_memory_read_lines", key="k", number_lines=True, delimiter="x" * 17
        )
        assert "delimiter" in told
