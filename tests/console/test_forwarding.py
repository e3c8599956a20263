"""The console over `ssh -L`, where no port is open but that of ssh."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from support.console_tabs import find_link
from support.driver import Person, Server
from support.waiting import wait_until


def free_port() -> int:
    """A port that nothing has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def forwarding(who: Person, target: str = "console:80") -> Iterator[int]:
    """A stock client that forwards a port of this machine; yields the port."""
    port = free_port()
    words = who.ssh("-N", "-L", f"127.0.0.1:{port}:{target}", "-oExitOnForwardFailure=yes")
    with subprocess.Popen(words, stderr=subprocess.PIPE) as client:
        try:
            wait_until(lambda: _accepts(port))
            yield port
        finally:
            client.terminate()


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def ask(
    port: int, method: str, path: str, body: str = "", **headers: str
) -> http.client.HTTPResponse:
    """Send a request through a forwarded port; the answer is read whole."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body or None, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_browser_elsewhere_signs_in_through_ssh(world: Server, alice: Person) -> None:
    with forwarding(alice) as port:
        body = json.dumps({"link": urlsplit(find_link(alice)).fragment})
        answer = ask(port, "POST", "/in", body, Origin=f"http://127.0.0.1:{port}")
        assert answer.status == 204
        cookie = (answer.headers["Set-Cookie"] or "").partition(";")[0]
        assert ask(port, "GET", "/room/lobby", Cookie=cookie).status == 200
        for _ in range(3):
            assert ask(port, "GET", "/static/x/app.css").status == 200
    (browser,) = alice.json("web list")["browsers"]
    assert browser["address"] == "127.0.0.1"


def test_large_answers_come_whole(world: Server, alice: Person) -> None:
    with forwarding(alice) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/openapi.json")
        described = json.loads(connection.getresponse().read())
        connection.request("GET", "/healthz")  # over the same connection
        assert connection.getresponse().status == 200
        connection.close()
    assert described["openapi"] == "3.1.0"


@pytest.mark.parametrize("target", ["console:81", "localhost:80", "127.0.0.1:{port}"])
def test_nothing_else_is_forwarded(world: Server, alice: Person, target: str) -> None:
    target = target.format(port=world.http.rpartition(":")[2])
    with forwarding(alice, target) as port, pytest.raises((OSError, http.client.HTTPException)):
        ask(port, "GET", "/healthz")


def test_forwarded_connection_ends_with_the_account(
    world: Server, name: Callable[[str], str]
) -> None:
    person = world.person(name("leaver"))
    with forwarding(person) as port:
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        kept.request("GET", "/healthz")
        assert kept.getresponse().read()
        world.cli("agents", "disable", person.name)
        with pytest.raises((OSError, http.client.HTTPException)):
            for _ in range(200):
                kept.request("GET", "/healthz")
                kept.getresponse().read()
        kept.close()


def test_many_tabs_fit_into_one_forwarding(world: Server, alice: Person) -> None:
    with forwarding(alice) as port, contextlib.ExitStack() as stack:
        for _ in range(20):
            connected = stack.enter_context(
                contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60))
            )
            connected.request("GET", "/healthz")
            assert connected.getresponse().read(1), "it stays open"
        assert alice.run("look").status == 0


def test_strangers_forward_nothing(world: Server) -> None:
    words = world.stranger("nobody").ssh("-N", "-L", f"{free_port()}:console:80")
    assert subprocess.run(words, timeout=60, check=False).returncode == 255
