"""A person with a key and the stock ssh client."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh

from support.driver.screen import Screen
from support.driver.shared_login import LoginNotShared, run_shared

if TYPE_CHECKING:
    from support.driver.server import Server

SECONDS = 60.0
"""The longest one command may take."""

CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Person:
    """Somebody who can log in. `run` is `ssh host command`; `sit` is a terminal."""

    def __init__(self, server: Server, name: str, identity: Path) -> None:
        self.server = server
        self.name = name
        self.identity = identity
        self._screens: list[Screen] = []
        self._pipes: list[subprocess.Popen[bytes]] = []
        self._multiplexes = False

    @classmethod
    def with_new_key(cls, server: Server, name: str, identity: Path) -> Person:
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"of {identity.name}")
        identity.touch(mode=0o600)
        key.write_private_key(identity)
        key.write_public_key(identity.with_suffix(".pub"))
        return cls(server, name, identity)

    @cached_property
    def public_key(self) -> str:
        """The line of its .pub file."""
        return self.identity.with_suffix(".pub").read_text().strip()

    @property
    def fingerprint(self) -> str:
        return asyncssh.import_public_key(self.public_key).get_fingerprint()

    def as_name(self, name: str) -> Person:
        """The same key under another user name."""
        return Person(self.server, name, self.identity)

    def ssh(self, *options: str) -> list[str]:
        """The words of the client's command, up to the host."""
        return [
            *("ssh", "-F", "/dev/null", "-i", str(self.identity), "-p", str(self.server.port)),
            *("-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"),
            *("-o", f"UserKnownHostsFile={self.server.home / 'known_hosts'}"),
            *("-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"),
            *options,
            f"{self.name}@{self.server.host}",
        ]

    def run(
        self,
        command: str | bytes,
        stdin: str | bytes = b"",
        *options: str,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run one command without a terminal.

        Without `options` or `env` the login is shared with the commands before, as ControlMaster
        does; `command` is one line for the other end.
        """
        options += tuple(f"-oSetEnv={name}={value}" for name, value in (env or {}).items())
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if not options:
            options = self._shared_login()
            words = command.encode() if isinstance(command, str) else command
            with contextlib.suppress(LoginNotShared):
                status, raw, err = run_shared(self._control, words, given, SECONDS)
                out = raw.decode(errors="surrogateescape")
                return Done(status, out, err.decode(errors="replace"), raw)
        done = subprocess.run(
            [*self.ssh(*options), command],
            input=given,
            capture_output=True,
            timeout=SECONDS,
            env=CLEAN,
            check=False,
        )
        out = done.stdout.decode(errors="surrogateescape")
        return Done(done.returncode, out, done.stderr.decode(errors="replace"), done.stdout)

    def json(self, command: str, stdin: str | bytes = b"") -> Any:
        """What a command gives with --json; it must succeed."""
        done = self.run(f"{command} --json", stdin)
        assert done.status == 0, done
        return done.json

    def does(self, *commands: str) -> str:
        """Commands that must all succeed; what the last of them printed."""
        out = ""
        for command in commands:
            done = self.run(command)
            assert done.status == 0, (command, done)
            out = done.out
        return out

    def sit(
        self,
        columns: int = 100,
        rows: int = 30,
        *options: str,
        term: str = "xterm-256color",
        env: Mapping[str, str] | None = None,
        prompt: str | None = "lobby",
        room: str | None = None,
        via: int | None = None,
    ) -> Screen:
        """Log in at a terminal, wait for the prompt, and go to a room if one is named.

        `via` is another port to go through.
        """
        options += tuple(f"-oSetEnv={name}={value}" for name, value in (env or {}).items())
        if via is not None:
            options += ("-p", str(via))
            words = self.ssh(*options)
            at = words.index("-p")
            del words[at : at + 2]
        else:
            words = self.ssh(*options)
        screen = Screen(words, columns, rows, env={**CLEAN, "TERM": term})
        self._screens.append(screen)
        if prompt is not None:
            screen.wait_for_prompt(prompt)
        if room is not None:
            screen.enter(f"/join {room}")
            screen.wait_for_prompt(room)
        return screen

    def pipe(self, *options: str) -> subprocess.Popen[bytes]:
        """A shell without a terminal: `ssh -T`."""
        process = subprocess.Popen(
            self.ssh("-T", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=CLEAN,
        )
        self._pipes.append(process)
        return process

    def leave(self) -> None:
        """End this person's terminals and pipes; the login that commands share stays."""
        for screen in self._screens:
            screen.close()
        for process in self._pipes:
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout):
                if end:
                    with contextlib.suppress(BrokenPipeError):
                        end.close()
        self._screens.clear()
        self._pipes.clear()

    def hang_up(self) -> None:
        """End whatever this person still has open."""
        self.leave()
        if self._multiplexes:
            subprocess.run(
                [*self.ssh(*self._shared_login(), "-O", "exit")],
                capture_output=True,
                env=CLEAN,
                timeout=SECONDS,
                check=False,
            )
            self._multiplexes = False

    def _shared_login(self) -> tuple[str, ...]:
        if not self._multiplexes:
            self._multiplexes = True
            subprocess.run(
                self.ssh(
                    *("-o", "ControlMaster=yes", "-o", f"ControlPath={self._control}"),
                    *("-f", "-N", "-o", "ControlPersist=no"),
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=CLEAN,
                timeout=SECONDS,
                check=False,
            )
        return ("-o", f"ControlPath={self._control}")

    @property
    def _control(self) -> Path:
        return self.identity.with_suffix(".ctl")
