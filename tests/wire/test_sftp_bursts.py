"""What gathers over sftp becomes one version: whole, and nobody's work is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from support.copying import begin_sftp, scp, scp_words, sftp
from support.driver import Person, Server
from support.driver.person import CLEAN
from support.metrics import scrape
from support.processes import children_of
from support.waiting import until, wait_until
from wire.test_sftp import names, versions

SLOW = ("-l", "20000")
"""Options of scp: 20 Mbit a second, so that a large copy is still on its way."""

LARGE = 12_000_000


@contextlib.asynccontextmanager
async def connected(person: Person) -> AsyncIterator[Any]:
    """A client whose every request the test decides."""
    server = person.server
    async with (
        asyncssh.connect(
            *(server.host, server.port),
            username=person.name,
            client_keys=[str(person.identity)],
            known_hosts=None,
            config=None,
        ) as link,
        link.start_sftp_client() as client,
    ):
        yield client


def read(person: Person, room: str, path: str) -> bytes:
    done = person.run(f"file get {path} --room {room}")
    assert done.status == 0, done
    return done.raw


def temporary(server: Server) -> list[Path]:
    return list((server.data_dir / "blobs" / "tmp").glob("*"))


def is_on_its_way(server: Server) -> bool:
    """Whether an upload has left the memory for a temporary file."""
    for path in temporary(server):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > 2_000_000:
                return True
    return False


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve()


@pytest.fixture
def ann(server: Server) -> Person:
    return server.person("ann")


# Cut and whole


@pytest.mark.parametrize("how", ["client killed", "ssh killed", "ctrl-c"])
def test_cut_upload_is_discarded_and_whole_ones_are_kept(
    server: Server, ann: Person, tmp_path: Path, how: str
) -> None:
    (tmp_path / "whole").write_text("whole")
    (tmp_path / "large").write_bytes(os.urandom(LARGE))
    both = (f"{tmp_path}/whole", f"{tmp_path}/large")
    words = scp_words(ann, *SLOW, *both, ":rooms/lobby/workspace/")
    copy = subprocess.Popen(words, env=CLEAN, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: is_on_its_way(server))
    assert names(ann, "lobby") == []  # one burst, which goes on
    if how == "client killed":
        copy.kill()
    elif how == "ctrl-c":
        os.killpg(copy.pid, signal.SIGINT)
    else:
        (ssh,) = children_of(copy.pid, b"ssh")
        os.kill(ssh, signal.SIGKILL)
    try:
        copy.communicate(timeout=30)
    except subprocess.TimeoutExpired:  # it ignores SIGINT, as all that a shell starts behind it
        os.killpg(copy.pid, signal.SIGKILL)
        copy.communicate(timeout=30)
    wait_until(lambda: names(ann, "lobby") == ["whole"])
    assert temporary(server) == []
    assert read(ann, "lobby", "whole") == b"whole"
    assert len(versions(ann, "lobby")) == 1


def test_old_content_stays_when_its_replacement_is_cut(
    server: Server, ann: Person, tmp_path: Path
) -> None:
    ann.run("file put plan", b"old", "-T")
    (tmp_path / "new").write_bytes(os.urandom(LARGE))
    words = scp_words(ann, *SLOW, str(tmp_path / "new"), ":rooms/lobby/workspace/plan")
    copy = subprocess.Popen(words, env=CLEAN, stderr=subprocess.PIPE)
    wait_until(lambda: is_on_its_way(server))
    copy.kill()
    copy.communicate(timeout=30)
    wait_until(lambda: temporary(server) == [])
    assert read(ann, "lobby", "plan") == b"old"
    assert len(versions(ann, "lobby")) == 1


def test_killed_server_has_the_version_before_the_burst(
    server: Server, ann: Person, tmp_path: Path
) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a").write_text("new")
    (folder / "b").write_bytes(os.urandom(LARGE))
    assert scp(ann, "-r", str(tmp_path / "f" / "a"), ":rooms/lobby/workspace/a").returncode == 0
    (folder / "a").write_text("newer")
    words = scp_words(ann, *SLOW, f"{folder}/a", f"{folder}/b", ":rooms/lobby/workspace/")
    copy = subprocess.Popen(words, env=CLEAN, stderr=subprocess.PIPE)
    wait_until(lambda: is_on_its_way(server))
    server.kill()
    copy.communicate(timeout=30)
    assert copy.returncode != 0
    server.start()
    assert names(ann, "lobby") == ["a"]
    assert read(ann, "lobby", "a") == b"new"
    assert temporary(server) == []
    assert scp(ann, f"{folder}/a", ":rooms/lobby/workspace/a").returncode == 0
    assert read(ann, "lobby", "a") == b"newer"


def test_server_that_stops_keeps_what_was_whole(
    server: Server, ann: Person, tmp_path: Path
) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a").write_text("whole")
    (folder / "b").write_bytes(os.urandom(LARGE))
    words = scp_words(ann, *SLOW, f"{folder}/a", f"{folder}/b", ":rooms/lobby/workspace/")
    copy = subprocess.Popen(words, env=CLEAN, stderr=subprocess.PIPE)
    wait_until(lambda: is_on_its_way(server))
    assert server.stop() == 0
    _, said = copy.communicate(timeout=30)
    assert b"The server is shutting down" in said
    server.start()
    assert names(ann, "lobby") == ["a"]


# One version


def test_changes_become_a_version_while_the_client_stays(
    alice: Person, room: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")
    screen = alice.sit(room=room)
    client = begin_sftp(alice)
    assert client.stdin
    for name in ("one", "two"):
        client.stdin.write(f"put {tmp_path}/x rooms/{room}/workspace/{name}\n".encode())
    client.stdin.flush()
    screen.wait_for(f"{alice.name} changed 2 files by sftp: one, two")
    assert len(versions(alice, room)) == 1
    client.stdin.write(f"rm rooms/{room}/workspace/two\n".encode())
    client.stdin.flush()
    screen.wait_for(f"{alice.name} removed two by sftp")
    client.communicate(timeout=30)
    assert client.returncode == 0
    assert names(alice, room) == ["one"]


async def test_file_is_there_for_its_writer_from_its_opening_on(alice: Person, room: str) -> None:
    path = f"rooms/{room}/workspace/new"
    async with connected(alice) as client, connected(alice) as other:
        file = await client.open(path, "wb")
        await file.write(b"12345")
        assert (await client.stat(path)).size == 5
        assert "new" in await client.listdir(f"rooms/{room}/workspace")
        async with client.open(path, "rb") as reader:
            assert await reader.read() == b"12345"
        assert not await other.exists(path)
        await file.close()
        await until(lambda: names(alice, room) == ["new"])
        assert (await other.stat(path)).size == 5


async def test_reader_keeps_the_content_that_it_opened(alice: Person, room: str) -> None:
    alice.run(f"file put a --room {room}", b"x" * 300_000, "-T")
    async with connected(alice) as client:
        file = await client.open(f"rooms/{room}/workspace/a", "rb")
        assert await file.read(10) == b"x" * 10
        alice.run(f"file put a --room {room}", b"y", "-T")
        assert await file.read() == b"x" * 299_990
        async with client.open(f"rooms/{room}/workspace/a", "rb") as again:
            assert await again.read() == b"y"


async def test_parts_are_written_anywhere(alice: Person, room: str) -> None:
    path = f"rooms/{room}/workspace/a"
    async with connected(alice) as client:
        async with client.open(path, "wb") as file:
            await file.write(b"end", 2_000_000)
            await file.write(b"start", 0)
        async with client.open(path, "ab") as file:
            await file.write(b"!")
        async with client.open(path, "r+b") as file:
            await file.write(b"S", 0)
        assert (await client.stat(path)).size == 2_000_004
        await client.truncate(path, 1_999_999)
        await client.truncate(path, 2_000_001)
    data = read(alice, room, "a")
    assert data == b"Start" + bytes(2_000_001 - 5)
    assert len(versions(alice, room)) == 1


# Two people


async def test_both_contents_are_kept_when_two_change_a_file(
    alice: Person, bob: Person, room: str
) -> None:
    alice.run(f"file put plan.md --room {room}", b"walls\n", "-T")
    alice.run(f"file put old.md --room {room}", b"old\n", "-T")
    screen = bob.sit(room=room)
    at_home = alice.sit()
    top = f"rooms/{room}/workspace"
    async with connected(alice) as client:
        file = await client.open(f"{top}/plan.md", "wb")
        await file.write(b"roof\n")
        assert bob.run(f"file put plan.md --room {room}", b"floor\n", "-T").status == 0
        await file.close()
        await client.remove(f"{top}/old.md")
    assert read(alice, room, "plan.md") == b"floor\n"
    kept = f"plan.md.from-{alice.name}"
    assert read(alice, room, kept) == b"roof\n"
    assert names(alice, room) == ["plan.md", kept]
    screen.wait_for(f"{alice.name} changed {kept} by sftp; removed old.md")
    screen.wait_for("both kept")
    at_home.wait_for("sftp: Files changed by others meanwhile, both kept")


def test_two_people_copy_at_once(alice: Person, bob: Person, room: str, tmp_path: Path) -> None:
    copies = []
    for person in (alice, bob):
        folder = tmp_path / person.name
        folder.mkdir()
        for number in range(40):
            (folder / f"{number}").write_text(f"{person.name} {number}")
        words = scp_words(person, "-r", str(folder), f":rooms/{room}/workspace/")
        copies.append(subprocess.Popen(words, env=CLEAN, stderr=subprocess.PIPE))
    for copy in copies:
        assert copy.communicate(timeout=60)[1] == b"" and copy.returncode == 0
    assert len(names(alice, room)) == 80
    assert len(versions(alice, room)) == 2
    for person in (alice, bob):
        assert read(alice, room, f"{person.name}/39") == f"{person.name} 39".encode()


# Rights that end


async def test_who_is_banned_meanwhile_neither_reads_nor_keeps(
    alice: Person, bob: Person, room: str
) -> None:
    top = f"rooms/{room}/workspace"
    alice.run(f"file put secret --room {room}", b"s" * 100_000, "-T")
    async with connected(bob) as client:
        written = await client.open(f"{top}/mine", "wb")
        opened = await client.open(f"{top}/secret", "rb")
        await written.write(b"mine")
        await opened.read(1)
        alice.does(f"ban {bob.name} --room {room}")
        with pytest.raises(asyncssh.SFTPPermissionDenied, match="banned"):
            await opened.read(1, 50_000)
        with pytest.raises(asyncssh.SFTPPermissionDenied, match="banned"):
            await written.write(b"more")
        with pytest.raises(asyncssh.SFTPError):
            await written.close()
        for work in (client.stat(top), client.listdir(top), client.open(f"{top}/secret")):
            with pytest.raises(asyncssh.SFTPPermissionDenied):
                await work
    assert names(alice, room) == ["secret"]


async def test_disabled_account_is_sent_away(server: Server, ann: Person) -> None:
    async with connected(ann) as client:
        file = await client.open("rooms/lobby/workspace/a", "wb")
        server.operate("agents_disable", name="ann")
        with pytest.raises((asyncssh.Error, OSError)):
            for _ in range(1000):
                await file.write(b"x")
    assert names(server.owner, "lobby") == []


# Limits


async def test_limits_refuse_before_work_and_keep_nothing(server: Server, ann: Person) -> None:
    top = "rooms/lobby/workspace"
    async with connected(ann) as client:
        far = await client.open(f"{top}/far", "wb")
        with pytest.raises(asyncssh.SFTPFailure, match=r"268,435,456 bytes .it is larger"):
            await far.write(b"x", 2**60)
        with pytest.raises(asyncssh.SFTPFailure, match="was not stored"):
            await far.close()
        assert not await client.exists(f"{top}/far")
        with pytest.raises(asyncssh.SFTPFailure):
            await client.open(f"{top}/{'x' * 256}", "wb")
        files = [await client.open(f"{top}/{number}", "wb") for number in range(16)]
        with pytest.raises(asyncssh.SFTPFailure, match="at most 16"):
            await client.open(f"{top}/17", "wb")
        with pytest.raises(asyncssh.SFTPFailure, match="at most 16"):
            await client.listdir(top)
        for file in files:
            await file.close()
        assert len(await client.listdir(top)) == 18  # with . and ..
    assert len(names(ann, "lobby")) == 16


def test_full_room_takes_nothing_of_a_file_that_is_too_large(
    server: Server, ann: Person, tmp_path: Path
) -> None:
    half = tmp_path / "half"
    half.write_bytes(bytes(140 * 1024 * 1024))
    assert scp(ann, str(half), ":rooms/lobby/workspace/one").returncode == 0
    refused = scp(ann, str(half), ":rooms/lobby/workspace/two")
    assert refused.returncode != 0
    assert "A workspace has at most 268,435,456 bytes" in refused.stderr
    assert names(ann, "lobby") == ["one"]
    assert temporary(server) == []
    assert scp(ann, str(half), ":rooms/lobby/workspace/one").returncode == 0  # in its place


def test_hour_of_files_is_counted(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(limits__files_mib_per_hour=1)
    ann = server.person("ann")
    (tmp_path / "x").write_bytes(os.urandom(700_000))
    top = ":rooms/lobby/workspace"
    assert scp(ann, f"{tmp_path}/x", f"{top}/one").returncode == 0
    refused = scp(ann, f"{tmp_path}/x", f"{top}/two")
    assert refused.returncode != 0
    assert "You can store at most 1 MiB of files in an hour." in refused.stderr
    assert names(ann, "lobby") == ["one"]


async def test_file_that_is_never_closed_counts(serve: Callable[..., Server]) -> None:
    """Else connections of one person could fill the disk by files on their way."""
    server = serve(limits__files_mib_per_hour=2)
    ann = server.person("ann")
    async with connected(ann) as client:
        first = await client.open("rooms/lobby/workspace/first", "wb")
        await first.write(bytes(1_500_000))
        second = await client.open("rooms/lobby/workspace/second", "wb")
        with pytest.raises(asyncssh.SFTPError, match="at most 2 MiB of files in an hour"):
            await second.write(bytes(1_500_000))
            await second.close()


async def test_gc_keeps_what_a_burst_needs(server: Server, ann: Person) -> None:
    top = "rooms/lobby/workspace"
    async with connected(ann) as client:
        large = await client.open(f"{top}/large", "wb")
        await large.write(bytes(3_000_000))
        async with client.open(f"{top}/small", "wb") as small:
            await small.write(b"small")
        await large.write(b"x")  # the burst goes on
        for path in (server.data_dir / "blobs").rglob("*"):
            if path.is_file():
                os.utime(path, (0, 0))
        assert server.owner.json("gc files --yes")["count"] == 0
        await large.close()
    assert read(ann, "lobby", "small") == b"small"
    assert len(read(ann, "lobby", "large")) == 3_000_001
    assert server.query("SELECT count(*) FROM manifests") == [(1,)]


def test_open_clients_are_counted(server: Server, ann: Person) -> None:
    assert sftp(ann, "ls").returncode == 0
    client = begin_sftp(ann)
    assert client.stdout
    wait_until(lambda: scrape(server).value("sshwarma_sftp_clients") == 1)
    client.communicate(timeout=30)
    wait_until(lambda: scrape(server).value("sshwarma_sftp_clients") == 0)
