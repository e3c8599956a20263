"""The verb `/file search`: what it finds, refuses and leaves out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import FILE_SEARCH_TIMEOUT_SECONDS, MAX_SEARCHED_LINE_CHARACTERS
from sshwarma.tools.patterns import LineMatcher
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import API_CLIENT
from support.people import Someone, do


async def put(someone: Someone, **files: str) -> None:
    for path, text in files.items():
        await do(someone, f"/file put {path} = {text}")


def plain(result: Any) -> str:
    return draw_result(result, API_CLIENT).plain()


async def test_search_finds_lines_with_those_around_them(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "a.py", "content": "import x\r\ndef f():\n  x\n"})
    await invoke(bob.caller, "file put", {"path": "d/b.py", "content": "def g(): pass\n"})
    await invoke(bob.caller, "file put", {"path": "c.md", "content": "a def in prose\n"})
    await invoke(bob.caller, "file put", {"path": "z", "content": "AGRlZg==", "encoded": True})
    found = await do(bob, r"/file search '^def \\w+' *.py --context 1")
    assert [(match.path, match.line, match.text) for match in found.matches] == [
        ("a.py", 2, "def f():"), ("d/b.py", 1, "def g(): pass")
    ]  # fmt: skip
    assert (found.matches[0].before, found.matches[0].after) == (("import x",), ("  x",))
    assert plain(await do(bob, "/file search 'DEF'")).splitlines() == [
        "0 lines in 3 files, 1 binary file left out."
    ]
    listed = plain(await do(bob, "/file search '(?i)DEF' --limit 2"))
    assert listed.splitlines() == [
        "a.py:2:def f():", "c.md:1:a def in prose",
        "2 lines in 2 files. There may be more lines.",
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["(", "[a", r"(\\w{900}){900}", "(?=x)", r"(a)\\1", "x" * 2000])
async def test_pattern_that_is_costly_or_unknown_is_refused(bob: Someone, pattern: str) -> None:
    await put(bob, a="x")
    with pytest.raises(Invalid, match="pattern: "):
        await invoke(bob.caller, "file search", {"pattern": pattern.replace("\\\\", "\\")})


async def test_catastrophic_pattern_takes_no_time(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "a", "content": "a" * 5_000 + "!\n"})
    found = await invoke(bob.caller, "file search", {"pattern": "^(a+)+$"})
    assert (found.matches, found.stopped) == ((), "")


async def test_newline_at_the_end_begins_no_line_to_search(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "a", "content": "x\r\n\ny\n"})
    found = await invoke(bob.caller, "file search", {"pattern": "^$", "context": 2})
    assert [(one.line, one.before, one.after) for one in found.matches] == [(2, ("x",), ("y",))]


async def test_search_ends_in_time(bob: Someone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sshwarma.verbs.file_search.FILE_SEARCH_TIMEOUT_SECONDS", -1.0)
    await put(bob, a="x")
    found = await do(bob, "/file search x")
    assert "not all files were searched" in found.stopped


async def test_time_for_a_search_begins_when_a_thread_is_free(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads may be busy with other work for longer than a search may take."""
    now = 0.0

    async def run_late(work: Callable[[threading.Event], Any]) -> Any:
        nonlocal now
        now += 2 * FILE_SEARCH_TIMEOUT_SECONDS
        return await run_in_thread(work)

    await put(bob, a="x")
    monkeypatch.setattr("sshwarma.verbs.file_search.time.monotonic", lambda: now)
    monkeypatch.setattr("sshwarma.verbs.file_search.run_in_thread", run_late)
    found = await do(bob, "/file search x")
    assert (len(found.matches), found.stopped) == (1, "")


async def test_search_reads_the_first_characters_of_a_long_line(bob: Someone) -> None:
    """The engine holds Python's lock for a whole line: 7 s for one of 12 MiB."""
    width = MAX_SEARCHED_LINE_CHARACTERS
    lines = ("-" * (width - 1) + "b", "-" * width + "b", "b")
    await invoke(bob.caller, "file put", {"path": "a", "content": "\n".join(lines)})
    found = await do(bob, "/file search b")
    assert [match.line for match in found.matches] == [1, 3]
    assert (found.cut_lines, found.line_characters) == (1, width)
    assert plain(found).splitlines()[-1] == (
        f"2 lines in 1 file. Of 1 long line, only the first {width} characters were searched."
    )


async def test_search_looks_at_the_time_between_long_lines(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "-" * MAX_SEARCHED_LINE_CHARACTERS
    await invoke(bob.caller, "file put", {"path": "a", "content": "\n".join([line] * 20)})
    seconds, searched = count(), []

    def matches(_: LineMatcher, text: str) -> bool:
        searched.append(text)
        return False

    monkeypatch.setattr(LineMatcher, "matches", matches)
    monkeypatch.setattr("sshwarma.verbs.file_search.time.monotonic", lambda: float(next(seconds)))
    found = await do(bob, "/file search b")
    assert "not all files were searched" in found.stopped
    assert 0 < len(searched) < 20
