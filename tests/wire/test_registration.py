"""Registration over ssh: by invite code and open, at the prompt and by command."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from support.driver import Server
from support.driver.covers import covers


def test_invite_code_admits_one_newcomer_at_the_prompt(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="invite")
    code = server.operate("invite")["code"]
    ann, eve = server.stranger("ann"), server.stranger("eve")
    screen = ann.sit(prompt=None)
    screen.wait_for("Your name here [ann]:")
    screen.enter("anna")
    screen.wait_for("Invite code:")
    screen.enter("not-the-code")
    screen.wait_for("unknown, used or expired")
    screen.wait_for_count("Invite code:", 2)
    screen.enter(code)
    screen.wait_for("you are anna here")
    screen.wait_for("Welcome, anna.")
    screen.wait_for_prompt("lobby")
    screen.resize(60, 20)
    screen.enter("hello all")
    screen.wait_for("anna: hello all")
    screen.press("ctrl-d")
    assert screen.wait_for_end() == 0
    assert screen.terminal_is_clean() == []
    ann.sit().wait_for("Welcome, anna.")

    used = eve.run(f"register {code}", b"", "-T")
    assert used.status == 1
    assert "unknown, used or expired" in used.err
    ann.hang_up()


def test_what_a_newcomer_types_ahead_reaches_the_world(serve: Callable[..., Server]) -> None:
    server = serve(registration__mode="invite")
    code = server.operate("invite")["code"]
    ann = server.stranger("ann")
    screen = ann.sit(prompt=None)
    screen.wait_for("Your name here [ann]:")
    screen.type(f"\r{code}\r/me waves\rhalf a li")
    screen.wait_for("* ann waves")
    screen.wait_for_input("lobby> half a li")
    # Another session of the same connection is the new agent too.
    code = server.operate("invite")["code"]
    done = subprocess.run(
        server.stranger("eve").ssh("-T"),
        input=f"eve\n{code}\n/me nods\n".encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert b"eve nods" in done.stdout
    ann.hang_up()


def test_invite_code_is_redeemed_by_register_and_gives_its_role(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="invite")
    code = server.operate("invite", role="admin")["code"]
    ann = server.stranger("ann")
    asked = ann.run("look", b"", "-T")
    assert asked.status == 1
    assert "ssh NAME@HOST register CODE" in asked.err
    done = ann.run(f"register {code}", b"", "-T")
    assert (done.status, done.out) == (0, "Welcome, ann. Your key is registered.\n")
    assert "ann" in ann.run("say hello", b"", "-T").out
    roles = {agent["name"]: agent["role"] for agent in server.operate("agents_list")}
    assert roles["ann"] == "admin"
    stale = server.operate("invite", hours=1e-9)["code"]
    late = server.stranger("late").run(f"register {stale}", b"", "-T")
    assert late.status == 1
    assert "expired" in late.err


def test_open_registration_admits_anybody_and_refuses_bad_names(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="open", registration__per_hour_per_address=6)
    ann = server.stranger("ann")
    assert ann.run("say hello", b"", "-T").out == "ann: hello\n"
    assert ann.as_name("somebody").run("say again", b"", "-T").out == "ann: again\n"

    bad = server.stranger("system")
    screen = bad.sit(prompt=None)
    screen.wait_for("system is a reserved name")
    screen.wait_for("Your name here")
    screen.enter("4nn")
    screen.wait_for("cannot be the name of an agent")
    screen.enter("bee")
    screen.wait_for("Welcome, bee.")
    screen.wait_for_prompt("lobby")
    screen.enter("/quit")
    assert screen.wait_for_end() == 0
    bad.hang_up()
    for number in range(8):
        done = server.stranger(f"many{'abefghjk'[number]}").run("look", b"", "-T")
        if done.status:
            break
    assert "Too many registrations" in done.err


@covers("invite list", "invite revoke")
def test_admins_see_and_revoke_their_own_invites_and_owners_all(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="invite")
    boss, owner = server.person("boss", "admin"), server.owner
    assert boss.run("invite list").out == "There are no invites. /invite makes one.\n"
    own, others = boss.json("invite --role guest --hours 2"), owner.json("invite")
    unused = server.operate("invite")["id"]
    listed = boss.json("invite list")["invites"]
    assert [(one["id"], one["role"], one["by"]) for one in listed] == [(own["id"], "guest", "boss")]
    assert own["code"] not in boss.run("invite list").out
    assert [one["by"] for one in owner.json("invite list")["invites"]] == ["boss", owner.name, ""]
    refused = boss.run(f"invite revoke {others['id']}")
    assert (refused.status, "needs the own right" in refused.err) == (1, True)
    ann = server.stranger("ann")
    assert boss.does(f"invite revoke {own['id']}").endswith("for a new guest.\n")
    assert "unknown, used or expired" in ann.run(f"register {own['code']}", b"", "-T").err
    assert ann.run(f"register {others['code']}", b"", "-T").status == 0
    assert "was used already" in owner.run(f"invite revoke {others['id']}").err
    assert "used by ann" in owner.run("invite list").out
    screen = owner.sit()
    screen.type("/invite revoke ")
    screen.press("tab")
    screen.wait_for_input(f"lobby> /invite revoke {unused}")


@covers("invite new")
def test_admin_invites_a_newcomer_from_the_world(serve: Callable[..., Server]) -> None:
    server = serve(registration__mode="invite")
    boss, member = server.person("boss", "admin"), server.person("plain")
    refused = member.run("invite")
    assert refused.status == 1
    assert "needs the admin right" in refused.err
    assert "needs the own right" in boss.run("invite --role admin").err
    assert boss.run("invite --role owner").status == 2
    screen = boss.sit()
    screen.enter("/invite --role guest --hours 2")
    screen.wait_for(" NAME@127.0.0.1 register ")
    made = boss.json("invite new")
    assert re.fullmatch(r"[a-hjkmnp-z2-9]{14}", made["code"])
    assert made["role"] == "member"
    ann = server.stranger("ann")
    done = ann.run(f"register {made['code']}", b"", "-T")
    assert (done.status, done.out) == (0, "Welcome, ann. Your key is registered.\n")
    assert made["code"] not in server.log()
    ann.hang_up()


def test_invite_code_needs_a_server_that_uses_codes(serve: Callable[..., Server]) -> None:
    for mode, reason in (("closed", "Registration is closed"), ("open", "code is not needed")):
        server = serve(registration__mode=mode)
        refused = server.owner.run("invite")
        assert refused.status == 1
        assert reason in refused.err
