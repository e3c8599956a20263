"""Triggers: scripts of rooms that events and times start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sshwarma.common.limits import MAX_TRIGGER_FAILURES
from support.driver import Person, Server
from support.driver.covers import covers
from support.waiting import wait_until

COUNTER = """-- @on row:chat
host.state("room").add("runs")
return "heard " .. event.text
"""


@pytest.fixture
def den(world: Server, room: str) -> str:
    """A room whose builder is the owner of the server."""
    world.owner.does(f"join {room}")
    return room


def make(person: Person, room: str, name: str, script: str) -> dict[str, Any]:
    """Make a trigger; return its result."""
    done = person.run(f"trigger new {name} --room {room} --json", script)
    assert done.status == 0, done
    made: dict[str, Any] = done.json
    return made


def last_rows(person: Person, room: str, count: int = 20) -> list[tuple[str, str, str]]:
    entries = person.json(f"history {count} --room {room}")["entries"]
    return [(one["kind"], one["who"], one["text"]) for one in entries]


def said(person: Person, room: str) -> list[tuple[str, str]]:
    return [(who, text) for kind, who, text in last_rows(person, room, 200) if kind == "chat"]


def runs(person: Person, room: str, name: str) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = person.json(f"trigger log {name} --room {room}")["runs"]
    return log


def wait_for_runs(person: Person, room: str, name: str, count: int) -> list[dict[str, Any]]:
    """Wait until `count` runs have ended; return all."""

    def ended() -> list[dict[str, Any]]:
        found = runs(person, room, name)
        return found if sum(one["status"] != "running" for one in found) >= count else []

    wait_until(ended)
    return ended()


@covers("trigger list", "trigger off", "trigger on", "trigger remove")
def test_a_trigger_speaks_when_something_happens(world: Server, bob: Person, den: str) -> None:
    owner = world.owner
    made = make(owner, den, "echo", "-- Answers.\n" + COUNTER)
    assert (made["on"], made["made"], made["next_at"]) == (["row:chat"], True, None)
    bob.does(f"say --room {den} one", f"me --room {den} waves")
    wait_for_runs(owner, den, "echo", 1)
    bob.does(f"say --room {den} two")
    first, second = wait_for_runs(owner, den, "echo", 2)
    assert (first["cause"], first["status"], first["text"]) == ("row:chat", "done", "heard one")
    assert second["text"] == "heard two"
    speaker = f"echo@{owner.name}"
    assert said(bob, den) == [
        (bob.name, "one"), (speaker, "heard one"), (bob.name, "two"), (speaker, "heard two"),
    ]  # fmt: skip
    (listed,) = bob.json(f"trigger list --room {den}")["triggers"]
    assert (listed["name"], listed["by"], listed["about"]) == ("echo", owner.name, "Answers.")
    assert listed["is_on"] and listed["last"]["status"] == "done"
    owner.does(f"trigger off echo --room {den}")
    bob.does(f"say --room {den} three")
    (listed,) = bob.json(f"trigger --room {den}")["triggers"]
    assert (listed["is_on"], listed["off_reason"]) == (False, f"{owner.name} turned it off")
    owner.does(f"trigger on echo --room {den}")
    bob.does(f"say --room {den} four")
    log = wait_for_runs(owner, den, "echo", 3)
    assert [one["text"] for one in log][2:] == ["heard four"], "not what was said while it was off"
    owner.does(f"trigger remove echo --room {den}")
    assert bob.json(f"trigger --room {den}")["triggers"] == []
    notices = [text for kind, _, text in last_rows(bob, den) if kind == "notice"]
    assert "made the trigger echo, which runs on row:chat" in notices
    assert "removed the trigger echo" in notices


def test_what_triggers_do_starts_no_trigger(world: Server, bob: Person, den: str) -> None:
    """Also if they call a model, or each other, or use tools."""
    owner = world.owner
    make(owner, den, "ask", '-- @on row:chat,row:note,call\nreturn "@guide what of " .. event.text')
    make(owner, den, "echo", COUNTER)
    owner.does(f"equip me sshwarma:note --room {den}")
    note = '-- @on row:chat\nhost.call("sshwarma:note", {text = "seen"})'
    make(owner, den, "scribe", note)
    bob.does(f"say --room {den} hello")
    wait_until(lambda: any(who == "guide" for who, _ in said(bob, den)))
    for name in ("ask", "echo", "scribe"):
        wait_for_runs(owner, den, name, 1)
    bob.does(f"say --room {den} again")
    wait_until(lambda: sum(who == "guide" for who, _ in said(bob, den)) == 2)
    for name in ("ask", "echo", "scribe"):
        assert len(wait_for_runs(owner, den, name, 2)) == 2, name
    kinds = [kind for kind, _, text in last_rows(bob, den, 50) if text.endswith("seen")]
    assert kinds.count("journal.note") == 2


def test_a_trigger_has_the_rights_of_who_turned_it_on(
    world: Server, alice: Person, bob: Person, den: str
) -> None:
    """Of a member at most; and never for a script that another has written."""
    owner = world.owner
    done = bob.run(f"trigger new own --room {den}", COUNTER)
    assert (done.status, "needs the build right" in done.err) == (1, True)
    owner.does(f"room builder {bob.name} --room {den}")
    for tool in ("describe", "namespace_set"):
        owner.does(f"equip me sshwarma:{tool} --room {den}")
    script = (
        '-- @on row:chat\nreturn host.call("sshwarma:namespace_set",'
        ' {name = "workspace", field = "equip_role", value = "guest"})'
    )
    make(owner, den, "grab", script)
    alice.does(f"say --room {den} hello")
    (run,) = wait_for_runs(owner, den, "grab", 1)
    assert run["status"] == "failed" and "no script or custom command of yours" in run["text"]
    make(owner, den, "mine", "-- @on row:chat\nreturn caller.name")
    bob.run(f"put trigger:mine --room {den}", '-- @on row:chat\nreturn "planted " .. caller.name')
    alice.does(f"say --room {den} go")
    (_, listed) = alice.json(f"trigger --room {den}")["triggers"]
    assert listed["off_reason"] == "its script was changed"
    notice = ("notice", "sshwarma", "The trigger mine is off: its script was changed.")
    wait_until(lambda: notice in last_rows(alice, den))
    assert runs(owner, den, "mine") == []
    bob.does(f"trigger on mine --room {den}")
    alice.does(f"say --room {den} now")
    wait_until(lambda: (f"mine@{bob.name}", f"planted {bob.name}") in said(alice, den))


def test_a_renamed_trigger_is_off_and_can_be_removed(world: Server, bob: Person, den: str) -> None:
    """Else it would be in no list, and speak under a name of another's choice."""
    owner = world.owner
    owner.does(f"room builder {bob.name} --room {den}")
    for new in ("hidden", "trigger:other"):
        make(owner, den, "echo", COUNTER)
        bob.does(f"rename trigger:echo {new} --room {den}", f"say --room {den} {new}")
        notice = ("notice", "sshwarma", "The trigger echo is off: its script was renamed.")
        assert notice in last_rows(bob, den, 4)
    assert said(bob, den) == [(bob.name, "hidden"), (bob.name, "trigger:other")]
    (listed,) = bob.json(f"trigger --room {den}")["triggers"]
    assert (listed["name"], listed["is_on"]) == ("other", False)
    owner.does(f"trigger remove other --room {den}")


def test_a_trigger_asks_for_no_approval(world: Server, bob: Person, den: str) -> None:
    """Its runs, of which there are few places, would wait for people."""
    owner = world.owner
    owner.run(f"tool new danger --room {den}", "return 1")
    owner.does(f"tool set {den}:danger approval on")
    make(owner, den, "ask", f'-- @on row:chat\nreturn host.call("{den}:danger")')
    bob.does(f"say --room {den} go")
    (run,) = wait_for_runs(owner, den, "ask", 1)
    assert run["status"] == "failed" and "a trigger asks for none" in run["text"]


def test_a_trigger_is_on_only_where_its_script_could_talk(
    world: Server, bob: Person, room: str
) -> None:
    bob.does("create lair-of-bob", "room private")
    done = world.owner.run("trigger new x --room lair-of-bob", COUNTER)
    assert done.status == 1 and "no script or custom command of yours" in done.err, done


def test_states_and_failed_calls_start_triggers(world: Server, bob: Person, den: str) -> None:
    owner = world.owner
    script = (
        '-- @on state:alarm,no-state:alarm\nreturn event.on[1] .. " " .. tostring(event.is_set)'
    )
    make(owner, den, "watch", script)
    make(owner, den, "pager", '-- @on call:error\nreturn event.tool .. " failed"')
    owner.does(f"state add alarm --room {den}")
    wait_for_runs(owner, den, "watch", 1)
    owner.does(f"state remove alarm --room {den}")
    wait_for_runs(owner, den, "watch", 2)
    owner.run(f"tool new bad --room {den}", "error('no luck')")
    bob.run(f"run {den}:bad --room {den}")
    wait_for_runs(owner, den, "pager", 1)
    assert [text for _, text in said(bob, den)] == [
        "state:alarm true", "no-state:alarm false", f"{den}:bad failed",
    ]  # fmt: skip


def test_answers_that_are_taken_back_start_a_trigger(world: Server, bob: Person, den: str) -> None:
    script = '-- @on turns\nreturn event.type .. " " .. #event.gone'
    make(world.owner, den, "watch", script)
    bob.does(f"say --room {den} @guide hello")
    bob.does(f"undo --room {den}")
    (run,) = wait_for_runs(world.owner, den, "watch", 1)
    assert (run["status"], run["text"].startswith("turns ")) == ("done", True)


def test_a_trigger_that_fails_always_is_turned_off(world: Server, bob: Person, den: str) -> None:
    make(world.owner, den, "bad", "-- @on row:chat\nreturn event.text .. nil")
    for number in range(MAX_TRIGGER_FAILURES):
        bob.does(f"say --room {den} {number}")
        wait_for_runs(world.owner, den, "bad", number + 1)
    wait_until(lambda: not bob.json(f"trigger --room {den}")["triggers"][0]["is_on"])
    notices = [text for kind, _, text in last_rows(bob, den, 50) if "trigger bad" in text]
    assert len(notices) == 3, notices  # made, failed once, off
    assert "trigger:bad:2: attempt to concatenate a nil value" in notices[1]
    assert f"is off: it failed {MAX_TRIGGER_FAILURES} times" in notices[2]


@covers("trigger test")
def test_a_trigger_is_tested_by_its_author_alone(world: Server, bob: Person, den: str) -> None:
    script = '-- @on call:error\nprint(event.type)\nreturn "about " .. (event.text or "nothing")'
    make(world.owner, den, "pager", script)
    before = last_rows(bob, den, 50)
    tested = world.owner.json(f'trigger test pager {{"text": "a disk"}} --room {den}')
    assert (tested["ok"], tested["text"], tested["printed"]) == (True, "about a disk", ["test"])
    assert last_rows(bob, den, 50) == before and runs(bob, den, "pager") == []


@covers("tool state")
def test_what_a_trigger_keeps_is_shown_and_deleted(world: Server, den: str) -> None:
    owner = world.owner
    make(owner, den, "tally", "-- @on row:chat\nhost.state().add('lines')")
    owner.does(f"say --room {den} one")
    wait_for_runs(owner, den, "tally", 1)
    shown = owner.does(f"tool state trigger:tally --room {den}")
    assert "trigger:tally keeps for itself:" in shown and "lines  1" in shown
    assert "Deleted 1 key" in owner.does(f"tool state trigger:tally --clear --room {den}")
    assert "keeps nothing" in owner.does(f"tool state trigger:tally --room {den}")


@covers("trigger new", "trigger edit", "trigger log")
def test_a_trigger_is_edited_in_a_terminal(world: Server, den: str) -> None:
    owner = world.owner
    done = owner.run(f"trigger new echo --room {den}", "-- @on row:chat\nreturn 1")
    assert "The trigger echo is on: it runs on row:chat." in done.out, done
    screen = owner.sit(room=den)
    screen.type("/trigger edit echo")
    screen.press("enter")
    screen.wait_for("return 1")
    screen.type("2")
    screen.press("enter")
    screen.wait_for("The trigger echo is on")
    assert owner.json(f"examine trigger:echo --room {den}")["content"].endswith("return 12")
    assert owner.run(f"trigger log echo --room {den}").out == "echo has not run yet.\n"
    screen.close()


def test_triggers_are_refused_in_words(world: Server, den: str) -> None:
    for script, told in (
        ("return 1", "The script does not say what starts it."),
        ("-- @on rows\nreturn 1", "Line 1 of the script: unknown event rows. Events: mention,"),
        ("-- x\n-- @at 61 * * * *\nreturn 1", "Line 2 of the script: the minute of 61 * * * * is"),
        ("-- @at 0 9 * * * Mars/X\nreturn 1", "unknown time zone Mars/X"),
        ("-- @on row\nreturn (", "Lua syntax error: trigger:bad:2"),
        ("", "needs TEXT"),
    ):
        done = world.owner.run(f"trigger new bad --room {den}", script)
        assert done.status in (1, 2) and told in done.err, (script, done)
    assert "Unknown trigger nosuch" in world.owner.run(f"trigger log nosuch --room {den}").err
    assert world.owner.json(f"trigger --room {den}")["triggers"] == []


@pytest.mark.process
def test_no_event_starts_a_trigger_twice_over_kills(serve: Callable[..., Server]) -> None:
    """Each message starts it once: its run is done, or cut by the kill."""
    server = serve(limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    script = """-- @on row:chat
    if event.type == "test" then return host.state().all() end
    host.state().add(event.text)"""
    make(owner, "lobby", "count", script)
    sent = 0
    for _ in range(4):
        for _ in range(3):
            owner.does(f"say line-{sent}")
            sent += 1
        server.kill()
        server.start()
    owner.does("say the-last")
    log = wait_for_runs(owner, "lobby", "count", sent + 1)
    assert len({one["event"] for one in log}) == len(log) == sent + 1
    assert {one["status"] for one in log} <= {"done", "cut"}
    counts = owner.json("trigger test count")["structured"]
    assert set(counts.values()) == {1}
    assert len(counts) >= sum(one["status"] == "done" for one in log)


@pytest.mark.process
def test_a_time_starts_a_trigger_once(serve: Callable[..., Server]) -> None:
    server = serve()
    made = make(server.owner, "lobby", "tick", "-- @at * * * * *\nreturn event.time")
    assert made["next_at"] % 60_000 == 0
    wait_until(lambda: said(server.owner, "lobby"), seconds=90)
    server.kill()
    server.start()
    ((who, text), *more) = said(server.owner, "lobby")
    assert who == f"tick@{server.owner.name}" and text.endswith(":00+00:00")
    assert [one["event"] for one in runs(server.owner, "lobby", "tick")][:1] == [
        f"at * * * * * {made['next_at']}"
    ]
    assert len(more) <= 1, "that of the next minute at most"
    events = [one["event"] for one in runs(server.owner, "lobby", "tick")]
    assert len(set(events)) == len(events)


@pytest.mark.process
def test_a_state_starts_a_trigger_once_over_an_orderly_stop(
    serve: Callable[..., Server],
) -> None:
    """Also if the stop cuts the run: what it stored at its begin is not written over."""
    server = serve()
    script = (
        "-- @on state:alarm\nhost.state().add('runs')\n"
        "local till = os.clock() + 1\nwhile os.clock() < till do end\nreturn 'alarm'"
    )
    make(server.owner, "lobby", "watch", script)
    server.owner.does("state add alarm --room lobby")
    wait_until(lambda: runs(server.owner, "lobby", "watch"))
    server.stop()
    server.start()
    server.owner.does("say --room lobby after")
    server.owner.does("state remove alarm --room lobby", "state add alarm --room lobby")
    wait_for_runs(server.owner, "lobby", "watch", 2)
    assert len(runs(server.owner, "lobby", "watch")) == 2, "one for each time that it was set"


def test_own_private_messages_start_no_trigger_on_rows(
    world: Server, bob: Person, den: str
) -> None:
    """A trigger on rows would say them aloud."""
    owner = world.owner
    make(owner, den, "echo", '-- @on row\nreturn "heard " .. event.text')
    owner.does(f"tell {bob.name} a secret")
    bob.does(f"tell {owner.name} another")
    bob.does(f"say --room {den} aloud")
    wait_until(lambda: "heard aloud" in [one["text"] for one in runs(owner, den, "echo")])
    heard = " ".join(one["text"] for one in runs(owner, den, "echo"))
    assert "secret" not in heard and "another" not in heard
