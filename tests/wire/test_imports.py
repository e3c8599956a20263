"""`sshwarma import` with and without a server: once, twice, and after a kill."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.driver import Server
from support.driver.server import PROGRAM
from support.sandboxes import needs_bubblewrap
from support.sources import hash_folder, make_slbp, make_slop
from support.toolset_kit import kit
from support.waiting import wait_until


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    make_slop(folder / "slop.db")
    make_slbp(folder / "slbp", [("/srv/garden", "plan", "first the walls")])
    return folder


def run_import(server: Server, source: Path, *words: str) -> dict[str, Any]:
    done = server.cli("import", str(source), *words, "--json")
    assert done.returncode == 0, done
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def count_new(result: dict[str, Any]) -> int:
    return sum(one["new"] for one in result["counts"].values())


def test_people_read_what_was_imported(serve: Callable[..., Server], sources: Path) -> None:
    server = serve()
    before = hash_folder(sources)
    tried = run_import(server, sources / "slop.db")
    assert (tried["applied"], tried["kind"]) == (False, "slop")
    assert "garden-plan" not in server.owner.does("rooms")
    done = run_import(server, sources / "slop.db", "--apply")
    assert done["counts"] == tried["counts"]
    assert done["rooms"]["Garden Plan"] == "garden-plan"
    log = server.owner.does("history --room garden-plan")
    assert "slop: They are in plan.md." in log
    assert "10:02" in log
    assert "Goal: walls" in server.owner.does("notes --room garden-plan slop")
    assert "Know all about walls." in server.owner.does("skill show wall-expert")
    assert "is 3:" in server.owner.does("context window --room garden-plan")
    assert "120 tokens" in server.owner.does("stats --room garden-plan")
    assert run_import(server, sources / "slbp", "--apply")["kind"] == "slbp"
    value = server.owner.does("mem project get plan --project /srv/garden")
    assert "first the walls" in value
    assert not Path("/srv/garden").exists()
    for source in ("slop.db", "slbp"):
        assert count_new(run_import(server, sources / source, "--apply")) == 0
    assert hash_folder(sources) == before
    audit = server.cli("audit", "--verb", "import").stdout.splitlines()
    assert [line.count("--kind") for line in audit if "import" in line] == [1, 1]


def test_private_conversations_are_the_persons_alone(
    serve: Callable[..., Server], sources: Path
) -> None:
    server = serve()
    bob = server.person("bob")
    run_import(server, sources / "slop.db", "--apply", "--person", "bob")
    assert "Where are the walls?" in bob.does("history --room garden-plan")
    eve = server.person("eve")
    assert eve.run("history --room garden-plan").status == 1


def test_model_that_is_added_later_is_sent_the_conversation(
    serve: Callable[..., Server], sources: Path
) -> None:
    server = serve()
    run_import(server, sources / "slop.db", "--apply", "--model", "qwen")
    server.owner.does("model add qwen ollama qwen3:8b")
    composed = server.owner.does("wrap @qwen --room garden-plan")
    assert "They are in plan.md." in composed
    assert "Forget this." not in composed


def test_kill_in_the_middle_is_completed_by_another_run(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    talk = [
        (n, "long", ("user", "assistant")[n % 2], f"line {n} end", "", "completed", n, f"g{n // 2}")
        for n in range(1, 6001)
    ]
    file = make_slop(tmp_path / "slop.db", talk)
    command = [str(PROGRAM), "import", str(file), "--apply", "--data-dir", str(server.data_dir)]

    def count() -> int:
        query = "SELECT count(*) FROM rows WHERE content LIKE 'line % end'"
        return int(server.query(query)[0][0])

    running = subprocess.Popen(command, cwd=tmp_path, env=server.environ)
    wait_until(lambda: count() > 0, seconds=120)  # a busy machine stores the first part late
    running.kill()
    running.wait()
    stored = count()
    assert 0 < stored < 6000
    server.kill()
    server.start()
    done = run_import(server, file, "--apply")
    assert done["counts"]["messages"]["new"] + stored >= 6000
    query = "SELECT content, seq FROM rows WHERE content LIKE 'line % end' ORDER BY n"
    found = server.query(query)
    assert found == [(f"line {n} end", n) for n in range(1, 6001)]


def test_import_without_a_server_is_read_after_the_start(
    serve: Callable[..., Server], sources: Path
) -> None:
    server = serve()
    server.stop()
    run_import(server, sources / "slop.db", "--apply")
    refused = server.cli("import", str(sources / "slbp"), "--person", "nobody")
    assert (refused.returncode, "Unknown" in refused.stderr) == (1, True), refused
    server.start()
    assert "You are welcome." in server.owner.does("history --room garden-plan")
    assert count_new(run_import(server, sources / "slop.db", "--apply")) == 0


@needs_bubblewrap
def test_bundle_of_covalt_is_installed_by_a_running_server(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    folder = tmp_path / "kit"
    for name, text in kit("kit").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".env").write_text("SECRET=1")
    before = hash_folder(folder)
    tried = run_import(server, folder)
    assert (tried["kind"], tried["toolset"]["state"]) == ("covalt", "new")
    assert [one["names"] for one in tried["left_out"] if one["what"] == "files"] == [[".env"]]
    assert "kit" not in server.owner.does("toolset list")
    server.stop()
    refused = server.cli("import", str(folder), "--apply")
    assert (refused.returncode, "sandbox" in refused.stderr) == (1, True), refused
    server.start()
    done = run_import(server, folder, "--apply")
    assert done["toolset"]["how"] == "installed"
    assert tried["toolset"]["id"] in server.owner.does("toolset list")
    assert run_import(server, folder, "--apply")["toolset"]["state"] == "known"
    shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    assert run_import(server, tmp_path / "packed.zip")["toolset"]["id"] == "kit"
    assert hash_folder(folder) == before
    assert not list(server.data_dir.glob(".sshwarma-work-*"))


def test_source_that_is_nothing_is_refused_in_words(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    for name, words in (
        ("empty", "nothing that can be imported"),
        ("text.txt", "nothing that can be imported"),
        ("missing", "does not exist"),
    ):
        refused = server.cli("import", str(tmp_path / name), "--apply")
        assert refused.returncode in (1, 2), refused
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
