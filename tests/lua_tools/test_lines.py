"""Lines of Lua that builders run at once."""

from __future__ import annotations

import pytest

from sshwarma.world.errors import Invalid
from support.people import Someone, do, refused


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("6 * 7", "42"),
        ("local x = 2\nreturn x + 1", "3"),
        ("room.name", "den"),
        ("{1, 2}", "1\n2"),
        ("x = 1", "(no result)"),
        ("host.call('sshwarma:look').name", "den"),
    ],
)
async def test_a_line_is_an_expression_or_a_script(
    alice: Someone, den: str, line: str, text: str
) -> None:
    await do(alice, "/equip me sshwarma:look")
    before = (await do(alice, "/history")).entries
    ran = await do(alice, f"/lua {line}")
    assert (ran.ok, ran.text) == (True, text)
    assert (await do(alice, "/history")).entries == before, "the log keeps nothing of it"


async def test_lines_keep_values_and_name_their_errors(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/lua host.state().set('x', 5)")
    assert (await do(alice, "/lua host.state().get('x')")).text == "5"
    ran = await do(alice, "/lua nosuch.field")
    assert (ran.ok, "lua:1: attempt to index a nil value" in ran.text) == (False, True)
    refusal = await refused(alice, "/lua return (")
    assert isinstance(refusal, Invalid) and "Lua syntax error: lua:1" in refusal.message
