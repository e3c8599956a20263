"""Patterns of names: what they match, and the bound on the work."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_GLOB_CHARACTERS, MAX_PATH_BYTES
from sshwarma.world.errors import Invalid
from sshwarma.world.glob_patterns import compile_glob, is_glob

NAMES = st.text("ab/!-\n", max_size=8)
PATTERNS = st.text("ab/*?[]!-", max_size=8)


@given(PATTERNS, NAMES)
def test_pattern_matches_as_in_a_shell(pattern: str, name: str) -> None:
    assert compile_glob(pattern, has_sets=True)(name) == fnmatchcase(name, pattern)


@given(PATTERNS, st.text("ab[]", max_size=8))
def test_bracket_means_itself_without_sets(pattern: str, name: str) -> None:
    expected = fnmatchcase(name, pattern.replace("[", "[[]"))
    assert compile_glob(pattern, has_sets=False)(name) == expected


@pytest.mark.parametrize("part", ["*a", "*?", "*[ab]", "*a?", "*", "*a*b"])
def test_many_stars_do_not_multiply_the_work(part: str) -> None:
    """Each star that is tried again for the next would take longer than anyone waits."""
    pattern = part * ((MAX_GLOB_CHARACTERS - 1) // len(part)) + "!"
    assert not compile_glob(pattern, has_sets=True)("a" * MAX_PATH_BYTES)


def test_pattern_has_a_greatest_length_and_a_name_has_not() -> None:
    compile_glob("*" * MAX_GLOB_CHARACTERS, has_sets=True)
    with pytest.raises(Invalid, match="path: must have at most 256 characters"):
        compile_glob("*" + "?" * MAX_GLOB_CHARACTERS, has_sets=True, argument="path")
    name = "[" * (MAX_GLOB_CHARACTERS + 1)
    assert not is_glob(name, has_sets=False)
    assert compile_glob(name, has_sets=False)(name)
