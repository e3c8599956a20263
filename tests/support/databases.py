"""Fixtures: databases of new worlds.

`database` is where a test's world is: a file, or a database of a PostgreSQL server, by the option
`--store`. `world_file` is always a file, for tests whose subject is SQLite or its file.

A migration and the first tree take longer than most tests, and SQLAlchemy compiles each statement
again for each database: in a test run they share what is compiled.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.util import LRUCache

from sshwarma.world.databases import DatabaseUrl, Location
from support import lanes
from support.driver import server
from support.postgres import PostgresServer, running_postgres

MAX_STATEMENTS = 2000


@pytest.fixture(scope="session")
def newborn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of a world that was just made, to be copied."""
    from sshwarma.verbs.registry import tool_specs
    from sshwarma.world.world import World

    path = tmp_path_factory.mktemp("newborn") / "world.db"

    async def once() -> None:
        await (await World.open(path, tool_specs())).close()

    with sharing_statements():
        _run_apart(once())
        assert not path.with_name("world.db-wal").exists()
        yield path


@pytest.fixture
def world_file(newborn: Path, tmp_path: Path) -> Path:
    """The file of a new world of the test's own, `world.db` in its directory."""
    return Path(shutil.copyfile(newborn, tmp_path / "world.db"))


def _run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a loop of its own, also where another runs in this thread."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()


SERVER_FOLDERS = frozenset({"console", "wire"})
"""Folders whose tests start servers in processes of their own."""

SERVER_FIXTURES = frozenset({"serve", "shared_server"})
"""Fixtures that start one, also for tests elsewhere."""


def _has_server(item: pytest.Item) -> bool:
    folder = item.path.parent.relative_to(item.config.rootpath / "tests").as_posix()
    fixtures = getattr(item, "fixturenames", ())
    return folder in SERVER_FOLDERS or bool(SERVER_FIXTURES.intersection(fixtures))


STORES = {"sqlite": ("sqlite",), "postgres": ("postgres",), "both": ("sqlite", "postgres")}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=tuple(STORES),
        default="sqlite",
        help="the database of worlds in tests",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses a database with each of the chosen ones."""
    if "store_name" not in metafunc.fixturenames:
        return
    stores = STORES[metafunc.config.getoption("--store")]
    for name in ("sqlite", "postgres"):
        if metafunc.definition.get_closest_marker(name):
            stores = (name,)
    if stores != ("sqlite",):
        metafunc.parametrize("store_name", stores, indirect=True, scope="session")


class DatabasesOfServers:
    """Databases of servers; each is dropped after its server's home."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres
        self._made: dict[Path, DatabaseUrl] = {}

    def make(self, home: Path) -> str:
        """Make an empty database for the server of a home; drop those whose home is gone."""
        for gone in [other for other in self._made if not other.exists()]:
            self._postgres.drop(self._made.pop(gone))
        if home not in self._made:
            self._made[home] = self._postgres.create()
        return self._made[home].text


@pytest.fixture(scope="session", autouse=True)
def databases_of_servers(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--store=postgres`, let each server have a database of its own."""
    if request.config.getoption("--store") != "postgres":
        yield
        return
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "make_database", DatabasesOfServers(postgres).make)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of other databases; with PostgreSQL alone, those of none, too."""
    chosen = config.getoption("--store")
    left_out = []
    for item in items:
        is_postgres = "[postgres" in item.name or item.get_closest_marker("postgres") is not None
        if chosen == "postgres" and not item.get_closest_marker("sqlite"):
            is_postgres = is_postgres or _has_server(item)
        if (chosen == "sqlite" and is_postgres) or (chosen == "postgres" and not is_postgres):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def store_name(request: pytest.FixtureRequest) -> str:
    """The kind of database of this test's world: `sqlite` or `postgres`."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server of this process's own."""
    with running_postgres() as server:
        lanes.started()  # of the run, and of no test
        yield server
    lanes.started()


@pytest.fixture(scope="session")
def newborn_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of the database of a world that was just made, to be copied."""
    from sshwarma.verbs.registry import tool_specs
    from sshwarma.world.world import World

    async def once() -> None:
        await (await World.open(made, tool_specs())).close()

    made = postgres_server.create()
    with sharing_statements():
        _run_apart(once())
        yield made.text.rpartition("/")[2]


@contextmanager
def copied_database(request: pytest.FixtureRequest, store: str, folder: Path) -> Iterator[Location]:
    """A copy of a new world, in a folder or on the server."""
    if store == "sqlite":
        yield Path(shutil.copyfile(request.getfixturevalue("newborn"), folder / "world.db"))
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    made = server.create(request.getfixturevalue("newborn_database"))
    yield made
    server.drop(made)


@pytest.fixture
def database(request: pytest.FixtureRequest, store_name: str, tmp_path: Path) -> Iterator[Location]:
    """The database of a new world of the test's own."""
    with copied_database(request, store_name, tmp_path) as made:
        yield made


def damage_table(database: Path, table: str) -> None:
    """Overwrite the first pages of a table and its indexes; nobody has it open."""
    with closing(sqlite3.connect(database)) as opened:
        size = opened.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_schema WHERE tbl_name = ? AND rootpage > 0"
        pages = [page for (page,) in opened.execute(query, (table,))]
    with database.open("r+b") as file:
        for page in pages:
            file.seek(size * (page - 1))
            file.write(b"w" * size)


@contextmanager
def sharing_statements() -> Iterator[None]:
    """Give all engines of a store one dialect and cache of compiled statements."""
    from sshwarma.world import postgres_dialect, sqlite_engine

    first = create_engine("sqlite://", poolclass=NullPool)
    with first.connect():  # the first connection completes the dialect
        pass
    cache: LRUCache[Any, Any] = LRUCache(MAX_STATEMENTS)
    dialects: dict[str, Any] = {"sqlite": first.dialect}

    def create_sharing_engine(*args: Any, **options: Any) -> Engine:
        engine = create_engine(*args, **options).execution_options(compiled_cache=cache)
        engine.dialect = dialects.setdefault(engine.dialect.name, engine.dialect)
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_engine, "create_engine", create_sharing_engine)
        patch.setattr(postgres_dialect, "create_engine", create_sharing_engine)
        yield


def read_misnamed_tools(location: Location) -> list[str]:
    """Return the tools of a world whose stored names are not those that lists show."""
    from sshwarma.world.tool_names import make_stored_names

    query = "SELECT kind, qualified_name, name_for_models, name_for_mcp FROM things"
    found: list[tuple[Any, ...]]
    if isinstance(location, DatabaseUrl):
        with psycopg.connect(location.text) as conn:
            found = conn.execute(query).fetchall()
    else:
        with closing(sqlite3.connect(location)) as database:
            try:
                found = database.execute(query).fetchall()
            except sqlite3.DatabaseError:  # of a test that damages it
                return []
    return [
        str(name) for kind, name, *stored in found
        if stored != list(make_stored_names(kind, name).values())
    ]  # fmt: skip
