"""Exports say which variables their import needs."""

from __future__ import annotations

from dataclasses import replace

from sshwarma.toolsets import records
from sshwarma.toolsets.bundle import hash_files, read_bundle
from sshwarma.toolsets.stored_keys import ZIP, Source
from sshwarma.verbs.file_views import FileDownload
from sshwarma.verbs.toolset import export_toolset
from sshwarma.verbs.toolset_exported import ToolsetData, ToolsetVariable
from sshwarma.verbs.views import draw_result, dump_json
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone

MANIFEST = b"""manifest_version: "1"
id: kit
name: Kit
version: "1"
mcp_servers:
  - id: srv
    command: python3
    args: [-u, -c, "print(1)", --mode, fast]
    env: {MODE: fast}
"""


async def test_export_names_the_variables_that_must_be_set(world: World, alice: Someone) -> None:
    bundle = read_bundle({"toolset.yaml": MANIFEST})

    def work(tx: Change) -> None:
        records.install_toolset(
            tx, bundle, [], tree=hash_files(bundle.hashes), packages="",
            source=Source(ZIP, "", alice.id, "exec"),
        )  # fmt: skip

    await world.change(work)
    place = ToolsetVariable("SRV_ARG_3", "mcp_servers[0].args[2]")
    whole = await export_toolset(alice.caller, "kit")
    assert isinstance(whole, ToolsetData) and whole.variables == (place,)
    assert dump_json(whole)["variables"] == [{"name": place.name, "place": place.place}]
    assert "imports it: SRV_ARG_3 (mcp_servers[0].args[2])." in str(draw_result(whole))
    said: list[str] = []
    door = replace(alice.caller, wants_bytes=True, on_progress=said.append)
    download = await export_toolset(door, "kit")
    assert isinstance(download, FileDownload) and download.variables == ("SRV_ARG_3",)
    assert "SRV_ARG_3 (mcp_servers[0].args[2])" in said[0] and len(said) == 1
