"""Invites of the command line: made, listed and revoked."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update

from sshwarma.admin.operations import run_operation
from sshwarma.cli.invocation import Invocation
from sshwarma.cli.main import main
from sshwarma.settings import RegistrationMode, Settings, load_settings
from sshwarma.world import invites
from sshwarma.world.audit import AuditFilter, operator, read_audit
from sshwarma.world.errors import Conflict
from sshwarma.world.reader import PERSON
from sshwarma.world.schema import audit
from sshwarma.world.schema import invites as invites_table
from sshwarma.world.world import World
from support.people import Someone, everything


def registering(mode: RegistrationMode) -> Settings:
    return load_settings(registration={"mode": mode})


async def test_invite_audit_row_omits_the_code(world: World) -> None:
    made = await run_operation(world, "invite", {"role": "guest", "hours": 1})
    assert made["command"] == f"ssh NAME@HOST register {made['code']}", "the port is not known"
    assert len(made["code"]) >= 12
    [entry] = await world.store.read(lambda conn: read_audit(conn, AuditFilter(), 10))
    assert (entry.verb, entry.request) == ("invite", f"--role guest --hours 1 {made['id']}")
    assert made["code"] not in repr(await everything(world))


async def test_invite_of_the_command_line_names_its_user(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = operator.set("sshwarma (alice)")
    try:
        await run_operation(world, "invite", {"hours": 1})
    finally:
        operator.reset(token)
    [listed] = await run_operation(world, "invite_list", {})
    assert (listed["by"], listed["os_user"]) == (None, "sshwarma (alice)")
    monkeypatch.setattr(Invocation, "operate", lambda *_, **__: [listed])
    assert main(["invite", "list"]) == 0
    assert "  by (sshwarma (alice))  made 20" in capsys.readouterr().out
    await world.change(lambda tx: tx.conn.execute(delete(audit)))
    assert await run_operation(world, "invite_list", {}) == [listed]
    await world.change(lambda tx: tx.conn.execute(update(invites_table).values(os_user=None)))
    [listed] = await run_operation(world, "invite_list", {})
    assert listed["os_user"] is None
    monkeypatch.setattr(Invocation, "operate", lambda *_, **__: [listed])
    assert main(["invite", "list"]) == 0
    assert "  by (command line)  made 20" in capsys.readouterr().out


@pytest.mark.parametrize(("settings", "start"), [
    ({"ssh": {"listen": "0.0.0.0:2222"}}, "ssh -p 2222 NAME@HOST register "),
    ({"ssh": {"listen": "[::1]:22"}}, "ssh NAME@::1 register "),
    ({"ssh": {"listen": "0.0.0.0:22"}, "http": {"public_url": "https://talk.example.org/x"}},
     "ssh NAME@talk.example.org register "),
])  # fmt: skip
async def test_invite_has_the_command_of_the_newcomer(
    world: World, settings: dict[str, Any], start: str
) -> None:
    loaded = load_settings(registration={"mode": "invite"}, **settings)
    made = await run_operation(world, "invite", {}, settings=loaded)
    assert made["command"] == f"{start}{made['code']}"


async def test_invites_are_listed_and_revoked(world: World, alice: Someone) -> None:
    for hours in (1, 2, 1e-9):
        await run_operation(world, "invite", {"hours": hours})
    used = await world.change(lambda tx: invites.create_invite(tx, "guest", 1, alice.id))
    await world.change(lambda tx: invites.redeem_invite(tx, used.code, "dave", "SHA256:x", "k"))
    listed = await run_operation(world, "invite_list", {})
    assert [(one["by"], one["role"], one["state"], one["used_by"]) for one in listed] == [
        (None, "member", "open", None), (None, "member", "open", None),
        (None, "member", "expired", None), ("alice", "guest", "used", "dave"),
    ]  # fmt: skip
    assert listed[0]["created_at"] < listed[0]["expires_at"] < listed[1]["expires_at"]
    await run_operation(world, "invite_revoke", {"invite_id": listed[0]["id"]})
    for one, reason in ((listed[2], "has expired already"), (listed[3], "was used already")):
        with pytest.raises(Conflict, match=reason):
            await run_operation(world, "invite_revoke", {"invite_id": one["id"]})
    assert await run_operation(world, "invite_list", {}) == listed[1:]


async def test_invite_is_refused_unless_registration_mode_is_invite(world: World) -> None:
    before = await everything(world)
    modes: list[tuple[RegistrationMode, str]] = [
        ("closed", "cannot be used"),
        ("open", "is not needed: any new key may log in"),
    ]
    for mode, reason in modes:
        with pytest.raises(Conflict, match=f"Registration is {mode}, so .* {reason}") as caught:
            await run_operation(
                world, "invite", {}, settings=load_settings(registration={"mode": mode})
            )
        assert caught.value.hint_for(PERSON).endswith("with --registration invite.")
    assert await everything(world) == before
    assert (
        await run_operation(
            world, "invite", {}, settings=load_settings(registration={"mode": "invite"})
        )
    )["code"]
