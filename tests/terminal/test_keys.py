"""Bytes to keys, however they are cut into packets."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_PASTE_CHARACTERS
from sshwarma.terminal.keys import MAX_SEQUENCE_CHARACTERS, KeyParser, KeyPress


def keys(*packets: bytes) -> list[str]:
    parser = KeyParser()
    found: list[KeyPress] = []
    for packet in packets:
        found += parser.feed(packet)
    found += parser.flush()
    return [key.name if not key.data else f"{key.name}:{key.data}" for key in found]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"hi", ["text:hi"]),
        ("日本".encode(), ["text:日本"]),
        (b"a\xffb", ["text:a�b"]),
        (b"\x01\x05\x7f\x08\t", ["c-a", "c-e", "backspace", "backspace", "tab"]),
        (b"\r", ["enter"]),
        (b"\n", ["enter"]),
        (b"\r\n", ["enter"]),
        (b"\r\r\n\n", ["enter", "enter", "enter"]),
        (b"\x1f", ["c-_"]),
        (b"\x00", []),
        (b"\x1b", ["escape"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1b[A\x1bOB\x1b[C\x1bOD", ["up", "down", "right", "left"]),
        (b"\x1b[1;5D\x1b[1;3C\x1b[1;2A", ["c-left", "m-right", "s-up"]),
        (b"\x1b[1;6H", ["c-s-home"]),
        (b"\x1b[H\x1bOF\x1b[1~\x1b[4~\x1b[7~", ["home", "end", "home", "end", "home"]),
        (b"\x1b[3~\x1b[3;5~\x1b[5~", ["delete", "c-delete", "pageup"]),
        (b"\x1b[19~\x1b[20~", ["f8", "f9"]),
        (b"\x1b[Z", ["s-tab"]),
        (b"\x1bb\x1bf\x1bd", ["m-b", "m-f", "m-d"]),
        (b"\x1b\r\x1b\x7f", ["m-enter", "m-backspace"]),
        ("\x1bé".encode(), ["m-é"]),
        (b"\x1b[13;2u\x1b[27;5;13~", ["s-enter", "c-enter"]),
        (b"\x1b[97;5u\x1b[97u", ["c-a", "text:a"]),
        (b"\x1b[200~a\rb\x1b[201~", ["paste:a\nb"]),
        (b"\x1b[201~x", ["text:x"]),
        (b"\x1b[200~a\x1b[2", ["paste:a\x1b[2"]),
        # Unknown keys, replies to queries, mouse and focus are swallowed whole.
        (b"a\x1b[99~b", ["text:a", "text:b"]),
        (b"a\x1b[?62;22cb", ["text:a", "text:b"]),
        (b"a\x1b[>0;276;0cb", ["text:a", "text:b"]),
        (b"a\x1b[24;80Rb", ["text:a", "text:b"]),
        (b"a\x1b[0nb", ["text:a", "text:b"]),
        (b"a\x1b[<0;10;10Mb", ["text:a", "text:b"]),
        (b"a\x1b[M !!b", ["text:a", "text:b"]),
        (b"a\x1b[Ib", ["text:a", "text:b"]),
        (b"a\x1b[[Ab", ["text:a", "text:b"]),
        (b"a\x1bOPb\x1b[15~", ["text:a", "text:b"]),
        (b"a\x1b]11;rgb:0000/0000/0000\x07b", ["text:a", "text:b"]),
        (b"a\x1b]11;rgb:0000/0000/0000\x1b\\b", ["text:a", "text:b"]),
        (b"a\x1bP1$r0m\x1b\\b", ["text:a", "text:b"]),
        (b"a\x1b_Gi=1;OK\x1b\\b", ["text:a", "text:b"]),
        (b"\x1b[", []),
        (b"\x1b[1;5", []),
        (b"\x1b]0;never ended", []),
        ("\x9b31m".encode(), ["text:31m"]),
    ],
)
def test_bytes_are_parsed_to_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names
    joined = keys(*[bytes([byte]) for byte in data])
    assert _merged(joined) == _merged(names)


def _merged(names: list[str]) -> list[str]:
    """Runs of text joined: where a packet ends does not matter."""
    merged: list[str] = []
    for name in names:
        if name.startswith("text:") and merged and merged[-1].startswith("text:"):
            merged[-1] += name[5:]
        else:
            merged.append(name)
    return merged


def test_paste_over_the_limit_is_marked() -> None:
    parser = KeyParser()
    found = list(parser.feed(b"\x1b[200~" + b"x" * (MAX_PASTE_CHARACTERS + 1) + b"\x1b[201~"))
    assert [(key.name, len(key.data), key.overflow) for key in found] == [
        ("paste", MAX_PASTE_CHARACTERS, True)
    ]


def _held(parser: KeyParser) -> int:
    return len(parser._held) + sum(map(len, parser._paste))


@pytest.mark.parametrize(
    "part",
    [b"x" * 4096, b"\x1b[200~" + b"y" * 4096, b"\x1b[" + b"1;" * 2048, b"\x1b]0;" + b"z" * 4096],
)
def test_parser_memory_is_bounded_and_its_time_linear(part: bytes) -> None:
    parser = KeyParser()
    start = process_time()
    for _ in range(256):
        for _ in parser.feed(part):
            pass
        assert _held(parser) <= MAX_PASTE_CHARACTERS + MAX_SEQUENCE_CHARACTERS
    assert process_time() - start < 0.5


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_parsed_without_an_error(packets: list[bytes]) -> None:
    parser = KeyParser()
    for packet in packets:
        for key in parser.feed(packet):
            assert key.name
            assert key.name != "text" or key.data
        assert _held(parser) <= MAX_PASTE_CHARACTERS + MAX_SEQUENCE_CHARACTERS
    parser.flush()
    assert not parser.has_pending_input


PIECES = st.sampled_from(
    [
        b"a",
        "日".encode(),
        b"\x1b",
        b"\x1b[",
        b"A",
        b"1;5C",
        b"\x1b[200~",
        b"\x1b[201~",
        b"\r",
        b"\n",
        b"\x1b]",
        b"\x07",
        b"\x1b\\",
        b"\x1bO",
        b"~",
        b"\xff",
        b"M",
        b"[",
    ]
)


@given(st.lists(PIECES, max_size=15), st.data())
def test_packet_boundaries_do_not_change_the_keys(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    ends = [0, *cuts, len(whole)]
    packets = [whole[low:high] for low, high in pairwise(ends)]
    assert _merged(keys(*packets)) == _merged(keys(whole))
