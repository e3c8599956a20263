"""Answers of commands where something is lost, moved or in use."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.common.exit_status import EXIT_FAILED, EXIT_USAGE
from support.driver import Server
from support.driver.fixtures import homes
from support.driver.server import forked_program


@pytest.fixture
def server() -> Iterator[Server]:
    with homes() as make:
        made = Server(make())
        yield made
        if made.process.poll() is None:
            assert made.stop() == 0


def test_directory_that_was_moved_under_a_server_gets_no_second_world(server: Server) -> None:
    moved = server.data_dir.with_name("moved")
    server.data_dir.rename(moved)
    try:
        for words in (("keys", "list"), ("init",), ("serve", "--listen", "127.0.0.1:0")):
            refused = server.cli(*words)
            assert refused.returncode == 1
            assert "is running, but the directory was moved or deleted. Move it" in refused.stderr
        checked = server.cli("doctor", "--json")
        assert checked.returncode == 1
        [finding] = [one for one in json.loads(checked.stdout) if not one["ok"]]
        assert finding["name"] == "data directory"
        assert finding["detail"].endswith("is running, but the directory was moved or deleted")
        assert not server.data_dir.exists()
    finally:
        moved.rename(server.data_dir)
    assert server.cli("keys", "list").returncode == 0


@pytest.mark.sqlite
def test_restore_beside_a_lost_database_says_to_save_the_world(
    server: Server, tmp_path: Path
) -> None:
    backup = tmp_path / "world.tar.gz"
    assert server.cli("backup", str(backup)).returncode == 0
    (server.data_dir / "world.db").rename(tmp_path / "world.db")
    refused = server.cli("restore", str(backup), "--force")
    assert refused.returncode == 1 and "do not stop it" in refused.stderr
    (tmp_path / "world.db").rename(server.data_dir / "world.db")


def test_commands_of_the_same_moment_wait_for_each_other(server: Server) -> None:
    server.stop()
    words = [str(forked_program()), "keys", "list", "--data-dir", str(server.data_dir)]
    running = [
        subprocess.Popen(
            words, env=server.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    said = [one.communicate()[1] for one in running]
    assert [one.returncode for one in running] == [0] * 4, said


@pytest.mark.parametrize("words", [("keys", "list"), ("doctor",), ("config", "show")])
def test_lost_json_is_said(server: Server, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(forked_program()), *words, "--json", "--data-dir", str(server.data_dir)],
            env=server.environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1 and "its output could not be written" in done.stderr


def test_rooms_and_keys_of_models_are_warnings(server: Server, tmp_path: Path) -> None:
    settings, empty = tmp_path / "world.toml", tmp_path / "key"
    empty.touch(mode=0o600)
    settings.write_text(
        f"data_dir = {json.dumps(str(server.data_dir))}\n"
        '[[models]]\nname = "far"\nkind = "openai"\nmodel = "m"\nkey_env = "NOT_HERE"\n'
        'rooms = ["lobby", "nowhere"]\n'
        f'[[models]]\nname = "near"\nkind = "openai"\nmodel = "m"\nkey_file = "{empty}"\n'
    )
    done = server.cli("doctor", "--config", str(settings))
    assert "FAIL  model far: no key in" in done.stdout, "the server has no such variable"
    assert "FAIL  model near: no key in the file" in done.stdout, "the server has no other file"
    assert "warn  model far: these rooms of it do not exist: nowhere" in done.stdout


def test_doctor_knows_the_file_and_the_variables_of_the_server(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_text(
        '[[models]]\nname = "far"\nkind = "openai"\nmodel = "m"\nkey_env = "HELD"\n'
        '[[mcp]]\nname = "near"\nurl = "http://127.0.0.1:9/mcp"\nallow_private = true\n'
        'headers = { X = "${HELD}" }\n'
    )
    server = Server(tmp_path / "s", "--config", str(file), environ={"HELD": "of the server"})
    try:

        def check(*words: str) -> str:
            command = [str(forked_program()), "doctor", "--data-dir", str(server.data_dir), *words]
            environ = {name: os.environ[name] for name in ("PATH",)} | {"HOME": str(tmp_path)}
            return subprocess.run(
                command, capture_output=True, text=True, check=False, env=environ
            ).stdout

        whole, other = check("--config", str(file)), check()
    finally:
        server.stop()
    assert "ok    model far" in whole and "ok    mcp near" in whole, whole
    assert "the running server reads" not in whole
    assert f"warn  settings: the running server reads {file}, which is not checked" in other
    assert f"      sshwarma doctor --config {file}" in other
    assert "FAIL  model far: no key in" in check("--config", str(file)), "no server runs now"


@pytest.mark.parametrize(("words", "code", "status"), [
    (("agents", "disable", "nobody"), "not_found", EXIT_FAILED),
    (("agents", "rename", "root", "two words"), "invalid", EXIT_USAGE),
    (("audit", "--verb", "nosuch"), "invalid", EXIT_USAGE),
])  # fmt: skip
def test_refusals_have_one_exit_status_with_and_without_a_server(
    words: tuple[str, ...], code: str, status: int, server: Server
) -> None:
    """As over ssh: 2 is malformed, 1 is anything else."""
    running = server.cli(*words, "--json")
    server.stop()
    stopped = server.cli(*words, "--json")
    assert (running.returncode, stopped.returncode) == (status, status), running.stdout
    assert json.loads(running.stdout)["error"] == json.loads(stopped.stdout)["error"] == code
