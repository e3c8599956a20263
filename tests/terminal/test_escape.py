"""Nothing that came from somebody acts on a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.terminal.text import STYLE_NAMES, block, line
from sshwarma.terminal.width import MAX_COMBINING_MARKS, split_clusters, text_width
from support.hostile_text import PAYLOADS, is_harmless
from support.terminal_person import Person

HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b[]0;\x07\x9b\r\n\u202e\u200d👨🏽é"))
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hello, wörld", "hello, wörld"),
        ("\x1b[31m", "^[[31m"),
        ("\x7f\x00", "^?\u2400"),
        ("\x9b", "<U+009B>"),
        ("\u202e", "<U+202E>"),
        ("a\tb", "a    b"),
        ("\ud800", "<U+D800>"),
        ("\U000e0041", "<U+E0041>"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
        ("❤️", "❤️"),
        ("🏳️‍🌈", "🏳️‍🌈"),
        ("a\u200db", "a<U+200D>b"),
        ("👨\u200d", "👨<U+200D>"),
        ("नमस्ते", "नमस्ते"),
        ("e" + "\u0301" * 9, "e" + "\u0301" * MAX_COMBINING_MARKS),
    ],
)
def test_control_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def _acts(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_no_code_point_that_acts_on_a_terminal_passes() -> None:
    everything = "x".join(map(chr, range(sys.maxunicode + 1)))
    assert {char for char in escape_controls(everything) if _acts(char)} == set()


@given(HOSTILE)
def test_escaping_any_text_is_safe_and_idempotent(text: str) -> None:
    shown = escape_controls(text)
    assert {char for char in shown if _acts(char)} <= {"\u200d"}
    assert escape_controls(shown) == shown


@given(HOSTILE)
def test_clusters_of_escaped_text_are_narrow_and_short(text: str) -> None:
    for cluster in split_clusters(escape_controls(text)):
        assert text_width(cluster) <= 2
        assert len(cluster) <= 32


@pytest.mark.parametrize("payload", [text for _, text in PAYLOADS], ids=[n for n, _ in PAYLOADS])
@pytest.mark.parametrize("utf8", [True, False])
def test_rendered_payload_is_harmless(payload: str, utf8: bool) -> None:
    said = block(line(("name", payload), ": ", ("text", payload), payload))
    for is_plain in (False, True):
        written = render_block(said, DisplayOptions(40, "dark", utf8, is_plain))
        assert is_harmless(written)
        assert utf8 or written.isascii()
    assert is_harmless(render_plain(said, utf8).encode())
    assert "\n" not in render_plain(said, utf8)


@pytest.mark.parametrize("payload", [text for _, text in PAYLOADS], ids=[n for n, _ in PAYLOADS])
@pytest.mark.parametrize("is_plain", [True, False])
def test_payload_is_harmless_in_every_part_of_the_screen(
    sit: Callable[..., Person], payload: str, is_plain: bool
) -> None:
    alice = sit(history=[payload], plain=is_plain)
    terminal = alice.terminal
    terminal.set_prompt(("prompt", payload))
    terminal.set_status(line(payload))
    terminal.set_live_block("live", block(payload))
    alice.hear(payload, line(("text", payload), hang=99))
    terminal.prefill(payload)
    alice.wait()
    alice.type("\x01x")
    alice.type("\x12" + "a")
    alice.type("\x07")
    alice.type("\x1b[200~" + payload.encode(errors="replace").decode() + "\x1b[201~")
    alice.wait(2)
    alice.type("\r")
    alice.wait()
    terminal.close()
    written = alice.bytes
    if is_plain:
        assert b"\x1b" not in written
        written = written.replace(b"\b", b"")  # the only way a plain terminal goes back
    assert is_harmless(written)


def test_every_style_is_reset_at_the_end_of_a_row() -> None:
    for style in STYLE_NAMES:
        for theme in ("dark", "light", "mono"):
            written = render_block(block(line((style, "x" * 100))), DisplayOptions(40, theme))
            for row in written.split(b"\r\n"):
                assert b"\x1b" not in row or row.endswith(b"\x1b[0m")
