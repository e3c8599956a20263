"""Patches of several files."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sshwarma.workspaces.patch import apply_chunks, parse_patch
from sshwarma.world.errors import Conflict, Invalid, NotFound

PATCH = """*** Begin Patch
*** Add File: docs/new.md
+# New
+
+text
*** Update File: app.py
*** Move to: src/app.py
@@ def f():
-    return 1
+    return 2
@@
 last
+line
*** Delete File: old.txt
*** End Patch"""


def update(text: str, *lines: str) -> str:
    patch = "\n".join(["*** Begin Patch", "*** Update File: a", *lines, "*** End Patch"])
    (section,) = parse_patch(patch)
    return apply_chunks(text, section)


@pytest.mark.parametrize("wrap", ["{}", "\n{}\n\n", "```\n{}\n```", "```patch\n{}\n```"])
def test_sections_are_read(wrap: str) -> None:
    new, changed, deleted = parse_patch(wrap.format(PATCH))
    assert (new.action, new.path, new.lines) == ("Add", "docs/new.md", ["# New", "", "text"])
    assert (changed.path, changed.moved_to) == ("app.py", "src/app.py")
    assert [chunk.anchor for chunk in changed.chunks] == ["def f():", ""]
    assert (deleted.action, deleted.path) == ("Delete", "old.txt")


def test_chunks_are_applied_after_their_anchors() -> None:
    text = "def e():\n    return 1\n\ndef f():\n    return 1\n\nlast\n"
    (_, section, _) = parse_patch(PATCH)
    assert apply_chunks(text, section) == (
        "def e():\n    return 1\n\ndef f():\n    return 2\n\nlast\nline\n"
    )


@pytest.mark.parametrize(
    ("text", "lines", "result"),
    [
        ("a\nb\n", ["-a", "+x"], "x\nb\n"),
        ("a\nb", ["@@", " a", "-b", "+c"], "a\nc"),
        ("a\n", ["@@", "+end"], "a\nend\n"),
        ("a", ["@@", "+end"], "a\nend\n"),
        ("a\nb\n", ["@@ a", "+between"], "a\nbetween\nb\n"),
        ("a  \nb\n", ["-a", "+x", " b"], "x\nb\n"),
        ("a\nb\n", ["@@", "-a", "-b", "*** End of File"], ""),
        ("", ["@@", "+first"], "first\n"),
        ("a\r\nb\r\n", ["-a", "+x"], "x\r\nb\r\n"),
        ("a", ["@@ a", "+c"], "a\nc\n"),
        ("a\r\nb\r\n", ["@@ a", "+c"], "a\r\nc\r\nb\r\n"),
        ("b\r\na", ["@@ a", "+c", "+d"], "b\r\na\r\nc\r\nd\r\n"),
        ("a\r\n", ["@@", "+end"], "a\r\nend\r\n"),
        ("b\r\na", ["-a", "+c", "+d"], "b\r\nc\r\nd"),
        ("a\r\nb\r\n", ["-a\r", "+a"], "a\nb\r\n"),
        ("a\nb", ["-b"], "a\n"),
        ("a\nb", [" a", "-b"], "a"),
        ("    a\n    b\n", ["-a", "+c", " b"], "    c\n    b\n"),
        ("“a”\nb\n", ['-"a"', "+c"], "c\nb\n"),
        ("a\nb\n", ["-a", "+c", "", "@@", "-b", "+d", ""], "c\nd\n"),
        ("a\n\nb\n", ["-a", "+c", ""], "c\n\nb\n"),
    ],
)
def test_chunk_is_applied(text: str, lines: list[str], result: str) -> None:
    assert update(text, *lines) == result


@pytest.mark.parametrize(
    ("text", "lines", "result"),
    [
        ("foo\nxfoo\n", ["-foo", "+bar"], "bar\nxfoo\n"),
        ("xfoo\nfoo", ["-foo", "+bar"], "xfoo\nbar"),
        ("xfoo\nfoo\nfoox\n", ["-foo", "+bar"], "xfoo\nbar\nfoox\n"),
        ("xa\nb\na\nb\n", ["-a", "-b", "+c"], "xa\nb\nc\n"),
        ("1\tred\n2\tred\nred\n", ["-1\tred", "+1\tblue"], "1\tblue\n2\tred\nred\n"),
        ("1\tred\n", ["-1\tred", "+7\tred"], "7\tred\n"),
        ("concat\ncat\n", ["-     2\tcat", "+     2\tdog"], "concat\ndog\n"),
    ],
)
def test_lines_of_a_chunk_are_whole_lines(text: str, lines: list[str], result: str) -> None:
    assert update(text, *lines) == result


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("xfoo\n", ["-foo", "+bar"]),
        ("foox\n", ["-foo", "+bar"]),
        ("xfoo", ["-foo", "+bar"]),
        ("concat\n", ["-5\tcat", "+5\tdog"]),
        ("a\n", ["-", "+x"]),
    ],
)
def test_lines_of_a_chunk_are_no_parts_of_longer_lines(text: str, lines: list[str]) -> None:
    with pytest.raises(NotFound, match="chunk 1 of a: old is not in the file"):
        update(text, *lines)


def test_anchor_is_a_whole_line() -> None:
    with pytest.raises(NotFound, match="no line is 'b'"):
        update("a\x0cb\nc\n", "@@ b", "-c", "+d")


LINES = st.lists(st.text("ab \t12", max_size=3), max_size=6)


@given(LINES, LINES, LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_chunk_that_is_there_once_changes_its_lines_alone(
    before: list[str], old: list[str], after: list[str], new: list[str], end: str, ends: bool
) -> None:
    """With any line end, and also if the last line has none."""

    def join(lines: list[str]) -> str:
        text = "".join(f"{line}{end}" for line in lines)
        return text if ends or not after else text.removesuffix(end)

    has = [*before, *old, *after]
    places = [at for at in range(len(has)) if has[at : at + len(old)] == old]
    assume(old and old != new and (not after or ends or after[-1]))
    made = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    if len(places) == 1:
        assert update(join(has), *made) == join([*before, *new, *after])
    else:
        with pytest.raises(Conflict, match=f"old is there {len(places)} times"):
            update(join(has), *made)


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("", "must begin with"),
        ("*** Begin Patch\n*** Add File: a\n+x", "must end with"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 is 'hello'"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 is 'x', and must be"),
        ("*** Begin Patch\n*** Update File: a\n@@\n?x\n*** End Patch", "begins with a space"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "changes nothing"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "a deletion has no lines"),
        ("*** Begin Patch\n*** Add File: ../a\n+x\n*** End Patch", "line 2: '../a' must not leave"),
        ("*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+x\n*** End Patch", "a twice"),
    ],
)  # fmt: skip
def test_patch_is_refused_with_the_line(patch: str, why: str) -> None:
    with pytest.raises(Invalid, match=why.replace("(", r"\(")):
        parse_patch(patch)


def test_chunk_that_does_not_fit_is_named() -> None:
    with pytest.raises(NotFound, match="chunk 2 of a: old is not in the file"):
        update("a\nb\n", "@@", "-a", "+x", "@@", "-zzzzzzz")
    with pytest.raises(Conflict, match="chunk 1 of a: old is there 2 times") as caught:
        update("a\na\n", "@@", "-a")
    assert caught.value.hints == ("Give more of the lines around it.",)
    with pytest.raises(NotFound, match="chunk 1 of a: no line is 'def f'"):
        update("a\n", "@@ def f", "-a")


def test_refusal_of_a_chunk_numbers_the_lines_of_the_file() -> None:
    with pytest.raises(Conflict, match="old is there 2 times: at lines 3, 4"):
        update("a\nx\na\na\n", "@@ x", "-a")
    with pytest.raises(NotFound, match=r"nearest lines are:\n +3\tfirst"):
        update("a\nx\nfirst\n", "@@ x", "-fist")
    with pytest.raises(NotFound, match="new is, at line 3: it may be done already"):
        update("xbb\nx\nbb\n", "-aa", "+bb")


def test_long_patches_are_read_line_by_line() -> None:
    """With a copy of the lines for each of them, this would take an hour."""
    added = ["+x"] * 300_000
    assert update("a\n", " a", *added) == "a\n" + "x\n" * 300_000


def test_many_sections_are_read_at_once() -> None:
    sections = [f"*** Delete File: f{number}" for number in range(30_000)]
    patch = "\n".join(["*** Begin Patch", *sections, "*** Delete File: f7", "*** End Patch"])
    with pytest.raises(Invalid, match="has f7 twice"):
        parse_patch(patch)


def test_chunks_of_a_large_file_are_limited() -> None:
    text = "line\n" * 200_000
    with pytest.raises(Invalid, match=r"has 65 chunks for a, .* at most 64\."):
        update(text, *["@@", "-line", "+x"] * 65)
