"""A drain: what runs is finished, people read when the server ends."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sshwarma.common.exit_status import EXIT_RESTART, EXIT_USAGE
from support.driver import Server
from support.driver.forkserver import SETUP
from support.driver.model import Asked, Model, question
from support.metrics import scrape
from support.waiting import SECONDS, wait_until

from .test_health import health

AT = r"\d\d:\d\d"


class SlowModel:
    """A model that answers `slow` when it is let, and all else at once."""

    def __init__(self) -> None:
        self.end = ""
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.model = Model(self._answer)

    def _answer(self, asked: Asked) -> Iterator[str | dict[str, Any]]:
        if "slow" not in question(asked):
            yield "at once"
            return
        self.asked.set()
        yield "as"
        assert self.may_answer.wait(SECONDS)
        yield f" long as it takes{self.end}"


@pytest.fixture
def slow() -> Iterator[SlowModel]:
    made = SlowModel()
    yield made
    made.may_answer.set()
    made.model.close()


@pytest.fixture
def server(serve: Callable[..., Server], slow: SlowModel) -> Server:
    return serve(models=json.dumps([slow.model.settings("qwen")]))


def test_drain_finishes_answers_and_lets_nobody_in(server: Server, slow: SlowModel) -> None:
    ann, ben = server.person("ann"), server.person("ben")
    screen = ann.sit()
    screen.enter("@qwen slow")
    assert slow.asked.wait(SECONDS)
    begun = server.cli("drain", "--minutes", "5")
    assert re.fullmatch(
        rf"The server restarts at {AT} \S+\. Sent to 1 agent; answers in progress: 1\.\n",
        begun.stdout,
    ), begun
    screen.wait_for("To everyone, from the server: This server restarts at ")
    status, body = health(server)
    assert (status, body["status"]) == (503, "draining")
    assert re.match(rf"this server restarts at {AT}", body["reason"])
    assert scrape(server).value("sshwarma_draining") == 1
    assert scrape(server).value("sshwarma_healthy") == 1
    assert "restarts at" in server.cli("info").stdout
    refused = ben.run("look")
    assert refused.status == 255
    assert re.search(rf"this server restarts at {AT} \S+; connect again then", refused.err)

    screen.enter("@qwen slow, and more")
    screen.wait_for("qwen does not answer now: this server restarts at ")
    slow.may_answer.set()
    screen.wait_for("as long as it takes")

    assert server.cli("drain", "--cancel").stdout == "The server goes on.\n"
    screen.wait_for("This server does not restart: it goes on.")
    assert health(server)[0] == 200 and scrape(server).value("sshwarma_draining") == 0
    assert ben.run("look").status == 0
    screen.enter("@qwen now")
    screen.wait_for("at once")
    again = server.cli("drain", "--cancel")
    assert again.returncode == 1 and "The server is not draining" in again.stderr
    audit = server.cli("audit").stdout
    assert re.search(r"drain +--minutes 5\n", audit) and re.search(r"drain +--cancel\n", audit)

    assert server.cli("drain", "--minutes", "0").returncode == 0
    screen.wait_for("Goodbye: this server restarts. Connect again now: you stay where you are.")
    assert screen.terminal_is_clean() == []
    assert server.process.wait(SECONDS) == EXIT_RESTART
    assert re.search(r"stopping\s+reason='a drain'", server.log())


def test_answer_that_takes_longer_than_the_drain_is_cut_and_kept(
    server: Server, slow: SlowModel
) -> None:
    ann = server.person("ann")
    screen = ann.sit()
    screen.enter("@qwen slow")
    assert slow.asked.wait(SECONDS)
    assert server.cli("drain", "--minutes", "0.01").returncode == 0
    assert server.process.wait(SECONDS) == EXIT_RESTART
    server.stop()
    server.start()
    assert "qwen was stopped" in ann.does("history")


def test_drain_ends_when_nobody_is_connected(serve: Callable[..., Server]) -> None:
    server = serve()
    assert server.cli("drain").returncode == 0
    assert server.process.wait(SECONDS) == EXIT_RESTART


@pytest.mark.parametrize("minutes", ["-1", "1441", "soon"])
def test_time_of_a_drain_is_bounded(server: Server, minutes: str) -> None:
    assert server.cli("drain", "--minutes", minutes).returncode == EXIT_USAGE
    assert health(server)[0] == 200


def test_sigterm_waits_for_answers(server: Server, slow: SlowModel) -> None:
    ann = server.person("ann")
    screen = ann.sit()
    screen.enter("@qwen slow")
    assert slow.asked.wait(SECONDS)
    server.process.send_signal(signal.SIGTERM)
    screen.wait_for("This server restarts when answers are complete, within 20 seconds.")
    wait_until(lambda: health(server)[0] == 503)
    assert server.process.poll() is None
    slow.may_answer.set()
    screen.wait_for("as long as it takes")
    screen.wait_for("The server is shutting down.")
    assert server.process.wait(SECONDS) == 0


def test_sigterm_cuts_an_answer_that_takes_too_long(
    serve: Callable[..., Server], slow: SlowModel
) -> None:
    code = "from sshwarma.admin.drain import Drain\nDrain.finish_answers.__defaults__ = (0.3,)"
    server = serve(models=json.dumps([slow.model.settings("qwen")]), environ={SETUP: code})
    ann = server.person("ann")
    screen = ann.sit()
    screen.enter("@qwen slow")
    assert slow.asked.wait(SECONDS)
    server.process.send_signal(signal.SIGTERM)
    screen.wait_for("The server is shutting down.")
    assert server.process.wait(SECONDS) == 0
    server.stop()
    server.start()
    assert "qwen was stopped" in ann.does("history")


def test_model_that_an_answer_calls_is_not_asked_before_the_end(
    serve: Callable[..., Server], slow: SlowModel
) -> None:
    other = slow.model.settings("other") | {"turn_seconds": 700.0}
    quick = slow.model.settings("quick") | {"turn_seconds": 60.0}
    qwen = slow.model.settings("qwen")
    server = serve(models=json.dumps([qwen, other, quick]))
    slow.end = ".\n@other what do you say?\n@quick and you?"
    screen = server.person("ann").sit()
    screen.enter("@qwen slow")
    assert slow.asked.wait(SECONDS)
    assert server.cli("drain", "--minutes", "11").returncode == 0
    slow.may_answer.set()
    screen.wait_for("called other, but this server restarts at ")
    screen.wait_for("at once")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_does_not_wait_without_answers_or_at_ctrl_c(
    server: Server, slow: SlowModel, number: signal.Signals
) -> None:
    ann = server.person("ann")
    screen = ann.sit()
    if number == signal.SIGINT:
        screen.enter("@qwen slow")
        assert slow.asked.wait(SECONDS)
    server.process.send_signal(number)
    screen.wait_for("The server is shutting down.")
    assert server.process.wait(SECONDS) == 0
    assert "draining" not in server.log()
