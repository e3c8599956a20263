"""HAProxy in front of a server, as `examples/haproxy` has it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address

import pytest

from ssh_transport.test_proxy_header import tcp
from support.driver import Person, Server
from support.driver.person import Done
from support.haproxy import Haproxy, haproxy, needs_haproxy
from support.metrics import scrape
from support.waiting import SECONDS, wait_until

from .test_audit import rows
from .test_health import health

pytestmark = needs_haproxy

both_versions = pytest.mark.parametrize("front", ["send-proxy-v2", "send-proxy"], indirect=True)

ANN, BEN, FORGER = "127.0.0.7", "127.0.0.8", "127.0.0.9"


@dataclass
class Front:
    """A server, whose people connect to the balancer; `port` is its own."""

    server: Server
    balancer: Haproxy
    port: int

    def run(self, person: Person, address: str, command: str = "look") -> Done:
        """Run a command from an address of this machine."""
        return person.run(command, b"", "-o", f"BindAddress={address}")

    def counts(self) -> dict[str, float]:
        """What the ssh door has refused, by reason, and its failed logins."""
        metrics = scrape(self.server)
        refused = metrics.values_by("sshwarma_refused_total", "limit")
        failed = metrics.value("sshwarma_auth_failed_total", door="ssh")
        return {name: count for name, count in (refused | {"failed": failed}).items() if count}


@pytest.fixture
def front(serve: Callable[..., Server], request: pytest.FixtureRequest) -> Iterator[Front]:
    server = serve(ssh__proxy_from=json.dumps(["127.0.0.1"]), ssh__free_failed_logins=3)
    port = server.port
    with haproxy(server, getattr(request, "param", "send-proxy-v2")) as balancer:
        server.port = balancer.ssh
        yield Front(server, balancer, port)


@both_versions
def test_checks_are_refused_nothing_and_shut_nobody_out(front: Front) -> None:
    """With version 1, too, which has no command for checks."""
    front.balancer.wait_for_checks(15)
    assert front.counts() == {}
    assert front.balancer.status("ssh_nodes").startswith("UP")
    assert front.run(front.server.person("ann"), ANN).status == 0
    log = front.server.log()
    assert "ssh.refused" not in log and "ssh.auth_failed" not in log


def test_limits_and_audit_have_the_address_of_the_client(front: Front) -> None:
    ann, stranger = front.server.person("ann"), front.server.stranger("eve")
    assert front.run(ann, ANN).status == 0
    for _ in range(5):
        assert front.run(stranger, BEN).status == 255
    shut_out = front.run(ann, BEN)
    assert shut_out.status == 255 and "too many logins from your address" in shut_out.err
    assert front.run(ann, ANN).status == 0
    wait_until(lambda: len(rows(front.server, verb="login")) == 2)
    assert {row["address"] for row in rows(front.server, verb="login")} == {ANN}
    wait_until(lambda: len(rows(front.server, verb="login failed")) == 4)
    assert {row["address"] for row in rows(front.server, verb="login failed")} == {BEN}
    assert front.balancer.status("ssh_nodes").startswith("UP")


def test_header_of_a_forger_is_refused(front: Front) -> None:
    """And the address in it is not shut out for what the forger does."""
    header = tcp(ip_address(ANN), 4000)
    for _ in range(6):
        link = socket.create_connection(("127.0.0.1", front.port), SECONDS, (FORGER, 0))
        with closing(link):
            link.sendall(header + b"SSH-2.0-forger\r\n")
            while link.recv(4096):
                pass
    wait_until(lambda: front.counts().get("ssh_failures"))
    assert front.counts()["failed"] == 4
    assert front.run(front.server.person("ann"), ANN).status == 0
    front.balancer.wait_for_checks(3)
    assert front.balancer.status("ssh_nodes").startswith("UP")


def test_person_on_the_machine_of_the_balancer_reads_why_it_is_refused(front: Front) -> None:
    front.server.port = front.port
    refused = front.server.person("ann").run("look", b"", "-o", "BindAddress=127.0.0.1")
    assert refused.status == 255 and "must begin with a PROXY header" in refused.err
    assert front.counts() == {"ssh_proxy_header": 1}


@both_versions
def test_drain_turns_checks_red_and_open_sessions_stay(front: Front) -> None:
    ann, ben = front.server.person("ann"), front.server.person("ben")
    screen = ann.sit()
    assert front.server.cli("drain", "--minutes", "30").returncode == 0
    front.balancer.wait_for("DOWN")
    assert health(front.server)[0] == 503
    screen.enter("still here")
    screen.wait_for("ann: still here")
    refused = front.run(ben, BEN)
    assert refused.status == 255 and "connect again then" in refused.err
    assert front.server.cli("drain", "--cancel").returncode == 0
    front.balancer.wait_for("UP")
    assert front.run(ben, BEN).status == 0
    assert "ssh.no_proxy_header" not in front.server.log()


def find_own_address() -> str:
    """Return an address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("needs an address besides loopback")
        return str(probe.getsockname()[0])


def test_http_passes_with_the_address_of_the_client(front: Front) -> None:
    """What a client writes into X-Forwarded-For itself stands before it."""
    own = find_own_address()
    with closing(
        http.client.HTTPConnection(
            "127.0.0.1", front.balancer.http, timeout=SECONDS, source_address=(own, 0)
        )
    ) as link:
        headers = {"Authorization": "Bearer swt_wrongwrong", "X-Forwarded-For": "203.0.113.9"}
        link.request("POST", "/api/v1/verbs/look", b"{}", headers)
        assert link.getresponse().status == 401
        link.close()
        link.request("GET", "/healthz")
        assert link.getresponse().status == 404
    wait_until(lambda: rows(front.server, verb="login failed"))
    assert [row["address"] for row in rows(front.server, verb="login failed")] == [own]
