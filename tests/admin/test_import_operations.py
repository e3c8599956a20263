"""Operations of `sshwarma import`: their refusals, and their row in the audit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.admin.import_operations import import_toolset
from sshwarma.admin.operations import OPERATIONS, run_operation
from sshwarma.settings import Settings
from sshwarma.world.errors import Conflict, Invalid, NotFound, Unavailable, WorldError
from sshwarma.world.world import World
from support.people import Someone, everything

SKILL = {"kind": "skills", "items": [{"name": "x"}], "rooms": []}
VALUES: dict[str, Any] = {"kind": "values", "items": [], "rooms": []}

REFUSED: list[tuple[str, dict[str, Any], type[WorldError]]] = [
    ("import_names", {"person": "nobody", "model": "slop"}, NotFound),
    ("import_names", {"person": "alice", "model": "No Name"}, Invalid),
    ("import_names", {"person": "alice", "model": "alice"}, Conflict),
    ("import_begin", {"line": "x", "person": "nobody"}, NotFound),
    ("import_step", {"step": {}, "person": "alice", "model": "", "apply": True}, Invalid),
    ("import_step", {"step": SKILL, "person": "alice", "model": "", "apply": True}, Invalid),
    ("import_step", {"step": VALUES, "person": "nobody", "model": "", "apply": True}, NotFound),
    ("import_toolset", {"file": "/etc/passwd", "person": "alice"}, Unavailable),
    ("import_toolset_state", {"toolset": {"id": "sshwarma", "tree": ""}}, Invalid),
]


@pytest.mark.parametrize(("name", "args", "how"), REFUSED)
async def test_refused_operation_of_an_import_changes_nothing(
    world: World, alice: Someone, name: str, args: dict[str, Any], how: type[WorldError]
) -> None:
    before = await everything(world)
    with pytest.raises(how):
        await run_operation(world, name, args)
    assert await everything(world) == before


def test_every_operation_of_imports_has_a_refusal() -> None:
    assert {name for name in OPERATIONS if name.startswith("import")} == {
        name for name, _, _ in REFUSED
    }


async def test_links_of_this_machine_lead_to_one_project(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    """As `/mem project get --project` follows them."""
    place, link = tmp_path / "garden", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    items = [
        {"project": str(link), "key": "plan", "value": "walls"},
        {"project": f"{place}/x/../", "key": "plan", "value": "walls"},
    ]
    step = {"kind": "values", "items": items, "rooms": []}
    options: dict[str, Any] = {"person": "alice", "model": "", "apply": True}
    done = await run_operation(world, "import_step", {"step": step, **options})
    assert done["counts"]["values"] == {"new": 1, "known": 1}
    assert done["projects"] == {str(place.resolve()): "new"}


async def test_paths_that_are_no_place_for_a_project_are_left_out(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    readlink = Path.readlink

    def deny(path: Path) -> Path:
        if path == Path("/locked"):
            raise PermissionError(path)
        return readlink(path)

    monkeypatch.setattr(Path, "readlink", deny)
    items = [{"project": one, "key": "k", "value": "v"} for one in ("/sys/x", "/locked", "/p/x")]
    step = {"kind": "values", "items": items, "rooms": []}
    options: dict[str, Any] = {"person": "alice", "model": "", "apply": True}
    done = await run_operation(world, "import_step", {"step": step, **options})
    assert done["counts"]["values"] == {"new": 1, "known": 0}
    assert done["projects"] == {"/p/x": "new"}
    assert len(done["left_out"][0]["names"]) == 2


async def test_values_of_a_project_of_others_are_left_out(
    world: World, alice: Someone, bob: Someone
) -> None:
    for person in ("alice", "bob"):
        item = {"project": "/p", "key": f"of-{person}", "value": "v"}
        step = {"kind": "values", "items": [item], "rooms": []}
        options: dict[str, Any] = {"person": person, "model": "", "apply": True}
        done = await run_operation(world, "import_step", {"step": step, **options})
    assert "values" not in done["counts"]
    assert "bob is no member of the project" in done["left_out"][0]["reason"]


async def test_audit_has_a_row_of_an_import(world: World, alice: Someone) -> None:
    await run_operation(world, "import_begin", {"line": "slop.db: 3 rooms", "person": "alice"})
    query = text("SELECT door, verb, what FROM audit ORDER BY n DESC LIMIT 1")
    rows = await world.store.read(lambda conn: conn.execute(query).all())
    assert [tuple(row) for row in rows] == [("cli", "import", "slop.db: 3 rooms")]


async def test_toolset_is_installed_even_if_the_request_ends_before(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    begun, may_end, ends = asyncio.Event(), asyncio.Event(), []

    class Toolsets:
        async def install(self, *args: Any) -> Any:
            begun.set()
            await may_end.wait()
            ends.append(args)
            raise Invalid("It is no toolset.")

    archive = tmp_path / "toolset.zip"
    archive.write_bytes(b"PK")
    server = SimpleNamespace(services=SimpleNamespace(toolsets=Toolsets()))
    settings = Settings(data_dir=tmp_path)
    request = asyncio.ensure_future(
        import_toolset(world, settings, server, file=str(archive), person="alice")
    )
    await begun.wait()
    request.cancel()
    await asyncio.wait({request}, timeout=0.05)
    assert not request.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert len(ends) == 1
