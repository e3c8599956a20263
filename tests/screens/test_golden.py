"""What people see, screen by screen, compared with the files in golden/.

`pytest --update-golden` writes those files; read the difference before it is committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.driver import Person, Screen, Server
from support.driver.fixtures import homes
from support.driver.script import speaking

from .golden import check

SIZES = [(80, 24), (40, 12), (200, 60)]

TALK = (
    "a plain line of a few words",
    "a line that goes on and on and on, so that it must be wrapped at eighty columns and surely at"
    " forty, with aVeryLongWordThatHasNoPlaceToBreakInItAndIsLongerThanForty in it",
    "emoji: 🐢 👨\u200d👩\u200d👧 🏳️\u200d🌈 👍🏽 🇵🇱 ❤️ then text",
    "CJK: 日本語のとても長い文章はどこでも折り返すことができます。中文也是一样的。"
    "한국어도 그렇습니다.",
    "combining: e\u0301 n\u0303 a\u0323\u0302 Z" + "\u0300\u0316\u0334\u0361" * 9 + " end",
    "two lines:\n    indented code()\n\nand the last",
)

HOSTILE = (
    "\x1b]52;c;cm0gLXJmIH4=\x07clipboard", "\x1b[2J\x1b[H\x1b[31mred", "\x9b31m c1",
    "friend\rfoe", "bi\u202edi\u202c", "zero\u200bwidth", "tag\U000e0041s", "tab\there",
    "\u1100" * 8, "w" * 90,
)  # fmt: skip

Sit = Callable[..., Screen]
Shows = Callable[[Screen, str], None]


@pytest.fixture(scope="module")
def people() -> Iterator[tuple[Person, Person]]:
    """Ann and ben, and rooms that stay as they are made here."""
    with homes() as home:
        server = Server(home(), limits__lines_per_10_seconds=1_000_000)
        ann, ben = server.person("ann"), server.person("ben")
        ben.does(
            "create studio",
            "create workshop",
            "describe A long bench under north light. Planes hang in a row; somebody has swept.",
            "vibe quiet, focused",
            "portal north studio",
            "portal out lobby",
            "put prompt:code-style = Prefer small functions.",
            "link design-doc https://example.org/design",
            "unequip room *",
            "equip room sshwarma:look,say,join",
            "create talk",
        )
        for text in TALK:
            ben.run("say", text)
        ben.does("me waves", "note the relay box is 10.0.0.9", "create zoo")
        for text in HOSTILE:
            ben.run("say", text)
        ben.sit(room="workshop")
        yield ann, ben
        ann.hang_up()
        ben.hang_up()
        assert server.stop() == 0


@pytest.fixture
def sit(people: tuple[Person, Person]) -> Iterator[Sit]:
    """Ann at a terminal; it is closed after the test."""
    ann, _ = people
    ann.run("leave")  # so that no login says where she was last
    yield ann.sit
    ann.hang_up()


@pytest.fixture
def shows(request: pytest.FixtureRequest) -> Shows:
    update = bool(request.config.getoption("--update-golden"))
    return lambda screen, name: check(screen, name, update)


at_each_size = pytest.mark.parametrize(("columns", "rows"), SIZES, ids=lambda size: str(size))


@at_each_size
def test_room_screen_matches_golden(sit: Sit, shows: Shows, columns: int, rows: int) -> None:
    shows(sit(columns, rows, room="workshop"), f"room-{columns}x{rows}")


@at_each_size
def test_inventory_screen_matches_golden(sit: Sit, shows: Shows, columns: int, rows: int) -> None:
    screen = sit(columns, rows, room="workshop")
    screen.enter("/inv")
    screen.wait_for("Room contents:")
    shows(screen, f"inv-{columns}x{rows}")


@at_each_size
def test_chat_screen_matches_golden(sit: Sit, shows: Shows, columns: int, rows: int) -> None:
    shows(sit(columns, rows, room="talk"), f"talk-{columns}x{rows}")


@at_each_size
def test_hostile_text_screen_matches_golden(
    sit: Sit, shows: Shows, columns: int, rows: int
) -> None:
    shows(sit(columns, rows, room="zoo"), f"hostile-{columns}x{rows}")


@at_each_size
def test_verb_help_screen_matches_golden(sit: Sit, shows: Shows, columns: int, rows: int) -> None:
    screen = sit(columns, rows, room="workshop")
    screen.enter("/help portal")
    screen.wait_for("Needs the build right")
    shows(screen, f"help-{columns}x{rows}")


@at_each_size
def test_completion_menu_screen_matches_golden(
    sit: Sit, shows: Shows, columns: int, rows: int
) -> None:
    screen = sit(columns, rows, room="workshop")
    screen.type("/e")
    screen.press("tab")
    screen.wait_for("/examine")
    screen.press("tab", "tab")
    screen.wait_for(re.compile(r"^> /e\w+", re.MULTILINE))
    shows(screen, f"menu-{columns}x{rows}")


@at_each_size
def test_long_draft_with_wide_characters_matches_golden(
    sit: Sit, shows: Shows, columns: int, rows: int
) -> None:
    screen = sit(columns, rows, room="workshop")
    screen.type("日本語と emoji 🐢🐢 and e\u0301 combining, " * 3 + "then the end")
    screen.press("left", "left", "left")
    shows(screen, f"draft-{columns}x{rows}")


@at_each_size
def test_underlined_error_matches_golden(sit: Sit, shows: Shows, columns: int, rows: int) -> None:
    screen = sit(columns, rows, room="workshop")
    screen.enter("/portal north nowhere --bothh")
    screen.wait_for("no flag --bothh")
    shows(screen, f"mistake-{columns}x{rows}")


def test_resized_screen_matches_golden(sit: Sit, shows: Shows) -> None:
    screen = sit(80, 24, room="talk")
    screen.type("half a line, 半分")
    screen.wait_for(lambda: "半分" in screen.input)
    for columns, rows in ((40, 12), (200, 60), (80, 24)):
        screen.resize(columns, rows)
        shows(screen, f"resized-{columns}x{rows}")


def test_messages_while_typing_match_golden(
    sit: Sit, shows: Shows, people: tuple[Person, Person]
) -> None:
    _, ben = people
    ben.does("create live")
    screen = sit(80, 24, room="live")
    screen.type("half typed 半分 🐢")
    screen.wait_for(lambda: "🐢" in screen.input)
    for text in (*TALK[:3], *HOSTILE[:4]):
        ben.run("say", text)
    ben.does("tell ann only for you", "me waves", "decide we ship")
    screen.wait_for("we ship")
    shows(screen, "live-80x24")


@pytest.mark.parametrize("kind", ["plain", "dumb", "ascii"])
def test_ascii_dumb_and_plain_terminals_match_golden(sit: Sit, shows: Shows, kind: str) -> None:
    env = {"LC_ALL": "C"} if kind == "ascii" else {}
    screen = sit(80, 24, room="talk", term="dumb" if kind == "dumb" else "xterm", env=env)
    if kind == "plain":
        screen.enter("/set plain on")
        screen.wait_for("plain is on.")
    screen.enter("/look")
    screen.wait_for_count("  Exits: none", 3)
    if kind == "plain":
        screen.enter("/set plain off")
        screen.wait_for("plain is off.")
    shows(screen, f"{kind}-80x24")


ANSWER = """\
The build has **three** steps, and the *second* is the one that takes a minute:

1. Fetch what `requirements.lock` names
2. Compile; see https://example.org/how_it_works for the flags
   - with `-O2` where it is measured
   - 日本語のラベルも折り返すことができます

```python
@cache
def compile(unit: str, *, level: int = 2) -> bytes:
    # Everything but linking.
    return run(f"cc -O{level} {unit}")  # about 40 s
```

> Nobody has measured this since the spring.

| Step | Seconds | Who looks after it |
|:-----|--------:|:-------------------|
| fetch | 3 | ben |
| compile | 41 | nobody in particular |

### Next

Ask [the list](https://example.org/list).
"""


@pytest.fixture(scope="module")
def answered() -> Iterator[Person]:
    """Ann, in a room where a model has looked around and answered."""
    with speaking("qwen") as model, homes() as home:
        server = Server(home(), models=model.settings)
        ann = server.person("ann")
        ann.does("create answers", "equip room sshwarma:look,note")
        model.will("qwen", "I shall look.", [("sshwarma__look", {})])
        note = {"text": "the build has three steps", "about": [1, "two"]}
        model.will("qwen", [("sshwarma__note", note)])
        model.will("qwen", ANSWER)
        assert ann.run("say @qwen what does the build do?").status == 0
        yield ann
        ann.hang_up()
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("columns", "rows"), [(80, 60), (40, 60), (24, 90)], ids=lambda size: str(size)
)
def test_model_answer_screen_matches_golden(
    answered: Person, shows: Shows, columns: int, rows: int
) -> None:
    answered.run("leave")
    screen = answered.sit(columns, rows, room="answers")
    shows(screen, f"answer-{columns}x{rows}")
    answered.hang_up()


def test_model_answer_on_a_dumb_terminal_matches_golden(answered: Person, shows: Shows) -> None:
    answered.run("leave")
    screen = answered.sit(60, 60, room="answers", term="dumb")
    shows(screen, "answer-dumb-60x60")
    answered.hang_up()


def test_every_golden_file_belongs_to_a_test() -> None:
    here = Path(__file__)
    text = here.read_text()
    for file in sorted((here.parent / "golden").glob("*.txt")):
        name = file.stem.split("-")[0]
        assert f'"{name}-' in text or f'"{name}"' in text, f"nothing checks {file.name}"
