"""Talking and remembering: lines, emotes, tells, the journal, history, search."""

from __future__ import annotations

import re
from collections.abc import Callable

from support.driver import Person
from support.driver.covers import covers

Named = Callable[[str], str]

# -- talking


@covers("say")
def test_message_reaches_everybody_in_the_room_and_keeps_their_drafts(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(room=room), bob.sit(room=room)
    his.type("half a li")
    his.wait_for_input(f"{room}> half a li")
    hers.enter("hello everybody")
    his.wait_for(f"{alice.name}: hello everybody")
    his.wait_for_input(f"{room}> half a li")
    hers.wait_for(f"{alice.name}: hello everybody")
    his.type("ne")
    his.press("home")
    hers.enter("again")
    his.wait_for(f"{alice.name}: again")
    his.wait_for_input(f"{room}> half a line")
    assert his.cursor[0] == len(f"{room}> ")
    his.press("enter")
    hers.wait_for(f"{bob.name}: half a line")
    assert his.count("hello everybody") == 1
    assert hers.count("hello everybody") == 1


@covers("me", "say")
def test_emotes_and_messages_that_start_with_a_slash_are_sent(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(room=room), bob.sit(room=room)
    hers.enter("/me waves")
    his.wait_for(f"* {alice.name} waves")
    hers.enter("//etc/passwd is a path")
    his.wait_for(f"{alice.name}: /etc/passwd is a path")
    hers.enter("/say -- two dashes --now and 'quotes\"")
    his.wait_for(f"{alice.name}: -- two dashes --now and 'quotes\"")
    kinds = [entry["kind"] for entry in alice.json(f"history --room {room}")["entries"]]
    assert kinds[-3:] == ["emote", "chat", "chat"]


def test_message_is_not_shown_in_other_rooms(alice: Person, bob: Person, room: str) -> None:
    hers, his = alice.sit(room=room), bob.sit()
    hers.enter("only here")
    hers.wait_for(f"{alice.name}: only here")
    hers.enter(f"/tell {bob.name} now look")
    his.wait_for("now look")
    assert his.count("only here") == 0


@covers("tell", "reply", "history show", "search")
def test_tell_is_private(
    alice: Person, bob: Person, person: Callable[..., Person], room: str
) -> None:
    eve = person("eve")
    secret = f"sesame-{alice.name}"
    hers, his, third = alice.sit(room=room), bob.sit(), eve.sit(room=room)
    hers.enter(f"/tell {bob.name} {secret} one")
    his.wait_for(f"{alice.name} → you: {secret} one")
    hers.wait_for(f"you → {bob.name}: {secret} one")
    his.enter(f"/reply {secret} two")
    hers.wait_for(f"{bob.name} → you: {secret} two")
    hers.enter("a public word")
    third.wait_for(f"{alice.name}: a public word")
    assert third.count(secret) == 0

    assert [entry["text"] for entry in bob.json(f"history @{alice.name}")["entries"]] == [
        f"{secret} one",
        f"{secret} two",
    ]
    assert len(alice.json(f"search {secret}")["entries"]) == 2
    assert eve.json(f"search {secret}")["entries"] == []
    assert eve.run(f"history @{alice.name}").status == 1
    assert secret not in eve.run(f"history 100 --room {room}").out
    for thing in ("directs", f"@{bob.name}", "world"):
        assert secret not in eve.run(f"examine {thing}").out
    owner = eve.server.owner
    assert owner.json(f"search {secret}")["entries"] == []
    owner.hang_up()


@covers("tell", "reply")
def test_tell_to_an_absent_agent_is_stored_and_an_invalid_one_is_refused(
    alice: Person, bob: Person, person: Callable[..., Person]
) -> None:
    assert alice.does(f"tell {bob.name} later").startswith(f"you → {bob.name}: later\n")
    assert bob.json(f"history @{alice.name}")["entries"][0]["text"] == "later"
    bob.does("reply now")
    assert alice.run(f"tell {alice.name} me").status == 2
    assert alice.run("tell nobody-of-that-name x").status == 1
    lonely = person("lonely").run("reply hello")
    assert lonely.status == 1
    assert "Nobody has sent you a private message yet." in lonely.err


def test_mention_rings_the_bell_once_and_is_highlighted(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(room=room), bob.sit(room=room)
    hers.enter("nothing for you")
    his.wait_for("nothing for you")
    assert his.pyte_screen.bells == 0
    hers.enter(f"@{bob.name} look here")
    his.wait_for("look here")
    his.wait_for(lambda: his.pyte_screen.bells == 1)
    assert hers.pyte_screen.bells == 0
    row = next(
        y
        for y in range(his.pyte_screen.lines)
        if "look here" in his._row(his.pyte_screen.buffer[y])
    )
    at = his._row(his.pyte_screen.buffer[row]).index("look here")
    assert his.pyte_screen.buffer[row][at].reverse
    his.enter("/set bell off")
    his.wait_for("bell is off.")
    hers.enter(f"@{bob.name} once more")
    his.wait_for("once more")
    hers.enter("end")
    his.wait_for(f"{alice.name}: end")
    assert his.pyte_screen.bells == 1


# -- the journal


def test_note_of_a_whole_log_prints_its_first_line(alice: Person, room: str) -> None:
    piped = alice.run("note", stdin="make: nothing to do\nall is built\nin 3 s\n")
    assert piped.out == "[note] make: nothing to do\n  and 2 more lines\n"
    assert alice.json("journal")["entries"][-1]["text"].count("\n") == 2


@covers("note", "decide", "idea", "milestone", "journal")
def test_journal_keeps_four_kinds_with_author_time_and_room(
    alice: Person, bob: Person, room: str
) -> None:
    his = bob.sit(room=room)
    assert alice.does("note the relay box is 10.0.0.9") == "[note] the relay box is 10.0.0.9\n"
    alice.does("decide ship on Friday", "idea cache the route", "milestone first green run")
    his.wait_for(f"[milestone] {alice.name}: first green run")
    lines = alice.run("journal").lines
    assert lines[0] == f"Journal of {room}:"
    pattern = re.compile(rf"  \d\d:\d\d  (\w+) +{alice.name}  (.*)")
    assert [pattern.fullmatch(line).groups() for line in lines[1:]] == [
        ("note", "the relay box is 10.0.0.9"),
        ("decision", "ship on Friday"),
        ("idea", "cache the route"),
        ("milestone", "first green run"),
    ]
    assert [e["kind"] for e in alice.json("journal decision")["entries"]] == ["decision"]
    assert [e["text"] for e in alice.json("journal all 2")["entries"]] == [
        "cache the route",
        "first green run",
    ]
    assert alice.run("journal everything").status == 2
    assert alice.run("note").status == 2
    assert alice.json("journal --room lobby")["room"] == "lobby"


# -- history and search


@covers("history show")
def test_history_pages_back_to_the_first_row_without_gap_or_repeat(
    alice: Person, room: str
) -> None:
    for number in range(25):
        alice.does(f"say line {number}")
    found: list[dict[str, object]] = []
    command = "history 7"
    for _page in range(10):
        page = alice.json(command)
        found = page["entries"] + found
        if page["older"] is None:
            break
        assert page["older"]["n"] == 7
        command = f"history 7 --before {page['older']['before']}"
        assert alice.run("history 7").lines[0].startswith("older: /history 7 --before ")
    assert [entry["seq"] for entry in found] == list(range(1, 26))
    assert [entry["text"] for entry in found] == [f"line {number}" for number in range(25)]
    last = alice.run("history 1").lines[-1]
    assert re.fullmatch(rf"\d\d:\d\d 25 {alice.name}: line 24", last)
    assert [e["seq"] for e in alice.json("history 5 --at 10")["entries"]] == [8, 9, 10, 11, 12]
    assert [e["text"] for e in alice.json("history --row 3")["entries"]] == ["line 2"]
    for wrong in ("history 0", "history 1001", "history 5x", "history --before 0"):
        assert alice.run(wrong).status == 2


@covers("history show", "history stats")
def test_history_of_tools_says_that_no_tool_was_called(alice: Person, room: str) -> None:
    alice.does("say something")
    assert alice.json("history --tools")["entries"] == []
    no_calls = f"No tool was called in {room} yet.\n"
    assert alice.does("history stats") == alice.does("history --stats") == no_calls


def test_long_row_is_cut_and_names_the_command_that_shows_the_rest(
    alice: Person, room: str
) -> None:
    text = "\n".join(f"row {number}" for number in range(60))
    his = alice.sit(room=room)
    alice.run("say", text)
    his.wait_for("more characters: /history --row")
    handle = re.search(r"/history --row \d+", his.text)
    assert handle
    his.enter(handle[0])
    his.wait_for("row 59")


@covers("search")
def test_search_finds_words_in_every_readable_room_newest_first(
    alice: Person, bob: Person, room: str, name: Named
) -> None:
    other, word = name("annex"), name("relaybox")
    alice.does(f"say the {word} is down", f"create {other}", f"note {word} restarted")
    bob_room = name("his")
    bob.does(f"create {bob_room}", "room private", f"say my own {word}")
    found = alice.json(f"search {word}")["entries"]
    assert [(entry["room"], entry["text"]) for entry in found] == [
        (other, f"{word} restarted"),
        (room, f"the {word} is down"),
    ]
    assert [e["room"] for e in bob.json(f"search {word}")["entries"]] == [bob_room, other, room]
    assert alice.json(f'search "{word} is down"')["entries"][0]["room"] == room
    assert alice.json(f'search "down is {word}"')["entries"] == []
    assert alice.json(f"search {word[:-1]}")["entries"]  # the start of a word
    assert alice.run("search ***").status == 2
    for odd in ('"', "a OR b", "NEAR(", "col:x", "x*", "%", "_", "'; DROP TABLE rows; --"):
        assert alice.run(f"search {odd}").status in (0, 2), odd


def test_message_keeps_lines_spaces_and_markup(alice: Person, room: str) -> None:
    text = "two  spaces {x} %s $You() \\n |r <b> `code`\n\n  last"
    alice.run("say", text)
    assert alice.json("history 1")["entries"][0]["text"] == text


def test_lines_per_ten_seconds_are_limited(
    serve: Callable[..., object],
) -> None:
    server = serve(limits__lines_per_10_seconds=5)
    ann = server.person("ann")  # type: ignore[attr-defined]
    done = [ann.run(f"say {number}") for number in range(7)]
    assert [one.status for one in done] == [0, 0, 0, 0, 0, 1, 1]
    assert "At most 5 lines in 10 seconds" in done[-1].err
    ann.hang_up()


def test_notice_is_shown_on_the_other_terminals_of_its_author(alice: Person, room: str) -> None:
    here, there = alice.sit(), alice.sit()
    for screen in (here, there):
        screen.enter(f"/join {room}")
        screen.wait_for_prompt(room)
    here.enter("/tool new greet = return 1")
    here.wait_for("greet")
    there.wait_for(f"· {alice.name} made the tool {room}:greet")
    here.enter("said last")
    here.wait_for(f"{alice.name}: said last")
    assert f"· {alice.name} made the tool" not in here.text  # it shows the result
    alice.does("tool remove greet")
    for screen in (here, there):
        screen.wait_for(f"· {alice.name} removed the tool {room}:greet")
