"""A server that reads its settings again, and notifies its service manager."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.common.exit_status import EXIT_USAGE
from support.driver import Server
from support.driver.fixtures import homes
from support.driver.installed import POISONED
from support.driver.server import Refusal
from support.full_disk import filled, server_on_small_disk
from support.http_api import post_mcp
from support.service_manager import ServiceManager, listening
from support.waiting import wait_until

MODEL = """
[[models]]
name = "qwen"
kind = "compatible"
model = "m"
base_url = "http://127.0.0.1:9/v1"
"""
SERVER_OF_MCP = """
[[mcp]]
name = "files"
command = ["no-such-program"]
"""
SECONDS = 30.0
REGISTRATION = "  registration.mode: closed -> invite"
UNRECORDED = "The audit has no row of this reload"


def write(server: Server, text: str) -> None:
    (server.home / "sshwarma.toml").write_text(text)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, whose settings file is in its working directory."""
    with homes() as home:
        made = Server(home())
        yield made
        assert made.stop() == 0


@pytest.fixture(name="server_on_small_disk")
def small_server() -> Iterator[Server]:
    """A server whose data directory is a small file system."""
    with server_on_small_disk() as made:
        yield made


def test_reload_puts_every_reloadable_setting_into_force(server: Server) -> None:
    owner = server.owner
    token = server.operate("token_new", name=owner.name, scope="build")["token"]
    assert post_mcp(server, token, "world.example.org") == 421
    with pytest.raises(Refusal, match="cannot be used"):
        server.operate("invite")
    screen = owner.sit()
    screen.wait_for_prompt("lobby")
    command = json.dumps(list(POISONED))
    write(server, f"""
motd = "Tea is at four."
[limits]
line_bytes = 300
lines_per_10_seconds = 2
[registration]
mode = "invite"
[http]
hosts = ["world.example.org"]
[search]
threshold = 0.9
{MODEL}
[[mcp]]
name = "evil"
command = {command}
""")  # fmt: skip
    done = server.cli("reload")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Reloaded.",
        '  motd: "" -> "Tea is at four."',
        "  http.hosts: none -> world.example.org",
        "  registration.mode: closed -> invite",
        "  limits.line_bytes: 16384 -> 300",
        "  limits.lines_per_10_seconds: 40 -> 2",
        "  models.qwen: added",
        "  search.threshold: default -> 0.9",
        "  mcp.evil: added",
    ]
    assert server.operate("invite")["code"]
    assert post_mcp(server, token, "world.example.org") == 200
    newcomer = owner.sit()
    newcomer.wait_for("Tea is at four.")
    newcomer.close()
    screen.paste("x" * 301)  # a terminal that was open has the new limit, too
    screen.press("enter")
    screen.wait_for("the limit is 300")
    screen.close()
    assert "qwen" in [one["name"] for one in owner.json("model list")["models"]]
    wait_until(lambda: [one["state"] for one in owner.json("mcp list")["servers"]] == ["up"])
    assert {owner.run(f"say {word}").status for word in ("a", "b", "c", "d")} == {0, 1}


def test_models_and_servers_are_changed_and_removed(server: Server) -> None:
    command = json.dumps(list(POISONED))
    write(server, f'{MODEL}\n[[mcp]]\nname = "evil"\ncommand = {command}\n')
    server.cli("reload")
    owner = server.owner
    wait_until(lambda: [one["state"] for one in owner.json("mcp list")["servers"]] == ["up"])
    changed = f'[[mcp]]\nname = "evil"\ncommand = {command}\ntrust = true\n'
    write(server, MODEL.replace('"m"', '"n"') + changed)
    assert server.operate("reload")["changed"] == ["models.qwen: changed", "mcp.evil: changed"]
    assert owner.json("model show qwen")["model"] == "n"
    wait_until(lambda: [one["state"] for one in owner.json("mcp list")["servers"]] == ["up"])
    write(server, "")
    assert server.operate("reload")["changed"] == ["models.qwen: removed", "mcp.evil: removed"]
    assert [one["name"] for one in owner.json("model list")["models"]] == ["guide"]
    assert owner.json("mcp list")["servers"] == []
    write(server, MODEL)
    assert server.operate("reload")["changed"] == ["models.qwen: added"]
    assert "qwen" in [one["name"] for one in owner.json("model list")["models"]]


def test_model_whose_name_is_in_use_is_reported(server: Server) -> None:
    server.person("qwen")
    owner, bob = server.owner, server.person("bob")
    heading = "These were skipped, and are not in force:\n"
    write(server, MODEL)
    done = server.cli("reload")
    assert done.returncode == 1
    assert f"Reloaded.\n{heading}  models.qwen: qwen is already the name of" in done.stdout
    assert server.cli("reload").returncode == 1
    for person, sees in ((owner, True), (bob, False)):
        said = person.does("models")
        assert ("In the settings, and not in force:\n  qwen: qwen is already" in said) is sees, said
        skipped = person.json("models")["skipped"]
        assert [one["name"] for one in skipped] == (["qwen"] if sees else [])
    write(server, "")
    assert server.cli("reload").returncode == 0
    assert "not in force" not in owner.does("models")


def test_name_of_the_guide_is_taken(server: Server) -> None:
    write(server, MODEL.replace("qwen", "guide"))
    done = server.cli("reload")
    assert done.returncode == 1 and "guide is the model that is built in." in done.stdout
    assert "Not a language model" in server.owner.does("models")
    refused = server.cli("token", "new", "guide", "--label", "x")
    assert (
        refused.returncode == 1 and "guide is a model, and models do not log in." in refused.stderr
    )


def test_models_and_servers_that_cannot_work_are_named_with_the_reason(server: Server) -> None:
    key = server.home / "missing.key"
    directory = server.home / "file"
    directory.touch()
    write(server, f"""{MODEL}key_file = "{key}"
[[mcp]]
name = "gone"
command = ["program-that-nobody-has"]
[backup]
every = "1d"
directory = "{directory}/backups"
""")  # fmt: skip
    done = server.cli("reload")
    assert done.returncode == 1, done.stderr
    shown = done.stdout.splitlines()
    first = shown.index("These cannot work:")
    assert shown[first + 1].startswith(f"  model qwen: cannot read the file {key}: ")
    assert shown[first + 2].startswith("  mcp gone: program program-that-nobody-has not found; ")
    assert shown[first + 3].startswith(f"  backups: {directory} is not a directory; name a ")


def test_log_names_the_settings_file_that_was_found() -> None:
    with homes() as home:
        place = home()
        (place / "sshwarma.toml").write_text("")
        server = Server(place)
        assert re.search(rf"settings +file={place}/sshwarma\.toml", server.log())
        assert server.stop() == 0


@pytest.mark.sqlite
def test_settings_come_into_force_on_a_full_disk(server_on_small_disk: Server) -> None:
    """They may be what makes room."""
    server = server_on_small_disk
    write(server, f'motd = "new"\n[registration]\nmode = "invite"\n{MODEL}')
    with filled(server.data_dir):
        done = server.cli("reload")
        assert done.returncode == 1, done.stderr
        shown = done.stdout.splitlines()
        assert shown[:3] == ["Reloaded.", '  motd: "" -> new', REGISTRATION]
        assert any(line.startswith("  models.qwen: The disk is full") for line in shown)
        assert shown[-1].startswith(f"{UNRECORDED}: The disk is full.")
        assert "needs an invite code" in server.stranger("bob").run("look", b"", "-T").err
        write(server, 'motd = "newer"\n[registration]\nmode = "invite"\n')
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "new -> newer" in server.log())
        wait_until(lambda: server.log().count("the audit has no row of a reload") == 2)
    write(server, f'motd = "newer"\n[registration]\nmode = "invite"\n{MODEL}')
    done = server.cli("reload")
    assert done.stdout.splitlines() == ["Reloaded.", "  models.qwen: added"]
    assert "qwen" in [one["name"] for one in server.owner.json("model list")["models"]]


@pytest.mark.sqlite
def test_server_starts_on_a_full_disk_with_new_models_and_servers(
    server_on_small_disk: Server,
) -> None:
    server = server_on_small_disk
    with filled(server.data_dir):
        server.stop()
        write(server, f"{MODEL}{SERVER_OF_MCP}")
        server.start()
        assert "a model was skipped" in server.log()
        assert re.search("mcp servers of the settings are not in force .*files", server.log())
        owner = server.owner
        assert "files is in the settings and not in force" in owner.run("mcp show files").err
        said = owner.does("mcp list")
        assert "In the settings, and not in force:\n  files: The disk is full" in said
    done = server.cli("reload").stdout.splitlines()
    assert done[:3] == ["Reloaded.", "  models.qwen: added", "  mcp.files: added"]
    assert "qwen" in [one["name"] for one in server.owner.json("model list")["models"]]


def test_invalid_settings_change_nothing(server: Server) -> None:
    write(server, 'motd = "new"\n[registration]\nmode = "opne"\n')
    with pytest.raises(
        Refusal, match=r"nothing changed: \S+\.toml: registration\.mode: choose one"
    ):
        server.operate("reload")
    assert server.operate("registration_show")["mode"] == "closed"
    assert "the settings were not reloaded" in server.log()
    write(server, 'motd = "new"\n')
    assert server.operate("reload")["changed"] == ['motd: "" -> new']


def test_reload_of_a_file_that_the_server_does_not_read_is_refused(server: Server) -> None:
    write(server, 'motd = "new"\n')
    other = server.home / "other.toml"
    other.write_text('motd = "other"\n')
    refused = server.cli("reload", "--config", str(other))
    assert refused.returncode == EXIT_USAGE
    own = (server.home / "sshwarma.toml").resolve()
    assert f"The server reads {own}, and not {other.resolve()}." in refused.stderr
    assert "new" in server.cli("reload", "--config", str(own)).stdout


def test_directory_binary_file_and_pipe_are_no_settings_file(server: Server) -> None:
    """Settings from a pipe were not read at all, without a word."""
    refused = server.cli("doctor", "--config", str(server.home))
    assert refused.returncode == 2
    assert refused.stdout.startswith(f"FAIL  settings: {server.home} is a directory. Name a file\n")
    binary, pipe = server.home / "binary.toml", server.home / "pipe"
    binary.write_bytes(b"\x7fELF\xc9")
    os.mkfifo(pipe)
    loop = server.home / "loop.toml"
    loop.symlink_to(loop)
    looping = server.cli("reload", "--config", str(loop))
    assert looping.returncode == EXIT_USAGE and "Traceback" not in looping.stderr
    endless = server.cli("serve", "--config", "/dev/zero")
    assert "is a pipe, socket or device" in endless.stderr
    for path, reason in (
        (binary, "is not TOML: its byte 5 is not UTF-8 text"),
        (pipe, "is a pipe, socket or device. Name a file: it is read again at a reload."),
    ):
        refused = server.cli("doctor", "--config", str(path))
        assert refused.returncode == 2
        assert refused.stdout.startswith(f"FAIL  settings: {path} {reason}\n")


def test_sighup_reloads_and_warns_of_what_needs_a_restart(server: Server) -> None:
    write(server, '[ssh]\nmax_pending = 3\n[registration]\nmode = "open"\n')
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "these settings need a restart" in server.log())
    log = server.log()
    assert "changed=['registration.mode: closed -> open']" in log
    assert "settings=['ssh.max_pending: 100 -> 3']" in log
    assert server.operate("registration_show")["mode"] == "open"


def test_log_format_and_level_are_reloaded(server: Server) -> None:
    write(server, '[log]\nformat = "json"\nlevel = "debug"\n')
    server.operate("reload")
    wait_until(lambda: '"event": "reloaded"' in server.log())
    first = server.log().index('{"')
    for line in server.log()[first:].splitlines():
        assert json.loads(line)["event"]


def test_reload_without_a_server_is_refused(server: Server) -> None:
    server.stop()
    done = server.cli("reload")
    assert done.returncode == 1
    assert done.stderr.startswith(f"sshwarma: No server is running on {server.data_dir}.")


def test_reload_is_in_the_audit(server: Server) -> None:
    server.operate("reload")
    assert ("cli", "reload") in server.query("SELECT door, verb FROM audit")


@pytest.fixture(params=[False, True], ids=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    with homes() as home, listening(home(), abstract=request.param) as made:
        yield made


def started(home: Path, manager: ServiceManager, **more: str) -> Server:
    return Server(home, environ={"NOTIFY_SOCKET": manager.address, **more})


def test_service_manager_is_notified_of_start_reload_and_end(manager: ServiceManager) -> None:
    with homes() as home:
        server = started(home(), manager)
        ready = manager.read()
        assert ready["READY"] == "1"
        assert f"Serving ssh at 127.0.0.1:{server.port}" in ready["STATUS"]
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.read()
        assert reloading["RELOADING"] == "1"
        assert 0 < int(reloading["MONOTONIC_USEC"]) <= time.monotonic() * 1_000_000
        assert manager.read()["READY"] == "1"
        write(server, "nonsense")
        with pytest.raises(Refusal):
            server.operate("reload")
        assert manager.read()["RELOADING"] == "1"
        assert manager.read()["READY"] == "1"
        assert server.stop() == 0
        assert manager.read()["STOPPING"] == "1"
        assert not manager.has_message()


def test_watchdog_is_notified_while_the_writer_works(tmp_path: Path) -> None:
    with homes() as home, listening(home()) as manager:
        server = started(home(), manager, WATCHDOG_USEC="400000")
        assert manager.read_other("WATCHDOG")["READY"] == "1"
        assert manager.read() == manager.read() == {"WATCHDOG": "1"}
        assert server.stop() == 0
        assert manager.read_other("WATCHDOG")["STOPPING"] == "1"


@pytest.mark.sqlite
def test_watchdog_is_not_notified_while_the_writer_does_not_answer(tmp_path: Path) -> None:
    """Another process locks the database for longer than the watchdog waits."""
    import sqlite3

    with homes() as home, listening(home()) as manager:
        server = Server(
            home(),
            environ={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"},
            registration__mode="invite",
        )
        with sqlite3.connect(server.data_dir / "world.db", isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")
            wait_until(lambda: "the watchdog is not notified" in server.log())
            while manager.has_message():
                manager.read()
            before = server.log().count("the watchdog is not notified")
            wait_until(lambda: server.log().count("the watchdog is not notified") > before)
            assert not manager.has_message()
            database.execute("ROLLBACK")
        assert manager.read() == {"WATCHDOG": "1"}
        assert server.operate("invite")["code"]
        assert server.stop() == 0
