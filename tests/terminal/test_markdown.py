"""What models write, as terminals show it."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_MARKDOWN_LEVELS, MAX_TABLE_CELLS
from sshwarma.terminal import markdown
from sshwarma.terminal.highlight import (
    HIGHLIGHTED_LANGUAGES,
    draw_code_lines,
    highlight_code,
    style_of_token,
)
from sshwarma.terminal.markdown import (
    MAX_PARAGRAPH_BRACKETS,
    highlight_newest_code,
    render_markdown,
)
from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.terminal.text import STYLE_NAMES, Block, Line, Table
from sshwarma.terminal.width import text_width
from support.hostile_text import PAYLOADS, is_harmless

WIDE = DisplayOptions(60, "mono", True, False)


def drawn(text: str) -> Block:
    return Block(tuple(render_markdown(("model", "qwen"), ("", ": "), text=text)))


def rows(text: str, look: DisplayOptions = WIDE) -> list[str]:
    """What is seen of a text, without its colours."""
    written = render_block(drawn(text), look).decode().replace("\x1b[0m", "")
    for number in ("1", "4"):
        written = written.replace(f"\x1b[{number}m", "")
    return written.split("\r\n")[:-1]


def spans(text: str) -> list[tuple[str, str]]:
    """The styled parts of a text, without what has no style."""
    lines = [line for line in drawn(text).lines if isinstance(line, Line)]
    return [
        (style, part)
        for line in lines
        for style, part in line.spans
        if style not in ("", "text", "model")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", ["qwen: hello"]),
        ("", ["qwen: "]),
        ("one\ntwo", ["qwen: one", "  two"]),
        ("one\n  indented\n\n\n  two", ["qwen: one", "    indented", "", "    two"]),
        ("# Top\ntext\n\n### Low", ["qwen: ", "  Top", "  text", "", "  Low"]),
        ("a **b** *c* `d`", ["qwen: a b c d"]),
        ("- one\n- two\n  - three\n* four", [
            "qwen: ", "  • one", "  • two", "    • three", "  • four",
        ]),
        ("So:\n\n9. nine\n10. ten\n    more", [
            "qwen: So:", "", "  9. nine", "  10. ten", "      more",
        ]),
        ("- a\n\n- b\n\n  c", ["qwen: ", "  • a", "", "  • b", "", "    c"]),
        ("-\n- x", ["qwen: ", "  •", "  • x"]),
        ("> said\n> twice\n\nno", ["qwen: ", "  > said", "  > twice", "", "  no"]),
        ("> - a\n> > b", ["qwen: ", "  > • a", "  > > b"]),
        ("- > q\n- ```\n  c\n  ```", ["qwen: ", "  • > q", "  •   c"]),
        ("a\n\n---\n\nb", ["qwen: a", "", "  * * *", "", "  b"]),
        ("```python\nx = 1\n\n  y\n```", ["qwen: ", "    x = 1", "", "      y"]),
        ("t:\n\n    code\n      more", ["qwen: t:", "", "    code", "      more"]),
        ("```\nnever closed", ["qwen: ", "    never closed"]),
        ("[text](http://a.b/c_d_e)", ["qwen: text (http://a.b/c_d_e)"]),
        ("<http://a.b> <x@y.z> [](http://e)", ["qwen: http://a.b x@y.z http://e"]),
        ("see http://a.b/_c_/d_e. (https://x.y/z)", ["qwen: see http://a.b/_c_/d_e. (https://x.y/z)"]),
        ("**https://x.y/a_b**", ["qwen: https://x.y/a_b"]),
        ("![a *cat*](http://c/t.png)", ["qwen: [image: a cat] (http://c/t.png)"]),
        ("<b>x</b>\n\n<div>\ny", ["qwen: <b>x</b>", "", "  <div>", "  y"]),
        ("[a]: http://hidden\n\n[a]", ["qwen: [a]: http://hidden", "", "  [a]"]),
        ("[x](javascript:alert(1))", ["qwen: [x](javascript:alert(1))"]),
        ("a_b_c 2 * 3 * 4 ~~no~~", ["qwen: a_b_c 2 * 3 * 4 ~~no~~"]),
    ],
)  # fmt: skip
def test_markdown_is_rendered_as_rows(text: str, expected: list[str]) -> None:
    assert rows(text) == expected


TABLE = "| Name | Count |\n|:--|--:|\n| alpha | 3 |\n| 日本 | **1200** |\n| gone |"


def test_table_that_fits_is_aligned() -> None:
    assert rows(TABLE) == [
        "qwen: ",
        "  Name   Count",
        "  alpha      3",
        "  日本    1200",
        "  gone",
    ]


def test_table_that_does_not_fit_is_a_list() -> None:
    long = TABLE.replace("alpha", "alpha " * 5)
    listed = ["  Name: 日本", "  Count: 1200", "", "  Name: gone"]
    assert rows(long, DisplayOptions(30, "mono"))[-4:] == listed
    assert rows(TABLE, DisplayOptions(60, "dark", plain=True))[-4:] == listed
    assert render_plain(drawn(TABLE)).split("\n")[-4:] == listed


def test_quote_prefix_is_on_every_row() -> None:
    text = "> " + "word " * 12 + "\n> > " + "deep " * 8
    assert all(row.startswith("  > ") for row in rows(text, DisplayOptions(30, "mono"))[1:])
    assert rows(text, DisplayOptions(30, "mono"))[-1].startswith("  > > deep")


def test_wrapped_items_and_code_are_indented() -> None:
    look = DisplayOptions(24, "mono")
    assert rows("1. " + "word " * 6, look)[1:] == ["  1. word word word word", "     word word"]
    assert rows("```\n  call(one, two, three)\n```", look)[1:] == [
        "      call(one, two,",
        "        three)",
    ]


def test_inline_styles_are_combined() -> None:
    assert spans("**b *both* `code`** *e*") == [
        ("strong", "b "), ("strong emphasis", "both"), ("strong", " "), ("strong code", "code"),
        ("emphasis", "e"),
    ]  # fmt: skip
    assert ("heading code", "x") in spans("# A `x`")
    assert spans("[a **b**](http://c)")[1:] == [("link strong", "b"), ("dim", " (http://c)")]
    assert b"\x1b[1m\x1b[3mboth\x1b[0m" in render_block(
        drawn("**a _both_**"), DisplayOptions(60, "dark")
    )


def test_code_is_highlighted_by_language() -> None:
    found = spans("```python\ndef f(x):  # why\n    return 'a' + 1\n```")
    assert {
        ("code-keyword", "def "), ("code-name", "f"), ("code-comment", "# why"),
        ("code-string", "'a' "), ("code-number", "1"),
    } <= set(found)  # fmt: skip
    assert spans("```nothing-known\ndef f\n```") == [("code", "def f")]
    assert ("code-added", "+new") in spans("```diff\n-old\n+new\n```")


@pytest.mark.parametrize("language", sorted(HIGHLIGHTED_LANGUAGES))
def test_every_language_keeps_every_character(language: str) -> None:
    code = 'a = "x" # {b}\n\n\tif (1) { <c d="e"> } // f\n-- \'g\' $h @i\n'
    for text in (code, code.replace("\n", "\x85 ")):
        found = highlight_code(text, language)
        assert "\n".join("".join(part for _, part in line) for line in found) == text
        assert {style for line in found for style, _ in line} <= set(STYLE_NAMES)


WILD = [
    *(mark * 4000 for mark in ("\n", "(", '"', "\t", " ", "<", "{", "x", "0", "a ", "/*", "\\")),
    *(f"{mark}\n" * 1300 for mark in ("{", "(", '"', "/*", "<<A", '"""', "a:", "- ", "`", "\\")),
    *((f"{mark}" * 80 + "\n") * 24 for mark in ("(", '"', "a ", "{ ", "a.", "/*", "<")),
    ("\n" * 55 + "x") * 70,
    "a a(" * 900,
]


COMMON = ("c", "html", "json", "lua", "python", "rust", "sql", "yaml")
"""Languages that every run tries; a run of everything tries the others too."""


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(known, marks=() if known in COMMON else pytest.mark.soak)
        for known in sorted(HIGHLIGHTED_LANGUAGES)
    ],
)
def test_highlighting_any_code_is_fast(language: str) -> None:
    highlight_code("x", language)  # loading it is another matter
    for text in WILD:
        start = time.process_time()
        draw_code_lines(text[:4000], language)
        assert time.process_time() - start < 0.5, text[:20]


def test_unknown_token_subtype_uses_the_style_of_its_parent() -> None:
    from pygments.token import Token  # type: ignore[import-untyped]

    assert style_of_token(Token.Literal.String.Double.Strange) == "code-string"
    assert style_of_token(Token.Text) == style_of_token(Token) == ""


def test_code_can_be_copied_without_decoration() -> None:
    code = "def f():\n\n    return [1,\n            2]"
    seen = rows(f"So:\n\n```python\n{code}\n```\n\nDone.")[2:-2]
    assert [row[4:] for row in seen] == code.split("\n")
    assert all(not row[:4].strip() for row in seen)


def test_plain_output_marks_headings() -> None:
    bare = DisplayOptions(60, "dark", plain=True)
    assert rows("## **Part** two\ntext", bare)[1:] == ["  ## Part two", "  text"]
    assert b"\x1b" not in render_block(drawn("# a\n\n`b` **c**\n\n```python\nif 1: x\n```"), bare)


def test_ascii_terminal_gets_ascii() -> None:
    assert render_block(drawn("- é → “x”"), DisplayOptions(60, "mono", utf8=False)).isascii()


NESTED = "- " * 11 + "x"


def test_input_over_the_markdown_limits_is_shown_as_source() -> None:
    assert rows(NESTED)[-1].endswith("• x")
    for deep in ("> " * (MAX_MARKDOWN_LEVELS + 2) + "end", "- " * MAX_MARKDOWN_LEVELS + "end"):
        assert rows(deep, DisplayOptions(200, "mono")) == [f"qwen: {deep}"]
    wild = "[*a*" * (MAX_PARAGRAPH_BRACKETS + 1)
    assert rows(f"{wild}\n\n*calm*", DisplayOptions(500, "mono")) == [f"qwen: {wild}", "", "  calm"]
    table = "|a|b|\n|-|-|\n" + "|1|**2**|\n" * MAX_TABLE_CELLS
    assert rows(table)[-1] == "  |1|**2**|"


HOSTILE = [
    "[" * 12000, "![" * 6000, "[a](" * 3000, "*a **a " * 1700, "*_" * 6000, "`a``b" * 2400,
    ">" * 12000, "- " * 6000, "1. > " * 2400, "\n".join(" " * n + "- x" for n in range(150)),
    "|" * 2000 + "\n" + "-|" * 2000 + "\n" + "|x" * 2000 + "\n" + "|\n" * 900, "<a " * 4000,
    "&a;" * 4000, "\\" * 12000, ":" * 12000, "http:" * 2400, "http://a " * 1300,
    "http://" + "x)" * 5900, "<http://a>" * 1200, ("[[[ " * 33 + "\n\n") * 90, "```\n" * 3000,
    "a\n" * 300 + "=", "> a\n" * 300, "日本" * 6000, "\t" * 12000, "\x1b[31m" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:8]))
def test_rendering_any_text_is_fast(text: str) -> None:
    start = time.process_time()
    written = render_block(drawn(text), DisplayOptions(80))
    # Some 0.2 s on an idle machine; what takes more than linear time takes minutes.
    assert time.process_time() - start < 5
    assert len(written) < 40 * len(text)


@pytest.mark.parametrize(("name", "payload"), PAYLOADS, ids=[name for name, _ in PAYLOADS])
def test_control_sequences_in_markdown_are_escaped(name: str, payload: str) -> None:
    for text in (
        payload, f"# {payload}", f"`{payload}`", f"```python\n{payload}\n```", f"- {payload}",
        f"| {payload} |\n|--|\n| {payload} |", f"[{payload}](<{payload}>)", f"```{payload}\nx\n```",
        f"> **{payload}**", f"![{payload}](http://{payload})",
    ):  # fmt: skip
        assert is_harmless(render_block(drawn(text), DisplayOptions(40, "dark")))
        assert is_harmless(render_block(drawn(text), DisplayOptions(40, "dark", plain=True)))


def test_finished_code_is_highlighted_before_its_answer_is_drawn() -> None:
    highlight_code.cache_clear()
    highlight_newest_code(
        "So:\n\n```python\nx = 1\n```\n\nand\n\n```js\nlet y;\n\nz()\n```\nstill com"
    )
    assert highlight_code.cache_info().misses == 1
    spans("```js\nlet y;\n\nz()\n```")
    assert highlight_code.cache_info().hits == 1
    highlight_newest_code("nothing ``` here")


def test_parsed_markdown_is_cached() -> None:
    markdown._parse_body.cache_clear()
    render_markdown(("", "a"), text="**x**")
    assert render_markdown(("", "b"), text="**x**")[0].plain() == "bx"
    assert markdown._parse_body.cache_info().hits == 1


MARKS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(
            "\n\n\n    ##**__``~~[]()<>!|||---123.>>\\&;:/htp日👨\u200d\ufe0f\u0301\x1b\t"
        ),
    ),
    max_size=300,
)
PARTS = st.lists(
    st.sampled_from([
        "```python\n", "```\n", "- ", "1. ", "> ", "\n", "\n\n", "    ", "# ", "|a|b|\n|-|-|\n",
        "|x|", "**", "*", "`", "[a](b)", "![", "http://x_y_z", "text", "two words ", "日本",
        "\x1b[2J", "---\n",
    ]),
    max_size=40,
).map("".join)  # fmt: skip


@settings(deadline=None)
@given(st.one_of(MARKS, PARTS), st.integers(20, 90), st.booleans(), st.booleans())
@example("- " * 30, 20, True, False)
def test_any_markdown_fits_the_width(text: str, columns: int, utf8: bool, bare: bool) -> None:
    look = DisplayOptions(columns, "mono", utf8, bare)
    for row in rows(text, look):
        assert text_width(row) <= look.columns
        assert row.isprintable() or not row.isascii()
    written = render_block(drawn(text), DisplayOptions(columns, "dark", utf8, bare))
    assert is_harmless(written)


@settings(deadline=None)
@given(
    st.lists(
        st.text("abcXYZ019 ,.日本語éü'\"%/", min_size=1).map(str.strip).filter(bool), min_size=1
    ),
    st.integers(20, 90),
)
def test_plain_text_keeps_every_visible_character(lines: list[str], columns: int) -> None:
    # Digits and a dot would begin a list, which is drawn with other spaces and the same marks.
    text = "\n".join(f"x{line}" for line in lines)
    seen = "".join(rows(text, DisplayOptions(columns, "mono")))
    assert "".join(seen.split()) == "".join(f"qwen:{text}".split())


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=200))
def test_highlighting_any_code_keeps_its_text(code: str) -> None:
    for language in ("python", "js", "bash", "json", "html", "yaml", "diff", "pycon", "console"):
        found = draw_code_lines(code, language)
        assert "\n".join("".join(part for _, part in line) for line in found) == code


def test_plain_text_of_a_table_lists_headings_and_cells() -> None:
    table = next(item for item in drawn(TABLE).lines if isinstance(item, Table))
    assert table.plain().startswith("  Name: alpha\n  Count: 3\n\n")
    names = Table(((((("heading", "only"),)),),), (False,))
    assert names.plain() == "only"
