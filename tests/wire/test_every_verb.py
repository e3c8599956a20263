"""A verb without an end-to-end test cannot exist.

What its declaration must have is tested in tests/verbs/test_registry.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sshwarma.verbs as declared
from sshwarma.verbs.registry import Verb, every_verb
from support.driver.covers import covered

VERBS = list(every_verb()) if declared else []
FOLDERS = (Path(__file__).parent, Path(__file__).parent.parent / "console")
COVERED = [found for folder in FOLDERS for found in covered(folder)]

each_verb = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)


def test_registry_has_verbs() -> None:
    assert len(VERBS) > 40


@each_verb
def test_every_verb_has_an_end_to_end_test(verb: Verb) -> None:
    bodies = [body for name, body in COVERED if name == verb.name]
    assert bodies, f'no test under tests/wire or tests/console is marked @covers("{verb.name}")'
    spoken = "|".join(map(re.escape, (verb.name, *verb.aliases)))
    used = re.compile(rf"""["'/ ](?:{spoken})\b""")
    assert any(used.search(body) for body in bodies), f"no test of {verb.name} uses it"


def test_every_covered_verb_exists() -> None:
    assert {name for name, _ in COVERED} - {verb.name for verb in VERBS} == set()
