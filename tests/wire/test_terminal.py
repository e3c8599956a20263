"""The command line: help, completion, history, pastes, plain terminals, exits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from sshwarma.verbs.registry import every_entry, every_verb
from support.driver import Person
from support.driver.covers import covers

Named = Callable[[str], str]

# -- help


@covers("help", "version")
def test_help_lists_and_describes_every_verb(alice: Person) -> None:
    index = alice.does("help")
    for entry in every_entry():
        assert f"/{entry.name} " in index
        assert entry.summary in index
    for verb in every_verb():
        page = alice.does(f"help {verb.name}")
        assert page.startswith(f"{verb.usage}\n  {verb.summary}\n")
        assert all(example in page for example in verb.examples)
    for topic in alice.json("help")["topics"]:
        assert len(alice.does(f"help {topic}")) > 100
    assert alice.run("help /look").out == alice.run("help look").out
    wrong = alice.run("help protal")
    assert wrong.status == 1
    assert "Did you mean portal" in wrong.err
    assert re.fullmatch(r"sshwarma \d+\.\d+\.\d+.*\n", alice.does("version"))


def test_unknown_verb_is_underlined_and_suggests_the_nearest(alice: Person, room: str) -> None:
    screen = alice.sit(room=room)
    screen.enter("/jion workshop")
    screen.wait_for("Unknown verb /jion. Did you mean /join")
    rows = screen.everything
    at = next(i for i, row in enumerate(rows) if "Unknown verb /jion" in row)
    assert rows[at - 2 : at] == ["  /jion workshop", "  ^^^^^"]
    screen.enter("/history --befor 3")
    screen.wait_for("/history show has no flag --befor.")
    screen.enter("/journal nonsense")
    screen.wait_for("choose one of: note, decision")
    assert {entry["kind"] for entry in alice.json("history")["entries"]} == {"presence"}


def test_exec_error_underlines_the_word_as_typed(alice: Person) -> None:
    done = alice.run("jion den")
    assert done.status == 2
    assert done.err == "  jion den\n  ^^^^\nUnknown verb /jion. Did you mean /join?\n"
    done = alice.run("/jion den")
    assert done.err.startswith("  /jion den\n  ^^^^^\n")
    assert alice.run("nosuch").err.endswith("Unknown verb /nosuch. /help lists the verbs.\n")


def test_exec_error_lists_the_flags_of_the_verb(alice: Person) -> None:
    done = alice.run("look --jsn")
    assert done.status == 2
    flags = "--json --room ROOM --stdin --once KEY."
    assert done.err.endswith(f"/look has no flag --jsn. It has {flags}\n")
    done = alice.run("portal n den --bth")
    assert f"It has --both {flags}" in done.err
    done = alice.run("look --room")
    assert (done.status, done.out) == (2, "")
    assert done.err == "--room needs ROOM. Example: ssh HOST look --room workshop\n"
    for line in (
        "say --once", "say --once --room lobby hello", "say --room", "tell root --once",
        "say --once --room",
    ):  # fmt: skip
        done = alice.run(line)
        assert (done.status, done.out) == (2, ""), line
        flag = next(word for word in line.split() if word.startswith("--"))
        assert done.err.startswith(f"{flag} needs {'KEY' if flag == '--once' else 'ROOM'}."), line
    assert alice.run("say I like --once").out.endswith(": I like --once\n")
    done = alice.run("edit me:todo")
    assert (done.status, done.err) == (
        2,
        "The line editor needs a terminal. /put me:todo = TEXT replaces the text.\n",
    )


# -- settings and aliases


@covers("set")
def test_settings_survive_reconnect_and_apply_at_once(alice: Person, room: str) -> None:
    screen = alice.sit(room=room)
    screen.enter("/set timestamps on")
    screen.wait_for("timestamps is on.")
    screen.enter("with the time")
    screen.wait_for(re.compile(rf"^\d\d:\d\d {alice.name}: with the time$", re.M))
    screen.press("ctrl-d")
    screen.wait_for_end()
    again = alice.sit(room=room)
    again.enter("still")
    again.wait_for(re.compile(rf"^\d\d:\d\d {alice.name}: still$", re.M))
    values = {name: value for name, value, _, _ in alice.json("set")["values"]}
    assert values["timestamps"] == "on"
    assert values["plain"] == "off"
    assert alice.run("set timestamps perhaps").status == 2
    assert alice.run("set colour red").status == 1
    assert alice.does("set timestamps") == "timestamps is on.\n"


@covers("alias")
def test_aliases_are_stored_and_do_not_recurse(alice: Person, room: str) -> None:
    assert alice.does("alias s2 = /say two") == "/s2 now means /say two\n"
    assert alice.does("s2 more words") == f"{alice.name}: two more words\n"
    screen = alice.sit(room=room)
    screen.enter("/s2 by hand")
    screen.wait_for(f"{alice.name}: two by hand")
    alice.does("alias loop = /loop")
    assert alice.run("loop").status == 2
    taken = alice.run("alias look = /who")
    assert taken.status == 1
    assert "/look is a verb already." in taken.err
    assert alice.run("alias bad!name = /who").status == 2
    assert ["s2", "/say two"] in alice.json("alias")["aliases"]
    assert alice.does("alias s2 = -") == "Removed the alias /s2.\n"
    assert alice.run("s2 x").status == 2


# -- editing


def test_input_history_survives_reconnect_and_ctrl_r_searches_it(alice: Person, room: str) -> None:
    screen = alice.sit(room=room)
    for line in ("first thing", "/look", "second thing"):
        screen.enter(line)
    screen.wait_for(f"{alice.name}: second thing")
    screen.press("ctrl-d")
    screen.wait_for_end()
    again = alice.sit()
    again.press("up")
    again.wait_for_input("lobby> second thing")
    again.press("up", "up")
    again.wait_for_input("lobby> first thing")
    again.press("down")
    again.wait_for_input("lobby> /look")
    again.press("ctrl-c")
    again.wait_for_prompt("lobby")
    again.press("ctrl-r")
    again.type("irst")
    again.wait_for(lambda: "first thing" in again.input)
    again.press("escape")
    again.wait_for_input("lobby> first thing")


def test_ctrl_c_clears_the_line_and_ctrl_d_on_an_empty_line_leaves(
    alice: Person, bob: Person
) -> None:
    watch, screen = bob.sit(), alice.sit()
    screen.type("never said")
    screen.wait_for_input("lobby> never said")
    screen.press("ctrl-c")
    screen.wait_for_prompt("lobby")
    screen.press("ctrl-c")
    screen.wait_for("Leave with Ctrl-D or /quit.")
    screen.type("abc")
    screen.press("home", "ctrl-d")
    screen.wait_for_input("lobby> bc")
    screen.press("ctrl-c")
    screen.wait_for_prompt("lobby")
    screen.press("ctrl-d")
    assert screen.wait_for_end() == 0
    watch.wait_for(f"· {alice.name} leaves")
    assert watch.count("never said") == 0


def test_vi_mode_is_opt_in(alice: Person) -> None:
    screen = alice.sit()
    screen.type("one two")
    screen.press("escape", "left")
    screen.wait_for(lambda: screen.cursor[0] == len("lobby> one tw"))
    screen.type("db")
    screen.wait_for_input("lobby> one twdbo")
    screen.press("ctrl-c")
    screen.wait_for_prompt("lobby")
    screen.enter("/set vi on")
    screen.wait_for("vi is on.")
    screen.type("one two")
    screen.wait_for_input("lobby> one two")
    screen.press("escape")
    screen.wait_for(lambda: screen.cursor[0] == len("lobby> one tw"))
    screen.type("db")
    screen.wait_for_input("lobby> one o")


def test_tab_completes_arguments_by_their_type(
    alice: Person, person: Callable[..., Person], name: Named
) -> None:
    bob, room = person("quincy"), name("cloister")
    alice.does(
        f"create {room}", "portal trapdoor lobby", "put prompt:zebra = x",
        "unequip room sshwarma:history",
    )  # fmt: skip
    screen = alice.sit(room=room)

    def completes(typed: str, whole: str) -> None:
        screen.type(typed)
        screen.press("tab")
        screen.wait_for_input(f"{room}> {whole}".rstrip())
        screen.press("ctrl-c")
        screen.wait_for_prompt(room)

    completes("/exa", "/examine ")
    completes(f"/join {room[:-1]}", f"/join {room} ")
    completes("/go tr", "/go trapdoor ")
    completes("/portal northe", "/portal northeast ")
    completes(f"/tell {bob.name[:-1]}", f"/tell {bob.name} ")
    completes(f"hello @{bob.name[:-1]}", f"hello @{bob.name} ")
    completes("/examine prompt:z", "/examine prompt:zebra ")
    completes("/equip room sshwarma:hist", "/equip room sshwarma:history ")
    completes("/unequip room sshwarma:look,sshwarma:ex",
              "/unequip room sshwarma:look,sshwarma:exits ")  # fmt: skip
    completes("/journal mil", "/journal milestone ")
    completes("/set timest", "/set timestamps ")
    completes("/history --bef", "/history --before ")
    completes("/help port", "/help portal ")
    bells = screen.pyte_screen.bells
    screen.type("/join zzzz")
    screen.press("tab")
    screen.wait_for(lambda: screen.pyte_screen.bells > bells)


def test_tab_menu_is_cycled_by_tab_and_closed_by_escape(alice: Person) -> None:
    screen = alice.sit()
    screen.type("/set t")
    screen.press("tab")
    screen.wait_for("colours for a dark or a light background")
    screen.wait_for("the time before every line")
    screen.press("tab")
    screen.wait_for_input("lobby> /set theme")
    screen.press("tab")
    screen.wait_for_input("lobby> /set timestamps")
    screen.press("escape")
    screen.wait_for_input("lobby> /set t")
    screen.wait_for(lambda: "the time before" not in "\n".join(screen.lines))


def test_private_room_is_not_completed(alice: Person, bob: Person, name: Named) -> None:
    room = name("vault")
    alice.does(f"create {room}", "room private")
    screen = bob.sit()
    screen.type(f"/join {room[:-1]}")
    screen.press("tab")
    screen.wait_for(lambda: screen.pyte_screen.bells == 1)
    assert screen.input == f"lobby> /join {room[:-1]}"


# -- pastes, long lines, wide characters


def test_paste_of_several_lines_is_one_message(alice: Person, bob: Person, room: str) -> None:
    his, screen = bob.sit(room=room), alice.sit(room=room)
    screen.paste("def f():\n    return 1\n\n/quit\n")
    screen.wait_for("/quit")
    screen.press("enter")
    his.wait_for("/quit")
    entries = alice.json(f"history --room {room}")["entries"]
    assert [e["text"] for e in entries if e["kind"] == "chat"] == [
        "def f():\n    return 1\n\n/quit"
    ]
    screen.type("one")
    screen.press("alt-enter")
    screen.type("two")
    screen.press("enter")
    his.wait_for(re.compile(rf"{alice.name}: one\n +two"))


def test_line_over_the_limit_is_refused_and_kept(alice: Person, room: str) -> None:
    screen = alice.sit(room=room)
    screen.paste("x" * 16_383 + "é")
    screen.press("enter")
    screen.wait_for("the line has 16385 bytes; the limit is 16384")
    screen.press("backspace", "enter")
    screen.wait_for(lambda: screen.input == f"{room}>")
    # A line that is shown in the room was stored before; so were the lines sent before it.
    screen.type("and no more")
    screen.press("enter")
    screen.wait_for(f"{alice.name}: and no more")
    texts = [e["text"] for e in alice.json(f"history --room {room}")["entries"]
             if e["kind"] == "chat"]  # fmt: skip
    assert texts == ["x" * 16_383, "and no more"]
    screen.paste("y" * 70_000)
    screen.wait_for("the limit is 65536 bytes")
    screen.wait_for_prompt(room)


@pytest.mark.parametrize(
    "text",
    [
        "日本語テキスト", "🐢🐢", "👨\u200d👩\u200d👧 family",
        "e\u0301e\u0301", "한국어", "🇵🇱x", "a\u0301\u0323b",
    ],
)  # fmt: skip
def test_cursor_is_placed_correctly_at_wide_characters(alice: Person, text: str) -> None:
    from wcwidth import iter_graphemes, wcswidth

    screen = alice.sit()
    screen.type(text)
    start = len("lobby> ")
    screen.wait_for(lambda: screen.cursor[0] == start + wcswidth(text))
    last = list(iter_graphemes(text))[-1]
    screen.press("left")
    screen.wait_for(lambda: screen.cursor[0] == start + wcswidth(text) - wcswidth(last))
    screen.type("Z")
    screen.wait_for(lambda: "Z" in screen.input)
    screen.press("enter")
    screen.wait_for(f"{alice.name}: {text[: -len(last)]}Z{last}")


def test_resizes_leave_no_copies_in_the_scrollback(alice: Person, room: str) -> None:
    words = " ".join(f"word{number}" for number in range(30))
    alice.does(f"say {words}")
    screen = alice.sit(100, 30, room=room)
    screen.type("half a line")
    screen.wait_for_input(f"{room}> half a line")
    for columns, rows in ((50, 20), (120, 40), (30, 12), (30, 8), (99, 50), (60, 30)):
        screen.resize_and_wait(columns, rows)
        screen.wait_for_input(f"{room}> half a line")
    alice.does("say the end")
    screen.wait_for("the end")
    assert "".join(screen.everything).count("word7 ") == 1
    assert screen.text.count("half a line") == 1
    screen.press("ctrl-l")  # wraps for the new width
    screen.wait_for(lambda: " ".join(screen.text.split()).count(words) == 1)
    screen.wait_for_input(f"{room}> half a line")
