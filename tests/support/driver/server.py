"""A server in a process of its own, with a data directory of its own."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from support.driver.forkserver import ForkedProcess, ForkServer
from support.driver.person import Person

PROGRAM = Path(sys.executable).with_name("sshwarma")
"""The installed command. `forked_program()` runs the same in a twentieth of the CPU time."""
START_SECONDS = 30.0
STOP_SECONDS = 30.0
DUMP_SECONDS = 3.0
MAX_DUMP_CHARACTERS = 30_000


@cache
def _fork_server() -> ForkServer:
    # With PYTHONPATH, so that a copy of the program, broken by hand, can be put to these tests.
    names = [name for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ]
    server = ForkServer({name: os.environ[name] for name in names})
    atexit.register(server.stop)
    return server


def forked_program() -> Path:
    """Return a program that runs the command in a fork of the fork server."""
    return _fork_server().program


make_database: Callable[[Path], str] | None = None
"""Returns the address of the database of a server, by its home; None for a file (`--store`)."""


class Server:
    """`sshwarma serve`, which starts at once.

    `settings` are names of Settings fields, nested with a double underscore, as in its environment
    variables; `environ` are other variables, then all of them. `database` is the address of its
    database, None if that is a file.
    """

    def __init__(
        self,
        home: Path,
        *flags: str,
        environ: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.home = home
        self.data_dir = home / "data"
        self.flags = flags
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            # So that a copy of the program, broken by hand, can be put to these tests.
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            **(environ or {}),
            **{f"SSHWARMA_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.database: str | None = settings.get("database")
        if make_database is not None and self.database is None:
            self.database = self.environ["SSHWARMA_DATABASE"] = make_database(home)
        self._log = home / "log"
        self._people = 0
        self.process: ForkedProcess
        self.host, self.port, self.http = "", 0, ""
        self.start()

    def start(self) -> None:
        """Start it, again or for the first time, and wait until it is ready."""
        self.home.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = _fork_server().start(
                [
                    *("serve", "--data-dir", str(self.data_dir)),
                    *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *self.flags),
                ],
                env=self.environ,
                cwd=self.home,
                stderr=log,
            )
        ready = self._ready()
        if ready.startswith("{"):
            facts = json.loads(ready)
            ssh, http = facts["ssh"], facts["http"]
        else:
            ssh, http = (part.partition("=")[2] for part in ready.split()[1:])
        self.host, _, port = ssh.rpartition(":")
        self.port, self.http = int(port), http

    def _ready(self) -> str:
        fd, seen = self.process.stdout.fileno(), b""
        deadline = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while b"\n" not in seen:
                assert selector.select(deadline - time.monotonic()), f"not ready:\n{self.log()}"
                data = os.read(fd, 4096)
                assert data, f"it ended before it was ready:\n{self.log()}"
                seen += data
        assert seen.startswith((b"ready ", b'{"event": "ready"')), seen
        return seen.decode()

    def log(self) -> str:
        """What it has written on standard error."""
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """End it as an operator does, by SIGTERM; gives its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self._gone()

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()
        self._gone()

    def _gone(self) -> int:
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            state = self.process.describe()
            self.process.dump()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DUMP_SECONDS)
            self.process.kill()
            self.process.wait()
            log = self.log()[-MAX_DUMP_CHARACTERS:]
            raise AssertionError(f"it did not stop:\n{state}\n{log}") from None
        finally:
            self.process.stdout.close()
        return status

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement in its database, behind its back; `?` stands for a parameter."""
        if self.database is None:
            with closing(sqlite3.connect(self.data_dir / "world.db")) as opened, opened:
                return opened.execute(sql, parameters).fetchall()
        import psycopg

        with psycopg.connect(self.database) as conn:
            translated = sql.replace("%", "%%").replace("?", "%s")
            done = conn.execute(translated.encode(), parameters)
            return done.fetchall() if done.description else []

    def read_everything_stored(self) -> str:
        """Return all that its database holds, as one text."""
        if self.database is None:
            with closing(sqlite3.connect(self.data_dir / "world.db")) as opened:
                dump = "\n".join(opened.iterdump())
            # Deleted rows, too, which stay in pages of the file.
            files = b"".join(path.read_bytes() for path in self.data_dir.glob("world.db*"))
            return dump + files.decode(errors="replace")
        names = self.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        return "\n".join(
            str(text)
            for (name,) in names
            for (text,) in self.query(f"SELECT t::text FROM {name} t")
        )

    def operate(self, op: str, **args: Any) -> Any:
        """Run an operation of the command line over the control socket, as it does."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(STOP_SECONDS)
            link.connect(str(self.data_dir / "control.sock"))
            link.sendall(json.dumps({"op": op, "args": args}).encode() + b"\n")
            answer = json.loads(link.makefile("rb").readline())
        if "error" in answer:
            raise Refusal(answer["message"])
        return answer["result"]

    def cli(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The command line itself, on this data directory."""
        return subprocess.run(
            [str(forked_program()), *words, "--data-dir", str(self.data_dir)],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environ,
            cwd=self.home,
            timeout=START_SECONDS,
            check=False,
        )

    @property
    def owner(self) -> Person:
        """The operator, whom the first run made owner."""
        name = next(
            agent["name"] for agent in self.operate("agents_list") if agent["role"] == "owner"
        )
        return Person(self, name, self.data_dir / "operator_ed25519")

    def stranger(self, name: str) -> Person:
        """Somebody with a key that nobody knows here."""
        self._people += 1
        return Person.with_new_key(self, name, self.home / f"key{self._people}")

    def person(self, name: str, role: str = "member") -> Person:
        """An agent of exactly that name, with a key of its own."""
        made = self.stranger(name)
        self.admit(made, role)
        return made

    def admit(self, person: Person, role: str | None = None) -> None:
        """Let a person's key log in under their name."""
        self.operate("keys_add", name=person.name, public_key=person.public_key, role=role)


class Refusal(Exception):
    """An operation was refused; the message says why."""
