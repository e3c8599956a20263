"""For every test: the option that rewrites golden screens, and the fixtures that start a world."""

from __future__ import annotations

import pytest

pytest_plugins = ["driver.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the screens show now over tests/screens/golden",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "covers(*verbs): verbs that this test uses from end to end")
