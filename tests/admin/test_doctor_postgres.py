"""What doctor finds of a database on PostgreSQL."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sshwarma.admin import doctor_postgres
from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.doctor_postgres import check_postgres
from sshwarma.settings import Settings
from sshwarma.world.databases import DatabaseUrl, make_dialect
from support.postgres import PostgresServer, running_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.process]


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[DatabaseUrl]:
    """An empty database."""
    made = postgres_server.create()
    yield made
    postgres_server.drop(made)


def check(address: str, tmp_path: Path) -> dict[str, CheckResult]:
    settings = Settings(data_dir=tmp_path, database=address)
    return {found.name: found for found in check_postgres(settings)}


def test_sound_database_passes(tmp_path: Path) -> None:
    with running_postgres("fsync=on") as server:
        database = server.create()
        assert check(database.text, tmp_path)["schema"].detail.startswith("no world yet")
        make_dialect(database).prepare()
        found = check(database.text, tmp_path)
        assert all(one.ok and not one.is_warning for one in found.values()), found
        assert "PostgreSQL 1" in found["database"].detail
        server.run("ALTER SYSTEM SET synchronous_commit = off")
        server.run("SELECT pg_reload_conf()")
        while (bad := check(database.text, tmp_path)["durability"]).ok:
            pass
        assert "synchronous_commit is off" in bad.detail
        assert "ALTER SYSTEM SET synchronous_commit = on" in bad.remedy


def test_fsync_off_fails_with_its_remedy(empty: DatabaseUrl, tmp_path: Path) -> None:
    found = check(empty.text, tmp_path)["durability"]
    assert not found.ok and found.detail.startswith("fsync is off: a crash of the machine")
    assert found.remedy == "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()"


def test_wrong_encoding_fails_with_the_command(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    postgres_server.run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    found = check(postgres_server.address("latin"), tmp_path)["database"]
    assert not found.ok and "has the encoding LATIN1" in found.detail
    assert "createdb --encoding=UTF8" in found.remedy
    postgres_server.run("DROP DATABASE latin")


def test_clock_queue_and_long_transactions_are_named(
    empty: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr("sshwarma.admin.doctor_postgres.time.time", lambda: real() - 5)
    monkeypatch.setattr(doctor_postgres, "MAX_QUEUE", 0.0)
    monkeypatch.setattr(doctor_postgres, "LONG_SECONDS", 0)
    monkeypatch.setattr(doctor_postgres, "MAX_ROUND_TRIP_MS", 0.0)
    monkeypatch.setattr(doctor_postgres, "CONNECTIONS", 1_000)
    with psycopg.connect(empty.text, application_name="somebody") as other:
        other.execute("SELECT 1")
        found = check(empty.text, tmp_path)
        assert f"{other.info.backend_pid} (somebody, 0 min)" in found["transactions"].detail
    assert found["clock"].detail == "the clock of the database is 5.0 s ahead"
    assert "NTP" in found["clock"].remedy
    assert "0% of their queue" in found["notifications"].detail
    assert "max_connections" in found["connections"].remedy
    assert found["round trip"].is_warning


class Pooler:
    """Stands before a server as a pooler does.

    It gives clients a number of its own, or keeps notifications to itself.
    """

    def __init__(self, port: int, drops: bytes) -> None:
        self._port, self._drops = port, drops
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()
            threading.Thread(target=self._pass_back, args=(far, near), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        """Pass on what a client sends; a request for encryption is refused."""
        with near, far:
            while data := near.recv(65536):
                if len(data) == 8 and data[4:] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):
                    near.sendall(b"N")
                else:
                    far.sendall(data)

    def _pass_back(self, far: socket.socket, near: socket.socket) -> None:
        """Pass on the messages of the server but for one kind, or with another number."""
        stream = far.makefile("rb")
        try:
            while kind := stream.read(1):
                length = stream.read(4)
                body = stream.read(struct.unpack(">I", length)[0] - 4)
                if kind == b"K" and self._drops == b"K":
                    body = struct.pack(">I", 1) + body[4:]
                elif kind == self._drops:
                    continue
                near.sendall(kind + length + body)
        except OSError:
            pass


@pytest.mark.parametrize("drops", [b"A", b"K"])
def test_pooler_in_between_is_found(
    postgres_server: PostgresServer,
    empty: DatabaseUrl,
    tmp_path: Path,
    drops: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sshwarma.world.postgres_copy.NOTIFY_SECONDS", 0.3)
    pooler = Pooler(postgres_server.port, drops)
    try:
        address = empty.text.replace(str(postgres_server.port), str(pooler.port))
        found = check(address, tmp_path)["connection"]
        assert not found.ok and found.detail.startswith("a pooler stands between")
        assert "session mode" in found.remedy
    finally:
        pooler.close()
    assert check(empty.text, tmp_path)["connection"].ok
