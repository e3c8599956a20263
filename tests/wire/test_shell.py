"""Commands in a sandbox: by people, and by models with an approval."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering_with
from support.driver.model import Asked, question
from support.driver.server import PROGRAM
from support.http_api import Api
from support.metrics import scrape
from support.sandboxes import needs_bubblewrap
from support.waiting import wait_until

pytestmark = needs_bubblewrap


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Run the command that the question has after `run`, then say what came of it."""
    last = asked["messages"][-1]
    if last["role"] == "tool":
        yield f"came: {last['content']}"
    else:
        command = question(asked).partition("run ")[2]
        yield {"name": "workspace__run_command", "arguments": {"command": command}}


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}", "equip room workspace:*")
    yield one
    one.hang_up()


@covers("shell")
def test_command_of_a_person_works_on_the_files(ann: Person) -> None:
    ann.run("file put src/a.py", b"print(6 * 7)\n", "-T")
    done = ann.run("shell --cwd src python3 a.py > out; cat out; chmod +x a.py; rm -f gone")
    assert (done.status, done.out.splitlines()[0]) == (0, "42")
    assert "exit status 0" in done.out and "wrote src/a.py, wrote src/out" in done.out
    kinds = {item["path"]: item["kind"] for item in ann.json("files")["files"]}
    assert kinds == {"src/a.py": "program", "src/out": "file"}
    assert ann.json("file history")["versions"][0]["source"] == "tool_run"
    emptied = ann.run("shell rm src/*; mkdir new")
    assert "left the empty folder new, left the empty folder src, " in emptied.out
    assert "(exit status 0, " in (filled := ann.run("shell echo > new/a").out)
    assert "wrote new/a" in filled and "removed" not in filled
    assert ann.json("files")["removed"] == []
    assert "removed by the last run" not in ann.run("files").out
    again = r"shell printf '10%%\r50%%\rdone\r\nlong line\rshort\n'"
    assert ann.run(again).out.startswith("done\nshortline\n(exit status 0")
    assert ann.run(again.replace("shell", "shell --json", 1)).json["output"].startswith("10%\r50%")
    failed = ann.run("shell echo oops >&2; exit 3")
    assert (failed.status, failed.out.splitlines()[0]) == (1, "oops")
    found = ann.run("shell --json true").json
    assert (found["status"], found["changed"], found["ended"]) == (0, [], "")
    assert "ran `true`: exit status 0" in ann.run("history").out


def test_nothing_of_the_machine_is_in_the_sandbox(house: Server, ann: Person) -> None:
    secret = house.data_dir / "secret.txt"
    secret.write_text("sesame")
    script = f"""
cat {secret} {house.data_dir}/world.db; ls /root /home {house.data_dir}
cat /proc/1/environ | tr '\\0' '\\n'; env
python3 - <<'END'
import socket
for family, address in ((socket.AF_INET, ('127.0.0.1', {house.port})),):
    try:
        socket.socket(family).connect(address); print('reached')
    except OSError as error:
        print('no network:', error.strerror)
END
echo 'x' > /usr/x; mount -t tmpfs none /mnt; unshare -U true
"""
    ann.run("file put probe.sh", script.encode(), "-T")
    out = ann.run("shell sh probe.sh").out
    assert "sesame" not in out and "SQLite" not in out and "reached" not in out
    assert "no network: Connection refused" in out
    assert "SSHWARMA" not in out and "Read-only file system" in out
    assert out.count("No such file or directory") >= 3


def test_what_a_command_started_ends_with_it(ann: Person) -> None:
    command = "for i in 1 2 3; do (setsid sh -c 'sleep 0.3; echo > late' &); done; echo begun"
    assert ann.run(f"shell {command}").out.startswith("begun")
    ann.run("shell sleep 0.6")
    assert ann.json("files")["count"] == 0


def test_command_is_ended_at_its_time_and_its_files_stay(ann: Person) -> None:
    done = ann.run("shell --timeout 1 echo first > a; echo out; sleep 60; echo second > b")
    assert done.status == 1
    assert "out" in done.out and "ended after 1 s" in done.out
    assert [item["path"] for item in ann.json("files")["files"]] == ["a"]


def test_changes_of_other_lines_meanwhile_are_both_in(house: Server, ann: Person) -> None:
    ann.run("file put plan.md", b"walls\n1\n2\n3\nroof\n", "-T")
    command = (
        "sed -i s/roof/tiles/ plan.md; echo > begun; until [ -e go ]; do sleep 0.05; done;"
        " rm go begun"
    )
    begun = house.data_dir / "workspaces"
    with subprocess.Popen([*ann.ssh("-T"), f"shell {command}"], stdout=subprocess.PIPE) as running:
        wait_until(lambda: list(begun.glob("*/begun")))
        ann.does("file replace plan.md walls bricks")
        (place,) = begun.glob("*/begun")
        place.with_name("go").touch()
        assert running.stdout is not None
        out = running.stdout.read().decode()
    assert "Somebody changed other lines meanwhile, and both are in: plan.md." in out
    assert ann.run("file get plan.md", b"", "-T").out == "bricks\n1\n2\n3\ntiles\n"


def test_piped_text_is_no_command_where_one_is_given(ann: Person) -> None:
    done = ann.run("shell cat; echo given", b"echo piped > made\n", "-T")
    assert (done.status, "given" in done.out) == (0, True)
    assert ann.json("files")["count"] == 0
    assert "piped" in ann.run("shell", b"echo piped\n", "-T").out


def test_stop_ends_the_own_command_that_runs(house: Server, ann: Person) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter("/shell echo > asleep; sleep 60")
    wait_until(lambda: list((house.data_dir / "workspaces").glob("*/asleep")))
    assert scrape(house).value("sshwarma_worker_processes", kind="sandbox") == 1
    screen.enter("/stop")
    screen.wait_for("Stopped.")
    assert scrape(house).value("sshwarma_worker_processes", kind="sandbox") == 0
    screen.enter("/shell echo again")
    screen.wait_for("exit status 0")


def test_lines_that_wait_for_a_command_are_counted(ann: Person) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter("/shell until [ -e end ]; do sleep 0.1; done")
    screen.enter("/look")
    screen.wait_for("1 line waits for the command that runs. /stop ends it.")
    screen.enter("hello")
    screen.wait_for("2 lines wait for the command that runs. /stop ends it.")
    screen.enter("/stop")
    screen.wait_for("Stopped.")
    screen.wait_for(f"{ann.name}: hello")
    assert "for the command that runs" not in screen.text


def test_call_that_changes_nothing_has_the_present_version(house: Server, ann: Person) -> None:
    ann.does("file put plan.md = one")
    version = ann.json("file version")["version"]["id"]
    assert ann.run('run workspace:run_command command="true"').status == 0
    room = ann.json("files")["room"]
    rows = house.owner.json(
        "sql SELECT call.pre_manifest_id, call.post_manifest_id FROM tool_calls AS call"
        f" JOIN things ON things.id = call.chat_id WHERE things.name = '{room}'"
    )["rows"]
    assert rows == [[version, version]]


def test_history_of_files_names_the_call_that_changed_them(ann: Person) -> None:
    ann.does("shell touch a", 'run workspace:run_command command="touch b"', "file mv b c")
    rename, call, command = ann.json("file history")["versions"]
    assert (rename["tool"], rename["row"]) == ("", None)
    assert (command["tool"], command["row"]) == ("", None)
    assert call["tool"] == "workspace:run_command"
    assert "touch b" in ann.does(f"expand {call['row']}")
    shown = " ".join(ann.does("file history").split())
    assert f"{ann.name} workspace:run_command, row {call['row']} + b" in shown
    assert f"{ann.name} shell + a" in shown
    one = ann.does(f"file version {call['id'][-6:]}")
    assert f"  workspace:run_command, row {call['row']} by {ann.name}" in one


def test_edit_of_two_loses_nothing(house: Server, ann: Person, name: Any) -> None:
    bob = house.person(name("bob"), role="admin")
    room = ann.json("files")["room"]
    ann.run("file put plan.md", b"one\ntwo\nthree\nfour\n", "-T")
    bob.does(f"join {room}")
    hers, his = ann.sit(room=room), bob.sit(room=room)
    hers.enter("/file edit plan.md")
    hers.wait_for("Editing plan.md")
    his.enter("/file replace plan.md four FOUR")
    hers.wait_for("changed plan.md")
    hers.press("ctrl-a")
    hers.press(*["up"] * 3, "end")
    hers.type("!")
    hers.press("enter")
    hers.wait_for("both are in")
    text = ann.run("file get plan.md", b"", "-T").out
    assert "FOUR" in text and "one!" in text
    version = ann.json("file version")["version"]["id"]
    bob.run("file put plan.md", b"his\n", "-T")
    said = ann.run(f"file put plan.md --base {version[-8:]}", b"hers\n", "-T").out
    assert f"Yours is plan.md.from-{ann.name}." in said
    assert ann.run("file get plan.md", b"", "-T").out == "his\n"


def test_change_of_somebody_else_meanwhile_stays(house: Server, ann: Person) -> None:
    ann.run("file put plan.md", b"one\n", "-T")
    command = "echo theirs > plan.md; echo > begun; until [ -e go ]; do sleep 0.05; done"
    begun = house.data_dir / "workspaces"
    with subprocess.Popen([*ann.ssh("-T"), f"shell {command}"], stdout=subprocess.PIPE) as running:
        wait_until(lambda: list(begun.glob("*/begun")))
        assert ann.run("file put plan.md", b"mine\n", "-T").status == 0
        (place,) = begun.glob("*/begun")
        place.with_name("go").touch()
        assert running.stdout is not None
        out = running.stdout.read().decode()
    name = ann.name
    assert f"The other version is plan.md.from-{name}." in out
    texts = {path: ann.run(f"file get {path}", b"", "-T").out
             for path in ("plan.md", f"plan.md.from-{name}")}  # fmt: skip
    assert texts == {"plan.md": "mine\n", f"plan.md.from-{name}": "theirs\n"}


@covers("allow", "deny", "approvals")
def test_command_of_a_model_waits_for_a_person(house: Server, ann: Person) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter("@qwen run echo hi > made; ls")
    screen.wait_for("asks to run workspace:run_command")
    screen.wait_for("command: echo hi > made; ls")
    assert ann.json("files")["count"] == 0
    (waiting,) = ann.json("approvals")["waiting"]
    assert scrape(house).value("sshwarma_waiting_for_person", kind="tool_call") == 1
    newest = "sql SELECT status FROM tool_calls ORDER BY started_at DESC LIMIT 1"
    assert ann.json(newest)["rows"] == [["pending"]]
    assert waiting["arguments"] == {"command": "echo hi > made; ls"}
    screen.enter(f"/deny {waiting['number']} not now")
    screen.wait_for("qwen: came:")
    assert ann.json("files")["count"] == 0
    assert ann.run(f"allow {waiting['number']}").status == 1
    screen.enter("@qwen run echo hi > made; ls")
    wait_until(lambda: ann.json("approvals")["waiting"])
    (waiting,) = ann.json("approvals")["waiting"]
    assert ann.run(f"allow {waiting['number']}").out == "Allowed workspace:run_command.\n"
    screen.wait_for("exit status 0")
    assert [item["path"] for item in ann.json("files")["files"]] == ["made"]
    audit = house.owner.json(f"audit --agent {ann.name}")["rows"]
    assert [row["verb"] for row in audit if row["verb"] in ("allow", "deny")] == ["deny", "allow"]


def test_one_key_answers_for_the_call_that_waits(house: Server, ann: Person, name: Any) -> None:
    bob = house.person(name("bob"))
    room = ann.json("files")["room"]
    bob.does(f"join {room}")
    hers, his = ann.sit(room=room), bob.sit(room=room)
    his.enter("@qwen run echo hi > made; ls")
    hers.wait_for("(F8), or /deny")
    his.wait_for("Owners and builders of the room answer this")
    his.press("f8")
    his.wait_for("needs the build right")
    hers.type("typed")
    hers.press("f8")
    hers.wait_for("only where nothing is typed")
    assert ann.json("files")["count"] == 0
    hers.press("ctrl-u", "f8")
    hers.wait_for("exit status 0")
    his.wait_for("allowed workspace:run_command")
    his.enter("@qwen run rm made; ls")
    wait_until(lambda: ann.json("approvals")["waiting"])
    hers.press("f9")
    hers.wait_for("> /deny")
    hers.press("enter")
    his.wait_for("denied workspace:run_command")
    assert ann.json("files")["count"] == 1


def test_nobody_who_may_allow_it_is_a_denial_at_once(ann: Person) -> None:
    said = ann.does("@qwen run ls")
    assert "needs the approval of a person with the build right, and none is in" in said


def test_number_of_a_private_room_is_unknown_to_who_may_not_enter(
    house: Server, ann: Person, name: Any
) -> None:
    bob, room = house.person(name("bob")), ann.json("files")["room"]
    ann.does("room private")
    screen = ann.sit(room=room)
    screen.enter("@qwen run ls")
    wait_until(lambda: ann.json("approvals")["waiting"])
    (waiting,) = ann.json("approvals")["waiting"]
    for verb in ("allow", "deny"):
        refused = bob.run(f"{verb} {waiting['number']}")
        unknown = bob.run(f"{verb} 999999")
        assert refused.status == unknown.status == 1
        assert refused.err == unknown.err.replace("999999", str(waiting["number"]))
    ann.does(f"deny {waiting['number']}")


def test_token_runs_commands_only_with_the_scope_of_approvals(house: Server, ann: Person) -> None:
    room = ann.json("files")["room"]
    for scope, status in (("act", 403), ("build", 403), ("approve", 200)):
        token = house.operate("token_new", name=ann.name, scope=scope)["token"]
        got, answer = Api(house, token, room).run("shell", command="echo hi")
        assert got == status, answer


def test_who_may_not_build_cannot_allow(house: Server, ann: Person, name: Any) -> None:
    bob = house.person(name("bob"))
    room = ann.json("files")["room"]
    screen = ann.sit(room=room)
    screen.enter("@qwen run ls")
    wait_until(lambda: ann.json("approvals")["waiting"])
    bob.does(f"join {room}")
    refused = bob.run("allow")
    assert (refused.status, "needs the build right" in refused.err) == (1, True)
    token = house.operate("token_new", name=ann.name, scope="build")["token"]
    (waiting,) = ann.json("approvals")["waiting"]
    status, answer = Api(house, token).run("allow", number=waiting["number"])
    assert (status, "approve" in json.dumps(answer)) == (403, True)
    token = house.operate("token_new", name=ann.name, scope="approve")["token"]
    status, _ = Api(house, token).run("allow", number=waiting["number"])
    assert status == 200
    screen.wait_for("exit status 0")


@pytest.mark.parametrize(
    ("meanwhile", "refusal"),
    [
        ("mute {bob}", "You are muted in"),
        ("unequip room workspace:*", "workspace:run_command cannot be used here any more"),
    ],
)
def test_caller_who_lost_the_tool_while_it_waited_is_refused(
    house: Server, ann: Person, name: Any, meanwhile: str, refusal: str
) -> None:
    bob = house.person(name("bob"))
    room = ann.json("files")["room"]
    screen = ann.sit(room=room)
    bob.does(f"join {room}")
    call = 'run workspace:run_command command="touch made"'
    with subprocess.Popen(
        [*bob.ssh("-T"), call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waits:
        screen.wait_for("asks to run workspace:run_command")
        assert ann.run(meanwhile.format(bob=bob.name)).status == 0
        wait_until(lambda: not ann.json("approvals")["waiting"])
        out, errors = waits.communicate()
    assert refusal in out + errors and waits.returncode == 1
    assert ann.json("files")["count"] == 0


@pytest.mark.process
def test_files_that_the_server_has_inherited_are_not_open_inside(tmp_path: Path) -> None:
    """A shell or a service manager may leave some open."""
    data_dir, secret = tmp_path / "data", tmp_path / "secret"
    secret.write_text("sesame")
    with secret.open() as inherited, subprocess.Popen(
        [str(PROGRAM), "serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0",
         "--http", "off"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, text=True,
        pass_fds=(inherited.fileno(),), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        port = server.stdout.readline().split()[1].rpartition(":")[2]
        for words in ("create x", f"shell bash -c 'cat <&{inherited.fileno()}'"):
            done = subprocess.run(
                ["ssh", "-i", str(data_dir / "operator_ed25519"), "-p", port, "-T",
                 "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                 "127.0.0.1", words],
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
        server.terminate()
    assert "Bad file descriptor" in done.stdout, done
    assert "sesame" not in done.stdout
