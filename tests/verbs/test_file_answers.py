"""What the verbs on files answer and refuse, in the words of people."""

from __future__ import annotations

import itertools
import shlex

import pytest

from sshwarma.common.limits import MAX_READ_FILE_BYTES
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.views import draw_result
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.world import rows
from sshwarma.world.errors import RateLimited
from sshwarma.world.reader import API_CLIENT, MCP_CLIENT
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def test_folder_is_not_replaced_by_a_file(bob: Someone) -> None:
    await do(bob, "/file mkdir e2")
    assert (await refused(bob, "/file put e2 = x")).message == "e2 is a folder."
    await do(bob, "/file put a = x")
    await do(bob, "/file mv a e2/")
    await do(bob, "/file mv e2 other/")
    assert [item.path for item in (await do(bob, "/files")).files] == ["other/a"]


async def test_new_file_over_a_version_is_made(bob: Someone) -> None:
    await do(bob, "/file put a = x")
    base = (await do(bob, "/file history")).versions[0].id[-8:]
    assert (await do(bob, f"/file put b --base {base} = y")).text == "Made b (2 B)."
    assert (await do(bob, f"/file put a --base {base} = y")).text == "Changed a (2 B)."


async def test_notice_of_a_file_over_a_version_names_no_folder(world: World, bob: Someone) -> None:
    made = await do(bob, "/file mkdir docs")
    await do(bob, f"/file put docs/a --base {shorten_id(made.version)} = x")
    found = await world.store.read(lambda conn: rows.read_tail(conn, "lobby", 10))
    assert [row.content for row in found if row.kind == "notice"] == ["made docs/", "made docs/a"]


async def test_draft_of_a_file_names_its_version_as_lists_do(bob: Someone) -> None:
    await do(bob, "/file put a = x")
    draft = await do(bob, "/file edit a")
    (version,) = (await do(bob, "/file history")).versions
    assert draft.line == f"/file put a --base {shorten_id(version.id)} = x"
    assert (await do(bob, draft.line.replace("= x", "= y"))).text == "Changed a (2 B)."


async def test_binary_file_that_is_shown_names_the_command_that_saves_it(bob: Someone) -> None:
    await invoke(bob.caller, "file put", {"path": "b", "content": "AAEC", "encoded": True})
    version = (await do(bob, "/file history")).versions[0].id[-6:]
    shown = draw_result(await do(bob, "/file show b")).plain()
    assert "ssh HOST file get b > FILE  saves it" in shown
    shown = draw_result(await do(bob, f"/file show b --at {version}")).plain()
    assert f"ssh HOST file get b --at {version} > FILE  saves it" in shown
    for path in ("my data", "it's", "$HOME"):
        await invoke(bob.caller, "file put", {"path": path, "content": "AAEC", "encoded": True})
        shown = draw_result(await invoke(bob.caller, "file show", {"path": path})).plain()
        said = next(one for one in shown.splitlines() if "saves it" in one)
        typed = shlex.split(said.partition("ssh HOST ")[2].partition(" > FILE")[0])
        found = await do(bob, " ".join(["/file show", *typed[0].split(" ")[2:]]))
        assert (len(typed), found.path) == (1, path)


async def test_text_file_too_large_to_show_is_not_called_binary(bob: Someone) -> None:
    content = "a line of text\n" * (MAX_READ_FILE_BYTES // 15 + 1)
    await invoke(bob.caller, "file put", {"path": "log.txt", "content": content})
    found = await do(bob, "/file show log.txt")
    assert (found.kind, found.text, found.size) == ("large", "", len(content))
    shown = draw_result(found).plain()
    assert "Too large to show (limit 8 MiB). /file search finds lines in it." in shown
    assert "ssh HOST file get log.txt > FILE  saves it" in shown
    for reader, call in ((MCP_CLIENT, "search_files"), (API_CLIENT, "file_search")):
        assert draw_result(found, reader).plain().splitlines()[1] == (
            f"  Too large to show (limit 8 MiB). {call} finds lines in it."
        )
    version = found.version[-6:]
    shown = draw_result(await do(bob, f"/file show log.txt --at {version}")).plain()
    assert "(limit 8 MiB).\n" in shown  # a search is one of the present version
    assert f"ssh HOST file get log.txt --at {version} > FILE  saves it" in shown


async def test_replaced_part_may_begin_with_a_number(bob: Someone) -> None:
    """Of the file, or of the lines that reading shows."""
    table = "1\tred\n2\tred\nred hat\n"
    await invoke(bob.caller, "file put", {"path": "a", "content": table})
    change = {"path": "a", "old": "1\tred", "new": "1\tblue"}
    made = await invoke(bob.caller, "file replace", change)
    assert (made.count, made.text) == (1, "1\tblue\n2\tred\nred hat")
    assert "found" not in draw_result(made).plain()
    change = {"path": "a", "old": "     3\tred hat", "new": "     3\tred cap"}
    made = await invoke(bob.caller, "file replace", change)
    assert made.text == "1\tblue\n2\tred\nred cap"
    assert "; the part was found without its line numbers." in draw_result(made).plain()


async def test_versions_count_as_bytes_that_are_stored(bob: Someone) -> None:
    """Each names all that it changes: a folder that is moved often fills the disk."""
    bob.limits = bob.limits.model_copy(update={"files_mib_per_hour": 1})
    folder = "a" * 200
    for number in range(20):
        await do(bob, f"/file put {folder}/{'b' * 200}{number} = x")
    names = itertools.cycle(("c" * 200, folder))
    moved = folder
    with pytest.raises(RateLimited, match="at most 1 MiB of files in an hour"):
        for target in itertools.islice(names, 60):
            await do(bob, f"/file mv {moved} {target}")
            moved = target
