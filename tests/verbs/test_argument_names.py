"""Arguments of file tools by the names that models know from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.tools.arguments import check_arguments
from sshwarma.world import things
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.things import Thing
from sshwarma.world.world import World


async def tool_of(world: World, name: str) -> Thing:
    found = await world.store.read(lambda conn: things.find_by_qualified_name(conn, name))
    if found is None:
        raise NotFound(name)
    return found


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("read_file", {"file_path": "a"}, {"path": "a"}),
        (
            "edit_file",
            {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True},
            {"path": "a", "old": "x", "new": "y", "all": True},
        ),
        ("edit_file", {"path": "a", "old_str": "x", "new_str": ""},
         {"path": "a", "old": "x", "new": ""}),
        ("write_file", {"filename": "a", "text": "t"}, {"path": "a", "content": "t"}),
        ("search_files", {"query": "t"}, {"pattern": "t"}),
        ("run_command", {"cmd": "ls"}, {"command": "ls"}),
    ],
)  # fmt: skip
async def test_usual_names_are_understood(
    world: World, tool: str, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    found = await tool_of(world, f"workspace:{tool}")
    assert check_arguments(found, given) == meant


async def test_own_names_win_and_other_tools_have_none(world: World) -> None:
    found = await tool_of(world, "workspace:read_file")
    with pytest.raises(Invalid, match="file_path"):
        check_arguments(found, {"path": "a", "file_path": "b"})
    with pytest.raises(Invalid, match="nonsense"):
        check_arguments(found, {"path": "a", "nonsense": "b"})
    note = await tool_of(world, "sshwarma:note")
    with pytest.raises(Invalid, match="contents"):
        check_arguments(note, {"contents": "x"})
