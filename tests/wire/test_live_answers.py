"""Model work as people see it: answers as they come and stay, tools as called.

Terminals are of different width and kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from support.driver import Person, Screen, Server
from support.driver.covers import covers
from support.driver.fixtures import homes
from support.driver.script import Script, speaking

ANSWER = """\
Here is **how**, in two steps that take a line of their own where a window is narrow:

1. Write `run`:

```python
def run(job: str) -> int:
    # it says how it went
    return len(job) * 2
```

2. Call it.

| Name | Seconds |
|:-----|--------:|
| build everything | 12 |
| test | 3 |

> A remark that is long enough to go over two rows on a narrow screen.
"""

WIDE = """\
qwen: Here is how, in two steps that take a line of their own where a window is narrow:

  1. Write run:

    def run(job: str) -> int:
        # it says how it went
        return len(job) * 2

  2. Call it.

  Name              Seconds
  build everything       12
  test                    3

  > A remark that is long enough to go over two rows on a narrow screen."""

NARROW = """\
qwen: Here is how, in two
  steps that take a line of
  their own where a window is
  narrow:

  1. Write run:

    def run(job: str) -> int:
        # it says how it went
        return len(job) * 2

  2. Call it.

  Name              Seconds
  build everything       12
  test                    3

  > A remark that is long
  > enough to go over two rows
  > on a narrow screen."""

SPINNER = "[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"


@pytest.fixture(scope="module")
def model() -> Iterator[Script]:
    with speaking("qwen", "opus") as models:
        yield models


@pytest.fixture(scope="module")
def server(model: Script) -> Iterator[Server]:
    with homes() as home:
        made = Server(home(), models=model.settings)
        yield made
        assert made.stop() == 0
        assert "Traceback" not in made.log()


@pytest.fixture
def people(server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[Person, Person]]:
    number = len(server.operate("agents_list"))
    ann, ben = server.person(f"ann{number}"), server.person(f"ben{number}")
    ann.does(f"create room{number}")
    ben.does(f"join room{number}")
    yield ann, ben
    ann.hang_up()
    ben.hang_up()


def room_of(person: Person) -> str:
    return person.name.replace("ann", "room").replace("ben", "room")


def sit(person: Person, columns: int, rows: int) -> Screen:
    return person.sit(columns, rows, room=room_of(person))


def test_finished_answer_is_drawn_for_each_width(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, ben = people
    hers, his = sit(ann, 90, 40), sit(ben, 30, 40)
    going = Event()
    model.will("qwen", ANSWER[:40], going, ANSWER[40:])
    hers.enter("@qwen how?")
    for screen in (hers, his):
        screen.wait_for(re.compile(rf"^qwen: Here is \*\*how\*\*, .*\n(.*\n)?{SPINNER} qwen", re.M))
    going.set()
    hers.wait_for(WIDE)
    his.wait_for(NARROW)
    for screen in (hers, his):
        screen.wait_for_prompt(room_of(ann))
        screen.wait_for(lambda screen=screen: not re.search(SPINNER, screen.text))
        assert "**" not in screen.text
    colours = hers.pyte_screen.buffer[hers.lines.index("    def run(job: str) -> int:")]
    assert colours[4].fg != colours[13].fg  # a keyword and another word
    later = ben.sit(90, 40, room=room_of(ben))  # who comes later sees the same
    later.wait_for(WIDE[WIDE.index("  1. ") :])


def test_elapsed_seconds_are_shown_until_the_turn_ends(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, ben = people
    hers = sit(ann, 60, 20)
    going = Event()
    model.will("qwen", "Let me think", going, " about it.")
    hers.enter("@qwen well?")
    hers.wait_for("qwen: Let me think")
    hers.type("half a li")
    seen: set[str] = set()

    def ticks() -> bool:
        seen.update(re.findall(rf"{SPINNER} qwen ([\d.]+)s · \d+ tokens", hers.text))
        return len(seen) >= 4

    hers.wait_for(ticks)
    came = sit(ben, 60, 20)  # who comes in meanwhile sees it at once
    came.wait_for("qwen: Let me think")
    going.set()
    for screen in (hers, came):
        screen.wait_for("qwen: Let me think about it.")
        screen.wait_for(lambda screen=screen: not re.search(SPINNER, screen.text))
    hers.wait_for_input(f"{room_of(ann)}> half a li")
    still = hers.clear_of()
    ben.does(f"say --room {room_of(ann)} and now")
    hers.wait_for("and now")
    assert b"qwen" not in hers.raw[still:]


def is_drawn_within(screen: Screen, columns: int) -> bool:
    """Return whether the last frame is complete, and cut nowhere by the terminal."""
    frame = screen.raw[screen.raw.rfind(b"\x1b[J") :]
    text = re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", frame).decode(errors="replace")
    return b"\x1b[?7h" in frame and all(len(row) <= columns for row in text.split("\r\n"))


def test_concurrent_answers_have_separate_progress_lines(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, _ = people
    hers = sit(ann, 32, 24)
    going = Event()
    for name in ("opus", "qwen"):
        text = "".join(f"{name} says {n} thing or two that take some rows. " for n in range(9))
        model.will(name, text, going, "End.")
    hers.enter("@opus @qwen both of you")
    hers.wait_for(lambda: len(re.findall(rf"^{SPINNER} \w+ [\d.]+s", hers.text, re.M)) == 2)
    hers.wait_for(lambda: sum("take some rows" in row for row in hers.lines) >= 4)
    lines = [row for row in hers.lines if re.match(SPINNER, row)]
    assert sorted(row.split()[1] for row in lines) == ["opus", "qwen"]
    hers.resize_and_wait(24, 12)
    hers.wait_for(lambda: [row.split()[1] for row in hers.lines if re.match(SPINNER, row)] == [
        row.split()[1] for row in lines
    ])  # fmt: skip
    hers.wait_for(lambda: is_drawn_within(hers, 24))
    going.set()
    hers.wait_for(lambda: not any(re.match(SPINNER, row) for row in hers.lines))
    hers.wait_for("End.")


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("sshwarma__look", {}),
    ("sshwarma__note", {"text": "the relay box is behind the door, on the left, under the shelf"}),
    ("sshwarma__note", {"deep": [1, {"a": "b"}], "at": "door"}),
    ("sshwarma__nothing", {"text": "meant for one"}),
]


@covers("set")
def test_tool_calls_are_folded_lines_that_expand(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, ben = people
    ann.does(f"equip --room {room_of(ann)} room sshwarma:look,note")
    hers, his = sit(ann, 100, 50), sit(ben, 100, 50)
    his.enter("/set tools full")
    his.wait_for("tools is full.")
    model.will("qwen", "I look.", CALLS)
    model.will("qwen", "Done.")
    hers.enter("@qwen look around")
    for screen in (hers, his):
        screen.wait_for("qwen: Done.")
        assert "⚙ qwen → sshwarma:look\n" in screen.text
        assert '⚙ qwen → sshwarma:note deep=[1, {"a": "b"}] at=door\n' in screen.text
        assert "⚙ qwen → sshwarma__nothing\n" in screen.text
        assert re.search(r"✗ sshwarma__nothing \d\.\ds · Unknown tool", screen.text)
    call = r'→ sshwarma:note text="the relay box is behind the door, on th…" (/expand \d+)$'
    hers.wait_for(re.compile(call, re.M))
    assert 'text="the relay box is behind the door, on the left, under the shelf"\n' in his.text
    look = r"^  ✓ sshwarma:look \d\.\ds · \d+ lines, \d+ B · room\d+ .*… (/expand \d+)$"
    folded = re.compile(look, re.M)
    hers.wait_for(folded)
    assert max(map(len, hers.lines)) <= 100
    shown = re.compile(r"✓ sshwarma:look \d\.\ds · \d+ lines, \d+ B\n    room\d+\n      Here: ")
    his.wait_for(shown)
    found = folded.search(hers.text)
    assert found is not None
    hers.enter(found[1])
    hers.wait_for("qwen tool.result")
    his.enter("/set tools hidden")
    his.wait_for("tools is hidden.")
    model.will("qwen", "Again.", CALLS)
    model.will("qwen", "Finished.")
    before = his.count("sshwarma:look")
    hers.enter("@qwen once more")
    his.wait_for("qwen: Finished.")
    his.wait_for_count("✗ sshwarma__nothing", 2)
    assert his.count("sshwarma:look") == before
    assert ben.run("set tools sometimes").status == 2


def test_markdown_can_be_turned_off(model: Script, people: tuple[Person, Person]) -> None:
    ann, ben = people
    hers, his = sit(ann, 60, 20), sit(ben, 60, 20)
    his.enter("/set markdown off")
    his.wait_for("markdown is off.")
    model.will("qwen", "# Top\n\nand *more*\n\n    x = 1")
    hers.enter("@qwen show **me**")
    hers.wait_for("qwen:\n  Top\n\n  and more\n\n    x = 1\n")
    his.wait_for("qwen: # Top\n\n  and *more*\n\n      x = 1\n")
    for screen in (hers, his):
        screen.wait_for(f"{ann.name}: @qwen show **me**")


def test_plain_terminal_gets_the_answer_once_without_redraws(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, ben = people
    hers, his = sit(ann, 60, 20), sit(ben, 60, 20)
    his.enter("/set plain on")
    his.wait_for("plain is on.")
    his.wait_for_prompt(room_of(ann))
    begun = his.clear_of()
    going = Event()
    model.will("qwen", "## A part\n\n**word** by ", going, "word")
    hers.enter("@qwen speak")
    hers.wait_for(re.compile(rf"{SPINNER} qwen [1-9]"))
    his.wait_for("· qwen is answering")
    going.set()
    his.wait_for("  ## A part\n\n  word by word\n")
    assert his.count("qwen is answering") == 1
    assert b"\x1b" not in his.raw[begun:]
    assert not re.search(SPINNER, his.text)


def test_stopped_answer_leaves_no_progress_line(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, _ = people
    hers = sit(ann, 60, 20)
    model.will("qwen", "Once upon", Event())
    hers.enter("@qwen a tale")
    hers.wait_for("qwen: Once upon")
    hers.press("ctrl-c")
    hers.wait_for(f"qwen was stopped by {ann.name}")
    hers.wait_for(lambda: not re.search(SPINNER, hers.text))
    assert hers.count("qwen: Once upon") == 1


HOSTILE = (
    "```python\n\x1b]0;owned\x07\n```\n\n# \x1b[2J\n\n| \x9b31m |\n|--|\n| \x1b[H |\n\n" + "[" * 300
)


def test_control_sequences_of_a_model_are_escaped(
    model: Script, people: tuple[Person, Person]
) -> None:
    ann, _ = people
    hers = sit(ann, 80, 40)
    begun = hers.clear_of()
    model.will("qwen", HOSTILE, " end")
    hers.enter("@qwen be nasty")
    hers.wait_for("[ end")
    hers.wait_for(lambda: not re.search(SPINNER, hers.text))
    assert b"\x1b]0" not in hers.raw[begun:]
    assert b"\x1b[2J" not in hers.raw[begun:]
    assert "^[]0;owned^G" in hers.text
    assert "be nasty" in hers.text
