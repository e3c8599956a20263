"""How much the scripts of one person may change in a short time."""

from __future__ import annotations

from sshwarma.common.limits import MAX_SCRIPT_CHANGES_PER_WINDOW
from sshwarma.world import things
from support.people import Someone, do

MAKER = """-- Makes texts.
-- @param first integer number of the first
for n = args.first, args.first + 19 do
  host.call("sshwarma:put", { name = "text-" .. n, text = "x" })
end
return "made"
"""


async def test_changes_by_scripts_are_counted_over_all_runs(alice: Someone, den: str) -> None:
    """Each run was one line, and made as many things again."""
    await do(alice, "/equip room sshwarma:put sshwarma:look")
    await do(alice, "/tool new make", MAKER)
    await do(
        alice, "/tool new show", "for n = 1, 20 do host.call('sshwarma:look') end return 'seen'"
    )
    ran = [await do(alice, f"/run den:make first={run * 20}") for run in range(5)]
    assert [one.text for one in ran[:3]] == ["made"] * 3  # a few runs are within the pace
    said = f"At most {MAX_SCRIPT_CHANGES_PER_WINDOW} changes by scripts of one person in 10 seconds"
    assert said in ran[3].text
    assert said in ran[4].text
    bag = await alice.world.store.read(
        lambda conn: things.read_children(conn, alice.room_id, "data")
    )
    assert len(bag) == MAX_SCRIPT_CHANGES_PER_WINDOW
    for _ in range(4):
        assert (await do(alice, "/run den:show")).text == "seen"
    await do(alice, "/put typed = lines have a pace of their own")
