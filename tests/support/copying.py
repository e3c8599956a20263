"""Copying files with the stock clients: sftp, scp, sshfs."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.driver import Person
from support.driver.person import CLEAN, SECONDS

WITHOUT_SSHFS = (
    ""
    if shutil.which("sshfs") and shutil.which("fusermount3") and os.access("/dev/fuse", os.W_OK)
    else "sshfs cannot run here: it needs the packages sshfs and fuse3, and /dev/fuse"
)
"""Why a test that mounts a room is skipped; "" if it is not."""

WITHOUT_RSYNC = "" if shutil.which("rsync") else "rsync is not installed"


def options(person: Person) -> list[str]:
    """The options of a client with a person's key, but for the port."""
    return [
        *("-F", "/dev/null", "-o", f"IdentityFile={person.identity}", "-o", "IdentitiesOnly=yes"),
        *("-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"),
        *("-o", f"UserKnownHostsFile={person.server.home / 'known_hosts'}"),
    ]


def sftp(person: Person, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines of `sftp -b`; the first without `-` that fails ends it."""
    return subprocess.run(
        ["sftp", *options(person), "-P", str(person.server.port), "-b", "-", _host(person)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=CLEAN,
        check=False,
    )


def scp(person: Person, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `scp`; `:PATH` stands for a path on the server."""
    return subprocess.run(
        scp_words(person, *words),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=CLEAN,
        check=False,
    )


def scp_words(person: Person, *words: str) -> list[str]:
    """The words of a command of scp."""
    given = [f"{_host(person)}{word}" if word.startswith(":") else word for word in words]
    return ["scp", *options(person), "-P", str(person.server.port), *given]


def begin_sftp(person: Person) -> subprocess.Popen[bytes]:
    """Start `sftp` with lines to come on standard input."""
    return subprocess.Popen(
        ["sftp", *options(person), "-P", str(person.server.port), "-b", "-", _host(person)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=CLEAN,
    )


@contextlib.contextmanager
def mounted(person: Person, path: str, at: Path, *more: str) -> Iterator[Path]:
    """Mount a folder of the server with sshfs."""
    at.mkdir(parents=True, exist_ok=True)
    words = ["sshfs", f"{_host(person)}:{path}", str(at), *options(person)]
    words += ["-p", str(person.server.port), *more]
    made = subprocess.run(
        words, capture_output=True, text=True, timeout=SECONDS, env=CLEAN, check=False
    )
    assert made.returncode == 0, made
    try:
        yield at
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(at)], check=True, timeout=SECONDS)


def _host(person: Person) -> str:
    return f"{person.name}@{person.server.host}"


def read_tree(folder: Path) -> dict[str, bytes]:
    """The files in a folder and their contents, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
