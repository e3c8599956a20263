"""The commands of README.md, in their order, on a new world."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.server import PROGRAM
from support.sandboxes import needs_bubblewrap

PAGE = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(/(?:find|tool new) [^`]+)`")
REMARK = re.compile(r" {3,}.*$| +# .*$")

NOT_RUN = (
    ("git clone", "the checkout is there"),
    ("make run", "it goes on until it is stopped"),
    ("make setup", "this test runs in what it makes"),
    (".venv/bin/sshwarma serve", "the fixture has started the server"),
    ("/model add smol local", "it downloads a model"),
    ("/model add mine local", "it names a file that only the reader may have"),
    ("/mcp add", "it starts npx, or connects to another machine"),
    ("/mcp login", "it needs the server that was not added"),
    ("/equip room files:*", "it needs the server that was not added"),
)
"""Beginnings of commands that this test does not run, and why."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("readme"), registration__mode="invite")
    yield running
    running.stop()


def commands() -> Iterator[str]:
    """The commands of the page: of a shell, at a prompt, within a sentence."""
    text = PAGE.read_text(encoding="utf-8")
    yield from INLINE.findall(" ".join(text.split()))
    for language, block in BLOCK.findall(text):
        for line in block.splitlines() if not language else ():
            command = REMARK.sub("", line).removeprefix("lobby> ").strip()
            if command and not command.startswith(tuple(start for start, _ in NOT_RUN)):
                yield command.removeprefix("make 2>&1 | ")


@dataclass
class Reader:
    """Somebody who follows the page as the owner, and dave, a newcomer."""

    server: Server
    owner: Person
    dave: Person
    code: str = ""
    token: str = ""

    def follow(self, command: str) -> None:
        """Run a command, which must succeed, and keep the code or token that it prints."""
        inner = re.fullmatch(r"TOKEN=\$\((.*)\)", command)
        words = shlex.split((inner[1] if inner else command).replace("$TOKEN", self.token))
        match words[0]:
            case "sshwarma":
                out = self._run(self._words_of_program(words))
                self.code = out.split()[0] if words[1] == "invite" else self.code
                self.token = out.strip() if inner else self.token
            case "curl":
                words[-1] = words[-1].replace("127.0.0.1:2280", self.server.http)
                self._run([*words, "--fail", "--silent", "--show-error"])
            case "ssh":
                self._run_ssh(words[: words.index("|")] if "|" in words else words)
            case _:
                done = self.owner.run(command)
                assert done.status == 0, (command, done.err)

    def _words_of_program(self, words: list[str]) -> list[str]:
        places = {"/srv/copy": str(self.server.home / "copy")}
        data_dir = [] if "--data-dir" in words else ["--data-dir", str(self.server.data_dir)]
        return [str(PROGRAM), *(places.get(word, word) for word in words[1:]), *data_dir]

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False,
            cwd=self.server.home, env=self.server.environ,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def _run_ssh(self, words: list[str]) -> None:
        """Run a command of ssh, where `host` is the server."""
        at = next(place for place, word in enumerate(words) if word.rpartition("@")[2] == "host")
        person = self.dave if words[at] == "dave@host" else self.owner
        typed = shlex.join(words[at + 1 :]).replace("CODE", self.code)
        piped = "three\nlines\nmore" if typed.startswith("note") else ""
        done = person.run(typed, piped)
        assert done.status == 0, (words, done.err)


@needs_bubblewrap
@pytest.mark.sqlite
def test_commands_of_the_readme_work_on_a_new_world(server: Server) -> None:
    for name in ("alice", "robot"):
        (server.home / f"{name}.pub").write_text(server.stranger(name).public_key + "\n")
    reader = Reader(server, server.owner, server.stranger("dave"))
    followed = [reader.follow(command) for command in commands()]
    assert len(followed) >= 23
