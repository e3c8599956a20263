"""Names of tools: which of two that are alike is found."""

from __future__ import annotations

from sshwarma.tools.names import NameTable
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY, plugin_tool_name


def item(label: str, *, is_plugin: bool = False) -> LoadoutItem:
    metadata = {PLUGIN_NAME_KEY: plugin_tool_name(label)} if is_plugin else {}
    name = label.partition(":")[2]
    thing = Thing(label, "space", "tool", name, qualified_name=label, metadata=metadata)
    return LoadoutItem(thing, "room", 0, label.partition(":")[0])


def test_real_name_goes_before_the_name_that_a_plugin_gives() -> None:
    post = item("moltbook:post", is_plugin=True)
    alone = NameTable([post, item("other:post_all")])
    assert alone.find("moltbook_post") is post
    assert alone.find("other_post_all") is None, "others have no such name"
    real = item("room:moltbook_post")
    for order in ([post, real], [real, post]):
        table = NameTable(order)
        assert table.find("moltbook_post") is real
        assert table.find("moltbook:post") is post
