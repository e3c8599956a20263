"""Namespaces that people make: removed whole, moved with contents, and owned."""

from __future__ import annotations

import pytest
import pytest_asyncio

from sshwarma.terminal.render import render_plain
from sshwarma.tools.call import Tools
from sshwarma.tools.namespace_index import index_namespaces
from sshwarma.verbs.views import draw_result
from sshwarma.world import namespaces, things
from sshwarma.world.builtin_containers import BUILTIN_NAMESPACES
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from sshwarma.world.reader import PERSON
from support.people import Someone, arrive, do, refused

TOOLS = ("git:push", "git.branch:create", "git.branch.remote:prune")


@pytest_asyncio.fixture(loop_scope="session")
async def git(den: str, bob: Someone) -> None:
    """Bob's namespaces, three deep, a tool in each."""
    for name in TOOLS:
        await do(bob, f"/tool new {name} = return '{name}'")


async def ids(who: Someone) -> list[str]:
    found = (await do(who, "/namespaces")).namespaces
    return [one.id for one in found if one.id not in BUILTIN_NAMESPACES.values()]


async def usable(who: Someone) -> list[str]:
    load = await who.world.loadout(who.room_id, who.id)
    return [
        i.thing.label
        for i in load.usable_tools
        if i.thing.label.partition(":")[0] in await ids(who)
    ]


async def received(who: Someone, line: str) -> str:
    return render_plain(draw_result(await do(who, line)))


async def test_removing_a_namespace_removes_its_children_and_tools(git: None, bob: Someone) -> None:
    await do(bob, "/load git --include-children")
    assert sorted(await usable(bob)) == sorted(TOOLS)
    said = await received(bob, "/namespace remove git")
    assert said.strip() == "Removed git with git.branch, git.branch.remote: 3 tools."
    assert await ids(bob) == []
    assert await usable(bob) == []
    assert isinstance(await refused(bob, "/load git.branch"), NotFound)
    await do(bob, "/tool new git.branch:create = return 'new'")  # the names are free again
    assert await ids(bob) == ["git", "git.branch"]
    assert await usable(bob) == []


async def test_notice_names_only_a_few_of_many_namespaces(
    den: str, alice: Someone, bob: Someone
) -> None:
    await do(alice, "/room builder bob")
    for number in range(12):
        await do(bob, f"/tool new wide.n{number}:t = return 1")
    for line, action in (
        ("/load wide room --include-children", "loaded"),
        ("/unload wide room --include-children", "unloaded"),
    ):
        changed = len((await do(bob, line)).changed)
        assert changed > 12
        notice = (await bob.world.last_rows(bob.room_id, 1))[0].content
        assert notice.startswith(f"{action} ")
        assert notice.count(",") == 7
        assert notice.endswith(f" and {changed - 8} more")


async def test_moved_namespace_keeps_equipment_and_overrides(
    git: None, bob: Someone, tools: Tools
) -> None:
    await do(bob, "/tool new scm:log = return 1")
    await do(bob, "/load git.branch")
    await do(bob, "/tool describe git.branch:create = Makes one.")
    await tools.call(bob.caller, "git.branch:create", {})
    said = await received(bob, "/namespace set git.branch parent scm")
    assert said.strip() == "git.branch is now scm.branch."
    assert await ids(bob) == ["git", "scm", "scm.branch", "scm.branch.remote"]
    assert await usable(bob) == ["scm.branch:create"]
    seen = await do(bob, "/examine scm.branch:create")
    assert (seen.description, seen.calls_total) == ("Makes one.", 1)
    assert (await tools.call(bob.caller, "scm.branch:create", {})).ending == "result"
    assert isinstance(await refused(bob, "/examine git.branch:create"), NotFound)
    shown = (await do(bob, "/namespace show scm.branch")).namespace
    assert (shown.parent, shown.children) == ("scm", ("scm.branch.remote",))
    assert shown.description == "Tools of scm.branch"
    await do(bob, "/namespace set scm.branch description All about branches")
    await do(bob, "/namespace set scm.branch parent -")
    branch = (await do(bob, "/namespace show branch")).namespace
    assert branch.description == "All about branches"
    remote = (await do(bob, "/namespace show branch.remote")).namespace
    assert remote.description == "Tools of branch.remote"
    await do(bob, "/namespace new my-new_ns")
    assert (await do(bob, "/namespace show my-new_ns")).namespace.name == "My new ns"
    await do(bob, "/namespace remove my-new_ns")
    assert await ids(bob) == ["branch", "branch.remote", "git", "scm"]


async def test_invalid_move_of_a_namespace_is_refused(git: None, bob: Someone) -> None:
    await do(bob, "/namespace new other.branch")
    for parent, kind in (
        ("git.branch.remote", Invalid),
        ("git.branch", Invalid),
        ("nowhere", NotFound),
        ("other", Conflict),
        ("git", Conflict),
        ("global", Invalid),
    ):
        why = await refused(bob, f"/namespace set git.branch parent {parent}")
        assert isinstance(why, kind), (parent, why)
    await do(bob, "/tool new code_git:x = return 1")
    await do(bob, "/namespace new code")
    await do(bob, "/tool new code_git:push = return 1")
    why = await refused(bob, "/namespace set git parent code")  # both would be code_git__push
    assert "and code_git:push would both be shown as" in str(why)


async def test_only_the_creator_may_add_to_a_namespace(
    git: None, bob: Someone, alice: Someone
) -> None:
    eve = await arrive(bob.world, "eve")
    for line in (
        "/namespace new git.evil",
        "/namespace new git.branch.evil.worse",
        "/tool new git.evil:x = return 1",
        "/tool new git:x = return 1",
    ):
        why = await refused(eve, line)
        assert isinstance(why, Forbidden)
        assert str(why).startswith(
            "Permission denied: needs the admin right on this server to change "
        )
        assert str(why).endswith(" Ask bob, alice.")
    await do(eve, "/namespace new mine")
    assert isinstance(await refused(eve, "/namespace set mine parent git"), Forbidden)
    await do(alice, "/namespace new git.ours")
    await do(bob, "/namespace new git.tag")


async def test_auto_load_needs_the_admin_right(git: None, bob: Someone, alice: Someone) -> None:
    why = await refused(bob, "/namespace set git auto_load on")
    assert isinstance(why, Forbidden)
    assert "admin right" in str(why)
    await do(alice, "/namespace set git auto_load on")
    assert "git:push" in await usable(await arrive(bob.world, "eve"))
    for line in ("/namespace set global enabled off", "/namespace set global auto_load off"):
        assert isinstance(await refused(alice, line), Conflict)


async def test_namespace_set_shows_the_parsed_value(git: None, bob: Someone) -> None:
    for field, typed, shown in (
        ("keywords", "Git, push ,,git", "git, push"),
        ("keywords", "-", "empty"),
        ("required_states", "ci-ready,mcp:files", "ci-ready, mcp:files"),
        ("required_states", "-", "empty"),
        ("name", "Version Control", "Version Control"),
        ("title", "Versions", "Versions"),
        ("load_with_parent", "yes", "on"),
        ("description", "-", "empty"),
    ):
        said = await received(bob, f"/namespace set git {field} {typed}")
        assert said.strip().endswith(f"of git is now: {shown}.")
    assert "Usage: /namespace set NAME FIELD VALUE" in str(
        (await refused(bob, "/namespace set git load_with_parent")).hint_for(PERSON)
    )
    why = await refused(bob, "/namespace set git required_states CI Ready")
    assert "cannot be the name of a state" in str(why)
    assert (await do(bob, "/load versions")).changed == ("git",)


async def test_refusal_for_a_missing_state_says_how_to_add_it(
    git: None, den: str, bob: Someone, alice: Someone
) -> None:
    await do(bob, "/namespace set git required_states ci-ready")
    why = await refused(bob, "/load git")
    assert isinstance(why, Unavailable)
    assert "/state add ci-ready" in why.hint_for(PERSON)
    for thing in ("git", "git:push"):
        assert "Status: needs ci-ready" in await received(bob, f"/examine {thing}")
    assert "(needs ci-ready)" in await received(bob, "/find")
    await do(alice, "/state add ci-ready")
    assert "Status: available" in await received(bob, "/examine git")
    for line, words in (
        ("/load gti", "Did you mean git?"),
        ("/load lobby", "a room to stand in"),
        ("/namespace new a..b", "a..b cannot be"),
        ("/namespace new " + ".".join("x" * 40), "at most 32 deep"),
        ("/namespace show", "/namespace show needs NAME"),
        ("/namespace remove global", "needs the admin right on this server to change global."),
        ("/namespace set git:push name x", "/tool describe"),
        ("/namespace set git:push description x", "/tool describe git:push = TEXT"),
        ("/namespace set git:push enabled off", "/tool disable git:push"),
        ("/namespace set git:push load_with_parent on", "Of a tool, these can be set: keywords,"),
        ("/namespace set git:push parent x", "parent is a field of namespaces"),
        (
            "/namespace set git name " + "x" * 61,
            "title: must have at most 60 characters, all printable",
        ),
    ):
        assert words in str(await refused(bob, line)), line
    assert "cannot be removed" in str(await refused(alice, "/namespace remove global"))
    assert (await received(bob, "/unload git")).strip() == "git is not loaded on you."
    await do(bob, "/load git")
    assert "git is already loaded on you." in await received(bob, "/load git")
    assert "always loaded" in await received(bob, "/unload global")
    assert "always loaded" in await received(bob, "/load global")
    await do(alice, "/namespace set git enabled off")
    assert "disabled" in await received(bob, "/namespaces")
    assert "is disabled" in str(await refused(bob, "/load git"))


async def test_closing_a_room_removes_its_tools_from_non_members(
    den: str, bob: Someone, alice: Someone, tools: Tools
) -> None:
    await do(alice, "/tool new bell = return 'ding'")
    await do(alice, "/put prompt:bell = Ring often.")
    await do(bob, "/load den")
    await do(bob, "/equip me prompt:bell")
    await do(bob, "/join lobby")

    async def has() -> tuple[bool, bool]:
        load = await bob.world.loadout(bob.room_id, bob.id)
        return (
            "den:bell" in [item.thing.label for item in load.tools],
            "prompt:bell" in [item.thing.name for item in load.data],
        )

    assert await has() == (True, True)  # it took them along
    await do(alice, "/room private")
    assert await has() == (False, False)
    with pytest.raises(NotFound):
        await tools.call(bob.caller, "den:bell", {})
    await do(alice, "/room member bob")
    assert await has() == (True, True)
    await do(alice, "/room open")
    await do(alice, "/ban bob 10")
    assert await has() == (False, False)


async def test_namespaces_are_listed_below_their_parent_and_indexed(den: str, bob: Someone) -> None:
    for name in ("git", "git-lfs", "git.branch", "git.branch.remote", "git_old"):
        await do(bob, f"/namespace new {name}")
    assert await ids(bob) == ["git", "git.branch", "git.branch.remote", "git-lfs", "git_old"]
    offered = await bob.world.store.read(index_namespaces)
    assert {"git", "git.branch"} <= {space.id for space in offered}


async def test_children_of_a_deleted_namespace_are_gone(den: str, bob: Someone) -> None:
    await do(bob, "/namespace new git.branch")
    top = await bob.world.store.read(lambda conn: namespaces.find_namespace(conn, "git"))
    await bob.world.change(lambda tx: things.delete_thing(tx, top.thing))
    assert await ids(bob) == []
    await do(bob, "/namespace new git.branch")  # the names are free
    assert await ids(bob) == ["git", "git.branch"]


async def test_namespace_created_by_a_tool_gets_a_name_and_description(
    git: None, bob: Someone
) -> None:
    shown = (await do(bob, "/namespace show git.branch")).namespace
    assert (shown.name, shown.description, shown.keywords) == (
        "Branch",
        "Tools of git.branch",
        ("branch",),
    )


async def test_rooms_and_agents_cannot_share_a_name(den: str, bob: Someone) -> None:
    eve = await arrive(bob.world, "eve")
    for line in ("/create bob", "/fork den bob", "/create alice"):
        assert isinstance(await refused(eve, line), Conflict)
    await do(bob, "/create bob")  # their own
    with pytest.raises(Conflict, match="The name den is taken"):
        await arrive(bob.world, "den")


async def test_inventory_item_names_its_namespace(git: None, bob: Someone) -> None:
    await do(bob, "/load git.branch")
    assert "[git.branch, available, yours]" in await received(bob, "/inv")


async def test_detected_states_cannot_be_set_by_hand(den: str, alice: Someone) -> None:
    alice.world.set_detected_states({alice.room_id: frozenset({"project-loaded"})})
    assert "is detected and cannot be removed by hand" in str(
        await refused(alice, "/state remove project-loaded")
    )
    assert "is detected" in str(await refused(alice, "/state add mcp:files"))
    assert "/state list" in str(await refused(alice, "/state"))


async def test_inv_all_shows_missing_states(
    git: None, den: str, bob: Someone, alice: Someone
) -> None:
    await do(bob, "/namespace set git required_states ci-ready")
    assert "[needs ci-ready]" in await received(bob, "/inv all")
    await do(alice, "/state add ci-ready")
    shown = await received(bob, "/inv all")
    assert "○ git:push" in shown
    assert "needs ci-ready" not in shown


async def test_equipment_of_another_agent_is_labelled_with_its_owner(
    git: None, bob: Someone, alice: Someone
) -> None:
    await do(bob, '/equip me "git:*"')  # quotes, as a shell would want them
    shown = await received(alice, "/inv @bob")
    assert "[git, available, bob's]" in shown
    assert "bob's bag:" in shown
    assert "yours" in await received(bob, "/inv me")


async def test_gc_purge_preview_says_how_to_purge(git: None, alice: Someone) -> None:
    await do(alice, "/namespace remove git")
    assert "/gc purge 0 --yes does it" in await received(alice, "/gc purge 0")
