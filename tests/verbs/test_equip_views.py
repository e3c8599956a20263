"""How a terminal shows what was equipped."""

from __future__ import annotations

from sshwarma.terminal.render import render_plain
from sshwarma.verbs.equip import EquipResult, draw_equip_result
from sshwarma.world.reader import PERSON


def test_many_equipped_things_are_counted() -> None:
    names = tuple(f"t{number}" for number in range(23))
    shown = render_plain(draw_equip_result(EquipResult(True, "room", names, names[:2], ()), PERSON))
    assert shown == (
        f"Equipped {', '.join(names[:20])} and 3 more in this room.\nAlready equipped: t0, t1."
    )
