"""The memory of projects and rooms, as an MCP client has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sshwarma.common.limits import MAX_MEMORY_KEY_CHARACTERS
from support.mcp_server import Served
from support.memory_client import Memory
from support.services import services_in

PROJECT_TOOLS = {
    "project_memory_get_variable": ({"key"}, {"project", "target_session_key", "number_lines"}),
    "project_memory_set_variable": ({"key"}, {"project", "value", "from_session_key"}),
    "project_memory_list_variables": (set[str](), {"project", "prefix", "limit", "offset"}),
    "project_memory_delete_variable": ({"key"}, {"project"}),
    "project_memory_search_by_regex": ({"key", "pattern"}, {"project"}),
}

SESSION_TOOLS = {
    "get_variable", "set_variable", "list_variables", "delete_variable", "append_to_variable",
    "concat", "copy_rename", "search_by_regex", "read_lines", "read_char_range", "insert_lines",
    "replace_lines", "delete_lines", "apply_patch", "count_chars", "count_lines", "check_eol",
    "normalize_eol", "check_indentation", "convert_indentation",
}  # fmt: skip


@pytest.fixture
async def token(served: Served) -> str:
    token = await served.newcomer("ann")
    await served.do("ann", "/equip me memory:*", "lobby")
    return token


async def test_the_five_tools_have_exactly_these_names_and_arguments(
    served: Served, mode: str
) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        tools = (await client.list_tools()).tools
        listed = {tool.name: tool.input_schema for tool in tools if "memory" in tool.name}
        assert listed.keys() == PROJECT_TOOLS.keys()  # those of a room are loaded by need
        assert len([tool for tool in tools if tool.name in PROJECT_TOOLS]) == 5
        for name, (required, optional) in PROJECT_TOOLS.items():
            assert set(listed[name].get("required", [])) == required
            assert set(listed[name]["properties"]) == required | optional
        memory = Memory(client)
        assert "unknown" in await memory.refused("project_memory_get_variable", key="a", keys="b")
        assert "key" in await memory.refused("project_memory_get_variable")
        assert "pattern" in await memory.refused("project_memory_search_by_regex", key="a")


async def test_the_environment_has_its_name_of_messages(served: Served) -> None:
    token = await served.newcomer("ann")
    await served.do("ann", "/equip me sshwarma:get_env_info", "lobby")
    async with served.client(token) as client:
        result = await client.call_tool("get_env_info", {})
        assert set(result.structured_content or {}) == {"os", "shell", "initialCwd"}


async def test_the_family_of_a_room_comes_with_its_namespace(served: Served, token: str) -> None:
    async with served.client(token) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {f"session_memory_{name}" for name in SESSION_TOOLS} < names


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        "a\r\nb\nc\r\r\n",
        '{"a": [1, 2.0], "b": null}',
        '"quoted"',
        "grüße \u2028 \x1b[1m\x07 日本語 🎈",
        "  spaces \t\n\n",
        "x" * 1_000_000,
        "\n" * 1_000_000,
        "ü" * 524_288,
    ],
    ids=range(10),
)
async def test_a_value_comes_back_as_it_went(served: Served, token: str, value: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        assert "Stored" in await memory.project("set_variable", key="k", value=value)
        assert await memory.project("get_variable", key="k") == value
        await memory.project("get_variable", key="k", target_session_key="s")
        assert await memory.session("get_variable", key="s") == value
        await memory.project("set_variable", key="copy", from_session_key="s")
        assert await memory.project("get_variable", key="copy") == value


async def test_set_takes_exactly_one_source(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        name = "project_memory_set_variable"
        assert "value or from_session_key" in await memory.refused(name, key="k")
        both = await memory.refused(name, key="k", value="", from_session_key="s")
        assert "not both" in both
        missing = await memory.refused(name, key="k", from_session_key="s")
        assert missing == 'The key "s" was not found in session memory.'
        assert await memory.keys() == ["No keys were found."]


async def test_a_value_can_go_to_the_room_without_being_shown(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="secret words")
        told = await memory.project(
            "get_variable", key="k", target_session_key="s", number_lines=True
        )
        assert "secret" not in told and '"s"' in told
        assert await memory.session("get_variable", key="s") == "secret words"


async def test_lines_are_numbered_to_the_right(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="a\r\n" * 9 + "last")
        numbered = await memory.project("get_variable", key="k", number_lines=True)
        assert numbered.startswith(" 1 | a\r\n 2 | a") and numbered.endswith("\n10 | last")


async def test_a_missing_key_is_said_to_be_missing(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        for told in (
            await memory.project("get_variable", key="k"),
            await memory.project("get_variable", key="k", target_session_key="s"),
            await memory.project("search_by_regex", key="k", pattern="a"),
            await memory.refused("project_memory_delete_variable", key="k"),
        ):
            assert told == 'The key "k" was not found in project memory.'
        result = await client.call_tool("project_memory_get_variable", {"key": "k"})
        assert (result.structured_content or {})["found"] is False


async def test_set_replaces_and_delete_removes(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        for value in ("one", "two"):
            await memory.project("set_variable", key="k", value=value)
        assert await memory.project("get_variable", key="k") == "two"
        assert await memory.keys() == ["k"]
        await memory.project("delete_variable", key="k")
        assert await memory.keys() == ["No keys were found."]
        await memory.project("set_variable", key="k", value="three")
        assert await memory.project("get_variable", key="k") == "three"


async def test_keys_are_listed_in_order_in_pages(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        made = ["B", "a", "a%b", "a_b", "axb", "b", "é"]
        for key in reversed(made):
            await memory.project("set_variable", key=key, value="")
        assert await memory.keys() == made
        assert await memory.keys(prefix="a") == ["a", "a%b", "a_b", "axb"]
        assert await memory.keys(prefix="a%") == ["a%b"]
        assert await memory.keys(prefix="a_") == ["a_b"]
        assert await memory.keys(limit=2, offset=1) == ["a", "a%b"]
        assert await memory.keys(offset=5) == ["b", "é"]
        nothing = ["No keys were found in this part: there are 7."]
        assert await memory.keys(limit=0) == await memory.keys(offset=7) == nothing
        for bad in ({"limit": -1}, {"offset": -1}):
            await memory.refused("project_memory_list_variables", **bad)


async def test_keys_differ_by_case_and_have_a_length(served: Served, token: str) -> None:
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="Foo", value="1")
        await memory.project("set_variable", key="foo", value="2")
        assert await memory.project("get_variable", key="Foo") == "1"
        longest = "k" * MAX_MEMORY_KEY_CHARACTERS
        await memory.project("set_variable", key=longest, value="1")
        for key in (longest + "k", "", "a\nb"):
            told = await memory.refused("project_memory_set_variable", key=key, value="1")
            assert "key" in told
        assert told == "key: its character 2 is not printable (U+000A)."
        assert await memory.keys() == ["Foo", "foo", longest]


async def test_search_marks_what_matches(served: Served, token: str) -> None:
    text = "Ship on Friday\r\nnothing\r\nFriday and friday\r\n" + "\r\n" * 7
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value=text)
        await memory.session("set_variable", key="k", value=text)
        found = await memory.project("search_by_regex", key="k", pattern="[Ff]riday")
        bold = "\x1b[1m{}\x1b[0m".format
        assert found.split("\n") == [
            '2 matches in "k":',
            f" 1 | Ship on {bold('Friday')}",
            f" 3 | {bold('Friday')} and {bold('friday')}",
        ]
        assert await memory.session("search_by_regex", key="k", pattern="[Ff]riday") == found
        nothing = await memory.project("search_by_regex", key="k", pattern="Monday")
        assert nothing == 'No matches were found in "k".'
        told = await memory.refused("project_memory_search_by_regex", key="k", pattern="(")
        assert "no regular expression" in told


async def test_a_search_without_end_is_ended_and_others_go_on(
    served: Served, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.tools.text_search.MEMORY_SEARCH_SECONDS", 0.05)
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="x" * 1_000_000)
        told = await memory.refused("project_memory_search_by_regex", key="k", pattern="x*y|x")
        assert "timed out after 0.05 s" in told
        assert "No matches" in await memory.project(
            "search_by_regex", key="k", pattern="(x+)+y"
        )  # linear


async def test_spellings_of_a_path_are_one_project(
    served: Served, token: str, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "link").symlink_to(site)
    relative = os.path.relpath(site, services_in(served.world).projects.start_directory)
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="of site", project=str(site))
        for spelling in (f"{site}/", f"{site}/../site", str(tmp_path / "link"), relative):
            got = await memory.project("get_variable", key="k", project=spelling)
            assert got == "of site", spelling
            assert await memory.keys(project=spelling) == ["k"]
        assert "not found" in await memory.project("get_variable", key="k")
        other = await memory.project("get_variable", key="k", project=str(tmp_path / "other"))
        assert "not found" in other
        await memory.project("delete_variable", key="k", project=relative)
        assert await memory.keys(project=str(site)) == ["No keys were found."]


async def test_another_project_is_for_its_members(
    served: Served, token: str, tmp_path: Path
) -> None:
    bob_token = await served.newcomer("bob")
    site = str(tmp_path / "site")
    async with served.client(token) as ann, served.client(bob_token) as bob:
        await Memory(ann).project("set_variable", key="k", value="of ann", project=site)
        others = Memory(bob)
        for action, more in (
            ("get_variable", {"key": "k"}),
            ("set_variable", {"key": "k", "value": "of bob"}),
            ("list_variables", {}),
            ("delete_variable", {"key": "k"}),
            ("search_by_regex", {"key": "k", "pattern": "a"}),
        ):
            told = await others.refused(f"project_memory_{action}", project=site, **more)
            assert "member of the project" in told and "ann" in told
        assert await Memory(ann).project("get_variable", key="k", project=site) == "of ann"


async def test_rooms_with_directories_have_projects_if_none_is_pinned(
    served: Served, token: str, tmp_path: Path
) -> None:
    projects = services_in(served.world).projects
    projects.is_pinned, projects.start_directory = False, str(tmp_path)
    await served.agent("owner", "owner")
    (tmp_path / "den").mkdir()
    async with served.client(token) as client:
        memory = Memory(client)
        await memory.project("set_variable", key="k", value="of the start")
        await served.do("owner", f"/state directory {tmp_path}/den", "lobby")
        assert "not found" in await memory.project("get_variable", key="k")
        await memory.project("set_variable", key="k", value="of den")
        await served.do("owner", "/state directory -", "lobby")
        assert await memory.project("get_variable", key="k") == "of the start"
        den = await memory.refused("project_memory_get_variable", key="k", project="den")
        assert "member of the project den" in den
