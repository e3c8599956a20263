"""Files whose content is lost: what names them with room and version."""

from __future__ import annotations

import os

from sshwarma.services import services_of
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.rendered_file import load_content
from sshwarma.verbs.views import draw_result
from sshwarma.workspaces.damaged_files import LOST_CONTENT_HINT
from sshwarma.world.reader import API_CLIENT
from support.people import Someone, do, refused

LOST = f"first {os.getpid()}"
"""A content that is deleted: tests of all processes have the same store of contents."""


async def lose_first(bob: Someone) -> tuple[str, str]:
    """Return two versions of plan.md; the first has lost its content."""
    await do(bob, f"/file put plan.md = {LOST}")
    (entry,) = (await do(bob, "/files")).files
    await do(bob, "/file put plan.md = second")
    services_of(bob.caller).workspaces.blobs.path_of(entry.sha256).unlink()
    new, old = (await do(bob, "/file history")).versions
    return old.id[-6:], new.id[-6:]


def name(version: str) -> str:
    """What is said of the file in a version."""
    file = f"plan.md in lobby, version {version}"
    return f"A content is missing or damaged in the data directory: {file}."


async def test_old_version_of_a_file_is_named(bob: Someone) -> None:
    old, _ = await lose_first(bob)
    for action in ("show", "get"):
        refusal = await refused(bob, f"/file {action} plan.md --at {old}")
        assert refusal.message == name(old)


async def test_diff_names_what_is_lost_and_compares_the_rest(bob: Someone) -> None:
    old, new = await lose_first(bob)
    await do(bob, "/file put other.md = here")
    newest = (await do(bob, "/file history")).versions[0].id[-6:]
    found = await do(bob, f"/file diff --old {old} --new {newest}")
    notes = {item.path: (item.note, item.diff) for item in found.files}
    assert notes["plan.md"] == (name(old), "")
    assert "+here" in notes["other.md"][1]
    assert new != newest


async def test_search_names_what_is_lost_and_searches_the_rest(bob: Someone) -> None:
    for name_of_lost in "abcdefg":
        await do(bob, f"/file put {name_of_lost}.md = {LOST}")
    lost = (await do(bob, "/files")).files[0]
    services_of(bob.caller).workspaces.blobs.path_of(lost.sha256).unlink()
    await do(bob, "/file put z.md = first again")
    await invoke(bob.caller, "file put", {"path": "y", "content": "AAEC", "encoded": True})
    found = await do(bob, "/file search first")
    assert [(match.path, match.line) for match in found.matches] == [("z.md", 1)]
    assert (found.files, found.skipped, found.damaged_count) == (1, 8, 7)
    assert found.damaged == ("a.md", "b.md", "c.md", "d.md", "e.md")
    assert draw_result(found, API_CLIENT).plain().splitlines()[-1] == (
        "1 line in 1 file, 1 binary file left out. The contents of 7 files are missing or damaged:"
        f" a.md, b.md, c.md, d.md, e.md and 2 more. {LOST_CONTENT_HINT}"
    )
    one = await do(bob, "/file search first a.md")
    assert draw_result(one, API_CLIENT).plain().splitlines() == [
        "0 lines in 0 files. The content of 1 file is missing or damaged:"
        f" a.md. {LOST_CONTENT_HINT}"
    ]


async def test_rendered_result_says_that_its_file_is_lost(bob: Someone) -> None:
    await do(bob, f"/file put plan.md = {LOST}")
    (entry,) = (await do(bob, "/files")).files
    services_of(bob.caller).workspaces.blobs.path_of(entry.sha256).unlink()
    version = (await do(bob, "/file history")).versions[0].id[-6:]
    plan = {"renderer": "document", "config": {"file": "plan.md"}}
    loaded = await load_content(bob.caller, plan)
    assert loaded is not None and loaded["config"]["content"] == name(version)
