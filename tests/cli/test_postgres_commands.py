"""Commands on a world whose database is on PostgreSQL, with and without a server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from sshwarma.admin import postgres_dump
from sshwarma.cli.main import main
from sshwarma.settings import logs
from sshwarma.world import migrate, postgres_schema
from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.move_mark import MARK_NAME
from support.driver import Server
from support.driver.fixtures import homes
from support.moved_worlds import read_tables
from support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.process]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo\n"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def make_empty(postgres_server: PostgresServer) -> Iterator[Callable[[], DatabaseUrl]]:
    """Makes empty databases, which are dropped afterwards."""
    made: list[DatabaseUrl] = []

    def make() -> DatabaseUrl:
        made.append(postgres_server.create())
        return made[-1]

    yield make
    for one in made:
        postgres_server.drop(one)


@pytest.fixture
def empty(make_empty: Callable[[], DatabaseUrl]) -> DatabaseUrl:
    return make_empty()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def run(
    data: Path,
    empty: DatabaseUrl,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Runs a command on the world; no text of one may say that a file is gone."""
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSHWARMA_DATABASE", empty.text)
    (tmp_path / "key.pub").write_text(KEY)

    def work(*words: str, database: str | None = None, directory: Path = data) -> tuple[int, str]:
        monkeypatch.setenv("SSHWARMA_DATABASE", empty.text if database is None else database)
        status = main([*words, "--data-dir", str(directory)])
        said = capsys.readouterr()
        assert "world.db" not in said.out + said.err or database is not None
        assert "is gone" not in said.out + said.err
        return status, said.out + said.err

    return work


def make_world(run: Run) -> None:
    status, said = run("init", "--owner", "ann", "--key", "key.pub")
    assert status == 0, said


def test_every_command_works_without_a_server(run: Run, empty: DatabaseUrl, data: Path) -> None:
    status, said = run("init", "--owner", "ann", "--key", "key.pub")
    assert status == 0 and f"Created a world in {empty.text}" in said
    status, said = run("init")
    assert status == 1 and f"{empty.text} already contains a world" in said
    for words in (
        ["keys", "list"], ["invite", "list"], ["token", "new", "ann", "--label", "x"],
        ["token", "list"], ["agents", "list"],
        ["audit"], ["recover", "ann", "key.pub"], ["info"],
        ["migrate"], ["host-key", "show"], ["config", "show"],
    ):  # fmt: skip
        status, said = run(*words)
        assert status == 0 or "There is no host key yet" in said, said
    status, said = run("info", "--json")
    facts = json.loads(said)
    assert facts["database"] == empty.text and facts["bytes"]["database"] > 1_000_000
    assert "unused" not in facts["bytes"]
    status, said = run("migrate-to", empty.text)
    assert status == 1 and f"The world is in {empty.text} already." in said
    status, said = run("vacuum")
    assert status == 1 and "which uses the space of what was removed again by itself" in said


def test_directory_knows_that_its_world_is_on_postgres(
    run: Run, empty: DatabaseUrl, data: Path
) -> None:
    make_world(run)
    for words in (["agents", "list"], ["backup", "b"], ["migrate"], ["init"], ["serve"]):
        status, said = run(*words, database="")
        assert status == 1 and f"is in {empty.text}. Write database = " in said, said
    status, said = run("doctor", database="")
    assert f"The world of {data} is in {empty.text}" in said and "FAIL" in said
    (data / MARK_NAME).unlink()
    assert run("init", database="")[0] == 0


def test_backup_is_restored_into_an_empty_database_only(
    run: Run, empty: DatabaseUrl, make_empty: Callable[[], DatabaseUrl], data: Path, tmp_path: Path
) -> None:
    make_world(run)
    status, said = run("backup", "world.tar.gz", "--json")
    assert status == 0, said
    manifest = json.loads(said[said.index("{") :])
    assert manifest["database"] == "postgresql" and manifest["things"] > 10
    before = read_tables(empty)
    status, said = run("restore", "world.tar.gz")
    assert status == 1 and "already contains a world, which is not replaced." in said
    other, elsewhere = make_empty(), tmp_path / "elsewhere"
    status, said = run("restore", "world.tar.gz", database=other.text, directory=elsewhere)
    assert status == 0 and f"Restored {other.text} from world.tar.gz" in said, said
    after = read_tables(other)
    assert {name: rows for name, rows in after.items() if name != "audit"} == {
        name: rows for name, rows in before.items() if name != "audit"
    }
    status, said = run("restore", "world.tar.gz", "--force", database=other.text)
    assert status == 1 and "is never replaced" in said
    status, said = run("restore", "world.tar.gz", database="", directory=tmp_path / "file")
    assert status == 1 and "is a backup of a world on PostgreSQL" in said
    assert run("migrate-to", "sqlite", database=other.text, directory=elsewhere)[0] == 0
    status, said = run("backup", "file.tar.gz", database="", directory=elsewhere)
    assert status == 0, said
    status, said = run("restore", "file.tar.gz", database=make_empty().text)
    assert status == 1 and "is a backup of a world in a file" in said
    status, said = run("restore", str(elsewhere / "world.db"), database=make_empty().text)
    assert status == 1 and "is a copy of a database file" in said


def test_damaged_backup_leaves_the_database_empty(
    run: Run, make_empty: Callable[[], DatabaseUrl], tmp_path: Path
) -> None:
    make_world(run)
    assert run("backup", "world.tar.gz")[0] == 0
    whole = (tmp_path / "world.tar.gz").read_bytes()
    other = make_empty()
    for damaged in (whole[: len(whole) // 2], whole[:-9], whole[:40] + b"x" + whole[41:]):
        (tmp_path / "damaged").write_bytes(damaged)
        status, said = run("restore", "damaged", database=other.text)
        assert status == 1 and "damaged" in said
        with psycopg.connect(other.text) as conn:
            found = conn.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            assert found.fetchone() == (0,)


def test_missing_programs_are_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_world(run)
    monkeypatch.setattr(postgres_dump, "DEBIAN_PROGRAMS", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("PGBIN", raising=False)
    for words in (["backup", "b.tar.gz"], ["restore", "key.pub"]):
        status, said = run(*words)
        assert status == 1 and "is not installed" in said
        assert "apt-get install postgresql-client" in said
    status, said = run("doctor")
    assert "warn  backup programs: pg_dump is not installed" in said


def test_unreachable_database_is_named_without_a_traceback(run: Run, data: Path) -> None:
    address = "postgresql://me@127.0.0.1:1/world"
    status, said = run("info", database=address)
    assert status == 1 and f"The directory {data} does not exist: a world on PostgreSQL" in said
    data.mkdir(mode=0o700)
    for words in (["info"], ["backup", "b"], ["restore", "key.pub"], ["migrate"], ["init"]):
        status, said = run(*words, database=address)
        assert status == 1 and f"{address} cannot be used: " in said, said
    status, said = run("doctor", database=address)
    assert status == 1 and f"FAIL  database: {address} cannot be used: " in said


def test_older_schema_is_upgraded_by_migrate_alone(
    run: Run, empty: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_world(run)
    newer = tmp_path / "migrations"
    shutil.copytree(migrate.migrations_dir(), newer)
    (newer / "versions" / "9999_a_test.py").write_text(
        "from alembic import op\nimport sqlalchemy as sa\n"
        f"revision, down_revision = '9999', '{migrate.newest_revision()}'\n"
        "def upgrade():\n    op.add_column('things', sa.Column('of_a_test', sa.Text))\n"
    )
    monkeypatch.setattr(migrate, "migrations_dir", lambda: newer)
    monkeypatch.setattr(postgres_schema, "migrations_dir", lambda: newer)
    migrate.newest_revision.cache_clear()
    try:
        status, said = run("agents", "list")
        assert status == 1 and "Upgrade it: sshwarma migrate" in said
        status, said = run("doctor")
        assert "FAIL  schema:" in said and "Upgrade it: sshwarma migrate" in said
        status, said = run("migrate")
        assert status == 0 and f"Upgraded {empty.text} from schema" in said, said
        assert run("agents", "list")[0] == 0
        status, said = run("migrate")
        assert status == 0 and "is at schema 9999." in said
    finally:
        migrate.newest_revision.cache_clear()


def test_commands_beside_a_server_need_not_know_its_database(
    run: Run, empty: DatabaseUrl, tmp_path: Path
) -> None:
    with homes() as home:
        server = Server(home(), database=empty.text)
        try:
            for words in (["agents", "list"], ["info"], ["backup", "b.tar.gz"], ["audit"]):
                status, said = run(*words, database="", directory=server.data_dir)
                assert status == 0, said
                assert "world.db" not in said
            status, said = run("restore", "b.tar.gz", database="", directory=server.data_dir)
            assert status == 1 and "is gone" not in said
            status, said = run("migrate-to", "sqlite", directory=server.data_dir)
            assert status == 1 and "Stop it first" in said
            status, said = run("doctor", directory=server.data_dir)
            assert f"ok    database: {empty.text}, PostgreSQL" in said
            assert "ok    owners: 1 with a key" in said
        finally:
            server.stop()
        status, said = run("agents", "list", database="", directory=server.data_dir)
        assert status == 1 and f"is in {empty.text}" in said and "world.db" not in said
