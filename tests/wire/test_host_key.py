"""A host key is changed, and the known_hosts of stock clients follow."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.common.units import DAY_SECONDS
from support.driver import Server
from support.driver.fixtures import homes


@pytest.fixture
def server() -> Iterator[Server]:
    with homes() as home:
        made = Server(home())
        yield made
        assert made.stop() == 0


def connect(server: Server, known_hosts: Path, checking: str) -> subprocess.CompletedProcess[str]:
    """Log in with a client that has a known_hosts of its own, and learns keys."""
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-i", str(server.data_dir / "operator_ed25519")),
            *("-o", f"UserKnownHostsFile={known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"),
            *("-o", f"StrictHostKeyChecking={checking}", "-o", "UpdateHostKeys=yes"),
            *("-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-p", str(server.port)),
            *(f"{server.owner.name}@{server.host}", "look"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def let_a_day_pass(server: Server) -> None:
    """Make the next key one that is announced since the day before yesterday."""
    path = server.data_dir / "ssh_host_ed25519_key.next.announced"
    recorded = json.loads(path.read_text())
    path.write_text(json.dumps(recorded | {"since": recorded["since"] - 2 * DAY_SECONDS}))


def keys_in(known_hosts: Path) -> set[str]:
    return {line.split()[2] for line in known_hosts.read_text().splitlines()}


def test_clients_that_connect_before_the_switch_are_not_warned(
    server: Server, tmp_path: Path
) -> None:
    ann, bob = tmp_path / "ann", tmp_path / "bob"
    for known_hosts in (ann, bob):
        assert connect(server, known_hosts, "accept-new").returncode == 0
        assert len(keys_in(known_hosts)) == 1
    early = server.cli("host-key", "switch")
    assert early.returncode == 1 and "There is no next host key." in early.stderr
    made = json.loads(server.cli("host-key", "next", "--json").stdout)
    again = server.cli("host-key", "next")
    assert again.returncode == 1 and "host-key switch" in again.stderr
    assert connect(server, ann, "yes").returncode == 0
    public_keys = {made[name]["public_key"].split()[1] for name in ("current", "next")}
    assert keys_in(ann) == public_keys
    server.kill()
    server.start()  # on another port: what a client knows has the port in its name
    for known_hosts in (ann, bob):
        text = known_hosts.read_text()
        old_port = text.split("]:")[1].split()[0]
        known_hosts.write_text(text.replace(f":{old_port} ", f":{server.port} "))
    let_a_day_pass(server)
    switched = server.cli("host-key", "switch")
    assert switched.stdout.startswith(f"In use: {made['next']['fingerprint']}\n"), switched.stderr
    assert connect(server, ann, "yes").returncode == 0
    warned = connect(server, bob, "yes")
    assert warned.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in warned.stderr
    assert (server.data_dir / "ssh_host_ed25519_key.old").stat().st_mode & 0o777 == 0o600
    requests = [row["request"] for row in server.operate("audit_list", verb="host-key")]
    assert [text.split()[0] for text in requests] == ["next", "switch"]


def test_host_key_is_changed_without_a_server(server: Server) -> None:
    before = server.cli("host-key", "show").stdout
    server.stop()
    assert server.cli("host-key", "next").stdout.startswith(before)
    refused = server.cli("host-key", "switch")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "No server has announced the next host key, SHA256:" in refused.stderr
    assert server.cli("host-key", "show").stdout.endswith(", not announced yet\n")
    assert server.cli("host-key", "show").stdout.startswith(before)
    assert server.cli("host-key", "switch", "--now").returncode == 0
    after = server.cli("host-key", "show").stdout
    assert after.startswith("In use: SHA256:") and after != before
    (server.data_dir / "ssh_host_ed25519_key.next").write_text("junk")
    (server.data_dir / "ssh_host_ed25519_key.next").chmod(0o600)
    junk = server.cli("host-key", "switch")
    assert junk.returncode == 1 and "not a usable private key" in junk.stderr
    (server.data_dir / "ssh_host_ed25519_key.next").unlink()
    server.start()
    assert after.split()[-1] in server.log().rpartition("Host key")[2]


def test_switch_is_refused_until_clients_can_have_learned_the_next_key(server: Server) -> None:
    made = json.loads(server.cli("host-key", "next", "--json").stdout)["next"]
    refused = server.cli("host-key", "switch", "--json")
    assert refused.returncode == 1
    answer = json.loads(refused.stdout)
    at = made["announced_since"][:16].replace("T", " ")
    assert answer["message"] == (
        f"The next host key has been announced for less than a day, since {at} UTC: clients that"
        " have not logged in since would warn of a changed key."
    )
    assert server.cli("host-key", "show").stdout.endswith(f", announced since {at}\n")
    assert answer["hint"].endswith("or at once: sshwarma host-key switch --now")
    assert json.loads(server.cli("host-key", "show", "--json").stdout)["next"] == made
    switched = json.loads(server.cli("host-key", "switch", "--now", "--json").stdout)
    assert switched["current"]["fingerprint"] == made["fingerprint"]


def test_switch_to_a_key_that_the_server_does_not_announce_is_refused(server: Server) -> None:
    """As one that was put there by hand: all clients would warn of it."""
    path = server.data_dir / "ssh_host_ed25519_key.next"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    made_at = path.stat().st_mtime - 2 * DAY_SECONDS
    os.utime(path, (made_at, made_at))  # which says nothing of what clients know
    refused = server.cli("host-key", "switch")
    assert refused.returncode == 1
    assert "The running server has not announced the next host key, SHA256:" in refused.stderr
    server.stop()
    server.start()
    again = server.cli("host-key", "switch")
    assert again.returncode == 1
    assert "has been announced for less than a day, since " in again.stderr
    let_a_day_pass(server)
    assert server.cli("host-key", "switch").returncode == 0


def test_announcement_is_of_one_key_and_ends_with_it(server: Server) -> None:
    record = server.data_dir / "ssh_host_ed25519_key.next.announced"
    server.cli("host-key", "next")
    let_a_day_pass(server)
    server.stop()
    (server.data_dir / "ssh_host_ed25519_key.next").unlink()
    server.cli("host-key", "next")  # another one
    refused = server.cli("host-key", "switch")
    assert refused.returncode == 1 and "No server has announced" in refused.stderr
    server.start()
    assert "less than a day" in server.cli("host-key", "switch").stderr
    assert server.cli("host-key", "switch", "--now").returncode == 0
    assert not record.exists()


def test_old_key_is_put_back_without_a_warning(server: Server, tmp_path: Path) -> None:
    """By the commands of docs/operating.md."""
    ann = tmp_path / "ann"
    assert connect(server, ann, "accept-new").returncode == 0
    before = server.cli("host-key", "show").stdout
    server.cli("host-key", "next")
    assert connect(server, ann, "yes").returncode == 0  # learns the next key
    assert server.cli("host-key", "switch", "--now").returncode == 0
    assert connect(server, ann, "yes").returncode == 0
    old = server.data_dir / "ssh_host_ed25519_key.old"
    old.rename(server.data_dir / "ssh_host_ed25519_key.next")
    assert server.cli("host-key", "switch", "--now").returncode == 0
    assert server.cli("host-key", "show").stdout == before
    assert connect(server, ann, "yes").returncode == 0
