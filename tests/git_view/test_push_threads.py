"""What a push of many files is checked and named with, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from git_view.test_accept import make_push, push
from sshwarma.git import accept, session
from sshwarma.git.frames import HEAD, STATE
from sshwarma.git.session import GitSession
from sshwarma.services import services_of
from sshwarma.workspaces import change_notice
from support.git_access import ALLOWED
from support.people import Someone


def record_threads(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> list[threading.Thread]:
    """Return the threads in which a function is called from now on."""
    found: list[threading.Thread] = []
    real: Callable[..., Any] = getattr(owner, name)

    def record(*args: Any, **options: Any) -> Any:
        found.append(threading.current_thread())
        return real(*args, **options)

    monkeypatch.setattr(owner, name, record)
    return found


class FakeProcess:
    """A process that has said something and ended."""

    def __init__(self, said: bytes) -> None:
        self.pid = 0
        self.stdin = Mock()
        self.stdout, self.stderr = asyncio.StreamReader(), asyncio.StreamReader()
        self.stdout.feed_data(said)
        self.stdout.feed_eof()
        self.stderr.feed_eof()

    async def wait(self) -> int:
        return 0


class FakeStream:
    """A client that sends nothing."""

    def __init__(self) -> None:
        self.written = b""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        self.written += data


async def test_files_of_a_push_are_checked_and_named_in_threads(
    bob: Someone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = make_push(tmp_path, None, [("a", 0o100644, b"1"), ("b", 0o100755, b"2")])
    checked = record_threads(monkeypatch, accept, "find_path_problem")
    named = record_threads(monkeypatch, change_notice, "shorten_name")
    await push(bob, given)
    assert checked and threading.main_thread() not in checked
    assert named and threading.main_thread() not in named


async def test_what_the_process_says_is_read_in_a_thread(
    bob: Someone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"state": "push", "head": "", "changes": []}'
    said = HEAD.pack(STATE, len(body)) + body
    read = record_threads(monkeypatch, session, "_read_state")
    process: Any = FakeProcess(said)
    stream = FakeStream()
    workspaces = services_of(bob.caller).workspaces
    served = GitSession(process, stream, tmp_path, workspaces, ALLOWED)
    await served.run(bob.caller, None)
    assert b"could not be read" in stream.written
    assert read and threading.main_thread() not in read
