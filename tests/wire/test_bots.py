"""The bots of the examples, while they and the server are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.driver import Server
from support.waiting import wait_until

BOTS = Path(__file__).parents[2] / "examples" / "bots"
ROUNDS = 6


def start_bot(server: Server, token: str, folder: Path) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "WORLD": f"http://{server.http}", "TOKEN": token}
    words = [sys.executable, str(BOTS / "sse_bot.py"), "lobby", str(folder / "cursor.txt")]
    return subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL)


def answers(server: Server) -> list[str]:
    entries = server.owner.json("history 200")["entries"]
    return [one["text"] for one in entries if one["who"] == "robo" and one["kind"] == "chat"]


@pytest.mark.process
def test_bot_that_is_killed_answers_each_call_once(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """Of the bot, of the server, and of both."""
    server = serve(limits__lines_per_10_seconds=1_000_000)
    server.person("robo")
    token = str(server.operate("token_new", name="robo", scope="act")["token"])
    bot = start_bot(server, token, tmp_path)
    wait_until((tmp_path / "cursor.txt").exists)
    expected = []
    for number in range(ROUNDS):
        server.owner.does(f"say @robo call {number}a", f"say @robo call {number}b")
        expected += [f"call {number}a", f"call {number}b"]
        if number % 2 == 0:
            bot.kill()
            bot.wait()
        if number % 3 == 0:
            server.kill()
            server.start()
            bot.kill()  # the server has another port now
            bot.wait()
        if bot.poll() is not None:
            bot = start_bot(server, token, tmp_path)
        count = len(expected)
        wait_until(lambda count=count: len(answers(server)) >= count)
    bot.kill()
    bot.wait()
    name = server.owner.name
    assert answers(server) == [f"{name}, I heard: @robo {text}" for text in expected]
