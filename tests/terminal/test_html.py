"""Blocks as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.html import MAX_HANG_COLUMNS, render_html
from sshwarma.terminal.picture import Picture, Pixels
from sshwarma.terminal.text import STYLE_NAMES, Table, block, line
from sshwarma.world.resources import resource_dir


class _Reader(HTMLParser):
    """Reads the text and the elements of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.sampled_from([name for name in STYLE_NAMES if name != "bare"]))
def test_text_stays_text(text: str, style: str) -> None:
    shown = block(line((style, text.replace("\n", " "))))
    read = _Reader(render_html(shown))
    assert {tag for tag, _ in read.elements} <= {"div", "span", "br", "a"}
    assert all(set(found) <= {"class", "href", "rel"} for _, found in read.elements)


def test_characters_that_act_are_shown() -> None:
    read = _Reader(render_html(block(line("a<b>&\x1b[31m\u202e"))))
    assert read.text == "a<b>&^[[31m<U+202E>"


def test_only_addresses_become_links() -> None:
    html = render_html(
        block(*(line(("link", one)) for one in ("https://a.example/?q='", "javascript:alert(1)")))
    )
    read = _Reader(html)
    assert [found["href"] for tag, found in read.elements if tag == "a"] == []
    html = render_html(block(line(("link", "https://a.example/x?a=1&b=2"))))
    assert 'href="https://a.example/x?a=1&amp;b=2"' in html and "noopener" in html


def test_table_has_heads_and_sides() -> None:
    rows = (((("", "name"),), (("", "size"),)), ((("", "a"),), (("", "7"),)))
    html = render_html(block(Table(rows, (False, True))))
    assert "<th>name</th>" in html and "<td class=right>7</td>" in html


def test_picture_is_an_image() -> None:
    pixels = Pixels(2, 2, bytes([0, 1, 1, 0]), bytes(6))
    small = Pixels(2, 2, bytes(12))
    html = render_html(block(Picture(2, 2, small, pixels, 1)))
    assert 'src="data:image/png;base64,iVBORw0KGgo' in html
    assert 'alt="image of 2 x 2 pixels"' in html


def test_every_style_has_a_look() -> None:
    css = (resource_dir("web") / "console" / "static" / "app.css").read_text()
    named = set(re.findall(r"\.s-([\w-]+)", css))
    assert {name for name in STYLE_NAMES if name and name != "bare"} <= named
    hangs = {int(number) for number in re.findall(r"\.hang-(\d+)", css)}
    assert hangs == set(range(1, MAX_HANG_COLUMNS + 1))
