"""The verbs on files: what they store, show, refuse and say."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from threading import get_ident
from typing import Any

import pytest

from sshwarma.common.limits import MAX_COMPARED_FILES
from sshwarma.services import services_of
from sshwarma.verbs.completion import complete
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.file_views import FileChange, FileData, FileEdit, FileText
from sshwarma.verbs.views import draw_result, dump_json
from sshwarma.world import rows
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, RateLimited
from sshwarma.world.reader import API_CLIENT
from sshwarma.world.world import World
from support.people import Someone, do, refused, settle


async def put(someone: Someone, **files: str) -> None:
    for path, text in files.items():
        await do(someone, f"/file put {path} = {text}")


async def paths(someone: Someone, line: str = "/files") -> list[str]:
    return [item.path for item in (await do(someone, line)).files]


def plain(result: Any) -> str:
    return draw_result(result, API_CLIENT).plain()


async def test_typed_text_is_stored_with_a_newline_at_its_end(bob: Someone) -> None:
    made = await do(bob, "/file put docs/plan.md = First the walls")
    assert isinstance(made, FileChange)
    assert made.text == "Made docs/plan.md (16 B)."
    assert (await do(bob, "/file show docs/plan.md")).text == "First the walls"
    data = await do(bob, "/file get docs/plan.md")
    assert isinstance(data, FileData)
    assert base64.b64decode(data.data) == b"First the walls\n"


async def test_program_stores_exactly_what_it_gives(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "a", "content": "x\n\n"})
    await invoke(bob.caller, "file put", {"path": "b", "content": "AAEC", "encoded": True})
    assert base64.b64decode((await do(bob, "/file get a")).data) == b"x\n\n"
    assert base64.b64decode((await do(bob, "/file get b")).data) == b"\0\1\2"
    shown = await do(bob, "/file show b")
    assert isinstance(shown, FileText)
    assert (shown.kind, shown.text) == ("binary", "")
    with pytest.raises(Invalid, match="content: is not base64"):
        await invoke(bob.caller, "file put", {"path": "c", "content": "?", "encoded": True})


async def test_same_content_makes_no_version(bob: Someone) -> None:
    await put(bob, a="x")
    before = (await do(bob, "/file history")).versions
    assert (await do(bob, "/file put a = x")).text == "a has this content already."
    assert (await do(bob, "/file history")).versions == before


async def test_list_has_folders_patterns_and_versions(bob: Someone) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.txt", "d.md"):
        await do(bob, f"/file put {path} = x")
    assert await paths(bob) == ["a.py", "d.md", "src/b.py", "src/deep/c.txt"]
    assert await paths(bob, "/files src") == ["src/b.py", "src/deep/c.txt"]
    assert await paths(bob, "/files *.py") == ["a.py", "src/b.py"]
    assert await paths(bob, "/files src/*") == ["src/b.py", "src/deep/c.txt"]
    first = (await do(bob, "/file history")).versions[-1].id
    assert await paths(bob, f"/files --at {first[-6:]}") == ["a.py"]
    shown = draw_result(await do(bob, "/files")).plain()
    assert "src/\n" in shown
    assert plain(await do(bob, "/files")).splitlines()[1] == "a.py  2 B"


async def test_lines_are_read_with_their_numbers(bob: Someone) -> None:
    lines = "\n".join(f"line {n}" for n in range(1, 31))
    await invoke(bob.caller, "file put", {"path": "a", "content": lines})
    shown = await do(bob, "/file show a --offset 10 --limit 3")
    assert (shown.text, shown.left) == ("line 10\nline 11\nline 12", 18)
    assert "    10\tline 10\n    11\tline 11" in plain(shown)
    assert "and 18 more lines, from offset 13" in plain(shown)
    with pytest.raises(Invalid, match="offset: the file has 30 lines"):
        await do(bob, "/file show a --offset 31")


async def test_part_is_replaced_and_shown(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "a.py", "content": "x = 1\ny = 2\n"})
    made = await do(bob, "/file replace a.py 'x = 1' 'x = 3'")
    assert isinstance(made, FileEdit)
    assert (made.offset, made.text) == (1, "x = 3\ny = 2")
    assert (await do(bob, "/file show a.py")).text == "x = 3\ny = 2"
    with pytest.raises(NotFound, match="old is not in the file"):
        await do(bob, "/file replace a.py qqqqqqqqqqq z")


async def test_moving_and_removing_make_versions_that_come_back(bob: Someone) -> None:
    for path in ("src/a", "src/b", "c"):
        await do(bob, f"/file put {path} = {path}")
    whole = (await do(bob, "/file history")).versions[0].id[-6:]
    assert (await do(bob, "/file mv src lib")).text == "Moved src to lib."
    assert (await do(bob, "/file rm lib")).text == "Removed lib, 2 files."
    assert await paths(bob) == ["c"]
    back = await do(bob, f"/file restore {whole} src/a")
    assert back.text.startswith("Restored src/a of version")
    assert await paths(bob) == ["c", "src/a"]
    await do(bob, f"/file restore {whole}")
    assert await paths(bob) == ["c", "src/a", "src/b"]
    with pytest.raises(Conflict, match="Every file is as in version"):
        await do(bob, f"/file restore {whole}")
    with pytest.raises(NotFound, match="lib is not in version"):
        await do(bob, f"/file restore {whole} lib")


async def test_history_and_difference_of_one_file(bob: Someone) -> None:
    await put(bob, a="one", b="other")
    await put(bob, a="two")
    history = await do(bob, "/file history a")
    assert [version.paths for version in history.versions] == [("a",), ("a",)]
    assert history.versions[0].by == "bob"
    await put(bob, b="changed")
    found = await do(bob, "/file diff a")
    assert [item.diff for item in found.files] == ["@@ -1 +1 @@\n-one\n+two"]
    whole = await do(bob, f"/file diff --old {history.versions[-1].id[-6:]}")
    assert [(item.path, item.change) for item in whole.files] == [
        ("a", "changed"), ("b", "added")
    ]  # fmt: skip


async def test_history_marks_what_happened_to_each_path(bob: Someone) -> None:
    await put(bob, a="one", b="other")
    await put(bob, a="two")
    await do(bob, "/file rm a")
    history = await do(bob, "/file history")
    assert [dict(version.changes) for version in history.versions] == [
        {"a": "removed"}, {"a": "changed"}, {"b": "added"}, {"a": "added"}
    ]  # fmt: skip
    rows = draw_result(history).plain().splitlines()
    assert [row.partition("edit")[2].strip() for row in rows[1:5]] == ["- a", "~ a", "+ b", "+ a"]
    assert "+ added, ~ changed, - removed" in rows[5]
    assert dump_json(history)["versions"][0]["changes"] == {"a": "removed"}
    shown = draw_result(await do(bob, "/file version")).plain()
    assert "  changes: - a\n" in shown


async def test_history_names_the_first_paths_and_counts_the_others(bob: Someone) -> None:
    for number in range(8):
        await do(bob, f"/file put d/f{number} = x")
    await do(bob, "/file rm d")
    newest = (await do(bob, "/file history")).versions[0]
    assert newest.changed == 8
    assert dict(newest.changes) == {f"d/f{number}": "removed" for number in range(5)}
    shown = draw_result(await do(bob, "/file history --n 1")).plain()
    assert "- d/f0, - d/f1, - d/f2, - d/f3, - d/f4 and 3 more" in shown


async def test_restored_files_are_listed_as_those_of_any_change(bob: Someone) -> None:
    for number in range(MAX_COMPARED_FILES + 10):
        made = await do(bob, f"/file put d/f{number} = x")
    await do(bob, "/file rm d")
    back = await do(bob, f"/file restore {made.version[-6:]}")
    assert len(back.paths) == back.count == MAX_COMPARED_FILES + 10


async def test_history_says_which_version_was_restored(bob: Someone) -> None:
    await put(bob, a="one")
    await put(bob, a="two")
    first = (await do(bob, "/file history")).versions[-1].id
    await do(bob, f"/file restore {first[-6:]}")
    history = await do(bob, "/file history")
    assert (history.versions[0].source, history.versions[0].source_ref) == ("edit", first)
    assert f"  restore of {first[-6:]}  ~ a\n" in draw_result(history).plain()
    assert f"restore of {first[-6:]} by bob" in draw_result(await do(bob, "/file version")).plain()


async def test_guest_reads_and_does_not_write(bob: Someone, guest: Someone) -> None:
    await put(bob, a="x")
    assert await paths(guest) == ["a"]
    error = await refused(guest, "/file put b = y")
    assert isinstance(error, Forbidden)
    assert "create right" in error.message
    await refused(guest, "/file rm a")


async def test_refusals_change_nothing(bob: Someone) -> None:
    await put(bob, **{"dir/a": "x"})
    for line, why in (
        ("/file put ../x = y", "must not leave the workspace"),
        ("/file put /etc/x = y", "must be relative"),
        ("/file put dir = y", "dir is a folder"),
        ("/file put dir/a/b = y", "dir/a is a file"),
        ("/file show dir", "dir is a folder"),
        ("/file show dir/b", "Did you mean dir/a"),
        ("/file put x", "content: must not be empty"),
        ("/file mv dir dir/x", "into itself"),
        ("/file restore zzzzzz", "Unknown version zzzzzz"),
        ("/file mkdir dir", "already exists"),
        ("/file put new/ = y", "path: 'new/' names a folder"),
        ("/file edit new/", "path: 'new/' names a folder"),
        ("/file mv dir/a docs/", "There is no folder docs. file_mkdir"),
        ("/file mv nosuch y", "lists them."),
    ):
        error = await refused(bob, line)
        assert why in f"{error.message} {error.hint_for(API_CLIENT)}", line


async def test_workspace_of_another_room_is_another(bob: Someone) -> None:
    await put(bob, a="x")
    await do(bob, "/create annex")
    assert await paths(bob) == []
    await put(bob, b="y")
    await do(bob, "/join lobby")
    assert await paths(bob) == ["a"]


@pytest.mark.parametrize("line", ["/fork lobby twin", "/clone lobby twin"])
async def test_copy_of_a_room_has_its_files(bob: Someone, line: str) -> None:
    await put(bob, a="x", b="y")
    await do(bob, line)
    assert await paths(bob) == ["a", "b"]
    (version,) = (await do(bob, "/file history")).versions
    assert version.source == "branch"
    await put(bob, a="z")
    await do(bob, "/join lobby")
    assert (await do(bob, "/file show a")).text == "x"


async def test_copy_of_a_room_without_files_has_none(bob: Someone) -> None:
    await do(bob, "/create empty")
    await do(bob, "/fork empty twin")
    assert await paths(bob) == []


async def test_room_has_a_notice_of_each_change(world: World, bob: Someone) -> None:
    await put(bob, a="x")
    await do(bob, "/file rm a")
    found = await world.store.read(lambda conn: rows.read_tail(conn, "lobby", 10))
    assert [row.content for row in found if row.kind == "notice"] == ["made a", "removed a"]


async def test_hourly_volume_of_files_is_limited(bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"files_mib_per_hour": 1})
    content = "x" * 700_000
    await invoke(bob.caller, "file put", {"path": "a", "content": content})
    with pytest.raises(RateLimited, match="1 MiB of files in an hour"):
        await invoke(bob.caller, "file put", {"path": "b", "content": f"{content}y"})


async def test_too_many_files_are_refused_before_anything_is_stored(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.workspaces.workspace.MAX_WORKSPACE_ENTRIES", 2)
    monkeypatch.setattr("sshwarma.workspaces.workspace.MAX_WORKSPACE_BYTES", 100)
    await put(bob, a="1", b="2")
    assert "at most 2 files: this would be 3" in (await refused(bob, "/file put c = 3")).message
    assert "at most 100 bytes" in (await refused(bob, f"/file put a = {'x' * 100}")).message
    await do(bob, "/file rm a")


async def test_files_of_a_world_that_has_a_server_of_that_name(world: World) -> None:
    """A world that is older than the namespace keeps what is called so."""
    from sshwarma.verbs.registry import tool_specs
    from sshwarma.world import things
    from sshwarma.world.bootstrap import bootstrap_world
    from sshwarma.world.schema import things as things_table

    def work(tx: Any) -> Any:
        tx.conn.execute(things_table.delete().where(things_table.c.parent_id == "workspace"))
        tx.conn.execute(things_table.delete().where(things_table.c.id == "workspace"))
        things.create_thing(tx, "mcps", "mcp", "workspace", qualified_name="workspace")
        bootstrap_world(tx, tool_specs())
        return things.get_thing(tx.conn, "workspace")

    assert await settle(world, work) is None


async def test_patch_changes_all_files_or_none(bob: Someone) -> None:
    await put(bob, **{"app.py": "x = 1", "old.txt": "gone", "keep": "k"})
    lines = (
        "*** Begin Patch", "*** Update File: app.py", "*** Move to: src/app.py", "-x = 1", "+x = 2",
        "*** Add File: new.md", "+# New", "*** Delete File: old.txt", "*** End Patch",
    )  # fmt: skip
    broken = "\n".join(line.replace("-x = 1", "-y = 1") for line in lines)
    with pytest.raises(NotFound, match=r"chunk 1 of app\.py"):
        await invoke(bob.caller, "file patch", {"patch": broken})
    assert await paths(bob) == ["app.py", "keep", "old.txt"]
    made = await invoke(bob.caller, "file patch", {"patch": "\n".join(lines)})
    assert made.text == "Changed app.py, now src/app.py; added new.md; deleted old.txt."
    assert await paths(bob) == ["keep", "new.md", "src/app.py"]
    assert (await do(bob, "/file show src/app.py")).text == "x = 2"
    newest, *_ = (await do(bob, "/file history")).versions
    assert newest.changed == 4
    for patch, why in (
        ("*** Add File: keep\n+x", "keep already exists"),
        ("*** Delete File: nope", "Unknown file nope"),
        ("*** Update File: keep\n*** Move to: new.md", "new.md already exists"),
    ):
        with pytest.raises((Conflict, NotFound), match=why):
            await invoke(
                bob.caller, "file patch", {"patch": f"*** Begin Patch\n{patch}\n*** End Patch"}
            )


async def test_versions_are_completed_with_what_made_them(bob: Someone) -> None:
    await put(bob, **{"a.txt": "x"})
    await do(bob, "/file put a.txt = y")
    await invoke(bob.caller, "file put", {"path": "long " * 12 + "name", "content": "x"})
    await do(bob, "/file mkdir d")
    await do(bob, "/file mv a.txt d")
    versions = (await do(bob, "/file history")).versions
    for typed in ("/files --at ", "/file diff --old ", "/file restore "):
        offered = await complete(bob.caller, typed, len(typed))
        notes = {candidate.text: candidate.note for candidate in offered}
        assert [*notes][:5] == [version.id[-6:] for version in versions]
        moved, made, long, edited, _ = (notes[version.id[-6:]] for version in versions)
        at = versions[3].at[:16].replace("T", " ")
        assert edited == f"{at} bob edit a.txt"
        assert moved.endswith(" bob edit a.txt and 2 more")
        assert made.endswith(" bob edit d")
        assert len(long) == 60
        assert long.endswith("…")


async def test_folder_that_gets_its_first_file_is_not_removed(bob: Someone) -> None:
    await do(bob, "/file mkdir docs")
    await do(bob, "/file put docs/a = x")
    for line in ("/file diff", "/file diff docs"):
        found = await do(bob, line)
        assert {item.path: item.change for item in found.files} == {
            "docs": "changed", "docs/a": "added"
        }  # fmt: skip
    await do(bob, "/file rm docs/a")
    found = await do(bob, "/file diff docs/a")
    assert [(item.path, item.change) for item in found.files] == [("docs/a", "removed")]


async def test_folders_are_completed_step_by_step(bob: Someone) -> None:
    await put(bob, **{"src/deep/a.py": "x", "src/b.py": "y", "plan.md": "z"})
    for typed, words in (
        ("/file show ", ["plan.md", "src/"]),
        ("/file show src/", ["src/b.py", "src/deep/"]),
        ("/file show src/deep/", ["src/deep/a.py"]),
        ("/shell python3 src/", ["src/b.py", "src/deep/"]),
        ("/shell cat src/b.py src/deep/", ["src/deep/a.py"]),
    ):
        offered = await complete(bob.caller, typed, len(typed))
        assert [candidate.text for candidate in offered] == words
        assert [candidate.space for candidate in offered] == [
            not word.endswith("/") for word in words
        ]


async def test_file_whose_content_is_missing_is_named_and_put_again(bob: Someone) -> None:
    lost = f"lost {os.getpid()}"  # all processes have the same store of contents
    await put(bob, a=lost)
    (entry,) = (await do(bob, "/files")).files
    blob = services_of(bob.caller).workspaces.blobs.path_of(entry.sha256)
    for line in ("/file show a", "/file get a", "/file replace a lost y"):
        blob.unlink()
        error = await refused(bob, line)
        said = "A content is missing or damaged in the data directory: a in lobby"
        assert error.message.startswith(said)
        await put(bob, a=lost)
        assert (await do(bob, "/file show a")).text == lost


async def test_paths_are_compared_with_a_pattern_in_a_thread(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 long paths it takes seconds."""
    threads: set[int] = set()

    def compile_glob(*_: object, **__: object) -> Callable[[str], bool]:
        return lambda _: bool(threads.add(get_ident())) or True

    await put(bob, a="x")
    monkeypatch.setattr("sshwarma.verbs.file.compile_glob", compile_glob)
    assert await paths(bob, "/files *") == ["a"]
    await invoke(bob.caller, "file search", {"pattern": "x", "path": "*"})
    assert threads and get_ident() not in threads


@pytest.mark.parametrize(
    "line", ["/files {}", "/file search x {}", "/tool list {}", "/equip me {}"]
)
async def test_long_pattern_of_names_is_refused(bob: Someone, line: str) -> None:
    with pytest.raises(Invalid, match=r"must have at most 256 characters \(got 257\)"):
        await do(bob, line.format("*" * 257))
