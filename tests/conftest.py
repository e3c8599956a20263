"""Options, fixtures and the hypothesis profile of all tests.

The option rewrites golden screens, the fixtures start a world, the profile says how hypothesis
looks for examples.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support import lanes

pytest_plugins = ["support.driver.fixtures", "support.databases", "support.units_twice"]

# How long an example takes says how busy the machine is, not whether it is right; and a run fails
# or passes as the one before it. `--hypothesis-profile=default` looks for other examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("short", settings.get_profile("steady"), max_examples=30)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the screens show now over tests/screens/golden",
    )


def pytest_configure(config: pytest.Config) -> None:
    if "not soak" in config.option.markexpr and not config.option.hypothesis_profile:
        settings.load_profile("short")
    lanes.watch()
    gc.disable()  # until everything is collected: none of it is garbage
    # As in the program: a traceback with coloured source and variables takes a second to draw.
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    )


@pytest.fixture(autouse=True)
def same_log() -> Iterator[None]:
    """Restore the log after a command that configured its own."""
    before = structlog.get_config()
    yield
    if structlog.get_config() != before:
        structlog.configure(**before)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return lanes.is_left_out(collection_path, config) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lanes.assign(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage rarely: half a tenth of the time of a run went into it.

    What collection made, a million objects, is left out for good.
    """
    lanes.started()  # by modules, which ask what the machine can do: of no test
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that starts a process or a server, and is not marked so.

    The lane without processes would hold it.
    """
    yield
    found = lanes.started()
    if item.get_closest_marker("process") is None and found:
        pytest.fail(f"mark it `process`: it starts {found[0]}", pytrace=False)
