"""The audit of logins, failures and changes, as an operator and an owner read it."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.data_dir_owner import name_process_user
from support.driver import Server
from support.driver.covers import covers
from support.driver.installed import POISONED
from support.driver.server import forked_program
from support.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("audit"), log__format="json")
    yield running
    running.stop()


def rows(server: Server, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.operate("audit_list", **wanted)
    return found


def test_login_has_address_and_key_in_audit_and_log(server: Server) -> None:
    ann = server.person("ann")
    assert ann.run("look").status == 0
    wait_until(lambda: rows(server, name="ann", verb="login"))
    [login] = rows(server, name="ann", verb="login")
    [key] = server.operate("keys_list", name="ann")
    assert login["address"] == "127.0.0.1"
    assert login["fingerprint"] == key["fingerprint"]
    assert login["door"] == "ssh" and "OpenSSH" in login["request"]
    ann.hang_up()
    wait_until(lambda: '"event": "logout"' in server.log())
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    [entered] = [one for one in lines if one.get("event") == "login" and one["agent"] == "ann"]
    assert (entered["address"], entered["fingerprint"]) == ("127.0.0.1", key["fingerprint"])
    assert any(one.get("event") == "logout" and one["agent"] == "ann" for one in lines)


def test_row_names_the_room_also_of_a_piped_note(server: Server) -> None:
    pia = server.person("pia")
    assert pia.run("create studio").status == 0
    assert pia.run("note", "three\nlines\nmore").status == 0
    [note] = rows(server, name="pia", verb="note")
    assert (note["room"], note["request"]) == ("studio", "/note")
    shown = server.cli("audit", "--agent", "pia", "--verb", "note").stdout.split()
    assert shown[2:5] == ["pia", "studio", "note"]
    assert server.cli("audit", "--verb", "login").stdout.split()[3] == "-"


def test_unknown_key_leaves_a_row_of_a_failed_login(server: Server) -> None:
    stranger = server.stranger("mallory")
    assert stranger.run("look").status == 255
    wait_until(lambda: rows(server, verb="login failed"))
    failed = rows(server, verb="login failed")[-1]
    assert failed["agent"] is None and failed["address"] == "127.0.0.1"
    assert failed["fingerprint"].startswith("SHA256:")
    assert failed["request"] == 'no key was accepted; 1 key tried as "mallory"'


def test_command_line_is_named_by_its_user(server: Server) -> None:
    me = name_process_user(os.getpid(), os.geteuid())
    assert server.cli("agents", "role", "ann", "admin").returncode == 0
    [change] = rows(server, verb="agents")[-1:]
    assert (change["os_user"], change["agent"], change["request"]) == (me, None, "role ann admin")
    shown = server.cli("audit", "--verb", "agents").stdout
    assert f"cli  ({me})  -  agents  role ann admin" in " ".join(shown.split(" ")), shown
    assert getpass.getuser() in shown


def test_command_filters_and_prints_json_lines(server: Server) -> None:
    server.person("bob").does("alias hi = say hi")
    wait_until(lambda: len(rows(server, name="bob")) == 2)
    lines = server.cli("audit", "--json", "--agent", "bob", "--since", "1h").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert {row["agent"] for row in found} == {"bob"}
    assert sorted(row["verb"] for row in found) == ["alias", "login"]
    assert "/alias hi = say hi" in {row["request"] for row in found}
    assert server.cli("audit", "--since", "2099-01-01").stdout == ""
    wrong = server.cli("audit", "--since", "yesterday")
    assert wrong.returncode == 2 and "Give 30m, 2h, 7d" in wrong.stderr
    unknown = server.cli("audit", "--agent", "nobody")
    assert unknown.returncode == 1 and "Unknown agent nobody" in unknown.stderr
    assert len(server.cli("audit", "--limit", "2").stdout.splitlines()) == 2


def test_changes_have_the_address_and_the_key_or_token_of_every_door(server: Server) -> None:
    dan = server.person("dan", "admin")
    token = server.operate("token_new", name="dan", label="t", scope="build")
    assert dan.run("put a = 1").status == 0
    screen = dan.sit()
    screen.wait_for_prompt("lobby")
    screen.type("/put b = 2\r")
    wait_until(lambda: any(row["door"] == "ssh" for row in rows(server, name="dan", verb="put")))
    request = urllib.request.Request(
        f"http://{server.http}/api/v1/verbs/put",
        json.dumps({"name": "c", "text": "3"}).encode(),
        {
            "Authorization": f"Bearer {token['token']}",
            "Content-Type": "application/json",
            "X-Forwarded-For": "203.0.113.7",  # as a proxy on this machine sets it
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    found = {row["door"]: row for row in rows(server, name="dan", verb="put")}
    assert set(found) == {"exec", "ssh", "api"}
    assert found["api"]["address"] == "203.0.113.7"
    assert found["api"]["request"] == '/put {"name": "c", "text": "3"}'
    for door in ("exec", "ssh"):
        assert found[door]["address"] == "127.0.0.1"
        assert found[door]["fingerprint"].startswith("SHA256:")
    assert found["api"]["fingerprint"] == f"token {token['id'][:18]}"


def read_failed_metric(server: Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    found = re.findall(r'sshwarma_auth_failed_total{door="(\w+)"} (\S+)', page)
    return {door: float(count) for door, count in found}


def test_wrong_tokens_leave_row_log_line_and_metric(server: Server) -> None:
    before = read_failed_metric(server)
    for path, forwarded in (("/api/v1/verbs/look", "198.51.100.3"), ("/mcp", "not an address")):
        request = urllib.request.Request(
            f"http://{server.http}{path}",
            b"{}",
            {"Authorization": "Bearer swt_wrongwrong", "X-Forwarded-For": forwarded},
        )
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=30)
    wait_until(lambda: {row["door"] for row in rows(server, verb="login failed")} >= {"api", "mcp"})
    failed = {row["door"]: row for row in rows(server, verb="login failed")}
    assert failed["api"]["address"] == "198.51.100.3"
    assert failed["mcp"]["address"] == "127.0.0.1", "the peer, if the proxy names no address"
    assert failed["api"]["request"] == "the token is unknown"
    after = read_failed_metric(server)
    assert {door: after[door] - before[door] for door in after} == {
        "ssh": 0, "api": 1, "mcp": 1, "web": 0,
    }  # fmt: skip
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    refused = [one for one in lines if one.get("event") == "token refused"]
    assert [(one["door"], one["address"]) for one in refused] == [
        ("api", "198.51.100.3"),
        ("mcp", "127.0.0.1"),
    ]
    assert "wrongwrong" not in server.log()


def test_newcomers_who_are_not_registered_leave_rows(tmp_path: Path) -> None:
    server = Server(tmp_path / "s", log__format="json", registration__mode="invite")
    try:
        visitor = server.stranger("nora")
        assert visitor.run("look").status == 1
        visitor.hang_up()
        wait_until(lambda: len(rows(server, verb="login failed")) == 1)
        assert server.stranger("nils").run("register abcdefghijklm1").status == 1
        wait_until(lambda: len(rows(server, verb="login failed")) == 2)
        nora, nils = rows(server, verb="login failed")
        assert nora["request"] == '"nora" not registered: the key is unknown'
        assert nils["request"].startswith('"nils" not registered: ')
        assert "abcdefghijklm1" not in nils["request"] + server.log()
        for row in (nora, nils):
            assert row["address"] == "127.0.0.1" and row["fingerprint"].startswith("SHA256:")
        assert server.log().count('"event": "registration refused"') == 2
        assert read_failed_metric(server)["ssh"] == 2
    finally:
        server.stop()


def test_new_room_leaves_one_row_at_every_door(server: Server) -> None:
    """The move into it belongs to the same request."""
    kim = server.person("kim")
    assert kim.run("create den").status == 0
    assert kim.run("fork den nest").status == 0
    token = server.operate("token_new", name="kim", scope="build")["token"]
    request = urllib.request.Request(
        f"http://{server.http}/api/v1/verbs/create",
        b'{"room": "hut"}',
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    found = [(row["door"], row["verb"]) for row in rows(server, name="kim")]
    assert found == [("ssh", "login"), ("exec", "create"), ("exec", "fork"), ("api", "create")]
    assert "hut" in kim.run("look").out, "it was moved all the same"


def test_what_was_done_to_an_agent_is_found_by_its_name(server: Server) -> None:
    server.person("lena")
    server.person("lena2")
    server.operate("agents_role", name="lena", role="admin")
    token = server.operate("token_new", name="lena")
    server.operate("token_revoke", token_id=token["id"])
    server.operate("agents_role", name="lena2", role="admin")
    assert server.owner.run("mute lena 5").status == 0
    about = [(row["verb"], row["request"].split(" --")[0]) for row in rows(server, about="lena")]
    assert about == [
        ("keys", "add lena"),
        ("agents", "role lena admin"),
        ("token", "new lena"),
        ("token", f"revoke {token['id']} of lena"),
        ("mute", "/mute lena 5"),
    ]
    assert rows(server, about="@LENA") == rows(server, about="lena")
    assert rows(server, about="len?") == rows(server, about="*") == []
    shown = server.cli("audit", "--json", "--about", "lena").stdout.splitlines()
    assert [json.loads(line) for line in shown] == rows(server, about="lena")
    read = server.owner.run("audit --about lena --json")
    assert json.loads(read.out)["rows"] == rows(server, about="lena")


def test_what_was_done_to_an_agent_is_found_under_its_earlier_names(server: Server) -> None:
    server.person("tove")
    server.operate("agents_role", name="tove", role="admin")
    server.operate("agents_rename", name="tove", new_name="una")
    server.operate("agents_rename", name="una", new_name="vera")
    server.person("tove")  # another, who has the name now
    about = [row["request"].split(" --")[0] for row in rows(server, about="vera")]
    assert about == ["add tove", "role tove admin", "rename tove una", "rename una vera"]
    about = [row["request"].split(" --")[0] for row in rows(server, about="una")]
    assert about == ["add tove", "role tove admin", "rename tove una", "rename una vera"]
    about = [row["request"].split(" --")[0] for row in rows(server, about="tove")]
    assert about == [
        "add tove", "role tove admin", "rename tove una", "rename una vera", "add tove",
    ], "of all who had the name, although another has it now"  # fmt: skip
    server.operate("agents_remove", name="vera")
    server.person("vera")
    assert [row["request"].split(" --")[0] for row in rows(server, about="una")] == [
        "add tove", "role tove admin", "rename tove una", "rename una vera", "remove vera",
    ], "until it was removed"  # fmt: skip


def test_what_was_done_to_an_agent_is_found_if_another_has_its_name_now(server: Server) -> None:
    """An operator who looks for what was done to a removed agent must not miss it."""
    server.person("nils")
    server.operate("agents_role", name="nils", role="admin")
    before = rows(server, about="nils")
    server.operate("agents_rename", name="nils", new_name="olof")
    server.operate("agents_role", name="olof", role="guest")
    server.person("nils")
    found = rows(server, about="nils")
    assert found[: len(before)] == before
    assert "role olof guest" in [row["request"] for row in found]


@covers("audit")
def test_owner_reads_the_audit_in_the_world_and_nobody_else(server: Server) -> None:
    shown = server.owner.run("audit --agent bob")
    assert shown.status == 0 and "127.0.0.1 SHA256:" in shown.out
    shown = server.owner.run("audit --agent bob --count 1 --since 1h --json")
    assert json.loads(shown.out)["rows"] == rows(server, name="bob", limit=1)
    refused = server.person("carl").run("audit")
    assert refused.status == 1 and "own right on this server" in refused.err


def test_removed_agent_is_found_beside_the_new_one_of_its_name(server: Server) -> None:
    """At both doors; a stranger who takes the name hides nothing."""
    server.person("gus").does("alias one = who")
    server.operate("agents_remove", name="gus")
    removed = rows(server, name="gus")
    assert {row["agent"] for row in removed} == {"gus"}
    server.person("gus").does("alias two = who")
    wait_until(lambda: len(rows(server, name="gus", verb="login")) == 2)
    both = rows(server, name="gus", verb="alias")
    assert [(row["agent"], row["request"]) for row in both] == [
        ("gus (removed)", "/alias one = who"),
        ("gus", "/alias two = who"),
    ]
    read = server.owner.run("audit --agent gus --verb alias --json")
    assert json.loads(read.out)["rows"] == both
    part = server.owner.run("audit --agent gu")
    assert part.status == 1 and "Unknown agent gu. Did you mean gus?" in part.err
    assert server.cli("audit", "--agent", "gu").returncode == 1


def test_time_that_is_shown_can_be_given_back(server: Server) -> None:
    """Whatever the time zone of the server or of the command is."""
    server.person("hal").does("alias now = who")
    wait_until(lambda: rows(server, name="hal", verb="alias"))
    [line] = server.cli("audit", "--agent", "hal", "--verb", "alias").stdout.splitlines()
    at = line.split()[0]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", at)
    [again] = server.cli(
        "audit", "--agent", "hal", "--verb", "alias", "--since", at
    ).stdout.splitlines()
    assert again == line
    inside = server.owner.run(f"audit --agent hal --verb alias --since {at}").out
    assert inside.split() == line.split()
    wrong = server.owner.run("audit --since yesterday")
    assert wrong.status == 2
    assert "Give 30m, 2h, 7d" in wrong.err


def test_user_of_the_machine_stands_in_parentheses(server: Server) -> None:
    me = name_process_user(os.getpid(), os.geteuid())
    assert server.cli("agents", "role", "ann", "member").returncode == 0
    assert f"({me})" in server.owner.run("audit --verb agents --count 1").out


def test_alias_with_a_key_is_neither_stored_nor_recorded(server: Server) -> None:
    ida = server.person("ida")
    refused = ida.run("alias sx = 'say sk-proj-abcdefghijklmnop1234'")
    assert refused.status == 2 and "looks like it contains a key" in refused.err
    ida.does("alias fine = who")
    wait_until(lambda: rows(server, name="ida", verb="alias"))
    [row] = rows(server, name="ida", verb="alias")
    assert row["request"] == "/alias fine = who"
    assert "sk-proj" not in ida.does("alias") + refused.err


def test_approval_of_a_changed_tool_is_named(server: Server) -> None:
    """A tool whose text an admin has approved is sent to models."""
    owner = server.owner
    owner.does(f"mcp add evil -- {shlex.join(POISONED)} rug", "equip room evil:*", "run evil:again")
    wait_until(lambda: owner.json("mcp list")["servers"][0]["waiting"] == 2)
    owner.does("mcp show evil", "mcp approve evil echo", "mcp approve evil")
    read = owner.json("audit --verb 'mcp approve'")["rows"]
    assert [row["request"] for row in read] == ["/mcp approve evil echo", "/mcp approve evil"]
    assert {row["agent"] for row in read} == {owner.name}


def test_hook_that_a_room_uses_is_named(server: Server) -> None:
    """Its script runs for each answer of a model."""
    jim = server.person("jim", "admin")
    jim.does("put hook:wrap = 'function layer(s) return nil end'", "equip room hook:wrap")
    wait_until(lambda: len(rows(server, name="jim")) == 3)
    found = {row["verb"]: row["request"] for row in rows(server, name="jim")}
    assert found["equip"] == "/equip room hook:wrap"
    assert found["put"].startswith("/put hook:wrap = 'function layer(s)")


def test_rows_survive_a_kill(tmp_path: Path) -> None:
    server = Server(tmp_path / "s")
    try:
        dora = server.person("dora")
        assert dora.run("look").status == 0
        wait_until(lambda: rows(server, name="dora", verb="login"))
        server.kill()
        server.start()
        assert len(rows(server, name="dora", verb="login")) == 1
    finally:
        server.stop()


CONTROLS = "\x1b]0;PWN\x07\x9b31m\r\u202eevil"
"""A window title, a C1 colour, a carriage return and a change of direction."""


def test_nothing_that_commands_print_is_raw(server: Server) -> None:
    """What people chose reaches the terminal of the operator."""
    eve = server.person("eve")
    eve.run(f"alias kk = 'say {CONTROLS}'")
    wait_until(lambda: rows(server, name="eve", verb="alias"))
    server.operate("token_new", name="eve", label=CONTROLS)
    for words in (["audit"], ["token", "list"], ["keys", "list"], ["agents", "list"],
                  ["invite", "list"], ["audit", "--json"], ["token", "list", "--json"],
                  ["agents", "role", CONTROLS, "admin"], ["keys", "add", "x", "-"]):  # fmt: skip
        shown = server.cli(*words, stdin=f"{eve.public_key.split()[0]} {CONTROLS}\n")
        for text in (shown.stdout, shown.stderr):
            assert not set(text) & set(CONTROLS) - set("evilPWN]0;31m"), (words, text)
    assert "^[]0;PWN" in server.cli("audit", "--agent", "eve").stdout


def test_follow_prints_new_rows(server: Server) -> None:
    words = ["audit", "--follow", "--json", "--data-dir", str(server.data_dir)]
    with subprocess.Popen(
        [str(forked_program()), *words], env=server.environ, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        following.stdout.readline()
        server.person("fay").run("look")
        for text in following.stdout:
            if json.loads(text)["agent"] == "fay":
                break
        following.terminate()
