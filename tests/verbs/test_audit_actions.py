"""Names of actions for which the audit can be searched."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sqlalchemy import update

from sshwarma.admin.operations import run_operation
from sshwarma.cli.main import cli
from sshwarma.verbs.audit_actions import COMMANDS, OTHER_ACTIONS
from sshwarma.verbs.registry import every_verb
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import PERSON
from sshwarma.world.schema import audit
from support.people import Someone, do, refused, settle

SOURCES = Path(__file__).parents[2] / "src" / "sshwarma"

WITHOUT_ROWS = {
    "audit",
    "build",
    "config",
    "doctor",
    "info",
    "plugins",
    "serve",
    "toolset",
    "version",
}
"""Commands that change nothing, or whose changes have rows of their own."""

MISTYPED = [
    ("logn", "Unknown action logn. Did you mean login?"),
    ("key", "Unknown action key. Did you mean keys or keys add?"),
    ("TYPO", "Unknown action TYPO. The column before the request has the names, such as login,"
     " keys or room."),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "says"), MISTYPED)
async def test_unknown_action_is_refused_with_a_near_one(
    alice: Someone, typed: str, says: str
) -> None:
    refusal = await refused(alice, f"/audit --verb {typed}")
    assert f"{refusal.message} {refusal.hint_for(PERSON)}" == says
    with pytest.raises(Invalid) as caught:
        await run_operation(alice.world, "audit_list", {"verb": typed})
    assert str(caught.value) == says


async def test_group_means_all_its_actions(alice: Someone) -> None:
    for line in ("/create den", "/room private", "/room open"):
        await do(alice, line)
    found = await do(alice, "/audit --verb room")
    assert [row.verb for row in found.rows] == ["room private", "room open"]
    found = await do(alice, '/audit --verb "/Room private"')
    assert [row.verb for row in found.rows] == ["room private"]


async def test_action_without_rows_is_known(alice: Someone) -> None:
    for name in sorted({*OTHER_ACTIONS, *COMMANDS} - {"keys"}):
        assert (await do(alice, f'/audit --verb "{name}"')).rows == ()


async def test_action_of_another_version_is_found_by_its_row(alice: Someone) -> None:
    await do(alice, "/create den")
    await settle(alice.world, lambda tx: tx.conn.execute(update(audit).values(verb="old verb")))
    assert len((await do(alice, '/audit --verb "old verb"')).rows) == 1


def test_every_action_of_the_program_is_known() -> None:
    """The names that sources give `record_change`, `with_verb` and commands."""
    known = {*OTHER_ACTIONS, *COMMANDS, *(verb.name for verb in every_verb())}
    named = {
        node.value
        for path in SOURCES.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        for node in _find_names(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {"sftp", "git push", "move out", "register"} <= named
    assert named <= known


def test_each_command_is_listed_or_leaves_no_row() -> None:
    """A new one belongs to the one or the other."""
    assert COMMANDS.isdisjoint(WITHOUT_ROWS)
    assert set(cli.commands) == COMMANDS | WITHOUT_ROWS


def test_each_command_that_sources_record_is_listed() -> None:
    recorded = {
        word
        for folder in ("admin", "cli")
        for path in (SOURCES / folder).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        for word in _find_recorded_commands(call)
    }
    assert {"agents", "broadcast", "invite", "recover", "vacuum", "backup"} <= recorded
    assert recorded <= COMMANDS


def _find_recorded_commands(call: ast.Call) -> set[str]:
    """The first words of texts that a call gives the audit as a command."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name not in ("audited_change", "record", "_announce") or len(call.args) < 2:
        return set()
    found = set()
    for node in ast.walk(call.args[1]):
        text = node.values[0] if isinstance(node, ast.JoinedStr) else node
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            found.add(text.value.split(" ")[0])
    return found & set(cli.commands)


def _find_names(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that name an action."""
    name = ast.unparse(call.func).rpartition(".")[2]
    found = [word.value for word in call.keywords if word.arg == "verb"]
    if name == "with_verb":
        found += call.args[:1]
    if name == "record_registration":
        found += call.args[3:4]
    return found
