"""Lanes of the suite: what their lists name exists."""

from __future__ import annotations

from pathlib import Path

from support import lanes

TESTS = Path(__file__).parent


def test_listed_files_and_folders_exist() -> None:
    listed = {*lanes.LONGEST_FILES, *lanes.UNITS_TWICE, *lanes.FOLDERS, *lanes.ONE_LOOP}
    assert not [name for name in listed if not (TESTS / name).exists()]


def test_rare_tests_exist() -> None:
    for name in lanes.RARE:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (TESTS / file).read_text(), name


def test_sampled_tests_exist_and_have_cases() -> None:
    for name in lanes.SAMPLED:
        file, _, test = name.partition("::")
        source = (TESTS / file).read_text()
        decorators, defined, _ = source.partition(f"def {test}(")
        assert defined, name
        assert "parametrize(" in decorators.rpartition("\n\n\n")[2], name
