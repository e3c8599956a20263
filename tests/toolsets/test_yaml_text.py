"""The strict reader of YAML: values of JSON, and refusals of everything else."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.toolsets.yaml_text import load_yaml
from sshwarma.world.errors import Invalid

REFUSED = {
    "alias": ("a: &x 1\nb: *x", "anchors (&name)"),
    "anchor of a list": ("a: &x [1]", "line 1, column 4: anchors"),
    "anchor of a mapping": ("a: &x {b: 1}", "anchors"),
    "alias alone": ("a: *x", "aliases (*name)"),
    "billion laughs": (
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]", "anchors",
    ),
    "merge by an alias": ("a: &x {b: 1}\nc:\n  <<: *x", "anchors"),
    "tag of Python": ("a: !!python/object/apply:os.system ['id']", "tags (!name)"),
    "tag of a text": ("a: !!str 1", "line 1, column 4: tags"),
    "own tag": ("a: !x 1", "tags"),
    "tag of nothing": ("a: ! 1", "tags"),
    "tag of a set": ("a: !!set {b}", "tags"),
    "binary": ("a: !!binary aGk=", "tags"),
    "tag of a mapping": ("!!map {a: 1}", "tags"),
    "declared tag": ("%TAG ! tag:example.org,2000:\n---\na: 1", "declared"),
    "two documents": ("a: 1\n---\nb: 2", "line 2, column 1: there must be one document"),
    "deep lists": ("[" * 21 + "]" * 21, "at most 20 levels"),
    "very deep lists": ("[" * 100_000, "maximum nesting depth"),
    "deep mappings": ("{a: " * 21 + "1" + "}" * 21, "at most 20 levels"),
    "deep by indent": ("".join(" " * n + "a:\n" for n in range(22)), "at most 20 levels"),
    "deep dashes": ("- " * 21 + "x", "at most 20 levels"),
    "equal keys": ("a: 1\nb: 2\na: 3", "line 3, column 1: 'a' is there twice"),
    "equal keys inside": ("x:\n  - {b: 1, b: 2}", "'b' is there twice"),
    "equal keys, one quoted": ('a: 1\n"a": 2', "'a' is there twice"),
    "key of a number": ("1: x", "keys must be text"),
    "key of a truth": ("on: x", "line 1, column 1: keys must be text"),
    "key of null": ("~: x", "keys must be text"),
    "key of a list": ("? [a]\n: x", "keys must be text"),
    "key of a mapping": ("{a: 1}: x", "keys must be text"),
    "number of 5,000 digits": ("a: " + "9" * 5_000, "at most 18 characters"),
    "hexadecimal of 200 KB": ("a: 0x" + "f" * 200_000, "at most 18 characters"),
    "hexadecimal": ("a: 0x1F", "must be a number such as 12"),
    "octal": ("a: 010", "must be a number such as 12"),
    "base 60": ("a: 1:30", "must be a number such as 12"),
    "long base 60": ("a: 1" + ":59" * 50_000, "at most 18 characters"),
    "base 60 with a point": ("a: 1:30.5", "must be a number such as 12"),
    "underscores": ("a: 1_000", "must be a number such as 12"),
    "not a number": ("a: .nan", "must be a number such as 12"),
    "infinite": ("a: -.inf", "must be a number such as 12"),
    "too large": ("a: 1.0e+999", "a number is too large"),
    "control character": ("a: \x1b[31m", "control characters"),
    "NUL": ("a: x\0", "control characters"),
    "escaped control character": ('a: "\\e[31m"', "must not contain U+001B"),
    "escaped NUL": ('a: "\\0"', "must not contain U+0000"),
    "escaped NUL in a key": ('"\\0": 1', "must not contain U+0000"),
    "escaped surrogate": ('a: "\\ud800"', "line 1, column"),
    "tab as indent": ("a:\n\tb: 1", "line 2, column 1"),
    "open quote": ('a: "x', "column"),
    "open list": ("a: [1, 2", "column"),
    "wrong indent": ("a:\n  b: 1\n c: 2", "column"),
    "text after a value": ('a: "x" y', "column"),
    "256 KiB and a byte": ("#" * (256 * 1024 + 1), "at most 262144 bytes"),
    "over 20,000 values": ("a: [" + "1," * 19_998 + "1]", "at most 20000 values"),
    "300 KiB": ("a: " + "x" * 300 * 1024, "at most 262144 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("label", REFUSED)
def test_hostile_document_is_refused(label: str) -> None:
    text, words = REFUSED[label]
    with pytest.raises(Invalid) as refusal:
        load_yaml(text.encode("utf-8", "surrogatepass"), "toolset.yaml")
    message = str(refusal.value)
    assert message.startswith("toolset.yaml")
    assert words in message
    assert len(message) < 300 and message.isprintable()


@pytest.mark.parametrize("data", [b"a: \xff", b"\xff\xfea\0:\0", "a: 1".encode("utf-16")])
def test_other_encodings_are_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="line 1: must be text in UTF-8"):
        load_yaml(data, "toolset.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.1\n---\na: 1", {"a": 1}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: =", {"a": "="}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("a: yes\nb: off\nc: ~\nd: null", {"a": True, "b": False, "c": None, "d": None}),
        ("a: [1, -2, 0.5, -1.5e+3]", {"a": [1, -2, 0.5, -1500.0]}),
        ("a: -1.2345678901234567e-300", {"a": -1.2345678901234567e-300}),
        ("a: 1e5", {"a": "1e5"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ('a: "\\t\\r\\n\\u00e9"', {"a": "\t\r\né"}),
        ("[" * 20 + "]" * 20, json.loads("[" * 20 + "]" * 20)),
        ("a: 999999999999999999", {"a": 10**18 - 1}),
    ],
)
def test_value_is_that_of_json(text: str, value: object) -> None:
    assert load_yaml(text.encode(), "toolset.yaml") == value


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**16), 10**16)
    | st.text("ab 1:#-'\"\né", max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab 1:#-é", max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_read_as_yaml(value: object) -> None:
    assert load_yaml(json.dumps(value).encode(), "toolset.yaml") == value


@given(st.text("ab:-[]{}&*!|>'\"%@`#,?\n \t0~<=.", max_size=60))
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    with contextlib.suppress(Invalid):
        load_yaml(text.encode(), "toolset.yaml")
