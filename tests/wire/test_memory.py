"""Memory over stock ssh: bytes in and out of pipes, other rooms, a restart."""

from __future__ import annotations

import os
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
    assert bob.run("mem project delete plan").status == 0
    assert bob.json("mem project get plan")["found"] is False


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
    assert (done("mem session count a"), done("mem session length a")) == ("4", "14")
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
        found = owner.json("mem project get where --room lobby")
        assert found["found"] is pinned
