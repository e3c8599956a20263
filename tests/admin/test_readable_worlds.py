"""Values that no version writes: refused, or harmless to a server.

A backup is made of exactly what a restore accepts.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sshwarma.admin.backup import write_backup
from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.doctor import run_checks
from sshwarma.admin.restore import restore_backup
from sshwarma.settings import BackupSettings, Settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.access import TokenScope
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.identity import read_world_id
from sshwarma.world.migrate import DamagedDatabaseError
from sshwarma.world.tokens import read_live_tokens
from sshwarma.world.world import World
from support.upkeep import Upkept

DEEP = 900
"""Levels of JSON that Python reads in a small program, and not below many calls."""


def agent(metadata: str) -> tuple[str, tuple[str, ...]]:
    return (
        "INSERT INTO things (id, parent_id, kind, name, metadata, created_at, updated_at)"
        " VALUES ('zed', 'agents', 'agent', 'zed', ?, 1, 1)",
        (metadata,),
    )


def metadata_of(thing_id: str, metadata: str) -> tuple[str, tuple[str, ...]]:
    return "UPDATE things SET metadata = ? WHERE id = ?", (metadata, thing_id)


UNREADABLE = {
    "digits": (agent('{"prefs": {"x": ' + "1" * 5000 + "}}"), "the agent 'zed' cannot be read"),
    "digits of a room": (metadata_of("lobby", '{"x": ' + "1" * 5000 + "}"), "the room 'lobby'"),
    "brackets": (metadata_of("lobby", '{"a":' + "[" * DEEP + "]" * DEEP + "}"), "too deep"),
    "braces": (metadata_of("lobby", '{"a":' * DEEP + "1" + "}" * DEEP), "too deep"),
    "rooms": (agent('{"rooms": 5}'), "its rooms is 5"),
    "role null": (agent('{"role": null}'), "its role is None"),
    "role": (agent('{"role": "emperor"}'), "its role is 'emperor'"),
    "second role": (agent('{"role": "member", "role": "emperor"}'), "its role is 'emperor'"),
    "kind": (agent('{"agent_kind": [1]}'), r"its agent_kind is \[1\]"),
    "place": (agent('{"room_id": {}}'), "its room_id is {}"),
    "access": (metadata_of("lobby", '{"access": "weird"}'), "its access is 'weird'"),
    "models": (metadata_of("lobby", '{"models": [[1]]}'), r"its models is \[\[1\]\]"),
    "time": (
        ("UPDATE things SET created_at = 9e999 WHERE id = 'world'", ()),
        r"things\.created_at has a number above",
    ),
    "member": (
        (
            "INSERT INTO room_members (room_id, agent_id, role, created_at)"
            " VALUES ('lobby', 'agents', 'king', 1)",
            (),
        ),
        "the role of 'agents' is 'king'",
    ),
    "invite": (
        (
            "INSERT INTO invites (id, code_sha256, role, created_at, expires_at)"
            " VALUES ('i1', '00', 'emperor', 1, 2)",
            (),
        ),
        "the role of the invite 'i1' is 'emperor'",
    ),
    "server": (
        (
            "INSERT INTO things (id, parent_id, kind, name, metadata, created_at, updated_at)"
            """ VALUES ('mcp_x', 'mcps', 'mcp', 'x', '{"entry": 5}', 1, 1)""",
            (),
        ),
        "the MCP servers cannot be read",
    ),
}


def change(database: Path, statement: tuple[str, tuple[str, ...]]) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute(*statement)


@pytest.mark.parametrize("name", UNREADABLE)
def test_world_that_no_server_could_read_is_neither_backed_up_nor_restored(
    database: Path, made: Path, tmp_path: Path, name: str
) -> None:
    statement, said = UNREADABLE[name]
    bad = tmp_path / "bad.db"
    shutil.copyfile(database, bad)
    change(bad, statement)
    before = database.read_bytes()
    with pytest.raises(InvalidBackupError, match=said):
        restore_backup(bad, database.parent, force=True)
    assert database.read_bytes() == before
    with pytest.raises(DamagedDatabaseError, match=said):
        write_backup(bad, tmp_path / "bad.tar.gz")


@pytest.mark.process  # doctor tries the ports
@pytest.mark.parametrize(
    "metadata", ["", '{"prefs": {"x": NaN}}', '{"role": [1], "role": "guest"}']
)
async def test_what_a_server_reads_is_backed_up_and_restored(
    database: Path, tmp_path: Path, metadata: str
) -> None:
    change(database, agent(metadata))
    checks = {check.name: check for check in run_checks(Settings(data_dir=database.parent))}
    assert checks["database"].ok, checks["database"]
    write_backup(database, tmp_path / "b.tar.gz")
    restore_backup(tmp_path / "b.tar.gz", tmp_path / "new")
    world = await World.open(tmp_path / "new" / "world.db", tool_specs())
    assert [one.name for one in world.agents] == ["zed"]
    await world.close()


def test_check_changes_nothing_of_what_is_restored(database: Path, tmp_path: Path) -> None:
    """It upgrades and starts the world, and takes that back."""
    change(database, ("UPDATE things SET description = 'old' WHERE id = 'tool_look'", ()))
    restore_backup(database, tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "world.db")) as opened:
        query = "SELECT description FROM things WHERE id = 'tool_look'"
        assert opened.execute(query).fetchone() == ("old",)


async def test_one_unreadable_row_keeps_the_others_working(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        for n, metadata in enumerate(
            ('{"rooms": 5}', '{"role": null}', '{"x": ' + "1" * 5000 + "}")
        ):
            values = (f"a{n}", f"a{n}", metadata)
            opened.execute(
                "INSERT INTO things (id, parent_id, kind, name, metadata, created_at, updated_at)"
                " VALUES (?, 'agents', 'agent', ?, ?, 1, 1)",
                values,
            )
        opened.execute(*metadata_of("lobby", '{"access": [1]}'))
        opened.execute(
            "INSERT INTO tokens (id, agent_id, token_sha256, label, created_at, scope)"
            " VALUES ('t1', 'a0', 'h', '', 1, 'emperor'), ('t2', 'a0', 'i', '', 1, 'read')"
        )
    with capture_logs() as logs:
        world = await World.open(database, tool_specs())
        states = [(one.role, one.disabled) for one in world.agents]
        room = await world.room("lobby")
        tokens = await world.store.read(read_live_tokens)
        await world.close()
    assert states == [("guest", True)] * 3
    assert room.mode == "private"
    assert [(token.id, token.scope) for token in tokens] == [("t2", TokenScope.READ)]
    assert {
        "an agent cannot be read, and is disabled",
        "an unreadable room is treated as private",
    } <= {entry["event"] for entry in logs}


@pytest.mark.parametrize("error", [Unavailable("the world cannot be read"), OverflowError("inf")])
async def test_unreadable_id_of_a_world_is_a_failed_backup_and_ends_no_retention(
    house: Upkept, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: object) -> str:
        raise error

    monkeypatch.setattr("sshwarma.admin.upkeep.read_world_id", fail)
    house.settings.backup = BackupSettings(every="1h")
    with capture_logs() as logs:
        await house.upkeep.run_due()
    assert [entry["event"] for entry in logs] == ["the backup failed"]
    assert (logs[0]["exc_info"] is None) == isinstance(error, Unavailable)
    assert house.upkeep.failed_backups == 1


@pytest.mark.parametrize(("made_at", "name"), [("-255", "ff"), ("255.5", "ff")])
async def test_id_of_a_world_is_a_word_whatever_its_clock_was(
    database: Path, made_at: str, name: str
) -> None:
    change(database, (f"UPDATE things SET created_at = {made_at} WHERE id = 'world'", ()))
    world = await World.open(database, tool_specs())
    assert await world.store.read(read_world_id) == name
    await world.close()


async def test_time_without_end_is_no_id_of_a_world(database: Path) -> None:
    change(database, UNREADABLE["time"][0])
    world = await World.open(database, tool_specs())
    with pytest.raises(WorldError, match=r"things\.created_at of 'world' is inf"):
        await world.store.read(read_world_id)
    await world.close()
