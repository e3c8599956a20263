"""Keys: several in a file, their expiry, and those that an agent offers first."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable

from sshwarma.common.exit_status import EXIT_USAGE
from support.driver import Server
from support.driver.person import CLEAN
from support.waiting import wait_until


def failed_logins(world: Server) -> list[str]:
    return world.cli("audit", "--verb", "login failed", "--json").stdout.splitlines()


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
    # It is recorded after the client knows.
    rows: list[str] = []
    wait_until(lambda: rows.extend(failed_logins(world)) or rows)
    row = json.loads(rows[-1])
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
    assert certificate.returncode == EXIT_USAGE
    assert "this is a certificate; add the plain key" in certificate.stderr


def test_token_made_with_a_key_ends_with_it_at_the_latest(
    world: Server, name: Callable[[str], str]
) -> None:
    """A guest for a day would otherwise stay with a token that never expires."""
    ann = world.stranger(name("ann"))
    public = str(ann.identity.with_suffix(".pub"))
    assert world.cli("keys", "add", ann.name, public, "--days", "1").returncode == 0
    [key] = world.operate("keys_list", name=ann.name)
    for days in ("", " --days 30"):
        assert re.search(r"scope act until \S+ \S+\.", ann.run(f"token new laptop{days}").out)
    made = world.operate("token_list", name=ann.name)
    assert [token["expires_at"] for token in made] == [key["expires_at"]] * 2
    assert re.search(r"  until \S+ \S+  never used  laptop", ann.run("token").out)


def test_expiry_of_a_key_can_be_lifted(world: Server, name: Callable[[str], str]) -> None:
    ann = world.stranger(name("ann"))
    public = str(ann.identity.with_suffix(".pub"))
    assert world.cli("keys", "add", ann.name, public, "--days", "1").returncode == 0
    assert "until 2" in world.cli("keys", "add", ann.name, public).stdout, "it stays by itself"
    added = world.cli("keys", "add", ann.name, public, "--days", "never")
    assert added.stdout == (
        f"{ann.name} (member) may log in with {ann.fingerprint}, which no longer expires;"
        " the key was added before\n"
    )
    [key] = world.operate("keys_list", name=ann.name)
    assert key["expires_at"] is None
    rows = world.cli("audit", "--verb", "keys", "--json").stdout.splitlines()
    assert json.loads(rows[-1])["request"].startswith(f"add {ann.name} --days never SHA256:")
    refused = world.cli("keys", "add", ann.name, public, "--days", "soon")
    assert refused.returncode == 2
    assert "'soon' is not a valid float" in refused.stderr
