"""Memory over stock ssh: bytes in and out of pipes, other rooms, a restart."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from support.driver import Person, Server
from support.driver.covers import covers

VALUE = "grüße\r\nzwei\n\n \x1b[1mdrei\x1b[0m \N{GRINNING FACE}\n".encode()


@covers("mem project set")
@covers("mem project get")
@covers("mem project list")
@covers("mem project search")
@covers("mem project delete")
@covers("mem show")
def test_a_value_goes_through_pipes_to_another_room(alice: Person, bob: Person, room: str) -> None:
    stored = alice.run(f"mem project set plan --room {room}", VALUE, "-T")
    assert stored.status == 0, stored
    got = bob.run("mem project get plan --room lobby", b"", "-T")
    assert (got.status, got.raw) == (0, VALUE)
    assert "plan" in bob.json("mem project list")["keys"]
    assert "plan" in bob.json("mem show")["project_keys"]
    found = bob.json("mem project search plan zw.*")
    assert [(one["number"], one["spans"]) for one in found["matches"]] == [(2, [[0, 4]])]
    missing = bob.run("mem project get nothing")
    assert missing.status == 1 and "was not found in project memory" in missing.err
    assert alice.run("mem project set empty --stdin", b"", "-T").status == 0
    assert bob.json("mem project get empty")["value"] == ""
    assert alice.run("mem project set plan --room lobby", b"", "-T").status == 2
    assert bob.run("mem project delete plan").status == 0
    gone = bob.run("mem project get plan --json")
    assert gone.status == 1 and json.loads(gone.out)["found"] is False


@covers("mem session set")
@covers("mem session get")
@covers("mem session list")
@covers("mem session append")
@covers("mem session concat")
@covers("mem session copy")
@covers("mem session search")
@covers("mem session lines")
@covers("mem session chars")
@covers("mem session insert")
@covers("mem session replace")
@covers("mem session cut")
@covers("mem session patch")
@covers("mem session length")
@covers("mem session count")
@covers("mem session eol")
@covers("mem session normalize")
@covers("mem session indent")
@covers("mem session reindent")
@covers("mem session delete")
def test_a_text_of_a_room_is_edited_line_by_line(alice: Person, bob: Person, room: str) -> None:
    at = f"--room {room}"

    def done(line: str, piped: bytes = b"") -> str:
        ran = alice.run(f"{line} {at}", piped, "-T")
        assert ran.status == 0, ran
        return ran.raw.decode()

    done("mem session set a", b"one\ntwo\nthree\n")
    done("mem session append a = four")
    assert done("mem session get a") == "one\ntwo\nthree\nfour"
    assert done("mem session lines a 2 3") == "two\nthree\n"
    assert done("mem session lines a 4 --number-lines") == "4 | four"
    assert done("mem session chars a 4 7") == "two"
    done("mem session insert a 2 = new")
    done("mem session replace a 3 3 = 2")
    done("mem session cut a 4 4")
    assert done("mem session get a") == "one\nnew\n2\nfour"
    done("mem session patch a", b"@@ -1,2 +1,2 @@\n one\n-new\n+old\n")
    assert (done("mem session count a"), done("mem session length a")) == ("4\n", "14\n")
    assert "LF 3" in done("mem session eol a")
    done("mem session normalize a crlf")
    assert "CRLF 3" in done("mem session eol a")
    done("mem session set b = \tx")
    assert "tabs" in done("mem session indent b")
    done("mem session reindent b spaces --spaces-per-tab 2")
    done("mem session concat a b c")
    assert done("mem session get c") == "one\r\nold\r\n2\r\nfour  x"
    refused = alice.run(f"mem session copy a c {at}")
    assert refused.status == 1 and "already" in refused.err
    done("mem session copy a d --rename")
    assert alice.json(f"mem session list {at}")["keys"] == ["b", "c", "d"]
    assert len(alice.json(f"mem session search c o {at}")["matches"]) == 3
    done("mem session delete b")
    assert alice.json(f"mem session list {at}")["keys"] == ["c", "d"]
    assert "c" not in bob.json("mem session list --room lobby")["keys"]


def test_values_survive_a_kill(serve: Callable[..., Server]) -> None:
    server = serve()
    ann = server.person("ann")
    for memory in ("project", "session"):
        assert ann.run(f"mem {memory} set kept", VALUE, "-T").status == 0
    server.kill()
    server.start()
    for memory in ("project", "session"):
        assert ann.run(f"mem {memory} get kept", b"", "-T").raw == VALUE


@covers("env")
def test_rooms_share_the_pinned_project_or_have_their_own(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """The directory of a room counts at each call; the server stays where it is."""
    (tmp_path / "site").mkdir()
    for pinned in (True, False):
        server = serve("--pin-project-memory", str(pinned))
        owner = server.owner
        assert owner.json("env").keys() == {"os", "shell", "initialCwd"}
        start = owner.json("mem show")["project"]
        owner.run("create den")
        owner.run(f"state directory {tmp_path}/site --room den")
        den = owner.json("mem show --room den")
        assert den["pinned"] is pinned
        assert den["project"] == (start if pinned else os.path.realpath(tmp_path / "site"))
        assert owner.json("mem show --room lobby")["project"] == start
        assert owner.json("env")["initialCwd"] == start
        owner.run("mem project set where = den --room den")
        found = owner.run("mem project get where --json --room lobby")
        assert json.loads(found.out)["found"] is pinned


@covers("mem project history")
@covers("mem project diff")
@covers("mem project restore")
@covers("mem session history")
@covers("mem session diff")
@covers("mem session restore")
def test_earlier_values_are_listed_compared_and_restored(alice: Person, room: str) -> None:
    at = f"--room {room}"
    for memory, history, diff, restore in (
        ("project", "mem project history", "mem project diff", "mem project restore"),
        ("session", "mem session history", "mem session diff", "mem session restore"),
    ):
        for value in (b"one\ntwo\n", b"one\n2\n", b"one\n2\n3\n"):
            assert alice.run(f"mem {memory} set story {at}", value, "-T").status == 0
        listed = alice.json(f"{history} story {at}")["versions"]
        assert [(one["version"], one["size"], one["ended"]) for one in listed] == [
            (3, 8, ""),
            (2, 6, f"replaced by {alice.name}"),
            (1, 8, f"replaced by {alice.name}"),
        ]
        assert "+3" in alice.json(f"{diff} story {at}")["diff"]
        first = alice.json(f"{diff} story 1 {at}")
        assert "-two" in first["diff"] and "+2" in first["diff"]
        alice.run(f"mem {memory} delete story {at}")
        assert "deleted by" in alice.json(f"{history} story {at}")["versions"][0]["ended"]
        assert alice.run(f"{restore} story 1 {at}").status == 0
        assert alice.run(f"mem {memory} get story {at}", b"", "-T").raw == b"one\ntwo\n"
        gone = alice.run(f"{restore} story 9 {at}")
        assert gone.status == 1 and "At most 100 are kept" in gone.err
        alice.run(f"mem {memory} delete story {at}")


@covers("mem projects")
@covers("mem project members")
@covers("mem project member")
def test_an_owner_lets_others_use_a_project(
    alice: Person, bob: Person, room: str, tmp_path: Path
) -> None:
    at = f"--project {tmp_path} --room {room}"
    assert alice.run(f"mem project set k {at}", b"of alice", "-T").status == 0
    assert alice.json(f"mem project members {at}")["members"] == {alice.name: "owner"}
    assert bob.run(f"mem project get k --project {tmp_path}").status == 1
    assert str(tmp_path) not in [one["path"] for one in bob.json("mem projects")["projects"]]
    query = f"sql SELECT key, value FROM project_memory WHERE project = '{tmp_path}'"
    assert alice.json(f"{query} --room {room}")["rows"] == [["k", "of alice"]]
    assert bob.json(query)["rows"] == []
    refused = bob.run(f"mem project member {bob.name} owner --project {tmp_path}")
    assert refused.status == 1
    assert alice.run(f"mem project member {bob.name} member {at}").status == 0
    assert bob.run(f"mem project get k --project {tmp_path}", b"", "-T").raw == b"of alice"
    assert str(tmp_path) in [one["path"] for one in bob.json("mem projects")["projects"]]
    refused = bob.run(f"mem project member {alice.name} none --project {tmp_path}")
    assert refused.status == 1
    only = alice.run(f"mem project member {alice.name} none {at}")
    assert only.status == 1 and "only owner" in only.err
    assert alice.run(f"mem project member {bob.name} none {at}").status == 0
    assert bob.run(f"mem project get k --project {tmp_path}").status == 1


@covers("mem project edit")
@covers("mem session edit")
def test_a_value_is_edited_in_the_line_editor(alice: Person, room: str) -> None:
    alice.run(f"mem session set note --room {room}", b"first\nlast draft line", "-T")
    screen = alice.sit()
    screen.enter(f"/join {room}")
    screen.wait_for_prompt(room)
    screen.enter("/mem session edit note")
    screen.wait_for("last draft line")
    screen.enter(" and more")
    screen.wait_for('Changed "note" in session memory')
    got = alice.run(f"mem session get note --room {room}", b"", "-T")
    assert got.raw == b"first\nlast draft line and more"
    screen.enter("/mem project edit fresh")
    screen.wait_for("Editing fresh, which is new: Enter")
    screen.enter("from nothing")
    screen.wait_for('Stored "fresh" in project memory')
    alice.hang_up()
    assert alice.run("mem project delete fresh").status == 0


@covers("mem session edit")
def test_an_edit_never_replaces_what_another_stored_meanwhile(
    alice: Person, bob: Person, room: str
) -> None:
    value = b"one\tline\r\nlast\r\n"
    alice.run(f"mem session set note --room {room}", value, "-T")
    screen = alice.sit()
    screen.enter(f"/join {room}")
    screen.wait_for_prompt(room)
    screen.enter("/mem session edit note")
    screen.wait_for("--base 1 --crlf --tabs = one␉line")
    screen.enter("mine")
    screen.wait_for('Changed "note" in session memory')
    mine = alice.run(f"mem session get note --room {room}", b"", "-T").raw
    assert mine == value + b"mine"
    screen.enter("/mem session edit note")
    screen.wait_for("--base 2 --crlf --tabs = ")
    bob.does(f"join {room}", f"mem session set note = of bob --room {room}")
    screen.enter(" too")
    screen.wait_for(f'"note" was set by {bob.name} since version 2')
    alice.hang_up()
    got = alice.run(f"mem session get note --room {room}").out
    assert got == "of bob"
    for line in ("note --base 1 = again", "note --base 0 = again", "gone --base 4 = again"):
        refused = alice.run(f"mem session edit {line} --room {room}")
        assert refused.status == 1, line
    assert alice.run(f"mem session edit note --base 3 = again --room {room}").status == 0
    of_log = alice.run(f"mem session edit stubs.1 --room {room}")
    assert of_log.status == 2 and "name rows of the log" in of_log.err
    assert alice.run(f"mem session edit gone --base 0 = new --room {room}").status == 0
    assert alice.run(f"mem session edit gone any words --room {room}").status == 2
    assert alice.run(f"mem session get gone --room {room}").out == "new"


def test_a_script_has_the_project_of_the_room_alone(
    alice: Person, room: str, tmp_path: Path
) -> None:
    """Its author may be somebody else, who is no member."""
    alice.does(f"mem project set k --project {tmp_path}/own --room {room} = mine")
    call = "host.call('memory:project_memory_get_variable', {key='k', project='PATH'})"
    script = f"return {call.replace('PATH', f'{tmp_path}/own')}.value"
    assert alice.run(f"tool new peek --room {room}", script).status == 0
    done = alice.run(f"run peek --room {room}")
    assert done.status == 1
    assert "the project of the room alone" in done.out + done.err


@covers("mem project set")
def test_a_name_with_spaces_is_never_cut_at_its_first_word(alice: Person, room: str) -> None:
    refused = alice.run(f"mem session set a b = v --room {room}")
    assert refused.status == 2
    assert "It is not clear where the text begins" in refused.err
    assert "'a b' = " in refused.err
    for line, key, value in (
        ("'a b' = v", "a b", "v"),
        ("a = b = v", "a", "b = v"),
        ("c x=1", "c", "x=1"),
        ("-- -dash = v", "-dash", "v"),
        ("-- --long = --v", "--long", "--v"),
        ("d -- --v = 1", "d", "--v = 1"),
        ("-- -- = v", "--", "v"),
    ):
        stored = alice.run(f"mem session set --room {room} {line}".replace("'", '"'))
        assert stored.status == 0, (line, stored.err)
        got = alice.run(f'mem session get --room {room} -- "{key}"')
        assert got.out == value, line


@covers("mem project set")
def test_a_value_that_comes_late_is_waited_for(alice: Person) -> None:
    command = [*alice.ssh("-T"), "mem project set late"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        other = alice.pipe("-o", "RemoteCommand=say hello")
        assert other.stdout
        assert "was not read" in other.stdout.read().decode(), "text that may come is waited for"
        assert waiting.communicate(b"at last\n", timeout=30)[0]
    assert alice.run("mem project get late").raw == b"at last\n"


@covers("mem project set")
def test_a_loop_keeps_its_input_beside_a_given_value(alice: Person) -> None:
    done = alice.run("mem project set first = v", b"second\nthird\n", "-T")
    assert "Standard input was not used" in done.err and "ssh -n" in done.err
    assert alice.run("mem project get first").raw == b"v"
    both = alice.run("mem project set first b", b"a file\n", "-T")
    assert both.status == 2 and "another one comes by a pipe" in both.err, both
    assert alice.run("mem project get first").raw == b"v"
    assert alice.run("mem project set first w", b"", "-T").status == 0
    assert alice.run("mem project set first --from nothing", b"", "-T").err.count("nothing") == 1
