"""For every test: the option that rewrites golden screens, the fixtures that start a world, and how
hypothesis looks for examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["driver.fixtures"]

# How long an example takes says how busy the machine is, not whether it is right; and a run fails
# or passes as the one before it. `--hypothesis-profile=default` looks for other examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the screens show now over tests/screens/golden",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "covers(*verbs): verbs that this test uses from end to end")
