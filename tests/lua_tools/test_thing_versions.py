"""Versions of texts and scripts, other names, and new rooms behind exits."""

from __future__ import annotations

import pytest

from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def test_versions_of_a_text_are_listed_compared_and_brought_back(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/put plan = one")
    await do(alice, "/put plan = one")
    await do(alice, f"/room builder {bob.caller.agent.name}")
    await do(bob, "/put plan = two")
    listed = await do(bob, "/history plan")
    assert [(one.version, one.by, one.ended) for one in listed.versions] == [
        (2, "bob", ""), (1, "alice", "replaced by bob"),
    ]  # fmt: skip
    compared = await do(bob, "/history diff plan")
    assert (compared.version, "-one" in compared.diff, "+two" in compared.diff) == (1, True, True)
    assert (await do(bob, "/revert plan")).text == "plan has the text of version 1 again."
    assert (await do(bob, "/examine plan")).content == "one"
    assert (await do(bob, "/revert plan")).text == "plan has the text of version 2 again."
    assert (await do(bob, "/examine plan")).content == "two"
    assert isinstance(await refused(bob, "/history diff plan 9"), NotFound)
    assert isinstance(await refused(bob, "/history of den"), Invalid)
    assert len((await do(bob, "/history 2")).entries) == 2, "a number is no name"


async def test_a_new_text_has_no_versions_of_a_namesake_that_was_dropped(
    alice: Someone, bob: Someone, den: str
) -> None:
    for line in ("/put plan = secret", "/put plan = open", "/drop room plan", "/put plan = new"):
        await do(alice, line)
    assert [one.ended for one in (await do(bob, "/history plan")).versions] == [""]
    for line in ("/history diff plan", "/history diff plan 1"):
        assert isinstance(await refused(bob, line), NotFound)


async def test_versions_of_a_tool(world: World, alice: Someone, bob: Someone, den: str) -> None:
    await do(alice, "/tool new dice = -- Rolls.\n-- @param n integer=1 How many\nreturn 1")
    await do(alice, "/tool new dice = return 2")
    assert (await do(bob, "/run dice")).text == "2"
    assert isinstance(await refused(bob, "/revert dice"), Forbidden)
    await do(alice, "/revert dice")
    assert (await do(bob, "/run dice n=2")).text == "1", "with its arguments"
    assert [one.version for one in (await do(bob, "/history dice")).versions] == [3, 2, 1]


async def test_tools_and_texts_keep_their_versions_under_another_name(
    alice: Someone, bob: Someone, den: str
) -> None:
    for line in ("/put plan = one", "/put plan = two", "/tool new dice = return 1",
                 "/tool new dice = return 2"):  # fmt: skip
        await do(alice, line)
    assert isinstance(await refused(bob, "/rename plan todo"), Forbidden)
    assert isinstance(await refused(bob, "/rename dice coin"), Forbidden)
    assert (await do(alice, "/rename plan todo")).text == "plan is todo now."
    assert (await do(alice, "/rename dice coin")).text == "den:dice is den:coin now."
    assert [one.version for one in (await do(alice, "/history todo")).versions] == [2, 1]
    assert [one.version for one in (await do(alice, "/history coin")).versions] == [2, 1]
    assert (await do(bob, "/run coin")).text == "2"
    await do(alice, "/put plan = other")
    assert isinstance(await refused(alice, "/rename todo plan"), Conflict)
    assert isinstance(await refused(alice, "/rename sshwarma:look peek"), (Invalid, Forbidden))


async def test_a_room_is_renamed_with_its_tools(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/tool new dice = return 1")
    await do(alice, "/tool disable dice")
    assert isinstance(await refused(bob, "/rename room studio"), Forbidden)
    assert (await do(alice, "/rename room studio")).text == "den is studio now."
    assert (await do(bob, "/look")).name == "studio"
    assert isinstance(await refused(bob, "/join den"), NotFound)
    await do(alice, "/tool enable studio:dice")
    assert (await do(bob, "/run studio:dice")).text == "1"
    for name, error in (("lobby", Conflict), ("bob", Conflict), ("A!", Invalid)):
        assert isinstance(await refused(alice, f"/rename room {name}"), error), name
    await do(alice, "/join lobby")
    assert "cannot be renamed" in (await refused(alice, "/rename room hall")).message


async def test_dig_makes_a_room_with_the_way_back(alice: Someone, bob: Someone, den: str) -> None:
    dug = await do(alice, "/dig north studio")
    assert (dug.direction, dug.to, dug.back) == ("north", "studio", "south → den (from studio)")
    assert (await do(alice, "/look")).name == "den", "who digs stays"
    await do(bob, "/go north")
    assert [way for way, _ in (await do(bob, "/exits")).exits] == ["south"]
    assert isinstance(await refused(alice, "/dig north attic"), Conflict)
    assert (await do(alice, "/dig down cellar --oneway")).back is None


@pytest.mark.parametrize("line", ["/history nosuch", "/revert nosuch", "/rename nosuch other"])
async def test_what_does_not_exist_has_no_versions(alice: Someone, den: str, line: str) -> None:
    assert isinstance(await refused(alice, line), NotFound)
