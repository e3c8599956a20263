"""The bots and the bridge of the examples, while they and the server are killed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.irc_server import IrcServer, irc_server
from support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
ROUNDS = 6


def start(server: Server, token: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a program of the examples."""
    environ = {**os.environ, "WORLD": f"http://{server.http}", "TOKEN": token}
    command = [sys.executable, str(EXAMPLES / words[0]), *words[1:]]
    return subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)


@contextmanager
def running(server: Server, token: str, *words: str) -> Iterator[None]:
    """Run a program of the examples."""
    program = start(server, token, *words)
    try:
        yield
    finally:
        program.kill()
        program.wait()


def answers(server: Server) -> list[str]:
    entries = server.owner.json("history 200")["entries"]
    return [one["text"] for one in entries if one["who"] == "robo" and one["kind"] == "chat"]


def bot_words(bot: str, robo: Person, cursor: Path) -> list[str]:
    ssh = [shlex.join(robo.ssh())] if bot == "ssh_bot.py" else []
    return [f"bots/{bot}", *ssh, "lobby", str(cursor)]


@pytest.mark.process
@pytest.mark.parametrize("bot", ["sse_bot.py", "mcp_bot.py", "ssh_bot.py"])
def test_bot_that_is_killed_answers_each_call_once(
    serve: Callable[..., Server], tmp_path: Path, bot: str
) -> None:
    """Of the bot, of the server, and of both."""
    server = serve(limits__lines_per_10_seconds=1_000_000)
    robo = server.person("robo")
    token = str(server.operate("token_new", name="robo", scope="act")["token"])
    cursor = tmp_path / "cursor.txt"
    program = start(server, token, *bot_words(bot, robo, cursor))
    if bot == "mcp_bot.py":  # it stores a cursor when something has happened
        wait_until(lambda: "robo" in [one["name"] for one in server.owner.json("who")["people"]])
        server.owner.does("say @robo begin")
    wait_until(cursor.exists)
    expected = ["begin"] if bot == "mcp_bot.py" else []
    for number in range(ROUNDS):
        server.owner.does(f"say @robo call {number}a", f"say @robo call {number}b")
        expected += [f"call {number}a", f"call {number}b"]
        if number % 2 == 0:
            program.kill()
            program.wait()
        if number % 3 == 0:
            server.kill()
            server.start()
            program.kill()  # the server has other ports now
            program.wait()
        if program.poll() is not None:
            program = start(server, token, *bot_words(bot, robo, cursor))
        count = len(expected)
        wait_until(lambda count=count: len(answers(server)) >= count, 60)
    program.kill()
    program.wait()
    name = server.owner.name
    assert answers(server) == [f"{name}, I heard: robo {text}" for text in expected]


@pytest.mark.process
def test_bridge_to_irc_speaks_both_ways(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    server.person("irc")
    token = str(server.operate("token_new", name="irc", scope="act")["token"])
    owner = server.owner.name

    def heard(irc: IrcServer) -> list[str]:
        return [text for nick, _, text in irc.said if nick == "world"]

    def said() -> list[tuple[str, str]]:
        entries = server.owner.json("history 50")["entries"]
        return [(one["who"], one["text"]) for one in entries if one["kind"] == "chat"]

    with irc_server() as irc:
        words = ("bridges/irc_bridge.py", "lobby", irc.address, "#den", str(tmp_path / "cursor"))
        with running(server, token, *words):
            wait_until((tmp_path / "cursor").exists)
            server.owner.does("say hello IRC")
            wait_until(lambda: heard(irc))
            irc.say("alice", "#den", "hello room")
            irc.say("alice", "#den", "@guide what is a room?")
            irc.say("alice", "#other", "not for the room")
            wait_until(lambda: any(who == "guide" for who, _ in said()))
        server.owner.does("say while the bridge is away")
        with running(server, token, *words):
            wait_until(lambda: any("while the bridge" in text for text in heard(irc)))
    assert said()[:3] == [
        (owner, "hello IRC"),
        ("alice@irc", "hello room"),
        ("alice@irc", "@guide what is a room?"),
    ]
    assert heard(irc)[0] == f"<{owner}> hello IRC"
    assert heard(irc)[-1] == f"<{owner}> while the bridge is away"
    assert not any("alice" in text.partition(">")[0] for text in heard(irc)), "no echo"
