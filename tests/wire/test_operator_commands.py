"""What commands of the operator do to those who are connected at that moment."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.model import Asked, Model
from support.full_disk import filled, server_on_small_disk
from support.waiting import SECONDS


def test_answers_of_a_model_that_a_reload_removes_are_stopped() -> None:
    """They would go on to cost money, and nothing lists the model any more."""
    go = Event()

    def answer(asked: Asked) -> Iterator[str | dict[str, Any]]:
        yield "Once upon a time"
        go.wait(SECONDS)
        yield " there was more"

    model = Model(answer)
    with homes() as home:
        server = Server(home())
        settings = "".join(f"{key} = {value!r}\n" for key, value in model.settings("qwen").items())
        (server.home / "sshwarma.toml").write_text(f"[[models]]\n{settings}")
        server.operate("reload")
        screen = server.owner.sit()
        screen.enter("@qwen tell")
        screen.wait_for("qwen: Once upon a time")
        (server.home / "sshwarma.toml").write_text("")
        changed = server.operate("reload")["changed"]
        assert changed == ["models.qwen: removed", "models.qwen: 1 answer was stopped"]
        screen.wait_for("qwen was stopped")
        go.set()
        screen.close()
        assert server.stop() == 0
    model.close()


@pytest.mark.sqlite
def test_message_to_everyone_arrives_on_a_full_disk() -> None:
    """As one that announces the restart that makes room."""
    with server_on_small_disk() as server:
        screen = server.owner.sit()
        with filled(server.data_dir):
            done = server.cli("broadcast", "restart at noon")
            assert done.returncode == 0, done
            assert "The audit has no row of it: The disk is full." in done.stdout
            screen.wait_for("restart at noon")
        screen.close()
