"""Who gets at the memory of a project that is for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

from sshwarma.world import things
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.projects import ProjectPaths, follow_links, is_project_of_room
from support.mcp_server import Served
from support.memory_client import Memory
from support.services import services_in


@pytest.fixture
async def token(served: Served) -> str:
    token = await served.newcomer("ann")
    await served.do("ann", "/equip me memory:*", "lobby")
    return token


async def test_path_with_two_slashes_is_that_with_one(served: Served, token: str) -> None:
    async with served.client(token) as ann:
        for path in ("//proc/self/fd/1/x", "///dev/fd/1/x", "//proc/self/cwd"):
            told = await Memory(ann).refused(
                "project_memory_set_variable", key="k", value="x", project=path
            )
            assert "is no directory for a project" in told, path


async def test_nobody_claims_the_project_that_a_room_will_use(
    served: Served, token: str, tmp_path: Path
) -> None:
    projects = services_in(served.world).projects
    projects.is_pinned, projects.start_directory = False, str(tmp_path)
    await served.newcomer("bob")
    await served.agent("olga", "owner")
    await served.do("olga", "/create vault", "lobby")
    await served.do("olga", f"/state directory {tmp_path}/secret", "vault")
    with pytest.raises(Forbidden, match="a member of the project"):
        await served.do("bob", f"/mem project set note --project {tmp_path}/secret = x", "lobby")
    await served.do("bob", f"/mem project set note --project {tmp_path}/bobs = x", "lobby")
    await served.do("olga", "/room delete vault", "vault")
    with pytest.raises(Forbidden, match="a member of the project"):
        await served.do("bob", f"/mem project set k --project {tmp_path}/secret = x", "lobby")
    await served.do("olga", "/room restore vault", "lobby")
    told = await served.do("olga", f"/state directory {tmp_path}/bobs", "vault")
    assert "Its project is that of bob, who may change" in told.text


async def test_nobody_claims_a_directory_of_a_room_while_all_use_that_of_the_start(
    served: Served, token: str, tmp_path: Path
) -> None:
    await served.newcomer("bob")
    await served.agent("olga", "owner")
    await served.do("olga", "/create vault", "lobby")
    await served.do("olga", f"/state directory {tmp_path}/secret", "vault")
    with pytest.raises(Forbidden, match="a member of the project"):
        await served.do("bob", f"/mem project set note --project {tmp_path}/secret = x", "lobby")
    await served.do("bob", f"/mem project set note --project {tmp_path}/bobs = x", "lobby")
    told = await served.do("olga", f"/state directory {tmp_path}/bobs", "vault")
    assert "Its project is that of bob" in told.text


async def test_admin_who_stores_first_does_not_own_the_project_of_a_room(
    served: Served, token: str, tmp_path: Path
) -> None:
    await served.agent("olga", "owner")
    await served.do("olga", "/create vault", "lobby")
    await served.do("olga", f"/state directory {tmp_path}/secret", "vault")
    await served.do("olga", f"/mem project set k --project {tmp_path}/secret = x", "lobby")
    shown = await served.do("olga", f"/mem project members --project {tmp_path}/secret", "lobby")
    assert shown.members == {}


async def test_claim_is_refused_if_a_room_uses_the_directory_by_then(
    served: Served, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.newcomer("bob")
    await served.agent("olga", "owner")
    await served.do("olga", "/create vault", "lobby")
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    await served.do("olga", f"/state directory {tmp_path}/link", "vault")
    projects = services_in(served.world).projects

    async def miss(path: str) -> bool:
        return False

    monkeypatch.setattr(projects, "is_used_by_rooms", miss)  # as if it were set a moment later
    with pytest.raises(Forbidden, match="a member of the project"):
        await served.do("bob", f"/mem project set k --project {tmp_path}/secret = x", "lobby")


async def test_project_of_a_room_is_where_its_directory_led(
    served: Served, token: str, tmp_path: Path
) -> None:
    """Nobody takes it over by what a link points to afterwards."""
    services_in(served.world).projects.is_pinned = False
    await served.newcomer("bob")
    await served.agent("olga", "owner")
    await served.do("olga", "/create vault", "lobby")
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "first")
    await served.do("olga", f"/state directory {link}", "vault")
    link.unlink()
    link.symlink_to(tmp_path / "other")
    await served.do("bob", f"/mem project set k --project {tmp_path}/other = bobs", "lobby")
    await served.do("olga", "/mem project set k = hers", "vault")
    for name, value in (("first", "hers"), ("other", "bobs")):
        shown = await served.do("olga", f"/mem project get k --project {tmp_path}/{name}", "lobby")
        assert shown.value == value
    with pytest.raises(Forbidden, match="a member of the project"):
        await served.do("bob", f"/mem project get k --project {tmp_path}/first", "lobby")
    told = await served.do("olga", f"/state directory {link}", "vault")
    assert "Its project is that of bob, who may change" in told.text
    (tmp_path / "by").symlink_to("/proc/self/cwd")
    (tmp_path / "up").symlink_to(tmp_path / "by" / "..")
    for path in ("/proc/self", "/proc/self/cwd/x", "//proc/self/cwd", f"{tmp_path}/by",
                 f"{tmp_path}/up/x"):  # fmt: skip
        with pytest.raises(Invalid, match=r": .* is no directory for a project"):
            await served.do("olga", f"/state directory {path}", "vault")
    with pytest.raises(Invalid, match="path: must have at most"):
        await served.do("olga", "/state directory /" + "a/" * 3_000, "vault")
    with pytest.raises(Invalid, match="cannot be followed"):
        await served.do("olga", f"/state directory {tmp_path}/{'x' * 300}", "vault")


def test_links_are_followed_as_the_system_does(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "abs").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "rel").symlink_to("../abs/b")
    (tmp_path / "a" / "b" / "up").symlink_to("..")
    (tmp_path / "none").symlink_to("nowhere/x")
    for name in ("a", "abs/b", "a/rel", "a/rel/../../abs", "abs/b/up/rel/./x//y", "none", "none/z",
                 "../" * 40):  # fmt: skip
        path = f"{tmp_path}/{name}"
        assert follow_links(path) == os.path.realpath(path), name


async def test_path_with_too_many_links_is_refused(
    served: Served, token: str, tmp_path: Path
) -> None:
    services_in(served.world).projects.is_pinned = False
    await served.agent("olga", "owner")
    (tmp_path / "0").mkdir()
    for number in range(1, 1_501):
        (tmp_path / str(number)).symlink_to(tmp_path / str(number - 1))
    for line in ("/state directory {}", "/mem project get k --project {}"):
        with pytest.raises(Invalid, match="cannot be followed"):
            await served.do("olga", line.format(tmp_path / "1500"), "home")


async def test_projects_of_rooms_of_earlier_versions_are_found_at_the_start(
    served: Served, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    room = await served.world.find_room("home")
    await served.world.change(
        lambda tx: things.set_metadata(tx, room.id, directory=f"{tmp_path}/link")
    )
    monkeypatch.chdir(tmp_path)
    assert await served.world.store.read(
        lambda conn: is_project_of_room(conn, f"{tmp_path}/link")
    ), "its own path is known before"
    projects = await ProjectPaths.open(served.world, is_pinned=False)
    assert (await projects.find(room.id)).path == f"{tmp_path}/real"
    assert (await projects.find("lobby")).path == str(tmp_path)
    assert await projects.is_used_by_rooms(f"{tmp_path}/real")


async def test_who_leaves_a_project_reads_who_remains(
    served: Served, token: str, tmp_path: Path
) -> None:
    at = f"--project {tmp_path}/own"
    await served.newcomer("bob")
    await served.do("ann", f"/mem project set k {at} = mine", "lobby")
    await served.do("ann", f"/mem project member bob owner {at}", "lobby")
    left = await served.do("bob", f"/mem project member bob none {at}", "lobby")
    assert left.members == {"ann": "owner"}
    await served.do("ann", f"/mem project member bob member {at}", "lobby")
    left = await served.do("bob", f"/mem project member bob none {at}", "lobby")
    assert left.members == {"ann": "owner"}
    with pytest.raises(Forbidden):
        await served.do("bob", f"/mem project get k {at}", "lobby")


async def test_command_of_another_has_the_project_of_the_room_alone(
    served: Served, token: str, tmp_path: Path
) -> None:
    await served.newcomer("bob")
    await served.do("ann", f"/mem project set k --project {tmp_path}/own = mine", "lobby")
    await served.do("bob", "/create den", "lobby")
    named, at = f"project={tmp_path}/own", f"--project {tmp_path}/own"
    lines = {
        "a": f"/mem project get k --project {tmp_path}/own --to leak",
        "b": f"/run memory:project_memory_get_variable key=k {named}",
        "c": f"/mem project set k --project {tmp_path}/own = hers",
    }
    for name, line in lines.items():
        await served.do("bob", f"/put command:{name} = {line}", "den")
        await served.do("bob", f"/equip room command:{name}", "den")
        with pytest.raises(Forbidden, match="the project of the room alone"):
            done = await served.do("ann", f"/{name}", "den")
            raise Forbidden(str(done))  # a tool says it in its outcome
    shown = await served.do("ann", f"/mem project get k --project {tmp_path}/own", "den")
    assert shown.value == "mine"
    await served.do("bob", "/put command:q = /sql SELECT value FROM project_memory", "den")
    await served.do("bob", "/equip room command:q", "den")
    await served.do("ann", "/equip me sshwarma:sql", "den")
    assert (await served.do("ann", "/q", "den")).rows == ()
    # In her own bag, too: a script can have put it there.
    await served.do("ann", f"/put me:command:d = /mem project get k {at} --to leak", "den")
    await served.do("ann", "/equip me command:d", "den")
    with pytest.raises(Forbidden, match="the project of the room alone"):
        await served.do("ann", "/d", "den")
    await served.do("ann", f"/put me:command:e = /mem project member bob owner {at}", "den")
    await served.do("ann", "/equip me command:e", "den")
    with pytest.raises(Forbidden, match="it is not a tool"):
        await served.do("ann", "/e", "den")


async def test_links_of_the_server_are_not_shown_by_new_projects(
    served: Served, token: str, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(Invalid, match="leads elsewhere by a link"):
        await served.do("ann", f"/mem project set k --project {tmp_path}/link/x = v", "lobby")


async def test_server_that_starts_in_the_directory_of_a_project_names_its_owners(
    served: Served, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.do("ann", f"/mem project set k --project {tmp_path} = mine", "lobby")
    monkeypatch.chdir(tmp_path)
    with structlog.testing.capture_logs() as logs:
        await ProjectPaths.open(served.world, is_pinned=True)
    assert [(one["event"], one["owners"]) for one in logs] == [
        ("somebody owns the project of the start", ["ann"])
    ]
