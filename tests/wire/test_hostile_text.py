"""No byte from another person acts on one's terminal.

ATTACK: somebody puts control sequences into everything that others may be shown: lines, emotes,
tells, names, texts of rooms and things, exits, aliases, reasons, addresses, arguments.
VERIFIED: what the other's ssh client received holds no sequence but those the server draws with,
and what the attacker's own pipe received holds none at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from support.driver import Done, Person, Screen, Server
from support.hostile_text import PAYLOADS, is_harmless

OURS_IN_EVERY_FRAME = (b"\x1b[?7l",)
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_#(c])")

ARGUMENTS = {
    "what is said": "say {}",
    "an emote": "me {}",
    "a journal entry": "note {}",
    "a description": "describe {}",
    "a vibe": "vibe {}",
    "the text of a thing": "put notes = {}",
    "the name of a thing": "put {} = x",
    "the name of a link": "link {} https://example.org/",
    "an address": "link address https://example.org/{}",
    "the name of an exit": "portal {} lobby",
    "the name of a room": "create {}",
    "an alias": "alias {} = /who",
    "the meaning of an alias": "alias evil = {}",
    "a verb": "/{}",
    "a flag": "history --{}",
    "an argument that is not one of the choices": "journal {}",
    "a search": "search {}",
    "a thing that is not there": "examine {}",
    "somebody who is not there": "tell {} hello",
    "a pattern": "equip room {}",
    "a room to do it in": "look --room {}",
    "a setting": "set {} {}",
}

LOOKS = ("/look", "/look notes", "/examine address", "/inv all", "/exits", "/history 300",
         "/journal all 300", "/rooms", "/who", "/room", "/search hello", "/vibe", "/describe",
         "/alias")  # fmt: skip


@pytest.fixture(scope="module")
def pair(shared_server: Server) -> Iterator[tuple[Person, Person]]:
    """Alice, who attacks, and bob, who watches: each logs in once for all tests here."""
    made = shared_server.person("alice-hostile"), shared_server.person("bob-hostile")
    yield made
    for one in made:
        one.hang_up()


@pytest.fixture
def alice(world: Server, pair: tuple[Person, Person]) -> Iterator[Person]:
    yield pair[0]
    pair[0].leave()


@pytest.fixture
def bob(world: Server, pair: tuple[Person, Person]) -> Iterator[Person]:
    yield pair[1]
    pair[1].leave()


@pytest.mark.parametrize("where", ARGUMENTS)
def test_hostile_arguments_are_escaped(alice: Person, bob: Person, room: str, where: str) -> None:
    watch = bob.sit(120, 40, room=room)
    for _, text in PAYLOADS:
        given = text.replace("\0", "").encode("utf-8", "surrogatepass")
        words = ARGUMENTS[where].encode().replace(b"{}", given)
        _is_dead(alice.run(words, b"", "-T") if len(words) > 9_000 else alice.run(words))
    alice.run(f"join {room}")
    _look_around(watch)
    _is_harmless_on_screen(watch)


@pytest.mark.parametrize("verb", ["say", "me", "note", "tell", "put notes", "describe", "vibe"])
def test_hostile_pipes_are_escaped(alice: Person, bob: Person, room: str, verb: str) -> None:
    watch = bob.sit(120, 40, room=room)
    command = f"tell {bob.name}" if verb == "tell" else verb
    for _, text in PAYLOADS:
        _is_dead(alice.run(command, text.encode("utf-8", "surrogatepass")))
    for raw in (b"\xff\xfe\x9b31m", b"\xc3\x28", b"\xf0\x9f\x90", bytes(range(1, 256)), b"\x9b2J"):
        _is_dead(alice.run(command, raw))
    _look_around(watch)
    _is_harmless_on_screen(watch)


def test_hostile_reasons_are_escaped(
    alice: Person, bob: Person, person: Callable[..., Person], room: str
) -> None:
    eve = person("eve")
    watch = bob.sit(120, 40, room=room)
    for _, text in PAYLOADS:
        given = text.replace("\0", "").encode("utf-8", "surrogatepass")[:2_000]
        for command in (f"mute {eve.name} 5 ", f"mute {eve.name} off ", f"ban {bob.name}-no 5 "):
            _is_dead(alice.run(command.encode() + given))
    alice.run("mute", b"")
    _look_around(watch)
    _is_harmless_on_screen(watch)


def test_hostile_keys_are_escaped(alice: Person, bob: Person, room: str) -> None:
    watch, screen = bob.sit(120, 40, room=room), alice.sit(120, 40, room=room)
    for number, (_, text) in enumerate(PAYLOADS):
        given = text.encode("utf-8", "ignore").replace(b"\x04", b"").replace(b"\x1a", b"")
        if b"/quit" in given:
            continue
        screen.send(b"pay" + given[:3_000] + b"load")
        screen.send(b"\x1b[201~\x07\x1b\\\x15\x03")
        screen.send(b"\x1b[200~pasted " + given[:3_000] + b"\x1b[201~\r")
        screen.enter(f"that was {number}")
        watch.wait_for(f": that was {number}\n")
    _look_around(watch)
    _is_harmless_on_screen(watch)
    # To who types them one payload is Ctrl-L, and some make drafts of many rows: the repaint and
    # the way up over five rows are the server's own.
    _is_harmless_on_screen(screen, but=(b"\x1b[H", b"\x1b[2K", b"\x1b[5A"))


def test_terminal_state_survives_every_payload(alice: Person, bob: Person, room: str) -> None:
    """Payloads change no state of a terminal that obeyed all that it received.

    Its modes, title, margins, colours and history are the same as before.
    """
    watch = bob.sit(room=room)
    watch.type("half a line")
    watch.wait_for_input(f"{room}> half a line")
    modes, charset = set(watch.pyte_screen.mode), watch.pyte_screen.charset
    for _, text in PAYLOADS:
        alice.run("say", text.encode("utf-8", "surrogatepass"))
    alice.does("say it is over")
    watch.wait_for("it is over")
    watch.wait_for_input(f"{room}> half a line")
    assert watch.pyte_screen.mode == modes
    assert watch.pyte_screen.charset == charset
    assert (watch.pyte_screen.title, watch.pyte_screen.icon_name) == ("", "")
    assert watch.pyte_screen.margins is None
    assert watch.count("Welcome, ") == 1
    assert not re.search("[\u0300-\u036f]{5}", watch.raw.decode())
    for row in watch.everything:
        if "it is over" in row:
            assert row == f"{alice.name}: it is over"


def test_hostile_user_names_are_escaped(
    serve: Callable[..., Server],
) -> None:
    server = serve(registration__mode="open", registration__per_hour_per_address=1000)
    for number, (_, text) in enumerate(PAYLOADS[:40]):
        if any(c in text for c in "\0\n"):
            continue
        newcomer = server.stranger(f"x{text[:40]}")
        done = newcomer.run("look", b"", "-T")
        assert done.status in (1, 255), number
        _is_dead(done)
    assert is_harmless(server.log().encode().replace(b"\x1b[0m", b""))


def test_control_sequences_in_motd_are_escaped(serve: Callable[..., Server]) -> None:
    server = serve(motd="Mind the gap \x1b]0;pwned\x07\x9b31m\nsecond row")
    ann = server.person("ann")
    screen = ann.sit()
    screen.wait_for("Mind the gap ^[]0;pwned^G<U+009B>31m\nsecond row")
    _is_harmless_on_screen(screen)
    ann.hang_up()


def test_a_hostile_terminal_type_and_locale_are_not_echoed(alice: Person) -> None:
    screen = alice.sit(term="xterm\x1b]0;x\x07", env={"LC_ALL": "\x1b]0;x\x07.utf8"})
    screen.enter("/who")
    screen.wait_for("Who is here:")
    _is_harmless_on_screen(screen)


def _look_around(watch: Screen) -> None:
    for line in LOOKS:
        watch.enter(line)
    watch.enter("I have looked")
    watch.wait_for(": I have looked")


def _is_harmless_on_screen(watch: Screen, but: tuple[bytes, ...] = ()) -> None:
    raw = watch.raw
    assert is_harmless(raw), _first_live(raw)
    for what, text in PAYLOADS:
        for sequence in SEQUENCE.findall(text.encode("utf-8", "surrogatepass")):
            if sequence not in (*OURS_IN_EVERY_FRAME, *but):
                assert sequence not in raw, (what, sequence)


def _is_dead(done: Done) -> None:
    """What came out of a pipe has nothing that a terminal would obey."""
    for text in (done.raw.decode(), done.err):
        live = [
            char
            for char in text
            if char not in "\r\n\u200d"
            and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        ]
        assert live == [], text


def _first_live(raw: bytes) -> str:
    for at in range(0, len(raw), 50):
        if not is_harmless(raw[: at + 50].decode(errors="ignore").encode()):
            return repr(raw[max(0, at - 200) : at + 100])
    return "?"
