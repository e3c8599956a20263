"""Getting in: keys, names, registration, one-shot commands, and refused requests."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable

import pytest

from support.driver import Person, Screen, Server
from support.driver.covers import covers
from support.driver.person import CLEAN
from support.driver.server import PROGRAM, Refusal

# -- the first run


def test_first_run_prints_an_ssh_command_that_logs_the_owner_in(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    log = server.log()
    assert "is the owner of this world, with SHA256:" in log
    line = next(line for line in log.splitlines() if line.startswith("Connect:"))
    words = shlex.split(line.removeprefix("Connect:"))
    assert words[0] == "ssh"
    quiet = ("-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
    known = ("-o", f"UserKnownHostsFile={server.home / 'known_hosts'}")
    screen = Screen(["ssh", *quiet, *known, *words[1:]], 80, 24, env={**CLEAN, "TERM": "xterm"})
    try:
        screen.wait_for_prompt("lobby")
        screen.enter("/set")
        screen.wait_for("Your settings:")
    finally:
        screen.close()


def test_unknown_key_is_refused_by_default(world: Server) -> None:
    stranger = world.stranger("mallory")
    done = stranger.run("look", b"", "-v")
    assert done.status == 255
    assert done.out == ""
    assert "Permission denied (publickey)" in done.err


# -- identity is the key


def test_known_key_overrides_the_user_name(alice: Person, bob: Person) -> None:
    assert alice.as_name(bob.name).run("say it is me", b"", "-T").out.startswith(alice.name)


def test_agent_may_have_several_keys(world: Server, alice: Person) -> None:
    for _ in range(3):
        other = world.stranger(alice.name)
        world.admit(other)
        assert other.run("say hi", b"", "-T").out == f"{alice.name}: hi\n"
    assert len(world.operate("keys_list", name=alice.name)) == 4


def test_an_unknown_key_cannot_take_an_existing_name(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="open")
    ann = server.person("ann")
    mallory = server.stranger("ann")
    done = mallory.run("say I am ann", b"", "-T")
    assert done.status == 255
    assert "Permission denied (publickey)" in done.err
    assert [key["fingerprint"] for key in server.operate("keys_list")].count(
        mallory.fingerprint
    ) == 0
    assert ann.run("history", b"", "-T").out == "Nothing has been said here yet.\n"


def test_key_of_one_agent_cannot_be_added_to_another(
    world: Server, alice: Person, bob: Person
) -> None:
    with pytest.raises(Refusal, match=f"already belongs to {alice.name}"):
        world.operate("keys_add", name=bob.name, public_key=alice.public_key)


# -- names


@pytest.mark.parametrize(
    "taken",
    ["sshwarma", "system", "room", "me", "all", "Alice", "al ice", "al\u200bice", "\u202eecila",
     "аlice", "al\x1bice", "a\nb", "", "-a", "9a", "a" * 33],
)  # fmt: skip
def test_reserved_or_deceptive_name_is_refused(world: Server, taken: str) -> None:
    key = world.stranger("nobody").public_key
    with pytest.raises(Refusal, match=r"reserved name|cannot be the name|at most 32") as refused:
        world.operate("keys_add", name=taken, public_key=key)
    assert str(refused.value).isprintable()


def test_name_similar_to_an_existing_one_is_refused(world: Server, alice: Person) -> None:
    alike = alice.name.replace("i", "1", 1)
    with pytest.raises(Refusal, match=f"looks too much like {alice.name}"):
        world.operate("keys_add", name=alike, public_key=world.stranger("x").public_key)


# -- the operator's commands


def test_keys_and_agents_are_managed_while_the_server_runs(
    world: Server, name: Callable[[str], str]
) -> None:
    ann = world.stranger(name("ann"))
    added = world.cli("keys", "add", ann.name, str(ann.identity.with_suffix(".pub")))
    assert (added.returncode, added.stderr) == (0, f"World: {world.data_dir}\n")
    assert added.stdout == f"{ann.name} (member) may log in with {ann.fingerprint}\n"
    assert ann.run("say in", b"", "-T").out == f"{ann.name}: in\n"

    listed = world.cli("keys", "list", ann.name, "--json")
    assert [key["fingerprint"] for key in json.loads(listed.stdout)] == [ann.fingerprint]
    assert (
        f"Changed the role of {ann.name} to admin."
        in world.cli("agents", "role", ann.name, "admin").stdout
    )
    assert ann.run("gc stale", b"", "-T").status == 0
    agents = {agent["name"]: agent for agent in world.operate("agents_list")}
    assert agents[ann.name]["role"] == "admin"
    assert ann.name in world.cli("agents", "list").stdout

    screen = ann.sit()
    assert world.cli("keys", "remove", ann.name, ann.fingerprint).returncode == 0
    screen.wait_for("The key of this connection was removed.")
    screen.wait_for_end()
    assert screen.terminal_is_clean() == []
    assert ann.run("look", b"", "-T").status == 255
    ann.hang_up()


def test_disabled_agent_is_disconnected_until_enabled(
    world: Server, alice: Person, bob: Person
) -> None:
    screen, other = alice.sit(), bob.sit()
    done = world.cli("agents", "disable", alice.name)
    assert done.stdout == f"{alice.name} is disabled\n"
    screen.wait_for("disabled by an admin")
    screen.wait_for_end()
    assert screen.terminal_is_clean() == []
    other.wait_for(f"· {alice.name} leaves")
    assert alice.run("look", b"", "-T").status == 255
    assert world.cli("agents", "enable", alice.name).returncode == 0
    assert alice.run("look", b"", "-T").status == 0


def test_invite_command_prints_only_the_code(
    serve: Callable[..., Server],
) -> None:
    # The mode is the server's: the command line has no such setting.
    server = serve("--registration", "invite")
    done = server.cli("invite", "--role", "guest", "--hours", "1")
    assert done.returncode == 0
    assert len(done.stdout.split()) == 1
    to_send = f"ssh -p {server.port} NAME@127.0.0.1 register {done.stdout.strip()}"
    assert re.fullmatch(
        rf"World: .*\nFor a new guest, once, until 20\S+ \S+ UTC\. .*:\n  {to_send}\n", done.stderr
    )
    listed = server.cli("invite", "list").stdout
    assert re.fullmatch(r"\S+  guest  by \(\S+\)  made \S+ \S+  until \S+ \S+\n", listed)
    other = json.loads(server.cli("invite", "--json").stdout)
    assert server.cli("invite", "revoke", other["id"]).stdout == (
        f"Revoked invite {other['id']} for a new member.\n"
    )
    checks = server.cli("doctor").stdout
    assert "registration: invite in the running server, listening on 127.0.0.1\n" in checks
    dave = server.stranger("dave")
    assert dave.run(f"register {done.stdout.strip()}", b"", "-T").status == 0


def test_invite_is_refused_when_registration_is_closed(world: Server) -> None:
    done = world.cli("invite", "--role", "guest")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Start the server with --registration invite." in done.stderr


def test_register_with_a_known_key_names_its_agent(alice: Person) -> None:
    done = alice.run("register", b"", "-T")
    assert (done.status, done.out) == (
        0,
        f"Your key is registered already: you are {alice.name}.\n",
    )
    again = alice.run("register CODE", b"", "-T")
    assert again.out.endswith(f"you are {alice.name}. The code was not used.\n")


def test_address_in_use_is_reported(world: Server) -> None:
    listening = ["--listen", f"127.0.0.1:{world.port}", "--http", "off"]
    done = subprocess.run(
        [PROGRAM, "serve", "--data-dir", world.home / "second", *listening],
        capture_output=True, text=True, check=False, timeout=30,
        env=CLEAN | {"HOME": str(world.home)},
    )  # fmt: skip
    assert done.returncode == 1
    assert (
        f"sshwarma: Cannot listen on 127.0.0.1:{world.port}: another process uses the address."
        " Choose another with --listen HOST:PORT.\n" in done.stderr
    )
    assert "Errno" not in done.stderr


def test_operation_on_an_unknown_agent_fails_with_one_line(world: Server) -> None:
    done = world.cli("agents", "disable", "nobody-here")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "Unknown agent nobody-here." in done.stderr


# -- one-shot commands


@covers("look", "inv show", "say")
def test_exec_command_prints_text_or_json(alice: Person, room: str) -> None:
    assert alice.run("look").lines[0] == room
    assert alice.run("/look").out == alice.run("look").out
    assert "Available to equip:" in alice.run("/inv all").out
    assert alice.json("inv")["of"] == room
    assert alice.json("/look")["name"] == room
    assert alice.run("say hello there").out == f"{alice.name}: hello there\n"
    everyone = alice.run("@everyone hello").out
    assert everyone.startswith(f"{alice.name}: @everyone hello\n")
    assert "Unknown agent everyone: nobody was called." in everyone


def test_refused_command_exits_nonzero_and_prints_to_stderr(alice: Person, room: str) -> None:
    wrong = alice.run("go nowhere")
    assert (wrong.status, wrong.out) == (1, "")
    assert "Unknown exit nowhere." in wrong.err
    unknown = alice.run("lok")
    assert unknown.status == 2
    assert "/look" in unknown.err
    usage = alice.run("portal north")
    assert usage.status == 2
    assert "Usage: /portal DIRECTION TO [--both]" in usage.err
    shown = json.loads(alice.run("go nowhere --json").out)
    assert shown["error"] == "not_found"


def test_piped_text_becomes_the_message(alice: Person, room: str) -> None:
    alice.run("@guide what failed?", "line one\nline two\n")
    alice.run("say", "all from the pipe\n")
    alice.run("note read this:", "and this\n")
    entries = alice.json("history")["entries"]
    texts = [entry["text"] for entry in entries if entry["who"] == alice.name]
    assert texts[-3:] == [
        "@guide what failed?\nline one\nline two",
        "all from the pipe",
        "read this:\nand this",
    ]


def test_pipe_over_the_limit_is_refused(alice: Person, room: str) -> None:
    done = alice.run("say", b"x" * 1_048_577)
    assert done.status == 2
    assert "1048576 bytes" in done.err
    assert alice.json("history")["entries"] == []


def test_room_flag_runs_a_command_in_another_room(
    alice: Person, room: str, name: Callable[[str], str]
) -> None:
    other = name("annex")
    alice.does(f"create {other}")
    alice.does(f"say over there --room {room}")
    assert alice.json(f"look --room {room}")["name"] == room
    assert alice.json("look")["name"] == other
    assert alice.json(f"history --room {room}")["entries"][-1]["text"] == "over there"


def test_shell_without_a_pty_reads_lines_and_writes_plain_text(alice: Person, room: str) -> None:
    shell = alice.pipe()
    out, _ = shell.communicate(f"/join {room}\nhello\n/look\n".encode(), timeout=30)
    text = out.decode()
    assert shell.returncode == 0
    assert f"{alice.name}: hello" in text
    assert f"Here: {alice.name}" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("end", [b"\n", b""], ids=["with a newline", "at the end"])
def test_a_shell_without_a_terminal_refuses_a_line_over_the_limit_whole(
    alice: Person, room: str, end: bytes
) -> None:
    """And stops: the lines after it were sent ahead."""
    shell = alice.pipe()
    lines = f"/join {room}\nbefore\n{'0123456789' * 7200}".encode()
    if end:
        lines += end + b"after\n"
    text = shell.communicate(lines, timeout=30)[0].decode()
    assert text.count("A line must have at most 16384 bytes.") == 1
    said = [
        entry["text"]
        for entry in alice.json(f"history --room {room}")["entries"]
        if entry["kind"] == "chat"
    ]
    assert said == ["before"]


# -- what is refused


@pytest.mark.parametrize(
    "options",
    [
        ("-W", "127.0.0.1:22"),
        ("-N", "-R", "0:127.0.0.1:22", "-o", "ExitOnForwardFailure=yes"),
        ("-s",),
    ],
    ids=["direct forwarding", "remote forwarding", "a subsystem"],
)
def test_other_ssh_services_are_refused(alice: Person, options: tuple[str, ...]) -> None:
    done = alice.run("sftp-server" if options == ("-s",) else "", b"", *options)
    assert done.status != 0
    assert done.out == ""


def test_local_forwarding_is_refused(alice: Person, world: Server) -> None:
    """A -L listener is the client's; what counts is that nothing comes through it."""
    done = alice.run("", b"GET /healthz HTTP/1.0\r\n\r\n", "-W", world.http)
    assert done.status != 0
    assert done.out == ""


def test_agent_x11_and_environment_requests_are_refused_and_the_session_continues(
    alice: Person,
) -> None:
    done = alice.run("look", b"", "-A", "-X", "-o", "SetEnv=LD_PRELOAD=/tmp/x.so")
    assert done.status == 0
    assert "lobby" in done.out


def test_command_acts_where_its_agent_last_went_and_a_login_does_not_count(
    alice: Person, room: str
) -> None:
    assert "the room that you last went to; a login does not count" in " ".join(
        alice.does("help scripts").split()
    )
    assert alice.does("look").startswith(room)
    alice.sit()
    assert alice.does("look").startswith(room)
