"""Keys: several in a file, their expiry, and those that an agent offers first."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable

from support.driver import Server
from support.driver.person import CLEAN


def test_connections_of_a_key_end_when_it_expires(serve: Callable[..., Server]) -> None:
    world = serve()
    ann = world.person("ann")
    screen = ann.sit()
    public = str(ann.identity.with_suffix(".pub"))
    added = world.cli("keys", "add", ann.name, public, "--days", str(3 / 86_400))
    assert added.returncode == 0
    assert re.fullmatch(
        rf"{ann.name} \(member\) may log in with {re.escape(ann.fingerprint)} until [0-9: -]+;"
        r" the key was added before\n",
        added.stdout,
    )
    screen.wait_for("The key of this connection has expired.")
    screen.wait_for_end()
    assert screen.terminal_is_clean() == []
    refused = ann.run("look", b"", "-T")
    assert (refused.status, refused.out) == (255, "")
    assert "Permission denied (publickey)" in refused.err
    listed = world.cli("keys", "list", ann.name).stdout
    assert re.search(r"  added 20\S+ \S+  expired 20\S+ \S+  used 20", listed), listed
    row = json.loads(world.cli("audit", "--verb", "login failed", "--json").stdout.splitlines()[-1])
    assert row["request"].startswith(f"the key of {ann.name} expired at 20")
    ann.hang_up()


def test_connection_ends_when_the_key_that_it_came_with_expires(
    serve: Callable[..., Server],
) -> None:
    """As with `keys add --days`: the time was set before the login."""
    world = serve()
    ann = world.person("ann")
    public = str(ann.identity.with_suffix(".pub"))
    assert world.cli("keys", "add", ann.name, public, "--days", str(6 / 86_400)).returncode == 0
    screen = ann.sit()
    screen.wait_for("The key of this connection has expired.")
    screen.wait_for_end()
    ann.hang_up()


def test_ssh_offers_its_next_key_if_the_first_ones_are_unknown(
    serve: Callable[..., Server],
) -> None:
    """As from an agent with many keys; a newcomer's first key is asked for a code."""
    server = serve(registration__mode="invite")
    ann, others = server.person("ann"), [server.stranger("ann") for _ in range(8)]
    offered = [str(person.identity) for person in (*others, ann)]
    for person, status, said in (
        (ann, 0, "ann: hello"),
        (ann.as_name("nobody"), 1, "needs an invite code"),
        (others[0], 255, "Permission denied (publickey)"),
    ):
        held = offered[: len(others) + (person is not others[0])]
        ssh = [word for word in person.ssh("-T") if word not in ("-i", str(person.identity))]
        line = f"ssh-add -q {shlex.join(held)} && {shlex.join([*ssh, 'say hello'])}"
        done = subprocess.run(
            ["ssh-agent", "sh", "-c", line.replace("IdentitiesOnly=yes", "IdentitiesOnly=no")],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
            env=CLEAN,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert said in done.stdout + done.stderr


def test_keys_of_a_file_are_added_together(world: Server, name: Callable[[str], str]) -> None:
    """As `curl https://github.com/NAME.keys` gives them, on standard input."""
    one, two = world.stranger(name("ann")), world.stranger("x")
    keys = f"{one.public_key}\n{two.public_key}\n"
    added = world.cli("keys", "add", one.name, "-", stdin=keys)
    assert added.stdout.splitlines() == [
        f"{one.name} (member) may log in with {key.fingerprint}" for key in (one, two)
    ]
    assert two.run("say hi", b"", "-T").out == f"{one.name}: hi\n"
    again = world.cli("keys", "add", one.name, "-", stdin=keys)
    assert again.returncode == 0
    assert again.stdout.splitlines()[1] == (
        f"{one.name} (member) may still log in with {two.fingerprint}; the key was added before"
    )
    certificate = world.cli(
        "keys", "add", one.name, "-", stdin="ssh-ed25519-cert-v01@openssh.com AAAA x"
    )
    assert certificate.returncode == 1
    assert "this is a certificate; add the plain key" in certificate.stderr
