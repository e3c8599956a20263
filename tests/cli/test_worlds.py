"""Which world a command acts on, and whose: none is made or touched by silence."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sshwarma.admin import control_client, data_dir_owner, running_worlds
from sshwarma.admin.data_dir_owner import ForeignDataDirError, check_data_dir_owner
from sshwarma.cli.main import main
from sshwarma.common.exit_status import EXIT_USAGE
from sshwarma.settings import logs
from sshwarma.world.errors import Unavailable
from support.driver import Server
from support.driver.fixtures import homes
from support.driver.server import PROGRAM

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that the default data directory is there."""
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def default_dir(home: Path) -> Path:
    return home / ".local" / "share" / "sshwarma"


@pytest.fixture
def key(home: Path) -> str:
    path = home / "id.pub"
    path.write_text(KEY)
    return str(path)


def put_world(newborn: Path, directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True)
    shutil.copyfile(newborn, directory / "world.db")
    return directory


def name_running(home: Path, *directories: Path) -> None:
    """Write the kernel's table of sockets as if servers ran with these worlds."""
    lines = ["Num       RefCount Protocol Flags    Type St Inode Path"]
    for directory in directories:
        (directory / "control.sock").touch()
        lines.append(f"0: 00000002 00000000 00010000 0001 01 4711 {directory}/control.sock")
    (home / "no-servers").write_text("\n".join([*lines, "1: 2 0 0 1 1 5", "2: 2 0 0 1 1 6 @x", ""]))


def test_init_makes_a_world_with_its_owner(
    default_dir: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--owner", "alice", "--key", key]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Created a world in {default_dir}\nalice is its owner, with SHA256:")
    assert (default_dir / "world.db").stat().st_mode & 0o777 == 0o600
    assert default_dir.stat().st_mode & 0o777 == 0o700
    assert main(["agents", "list"]) == 0
    assert "alice" in capsys.readouterr().out
    assert main(["init"]) == 1
    assert "already contains a world" in capsys.readouterr().err


@pytest.mark.process
def test_everything_the_program_makes_is_private(home: Path, key: str) -> None:
    words = [str(PROGRAM), "init", "--owner", "alice", "--key", key, "--data-dir", str(home / "d")]
    subprocess.run(words, check=True, capture_output=True, umask=0o022)
    found = {path.name: path.stat().st_mode & 0o077 for path in (home / "d").iterdir()}
    assert found == {"world.db": 0, "sshwarma.lock": 0}


@pytest.mark.parametrize("words", [["--owner", "alice"], ["--key", "id.pub"]])
def test_init_needs_name_and_key_together(
    words: list[str], default_dir: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words]) == 2
    assert "--owner and --key belong together" in capsys.readouterr().err
    assert not default_dir.exists()


def test_init_with_a_bad_key_or_name_makes_nothing(default_dir: Path, home: Path, key: str) -> None:
    # guide is the model that is built in
    for name, text in (("alice", "nonsense"), ("Bad Name", key), ("guide", key)):
        (home / "id.pub").write_text(f"{text}\n")
        assert main(["init", "--owner", name, "--key", "id.pub"]) == EXIT_USAGE
        assert not default_dir.exists()


def test_command_uses_the_only_running_world_and_says_so(
    home: Path, default_dir: Path, newborn: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = put_world(newborn, home / "srv")
    name_running(home, service)
    assert running_worlds.find_running_worlds() == [service]
    assert main(["backup", str(home / "b.tar.gz")]) == 0
    assert f"Wrote {home / 'b.tar.gz'}: the world in {service}, " in capsys.readouterr().out
    assert not default_dir.exists()


@pytest.mark.parametrize(
    "words",
    [["keys", "list"], ["agents", "list"], ["token", "list"], ["audit"], ["invite", "list"]],
)
def test_list_says_which_running_world_it_reads(
    words: list[str],
    home: Path,
    default_dir: Path,
    newborn: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    service = put_world(newborn, home / "srv")
    name_running(home, service)
    assert main(words) == 0
    assert capsys.readouterr().err == f"World: {service}\n"
    assert main([*words, "--data-dir", str(service)]) == 0
    assert capsys.readouterr().err == "", "it was named"


@pytest.mark.process
def test_questions_to_the_running_server_say_which_world_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    server = Server(tmp_path / "server")
    try:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(running_worlds, "find_running_worlds", lambda: [server.data_dir])
        for words in (["broadcast", "hello"], ["host-key", "show"], ["keys", "list"]):
            assert main(words) == 0, words
            assert capsys.readouterr().err == f"World: {server.data_dir}\n", words
    finally:
        server.stop()


def test_command_names_the_running_worlds_if_it_cannot_choose(
    home: Path, default_dir: Path, newborn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (put_world(newborn, home / name) for name in ("one", "two"))
    name_running(home, one, two)
    assert main(["keys", "list"]) == 1
    error = capsys.readouterr().err
    assert f"The directory {default_dir} does not contain a world." in error
    assert f"Servers are running with: {one}, {two}. Give --data-dir." in error
    assert main(["keys", "list", "--data-dir", str(home / "three")]) == 1, "it is named: no other"
    assert not (home / "three").exists() and not default_dir.exists()


@pytest.mark.process
def test_doctor_names_the_running_worlds_if_it_cannot_choose(
    home: Path, newborn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (put_world(newborn, home / name) for name in ("one", "two"))
    name_running(home, one, two)
    main(["doctor"])
    said = capsys.readouterr().out
    assert said.startswith("warn  world: ")
    assert f"Servers are running with: {one}, {two}." in said


def test_host_key_is_not_made_by_showing_it(
    home: Path, newborn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = put_world(newborn, home / "new")
    (data / "ssh_host_ed25519_key").unlink(missing_ok=True)
    assert main(["host-key", "show", "--data-dir", str(data)]) == 1
    assert "There is no host key yet. The server makes it at its first start." in (
        capsys.readouterr().err
    )
    assert not (data / "ssh_host_ed25519_key").exists()


def test_world_of_the_settings_goes_before_a_running_one(
    home: Path, default_dir: Path, newborn: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = put_world(newborn, home / "srv")
    put_world(newborn, default_dir)
    name_running(home, service)
    assert main(["keys", "add", "ann", key]) == 0
    assert capsys.readouterr().err == f"World: {default_dir}\n"
    assert main(["keys", "list"]) == 0
    listed = capsys.readouterr()
    assert "ann" in listed.out and listed.err == f"World: {default_dir}\n"


def test_serve_makes_no_second_world_beside_a_running_server(
    home: Path, default_dir: Path, newborn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = put_world(newborn, home / "srv")
    name_running(home, service)
    assert main(["serve", "--listen", "127.0.0.1:0", "--http", "off"]) == 1
    error = capsys.readouterr().err
    assert f"with the world in {service}" in error
    assert f"--data-dir {default_dir}" in error
    assert not default_dir.exists()


@pytest.mark.parametrize("words", [["init"], ["restore", "old.tar.gz"]])
def test_no_command_makes_a_second_world_beside_a_running_server(
    words: list[str], home: Path, default_dir: Path, newborn: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    service = put_world(newborn, home / "srv")
    assert main(["backup", "--data-dir", str(service), "old.tar.gz"]) == 0
    name_running(home, service)
    assert main(words) == 1
    assert f"with the world in {service}" in capsys.readouterr().err
    assert not default_dir.exists()


@pytest.mark.process
def test_running_server_is_found_by_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with homes() as make:  # with a short name, as the kernel's table has it
        server = Server(make())
        try:
            assert server.data_dir in running_worlds.find_running_worlds()
        finally:
            server.stop()
        assert server.data_dir not in running_worlds.find_running_worlds()


@pytest.mark.parametrize("words", [
    ["keys", "list"], ["keys", "add", "ann", "id.pub"], ["backup", "b.tar.gz"], ["migrate"],
    ["serve", "--listen", "127.0.0.1:0", "--http", "off"], ["restore", "b.tar.gz", "--force"],
    ["recover", "ann", "id.pub"],
])  # fmt: skip
def test_other_users_directory_is_refused_before_anything_is_touched(
    words: list[str],
    home: Path,
    key: str,
    newborn: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Root beside a service user left files that the service could not open."""
    service = put_world(newborn, home / "srv")
    service.chmod(0o755)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in service.iterdir())
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert main([*words, "--data-dir", str(service)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"sshwarma: The directory {service} belongs to ")
    assert "and you are user 4321." in error and error.count("\n") == 1
    assert sorted((path.name, path.stat().st_mtime_ns) for path in service.iterdir()) == before
    assert service.stat().st_mode & 0o777 == 0o755
    assert not (home / "b.tar.gz").exists()


def test_doctor_of_another_user_says_only_that(
    home: Path, newborn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = put_world(newborn, home / "srv")
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert main(["doctor", "--data-dir", str(service)]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  user: The directory" in shown
    assert "database" not in shown
    assert [path.name for path in service.iterdir()] == ["world.db"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_file_of_root_in_the_directory_of_a_service_is_named(
    home: Path, newborn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = put_world(newborn, home / "srv")
    check_data_dir_owner(service)
    for name in ("lost+found", "notes.txt"):  # of the file system, and of a shell's redirection
        (service / name).touch()
        os.chown(service / name, 4321, 4321)
    check_data_dir_owner(service)
    os.chown(service / "world.db", 4321, 4321)
    with pytest.raises(ForeignDataDirError, match=r"world.db belongs to user 4321.*chown -R root"):
        check_data_dir_owner(service)
    os.chown(service, 4321, 4321)
    with pytest.raises(ForeignDataDirError, match=r"sudo -u \\#4321 env SSHWARMA_DATA_DIR="):
        check_data_dir_owner(service)
    monkeypatch.setattr(sys, "argv", ["/opt/x/bin/sshwarma", "keys", "add", "ann", "a key.pub"])
    with pytest.raises(
        ForeignDataDirError, match=r"/srv /opt/x/bin/sshwarma keys add ann 'a key\.pub'$"
    ):
        check_data_dir_owner(service)
    check_data_dir_owner(home / "nothing here")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_directory_of_a_service_that_has_no_world_yet_names_user_and_command(
    home: Path,
    newborn: Path,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """To give --data-dir once more would not help; root must not make the world."""
    service = home / "srv"
    service.mkdir(mode=0o700)
    os.chown(service, 4321, 4321)
    words = ["keys", "add", "boss", key, "--data-dir", str(service)]
    monkeypatch.setattr(sys, "argv", ["/opt/x/bin/sshwarma", *words])
    other = put_world(newborn, home / "other")
    name_running(home, other)
    assert main(words) == 1
    assert capsys.readouterr().err == (
        f"sshwarma: The directory {service} does not contain a world. It belongs to user 4321, and"
        f" you are root. Make one as that user: sudo -u \\#4321 env SSHWARMA_DATA_DIR={service}"
        f" /opt/x/bin/sshwarma init. Servers are running with: {other}.\n"
    )
    assert not list(service.iterdir())


def test_socket_of_another_user_is_no_running_world(
    home: Path, newborn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can make a socket of that name that all may write to."""
    service = put_world(newborn, home / "srv")
    name_running(home, service)
    assert running_worlds.find_running_worlds() == [service]
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert running_worlds.find_running_worlds() == []


def test_user_of_a_process_names_who_has_logged_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_dir_owner, "PROCESSES", tmp_path)
    (tmp_path / "7").mkdir()
    login = tmp_path / "7" / "loginuid"
    for text, named in (
        ("0", "root"),
        ("4294967295", "root"),
        ("4242", "root (user 4242)"),
        ("", "root"),
    ):
        login.write_text(text)
        assert data_dir_owner.name_process_user(7, 0) == named
    assert data_dir_owner.name_process_user(8, 0) == "root"


def test_change_names_the_settings_file_that_was_found(
    home: Path, default_dir: Path, key: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """It may choose the world, and it depends on the current directory."""
    assert main(["init"]) == 0
    place = home / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "sshwarma.toml").write_text('motd = "x"')
    assert main(["keys", "add", "alice", key]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"Settings: {place / 'sshwarma.toml'}"
    assert main(["keys", "add", "alice", key, "--config", "sshwarma.toml"]) == 0
    assert "Settings:" not in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("foreign", ["control.sock", "world.db", "."])
def test_root_takes_no_socket_for_a_world_of_several_owners(
    foreign: str, home: Path, newborn: Path
) -> None:
    """Any user can bind a socket of that name; root would send it what it changes."""
    service = put_world(newborn, home / "srv")
    name_running(home, service)
    assert running_worlds.find_running_worlds() == [service]
    os.chown(service / foreign, 4321, 4321)
    assert running_worlds.find_running_worlds() == []


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_socket_of_another_user_than_the_directory_gets_no_request(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / control_client.SOCKET_NAME))
        listener.listen()
        os.chown(tmp_path, 4321, 4321)
        with pytest.raises(Unavailable, match=r"belongs to user 4321\. Nothing was sent"):
            await control_client.send_request(tmp_path, "look", {})
        await asyncio.sleep(0)  # the client's socket is closed in the next turn of the loop
        link, _ = listener.accept()
        with link:
            assert link.recv(100) == b""
