"""Data in a page: where it stands, and that it ends no script."""

from __future__ import annotations

import pytest

from sshwarma.toolsets.page_data import PAGE_BEGIN, insert_data


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<head><title>x</title></HEAD ><body>", b"RULE<head><title>x</title>DATA</HEAD ><body>"),
        (b"<!DOCTYPE html>\n<body class='a'><p>", b"<!DOCTYPE html>RULE\n<body class='a'>DATA<p>"),
        (b"<!doctype html><p>", b"<!doctype html>RULEDATA<p>"),
        (b"<!-- <head> --><p>", b"RULEDATA<!-- <head> --><p>"),
    ],
)
def test_data_stands_where_the_page_can_read_it(page: bytes, expected: bytes) -> None:
    script = b"<script>window.__TOOL_DATA__ = 1;</script>"
    assert insert_data(page, 1) == expected.replace(b"DATA", script).replace(b"RULE", PAGE_BEGIN)


def test_data_cannot_end_the_script() -> None:
    made = insert_data(b"", {"a": "</script><!--\u2028\ud800"})
    inner = made.removeprefix(PAGE_BEGIN + b"<script>").removesuffix(b"</script>")
    assert b"<" not in inner and inner.isascii()
